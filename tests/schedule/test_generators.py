"""Generators make what the papers describe, and the same of the same seed."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.recorded import recorded
from tests.schedule.test_formats import DATA
from zenturio.errors import InputError, NotFoundError
from zenturio.schedule.formats.files import read_workflow
from zenturio.schedule.generators.generator import (
    count_of,
    describe,
    generate,
    instance_of,
    names,
    scale,
)
from zenturio.schedule.generators.papers import simulation_curve
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.shape_and_runtimes import shape_of
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

QUICK = settings(deadline=None, max_examples=settings.default.max_examples * 40 // 100)
TRACE = DATA / "pegasus.json"
APPLICATIONS = (
    "blast", "cycles", "epigenomics", "genomes", "montage", "seismology", "soykb", "srasearch",
)  # fmt: skip


def made(name, /, seed=1, **given_):
    if name == "recipe":
        given_ = {"trace": TRACE, **given_}
    return generate(name, given_, seed)


def layers(flow):
    """How many subtasks each layer has."""
    return list(Counter(task.program for task in flow.tasks).values())


def parents(flow):
    """For each subtask "T2.1" the numbers of those it follows in the layer above."""
    found = {name: [] for name in flow.names}
    for a, b, _ in flow.edges:
        assert int(a.split(".")[0][1:]) + 1 == int(b.split(".")[0][1:])
        found[b].append(int(a.split(".")[1]))
    return {name: sorted(each) for name, each in found.items()}


@pytest.mark.parametrize("name", names())
def test_the_same_seed_makes_the_same_and_another_another(name):
    one, same, other = made(name), made(name), made(name, seed=2)
    assert list(one.workflow.tasks) == list(same.workflow.tasks)
    assert list(one.workflow.edges) == list(same.workflow.edges)
    assert one.platform.machines == same.platform.machines
    fixed = {"topcuoglu", "gee", "maxdo", "pipealign"}
    differs = list(one.workflow.tasks) != list(other.workflow.tasks)
    assert differs != (name in fixed)


@pytest.mark.parametrize("name", names())
def test_what_is_made_can_be_planned_on_its_own_machines(name):
    found = made(name)
    problem = Problem.of(found.workflow, found.platform)
    assert len(problem.order) == problem.tasks > 0
    assert describe(name).about


def test_wien2k_has_the_tasks_and_costs_of_the_paper():
    flow = made("wien2k", kpoints=50, atoms=10, size=1000, spread=0).workflow
    assert len(flow) == 105
    count = Counter(task.program for task in flow.tasks)
    assert (count["lapw1"], count["lapw2"]) == (50, 50)
    work = {task.name: task.work for task in flow.tasks}
    assert work["lapw1_7"] == pytest.approx((7 * 10 * 1000**2 + 1000**3) / 1e9)
    assert work["lapw2_7"] == pytest.approx(work["lapw1_7"] / 10)
    moved = {(a, b): data for a, b, data in flow.edges if data}
    assert moved == {(f"lapw1_{k}", f"lapw2_{k}"): 200.0 * 1000 * 10 for k in range(1, 51)}
    edges = {(a, b) for a, b, _ in flow.edges}
    assert {("lapw0", "lapw1_3"), ("lapw1_3", "lapw2_fermi"), ("lapw2_fermi", "lapw2_3"),
            ("lapw2_3", "mixer"), ("mixer", "converged")} <= edges  # fmt: skip


def test_wien2k_can_bind_the_two_tasks_of_a_k_point_to_one_machine():
    made_of = made("wien2k", kpoints=40, shared=True)
    problem = Problem.of(made_of.workflow, made_of.platform)
    names = list(problem.workflow.names)
    first, second = names.index("lapw1_7"), names.index("lapw2_7")
    assert problem.group[first] == problem.group[second]
    assert len(set(problem.group.tolist())) == 45
    flow = made("wien2k", kpoints=2, shared=True, transfers=True).workflow
    machines = {task.name: task.machine for task in flow.tasks}
    assert (machines["lapw1_1"], machines["lapw2_1"]) == ("kpoint_1", "kpoint_1")
    assert machines["lapw0"] == "lapw0"


def test_wien2k_repeats_until_it_converges():
    flow = made("wien2k", kpoints=4, loop=True).workflow
    assert flow.looped
    assert ("converged", "lapw0", 0.0) in list(flow.edges)


def test_file_transfers_say_from_where_to_where_and_weigh_the_same():
    flow = made("wien2k", kpoints=4, transfers=True).workflow
    moved = [task for task in flow.tasks if task.kind == "transfer"]
    assert [(t.machine, t.target) for t in moved] == [
        (f"lapw1_{k}", f"lapw2_{k}") for k in range(1, 5)
    ]
    plain = made("wien2k", kpoints=4).workflow
    merged = Problem.of(flow, made("wien2k").platform).workflow
    assert {(a, b): data for a, b, data in merged.edges} == {
        (a, b): data for a, b, data in plain.edges
    }


@QUICK
@given(
    st.integers(1, 12), st.floats(1, 5.5), st.floats(1, 10), st.floats(1, 10), st.integers(0, 99)
)
def test_sweeps_have_the_factors_of_table_i(pst, adps, rss, rsr, seed):
    found = generate("sweep", {"pst": pst, "adps": adps, "rss": rss, "rrt": 5, "rsr": rsr}, seed)
    flow, platform = found.workflow, found.platform
    counts = layers(flow)
    assert (sum(counts), len(counts)) == (512, pst)
    below = sum(counts[1:])
    assert len(flow.data) == round(adps * below)
    waits = parents(flow)
    assert all(
        1 <= len(set(each)) == len(each)
        for name, each in waits.items()
        if not name.startswith("T1.")
    )
    work = np.array([task.work for task in flow.tasks])
    assert 20 <= work.min() <= work.max() <= 20 * rss
    resources = Counter(tag for machine in platform.machines for tag in machine.tags)
    for i, count in enumerate(counts, 1):
        assert resources[f"T{i}"] == max(round(count / rsr), 1)
    assert {task.tag for task in flow.tasks} == set(resources)


def test_too_many_dependencies_are_refused_with_what_is_possible():
    with pytest.raises(InputError) as caught:
        made("sweep", total=6, pst=3, adps=50)
    assert "too few above it" in str(caught.value)
    assert "up to" in str(caught.value)


def test_the_sample_graphs_have_the_parents_of_the_papers_formulas():
    ptg = made("ptg", pst=3, width=4).workflow
    assert layers(ptg) == [4, 4, 4]
    assert all(each == [int(t.split(".")[1])] for t, each in parents(ptg).items() if t[1] != "1")
    otg = made("otg", pst=4, branches=3).workflow
    assert layers(otg) == [1, 3, 9, 27]
    itg = made("itg", pst=4, branches=3).workflow
    assert layers(itg) == [27, 9, 3, 1]
    for j in range(1, 28):
        assert parents(otg)[f"T4.{j}"] == [(j - 1) // 3 + 1]
    for j in range(1, 10):
        assert parents(itg)[f"T2.{j}"] == [x for x in range(1, 28) if 3 * (j - 1) < x <= 3 * j]


def test_trees_side_by_side_have_the_size_that_the_paper_prints():
    out = made("otg", pst=4, branches=3, trees=2).workflow
    into = made("itg", pst=4, branches=3, trees=2).workflow
    assert len(out) == len(into) == 3**4 - 1
    assert layers(out) == [2, 6, 18, 54] == layers(into)[::-1]
    assert parents(out)["T2.4"] == [2]
    assert parents(into)["T4.2"] == [4, 5, 6]


@pytest.mark.parametrize(("branches", "step"), [(3, 1), (4, 2), (2, 5)])
def test_densified_trees_too(branches, step):
    given_ = {"pst": 3, "branches": branches, "step": step, "narrow": 7}
    wide = [7, step * 6 + branches]
    wide.append(step * (wide[1] - 1) + branches)
    out, into = made("dotg", **given_).workflow, made("ditg", **given_).workflow
    assert (layers(out), layers(into)) == (wide, wide[::-1])
    for j in range(1, wide[1] + 1):
        low, high = -((branches - j) // step), (j - 1) // step
        assert parents(out)[f"T2.{j}"] == [x + 1 for x in range(wide[0]) if low <= x <= high]
        start = step * (j - 1)
        assert parents(into)[f"T2.{j}"] == list(range(start + 1, start + branches + 1))


def test_a_composite_is_trees_out_and_in_by_turns():
    flow = made("ctg", pst=5, first=1).workflow
    assert layers(flow) == [1, 2, 6, 2, 1]
    waits = parents(flow)
    assert waits["T3.4"] == [2]
    assert (waits["T4.2"], waits["T5.1"]) == ([4, 5, 6], [1, 2])


@pytest.mark.parametrize(("exponent", "serial"), [(0.9, 0), (1, 0), (1, 0.018), (0.8, 0.01)])
def test_a_simulation_is_fastest_on_35_nodes_and_fast_on_powers_of_two(exponent, serial):
    seconds = simulation_curve(1000.0, exponent, serial).table(36)[1:]
    assert seconds[0] == 1000
    assert int(seconds.argmin()) + 1 == 35
    for power in (2, 4, 8, 16, 32):
        assert seconds[power - 1] < min(seconds[power - 2], seconds[power])
        if power > 2:
            assert seconds[power - 1] < seconds[power - 2]
    efficiency = seconds[0] / seconds / np.arange(1, 37)
    assert (efficiency[1:] < 1 + (exponent == 1) * (serial == 0) * 1e-9).all()
    assert seconds[1] == pytest.approx(1000 * (serial + (1 - serial) / 2**exponent))


@pytest.mark.parametrize(
    ("name", "simulations", "tasks"),
    [("kwave-barrier", k, 2 * k + 2) for k in (3, 7, 15, 31)]
    + [("kwave-tree", k, 2 * k - 1) for k in (4, 8, 16, 32)]
    + [("kwave-independent", k, k) for k in (7, 64)],
)
def test_kwave_workflows_have_the_sizes_of_the_paper(name, simulations, tasks):
    flow = made(name, simulations=simulations).workflow
    assert len(flow) == tasks
    assert all(task.curve for task in flow.tasks)
    reach = {task.program: task.curve.nodes[-1] for task in flow.tasks}
    assert reach == {"simulation": 36, "processing": 2} or name == "kwave-independent"


def test_simulations_differ_by_steps_and_processors_only():
    flow = made("kwave-independent", simulations=2000, seconds=1000).workflow
    assert 750 * 0.95 <= flow.work.min() < 760
    assert 990 < flow.work.max() <= 1050
    shapes = {tuple(np.round(np.divide(t.curve.seconds, t.work), 9)) for t in flow.tasks}
    assert len(shapes) == 1


def test_a_process_takes_as_long_as_it_has_files():
    flow = made("kwave-barrier", simulations=31, noise=0, processing=10).workflow
    (first, second) = [task for task in flow.tasks if task.program == "processing"]
    assert first.work == second.work == 310
    assert [len(flow.before.of(i)) for i, t in enumerate(flow.tasks) if t in (first, second)] == [
        31,
        31,
    ]


def greedy(flow, machines):
    """When the last task ends, if each starts as soon as it can, in the order given."""
    free, end = [0.0] * machines, {}
    for task in flow.order.tolist():
        ready = max((end[int(b)] for b in flow.before.of(task)), default=0.0)
        best = min(range(machines), key=lambda m: max(free[m], ready))
        end[task] = free[best] = max(free[best], ready) + float(flow.work[task])
    return max(end.values())


@pytest.mark.parametrize(
    ("name", "tasks", "work", "makespan"),
    [("maxdo", 6, 80, 33), ("pipealign", 9, 125, 96), ("gee", 17, 200, 123)],
)
def test_the_bioinformatic_applications_have_the_numbers_of_table_1(name, tasks, work, makespan):
    flow = made(name).workflow
    assert (len(flow), flow.work.sum()) == (tasks, work)
    assert greedy(flow, 4) == makespan


@QUICK
@given(st.integers(1, 300), st.none() | st.integers(1, 40), st.floats(1, 6), st.integers(0, 99))
def test_layered_graphs_have_their_layers_and_no_edge_twice(tasks, deep, degree, seed):
    given_ = {"tasks": tasks, "layers": deep, "degree": degree}
    flow = generate("layered", given_, seed).workflow
    wanted = min(deep or max(round(tasks**0.5), 1), tasks)
    assert (len(flow), shape_of(flow).levels) == (tasks, wanted)
    assert len(set(zip(flow.sources, flow.targets, strict=True))) == len(flow.data)
    assert ((flow.work >= 5) & (flow.work <= 35)).all()


@QUICK
@given(st.integers(3, 300), st.none() | st.integers(1, 40), st.integers(0, 99))
def test_fork_joins_are_forks_and_joins_in_turn(tasks, stages, seed):
    flow = generate("fork-join", {"tasks": tasks, "stages": stages}, seed).workflow
    stages = min(stages or max(round(tasks**0.5 / 2), 1), (tasks - 1) // 2)
    assert (len(flow), flow.level.max()) == (tasks, 2 * stages)
    count = Counter(flow.level.tolist())
    assert all(count[level] == 1 for level in range(0, 2 * stages + 1, 2))
    assert len(flow.data) == 2 * sum(count[level] for level in range(1, 2 * stages, 2))
    for task in np.flatnonzero(flow.level % 2).tolist():
        assert (len(flow.before.of(task)), len(flow.after.of(task))) == (1, 1)


@QUICK
@given(st.integers(2, 120), st.floats(0, 1), st.integers(0, 99))
def test_series_parallel_graphs_reduce_to_one_edge(tasks, parallel, seed):
    flow = generate("series-parallel", {"tasks": tasks, "parallel": parallel}, seed).workflow
    edges = set(zip(flow.sources.tolist(), flow.targets.tolist(), strict=True))
    assert len(edges) == len(flow.data) < 2 * tasks
    # A task with one edge in and one out becomes an edge, as long as there is one.
    remaining = set(range(1, tasks - 1))
    while remaining:
        for task in sorted(remaining):
            into = [edge for edge in edges if edge[1] == task]
            out = [edge for edge in edges if edge[0] == task]
            if len(into) == len(out) == 1:
                edges = edges - {*into, *out} | {(into[0][0], out[0][1])}
                remaining.remove(task)
                break
        else:
            raise AssertionError(f"{remaining} are not series-parallel")
    assert edges == {(0, tasks - 1)}


GENERATED = {
    "layered:tasks=50,whole=true,ccr=0,seed=1": "6d5ab6dd6c5ef8c0",
    "fork-join:tasks=50,whole=true,ccr=0,seed=1": "90f73a14693c6894",
    "series-parallel:tasks=50,whole=true,ccr=0,seed=1": "06c63d4a4d3b1d42",
    "application:name=montage,inputs=5,seed=5": "e78661816056a9ec",
}
"""Digests of generated workflows."""


@pytest.mark.parametrize("text", GENERATED)
def test_everybody_gets_the_same_instances_of_the_shoot_out(text):
    flow = instance_of(text).workflow
    rows = [f"{task.name} {task.work!r}" for task in flow.tasks]
    rows += [f"{a} {b} {data!r}" for a, b, data in flow.edges]
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    assert digest.startswith(GENERATED[text])


@pytest.mark.parametrize("graph", ["layered", "fork-join", "series-parallel"])
def test_work_may_be_whole_seconds(graph):
    work = made(graph, whole=True).workflow.work
    assert (work == work.round()).all()
    assert len(set(work.tolist())) > 5


def test_montage_joins_neighbours_and_then_all():
    flow = made("application", name="montage", inputs=4).workflow
    edges = {(a, b) for a, b, _ in flow.edges}
    assert {a for a, b in edges if b == "difference_2"} == {"project_2", "project_3"}
    assert {a for a, b in edges if b == "difference_4"} == {"project_4"}
    assert {a for a, b in edges if b == "fit"} == {f"difference_{i}" for i in range(1, 5)}
    assert {a for a, b in edges if b == "background_3"} == {"project_3", "model"}
    assert flow.level.max() == 7


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_grows_with_its_inputs_but_not_in_depth(name):
    few, many = (made("application", name=name, inputs=count).workflow for count in (3, 30))
    assert few.level.max() == many.level.max()
    assert set(few.programs) == set(many.programs)
    wide = Counter(task.program for task in many.tasks)
    assert set(wide.values()) == {1, 30}
    assert ((many.work > 0) & (many.work < 300)).all()
    assert len({task.work for task in many.tasks}) > 20


def test_an_unknown_application_is_refused_with_a_suggestion():
    with pytest.raises(NotFoundError) as caught:
        made("application", name="montag")
    assert "did you mean 'montage'?" in str(caught.value)


def test_unrelated_machines_take_what_time_they_like():
    found = made("layered", tasks=30, machines=5, unrelated=True)
    times = np.array([task.times for task in found.workflow.tasks])
    assert times.shape == (30, 5)
    assert len(np.unique(np.argsort(times), axis=0)) > 5
    with pytest.raises(InputError, match="too many times"):
        made("layered", tasks=1_000_000, machines=1000, unrelated=True)


@pytest.mark.parametrize("name", ["pegasus", "nextflow"])
@pytest.mark.parametrize("times", [1, 2.7, 20])
def test_a_scaled_trace_has_its_size_depth_and_programs(name, times):
    assert_scaled(read_workflow(DATA / f"{name}.json"), times)


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("times", [1, 2.7, 20])
def test_a_scaled_application_has_its_size_depth_and_programs(name, times):
    assert_scaled(generate("application", {"name": name}, 1).workflow, times)


@pytest.mark.parametrize("times", [1, 2.7, 20])
def test_every_recorded_trace_keeps_its_depth_and_programs_when_it_is_scaled(times):
    for path in recorded("wfinstances/*.json"):
        assert_scaled(read_workflow(path), times)


def assert_scaled(flow, times):
    wanted = round(len(flow) * times)
    found = scale(flow, wanted, seed=3)
    assert len(found) == len(set(found.names)) == wanted
    assert found.level.max() == flow.level.max()
    assert set(found.programs) == set(flow.programs)
    assert len(set(zip(found.sources, found.targets, strict=True))) == len(found.data)
    # Nothing begins or ends in the middle of what did not do so in the trace.
    first = {flow.programs[flow.program[i]] for i in np.flatnonzero(flow.level == 0)}
    for i in np.flatnonzero(np.bincount(found.targets, minlength=wanted) == 0):
        assert found.programs[found.program[i]] in first
    last = {flow.task(i).program for i in range(len(flow)) if not len(flow.after.of(i))}
    for i in np.flatnonzero(np.bincount(found.sources, minlength=wanted) == 0):
        assert found.programs[found.program[i]] in last


def test_a_trace_scaled_to_its_own_size_is_its_own_graph():
    flow = read_workflow(TRACE)
    found = scale(flow, len(flow), seed=1, noise=0)
    number = {name: i for i, name in enumerate(flow.names)}
    assert {number[name] for name in found.names} == set(range(len(flow)))
    assert {(a, b) for a, b, _ in found.edges} == {(a, b) for a, b, _ in flow.edges}
    for task in found.tasks:
        took = [t.work for t in flow.tasks if t.program == task.program]
        assert min(took) <= task.work <= max(took)


def test_scaling_twice_names_no_task_twice():
    flow = scale(scale(read_workflow(TRACE), 100), 500)
    assert len(set(flow.names)) == 500


def test_a_fork_is_scaled_between_its_ends():
    names_ = ["a", *"bcd", "e"]
    tasks = [WorkflowTask(n, 1.0, program="p" if n in "bcd" else n) for n in names_]
    edges = [("a", n, 5.0) for n in "bcd"] + [(n, "e", 7.0) for n in "bcd"]
    found = scale(Workflow.of("fork", tasks, edges), 12, noise=0)
    count = Counter(task.program for task in found.tasks)
    assert count == {"a": 1, "p": 10, "e": 1}
    assert len(found.data) == 20
    assert Counter(found.data.tolist()) == {5.0: 10, 7.0: 10}


def test_what_is_too_small_or_all_alone_is_told():
    with pytest.raises(InputError) as caught:
        made("recipe", tasks=1)
    assert "kinds of tasks: from" in str(caught.value)
    with pytest.raises(InputError, match="recipe needs a workflow"):
        generate("recipe")


def test_a_million_tasks_have_linear_memory():
    flow = scale(read_workflow(TRACE), 200_000)
    columns = (flow.work, flow.sources, flow.targets, flow.data, flow.program)
    assert sum(each.nbytes for each in columns) < 40 * 200_000
    assert not flow.more


def test_a_folder_of_its_name_does_not_hide_a_generator(tmp_path, monkeypatch):
    (tmp_path / "wien2k").mkdir()
    monkeypatch.chdir(tmp_path)
    assert instance_of("wien2k").workflow.name.startswith("wien2k")


def test_generators_and_files_are_named_in_one_line(tmp_path, monkeypatch):
    one = instance_of("wien2k:kpoints=3,seed=7").workflow
    assert list(one.tasks) == list(generate("wien2k", {"kpoints": 3}, 7).workflow.tasks)
    assert len(instance_of(str(TRACE)).workflow) == 22
    monkeypatch.chdir(tmp_path)
    Path("gee").write_text('{"tasks": [{"name": "mine"}]}')
    assert instance_of("gee").workflow.names == ("mine",)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("wien2", "'wien2' is neither a file nor a generator", "did you mean 'wien2k'?"),
        ("wien2k:kpoint=3", "generator wien2k has no setting 'kpoint'", "did you mean 'kpoints'?"),
        ("wien2k:kpoints", "'kpoints' is not a setting", "NAME=VALUE"),
        ("wien2k:kpoints=0", "kpoints=0 is not possible", "from 1 to"),
        ("wien2k:seed=-1", "seed=-1 is not a valid seed", "from 0 on"),
        ("otg:pst=20,branches=100", "subtasks", "up to 1,000,000"),
        ("sweep:total=1000000,adps=900", "dependencies", "up to 2,000,000"),
        ("dotg:pst=2,narrow=400000,branches=1000", "dependencies", "up to 2,000,000"),
        ("dotg:pst=100,branches=1000,step=1000", "subtasks", "up to 1,000,000"),
    ],
)
def test_a_wrong_name_or_setting_is_told_with_what_would_be_right(text, message, hint):
    with pytest.raises((InputError, NotFoundError)) as caught:
        instance_of(text)
    assert message in str(caught.value)
    assert hint in str(caught.value)


@QUICK
@given(st.integers(1, 60), st.integers(0, 99))
def test_the_shape_is_what_walking_the_graph_tells(tasks, seed):
    flow = generate("layered", {"tasks": tasks}, seed).workflow
    end = {}
    for task in flow.order.tolist():
        before = max((end[int(b)] for b in flow.before.of(task)), default=0.0)
        end[task] = before + float(flow.work[task])
    found = shape_of(flow)
    assert found.critical == pytest.approx(max(end.values()))
    assert found.width == max(Counter(flow.level.tolist()).values())
    assert found.parallelism == pytest.approx(flow.work.sum() / found.critical)


@QUICK
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 9))
def test_levels_are_the_same_one_by_one_and_all_at_once(tasks, deep, seed):
    from zenturio.schedule.model import workflow

    orders = []
    for narrow in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workflow, "_MAX_SCALAR", narrow)
            flow = generate("layered", {"tasks": tasks, "layers": deep}, seed).workflow
            orders.append((flow.order.tolist(), flow.level.tolist()))
    assert orders[0] == orders[1]


SIZED = {
    "application": [f"name={name},inputs=7" for name in APPLICATIONS],
    "ctg": ["", "pst=9,first=5"],
    "ditg": ["pst=3,branches=2", "step=2"],
    "dotg": ["pst=3", "branches=4,step=2"],
    "itg": ["pst=4", "branches=3,pst=3,trees=2"],
    "kwave-barrier": ["simulations=5,levels=3"],
    "kwave-independent": ["simulations=3"],
    "kwave-tree": ["simulations=9", "simulations=1"],
    "fork-join": ["tasks=3", "tasks=70,stages=4"],
    "layered": ["tasks=70"],
    "otg": ["pst=5", "branches=3,pst=4,trees=2"],
    "ptg": ["width=7,pst=3"],
    "recipe": [f"trace={TRACE},tasks=60"],
    "series-parallel": ["tasks=2", "tasks=70,parallel=0"],
    "sweep": ["total=100,pst=4"],
    "wien2k": ["kpoints=7", "kpoints=7,transfers=true", "kpoints=3,loop=true"],
}


@pytest.mark.parametrize("name", names())
def test_a_generator_knows_how_many_tasks_it_will_make(name):
    for rest in SIZED.get(name, [""]):
        text = f"{name}:{rest}" if rest else name
        assert count_of(text) == len(instance_of(text).workflow), text


def test_what_is_too_large_to_make_is_counted_all_the_same():
    assert count_of("layered:tasks=1e7") == 10_000_000
    assert count_of("kwave-barrier:simulations=1e6,levels=1000,seed=3") == 1_000_001_000
    assert count_of("ptg:pst=1000,width=1e6") == 1_000_000_000
    assert count_of(str(TRACE)) is None
