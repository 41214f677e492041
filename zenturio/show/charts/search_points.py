"""The points that a search tried: a row for each, in the order in which they started."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zenturio.annotate.grammar import read
from zenturio.annotate.statements import ObjectiveStatement
from zenturio.errors import ExpressionError, InputError, Passage
from zenturio.expression import Expression, Value, parse
from zenturio.query import frame
from zenturio.query.origins import Origins
from zenturio.record import Repository
from zenturio.record.row_filter import NEWEST, RowChoice
from zenturio.show.chart import Kind
from zenturio.show.charts.chart_table import is_number, missing
from zenturio.show.charts.objectives import numbers


def visited(
    repository: Repository,
    studies: Sequence[str],
    *,
    where: str | Passage | None = None,
    objective: str = "",
    y: str = "",
    apart: bool = False,
    most: int | None = None,
    outside: bool = True,
    rows: RowChoice = NEWEST,
) -> pd.DataFrame:
    """The points of *studies* that were begun and meet *where*, with what they were worth.

    Behind parameters and metrics stand ``visit``, a number for each point in the order in which
    they were begun, ``study`` where there are several, and a column for each goal. These are the
    study's, or those that the *objective* names (``MINIMIZE expr, MAXIMIZE expr``), or the formula
    *y*. A point is worth the mean of its repeats; *apart*, each repeat has a row of its own.
    What failed is there, and is worth nothing (NaN). Of more experiments than *most* there is a
    sample. Without *outside*, points that the present space does not hold are left out. *rows*: of
    which kind of machine, and of which round.
    """
    asked = _Asked(where, objective, y, apart, most, outside, rows)
    tables = [_one(repository, study, asked) for study in studies]
    if len(tables) == 1:
        return tables[0]
    taken = {column for table in tables for column in table.columns}
    name = _unused("study", taken)
    whole = pd.concat(
        [t.assign(**{name: study}) for t, study in zip(tables, studies, strict=True)],
        ignore_index=True,
    )
    attrs = [table.attrs for table in tables]
    if any(each["goals"] != attrs[0]["goals"] for each in attrs):
        raise InputError(
            f"{', '.join(studies)} have different objectives",
            hint="say one for all: --objective 'MINIMIZE wtime'",
        )
    whole.attrs = attrs[0] | {
        "study": ", ".join(studies),
        "parameters": [*dict.fromkeys(n for each in attrs for n in each["parameters"]), name],
        "of": sum(each["of"] for each in attrs),
        "left_out": sum(each["left_out"] for each in attrs),
        **Origins.together(attrs).attrs(),
        "sql": "\n\n".join(each["sql"] for each in attrs),
        "runs": [name, *attrs[0]["runs"]],
    }
    return whole


def visited_for(
    kind: Kind,
    repository: Repository,
    studies: Sequence[str],
    where: str | Passage | None,
    objective: str,
    y: str,
    wishes: Mapping[str, Any],
    *,
    most: int | None = None,
    outside: bool = False,
    rows: RowChoice = NEWEST,
) -> pd.DataFrame:
    """What a chart of that *kind* with these *wishes* is drawn from.

    Repeats stand apart where their noise is looked at, or each is a search of its own. Points that
    the present space does not hold take part with *outside*, and in the history of a search.
    """
    if objective and y:
        raise InputError("a y and an objective both say what is looked at", hint="give one of them")
    if kind == "parallel" and not objective:
        goals = repository.definition(studies[0]).goals
        y = y or (goals[0]["expression"] if goals else "wtime")
    several = wishes.get("aggregate") == "median" or wishes.get("colour") == "repeat"
    apart = kind == "importance" or (kind == "convergence" and several)
    return visited(
        repository, studies, where=where, objective=objective, y=y, apart=apart, most=most,
        outside=outside or kind == "convergence", rows=rows,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Asked:
    where: str | Passage | None
    objective: str
    y: str
    apart: bool
    most: int | None
    outside: bool
    rows: RowChoice


def _one(repository: Repository, study: str, asked: _Asked) -> pd.DataFrame:
    """The visits of one study."""
    table = frame(
        repository, study, where=asked.where, everything=True, most=asked.most,
        outside=asked.outside, rows=asked.rows,
    )  # fmt: skip
    facts, parameters = table.attrs["facts"], table.attrs["parameters"]
    goals = _goals(repository.definition(study).goals, asked, table)
    begun = table[table[facts["started"]].notna()]
    begun = begun.sort_values(
        [facts["started"], facts["index"], facts["repeat"]], kind="stable", ignore_index=True
    )
    ok = (begun[facts["status"]] == "ok").to_numpy(dtype=bool, na_value=False)
    scores = {goal.text: np.where(ok, _scores(goal, begun), np.nan) for goal in goals}
    visit = _unused("visit", begun.columns)
    found: pd.DataFrame = begun.drop(
        columns=[n for f, n in facts.items() if f != "repeat"], errors="ignore"
    )
    found = found.assign(**scores, **{visit: _numbered(begun, parameters)})
    total = len(found) if asked.apart else int(found[visit].max()) if len(found) else 0
    if not asked.apart:
        found = _means(found, visit, parameters, [*table.attrs["metrics"], *scores])
    found.attrs = dict(table.attrs) | {
        "visit": visit,
        "goals": [f"{goal.direction} {goal.text}".strip() for goal in goals],
        "noun": "experiments" if asked.apart else "points",
        "visited": "points",
        "runs": [facts["repeat"]] if asked.apart else [],
        "of": total,
    }
    return found


@dataclass(frozen=True, slots=True)
class _Goal:
    direction: str
    """Empty: nobody said."""
    formula: Expression

    @property
    def text(self) -> str:
        """What its column is called: a formula that is a name alone, that name."""
        text = self.formula.text
        return next((name for name in self.formula.names if text in (name, f"`{name}`")), text)


def _goals(own: Iterable[Mapping[str, str]], asked: _Asked, table: pd.DataFrame) -> list[_Goal]:
    """The study's own goals, or those that are asked for instead."""
    known = dict.fromkeys([*table.attrs["parameters"], *table.attrs["metrics"]])
    found = [_Goal(each["direction"], parse(each["expression"])) for each in own]
    if asked.objective:
        aim = read(Passage.of(f"OBJECTIVE {asked.objective}", "--objective"))
        assert isinstance(aim, ObjectiveStatement), "an OBJECTIVE is an aim"
        found = [_Goal(goal.direction, goal.expression) for goal in aim.goals]
    elif asked.y:
        text = f"`{asked.y}`" if asked.y in known else asked.y
        other = _Goal("", parse(Passage.of(text, "--y")))
        found = [goal for goal in found if goal.text == other.text] or [other]
    for goal in found:
        goal.formula.check(known)
    return found


def _scores(goal: _Goal, table: pd.DataFrame) -> np.ndarray:
    """The value of a goal in each row; NaN where it has none, or one that is no number."""
    if goal.text in table.columns and is_number(table[goal.text]):
        return numbers(table[goal.text])
    formula = goal.formula
    names = sorted(formula.names & set(table.columns))
    columns = [table[name].astype(object).tolist() for name in names]
    rows = zip(*columns, strict=True) if columns else ((),) * len(table)
    return np.array([_score(formula, dict(zip(names, row, strict=True))) for row in rows])


def _score(formula: Expression, values: Mapping[str, Any]) -> float:
    known: dict[str, Value] = {n: None if missing(v) else v for n, v in values.items()}
    try:
        found = formula.value(known)
    except ExpressionError:
        return math.nan
    return math.nan if found is None or isinstance(found, str) else float(found)


def _numbered(begun: pd.DataFrame, parameters: Sequence[str]) -> np.ndarray:
    """The number of each row's point, in the order in which points come first."""
    if not parameters or begun.empty:
        return np.ones(len(begun), dtype=np.int64)
    groups = begun.groupby(list(parameters), sort=False, dropna=False, observed=True)
    found: np.ndarray = groups.ngroup().to_numpy() + 1
    return found


def _means(
    rows: pd.DataFrame, visit: str, parameters: Sequence[str], metrics: Iterable[str]
) -> pd.DataFrame:
    """A row for each point: its parameters, and the means of what was measured."""
    first = rows.drop_duplicates(visit).set_index(visit)[list(parameters)]
    numeric = [name for name in dict.fromkeys(metrics) if is_number(rows[name])]
    means = rows[[n for n in numeric if n not in parameters]].astype(float)
    found: pd.DataFrame = first.join(means.groupby(rows[visit]).mean())
    return found.reset_index()


def _unused(name: str, names: Iterable[str]) -> str:
    """*name*, longer if a column is called so."""
    while name in names:
        name += "_"
    return name
