"""The best points of a study by definition: every record is an object, every point is compared."""

from zenturio.annotate.scan import goals_of
from zenturio.experiment.aggregates import default_aggregate, mean, median
from zenturio.record.entities import label_of
from zenturio.study.driver.progress import score


def naive_best(repository, study, count, objective, *, without=(), rows):
    """A row for each point: values, scores, used, ok, tried, machine, round; and of how many."""
    definition = repository.definition(study)
    names = [field.name for field in definition.parameters if field.kind != "seed"]
    goals = goals_of(objective, [f.name for f in (*definition.parameters, *definition.metrics)])
    units = {field.name: field.unit for field in definition.metrics}
    kinds = [default_aggregate(units.get(goal.expression.text, "")) for goal in goals]
    reducers = [{"mean": mean, "median": median}[kind] for kind in kinds]
    points = {}
    for record in repository.records(study, states=("ok", "failed", "wrong", "timeout")):
        label = label_of(record)
        if record.digest in without or not rows.holds(record) or rows.machine not in ("", label):
            continue
        round_ = record.round if rows.round == "all" else None
        key = (tuple(record.values.get(name) for name in names), label, round_)
        points.setdefault(key, []).append(record)
    scored = []
    for (values, label, round_), records in points.items():
        ok = [record for record in records if record.state == "ok"]
        scores = [[score(g.expression, r.values, r.outcome) for g in goals] for r in ok]
        used = [numbers for numbers in scores if None not in numbers]
        if used:
            columns = zip(reducers, zip(*used, strict=True), strict=True)
            means = [reduce(column) for reduce, column in columns]
            facts = (len(used), len(ok), len(records), label, round_)
            scored.append((values, means, *facts))
    signs = [1 if goal.direction == "minimize" else -1 for goal in goals]

    def losses(point):
        return [sign * value for sign, value in zip(signs, point[1], strict=True)]

    ranked = sorted(scored, key=losses)
    chosen = ranked[:count] if len(goals) == 1 else [
        point for point in ranked if not any(_dominates(losses(o), losses(point)) for o in ranked)
    ]  # fmt: skip
    return chosen, len({values for values, *_ in points})


def _dominates(one, other):
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
