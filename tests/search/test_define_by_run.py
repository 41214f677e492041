"""Objectives of Optuna under our engines: the same functions, run by the real Optuna as well."""

import math
import subprocess
import sys

import optuna
import pytest

import zenturio as zen
from zenturio.errors import InputError
from zenturio.search.define_by_run import DefineByRunSearch

optuna.logging.set_verbosity(optuna.logging.ERROR)


def network(trial):
    """Branches, a loop over a number, logarithms, steps, choices of all types, attributes."""
    rate = trial.suggest_float("rate", 1e-5, 1, log=True)
    kind = trial.suggest_categorical("the kind", ["sgd", None, True, 3])
    layers = trial.suggest_int("layers", 1, 4)
    loss = (math.log10(rate) + 3) ** 2 + (kind is not None)
    for at in range(layers):
        loss += abs(trial.suggest_int(f"units/{at}", 1, 256, log=True) - 40) / 256 / layers
    if kind == "sgd":
        loss += abs(trial.suggest_float("momentum", 0, 0.9, step=0.3) - 0.6)
        loss += trial.suggest_int("even", 2, 10, step=2) / 100
    trial.set_user_attr("layers", layers)
    assert trial.params["layers"] == layers
    return loss


def check(params):
    """Every value is one that the objective can have asked for."""
    assert 1e-5 <= params["rate"] <= 1
    assert params["the kind"] in ["sgd", None, True, 3]
    assert type(params["layers"]) is int
    units = [name for name in params if name.startswith("units/")]
    assert units == [f"units/{at}" for at in range(params["layers"])]
    assert all(type(params[name]) is int and 1 <= params[name] <= 256 for name in units)
    assert ("momentum" in params) == (params["the kind"] == "sgd")
    if "momentum" in params:
        assert params["momentum"] in (0.0, 0.3, 0.6, 0.9)
        assert params["even"] in (2, 4, 6, 8, 10)


@pytest.mark.parametrize("engine", ["auto", "ga", "random"])
def test_an_objective_of_optuna_runs_unchanged(engine):
    search = zen.from_optuna(network, engine=engine, seed=2).run(25)
    assert [trial.number for trial in search.trials] == list(range(25))
    assert search.stop_reason == "budget"
    for trial in search.trials:
        check(trial.params)
        assert trial.user_attrs == {"layers": trial.params["layers"]}
        fixed = optuna.trial.FixedTrial(trial.params)
        assert network(fixed) == pytest.approx(trial.scores[0])
    assert search.best_value == min(trial.scores[0] for trial in search.trials)
    assert search.best_params == search.best_trial.params
    again = zen.from_optuna(network, engine=engine, seed=2).run(25)
    assert [trial.params for trial in again.trials] == [trial.params for trial in search.trials]


def test_conditions_are_inferred_from_trials_and_the_engine_sees_no_inactive_parameter():
    search = zen.from_optuna(network, engine="random", seed=0).run(60)
    conditions = {name: condition for name, (_, condition) in search._model.items()}
    assert conditions["rate"] is conditions["units/0"] is None
    assert (conditions["units/2"].name, conditions["units/2"].above) == ("layers", 2.5)
    assert conditions["momentum"].name == conditions["even"].name == "the kind"
    assert conditions["momentum"].values == frozenset({"c0"})


def test_the_default_engine_learns_where_chance_does_not():
    learnt = zen.from_optuna(network, seed=1).run(60).best_value
    assert learnt < zen.from_optuna(network, engine="random", seed=1).run(60).best_value
    assert learnt < 0.3


@pytest.mark.slow
def test_inferring_the_space_costs_no_quality():
    units = {
        f"u{at}": zen.parameter(zen.loguniform(0.5, 256.5), when=f"layers > {at}")
        for at in range(4)
    }
    space = zen.Space(
        rate=zen.loguniform(1e-5, 1), kind=["sgd", "none", "true", "three"], layers=range(1, 5),
        **units,
        momentum=zen.parameter([0, 0.3, 0.6, 0.9], when="kind == 'sgd'"),
        even=zen.parameter(range(2, 11, 2), when="kind == 'sgd'"),
    )  # fmt: skip
    kinds = {"sgd": "sgd", "none": None, "true": True, "three": 3}

    def declared(point):
        values = {name: value for name, value in point.items() if value is not None}
        params = {"rate": values["rate"], "the kind": kinds[values["kind"]]}
        params |= {name: values[name] for name in ("layers", "momentum", "even") if name in values}
        params |= {
            f"units/{at}": min(max(round(values[f"u{at}"]), 1), 256)
            for at in range(params["layers"])
        }
        return network(optuna.trial.FixedTrial(params))

    def median(scores):
        return sorted(scores)[4]

    by_run = median(zen.from_optuna(network, seed=k).run(100).best_value for k in range(8))
    known = median(
        zen.search(space, declared, engine="auto", budget=100, seed=k).best.scores[0]
        for k in range(8)
    )
    assert by_run < 1.5 * known


def test_a_condition_on_a_real_and_one_that_nothing_explains_are_searched_too():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        y = trial.suggest_float("y", 0, 1)
        above = trial.suggest_float("z", 0, 1) if x > 0.5 else 1
        both = trial.suggest_int("n", 0, 5) if x + y > 1 else 3
        return x + above + both

    search = zen.from_optuna(objective, engine="random", seed=4).run(80)
    conditions = {name: condition for name, (_, condition) in search._model.items()}
    assert conditions["z"].above == pytest.approx(0.5, abs=0.1)
    assert conditions["n"] is None
    assert all(("z" in t.params) == (t.params["x"] > 0.5) for t in search.trials)


def test_ranges_that_change_from_trial_to_trial_are_one_wide_range():
    def objective(trial):
        n = trial.suggest_int("n", 1, 9)
        return trial.suggest_int("m", 1, n) - n

    search = zen.from_optuna(objective, engine="random").run(40)
    assert all(1 <= t.params["m"] <= t.params["n"] for t in search.trials)
    assert search.best_value <= -6


@pytest.mark.parametrize("jobs", [1, 4])
def test_failures_pruned_trials_and_several_objectives(jobs):
    def objective(trial):
        x = trial.suggest_int("x", 0, 30)
        if x % 5 == 1:
            raise optuna.TrialPruned
        if x % 5 == 2:
            return None
        return (math.nan, 0) if x % 5 == 3 else (x, -x)

    search = zen.from_optuna(objective, ["minimize", "maximize"], jobs=jobs).run(25)
    failed = {trial.params["x"] % 5 for trial in search.trials if not trial.scores}
    assert failed == {1, 2, 3}
    assert len({trial.params["x"] for trial in search.trials}) >= 25 - jobs
    assert sorted(trial.number for trial in search.trials) == list(range(25))
    more = search.run(50)
    assert more.stop_reason == "exhausted"
    assert {trial.params["x"] for trial in more.trials} == set(range(31))
    assert search.best_value == 0


def test_an_objective_that_prunes_is_refused_with_the_reason():
    def reports(trial):
        trial.suggest_int("x", 0, 9)
        trial.report(1.0, 0)

    def asks(trial):
        return trial.suggest_int("x", 0, 9) if trial.should_prune() else 0

    for objective in (reports, asks):
        with pytest.raises(InputError, match=r"to be pruned: trial.report\(\)"):
            zen.from_optuna(objective).run(3)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (lambda trial: 1.0, "suggested no parameter"),
        (lambda trial: trial.suggest_int("x", 3, 1), "from 3 to 1 has no values"),
        (lambda trial: trial.suggest_float("x", 0, 1, log=True), "cannot be logarithmic"),
        (lambda trial: trial.suggest_float("x", 0, 1, step=0), "has step=0"),
        (lambda trial: trial.suggest_categorical("x", []), "has no choices"),
        (
            lambda trial: trial.suggest_int("x", 0, 1) + trial.suggest_float("x", 0, 1),
            "suggested in two ways: int 0 to 1 step 1 and float 0 to 1",
        ),
        (lambda trial: "a" + str(trial.suggest_int("x", 0, 1)), "an objective returned"),
    ],
)
def test_what_cannot_be_searched_is_refused(objective, message):
    with pytest.raises(InputError, match=message):
        zen.from_optuna(objective).run(2)
    with pytest.raises(InputError, match="no trial has a score"):
        _ = zen.from_optuna(objective).best_params


def test_errors_of_the_objective_are_raised():
    def objective(trial):
        return 1 / (trial.suggest_int("x", 0, 0))

    with pytest.raises(ZeroDivisionError):
        zen.from_optuna(objective).run(2)


def test_no_optuna_is_needed():
    program = (
        "import sys; sys.modules['optuna'] = None\n"
        "import zenturio as zen\n"
        "search = zen.from_optuna(lambda trial: trial.suggest_int('x', -9, 9) ** 2, engine='hill')\n"
        "assert search.run(30).best_params == {'x': 0}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("engine", ["auto", "ga"])
def test_a_search_that_is_loaded_goes_on_as_if_it_had_never_stopped(engine, tmp_path):
    whole = zen.from_optuna(network, engine=engine, seed=3).run(20).run(10)
    zen.from_optuna(network, engine=engine, seed=3).run(20).save(tmp_path / "search.json")
    loaded = DefineByRunSearch.load(tmp_path / "search.json", network)
    assert loaded.best_params in [trial.params for trial in whole.trials[:20]]
    assert loaded.run(10).trials == whole.trials


def test_what_json_has_not_and_what_is_no_search_are_refused(tmp_path):
    def objective(trial):
        trial.set_user_attr("odd", {1, 2})
        return trial.suggest_int("x", 0, 3)

    file = tmp_path / "search.json"
    with pytest.raises(InputError, match="cannot be saved: Object of type set"):
        zen.from_optuna(objective).run(1).save(file)
    with pytest.raises(InputError, match=r"cannot be saved: \(1, 2\) is a choice"):
        zen.from_optuna(lambda trial: trial.suggest_categorical("t", [(1, 2)])[0]).run(1).save(file)
    assert not file.exists()
    for text in ("[]", "{}", '{"format": 1, "settings": {}, "trials": [{}]}'):
        file.write_text(text)
        with pytest.raises(InputError, match="is not a saved search"):
            DefineByRunSearch.load(file, objective)
    zen.from_optuna(network).run(1).save(file)
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(InputError, match="another version"):
        DefineByRunSearch.load(file, network)
