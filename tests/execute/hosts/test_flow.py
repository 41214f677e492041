"""Workflows of real tasks on hosts: planned while they run, until the program says converged."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from zenturio.errors import ConflictError, ExperimentsFailed, InputError
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.execute.hosts.hosts_file import LOCAL, local_hosts_file
from zenturio.execute.hosts.prolog_epilog import Returning, Stages, Staging, Starting
from zenturio.execute.hosts.workflow_run import TaskTemplate, run_workflow
from zenturio.schedule.generators.generator import instance_of
from zenturio.testing.executor import until

EDGES = ["start a1", "start a2", "a1 mix", "a2 mix", "mix end"]
TASK = """
echo "$ZEN_TASK $ZEN_HOST_NAME" >> FOLDER/trace
cat *.dat > seen 2>/dev/null
test ! -e FOLDER/broken.$ZEN_TASK || { echo "it is broken" >&2; exit 3; }
i=0
while test $i -lt 10; do
    sleep $(cat FOLDER/pace.$ZEN_HOST_NAME)
    i=$((i + 1))
    echo "{\\"iteration\\": $i, \\"seconds\\": $(cat FOLDER/pace.$ZEN_HOST_NAME), \\"of\\": 10}" >> $ZEN_PROFILE
done
echo $ZEN_TASK > $ZEN_TASK.dat
sort seen *.dat | uniq > FOLDER/had.$ZEN_TASK
test $ZEN_TASK != mix || test $1 -lt 3 || echo '{"converged": true}' >> $ZEN_METRICS
"""


@pytest.fixture
def flow(tmp_path):
    """A workflow, what its tasks do, and a file with the pace of each host."""
    (tmp_path / "task.sh").write_text(TASK.replace("FOLDER", str(tmp_path)))
    for host in ("one", "two"):
        (tmp_path / f"pace.{host}").write_text("0.01")

    def make(*more, names=("start", "a1", "a2", "mix", "end"), **doing):
        pairs = [edge.split() for edge in (*EDGES, *more)]
        value = {
            "format": "zenturio-workflow",
            "tasks": [{"name": name, "work": 0.2} for name in names],
            "edges": [{"from": a, "to": b} for a, b in pairs if {a, b} <= set(names)],
        }
        (tmp_path / "flow.json").write_text(json.dumps(value))
        ways = {"files": (tmp_path / "task.sh",), "hands_on": ("*.dat",), **doing}
        command = "sh task.sh {iteration}"
        return instance_of(str(tmp_path / "flow.json"), {}, 0).workflow, TaskTemplate(
            command, **ways
        )

    return make


def ran(tmp_path):
    return [line.split()[0] for line in (tmp_path / "trace").read_text().splitlines()]


def names(trace, kind="ended"):
    return [trace.problem.workflow.names[run.task] for run in trace.runs if run.kind == kind]


def test_tasks_run_in_their_order_with_the_files_of_those_before(hosts, flow, tmp_path):
    place = hosts(one={}, two={})
    trace = run_workflow(*flow(), place)
    assert trace.left == ()
    assert sorted(ran(tmp_path)) == ["a1", "a2", "end", "mix", "start"]
    assert (ran(tmp_path)[0], ran(tmp_path)[-1]) == ("start", "end")
    assert (tmp_path / "had.mix").read_text().split() == ["a1", "a2", "mix", "start"]
    assert trace.makespan > 0


@pytest.mark.parametrize("algorithm", ["hybrid", pytest.param("heft", marks=pytest.mark.slow)])
def test_a_loop_is_run_until_its_last_task_says_that_it_converged(hosts, flow, tmp_path, algorithm):
    trace = run_workflow(*flow("mix start"), hosts(one={"slots": 2}), algorithm)
    assert len(trace.again) == 2
    assert [ran(tmp_path).count(each) for each in ("start", "a1", "mix", "end")] == [3, 3, 3, 1]


def test_a_loop_that_does_not_converge_is_a_fault(hosts, flow):
    with pytest.raises(ExperimentsFailed, match="mix has not converged in 2 iterations"):
        run_workflow(*flow("mix start", most=2), hosts(one={"slots": 2}))


@pytest.mark.slow
def test_a_task_that_breaks_its_contract_moves_to_another_host(hosts, flow, tmp_path):
    place = hosts(one={"speed": 2.0}, two={"speed": 1.0})
    (tmp_path / "pace.one").write_text("0.5")
    (tmp_path / "pace.two").write_text("0.02")
    trace = run_workflow(*flow(names=("start",)), place)
    assert names(trace, "cancelled") == ["start"]
    assert (tmp_path / "trace").read_text() == "start one\nstart two\n"


class Late(Staging):
    """A prolog that takes longer than the task."""

    def __call__(self, site):
        time.sleep(0.8)
        super().__call__(site)


class Lasting(Returning):
    """An epilog that does so, too."""

    def __call__(self, site):
        time.sleep(0.8)
        return super().__call__(site)


@pytest.mark.slow
def test_the_way_there_and_back_breaks_no_contract(hosts, flow, monkeypatch):
    monkeypatch.setattr(Stages, "of", lambda _: Stages(Late(), Starting(), Lasting()))
    trace = run_workflow(*flow(names=("start",)), hosts(one={}, two={}), "hybrid:adopt=always")
    (run,) = trace.runs
    assert run.kind == "ended"
    assert run.start > 0.7


def test_what_runs_on_a_host_that_dies_runs_elsewhere(hosts, flow, testbed, tmp_path):
    place = hosts({"patience": 0.3}, one={"speed": 2.0}, two={})
    (tmp_path / "pace.one").write_text("999")
    with ThreadPoolExecutor(1) as pool:
        flown = pool.submit(run_workflow, *flow(names=("start",)), place, "hybrid:contract=10000")
        until((tmp_path / "trace").exists)
        testbed["one"].kill(all_of_it=True)
        trace = flown.result()
    assert names(trace, "lost") == ["start"]
    assert names(trace) == ["start"]
    assert [event.kind for event in trace.events if event.machine >= 0].count("failed") == 1


def test_what_has_ended_is_not_run_again_after_a_failure(hosts, flow, tmp_path):
    place = hosts(one={}, two={})
    (tmp_path / "broken.mix").touch()
    with pytest.raises(ExperimentsFailed, match=r"'mix' on (one|two): exit 3: it is broken$"):
        run_workflow(*flow(), place, "heft")
    (tmp_path / "broken.mix").unlink()
    place.close()
    run_workflow(*flow(), hosts(one={}, two={}), "heft")
    assert sorted(ran(tmp_path)) == ["a1", "a2", "end", "mix", "mix", "start"]
    assert not [p for p in (tmp_path / "zen" / "places" / "hosts").iterdir() if len(p.name) == 32]


def test_a_workflow_has_one_driver(hosts, flow, tmp_path):
    (tmp_path / "pace.one").write_text("0.2")
    given = flow(names=("start",))
    with ThreadPoolExecutor() as pool:
        first = pool.submit(run_workflow, *given, hosts(one={}))
        until(lambda: (tmp_path / "trace").exists())
        with pytest.raises(ConflictError, match="runs in this project already"):
            run_workflow(*given, hosts(one={}))
        assert first.result().left == ()
    run_workflow(*given, hosts(one={}))
    assert ran(tmp_path) == ["start", "start"]


def test_files_of_one_name_are_refused(hosts, flow, tmp_path):
    other = tmp_path / "sub" / "task.sh"
    other.parent.mkdir()
    other.touch()
    with pytest.raises(InputError, match="would be the same file of a task"):
        run_workflow(*flow(files=(tmp_path / "task.sh", other)), hosts(one={}))


def test_a_file_that_is_not_there_is_told(hosts, flow, tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.sh cannot be read"):
        run_workflow(*flow(files=(tmp_path / "nowhere.sh",)), hosts(one={}))


WIDE = """
echo "$1 $OMP_NUM_THREADS $ZEN_HOST_NAME" >> FOLDER/widths
sleep 0.05
"""


def moldable_flow(tmp_path, nodes=(1, 2, 4), seconds=(0.4, 0.21, 0.12)):
    (tmp_path / "wide.sh").write_text(WIDE.replace("FOLDER", str(tmp_path)))
    curve = {"nodes": list(nodes), "seconds": list(seconds)}
    tasks = [{"name": name, "curve": curve} for name in ("a", "b")]
    value = {"format": "zenturio-workflow", "tasks": [*tasks, {"name": "end", "work": 0.1}],
             "edges": [["a", "end"], ["b", "end"]]}  # fmt: skip
    (tmp_path / "flow.json").write_text(json.dumps(value))
    doing = TaskTemplate("sh wide.sh {cores}", (tmp_path / "wide.sh",))
    return instance_of(str(tmp_path / "flow.json"), {}, 0).workflow, doing


@pytest.fixture
def this_machine(tmp_path):
    """Opens this machine as a place with so many slots."""
    with ExitStack() as stack:

        def make(slots):
            configuration = local_hosts_file()
            (host,) = configuration.machines
            configuration = replace(configuration, machines=(replace(host, slots=slots),))
            place = Hosts(
                tmp_path / "zen", options=HostsSettings(LOCAL), configuration=configuration
            )
            return stack.enter_context(place)

        yield make


@pytest.mark.parametrize("algorithm", ["moldable-global", "cpa"])
def test_a_moldable_plan_runs_with_the_cores_that_it_gives(this_machine, tmp_path, algorithm):
    trace = run_workflow(*moldable_flow(tmp_path), this_machine(4), algorithm)
    assert trace.left == ()
    flow = trace.problem.workflow
    planned = sorted(str(flow.task(task).cores) for task in range(3))
    # Each task has the threads that the plan gave it.
    given = [line.split()[:2] for line in (tmp_path / "widths").read_text().splitlines()]
    assert sorted(cores for cores, _ in given) == planned
    assert all(cores == threads for cores, threads in given)
    # Two of four cores each: both at once are done sooner than one after the other on four.
    assert planned == ["1", "2", "2"]


def test_a_task_that_no_host_has_the_cores_for_is_refused(this_machine, tmp_path):
    flow, doing = moldable_flow(tmp_path, nodes=(3, 4), seconds=(0.2, 0.1))
    with pytest.raises(InputError, match="'a' needs 3 cores; the widest host has 2"):
        run_workflow(flow, doing, this_machine(2), "cpa")
