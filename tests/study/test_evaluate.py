"""Functions of this process as studies: each point once, whatever stops it."""

import signal
from contextlib import suppress
from threading import Event, current_thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenturio as zen
from record.reference import ReferenceRepository
from zenturio.errors import ConflictError, InputError, RecordError
from zenturio.experiment import ExperimentFunction, Missing
from zenturio.record import DriverProcess
from zenturio.record.open import open_repository
from zenturio.space import Space
from zenturio.study.driver import experiment_source, in_flight, study_driver
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.function_study import evaluate
from zenturio.testing.executor import PATIENCE
from zenturio.testing.experiments import outcome


@pytest.fixture(params=["memory", "sqlite"])
def repository(request, tmp_path):
    found = (
        ReferenceRepository()
        if request.param == "memory"
        else open_repository(tmp_path / "zenturio.db")
    )
    yield found
    found.close()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment_source.PointsInOrder, "ahead", 7)
    monkeypatch.setattr(in_flight.Calls, "wants", 7)


class Counting:
    """A function that remembers what it was called with."""

    def __init__(self, fails=lambda n: False):
        self.calls = []
        self.fails = fails

    @property
    def function(self):
        def halved(n, m):
            self.calls.append((n, m))
            if self.fails(n):
                raise ValueError(f"{n} is bad")
            return {"half": n / 2, "name": f"n{n}"}

        return ExperimentFunction(halved)


SPACE = Space(n=range(20), m=[1, 2])


def answers(repository, name="halved"):
    return {
        (record.values["n"], record.values["m"]): record.outcome.metrics
        for record in repository.records(name)
    }


def test_each_point_is_called_once_and_remembered(repository):
    counting = Counting()
    summary = evaluate(counting.function, select_points(SPACE), repository)
    assert (summary.total, summary.ok, summary.failed, summary.unfinished) == (40, 40, 0, 0)
    assert sorted(counting.calls) == sorted((p["n"], p["m"]) for p in SPACE)
    found = answers(repository)
    assert {at: metrics["half"] for at, metrics in found.items()} == {
        (n, m): n / 2 for n, m in counting.calls
    }


def test_what_every_experiment_has_is_there_or_says_why_not(repository):
    evaluate(Counting().function, select_points(SPACE, limit=3), repository)
    for metrics in answers(repository).values():
        assert metrics["wtime"] >= 0
        assert metrics["ctime"] >= 0
        assert metrics["exit"] == 0
        assert isinstance(metrics["maxrss"], Missing)
        assert "driver" in metrics["maxrss"].why


def test_a_second_call_recalls_and_calls_nothing(repository):
    counting = Counting(fails=lambda n: n == 3)
    first = evaluate(counting.function, select_points(SPACE), repository)
    calls = len(counting.calls)
    again = evaluate(counting.function, select_points(SPACE), repository)
    assert len(counting.calls) == calls
    assert (again.cached, again.ok, again.failed) == (40, 0, 0)
    assert [(f.cause, f.count) for f in again.failures] == [
        (f.cause, f.count) for f in first.failures
    ]


def test_failures_are_grouped_by_their_cause(repository):
    summary = evaluate(
        Counting(fails=lambda n: n in (3, 4)).function, select_points(SPACE), repository
    )
    assert (summary.ok, summary.failed) == (36, 4)
    (failures,) = summary.failures
    assert (failures.cause, failures.count) == ("ValueError", 4)
    assert failures.values["n"] in (3, 4)


@pytest.mark.parametrize(
    "option", [{"where": "n > 1"}, {"overrides": ["n = 1"]}, {"only": "failed"}]
)
def test_options_that_choose_from_files_are_refused_for_functions(option, repository):
    (name,) = option
    with pytest.raises(InputError, match=f"^{name}\\b.* of files") as caught:
        zen.run(abs, zen.Space(x=[1]), db=repository, **option)
    assert "of a function: " in str(caught.value)
    assert not repository.studies()


def test_a_function_that_always_fails_is_not_called_for_all_points(repository):
    calls = []

    def broken(n):
        calls.append(n)
        raise ValueError(str(n % 2))

    space = zen.Space(n=range(5000))
    summary = zen.run(broken, space, name="b", db=repository).summary
    assert summary.unfinished > 0
    assert summary.remarks[0].startswith("stopped, because the first ")
    assert "go_on=True" in summary.remarks[0]
    stopped = len(calls)
    assert zen.run(broken, space, name="b", db=repository, go_on=True).summary.unfinished == 0
    assert stopped < len(calls)
    calls.clear()
    others = zen.Space(n=range(10_000, 15_000))
    zen.run(broken, others, name="b", db=repository, fail_fast=True)
    assert 0 < len(calls) < 5000
    few = zen.run(broken, zen.Space(n=range(-8, 0)), name="b", db=repository).summary
    assert (few.failed, few.remarks) == (8, ())


def test_an_interrupted_study_goes_on_where_it_stopped(repository):
    stop = {"at": 17}

    def halved(n, m):
        stop["at"] -= 1
        if stop["at"] == 0:
            raise KeyboardInterrupt
        return {"half": n / 2}

    function = ExperimentFunction(halved)
    with suppress(KeyboardInterrupt):
        evaluate(function, select_points(SPACE), repository)
    assert repository.count_states("halved")["ok"] == 16
    assert repository.leases("halved") == ()
    summary = evaluate(function, select_points(SPACE), repository)
    assert (summary.cached, summary.ok) == (16, 24)
    assert len(answers(repository)) == 40


class Commits:
    """The commits of a repository: what was written is an event, and the first one can fail."""

    def __init__(self, repository, monkeypatch, error=None):
        self.first, self.written = Event(), Event()
        self._error, self._write = error, repository.add_results
        monkeypatch.setattr(repository, "add_results", self)

    def __call__(self, *arguments):
        error, self._error = self._error, None
        self.first.set()
        if error is not None:
            raise error
        accepted = self._write(*arguments)
        self.written.set()
        return accepted


def waiting_for(event):
    """A function whose second call lasts until *event*."""

    def halved(n):
        return {"half": n / 2, "in_time": n == 0 or event.wait(PATIENCE)}

    return ExperimentFunction(halved)


def test_an_outcome_is_committed_while_the_next_call_runs(repository, monkeypatch):
    function = waiting_for(Commits(repository, monkeypatch).written)
    reporting = set()
    summary = evaluate(
        function,
        select_points(Space(n=[0, 1])),
        repository,
        listener=lambda _: reporting.add(current_thread()),
        order="sorted",
    )
    assert (summary.ok, summary.failed) == (2, 0)
    assert [r.outcome.metrics["in_time"] for r in repository.records("halved")] == [True, True]
    assert reporting == {current_thread()}


def test_a_commit_beside_a_call_that_fails_is_repeated(repository, monkeypatch):
    commits = Commits(repository, monkeypatch, RecordError("away", hint="wait"))
    points = select_points(Space(n=[0, 1]))
    summary = evaluate(waiting_for(commits.first), points, repository, order="sorted")
    assert (summary.ok, summary.failed) == (2, 0)
    assert [r.outcome.metrics["in_time"] for r in repository.records("halved")] == [True, True]


def test_outcomes_that_cannot_be_recorded_are_kept_and_recorded_by_the_next_call(
    repository, monkeypatch, tmp_path
):
    counting, messages = Counting(), []
    points = select_points(SPACE)

    def is_away(*_arguments, **_options):
        raise RecordError("the server is away")

    with monkeypatch.context() as away:
        away.setattr(repository, "add_results", is_away)
        with pytest.raises(RecordError, match="is away"):
            evaluate(
                counting.function, points, repository,
                listener=lambda progress: messages.extend(progress.remarks),
            )  # fmt: skip
    first = list(counting.calls)
    assert first
    assert any("the next run records" in words for words in messages)
    for lease in repository.leases("halved"):  # a process that ended has none
        repository.release_lease(lease)
    assert evaluate(counting.function, points, repository).ok == 40
    assert len(counting.calls) == len(set(counting.calls)) == 40  # none of them twice
    assert answers(repository)[first[0]]["half"] == first[0][0] / 2
    assert list((tmp_path / ".zenturio" / "unrecorded").iterdir()) == []


def test_an_interrupted_commit_loses_nothing(repository, monkeypatch):
    Commits(repository, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        evaluate(Counting().function, select_points(SPACE, limit=3), repository)
    assert repository.count_states("halved")["ok"] == 3


def test_a_round_that_is_interrupted_as_it_begins_leaves_no_lease(repository):
    def interrupt(_progress):
        raise KeyboardInterrupt

    points = select_points(SPACE, limit=3)
    evaluate(Counting().function, points, repository)
    with pytest.raises(KeyboardInterrupt):
        evaluate(Counting().function, points, repository, listener=interrupt, again=True)
    assert repository.leases("halved") == ()


@pytest.mark.parametrize("in_call", [True, False])
def test_ctrl_c_ends_the_call_or_waits_for_the_line_that_it_came_in(repository, in_call):
    """In a call it is raised there; elsewhere in the driver, when what has ended is recorded."""
    called, progress_seen = [], []

    def halved(n, m):
        called.append((n, m))
        if in_call and len(called) == 5:
            signal.raise_signal(signal.SIGINT)
        return {"half": n / 2}

    def listener(progress):
        progress_seen.append(progress.done)
        if not in_call and len(progress_seen) == 1:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        evaluate(ExperimentFunction(halved), select_points(SPACE), repository, listener=listener)
    assert signal.getsignal(signal.SIGINT) is before
    assert repository.leases("halved") == ()
    recorded = repository.count_states("halved")["ok"]
    assert recorded == (4 if in_call else len(called))
    assert recorded < 40
    assert evaluate(ExperimentFunction(halved), select_points(SPACE), repository).cached == recorded


def test_a_call_that_another_driver_was_first_at_is_not_repeated(repository, monkeypatch):
    """Its claim is not asked for before the call, so it may be another's; from then on it is."""
    monkeypatch.setattr(study_driver, "ELSEWHERE", 0.02)
    function = Counting()
    (held,) = function.function.experiments({"n": 0, "m": 1}, 0)
    # The other study has the parameters and metrics, so that its result is one here, too.
    evaluate(function.function, select_points(SPACE, sample=1, seed=1), repository, name="other")
    other = repository.acquire_lease("other", DriverProcess("elsewhere", 7, "x"), seconds=600)
    assert repository.claim("other", other.number, [held]) == {held.digest: 1}
    function.calls.clear()
    rounds = []

    def listener(progress):
        rounds.append(progress.done)
        if len(rounds) == 6:
            repository.record("other", other.number, [outcome(held)])

    points = select_points(Space(n=[0, 1], m=[1]))
    summary = evaluate(function.function, points, repository, listener=listener)
    assert sorted(function.calls) == [(0, 1), (1, 1)]
    assert (summary.ok, summary.cached) == (1, 1)


def test_a_driver_that_lost_its_lease_calls_nothing_more(repository):
    called = []

    def halved(n, m):
        called.append(n)
        if len(called) == 3:
            for lease in repository.leases("halved"):
                repository.release_lease(lease)
            repository.acquire_lease("halved", DriverProcess("elsewhere", 7, "x"), seconds=600)
        return {"half": n / 2}

    with pytest.raises(ConflictError):
        evaluate(ExperimentFunction(halved), select_points(SPACE), repository)
    assert len(called) < 40


def test_points_that_are_chosen_in_part_are_completed_later(repository):
    counting = Counting()
    evaluate(counting.function, select_points(SPACE, sample=11, seed=3), repository)
    summary = evaluate(counting.function, select_points(SPACE), repository)
    assert (summary.cached, summary.ok) == (11, 29)
    assert len(set(counting.calls)) == len(counting.calls) == 40


def test_another_study_of_the_same_function_gets_what_is_known(repository):
    counting = Counting()
    evaluate(counting.function, select_points(SPACE, limit=10), repository)
    summary = evaluate(counting.function, select_points(SPACE), repository, name="more")
    assert (summary.cached, summary.ok) == (10, 30)
    assert len(answers(repository, "more")) == 40


def test_repeats_are_experiments_of_their_own(repository):
    def drawn(n, seed):
        return {"drawn": n * 10 + seed}

    summary = evaluate(
        ExperimentFunction(drawn, repeat=3, seed="seed"), select_points(Space(n=[1, 2])), repository
    )
    assert (summary.total, summary.ok) == (6, 6)
    found = sorted(r.outcome.metrics["drawn"] for r in repository.records("drawn"))
    assert found == [11, 12, 13, 21, 22, 23]


def test_a_seed_is_recorded_as_what_it_is(repository):
    def drawn(n, seed):
        return {"drawn": n * 10 + seed}

    evaluate(
        ExperimentFunction(drawn, repeat=3, seed="seed"), select_points(Space(n=[1, 2])), repository
    )
    fields = repository.definition("drawn").parameters
    assert [(field.name, field.kind) for field in fields] == [("n", "param"), ("seed", "seed")]


def test_another_function_of_the_name_keeps_the_old_results_apart(repository):
    def first(n):
        return {"answer": n}

    def second(n):
        return {"answer": -n}

    for function in (first, second, first):
        evaluate(
            ExperimentFunction(function), select_points(Space(n=[1, 2])), repository, name="answer"
        )
    found = {
        study.name: [r.outcome.metrics["answer"] for r in repository.records(study.name)]
        for study in repository.studies()
    }
    assert found == {"answer@1": [1, 2], "answer@2": [-1, -2], "answer": [1, 2]}


def test_a_parameter_that_the_function_does_not_take_is_refused(repository):
    with pytest.raises(InputError, match="no argument k"):
        evaluate(Counting().function, select_points(Space(n=[1], k=[2])), repository)


def test_whoever_looks_on_hears_how_far_it_is(repository):
    heard = []
    evaluate(Counting().function, select_points(SPACE), repository, listener=heard.append)
    assert [progress.done for progress in heard] == sorted(progress.done for progress in heard)
    assert heard[-1].done == heard[-1].total == 40


values = st.one_of(st.integers(-5, 5), st.text(max_size=2), st.booleans(), st.floats())


@given(st.lists(st.dictionaries(st.sampled_from("abc"), values), max_size=20, unique_by=repr))
def test_different_values_are_different_experiments(given_values):
    function = ExperimentFunction(lambda **given: None)
    digests = {function.experiments(each)[0].digest for each in given_values}
    assert len(digests) == len({repr(sorted(each.items())) for each in given_values})
