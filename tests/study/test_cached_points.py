"""A large study goes on by the keys of its points: as if each had been looked up by its digest."""

import math
import shutil
from collections import Counter
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.scan import scan
from zenturio.errors import PlaceError
from zenturio.execute.machines import own_machine
from zenturio.experiment import MachineKind
from zenturio.expression import parse
from zenturio.record import result_rows
from zenturio.record.entities import KeyedResults
from zenturio.record.open import open_repository
from zenturio.search.loop import Budget
from zenturio.space import Space
from zenturio.study.driver import experiment_source
from zenturio.study.driver.cached_points import _last_of_each_key, scores_of
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.search_source import SearchSpec
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.driver.study_session import StudySession
from zenturio.testing.repository import outcome

SETS = {
    "plain": "SUBSTITUTE A = { 1:6 }\nPARAM B = { 0.5, 1.5, 2.5 }\nCONSTRAINT VALUE A + B < 7",
    "derived": "SUBSTITUTE A = { 1:16 }\nPARAM B := A * 1.5\nPARAM C := A > 3",
    "conditional": (
        "SUBSTITUTE A = { 1:5 }\nPARAM B = { x, y } WHEN A > 2 DEFAULT z\nPARAM C = { 1:(A) }"
    ),
    "repeated": "SUBSTITUTE A = { 1:9 }\nREPEAT 3 SEED s",
}
BODY = 'RUN "sh a.sh"\nMETRIC value FROM stdout REGEX "(.*)"\nOBJECTIVE MINIMIZE value'


class Computed:
    """A place that computes values from points, and counts what it was given."""

    slots = 2
    machine = own_machine()
    most = 10**9
    """After so many experiments it fails."""

    def __init__(self, failing=lambda experiment: False):
        self.ran = []
        self._failing = failing

    def submit(self, experiment):
        if len(self.ran) >= self.most:
            raise PlaceError("it is gone")
        self.ran.append((dict(experiment.values), experiment.repeat))
        future = Future()
        number = sum(map(hash, map(repr, experiment.key))) % 97
        if self._failing(experiment):
            result = replace(outcome(experiment, "failed"), cause=f"exit {number % 2 + 1}")
        else:
            result = outcome(experiment, value=number)
        future.set_result(replace(result, machine=self.machine))
        return future

    def close(self):
        pass


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Windows and studies are small here, so that keys are used at all."""
    monkeypatch.chdir(tmp_path)
    for module in (experiment_source, experiment_source):
        monkeypatch.setattr(module, "WINDOW", 4)
    monkeypatch.setattr(experiment_source.PointsInOrder, "ahead", 4)
    return tmp_path


def use_keys(monkeypatch, *, are_used):
    monkeypatch.setattr(result_rows, "MANY_RESULTS", 1 if are_used else 10**9)


def write(folder, sets):
    lines = "".join(f"# ZEN$ {line}\n" for line in (sets + "\n" + BODY).splitlines())
    (folder / "a.sh").write_text(lines + "echo A\n")
    return scan(str(folder / "a.sh"))


def run(
    application, db, place, *, only=("missing",), order="blocks", search=None, again=False, **points
):
    with closing(open_repository(str(db))) as repository:
        chosen = select_points(application.space, **points)
        session = StudySession(
            application, chosen, repository, only=frozenset(only), search=search, order=order,
            settings=DriverSettings(again=again, go_on=True),
        )  # fmt: skip
        return session.run(place)


def facts_of(summary):
    failures = Counter({failure.cause: failure.count for failure in summary.failures})
    counts = summary.total, summary.cached, summary.ok, summary.failed, summary.unfinished
    return counts, failures, summary.best and summary.best.value, summary.ended


def both_ways(monkeypatch, application, db, **options):
    """Run on copies of a database, by keys and by digests; return what the run by keys ran."""
    answers = []
    for are_used in (True, False):
        use_keys(monkeypatch, are_used=are_used)
        place, path = Computed(), db.with_name(f"{are_used}.db")
        shutil.copy(db, path)
        answers.append((facts_of(run(application, path, place, **options)), place.ran))
    assert answers[0] == answers[1]
    return answers[0][1]


@pytest.fixture
def skipped(monkeypatch):
    """How many points were taken by their keys."""
    from zenturio.study.driver.cached_points import CachedPoints

    counts = []
    take_tally = CachedPoints.take_tally

    def counted(self):
        tally = take_tally(self)
        counts.append(tally.count)
        return tally

    monkeypatch.setattr(CachedPoints, "take_tally", counted)
    return counts


@pytest.mark.parametrize("order", ["blocks", "random", "sorted"])
@pytest.mark.parametrize("sets", SETS)
def test_the_same_runs_in_the_same_order_as_by_digests(project, monkeypatch, skipped, sets, order):
    application = write(project, SETS[sets])
    db = project / "zenturio.db"
    run(application, db, Computed(), limit=application.space.size * 2 // 3, order=order)
    ran = both_ways(monkeypatch, application, db, order=order)
    assert (
        len(ran)
        == (application.space.size - application.space.size * 2 // 3) * application.repeat.count
    )
    assert sum(skipped) > 0


def test_it_goes_on_by_keys_on_each_database(project, monkeypatch, skipped, url):
    application = write(project, SETS["conditional"])
    use_keys(monkeypatch, are_used=True)
    run(application, url, Computed(lambda experiment: experiment.index == 9), limit=12)
    summary = run(application, url, second := Computed())
    assert (summary.cached, summary.ok) == (12, application.space.size - 12)
    assert [failure.count for failure in summary.failures] == [1]
    assert len(second.ran) == application.space.size - 12
    assert sum(skipped) > 0


@pytest.mark.parametrize("only", [("missing",), ("failed",), ("failed", "missing")])
def test_failed_ones_are_counted_by_cause_or_run_again(project, monkeypatch, skipped, only):
    application = write(project, SETS["plain"])
    db = project / "zenturio.db"
    place = Computed(lambda experiment: experiment.index % 3 == 0)
    run(application, db, place, limit=14)
    ran = both_ways(monkeypatch, application, db, only=only)
    failed = {n for n in range(14) if n % 3 == 0}
    missing = set(range(14, application.space.size))
    names = {"missing": missing, "failed": failed}
    expected = set().union(*(names[name] for name in only))
    assert {application.space.number(values) for values, _ in ran} == expected
    assert sum(skipped) > 0


def test_a_round_measures_again_what_it_has_not_measured(project, monkeypatch, skipped):
    application = write(project, SETS["plain"])
    db = project / "zenturio.db"
    use_keys(monkeypatch, are_used=True)
    run(application, db, Computed())
    first = Computed()
    run(application, db, first, again=True, limit=10)
    assert len(first.ran) == 10
    assert not sum(skipped)


def test_a_sample_is_taken_by_keys(project, monkeypatch, skipped):
    application = write(project, SETS["conditional"])
    db = project / "zenturio.db"
    run(application, db, Computed(), limit=15)
    both_ways(monkeypatch, application, db, sample=20, seed=3)
    assert sum(skipped) > 0


def test_results_of_another_kind_of_machine_do_not_count(project, monkeypatch, skipped):
    application = write(project, SETS["plain"])
    db = project / "zenturio.db"
    elsewhere = Computed()
    elsewhere.machine = MachineKind("another one", 4)
    run(application, db, elsewhere)
    assert len(both_ways(monkeypatch, application, db)) == application.space.size
    assert not sum(skipped)


@pytest.mark.parametrize("slots", [1, 4])
def test_a_search_hears_of_cached_trials_without_their_experiments(
    project, monkeypatch, skipped, slots
):
    application = write(project, "SUBSTITUTE A = { 1:30 }\nPARAM B = { 1:30 }\nREPEAT 2 SEED s")
    db = project / "zenturio.db"
    place = Computed(lambda experiment: experiment.index % 5 == 0)
    search = SearchSpec("random", budget=Budget(60), seed=5, slots=slots)
    place.most = 90
    with pytest.raises(PlaceError):
        run(application, db, place, search=search)
    ran = both_ways(monkeypatch, application, db, search=search)
    assert 0 < len(ran) < 60  # of two repeats of each trial
    assert sum(skipped) > 30


@pytest.mark.parametrize("second", ["WORDS WHEN A > 1 DEFAULT x", "WHEN A > 1 DEFAULT y"])
def test_another_default_or_words_in_a_command_count_as_another_program(
    project, monkeypatch, skipped, second
):
    """The keys are the same, the files or commands are not."""
    use_keys(monkeypatch, are_used=True)
    db = project / "zenturio.db"
    sets = "SUBSTITUTE A = { 1:9 }\nPARAM B = { p, q } "
    run(write(project, sets + "WHEN A > 8 DEFAULT x"), db, Computed())
    run(write(project, sets + second), db, Computed())
    assert not sum(skipped)
    run(write(project, sets + second), db, Computed())
    run(write(project, sets + second), db, again := Computed())
    assert not again.ran


@given(st.integers(0, 40), st.integers(1, 9), st.none() | st.integers(0, 50))
def test_blocks_are_the_points_in_their_order(stop, size, limit):
    space = Space(a=range(stop + 1), b=["x", "y"]).where("a % 3 < 2")
    blocks = list(space.blocks(size, limit))
    points = [point for block in blocks for point in block.points]
    assert points == list(space)[:limit]
    assert {len(block) for block in blocks[:-1]} <= {size}


def keyed(first, second, ranks=(), **metrics):
    count = len(first)
    return KeyedResults(
        (np.array(first, dtype=np.uint64), np.array(second, dtype=np.uint64)),
        np.array(ranks or range(count)), np.zeros(count), np.zeros(count, dtype=int), [""],
        {"n": list(range(count))}, metrics,
    )  # fmt: skip


def test_of_several_results_with_one_key_the_last_one_counts():
    assert list(_last_of_each_key(keyed([3, 1, 2], [0, 0, 0]))) == [1, 2, 0]
    assert list(_last_of_each_key(keyed([], []))) == []
    # Halves of keys may agree where the keys do not.
    results = keyed([2, 1, 2, 2, 1, 2], [5, 5, 5, 6, 5, 5], [9, 1, 7, 3, 4, 8])
    assert list(_last_of_each_key(results)) == [4, 0, 3]


def test_scores_of_all_results_are_those_of_each():
    results = keyed(range(4), [0] * 4, t=[1.5, None, float("inf"), 2], word=["a", 1, None, 3.0])
    for text, scores in {
        "t": [1.5, None, None, 2.0], "t * 2 + n": [3.0, None, None, 7.0], "n": [0, 1, 2, 3],
        "word": [None, 1.0, None, 3.0], "3": [3.0] * 4,
    }.items():  # fmt: skip
        computed = scores_of(parse(text), results).tolist()
        assert [None if math.isnan(score) else score for score in computed] == scores, text
