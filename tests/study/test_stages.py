"""Stages wait for exactly their own inputs, get their files, and are ordered as pM-S has it."""

import os
import random
import signal
from collections import Counter
from contextlib import chdir, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.conftest import zen
from loaded import Program
from record.reference import ReferenceRepository
from study.oracle import alive
from study.places import Held
from zenturio.annotate.model import Repeat
from zenturio.annotate.scan import read_goals, scan
from zenturio.errors import AnnotationError, PlaceError
from zenturio.experiment import ExperimentGenerator
from zenturio.record import maintenance
from zenturio.record.open import open_repository
from zenturio.schedule.algorithm import make
from zenturio.schedule.model.plan import check
from zenturio.schedule.model.platform import identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.study.driver.experiment_source import PointSelection, RunOrder, select_points
from zenturio.study.driver.progress import BestPoint, RunProgress
from zenturio.study.driver.search_source import recorded_search
from zenturio.study.driver.slot_pool import SlotPool
from zenturio.study.driver.study_session import StudySession
from zenturio.study.local_run import run_locally
from zenturio.study.stages import stage_graph
from zenturio.study.stages.pipeline import Pipeline, StageExperimentSource
from zenturio.study.stages.stage_graph import StageGraph, _space_texts, stages_of
from zenturio.study.stages.stage_inputs import _table
from zenturio.study.study_request import PlaceOptions, read_search
from zenturio.testing.executor import until
from zenturio.testing.repository import outcome

MESH = """\
#!/bin/sh
#ZEN$ PARAM n = { 1:4 }
#ZEN$ PARAM order = { 1, 2 }
#ZEN$ RUN "sh mesh.sh {n} {order}"
#ZEN$ OUTPUT "out/*.dat"
mkdir out; echo "mesh $1 $2" > out/grid.dat
"""
SOLVE = """\
#!/bin/sh
#ZEN$ PARAM n = { 1:4 }
#ZEN$ PARAM order = { 1, 2 }
#ZEN$ RUN "sh solve.sh {n}"
#ZEN$ AFTER "mesh" ON n, order
#ZEN$ METRIC got FROM stdout REGEX "(mesh.*)"
#ZEN$ OUTPUT "result"
cat mesh/out/grid.dat; cat mesh/out/grid.dat > result
"""
PLOT = """\
#!/bin/sh
#ZEN$ PARAM order = { 1, 2 }
#ZEN$ RUN "sh plot.sh"
#ZEN$ AFTER "solve" ON order
#ZEN$ METRIC all FROM stdout REGEX "all (.*)"
#ZEN$ METRIC table FROM stdout REGEX "table (.*)"
echo all $(cat solve/*/result)
echo table $(cat solve.csv)
"""


@pytest.fixture
def three(tmp_path):
    """A mesh, solvers on it, and pictures of these: the folder."""
    (tmp_path / ".zenturio").mkdir()
    for name, text in (("mesh", MESH), ("solve", SOLVE), ("plot", PLOT)):
        (tmp_path / f"{name}.sh").write_text(text)
    with chdir(tmp_path):
        yield tmp_path


def run(path, **more):
    application = scan(path)
    return run_locally(application, select_points(application.space), **more)


def told(study, name):
    """A metric by the parameters of the experiments."""
    repository = open_repository(create=False)
    found = {
        tuple(record.values.values()): record.outcome.metrics[name]
        for record in repository.records(study, states=("ok",))
    }
    repository.close()
    return found


def test_each_experiment_gets_the_files_of_those_that_agree_with_it(three):
    summary = run("plot.sh")
    assert [each.study for each in summary.before] == ["mesh", "solve"]
    assert [each.ok for each in (*summary.before, summary)] == [8, 8, 2]
    assert told("solve", "got") == {(n, o): f"mesh {n} {o}" for n in range(1, 5) for o in (1, 2)}
    assert told("plot", "all") == {
        (1,): "mesh 1 1 mesh 2 1 mesh 3 1 mesh 4 1",
        (2,): "mesh 1 2 mesh 2 2 mesh 3 2 mesh 4 2",
    }


def test_a_table_says_which_folder_is_of_which_experiment(three):
    assert oct(_table("solve", (), single=True).mode) == "0o644"
    run("plot.sh")
    assert told("plot", "table")[2,] == (
        "folder,repeat,n,order solve/1,1,1,2 solve/2,1,2,2 solve/3,1,3,2 solve/4,1,4,2"
    )


def test_what_is_known_is_not_run_again_and_what_changed_before_it_is(three):
    run("plot.sh")
    again = run("plot.sh")
    assert [each.ok for each in (*again.before, again)] == [0, 0, 0]
    assert [each.cached for each in (*again.before, again)] == [8, 8, 2]
    mesh = three / "mesh.sh"
    mesh.write_text(mesh.read_text().replace('"mesh $1', '"mesh  $1'))
    third = run("plot.sh")
    assert [each.ok for each in (*third.before, third)] == [8, 8, 2]
    repository = open_repository(create=False)
    session = StudySession(scan("plot.sh"), select_points(scan("plot.sh").space), repository)
    foreseen = Pipeline(session).foresee()
    # What a later stage finds depends on files that earlier ones leave: nobody has looked.
    assert [(plan.cached, plan.looked_at, plan.slots) for plan in (*foreseen.before, foreseen)] == [
        (8, 8, 0), (0, 0, 0), (0, 0, 0),
    ]  # fmt: skip
    names = {
        study.name: sum(repository.count_states(study.name).values())
        for study in repository.studies()
    }
    repository.close()
    assert names == {
        "mesh": 8, "mesh@1": 8, "solve": 8, "solve@1": 8, "plot": 2, "plot@1": 2,
    }  # fmt: skip


def test_more_inputs_make_another_study_where_several_are_waited_for(three):
    run("plot.sh")
    for name in ("mesh.sh", "solve.sh"):
        path = three / name
        path.write_text(path.read_text().replace("{ 1:4 }", "{ 1:5 }"))
    again = run("plot.sh")
    assert [(each.cached, each.ok) for each in (*again.before, again)] == [(8, 2), (8, 2), (0, 2)]
    assert told("plot", "all")[1,].endswith("mesh 5 1")
    assert len(told("plot", "all")) == len(told("plot@1", "all")) == 2


def test_more_inputs_change_nothing_where_each_waits_for_one(three):
    run("solve.sh")
    mesh = three / "mesh.sh"
    mesh.write_text(mesh.read_text().replace("order = { 1, 2 }", "order = { 1, 2, 3 }"))
    again = run("solve.sh")
    assert [(each.ok, each.cached) for each in (*again.before, again)] == [(0, 8), (0, 8)]
    repository = open_repository(create=False)
    assert repository.study("solve").version == 1
    repository.close()


def test_only_those_are_run_that_are_waited_for(three):
    application = scan("solve.sh")
    summary = run_locally(application, select_points(application.space, limit=3))
    assert [each.ok for each in (*summary.before, summary)] == [3, 3]
    assert set(told("mesh", "exit")) == {(1, 1), (1, 2), (2, 1)}


def test_what_fails_holds_up_only_what_waits_for_it(three):
    mesh = three / "mesh.sh"
    mesh.write_text(mesh.read_text() + '[ "$1 $2" != "3 1" ]\n')
    summary = run("plot.sh")
    before = {each.study: each for each in summary.before}
    assert (before["mesh"].ok, before["mesh"].failed) == (7, 1)
    assert (before["solve"].ok, before["solve"].blocked) == (7, 1)
    assert (summary.ok, summary.blocked) == (1, 1)
    assert set(told("plot", "exit")) == {(2,)}


def test_a_large_file_of_an_earlier_stage_comes_along(three):
    mesh = three / "mesh.sh"
    mesh.write_text(mesh.read_text() + "head -c 3000000 /dev/zero > out/large.dat\n")
    solve = three / "solve.sh"
    solve.write_text(solve.read_text() + "wc -c < mesh/out/large.dat > result\n")
    summary = run("plot.sh")
    assert summary.ok == 2, summary.before
    assert told("plot", "all")[1,] == " ".join(["3000000"] * 4)


def test_each_repeat_is_an_input(three):
    mesh = three / "mesh.sh"
    mesh.write_text(mesh.read_text().replace("#ZEN$ OUTPUT", "#ZEN$ REPEAT 2\n#ZEN$ OUTPUT"))
    solve = three / "solve.sh"
    solve.write_text(solve.read_text().replace("mesh/out", "mesh/2/out"))
    summary = run("solve.sh")
    assert [each.ok for each in (*summary.before, summary)] == [16, 8]


# As soon as their own inputs are there.


@dataclass
class Driven:
    """A pipeline in a thread, at a place that ends experiments when it is told to."""

    pipeline: Pipeline
    place: Held
    pool: SlotPool
    errors: list = field(default_factory=list)

    def __post_init__(self):
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            self.summary = self.pipeline.run(self.pool)
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)

    def running(self, count):
        """The experiments at the place, as soon as there are so many."""
        until(lambda: len(self.place.begun) == count)
        found = [future.experiment for future in self.place.begun.values()]
        return {(e.steps[0].command.split()[1], *e.values.values()): e for e in found}

    def waiting(self):
        """The programs of those that wait for a slot."""
        requests = [
            request for allotment in self.pool._allotments for request in list(allotment.waiting)
        ]
        return [e.experiment.steps[0].command.split()[1] for e in requests if not e.cancelled()]

    def end(self, experiment, status="ok"):
        self.place.end(experiment.digest, outcome(experiment, status))


@pytest.fixture
def driven(three):
    """Starts a pipeline with so many slots."""
    found = []

    def start(path, slots):
        application = scan(path)
        session = StudySession(application, select_points(application.space), ReferenceRepository())
        place = Held(slots)
        found.append(Driven(Pipeline(session), place, SlotPool(place)))
        return found[-1]

    yield start
    for each in found:
        each.pipeline.stop()
        each.pipeline.stop()
        each.thread.join()
        assert not each.thread.is_alive()


def test_a_stage_begins_when_its_own_inputs_are_there_not_when_all_are(driven):
    pipeline = driven("solve.sh", 9)
    meshes = pipeline.running(8)
    assert {name for name, *_ in meshes} == {"mesh.sh"}
    pipeline.end(meshes["mesh.sh", 3, 2])
    after = pipeline.running(8)
    assert ("solve.sh", 3, 2) in after
    assert len([name for name, *_ in after if name == "mesh.sh"]) == 7


def test_earlier_stages_have_slots_first(driven):
    pipeline = driven("solve.sh", 1)
    order = []
    for _ in range(16):
        ((name, experiment),) = pipeline.running(1).items()
        order.append(name[0])
        if order.count("mesh.sh") < 8:
            until(lambda: "mesh.sh" in pipeline.waiting())
        pipeline.end(experiment)
    pipeline.thread.join()
    assert order == ["mesh.sh"] * 8 + ["solve.sh"] * 8
    assert pipeline.summary.ok == 8


def test_two_stops_kill_all_stages(driven):
    pipeline = driven("plot.sh", 4)
    pipeline.running(4)
    pipeline.pipeline.stop()
    pipeline.pipeline.stop()
    pipeline.thread.join()
    assert [type(error).__name__ for error in pipeline.errors] == ["Interrupted"]


def test_one_stop_lets_what_runs_end_and_begins_nothing_more(driven):
    pipeline = driven("plot.sh", 4)
    meshes = pipeline.running(4)
    pipeline.pipeline.stop()
    until(lambda: not pipeline.waiting())
    for experiment in meshes.values():
        pipeline.end(experiment)
    pipeline.thread.join()
    assert pipeline.summary.interrupted
    assert pipeline.summary.before[0].ok == 4
    assert pipeline.place.begun == {}


# Whatever is killed.


def start(folder, *words, **environment):
    every = os.environ | environment
    return Program(None, "run", "plot.sh", *words, cwd=folder, environment=every)


def whole(folder):
    """Each experiment has one result, which is the right one."""
    summary = run("plot.sh")
    assert [each.unfinished for each in (*summary.before, summary)] == [0, 0, 0]
    assert told("plot", "all") == {
        (order,): " ".join(f"mesh {n} {order}" for n in range(1, 5)) for order in (1, 2)
    }
    repository = open_repository(create=False)
    for study, count in (("mesh", 8), ("solve", 8), ("plot", 2)):
        records = list(repository.records(study))
        assert len(records) == count
        for record in records:
            states = [attempt.state for attempt in repository.attempts(record.digest)]
            assert states.count("ok") == 1, states
    repository.close()
    assert maintenance.check_repository(None) == ()
    assert alive(folder) == []


FAST = ("study.claimed:3", "study.committed:4")
SLOW = [
    f"study.{name}:{passing}"
    for name in ("leased", "added", "claiming", "submitted", "ended", "committing", "left")
    for passing in (1, 2, 3, 9, 11)
]


@pytest.mark.parametrize(
    "failpoint", [*FAST, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]
)
def test_stages_whose_driver_is_killed_are_resumed(three, failpoint):
    driver = start(three, "-j", "2", ZENTURIO_FAILPOINT=failpoint)
    _, err = driver.communicate()
    assert driver.returncode in (-signal.SIGKILL, 0), err
    whole(three)


@pytest.mark.slow
def test_several_drivers_run_stages_together(three):
    drivers = [start(three, "-j", "2", "--join") for _ in range(3)]
    for driver in drivers:
        _, err = driver.communicate()
        assert driver.returncode == 0, err
    whole(three)


# What pM-S makes of it.


def stage_files(folder, one, two, three):
    """Three stages that meet in parameters drawn by a law."""
    (folder / "a.sh").write_text(
        f'#ZEN$ PARAM x = {{ 1:{one[0]} }}\n#ZEN$ PARAM y = {{ 1:{one[1]} }}\n#ZEN$ RUN "a {{x}}"\n'
    )
    (folder / "b.sh").write_text(
        f"#ZEN$ PARAM x = {{ 1:{one[0]} }}\n#ZEN$ PARAM y = {{ 1:{one[1]} }}\n"
        f'#ZEN$ RUN "b {{x}}"\n#ZEN$ AFTER "a"{on(two)}\n'
    )
    (folder / "c.sh").write_text(
        f'#ZEN$ PARAM y = {{ 1:{one[1]} }}\n#ZEN$ RUN "c"\n#ZEN$ AFTER "b"{on(three)}\n'
    )
    return scan(folder / "c.sh")


def on(names):
    return f" ON {', '.join(names)}" if names else ""


@settings(deadline=None, max_examples=max(1, settings.default.max_examples**2 // 200))
@given(
    one=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    two=st.sampled_from([(), ("x",), ("y",), ("x", "y")]),
    three=st.sampled_from([(), ("y",)]),
    slots=st.integers(1, 4),
)
def test_experiments_begin_as_tasks_do_under_pms(tmp_path_factory, one, two, three, slots):
    application = stage_files(tmp_path_factory.mktemp("stages"), one, two, three)
    graph = StageGraph(stages_of(application), select_points(application.space))
    tasks, edges = as_workflow(one, two, three)
    problem = Problem.of(
        Workflow.of("stages", [WorkflowTask(t, 1.0) for t in tasks], edges), identical(slots)
    )
    plan = make("pm-s", {}).plan(problem)
    check(plan)
    wanted = dict(zip(problem.workflow.names, plan.start.tolist(), strict=True))
    assert played(graph, slots) == wanted


def as_workflow(one, two, three):
    """The same as tasks and edges, which are drawn without what is under test."""
    points = [(x, y) for x in range(1, one[0] + 1) for y in range(1, one[1] + 1)]
    at = {"x": 0, "y": 1}
    a = {f"a{x},{y}": (x, y) for x, y in points}
    b = {f"b{x},{y}": (x, y) for x, y in points}
    c = {f"c{y}": (None, y) for y in range(1, one[1] + 1)}
    edges = [
        (n, m) for n, p in a.items() for m, q in b.items() if all(p[at[i]] == q[at[i]] for i in two)
    ]
    edges += [
        (n, m)
        for n, p in b.items()
        for m, q in c.items()
        if all(p[at[i]] == q[at[i]] for i in three)
    ]
    return [*a, *b, *c], edges


class Bare(ReferenceRepository):
    """Where no experiment left a file."""

    def artifacts(self, _digest, _attempt=None):
        return ()


def played(graph, slots):
    """When each experiment begins, if each takes a second: the place asks all sources anew."""
    sources = [
        StageExperimentSource(
            graph,
            s.number,
            ExperimentGenerator(s.application),
            Bare(),
            0,
            RunOrder(),
            s.application.repeat,
        )
        for s in graph.stages
    ]
    begun, now = {}, 0.0
    while True:
        running = []
        for source in sources:
            for experiment in source:
                running.append((source, experiment))
                if len(running) == slots:
                    break
            if len(running) == slots:
                break
        if not running:
            return begun
        for source, experiment in running:
            begun[label(source, experiment)] = now
        for source, experiment in running:
            source.complete(experiment, outcome(experiment))
        now += 1.0


def label(source, experiment):
    values = experiment.values
    return "abc"[source.stage] + ",".join(str(values[n]) for n in ("x", "y") if n in values)


# What is wrong with stages is told.


@pytest.mark.parametrize(
    ("after", "message", "hint"),
    [
        ('AFTER "mash" ON n', "no stage 'mash' beside solve.sh", "did you mean 'mesh'"),
        ('AFTER "mesh" ON threads', "stage mesh has no parameter threads", "order"),
        ('AFTER "solve"', "wait for each other: solve after solve", "first"),
        ('AFTER "plot"', "solve after plot after solve", "first"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(three, after, message, hint):
    text = SOLVE.replace('AFTER "mesh" ON n, order', after)
    (three / "solve.sh").write_text(text.replace("PARAM n", "PARAM threads = { 1 }\n#ZEN$ PARAM n"))
    with pytest.raises(AnnotationError) as raised:
        run("solve.sh")
    (diagnostic,) = raised.value.diagnostics
    assert message in diagnostic.message
    assert hint in diagnostic.hint
    assert Path(diagnostic.place.file).name in ("solve.sh", "plot.sh")
    assert "AFTER" in diagnostic.place.text


@pytest.mark.parametrize("name", ["mesh/old.dat", "mesh.csv", "mesh/run.sh", "mesh"])
def test_what_is_where_the_files_of_an_earlier_stage_come_is_told(three, name):
    path = three / "program" / name
    path.parent.mkdir(parents=True)
    if name == "mesh":
        path.symlink_to("solve.sh")
    else:
        path.write_text("#ZEN$ PARAM more = { 1 }\n" if name.endswith(".sh") else "old\n")
    (three / "solve.sh").rename(three / "program" / "solve.sh")
    with pytest.raises(
        AnnotationError, match=f"come into mesh/, where {name} is already"
    ) as raised:
        stages_of(scan(three / "program"))
    assert raised.value.diagnostics[0].hint == "rename one of them"
    path.unlink()
    assert [stage.name for stage in stages_of(scan(three / "program"))] == ["mesh", "program"]


def test_a_check_looks_for_the_stages_as_well(three):
    solve = three / "solve.sh"
    solve.write_text(SOLVE.replace('AFTER "mesh"', 'AFTER "mash"'))
    assert "did you mean 'mesh'" in zen("check", "solve.sh", cwd=three, code=2).out
    solve.write_text(SOLVE)
    assert "8 points" in zen("check", "solve.sh", cwd=three).out


def test_a_check_refuses_points_that_no_earlier_stage_has(three, monkeypatch):
    solve, mesh = three / "solve.sh", three / "mesh.sh"
    solve.write_text(SOLVE.replace("{ 1:4 }", "{ 1:5 }"))
    printed = zen("check", "solve.sh", cwd=three, code=2)
    assert "stage mesh has no experiment where n = 5, order = 1" in printed.out
    assert "stage mesh has no experiment" in zen("run", "solve.sh", cwd=three, code=2).err
    # A stage in the middle has only the points that later ones need.
    solve.write_text(SOLVE)
    mesh.write_text(MESH.replace("{ 1:4 }", "{ 1:9 }"))
    assert "no mistakes" in zen("check", "solve.sh", cwd=three).out
    monkeypatch.setattr(stage_graph, "_MOST_LISTED_POINTS", 1)
    mesh.write_text(MESH.replace("{ 1:4 }", "{ 1:3 }"))
    assert stage_graph.stage_refusals(stages_of(scan(solve))) == ()


def test_a_check_refuses_an_earlier_stage_that_has_nothing_to_run(three):
    mesh = three / "mesh.sh"
    mesh.write_text("".join(line for line in MESH.splitlines(True) if "RUN" not in line))
    assert "mesh has no RUN directive" in zen("check", "solve.sh", cwd=three, code=2).out
    mesh.write_text(MESH)
    (three / "solve.sh").write_text(SOLVE + '#ZEN$ VERIFY SAME "out" AS BASELINE WHERE n == 1\n')
    assert "cannot have VERIFY SAME" in zen("check", "solve.sh", cwd=three, code=2).out


def test_values_that_no_earlier_experiment_has_are_told(three):
    (three / "solve.sh").write_text(SOLVE.replace("{ 1:4 }", "{ 1:5 }"))
    with pytest.raises(
        AnnotationError, match="stage mesh has no experiment where n = 5, order = 1"
    ):
        run("solve.sh")


def test_a_stage_that_may_be_several_files_is_asked_for(three):
    (three / "mesh.py").write_text("#ZEN$ PARAM n = { 1 }\n")
    with pytest.raises(AnnotationError, match=r"may be mesh\.py, mesh\.sh"):
        run("solve.sh")
    solve = three / "solve.sh"
    solve.write_text(SOLVE.replace('"mesh"', '"mesh.sh"'))
    assert run("solve.sh").ok == 8


def test_a_program_and_other_files_beside_a_stage_are_not_taken_for_it(three):
    (three / "mesh").write_bytes(b"\x7fELF\0")
    (three / "mesh.c").write_text("int main(void) { return 0; }\n")
    assert run("solve.sh").ok == 8
    (three / "mesh.sh").rename(three / "grid.sh")
    with pytest.raises(AnnotationError, match="mesh: there are no directives"):
        run("solve.sh")


def searched(path, engine="random", trials=3, objective="MINIMIZE wtime", **more):
    application = scan(path)
    return run_locally(
        application, PointSelection.none(application.space), **more,
        search=read_search(engine, [], str(trials), [], 0), goals=read_goals(objective, application),
    )  # fmt: skip


def test_a_folder_is_the_stage_of_its_name_whatever_stands_beside_it(three):
    (three / "mesh").mkdir()
    (three / "mesh" / "in.sh").write_text((three / "mesh.sh").read_text())
    assert stages_of(scan("solve.sh"))[0].application.file_paths == ["in.sh"]
    (three / "mesh" / "in.sh").write_text("true\n")
    with pytest.raises(AnnotationError, match="mesh"):
        stages_of(scan("solve.sh"))


def test_a_search_runs_what_its_points_need_of_earlier_stages_and_that_once(three):
    (three / "solve.sh").write_text(SOLVE + "#ZEN$ PARAM way = { 1:5 }\n")
    summary = searched("solve.sh", trials=12)
    (mesh,) = summary.before
    assert (summary.ok, summary.ended, summary.unfinished) == (12, "budget", 0)
    points = [key[:2] for key in told("solve", "got")]
    assert mesh.ok == len(set(points)) < 8
    assert told("solve", "got") == {key: f"mesh {key[0]} {key[1]}" for key in told("solve", "got")}
    again = searched("solve.sh", trials=12)
    assert (again.cached, again.ok, again.before[0].cached) == (12, 0, mesh.ok)
    assert again.best == summary.best


def test_a_search_waits_for_all_that_agree_with_a_point_through_several_stages(three):
    summary = searched("plot.sh", trials=1)
    assert [each.ok for each in (*summary.before, summary)] == [4, 4, 1]


def test_a_point_whose_stage_failed_is_a_failed_trial_and_not_run(three):
    (three / "mesh.sh").write_text(MESH.replace("mkdir", '[ "$1" -le 2 ] || exit 3; mkdir'))
    summary = searched("solve.sh", "hill", trials=8)
    (mesh,) = summary.before
    assert (mesh.ok, mesh.failed, summary.ok, summary.blocked) == (4, 4, 4, 4)
    assert (summary.failed, summary.ended, summary.best.at["n"] <= 2) == (0, "budget", True)


CONTINUOUS = """\
#ZEN$ PARAM x = { UNIFORM(0, 1) }
#ZEN$ PARAM y := 2 * x
#ZEN$ OUTPUT "out"
"""
CHAIN = {
    "first.sh": CONTINUOUS + '#ZEN$ RUN "echo {x} > out"\n',
    "second.sh": CONTINUOUS
    + '#ZEN$ AFTER "first" ON x, y\n#ZEN$ PARAM n = { 1:2 }\n#ZEN$ RUN "cat first/out > out"\n',
    "third.sh": CONTINUOUS.replace('#ZEN$ OUTPUT "out"\n', "")
    + '#ZEN$ AFTER "second" ON x, n\n#ZEN$ PARAM n = { 1:2 }\n#ZEN$ PARAM m = { 1:9 }\n'
    '#ZEN$ METRIC got FROM stdout REGEX "(\\S+)"\n#ZEN$ RUN "cat second/out"\n',
}


def test_a_search_goes_through_continuous_parameters_of_earlier_stages(three):
    for name, text in CHAIN.items():
        (three / name).write_text(text)
    summary = searched("third.sh", "hill", trials=7, objective="MINIMIZE (got - 0.3) ** 2 + m")
    values = [key[0] for key in told("third", "got")]
    assert [float(got) for got in told("third", "got").values()] == pytest.approx(values)
    first, second = summary.before
    assert (first.ok, summary.ok, summary.ended) == (len(set(values)), 7, "budget")
    again = searched("third.sh", "hill", trials=7, objective="MINIMIZE (got - 0.3) ** 2 + m")
    assert (again.cached, again.ok, again.before[1].cached) == (7, 0, second.ok)

    (three / "second.sh").write_text(CHAIN["second.sh"].replace("ON x, y", ""))
    with pytest.raises(AnnotationError, match="stage first has a continuous parameter") as error:
        searched("third.sh", trials=3)
    assert error.value.diagnostics[0].hint == "name all of its parameters: ON x"
    (three / "second.sh").write_text(CHAIN["second.sh"].replace("(0, 1)", "(2, 3)"))
    with pytest.raises(AnnotationError, match="stage second has no experiment where x ="):
        searched("third.sh", trials=3)


CHANCE = "sleep 0.$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')\n"


@pytest.mark.parametrize("repeat", [1, 2])
def test_a_search_through_stages_records_its_order_of_arrival_which_is_replayed(three, repeat):
    mesh = MESH.replace("mkdir", CHANCE + '[ "$1" -le 2 ] || exit 3; mkdir')
    (three / "mesh.sh").write_text(mesh)
    solve = SOLVE.replace("cat mesh", CHANCE + "cat mesh", 1)
    more = f"#ZEN$ PARAM way = {{ 1:5 }}\n#ZEN$ REPEAT {repeat}\n"
    (three / "solve.sh").write_text(solve + more)
    application = scan("solve.sh")
    goals = read_goals("MINIMIZE order - n", application)
    spec = read_search("auto", [], "14", [], 3)
    some = PointSelection.none(application.space)
    place = PlaceOptions(jobs=3)
    first = run_locally(application, some, place=place, search=spec, goals=goals)
    assert (first.ended, first.unfinished) == ("budget", first.blocked)
    assert first.ok + first.blocked == 14 * repeat
    with closing(open_repository(create=False)) as repository:
        replay = recorded_search(repository, "solve")
        numbers = {r.index: r.values for r in repository.records("solve", states=("ok",))}
    assert [run.turn for run in replay.followed] == sorted({run.turn for run in replay.followed})
    assert len(replay.followed) == first.ok
    again = run_locally(
        application, some, db="other.db", place=PlaceOptions(jobs=2), search=replay, goals=goals
    )
    assert not any("recorded order of arrival for" in note for note in again.notes)
    assert (again.ok, again.blocked, again.best) == (first.ok, first.blocked, first.best)
    with closing(open_repository("other.db", create=False)) as repository:
        placed = repository.placed_runs("solve", replay.order_name)
        same = {r.index: r.values for r in repository.records("solve", states=("ok",))}
    assert same == numbers
    assert [run[2:] for run in placed] == [run[2:] for run in replay.followed]


def test_a_search_that_ends_early_leaves_nothing_waiting(three):
    # Many points: others run while the first result is recorded, however long that takes.
    for name, text in (("mesh", MESH), ("solve", SOLVE)):
        (three / f"{name}.sh").write_text(text.replace("{ 1:4 }", "{ 1:500 }"))
    application = scan("solve.sh")
    summary = run_locally(
        application, select_points(application.space, limit=0),
        search=read_search("random", [], "1000", ["target=1000"], 0),
        goals=read_goals("MINIMIZE wtime", application),
    )  # fmt: skip
    assert summary.ended == "target"
    assert summary.ok < 1000


def test_a_value_that_no_earlier_stage_has_ends_a_search(three):
    (three / "mesh.sh").write_text(MESH.replace("{ 1:4 }", "{ 1 }"))
    with pytest.raises(AnnotationError, match="stage mesh has no experiment where n ="):
        searched("solve.sh", trials=8)


def test_many_experiments_that_meet_in_few_values_are_few_nodes(tmp_path):
    application = stage_files(tmp_path, (60, 60), (), ())
    graph = StageGraph(stages_of(application), select_points(application.space))
    source = StageExperimentSource(
        graph, 0, ExperimentGenerator(graph.stages[0].application), ReferenceRepository(), 0,
        RunOrder(), Repeat(),
    )  # fmt: skip
    for experiment in source:
        source.complete(experiment, outcome(experiment))
    ((_, points),) = graph.fresh(1)
    assert len(points) == 3600
    assert source.over


class NaiveStages:
    """What a graph of stages says, worked out anew from all experiments each time."""

    def __init__(self, graph, meets):
        self.graph, self.meets = graph, meets
        self.points = [list(select_points(s.application.space).numbered()) for s in graph.stages]
        self.generators = [ExperimentGenerator(stage.application) for stage in graph.stages]
        self.status = {}
        """By stage, number of the point and repeat: ok or failed."""
        self.finished = {}
        self.ranks = Counter()
        self.raised = [set() for _ in graph.stages]

    def awaited(self, stage, point):
        return [
            (number, other) for number, other in (self.points[stage - 1] if stage else ())
            if all(other[name] == point[name] for name in self.meets[stage])
        ]  # fmt: skip

    def is_done(self, stage, number):
        return all(
            self.status.get((stage, number, repeat)) == "ok"
            for repeat in self.graph.stages[stage].application.repeat.numbers
        )

    def is_lost(self, stage, point):
        return any(
            (stage - 1, number, repeat) in self.status
            and self.status[stage - 1, number, repeat] == "failed"
            for number, _ in self.awaited(stage, point)
            for repeat in self.graph.stages[stage - 1].application.repeat.numbers
        ) or any(self.is_lost(stage - 1, other) for _, other in self.awaited(stage, point))

    def is_ready(self, stage, point):
        if self.is_lost(stage, point):
            return None
        return all(self.is_done(stage - 1, number) for number, _ in self.awaited(stage, point))

    def needed(self, last):
        """The points of each stage that these of the last one wait for."""
        needed = [list(last)]
        for stage in range(len(self.points) - 1, 0, -1):
            ahead = {n: p for _, q in needed[0] for n, p in self.awaited(stage, q)}
            needed.insert(0, [pair for pair in self.points[stage - 1] if pair[0] in ahead])
        return needed

    def unfinished_ancestors(self, stage, point, needed):
        """The nodes that are not done and that a child of the node of *point* waits for."""
        node = self.graph.node
        pending = [
            (stage + 1, later) for _, later in (needed[stage + 1] if stage + 1 < len(needed) else ())
            if node(stage, point) in {node(stage, p) for _, p in self.awaited(stage + 1, later)}
        ]  # fmt: skip
        ancestors = set()
        while pending:
            later, waiting = pending.pop()
            for _, earlier in self.awaited(later, waiting):
                parent = node(later - 1, earlier)
                same = [number for number, p in needed[later - 1] if node(later - 1, p) == parent]
                if not all(self.is_done(later - 1, number) for number in same):
                    ancestors.add(parent)
                    pending.append((later - 1, earlier))
        return ancestors

    def complete(self, stage, number, point, repeat, status, needed):
        for node in self.unfinished_ancestors(stage, point, needed):
            self.ranks[node] -= 1
            self.raised[node.stage].add(node)
        experiments = {e.repeat: e for e in self.generators[stage].experiments(point, number)}
        done = outcome(experiments[repeat], status)
        self.status[stage, number, repeat] = status
        if status == "ok":
            facts = (number, repeat, done.digest)
            self.finished.setdefault((stage, number), []).append(facts)
        self.graph.complete(stage, experiments[repeat], done)

    def check(self, requested, given_out):
        """Compare everything, where these points of the last stage were asked for."""
        graph = self.graph
        for stage, points in enumerate(self.needed(requested)):
            for node, same in graph.fresh(stage):
                given_out[stage] |= {number for number, _ in same}
                assert {graph.node(stage, point) for _, point in same} == {node}
            lost = [self.is_lost(stage, point) for _, point in points]
            ready = [self.is_ready(stage, point) for _, point in points]
            assert given_out[stage] == {
                number for (number, _), is_ready in zip(points, ready, strict=True) if is_ready
            }
            nodes = [graph.node(stage, point) for _, point in points]
            assert [graph.is_ready(node) for node in nodes] == ready
            assert [graph.rank(node) for node in nodes] == [self.ranks[node] for node in nodes]
            assert graph.raised(stage) == self.raised[stage]
            self.raised[stage] = set()
            assert graph.blocked(stage) == sum(lost)
            assert graph.pending(stage) == (graph.grows or False in ready)
            assert sorted(map(str, graph.points(stage))) == sorted(str(p) for _, p in points)
            for _, point in points if stage else ():
                ((link, finished, is_single),) = graph.inputs(graph.node(stage, point))
                ahead = self.awaited(stage, point)
                repeats = graph.stages[stage - 1].application.repeat.count
                assert (link.stage, is_single) == (stage - 1, len(ahead) * repeats == 1)
                facts = [
                    f for number, _ in ahead for f in self.finished.get((stage - 1, number), ())
                ]
                assert [f[:3] for f in finished] == sorted(facts)


def test_of_a_set_of_more_than_1000_elements_the_ends_tell_it_from_others(tmp_path):
    """Digests of earlier stages depend on it: studies of before would be archived else."""
    for size, listed in ((1000, 1000), (1001, 2)):
        (tmp_path / "a.sh").write_text(f'#ZEN$ PARAM x = {{ 1:{size} }}\n#ZEN$ RUN "a"\n')
        texts = _space_texts(scan(tmp_path / "a.sh"))
        assert texts[:3] == ["1", "x", str(size)]
        assert len(texts) == 3 + listed
        assert (texts[3], texts[-1]) == ("1", str(size))


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize(("two", "three"), [(("x", "y"), ()), (("y",), ("y",)), ((), ("y",))])
def test_a_graph_says_at_each_step_what_its_experiments_say(tmp_path, two, three, grows):
    stage_files(tmp_path, (2, 3), two, three)
    with (tmp_path / "a.sh").open("a") as file:
        file.write("#ZEN$ REPEAT 2\n")
    application = scan(tmp_path / "c.sh")
    for seed in range(4):
        chance = random.Random(seed)
        chosen = PointSelection(application.space, 0, picked=()) if grows else None
        graph = StageGraph(
            stages_of(application), chosen or select_points(application.space), grows=grows
        )
        naive = NaiveStages(graph, ((), two, three))
        last = naive.points[-1]
        requested = [] if grows else last
        given_out = [set() for _ in graph.stages]
        naive.check(requested, given_out)
        while True:
            if len(requested) < len(last) and chance.random() < 0.3:
                number, point = last[len(requested)]
                requested = last[: len(requested) + 1]
                assert graph.request(number, point) == graph.node(2, point)
            else:
                running = [
                    (stage, number, point, repeat)
                    for stage, points in enumerate(naive.needed(requested))
                    for number, point in points
                    for repeat in graph.stages[stage].application.repeat.numbers
                    if naive.is_ready(stage, point) and (stage, number, repeat) not in naive.status
                ]
                if not running and len(requested) == len(last):
                    break
                if running:
                    status = "failed" if chance.random() < 0.06 else "ok"
                    naive.complete(*chance.choice(running), status, naive.needed(requested))
            naive.check(requested, given_out)
        graph.close(2)
        assert not any(graph.pending(stage) for stage in range(3))


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_what_waits_for_a_stage_that_has_ended_without_it_is_given_up(tmp_path, count):
    application = stage_files(tmp_path, (2, 2), ("x", "y"), ("y",))
    graph = StageGraph(stages_of(application), select_points(application.space))
    generator = ExperimentGenerator(graph.stages[0].application)
    nodes = graph.fresh(0)
    for _, ((number, point),) in nodes[:count]:
        (experiment,) = generator.experiments(point, number)
        graph.complete(0, experiment, outcome(experiment))
    inbox = SimpleQueue()
    graph.listen(1, inbox)
    graph.close(0)
    assert len(graph.fresh(1)) == count
    assert not graph.pending(1)
    assert graph.blocked(1) == 4 - count
    assert graph.pending(2) == graph_may_go_on(nodes[:count])
    assert inbox.qsize() == 1 + 4 - count


def graph_may_go_on(nodes):
    """Whether all experiments of a y have succeeded, for which one of the last stage waits."""
    ys = [point["y"] for _, ((_, point),) in nodes]
    return any(ys.count(y) == 2 for y in ys)


def test_a_stage_is_one_level_above_those_that_it_waits_for(three):
    stages = stages_of(scan("plot.sh"))
    assert [(stage.application.name, stage.level) for stage in stages] == [
        ("mesh", 0), ("solve", 1), ("plot", 2),
    ]  # fmt: skip
    assert [[link.stage for link in stage.links] for stage in stages] == [[], [0], [1]]


def test_a_file_of_an_earlier_stage_that_is_gone_or_was_cut_ends_the_run_with_its_name(three):
    run("mesh.sh")
    repository = open_repository(create=False)
    kept = [a.kept for r in repository.records("mesh") for a in repository.artifacts(r.digest)]
    repository.close()
    content = kept[0].read_bytes()
    kept[0].parent.chmod(0o755)
    kept[0].chmod(0o644)
    kept[0].write_bytes(content[:3])
    with pytest.raises(PlaceError, match=f"it has 3 B, and had {len(content)} B") as caught:
        run("solve.sh")
    assert str(kept[0]) in str(caught.value)
    kept[0].unlink()
    with pytest.raises(PlaceError, match="has changed: No such file"):
        run("solve.sh")


def test_what_became_more_urgent_meanwhile_is_handed_out_first(tmp_path, monkeypatch):
    application = stage_files(tmp_path, (2, 2), ("x", "y"), ("y",))
    graph = StageGraph(stages_of(application), select_points(application.space))
    source = StageExperimentSource(
        graph, 0, ExperimentGenerator(graph.stages[0].application), ReferenceRepository(), 0,
        RunOrder(), Repeat(),
    )  # fmt: skip
    first = source._next()
    ranks = {node: graph.rank(node) for node in source._pending}
    last = max(source._pending, key=lambda node: (ranks[node], source._pending[node][0].number))
    monkeypatch.setattr(graph, "rank", lambda node: -1 if node == last else ranks.get(node, 0))
    monkeypatch.setattr(graph, "raised", lambda _stage: [last] if last in source._pending else [])
    number = source._pending[last][0].number
    order = [first.index, *(experiment.index for experiment in source)]
    assert order[1] == number
    assert sorted(order) == [0, 1, 2, 3]


def test_the_progress_of_stages_is_their_sum_and_the_best_is_of_the_last(three):
    application = scan("solve.sh")
    session = StudySession(application, select_points(application.space), ReferenceRepository())
    heard = []
    pipeline = Pipeline(session, listener=heard.append)
    mesh, solve = pipeline.stages
    best = BestPoint("got", 7, {"n": 1})
    first = RunProgress(8, 2, 3, 1, 1, 0.25, 9.0, remarks=("busy",))
    last = RunProgress(8, 1, 0, 1, 2, 0.25, 99.0, "got", 5, best)
    pipeline._heard(mesh, first)
    pipeline._heard(solve, last)
    assert (heard[0].total, heard[0].done, heard[0].remarks) == (16, 6, ("busy",))
    assert (heard[0].seconds_left, heard[0].goal, heard[0].best) == (10 / 0.25, "", None)
    assert heard[1] == RunProgress(16, 3, 3, 2, 3, 0.5, 8 / 0.5, "got", 5, best)
    for stage in (mesh, solve):
        pipeline._heard(stage, replace(first, rate=0.0))
    assert heard[-1].seconds_left is None
