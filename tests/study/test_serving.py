"""A service runs what several users submit, and shares the slots as its policy says."""

import os
import re
import tempfile
import threading
from collections import deque
from contextlib import chdir, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from record.reference import ReferenceRepository
from study.places import Scrambled
from study.test_queueing import ends_in_the_scheduling_room
from unprivileged import unprivileged
from zenturio.errors import (
    AnnotationError,
    ConflictError,
    InputError,
    PlaceError,
    RecordError,
    SafetyError,
)
from zenturio.execute.local import Local
from zenturio.experiment import ExperimentGenerator
from zenturio.record import DriverProcess, maintenance
from zenturio.record.open import open_repository
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.study.driver.stop_requests import CancelRequests
from zenturio.study.recorded_definition import define_study
from zenturio.study.service.service_status import LOCK, is_served, locked_alone, locked_repository
from zenturio.study.service.slot_policy import POLICIES, UserShare
from zenturio.study.service.study_service import PREPARING, StudyService
from zenturio.study.service.submission_client import cancel_submission, submissions_of, submit_study
from zenturio.study.study_request import StudyRequest
from zenturio.study.workflow_to_study import annotate_as_stages
from zenturio.testing.executor import until

STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = {{ 1:{count} }}
#ZEN$ RUN "sh {name}.sh {{n}}"
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
{work}
echo "square $(($1 * $1))"
"""


class Lab:
    """A folder with studies, and its repository."""

    def __init__(self, folder):
        self.folder = folder
        self.url = str(folder / ".zenturio" / "zenturio.db")
        self.repository = open_repository(self.url)

    def write(self, name, count, work=""):
        """A study: so many experiments."""
        (self.folder / f"{name}.sh").write_text(STUDY.format(name=name, count=count, work=work))
        return name

    def submit(self, name, user="alice", /, **more):
        request = StudyRequest((str(self.folder / f"{name}.sh"),), **more)
        return submit_study(self.repository, request, user).number

    @contextmanager
    def serving(self, policy="fcfs", slots=2, shares=None, cancel_requests=None, **places):
        """A service, while the block runs."""
        over, told = threading.Event(), []
        with Local(self.folder / ".zenturio", slots) as place:
            found = places or {"local": place}
            serving = StudyService(
                self.repository, found, policy, told.append, cancel_requests, shares
            )
            thread = threading.Thread(target=serving.run, args=(over,))
            thread.start()
            try:
                yield told
            finally:
                over.set()
                thread.join()
        assert not thread.is_alive()

    def turns(self):
        return {each.study: each.turn for each in self.repository.submissions()}

    def until_over(self):
        until(lambda: set(self.turns().values()) <= {"done", "failed", "cancelled"})

    def starts(self):
        """Whose experiment began when, in its order."""
        found = [
            (record.outcome.started, study.name)
            for study in self.repository.studies()
            for record in self.repository.records(study.name, states=("ok",))
        ]
        return [name for _, name in sorted(found)]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr("zenturio.study.service.study_service.POLL", 0.05)
    (tmp_path / ".zenturio").mkdir()
    found = Lab(tmp_path)
    with chdir(tmp_path):
        yield found
    found.repository.close()


def test_what_is_submitted_is_run_and_told_of(lab):
    number = lab.submit(lab.write("one", 3))
    with lab.serving() as told:
        lab.until_over()
        lab.submit(lab.write("two", 2), "bob")
        until(lambda: lab.turns().get("two") == "done")
    one, two = lab.repository.submissions()
    assert lab.repository.count_states("one")["ok"] == 3
    assert (one.user, two.user) == ("alice", "bob")
    assert one.progress["done"] == one.progress["total"] == 3
    assert one.progress["slowdown"] > 0
    assert told[:2] == [
        f"{number}: one of alice begins on local",
        f"{number}: one of alice is done",
    ]


# Two studies of a user share two slots.

LARGE = (0, 12, 0.1)
SMALL = (0, 3, 0.25)
LONG = (0, 12, 0.3)


@pytest.mark.parametrize(
    "other", [SMALL, pytest.param(LONG, marks=pytest.mark.slow)], ids=["small", "long"]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_slots_go_to_studies_as_the_policy_says(lab, policy, other):
    for name, (_, count, seconds) in (("mine", LARGE), ("yours", other)):
        lab.submit(lab.write(name, count, f"sleep {seconds}"))
    with lab.serving(policy):
        lab.until_over()
    order = lab.starts()
    last = [len(order) - order[::-1].index(name) for name in ("mine", "yours")]
    ends = ends_in_the_scheduling_room(policy, 2, [LARGE, other])
    assert len(order) == LARGE[1] + other[1]
    assert (last[0] < last[1]) == (ends[0] < ends[1]), order


def test_under_fcfs_the_second_gets_what_the_first_leaves(lab):
    lab.submit(lab.write("first", 6, "sleep 0.1"))
    lab.submit(lab.write("second", 4, "sleep 0.1"))
    with lab.serving("fcfs"):
        lab.until_over()
    assert lab.starts() == ["first"] * 6 + ["second"] * 4
    first, second = lab.repository.submissions()
    assert first.progress["slowdown"] < second.progress["slowdown"]


def test_a_small_study_overtakes_under_srpt_and_its_slowdown_is_shown(lab):
    lab.submit(lab.write("large", 30, "sleep 0.1"))
    with lab.serving("srpt"):
        until(lambda: lab.repository.submissions()[0].progress.get("done", 0) >= 4)
        lab.submit(lab.write("small", 2, "sleep 0.1"))
        until(lambda: lab.turns()["small"] == "done")
        assert lab.turns()["large"] == "running"
        lab.until_over()


# Users share slots before their studies do.


def test_a_user_with_many_studies_has_no_more_slots_than_one_with_a_single_study(lab):
    for i in range(5):
        lab.submit(lab.write(f"many{i}", 4, "sleep 0.1"), "alice")
    lab.submit(lab.write("single", 6, "sleep 0.1"), "bob")
    with lab.serving("fcfs"):
        lab.until_over()
    starts = lab.starts()
    last = max(i for i, name in enumerate(starts) if name == "single")
    # As many of both until bob's are over, but for what a slot that is free for long decides.
    assert last <= 2 * 6 + 2, starts
    facts = {s.study: s.progress for s in lab.repository.submissions()}
    assert facts["single"]["slowdown"] < facts["many4"]["slowdown"]


def test_studies_that_take_long_to_read_keep_only_their_own_user_waiting(lab, monkeypatch):
    begun, gate, session = [], threading.Event(), StudyRequest.session

    def slow(request, *arguments):
        if "slow" in request.paths[0]:
            begun.append(request.paths[0])
            assert gate.wait(60)
        return session(request, *arguments)

    monkeypatch.setattr("zenturio.study.service.study_service.BEGINNING", 0.1)
    for i in range(PREPARING + 2):
        lab.submit(lab.write(f"slow{i}", 1))
    lab.submit(lab.write("quick", 1), "bob")
    monkeypatch.setattr(StudyRequest, "session", slow)
    with lab.serving():
        until(lambda: lab.turns()["quick"] == "done")
        assert len(begun) == PREPARING
        gate.set()
        lab.until_over()
    assert set(lab.turns().values()) == {"done"}


def test_each_user_has_a_bound_of_studies_at_work_and_who_waits_is_told_for_what(lab):
    for i in range(3):
        lab.submit(lab.write(f"many{i}", 2, "sleep 0.3"), "alice")
    lab.submit(lab.write("single", 1), "bob")
    with lab.serving(shares={"alice": UserShare(active=1), "bob": UserShare(slots=1)}):
        until(lambda: lab.turns()["single"] == "done")
        until(lambda: "waits_for" in lab.repository.submissions()[2].progress)
        reason = lab.repository.submissions()[2].progress["waits_for"]
        lab.until_over()
    assert reason == "another study of alice to end: 1 at a time"


def test_a_quota_is_no_more_slots_than_it_says_though_others_are_free(lab):
    lab.submit(lab.write("one", 4, "sleep 0.15"), "alice")
    lab.submit(lab.write("two", 1, "sleep 0.15"), "alice")
    told = set()

    def is_told():
        told.update(s.progress.get("waits_for") for s in lab.repository.submissions())
        return told - {None}

    with lab.serving(slots=4, shares={"*": UserShare(slots=1)}):
        until(is_told)
        lab.until_over()
    assert "a slot: alice may have 1 at a time" in told
    records = [r for study in ("one", "two") for r in lab.repository.records(study)]
    times = sorted((r.outcome.started, r.outcome.ended) for r in records)
    assert all(before[1] <= after[0] for before, after in pairwise(times))


# Nothing is lost, nothing is run twice.


def test_a_service_that_is_stopped_leaves_what_it_had_to_the_next(lab):
    lab.submit(lab.write("one", 8, "sleep 0.2"))
    with lab.serving():
        until(lambda: lab.repository.submissions()[0].progress.get("done", 0) >= 2)
        lab.submit(lab.write("two", 2), "bob")
        until(lambda: lab.turns()["two"] == "running")
    assert lab.turns() == {"one": "waiting", "two": "waiting"}
    assert lab.repository.submissions()[0].progress["lent"] == 0
    assert lab.repository.leases("one") == ()
    kept = lab.repository.count_states("one")["ok"]
    assert 2 <= kept < 8
    with lab.serving():
        lab.until_over()
    assert lab.turns() == {"one": "done", "two": "done"}
    assert lab.repository.count_states("one")["ok"] == 8
    assert maintenance.check_repository(lab.url) == ()


def test_what_is_cancelled_is_killed_and_leaves_its_slots(lab):
    number = lab.submit(lab.write("long", 4, "sleep 60"))
    with lab.serving():
        until(lambda: lab.repository.submissions()[0].progress.get("lent") == 2)
        lab.submit(lab.write("short", 2), "bob")
        with pytest.raises(SafetyError, match="is of alice"):
            cancel_submission(lab.repository, number, "bob")
        found = cancel_submission(lab.repository, number, "bob", is_admin=True)
        assert (found.turn, found.cause) == ("cancelled", "by bob")
        assert lab.repository.leases("long") == ()
        assert lab.repository.count_states("long")["running"] == 0
        lab.until_over()
    assert lab.turns() == {"long": "cancelled", "short": "done"}


def test_one_experiment_of_a_study_that_is_served_is_cancelled(lab):
    requests = CancelRequests(lab.folder / ".zenturio")
    lab.submit(lab.write("one", 3, "while test $1 = 2; do sleep 0.02; done"))
    with lab.serving(cancel_requests=requests):
        until(lambda: lab.repository.submissions()[0].progress.get("done") == 2)
        (record,) = lab.repository.records("one", states=("running",))
        requests.ask(record.digest)
        lab.until_over()
    assert lab.turns() == {"one": "done"}
    counts = lab.repository.count_states("one")
    assert (counts["ok"], counts["cancelled"]) == (2, 1)


def test_what_is_cancelled_before_it_begins_is_never_begun(lab):
    number = lab.submit(lab.write("one", 4))
    cancel_submission(lab.repository, number, "alice")
    with lab.serving():
        lab.submit(lab.write("two", 1))
        lab.until_over()
    assert [study.name for study in lab.repository.studies()] == ["two"]


def test_what_fails_is_told_and_what_cannot_be_run_too(lab):
    lab.submit(lab.write("some", 3, "[ $1 != 2 ] || exit 3"))
    # As by a submission of before files travelled.
    request = StudyRequest((str(lab.folder / "none.sh"),)).facts()
    lab.repository.submit("token", "bob", "gone too", request)
    with lab.serving():
        lab.until_over()
    some, other = lab.repository.submissions()
    assert (some.turn, some.cause) == ("done", "1 x exit 3")
    assert other.turn == "failed"
    assert "there is no such file" in other.cause


def test_what_somebody_drives_by_hand_waits_until_they_have_ended(lab, monkeypatch):
    monkeypatch.setattr("zenturio.study.service.study_service.LATER", 0.2)
    lab.submit(lab.write("one", 2))
    application = StudyRequest((str(lab.folder / "one.sh"),)).session(lab.repository).application
    lab.repository.open(
        "one", define_study(application, 2, ExperimentGenerator(application).program)
    )
    lease = lab.repository.acquire_lease("one", DriverProcess.current())
    with lab.serving() as told:
        until(lambda: any("waits: study 'one' is driven by process" in each for each in told))
        assert lab.turns() == {"one": "running"}
        lab.repository.release_lease(lease)
        lab.until_over()
    assert lab.turns() == {"one": "done"}
    assert lab.repository.count_states("one")["ok"] == 2


def test_a_place_that_was_asked_for_and_is_not_there_is_told(lab):
    lab.submit(lab.write("one", 2), on="moon")
    with lab.serving():
        lab.until_over()
    assert "no place 'moon'" in lab.repository.submissions()[0].cause


def test_studies_go_to_the_place_with_the_most_room(lab):
    for name in ("a", "b", "c"):
        lab.submit(lab.write(name, 2, "sleep 0.2"))
    with (
        Local(lab.folder / ".zenturio", 4) as wide,
        Local(lab.folder / ".zenturio", 3) as narrow,
        lab.serving(wide=wide, narrow=narrow),
    ):
        lab.until_over()
    assert [each.progress["place"] for each in lab.repository.submissions()] == [
        "wide", "narrow", "wide",
    ]  # fmt: skip


def test_stages_of_a_submitted_study_run_with_it(lab):
    lab.write("mesh", 3)
    solve = lab.write("solve", 3)
    path = lab.folder / "solve.sh"
    path.write_text(
        path.read_text().replace("#ZEN$ METRIC", '#ZEN$ AFTER "mesh" ON n\n#ZEN$ METRIC')
    )
    lab.submit(solve)
    with lab.serving():
        lab.until_over()
    (found,) = lab.repository.submissions()
    assert found.turn == "done"
    assert found.progress["studies"] == ["mesh", "solve"]
    assert (found.progress["done"], found.progress["total"]) == (6, 6)
    assert (
        lab.repository.count_states("mesh")["ok"] == lab.repository.count_states("solve")["ok"] == 3
    )


def test_stages_that_a_service_leaves_are_finished_by_the_next(lab):
    go = lab.folder / "go"
    lab.write("mesh", 3, f"while test $1 = 3 -a ! -e {go}; do sleep 0.02; done")
    solve = lab.write("solve", 3)
    path = lab.folder / "solve.sh"
    path.write_text(
        path.read_text().replace("#ZEN$ METRIC", '#ZEN$ AFTER "mesh" ON n\n#ZEN$ METRIC')
    )
    lab.submit(solve)
    with lab.serving():
        until(lambda: lab.repository.submissions()[0].progress.get("done", 0) >= 2)
    assert lab.turns() == {"solve": "waiting"}
    go.touch()
    with lab.serving() as messages:
        lab.until_over()
    assert lab.turns() == {"solve": "done"}
    assert messages[-1].endswith("solve of alice is done")
    assert [lab.repository.count_states(name)["ok"] for name in ("mesh", "solve")] == [3, 3]


LOOP = """\
echo {task} {iteration} >> LOG
if [ {task}{iteration} = test2 ]; then echo '{"converged": true}' >> $ZEN_METRICS; fi
"""


def test_workflows_with_loops_of_several_users_run_under_a_policy(lab):
    for user in ("alice", "bob"):
        flow = Workflow.of(
            user,
            [WorkflowTask("solve"), WorkflowTask("test"),
             WorkflowTask("show", when=(("test", frozenset({0})),))],
            [("solve", "test"), ("test", "solve"), ("test", "show")],
        )  # fmt: skip
        command = LOOP.replace("LOG", str(lab.folder / f"{user}.log"))
        last = annotate_as_stages(flow, lab.folder / user, command, (), (), iterations=3)
        submit_study(lab.repository, StudyRequest((str(last),)), user)
    with lab.serving("srpt"):
        lab.until_over()
    assert set(lab.turns().values()) == {"done"}
    for user in ("alice", "bob"):
        said = (lab.folder / f"{user}.log").read_text().splitlines()
        assert said == ["solve 1", "test 1", "solve 2", "test 2", "show 1"]
        assert lab.repository.count_states(f"{user}-test_3")["ok"] == 1


# What goes wrong.


def test_a_study_that_ends_at_its_first_failure_says_how_many_were_not_run(lab):
    lab.submit(lab.write("one", 60, "exit 3"), fail_fast=True)
    with lab.serving(slots=1):
        lab.until_over()
    (submission,) = lab.repository.submissions()
    assert submission.turn == "done"
    counts = re.fullmatch(r"(\d+) x exit 3, (\d+) were not run", submission.cause)
    assert sum(map(int, counts.groups())) == 60


def test_a_mistake_of_ours_fails_the_study_and_not_the_service(lab, monkeypatch, caplog):
    lab.submit(lab.write("one", 1))
    session = StudyRequest.session

    def mistaken(request, repository, application=None):
        if "one" in request.paths[0]:
            raise ZeroDivisionError("nothing")
        return session(request, repository, application)

    monkeypatch.setattr(StudyRequest, "session", mistaken)
    with lab.serving():
        until(lambda: lab.turns()["one"] == "failed")
        monkeypatch.undo()
        lab.submit(lab.write("two", 1))
        until(lambda: lab.turns().get("two") == "done")
    cause = lab.repository.submissions()[0].cause
    assert cause == "a bug in zenturio: ZeroDivisionError('nothing')"
    assert "submission 1" in caplog.text
    assert "Traceback" in caplog.text


def test_a_queue_that_cannot_be_read_for_a_while_is_reported_once_each_time(lab, monkeypatch):
    looks = []
    is_away = [False]
    read = lab.repository.submissions

    def submissions(*states):
        looks.append(states)
        if is_away[0] and states:
            raise RecordError("the server is away")
        return read(*states)

    def until_looks(count):
        before = len(looks)
        until(lambda: len(looks) >= before + count)

    monkeypatch.setattr(lab.repository, "submissions", submissions)
    lab.submit(lab.write("one", 1))
    is_away[0] = True
    with lab.serving() as messages:
        until_looks(3)
        assert messages == ["the queue cannot be read now: the server is away"]
        is_away[0] = False
        lab.until_over()
        is_away[0] = True
        until_looks(3)
    assert [m for m in messages if "cannot be read" in m] == messages[:1] * 2


def test_a_queue_that_cannot_be_written_at_the_end_is_found_by_the_next_service(lab, monkeypatch):
    go = lab.folder / "go"
    lab.submit(lab.write("one", 3, f"while test ! -e {go}; do sleep 0.02; done"))
    update = lab.repository.update_submission

    def refused(number, turn, *cause):
        if turn == "waiting":
            raise RecordError("the server is away")
        return update(number, turn, *cause)

    monkeypatch.setattr(lab.repository, "update_submission", refused)
    with lab.serving() as messages:
        until(lambda: lab.repository.submissions()[0].progress.get("lent") == 2)
    assert messages[-1] == "the queue cannot be written now: the server is away"
    assert lab.turns() == {"one": "running"}
    monkeypatch.undo()
    go.touch()
    with lab.serving():
        lab.until_over()
    assert lab.repository.count_states("one")["ok"] == 3


def test_remarks_of_a_place_and_of_a_plan_are_passed_on(lab):
    lab.submit(lab.write("one", 2))
    with Scrambled() as place:
        place.remarks = deque(["a host is away"])
        with lab.serving(moon=place) as messages:
            lab.until_over()
    assert "moon: a host is away" in messages


# What is handed in.


def test_what_waits_already_is_not_asked_for_twice(lab):
    number = lab.submit(lab.write("one", 2))
    assert lab.submit("one", "bob") == number
    with pytest.raises(ConflictError, match=f"in the queue already: number {number}, of alice"):
        lab.submit("one", "bob", limit=1)
    assert lab.submit("one", "bob", limit=1, name="other") == number + 1
    assert [each.number for each in submissions_of(lab.repository, "one")] == [number]


def test_what_is_wrong_with_a_study_is_told_to_who_submits_it(lab):
    lab.write("one", 2)
    (lab.folder / "one.sh").write_text("#ZEN$ PARAM n = { 1:2\n")
    with pytest.raises(AnnotationError):
        lab.submit("one")
    lab.write("two", 2)
    with pytest.raises(InputError, match="belongs to a search"):
        lab.submit("two", budget="7")
    assert lab.repository.submissions() == ()


def test_a_request_comes_back_as_it_was():
    request = StudyRequest(
        ("a.c", "b.c"), ("n={1}",), 3, search="ga", stop=("stall=3",), on="local"
    )
    assert StudyRequest.read(request.facts()) == request
    assert StudyRequest.read({**request.facts(), "unknown": 1}) == request


def test_a_folder_has_one_service(tmp_path):
    assert not is_served(tmp_path)
    with locked_alone(tmp_path):
        assert is_served(tmp_path)
        with (
            pytest.raises(
                ConflictError, match=f"another service runs here already: process {os.getpid()}\n"
            ),
            locked_alone(tmp_path),
        ):
            pass
    assert not is_served(tmp_path)


def test_nobody_else_can_hold_the_lock_of_a_service_and_everybody_sees_it():
    """On a lab's machine the service is somebody else's process."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="zen-lab-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / LOCK).touch(0o644)  # as earlier versions made it
        with locked_alone(folder), unprivileged():
            assert is_served(folder)
            with pytest.raises(PermissionError), (folder / LOCK).open():
                pass
            with (
                pytest.raises(ConflictError, match=f"already: process {os.getpid()}\n"),
                locked_alone(folder),
            ):
                pass
        with unprivileged():
            assert not is_served(folder)
            with pytest.raises(PlaceError, match="belongs to root, who ran"), locked_alone(folder):
                pass


def test_a_database_has_one_service_though_it_is_used_by_two_projects(lab):
    with (
        locked_repository(lab.repository),
        pytest.raises(ConflictError, match="another service runs here already"),
        locked_repository(lab.repository),
    ):
        pass
    with locked_repository(ReferenceRepository()), locked_repository(ReferenceRepository()):
        pass
