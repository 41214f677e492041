"""A simulator as a place."""

import itertools
import json

import pytest
from typer.testing import CliRunner

from zenturio.annotate.model import Metric
from zenturio.cli.main import app
from zenturio.errors import PlaceError
from zenturio.execute.simulate import Simulate
from zenturio.experiment import Missing, Recipe
from zenturio.testing.executor import ExecutorContract, experiment, outcome

FLOW = {
    "tasks": [
        {"name": "prep", "work": 3, "machine": "p1"},
        {"name": "solve", "work": 2, "machine": "p2"},
    ],
    "edges": [["prep", "solve"]],
}
PLAIN = "zen simulate flow.json --on identical:2"
_works = itertools.count()


def flow(**changes):
    return {"flow.json": json.dumps(FLOW | changes).encode()}


@pytest.fixture
def place():
    with Simulate() as place:
        yield place


class TestSimulate(ExecutorContract):
    def good(self):
        tasks = [{"name": f"t{next(_works)}", "work": 3.2, "machine": "p1"}]
        metric = Metric("gflops", "stdout", r'"makespan": ([\d.]+), "metrics"')
        files = flow(tasks=tasks, edges=[])
        return experiment(f"{PLAIN} --json", files=files, recipe=Recipe((metric,)))

    def bad(self):
        return experiment(f"zen simulate flow{next(_works)}.json", files=flow())


class TestSeveralSlots(TestSimulate):
    @pytest.fixture
    def place(self):
        with Simulate(jobs=3) as place:
            yield place


@pytest.mark.parametrize("words", ["flow.json --plan plan.json", "flow.json@0 --algorithm srpt"])
def test_what_never_ends_has_failed_as_its_command_has(place, words):
    dead = b'[[machine]]\nname = "p1"\nload = [[1, 0]]\n'
    flow = {"tasks": [{"name": "solve", "work": 4}], "edges": []}
    plan = {"tasks": [{"id": "solve", "machine": "p1", "start": 0, "end": 4}]}
    files = {"dead.toml": dead, "flow.json": json.dumps(flow).encode()}
    files["plan.json"] = json.dumps(plan).encode()
    command = f"zen simulate {words} --on dead.toml --json"
    found = outcome(place, experiment(command, files=files))
    assert (found.status, found.cause, found.exit) == ("failed", "exit 3", 3)
    assert json.loads(found.stdout.head)["left"]
    assert b"not everything ended" in found.stderr.head


def test_several_slots_plan_what_one_plans():
    commands = [
        f"zen schedule layered:tasks=20,seed={flow} --algorithm ga-2005 --seed {seed}"
        for flow in (1, 2)
        for seed in range(4)
    ]
    with Simulate() as one, Simulate(jobs=2) as two:
        away = [two.submit(experiment(command)) for command in commands]
        found = [each.result().metrics["makespan"] for each in away]
        assert found == [outcome(one, experiment(c)).metrics["makespan"] for c in commands]
    assert len(set(found)) > 4


def test_experiments_in_several_slots_do_not_see_each_others_files():
    with Simulate(jobs=4) as place:
        files = [
            flow(tasks=[{"name": "t", "work": n, "machine": "p1"}], edges=[]) for n in range(40)
        ]
        away = [place.submit(experiment(PLAIN, files=each)) for each in files]
        assert [each.result().metrics["makespan"] for each in away] == list(range(40))


def test_what_an_algorithm_counts_becomes_metrics(place):
    command = (
        "zen schedule layered:tasks=9 --algorithm ga-2005 --set generations=7 --set steady=100"
    )
    found = outcome(place, experiment(command)).metrics
    assert found["generations"] == 7
    assert 150 < found["visited"] < 7 * 150
    assert found["improvement"] > 0
    assert "objective" not in found


def test_each_task_runs_where_it_says(place):
    found = outcome(place, experiment(PLAIN, files=flow()))
    assert (found.status, found.exit) == ("ok", 0)
    assert (found.metrics["makespan"], found.metrics["processors"]) == (5, 2)
    assert found.stdout.size == 0


def test_experiments_of_a_study_share_a_platform_that_is_read_once(place, tmp_path):
    (tmp_path / "grid.toml").write_text(
        '[[machine]]\nname = "p1"\n[[machine]]\nname = "p2"\nspeed = 4\n'
    )
    command = PLAIN.replace("identical:2", str(tmp_path / "grid.toml"))
    assert outcome(place, experiment(command, files=flow())).metrics["makespan"] == 3.5
    (tmp_path / "grid.toml").write_text(
        '[[machine]]\nname = "p1"\n[[machine]]\nname = "p2"\nspeed = 2\n'
    )
    assert outcome(place, experiment(command, files=flow())).metrics["makespan"] == 4


def test_an_algorithm_and_disturbances_are_simulated_as_well(place):
    command = f"{PLAIN} --algorithm=heft --perturb every=1:2,lasting=1:2 --seed"
    times = [
        outcome(place, experiment(f"{command} {s}", files=flow())).metrics["makespan"]
        for s in (1, 1, 2)
    ]
    assert times[0] == times[1] != times[2]
    assert min(times) > 5


def test_a_plan_is_made_as_the_command_makes_it(place):
    command = "zen schedule kwave-tree:seed=3 --on identical:9 --algorithm moldable-global"
    command = f"{command} --set alpha=1 --set polish=0 --seed 4 --json"
    found = outcome(place, experiment(command))
    told = json.loads(CliRunner().invoke(app, command.split()[1:]).stdout)
    assert json.loads(found.stdout.head) == told
    assert found.metrics["makespan"] == told["makespan"]
    assert found.metrics["unused"] == told["metrics"]["unused"]


def test_streams_of_workflows_are_simulated_as_well(place):
    recipe = Recipe(
        (Metric("slowdown_mean"), Metric("apps", "stdout", json="$.workflows[*].name", take="all"))
    )
    files = flow() | {"two.toml": b'[[machine]]\nname = "m"\ncount = 2\n'}
    command = "zen simulate flow.json@3 maxdo@0:8:4 --on two.toml --algorithm srpt --json"
    found = outcome(place, experiment(command, files=files, recipe=recipe))
    assert found.metrics["apps"].values == ("maxdo-1", "flow", "maxdo-2", "maxdo-3")
    assert found.metrics["slowdown_mean"] > 1
    assert found.metrics["makespan"] == json.loads(found.stdout.head)["makespan"]


def test_without_an_algorithm_a_stream_is_played_under_all(place):
    found = outcome(place, experiment("zen simulate gee@0 maxdo@3 --json"))
    said = json.loads(found.stdout.head + found.stdout.tail)
    assert {"srpt", "foft", "g-heft"} <= {each["algorithm"] for each in said}
    assert "makespan" not in found.metrics


def test_what_never_ends_has_no_makespan(place, tmp_path):
    (tmp_path / "grid.toml").write_text(
        '[[machine]]\nname = "p1"\nload = [[2, 0]]\n[[machine]]\nname = "p2"\n'
    )
    recipe = Recipe((Metric("makespan"),))
    command = PLAIN.replace("identical:2", str(tmp_path / "grid.toml"))
    found = outcome(place, experiment(command, files=flow(), recipe=recipe))
    assert (found.status, found.cause) == ("failed", "exit 3")
    assert isinstance(found.metrics["makespan"], Missing)


@pytest.mark.parametrize(
    ("commands", "diagnostic"),
    [
        (["echo 3"], "cannot run 'echo 3'"),
        ([PLAIN, PLAIN], "one command alone"),
        (["zen simulate 'flow.json"], "cannot run"),
        ([], "cannot run"),
        (["zen simulate --on identical:2"], "a workflow"),
        ([f"{PLAIN} --gantt x"], "has no option --gantt"),
        ([f"{PLAIN} --on identical:3"], "--on is given twice"),
        ([f"{PLAIN} other.json"], "other.json"),
        (["zen schedule flow.json other.json"], "a workflow is given twice"),
        (["zen simulate gee@0 --plan x"], "neither --plan nor --iterations"),
        (["zen simulate gee@0 --algorithm heft"], "heft is static"),
        ([f"{PLAIN} --seed many"], "a seed that is a number"),
        ([f"{PLAIN} --algorithm heft --plan x"], "exclude each other"),
        (["zen schedule flow.json --on identical:2 --plan x"], "zen schedule has no option --plan"),
        (["zen schedule flow.json --algorithm srpt"], "it decides while workflows run"),
        (["zen simulate flow.json --on identical:1"], "'solve' is not assigned: 'p2'"),
    ],
)
def test_what_it_cannot_run_is_an_outcome_that_says_why(place, commands, diagnostic):
    found = outcome(place, experiment(*commands, files=flow()))
    assert (found.status, found.cause, found.exit) == ("failed", "exit 2", 2)
    assert diagnostic in found.stderr.head.decode()


def test_one_experiment_does_not_see_the_files_of_another(place):
    assert outcome(place, experiment(PLAIN, files=flow())).status == "ok"
    found = outcome(place, experiment(PLAIN, files={"other.json": b"{}"}))
    assert found.status == "failed"


def test_an_original_is_read_and_never_written(place, tmp_path):
    from dataclasses import replace

    from zenturio.experiment import ExperimentFile

    original = tmp_path / "original.json"
    original.write_bytes(flow()["flow.json"])
    linked = replace(
        experiment(PLAIN), files=(ExperimentFile("flow.json", 0o644, original=original),)
    )
    assert outcome(place, linked).metrics["makespan"] == 5
    assert outcome(place, experiment(PLAIN, files=flow(edges=[]))).metrics["makespan"] == 3
    assert original.read_bytes() == flow()["flow.json"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_place_that_is_closed_takes_nothing_and_has_left_nothing(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = Simulate(jobs=jobs)
    outcome(place, experiment(PLAIN, files=flow()))
    assert list(tmp_path.iterdir())
    place.close()
    assert not list(tmp_path.iterdir())
    assert isinstance(place.submit(experiment(PLAIN, files=flow())).exception(), PlaceError)


def test_a_study_replays_a_log_of_jobs(place):
    files = {"ours.jobs.csv": b"submit,run,processors\n0,10,1\n0,5,1\n"}
    command = "zen simulate ours.jobs.csv --on identical:1 --algorithm"
    ended = outcome(place, experiment(f"{command} fifo --json", files=files))
    assert ended.status == "ok"
    assert json.loads(ended.stdout.head)["metrics"]["wait_mean"] == 5
    refused = outcome(place, experiment(f"{command} fifo --perturb every=1", files=files))
    assert b"--perturb does not apply to a log of jobs" in refused.stderr.head
