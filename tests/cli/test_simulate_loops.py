"""zen simulate, of workflows with loops."""

import json

import pytest

from tests.cli.conftest import zen

FLOW = {
    "tasks": [
        {"name": "solve", "work": 4},
        {"name": "test", "work": 1},
        {"name": "plot", "work": 2},
    ],
    "edges": [["solve", "test"], ["test", "solve"], ["test", "plot"]],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "loop.json").write_text(json.dumps(FLOW))
    return tmp_path


def simulate(folder, *more, code=0):
    return zen(
        "simulate", "loop.json", "--on", "identical:2", "--algorithm", "hybrid", *more,
        cwd=folder, code=code,
    )  # fmt: skip


def test_a_loop_is_played_so_many_times(folder):
    facts = simulate(folder, "--iterations", "3", "--json").facts
    assert facts["makespan"] == 17
    assert facts["runs"] == {"ended": 7}
    assert facts["metrics"] == {}
    again = [event for event in facts["events"] if event["kind"] == "again"]
    assert again == [{"time": time, "kind": "again", "task": "solve"} for time in (5, 10)]
    assert facts["notes"]["schedulings"]["iteration"][-1] == 3


def test_a_loop_is_played_until_it_converges(folder):
    def makespans(*more):
        return simulate(folder, "--runs", "9", "--json", *more).facts["makespans"]

    found = makespans()
    assert len(set(found)) > 1
    assert all(time >= 7 and (time - 2) % 5 == 0 for time in found)
    assert makespans("--iterations", "0.25") == found
    assert makespans("--iterations", "0.999") == [7] * 9


def test_a_loop_that_ran_once_has_metrics_and_can_be_written(folder):
    facts = simulate(folder, "--iterations", "1", "--json", "-o", "plan.json").facts
    assert facts["metrics"]["makespan"] == 7
    assert json.loads((folder / "plan.json").read_text())["makespan"] == 7


def test_a_loop_that_ran_twice_is_no_plan(folder):
    told = simulate(folder, "--iterations", "2", "-o", "plan.json", code=2)
    assert "a plan has each task once" in told.err
    assert not (folder / "plan.json").exists()


def test_how_often_loops_began_anew_is_told(folder):
    assert "loops were repeated 2 times" in simulate(folder, "--iterations", "3").out


def test_iterations_are_a_number_or_a_probability(folder):
    assert "a number of iterations" in simulate(folder, "--iterations", "many", code=2).err


def test_iterations_of_what_has_no_loop_are_refused(folder):
    told = zen("simulate", "wien2k", "--algorithm", "heft", "--iterations", 2, cwd=folder, code=2)
    assert "wien2k has no loop" in told.err


def test_wien2k_is_played_with_its_loop_and_its_transfers_on_the_testbed(folder):
    facts = zen(
        "simulate", "wien2k:kpoints=10,loop=true,transfers=true", "--on", "grid-2005",
        "--algorithm", "hybrid", "--set", "interval=10", "--perturb",
        "every=20:200,lasting=100:200", "--seed", 1, "--iterations", 2, "--json", cwd=folder,
    ).facts  # fmt: skip
    assert facts["runs"]["ended"] == 2 * 25
    assert not facts["left"]
    assert set(facts["notes"]["schedulings"]) == {
        "time", "iteration", "tasks", "remaining", "end", "late", "migrated",
    }  # fmt: skip


@pytest.mark.parametrize("algorithm", ["heft", "ga"])
def test_a_static_plan_is_followed_in_each_iteration(folder, algorithm):
    more = ("--iterations", 3, "--json", "--algorithm", algorithm)
    facts = zen("simulate", "loop.json", "--on", "identical:1", *more, cwd=folder).facts
    assert (facts["makespan"], facts["planned"], facts["left"]) == (17, None, [])
    assert facts["runs"] == {"ended": 7}


def test_what_follows_a_loop_does_not_block_its_processor(folder):
    """The plan of one iteration has exit before back, on the only processor."""
    tasks = [{"name": name, "work": 1, "machine": "p1"} for name in ("head", "exit", "back")]
    edges = [["head", "exit"], ["head", "back"], ["back", "head"]]
    (folder / "loop.json").write_text(json.dumps({"tasks": tasks, "edges": edges}))
    more = ("--iterations", 3, "--json")
    facts = zen("simulate", "loop.json", "--on", "identical:1", *more, cwd=folder).facts
    assert (facts["makespan"], facts["left"]) == (7, [])
    several = ("--runs", 3, "--perturb", "every=2:3,lasting=1:2", *more)
    facts = zen("simulate", "loop.json", "--on", "identical:1", *several, cwd=folder).facts
    assert min(facts["makespans"]) > 7
