"""Databases made by the real Optuna become studies of ours: its trials, and nothing else."""

import math
import shutil
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

import optuna
import pytest

import zenturio as zen
from zenturio.cli.main import app
from zenturio.errors import InputError
from zenturio.record.open import open_repository
from zenturio.study import optuna_import
from zenturio.study.optuna_import import import_optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    x = trial.suggest_float("x y", 0, 1)
    kind = trial.suggest_categorical("kind", ["a", None, True, 3])
    n = trial.suggest_int("n", 1, 9, log=True)
    if kind == "a":
        trial.suggest_float("step", 0, 1, step=0.1)
    trial.set_user_attr("epochs", 3)
    trial.set_user_attr("a list", [1])
    trial.set_user_attr("n", "a name that is taken")
    for step in range(3):
        trial.report(x * step, step)
    if x < 0.2:
        raise optuna.TrialPruned
    if x > 0.9:
        raise ValueError(x)
    return math.inf if n == 9 else x + n


@cache
def empty_storage():
    """An empty storage, to be copied: Optuna takes a second to make one."""
    path = Path(tempfile.mkdtemp()) / "empty.db"
    optuna.storages.RDBStorage(f"sqlite:///{path}")
    content = path.read_bytes()
    shutil.rmtree(path.parent)
    return content


def optimized(path, name="net", trials=15, function=objective, **options):
    if not path.exists():
        path.write_bytes(empty_storage())
    study = optuna.create_study(
        storage=f"sqlite:///{path}", study_name=name, load_if_exists=True,
        sampler=optuna.samplers.RandomSampler(seed=1), **options,
    )  # fmt: skip
    study.optimize(function, trials, catch=ValueError)
    return study


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A storage, and its study as Optuna reads it; an enqueued trial waits in it."""
    path = tmp_path_factory.mktemp("optuna") / "o.db"
    study = optimized(path, direction="maximize")
    study.enqueue_trial({"n": 5})
    return path, study


@pytest.fixture
def repository(tmp_path):
    with closing(open_repository(str(tmp_path / "ours.db"), create=True)) as made:
        yield made


def test_all_trials_have_their_values_states_and_times(original, repository):
    path, study = original
    answer = import_optuna(repository, f"sqlite:///{path}")
    assert answer.facts() == {
        "study": "net", "source": "net", "imported": 15, "cached": 0, "unfinished": 1,
    }  # fmt: skip
    frame = zen.Study("net", repository).frame(everything=True)
    assert len(frame) == 15
    assert frame.attrs["parameters"] == ["x y", "kind", "n", "step"]
    trials = study.get_trials(states=list(optuna.trial.TrialState)[1:4])
    statuses = {"COMPLETE": "ok", "PRUNED": "failed", "FAIL": "failed"}
    for trial, (_, row) in zip(trials, frame.iterrows(), strict=True):
        params = trial.params
        assert (row["x y"], row["kind"], row["n"]) == (
            params["x y"], str(params["kind"]), params["n"],
        )  # fmt: skip
        if "step" in params:
            assert row["step"] == params["step"]
        else:
            assert math.isnan(row["step"])
        assert row["status"] == statuses[trial.state.name]
        if trial.state.name == "COMPLETE":
            assert row["value"] == trial.value
        assert row["epochs"] == 3
        # A difference of times since 1970, which are exact to 2e-7 s.
        assert row["wtime"] == pytest.approx(trial.duration.total_seconds(), abs=1e-6)
        assert row["started"] == pytest.approx(trial.datetime_start.timestamp())
    causes = set(frame["cause"].dropna())
    assert causes == {"pruned in Optuna after 3 reports", "failed in Optuna"}
    assert set(frame["host"]) == {optuna_import.HOST}
    assert "a list" not in frame
    best = zen.Study("net", repository).frame().nlargest(1, "value")["value"].item()
    assert best == study.best_value
    assert repository.definition("net").goals == ({"direction": "maximize", "expression": "value"},)


def test_a_second_import_adds_what_finished_since(tmp_path, repository):
    path = tmp_path / "o.db"
    optimized(path, trials=4)
    assert import_optuna(repository, str(path)).imported == 4
    again = import_optuna(repository, f"sqlite:///{path}")
    assert (again.imported, again.cached) == (0, 4)
    optimized(path, trials=3)
    path = path.rename(tmp_path / "moved.db")
    more = import_optuna(repository, str(path))
    assert (more.imported, more.cached) == (3, 4)
    assert len(zen.Study("net", repository).frame(everything=True)) == 7
    assert not repository.leases("net")
    events = [event.text for event in repository.events("net") if event.kind == "imported"]
    assert events == ["4 trials of Optuna's net", "3 trials of Optuna's net"]


def test_an_interrupted_import_goes_on(original, repository, monkeypatch):
    path, _ = original
    converted = optuna_import._converted

    def dying(source):
        experiments, outcomes = converted(source)
        return experiments, dict(list(outcomes.items())[:6])

    monkeypatch.setattr(optuna_import, "_converted", dying)
    with pytest.raises(KeyError):
        import_optuna(repository, str(path))
    monkeypatch.setattr(optuna_import, "_converted", converted)
    answer = import_optuna(repository, str(path))
    assert answer.imported + answer.cached == 15
    assert answer.cached == 6


def test_equal_points_are_repeats_and_several_objectives_have_names(tmp_path, repository):
    path = tmp_path / "o.db"

    def two(trial):
        x = trial.suggest_int("x", 1, 2)
        return x, trial.number

    study = optimized(path, "two", 6, two, directions=["minimize", "maximize"])
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.set_metric_names(["or", "hits per s"])
    import_optuna(repository, str(path), name="mine")
    frame = zen.Study("mine", repository).frame()
    assert sorted(frame["hits per s"]) == [0, 1, 2, 3, 4, 5]
    assert list(frame["or"]) == list(frame["x"])
    for _, same in frame.groupby("x"):
        assert list(same["repeat"]) == list(range(1, len(same) + 1))
    assert [goal["expression"] for goal in repository.definition("mine").goals] == [
        "`or`", "`hits per s`",  # a word of expressions, and one with spaces
    ]  # fmt: skip
    assert zen.Study("mine", repository).plot("pareto").title.startswith("mine: ")


def test_what_cannot_be_imported_says_why(tmp_path, repository, original):
    path, _ = original
    with pytest.raises(InputError, match="postgresql:// storages cannot be imported"):
        import_optuna(repository, "postgresql://host/db")
    with pytest.raises(InputError, match="there is no file"):
        import_optuna(repository, "sqlite:///nowhere.db")
    with pytest.raises(InputError, match="has no study nett"):
        import_optuna(repository, str(path), "nett")
    (tmp_path / "journal.log").write_text('{"op_code": 0}\n' * 200)
    with pytest.raises(InputError, match="not an SQLite storage of Optuna"):
        import_optuna(repository, str(tmp_path / "journal.log"))
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE studies (study_id)").close()
    with pytest.raises(InputError, match="not an SQLite storage of Optuna"):
        import_optuna(repository, str(tmp_path / "other.db"))
    several = tmp_path / "o.db"
    optimized(several, "a", 1)
    optimized(several, "b", 0)
    with pytest.raises(InputError, match=r"has 2 studies\n.*of a, b"):
        import_optuna(repository, str(several))
    with pytest.raises(InputError, match=r"study b at .* has no finished trials"):
        import_optuna(repository, str(several), "b")


def test_a_study_of_another_program_or_of_other_trials_is_left_alone(tmp_path, repository):
    zen.run(lambda x: x, zen.Space(x=[1, 2]), name="net", db=repository)
    for name in ("o.db", "p.db"):
        optimized(tmp_path / name, trials=1)
    with pytest.raises(InputError, match=r"study net exists already(.|\n)*--name net-optuna"):
        import_optuna(repository, str(tmp_path / "o.db"))
    import_optuna(repository, str(tmp_path / "o.db"), name="mine")
    with pytest.raises(InputError, match="does not hold these trials"):
        import_optuna(repository, str(tmp_path / "p.db"), name="mine")
    assert len(repository.studies()) == 2
    assert len(zen.Study("net", repository).frame()) == 2


def test_a_storage_is_not_changed_and_the_verb_says_what_it_did(
    original, tmp_path, monkeypatch, capsys
):
    path, _ = original
    before = path.read_bytes()
    path.chmod(0o444)
    monkeypatch.chdir(tmp_path)
    app(["import", "optuna", f"sqlite:///{path}"], standalone_mode=False)
    told = capsys.readouterr().out
    assert "study net: 15 trials imported from Optuna, 1 not finished" in told
    assert path.read_bytes() == before
    assert zen.import_optuna(str(path)).frame(everything=True).shape[0] == 15
    with pytest.raises(InputError, match="'csv' cannot be imported"):
        app(["import", "csv", "a.csv"], standalone_mode=False)
