"""A schedule as an experiment of a study, and a search as its scheduler."""

import os
import re
import shutil
import subprocess

import pytest

from record.reference import ReferenceRepository
from zenturio.annotate.scan import scan
from zenturio.errors import InputError, NotFoundError
from zenturio.execute.simulate import Simulate
from zenturio.schedule.formats.files import read_workflow
from zenturio.schedule.model.platform import Platform, PlatformMachine, identical
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.schedule.static.list_scheduling import plan_as_assigned
from zenturio.search import parse_budget
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.search_source import SearchSpec
from zenturio.study.driver.study_session import StudySession
from zenturio.study.workflow_to_study import (
    abstract_workflow,
    annotate,
    annotate_as_stages,
    ranged,
)

FORK = Workflow.of(
    "fork",
    [
        WorkflowTask("a", 1),
        WorkflowTask("b-1", 4),
        WorkflowTask("b-2", 4),
        WorkflowTask("end", 1, tag="disk"),
    ],
    [("a", "b-1"), ("a", "b-2"), ("b-1", "end"), ("b-2", "end")],
)
MACHINES = Platform(
    "three",
    (
        PlatformMachine("n1"),
        PlatformMachine("n2"),
        PlatformMachine("n3", 2.0, tags=frozenset({"disk"})),
    ),
)

DIRECTIVES = """\
# ZEN$ SUBSTITUTE a_host = { n{1:3} }
# ZEN$ SUBSTITUTE b_1_host = { n{1:3} }
# ZEN$ SUBSTITUTE b_2_host = { n{1:3} }
# ZEN$ SUBSTITUTE end_host = { n3 }
# ZEN$ RUN "zen simulate workflow.json --on grid.toml"
# ZEN$ METRIC makespan
# ZEN$ OBJECTIVE MINIMIZE makespan
"""


def run(folder, search=None):
    application = scan([str(folder)])
    assert not application.warnings
    repository = ReferenceRepository()
    points = select_points(application.space, limit=0 if search else None)
    with Simulate() as place:
        summary = StudySession(application, points, repository, search=search).run(place)
    return application, summary


def test_a_study_of_schedules_is_a_new_folder_wherever_it_is(tmp_path):
    folder = annotate(FORK, MACHINES, tmp_path / "a" / "b")
    assert {path.name for path in folder.iterdir()} == {
        "workflow.json", "workflow.json.zen", "grid.toml",
    }  # fmt: skip
    with pytest.raises(InputError, match="b already exists"):
        annotate(FORK, MACHINES, folder)


def test_each_abstract_machine_is_any_processor_that_can_run_its_tasks(tmp_path):
    folder = annotate(FORK, MACHINES, tmp_path / "study")
    assert (folder / "workflow.json.zen").read_text() == DIRECTIVES
    assert [task.machine for task in read_workflow(folder / "workflow.json").tasks] == [
        "a_host", "b_1_host", "b_2_host", "end_host",
    ]  # fmt: skip


def test_all_schedules_of_a_workflow_are_a_study(tmp_path):
    application, summary = run(annotate(FORK, MACHINES, tmp_path / "study"))
    assert application.space.size == summary.ok == 27
    assert summary.best.value == 0.5 + 2 + 2 + 0.5  # all on the fast one, or a slow one beside it


def test_a_search_is_a_scheduler(tmp_path):
    folder = annotate(FORK, MACHINES, tmp_path / "study")
    search = SearchSpec("ga", {"population": "10"}, parse_budget("60"), seed=3)
    _, found = run(folder, search)
    _, all_of_them = run(folder)
    assert found.best.value == all_of_them.best.value
    problem = Problem.of(
        Workflow.of(
            "chosen",
            [
                WorkflowTask(task.name, task.work, machine=found.best.at[host])
                for task, host in zip(FORK.tasks, abstract_workflow(FORK)[1].values(), strict=True)
            ],
            list(FORK.edges),
        ),
        MACHINES,
    )
    assert plan_as_assigned(problem).makespan == found.best.value


def test_a_workflow_with_a_loop_is_a_study_of_its_schedules_too(tmp_path):
    tasks = [WorkflowTask(name, 4) for name in ("in", "one", "two", "test", "out")]
    edges = [
        ("in", "one"), ("in", "two"), ("one", "test"), ("two", "test"), ("test", "in"),
        ("one", "out"),
    ]  # fmt: skip
    flow = Workflow.of("loop", tasks, edges)
    _, summary = run(annotate(flow, identical(2), tmp_path / "study"))
    assert summary.ok == 2**5
    # An iteration takes 12 s on two machines, and "out" follows the last one.
    assert (summary.best.value - 4) % 12 == 0
    with pytest.raises(InputError, match="only the makespan is defined"):
        annotate(flow, identical(2), tmp_path / "other", "cost")


def test_any_metric_of_a_plan_is_an_objective(tmp_path):
    folder = annotate(FORK, MACHINES, tmp_path / "study", "efficiency")
    assert "OBJECTIVE MAXIMIZE efficiency" in (folder / "workflow.json.zen").read_text()
    _, summary = run(folder)
    assert summary.best.value == 1
    with pytest.raises(NotFoundError, match="efficiency"):
        annotate(FORK, MACHINES, tmp_path / "other", "eficiency")


def test_tasks_that_share_a_machine_share_a_parameter_and_transfers_follow(tmp_path):
    flow = Workflow.of(
        "moved",
        [
            WorkflowTask("one", 1, machine="M1"),
            WorkflowTask("two", 1, machine="M1"),
            WorkflowTask("move", 8.0, "transfer", "M1", "M2"),
            WorkflowTask("three", 1, machine="M2"),
        ],
        [("one", "two"), ("two", "move"), ("move", "three")],
    )
    found, names = abstract_workflow(flow)
    assert names == {"one": "M1_host", "two": "M1_host", "three": "M2_host"}
    assert (found.task(2).machine, found.task(2).target) == ("M1_host", "M2_host")
    application, summary = run(annotate(flow, identical(2), tmp_path / "study"))
    assert (application.space.size, summary.ok) == (4, 4)


def test_an_abstract_machine_has_a_name_that_nothing_else_has():
    flow = Workflow.of(
        "f",
        [
            WorkflowTask("a", 1),
            WorkflowTask("a_host", 1),
            WorkflowTask("a.host", 1, program="a_host_host"),
        ],
    )
    names = list(abstract_workflow(flow)[1].values())
    assert names == ["a_host2", "a_host_host3", "a_host_host2"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["n1", "n2", "n3"], "{ n{1:3} }"),
        (["n1", "n2"], "{ n1, n2 }"),
        (["n08", "n09", "n10", "n12"], "{ n{08:10}, n12 }"),
        (["n9", "n10", "n11"], "{ n{9:11} }"),
        (["n99", "n100", "m101"], "{ n99, n100, m101 }"),
        (["n09", "n010", "n011"], "{ n09, n010, n011 }"),
        (["n9", "n010", "n011"], "{ n9, n010, n011 }"),
        (["w/0", "w/1", "w/2", "a b"], '{ w/0, w/1, w/2, "a b" }'),
    ],
)
def test_machines_that_are_numbered_are_written_as_a_range(names, expected):
    assert ranged(names) == expected


def test_a_folder_that_is_there_is_not_written_to(tmp_path):
    with pytest.raises(InputError, match="already exists"):
        annotate(FORK, MACHINES, tmp_path)


def test_a_task_becomes_a_stage_with_its_command_files_and_needs(tmp_path):
    (tmp_path / "task.sh").write_text("exit 0")
    flow = Workflow.of(
        "flow",
        [WorkflowTask("a b", 2.5, program="p", cores=2, memory=1e9), WorkflowTask("a_b", 1)],
        [("a b", "a_b")],
    )
    last = annotate_as_stages(
        flow, tmp_path / "run", 'sh "task.sh" {task} {program} {work} {cores} ${x}',
        [tmp_path / "task.sh"], ["*.dat"],
    )  # fmt: skip
    assert last == tmp_path / "run" / "flow-all"
    texts = {path.parent.name: path.read_text() for path in (tmp_path / "run").rglob("study.zen")}
    assert texts == {
        "flow-a_b": 'ZEN$ RUN "sh \\"task.sh\\" a b p 2.5 2 ${x}" CPUS 2 MEMORY 1000000000\n'
        'ZEN$ OUTPUT "*.dat"\n',
        "flow-a_b_2": 'ZEN$ AFTER "flow-a_b"\nZEN$ RUN "sh \\"task.sh\\" a_b  1 1 ${x}"\n'
        'ZEN$ OUTPUT "*.dat"\n',
        "flow-all": 'ZEN$ AFTER "flow-a_b_2"\nZEN$ RUN "true"\n',
    }
    assert (tmp_path / "run" / "flow-a_b" / "task.sh").exists()
    with pytest.raises(InputError, match="already exists"):
        annotate_as_stages(flow, tmp_path / "run", "true")
    with pytest.raises(InputError, match="none is not a file"):
        annotate_as_stages(flow, tmp_path / "other", "true", [tmp_path / "none"])
    with pytest.raises(InputError, match="cannot be created"):
        annotate_as_stages(flow, tmp_path / "task.sh" / "other", "true")


DECIDING = Workflow.of(
    "flow",
    [
        WorkflowTask("begin"), WorkflowTask("solve"), WorkflowTask("test"), WorkflowTask("end"),
        WorkflowTask("refine", when=(("end", frozenset({3})),)),
        WorkflowTask("coarsen", when=(("end", frozenset({4})),)), WorkflowTask("show"),
        WorkflowTask("keep", when=(("test", frozenset({0})),)),
    ],
    [
        ("begin", "solve"), ("solve", "test"), ("test", "solve"), ("test", "end"),
        ("end", "refine"), ("end", "coarsen"), ("refine", "show"), ("coarsen", "show"),
        ("test", "keep"),
    ],
)  # fmt: skip
TASK = """\
echo {task} {iteration} >> said.dat
if [ {task} = test ]; then cat solve/said.dat; fi
if [ {task} = test ] && [ {iteration} = LAST ]; then echo '{"converged": true}' >> $ZEN_METRICS; fi
if [ {task} = end ]; then cat test/said.dat; exit 3; fi
"""


def stages_run(tmp_path, flow, command, iterations):
    """Run the scripts of all stages, each where the files of those before it are."""
    annotate_as_stages(flow, tmp_path / "run", command, (), ["*.dat"], iterations)
    folders = {path.name: path for path in (tmp_path / "run").iterdir()}
    said, pending = {}, dict(folders)
    while pending:
        for name, folder in list(pending.items()):
            before = re.findall('AFTER "(.*)"', (folder / "study.zen").read_text())
            if any(other in pending for other in before):
                continue
            for other in before:
                kept = folder / other
                kept.mkdir()
                for path in (folders[other] / "zen-task.state", *folders[other].glob("*.dat")):
                    shutil.copy(path, kept)
            done = subprocess.run(
                ["sh", "zen-task.sh"], cwd=folder, capture_output=True, text=True, check=False,
                env={**os.environ, "ZEN_METRICS": str(folder / "metrics.json")},
            )  # fmt: skip
            said[name] = done
            del pending[name]
            if done.returncode:
                return said
    return said


def test_stages_repeat_a_loop_until_it_converges_and_take_one_branch(tmp_path):
    said = stages_run(tmp_path, DECIDING, TASK.replace("LAST", "2"), 3)
    lines = {name: done.stdout for name, done in said.items()}
    assert not any(done.returncode for done in said.values()), said
    assert (lines["flow-test"], lines["flow-test_2"]) == ("solve 1\n", "solve 2\n")
    assert lines["flow-solve_3"] == lines["flow-test_3"] == "skipped: the loop has converged\n"
    assert lines["flow-end"] == "test 2\n"
    assert lines["flow-coarsen"] == "skipped: end ended with another exit code\n"
    assert lines["flow-refine"] == lines["flow-show"] == lines["flow-keep"] == ""
    assert (tmp_path / "run" / "flow-show" / "said.dat").exists()
    assert not (tmp_path / "run" / "flow-coarsen" / "said.dat").exists()


def test_stages_of_a_loop_that_does_not_converge_fail(tmp_path):
    said = stages_run(tmp_path, DECIDING, TASK.replace("LAST", "9"), 2)
    (failed,) = [name for name, done in said.items() if done.returncode]
    assert failed in {"flow-end", "flow-keep"}
    assert "the loop of test has not converged in 2 iterations" in said[failed].stderr


def test_an_exit_code_that_no_branch_names_fails_the_stage(tmp_path):
    said = stages_run(tmp_path, DECIDING, TASK.replace("LAST", "1").replace("exit 3", "exit 5"), 1)
    assert [done.returncode for name, done in said.items() if done.returncode] == [5]


def test_stages_of_loops_within_loops_run_the_inner_one_in_each_iteration(tmp_path):
    flow = Workflow.of(
        "nest",
        [WorkflowTask(name) for name in ("a", "b", "c", "d")],
        [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "a")],
    )
    command = """\
case {task} in c) case {iteration} in 2) echo '{"converged": 1}' > $ZEN_METRICS ;; esac ;; esac
case {task}{iteration} in d2) echo '{"converged": true}' > $ZEN_METRICS ;; esac
echo ran {task} {iteration}
"""
    said = stages_run(tmp_path, flow, command, 3)
    ran = [done.stdout.strip() for done in said.values() if done.stdout.startswith("ran")]
    inner = ["ran b 1", "ran c 1", "ran b 2", "ran c 2"]
    assert sorted(ran) == sorted(["ran a 1", *inner, "ran d 1", "ran a 2", *inner, "ran d 2"])
