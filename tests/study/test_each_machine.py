"""Places of several kinds of machine: a point runs once, on any; or once on each of them."""

import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest

import zenturio as zen
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.execute.local import Local
from zenturio.execute.machines import own_machine
from zenturio.record import ResultCount
from zenturio.search import parse_budget
from zenturio.space import Space
from zenturio.study.driver.experiment_source import PointSelection, select_points
from zenturio.study.driver.function_study import evaluate
from zenturio.study.driver.search_source import SearchSpec
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.study.service.study_service import StudyService
from zenturio.study.service.submission_client import submit_study
from zenturio.study.study_request import StudyRequest

ZEN5, RISCV, CRAY = (replace(own_machine(), cpu=cpu) for cpu in ("Zen 5", "RISC-V", "Cray"))
PROGRAM = """\
n = 1
#ZEN$ ASSIGN n = { 1:3 }
#ZEN$ RUN "python3 counted.py"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)"
print("total", n * 10)
"""


class Mixed:
    """A place of several kinds of machine, any of which runs what is for all."""

    def __init__(self, folder, *kinds):
        self._place = Local(folder, 2)
        self.machines = frozenset(kinds)
        self.slots = 2
        self.ran = []

    def slots_of(self, machine):
        return 1

    def submit(self, experiment):
        return self.submit_to(sorted(self.machines, key=repr)[len(self.ran) % 2 - 1], experiment)

    def submit_to(self, machine, experiment):
        assert machine in self.machines
        self.ran.append((machine, experiment.digest))
        outcome = Future()
        inner = self._place.submit(experiment)
        outcome.set_running_or_notify_cancel()
        inner.add_done_callback(
            lambda done: outcome.set_result(replace(done.result(), machine=machine))
        )
        return outcome

    def close(self):
        self._place.close()


@pytest.fixture
def at(tmp_path):
    """A place of these kinds of machine."""
    places = []

    def opened(*kinds):
        places.append(Mixed(tmp_path / ".zenturio", *kinds))
        return places[-1]

    yield opened
    for place in places:
        place.close()


def session(repository, tmp_path, text=PROGRAM, search=None, **settings):
    path = tmp_path / "counted.py"
    path.write_text(text)
    application = scan([str(path)])
    points = (
        select_points(application.space)
        if search is None
        else PointSelection.none(application.space)
    )
    return StudySession(
        application, points, repository, settings=DriverSettings(**settings), search=search
    )


def ok(machine, count=3, round_=1):
    return ResultCount(machine, round_, "ok", count)


def test_a_point_runs_once_on_any_of_the_kinds_of_machine(repository, tmp_path, at):
    place = at(ZEN5, RISCV)
    assert session(repository, tmp_path).run(place).ok == 3
    assert len({digest for _, digest in place.ran}) == len(place.ran) == 3
    assert session(repository, tmp_path).run(at(ZEN5, RISCV)).cached == 3


def test_results_of_a_kind_that_the_place_does_not_have_do_not_count(repository, tmp_path, at):
    session(repository, tmp_path).run(at(CRAY, ZEN5), planned=lambda _plan: None)
    measured = {each.machine: each.count for each in repository.count_results("counted")}
    summary = session(repository, tmp_path).run(at(ZEN5, RISCV))
    assert (summary.cached, summary.ok) == (measured[ZEN5], measured[CRAY])
    exact = PROGRAM.replace('\\d+)"', '\\d+)" EXACT')
    assert session(repository, tmp_path, exact).run(at(CRAY, ZEN5)).cached == 3


def test_with_each_machine_every_kind_measures_every_point_once(repository, tmp_path, at):
    plans, heard, place = [], [], at(ZEN5, RISCV)
    each = session(repository, tmp_path, each_machine=True)
    summary = each.run(place, plans.append, heard.append)
    assert (summary.total, summary.cached, summary.ok, summary.unfinished) == (6, 0, 6, 0)
    assert (plans[0].points, plans[0].kinds, plans[0].experiments) == (3, 2, 6)
    assert (plans[0].cached, plans[0].remarks) == (0, ())
    assert (heard[-1].total, heard[-1].ok) == (6, 6)
    assert set(repository.count_results("counted")) == {ok(ZEN5), ok(RISCV)}
    assert repository.count_states("counted")["ok"] == 3
    again = at(ZEN5, RISCV)
    summary = each.run(again)
    assert (summary.total, summary.cached, summary.ok, again.ran) == (6, 6, 0, [])
    third = at(ZEN5, RISCV, CRAY)
    assert each.run(third).ok == 3
    assert {machine for machine, _ in third.ran} == {CRAY}


def test_each_machine_that_was_stopped_goes_on_where_it_was(repository, tmp_path, at):
    place, runs = at(ZEN5, RISCV), []

    def stop_early(progress):
        if progress.ok >= 3:
            for run in runs:
                run.stop()

    each = session(repository, tmp_path, each_machine=True)
    first = each.run(place, listener=stop_early, begun=runs.append)
    assert first.interrupted
    assert (first.ok, first.unfinished) == (3, 3)
    second = each.run(at(ZEN5, RISCV))
    assert (second.cached, second.ok, second.unfinished) == (3, 3, 0)
    assert set(repository.count_results("counted")) == {ok(ZEN5), ok(RISCV)}


def test_exact_metrics_are_measured_on_each_machine_where_that_is_asked_for(
    repository, tmp_path, at
):
    exact = PROGRAM.replace('\\d+)"', '\\d+)" EXACT')
    assert session(repository, tmp_path, exact, each_machine=True).run(at(ZEN5, RISCV)).ok == 6


def test_what_fails_is_counted_over_all_kinds_of_machine(repository, tmp_path, at):
    broken = PROGRAM.replace('print("total", n * 10)', "raise SystemExit(n % 2)")
    summary = session(repository, tmp_path, broken, each_machine=True).run(at(ZEN5, RISCV))
    assert (summary.total, summary.ok, summary.failed) == (6, 0, 6)
    assert sum(each.count for each in summary.failures) == 6
    assert len(summary.failures) == 2


def test_each_kind_of_machine_measures_again_in_one_round(repository, tmp_path, at):
    session(repository, tmp_path, each_machine=True).run(at(ZEN5, RISCV))
    again = session(repository, tmp_path, each_machine=True, again=True)
    assert again.run(at(ZEN5, RISCV)).ok == 6
    assert set(repository.count_results("counted")) == {
        ok(machine, round_=number) for machine in (ZEN5, RISCV) for number in (1, 2)
    }
    assert not repository.rounds("counted")[-1].is_open


def test_a_place_that_does_not_know_its_kinds_beforehand_refuses(repository, tmp_path):
    class Unknown:
        slots = 1

    with pytest.raises(InputError, match="does not know its kinds of machine") as error:
        session(repository, tmp_path, each_machine=True).run(Unknown())
    assert "--on PLACE" in str(error.value)
    Unknown.machines = frozenset({ZEN5, RISCV})
    with pytest.raises(InputError, match="does not allow you to choose"):
        session(repository, tmp_path, each_machine=True).run(Unknown())
    assert repository.studies() == ()


def test_what_has_one_result_for_each_point_is_not_for_each_machine(repository, tmp_path, at):
    search = SearchSpec("random", budget=parse_budget("4"))
    text = PROGRAM + "#ZEN$ OBJECTIVE MINIMIZE total\n"
    with pytest.raises(InputError, match="a search uses one score"):
        session(repository, tmp_path, text, search=search, each_machine=True).run(at(ZEN5, RISCV))
    both = session(repository, tmp_path, each_machine=True, any_machine=True)
    with pytest.raises(InputError, match="--machine any"):
        both.run(at(ZEN5, RISCV))


def test_one_kind_of_machine_is_each_of_them(repository, tmp_path):
    with Local(tmp_path / ".zenturio", 2) as place:
        assert session(repository, tmp_path, each_machine=True).run(place).ok == 3
        assert session(repository, tmp_path, each_machine=True).run(place).cached == 3
    plan = session(repository, tmp_path, each_machine=True).foresee(frozenset({own_machine()}))
    assert (plan.cached, plan.experiments) == (3, 3)
    plan = session(repository, tmp_path, each_machine=True).foresee()
    assert plan.remarks == ("each kind of machine of the place measures all experiments",)


def square(n):
    return {"square": n * n}


def test_a_function_is_measured_on_each_kind_of_machine(repository, at):
    function = zen.experiment(square)
    points, place = select_points(Space(n=[1, 2, 3])), at(ZEN5, RISCV)

    def measured(**options):
        summary = evaluate(function, points, repository, place=place, each_machine=True, **options)
        return summary.total, summary.cached, summary.ok

    assert measured() == (6, 0, 6)
    assert measured() == (6, 6, 0)
    assert measured(again=True) == (6, 0, 6)
    assert len(repository.rounds("square")) == 2
    assert len(repository.count_results("square")) == 4


def test_a_submitted_study_is_measured_on_each_kind_of_machine(repository, tmp_path, at):
    (tmp_path / "counted.py").write_text(PROGRAM)
    request = StudyRequest((str(tmp_path / "counted.py"),), each_machine=True)
    submit_study(repository, request, "alice")
    over = threading.Event()
    serving = StudyService(repository, {"mixed": at(ZEN5, RISCV)}, "fcfs", lambda _words: None)
    thread = threading.Thread(target=serving.run, args=(over,))
    thread.start()
    while repository.submissions()[-1].turn not in ("done", "failed"):
        over.wait(0.02)
    over.set()
    thread.join()
    assert repository.submissions()[-1].cause == ""
    assert set(repository.count_results("counted")) == {ok(ZEN5), ok(RISCV)}
    assert repository.submissions()[-1].progress["total"] == 6
