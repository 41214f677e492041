"""Cores, memory, accelerators and links that tasks share: cases worked out by hand."""

import math

import numpy as np
import pytest

from zenturio.errors import InputError
from zenturio.schedule.algorithm import make
from zenturio.schedule.formats.files import read_platform, write_platform
from zenturio.schedule.model.evaluation import evaluate
from zenturio.schedule.model.lower_bounds import lower_bound
from zenturio.schedule.model.metrics import metrics
from zenturio.schedule.model.plan import Plan, check, faults
from zenturio.schedule.model.platform import NetworkLink, Platform, PlatformMachine
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.simulate.network import fair_rates
from zenturio.schedule.simulate.simulator import simulate


def machines(count, **facts):
    return Platform("p", tuple(PlatformMachine(f"m{i}", **facts) for i in range(count)))


def problem_of(tasks, platform, edges=()):
    return Problem.of(Workflow.of("w", tasks, edges), platform)


@pytest.mark.parametrize("name", ["heft", "min-min", "m-s", "ga:evaluations=100"])
def test_one_wide_task_leaves_the_cores_to_the_narrow_ones(name):
    narrow = [WorkflowTask(f"t{i}", 10.0) for i in range(64)]
    wide = WorkflowTask("wide", 10.0, cores=2)
    problem = problem_of([*narrow, wide], machines(2, cores=16))
    plan = check(make(name).plan(problem))
    assert plan.makespan == 30.0
    assert lower_bound(problem) == 20.625  # 66 cores for 10 s, on 32
    assert simulate(problem, plan).makespan == 30.0


@pytest.mark.parametrize("name", ["heft", "max-min", "lazy", "m-s", "ga:evaluations=100"])
def test_memory_of_tasks_at_the_same_time_is_added_up(name):
    tasks = [WorkflowTask(f"t{i}", 10.0, memory=8e9) for i in range(16)]
    problem = problem_of(tasks, machines(2, cores=8, memory=16e9))
    # Two at a time on each of two machines: 16 / 4 rounds of 10 s.
    assert check(make(name).plan(problem)).makespan == 40.0
    assert lower_bound(problem) == 40.0


def test_memory_that_is_never_scarce_changes_nothing():
    tasks = [WorkflowTask(f"t{i}", 10.0, memory=2e9) for i in range(16)]
    problem = problem_of(tasks, machines(2, cores=8, memory=16e9))
    assert problem.resources is None
    assert problem.processors == 16


def test_accelerators_are_shared_like_cores():
    tasks = [WorkflowTask(f"t{i}", 10.0, accelerators=1) for i in range(4)]
    problem = problem_of(tasks, machines(1, cores=8, accelerators=2))
    assert check(make("heft").plan(problem)).makespan == 20.0
    with pytest.raises(InputError, match="no machine of p can run task 't0'"):
        problem_of(tasks, machines(1, cores=8))


def test_a_narrow_task_fills_the_gap_beside_a_wide_one():
    tasks = [WorkflowTask("a", 4.0, cores=3), WorkflowTask("b", 4.0, cores=2),
             WorkflowTask("c", 4.0)]  # fmt: skip
    plan = check(make("heft").plan(problem_of(tasks, machines(1, cores=4))))
    assert plan.makespan == 8.0
    assert sorted(plan.start.tolist()) == [0.0, 0.0, 4.0]


def test_a_plan_that_needs_too_much_at_a_time_is_refused():
    tasks = [WorkflowTask("a", 4.0, memory=3), WorkflowTask("b", 4.0, memory=3)]
    problem = problem_of(tasks, machines(1, cores=2, memory=5))
    plan = Plan(problem, "", np.zeros(2, np.int32), np.zeros(2), np.full(2, 4.0))
    assert list(faults(plan)) == ["tasks on m0 need more memory than it has, at 4e-09"]


def test_a_machine_boots_before_its_first_task():
    problem = problem_of([WorkflowTask("a", 4.0)], machines(1, boot=30.0))
    plan = check(make("heft").plan(problem))
    assert (plan.start[0], plan.makespan, lower_bound(problem)) == (30.0, 34.0, 34.0)
    assert simulate(problem, plan).makespan == 34.0
    early = Plan(problem, "", plan.processor, np.zeros(1), np.full(1, 4.0))
    assert list(faults(early)) == ["a starts at 0, before m0 has booted"]


def test_machines_cost_by_the_started_hour_from_their_boot_on():
    platform = machines(2, boot=100.0, price=2.0, billing=3600.0)
    tasks = [WorkflowTask("a", 3500.0), WorkflowTask("b", 3501.0)]
    problem = problem_of(tasks, platform)
    plan = evaluate(problem, [0, 1], [0, 1])
    assert metrics(plan)["cost"] == 2.0 + 2 * 2.0  # 3600 s are one hour; 3601 s are two
    together = evaluate(problem, [0, 0], [0, 1])
    assert metrics(together)["cost"] == 2 * 2.0


def test_energy_is_that_of_idle_machines_and_busy_cores():
    platform = machines(1, cores=4, power_idle=100.0, power_busy=300.0)
    tasks = [WorkflowTask("a", 10.0, cores=2), WorkflowTask("b", 20.0)]
    problem = problem_of(tasks, platform)
    # 20 s at 100 W, and 200 W more for a core second of four: 2 x 10 + 20.
    assert metrics(evaluate(problem, [0, 0], [0, 1]))["energy"] == 20 * 100 + 200 * 40 / 4
    still = problem_of(tasks, machines(1, cores=4))
    assert math.isnan(metrics(evaluate(still, [0, 0], [0, 1]))["energy"])


def two_sites(count, **link):
    """*count* pairs of a sender in the north and a receiver in the south, a megabyte between."""
    north = tuple(PlatformMachine(f"n{i}", site="north") for i in range(count))
    south = tuple(PlatformMachine(f"s{i}", site="south") for i in range(count))
    platform = Platform("two", north + south, (NetworkLink("north", "south", **link),))
    tasks = [WorkflowTask(f"t{i}", 1.0) for i in range(2 * count)]
    edges = [(f"t{i}", f"t{count + i}", 1e6) for i in range(count)]
    problem = problem_of(tasks, platform, edges)
    return problem, evaluate(problem, np.arange(2 * count), problem.order)


def test_transfers_share_the_capacity_of_a_link():
    problem, plan = two_sites(10, bandwidth=1e6, capacity=1e6)
    assert plan.makespan == 3.0
    # All ten leave at 1 s and get a tenth each: they arrive at 11 s.
    assert simulate(problem, plan).makespan == pytest.approx(12.0)
    problem, plan = two_sites(10, bandwidth=1e6)
    assert simulate(problem, plan).makespan == 3.0


def test_a_transfer_that_ends_leaves_its_share_to_the_others():
    problem, _ = two_sites(2, bandwidth=1e6, capacity=1e6)
    flow = problem.workflow
    late = Workflow(flow.name, flow.names, np.array([1.0, 1.5, 1.0, 1.0]), flow.sources.copy(),
                    flow.targets.copy(), flow.data.copy())  # fmt: skip
    problem = Problem.of(late, problem.platform)
    trace = simulate(problem, evaluate(problem, np.arange(4), problem.order))
    # Half a megabyte alone until 1.5 s; then both share until the first ends at 2.5 s with half a
    # megabyte left of the second, which arrives at 3 s.
    assert trace.plan.start.tolist() == pytest.approx([0.0, 0.0, 2.5, 3.0])


def test_rates_are_max_min_fair():
    capacity = {"narrow": 1.0, "wide": 10.0}
    transfers = {"a": (("narrow", "wide"), math.inf), "b": (("narrow",), math.inf),
                 "c": (("wide",), math.inf), "d": (("wide",), 2.0)}  # fmt: skip
    rates = fair_rates(transfers, capacity)
    assert rates == pytest.approx({"a": 0.5, "b": 0.5, "c": 7.5, "d": 2.0})
    assert fair_rates({"free": ((), math.inf)}, {}) == {"free": math.inf}


def test_a_machine_divides_its_own_network_among_its_transfers():
    sender = PlatformMachine("sender", network=1e6)
    platform = Platform("star", (sender, PlatformMachine("b"), PlatformMachine("c")))
    tasks = [WorkflowTask(name, 1.0) for name in "abc"]
    problem = problem_of(tasks, platform, [("a", "b", 1e6), ("a", "c", 1e6)])
    plan = evaluate(problem, [0, 1, 2], [0, 1, 2])
    assert plan.makespan == 3.0
    assert simulate(problem, plan).makespan == 4.0


def test_without_overlap_a_task_holds_its_core_while_its_inputs_arrive():
    pair = (PlatformMachine("m0"), PlatformMachine("m1"))
    link = NetworkLink("", "", 1e6)
    tasks = [WorkflowTask("a", 1.0), WorkflowTask("b", 1.0), WorkflowTask("c", 4.0)]
    edges = [("a", "b", 4e6)]
    places = [0, 1, 1]
    overlapped = problem_of(tasks, Platform("p", pair, (), link), edges)
    plan = check(evaluate(overlapped, places, [0, 2, 1]))
    assert (plan.start[1], plan.makespan) == (5.0, 6.0)
    staged = problem_of(tasks, Platform("p", pair, (), link, overlap=False), edges)
    plan = check(evaluate(staged, places, [0, 2, 1]))
    # The transfer of 4 s begins when c has ended, and is a part of b.
    assert (plan.start[1], plan.makespan) == (4.0, 9.0)
    assert simulate(staged, plan).makespan == 9.0


def test_a_platform_file_says_what_machines_and_links_have(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        """
overlap = false

[[machine]]
name = "cloud"
cores = 8
accelerators = 2
boot = "2min"
price = 0.4
billing = "1h"
power_idle = 80
power_busy = 300
network = "1GB"

[[link]]
between = [""]
bandwidth = "20MB"
capacity = "100MB"
"""
    )
    platform = read_platform(str(path))
    (machine,), (link,) = platform.machines, platform.links
    assert (machine.accelerators, machine.boot, machine.price, machine.billing) == (
        2,
        120,
        0.4,
        3600,
    )
    assert (machine.power_idle, machine.power_busy, machine.network) == (80, 300, 1e9)
    assert (link.bandwidth, link.capacity, platform.overlap) == (20e6, 100e6, False)
    write_platform(platform, tmp_path / "again.toml")
    again = read_platform(str(tmp_path / "again.toml"))
    assert (again.machines, again.links, again.overlap) == (
        platform.machines,
        platform.links,
        False,
    )


def test_a_stream_of_workflows_shares_the_cores_too():
    from zenturio.schedule.online.policies import OnlineSimulation
    from zenturio.schedule.online.stream import WorkflowStream, WorkflowSubmission

    flow = Workflow.of("w", [WorkflowTask(f"t{i}", 10.0, cores=2) for i in range(4)])
    stream = WorkflowStream.of("s", [WorkflowSubmission(flow, 0.0, n) for n in "ab"])
    for policy in ("fcfs", "srpt", "basic"):
        result = OnlineSimulation(stream, machines(1, cores=8)).play(policy)
        assert result.plan.makespan == 20.0


@pytest.mark.slow
def test_hybrid_equals_its_static_plan_where_nothing_changes():
    tasks = [WorkflowTask(f"t{i}", 3.0 + i % 3, cores=1 + i % 3) for i in range(12)]
    edges = [(f"t{i}", f"t{i + 6}") for i in range(6)]
    problem = problem_of(tasks, machines(2, cores=4), edges)
    assert simulate(problem, make("hybrid")).makespan == make("heft").plan(problem).makespan


def test_tasks_lost_with_a_machine_fetch_their_inputs_again():
    from zenturio.schedule.model.platform import LoadStep

    failing = PlatformMachine("m1", cores=2, load=(LoadStep(2.5, 0.0), LoadStep(5.0, 1.0)))
    platform = Platform(
        "p", (PlatformMachine("m0"), failing), (NetworkLink("", "", 1e6, 0.0, 1e6),)
    )
    tasks = [WorkflowTask("a", 1.0), WorkflowTask("b", 2.0, cores=2)]
    problem = problem_of(tasks, platform, [("a", "b", 1e6)])
    trace = simulate(problem, evaluate(problem, [0, 1], [0, 1]))
    # b starts at 2 s and is lost; it is sent again at once, and its machine is back at 5 s.
    assert [run.kind for run in trace.runs] == ["ended", "lost", "ended"]
    assert trace.makespan == 7.0
