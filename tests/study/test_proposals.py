"""How many experiments a driver has a source make at a time, and what it skips."""

from dataclasses import replace

import numpy as np
import pytest

from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.experiment.experiment import ExperimentFile
from zenturio.study.driver import experiment_source
from zenturio.study.driver.experiment_source import (
    ArrangedPoints,
    PointsInOrder,
    Proposals,
    RunOrder,
    select_points,
)
from zenturio.testing.experiments import experiment

TEN = [experiment(index) for index in range(10)]


class Ahead(PointsInOrder):
    """A source that likes to make so many ahead."""

    ahead = 0


def made(proposed):
    return [e.index for e in proposed.experiments]


def test_a_batch_is_as_large_as_it_is_wanted_or_as_the_source_likes_it():
    proposals = Proposals(Ahead(iter(TEN), 10))
    first = proposals.make(3)
    assert (made(first), first.exhausted, first.over) == ([0, 1, 2], False, False)
    proposals._source.ahead = 5
    assert made(proposals.make(3)) == [3, 4, 5, 6, 7]
    last = proposals.make(9)
    assert (made(last), last.exhausted, last.over) == ([8, 9], True, True)
    assert made(proposals.make(9)) == []


def test_where_nothing_more_can_be_had_now_the_source_says_whether_it_is_over():
    source = Ahead(iter(TEN[:1]), 10)
    source.over = False
    proposed = Proposals(source).make(3)
    assert (made(proposed), proposed.exhausted, proposed.over) == ([0], True, False)


def test_files_that_are_shared_are_counted_once(monkeypatch):
    monkeypatch.setattr(experiment_source, "HELD", 100)
    shared, linked = bytes(50), ExperimentFile("large", 0o644, None)

    def with_files(index, size):
        own = ExperimentFile("own", 0o644, bytes(size) + bytes([index]))
        files = (ExperimentFile("shared", 0o644, shared), own, linked)
        return replace(TEN[index], files=files)

    # 50 shared, and 9, 19 and 19 of their own: 97, and with one more beyond 100.
    sizes = (8, 18, 18, 4, 1, 1)
    proposals = Proposals(Ahead(iter(with_files(i, size) for i, size in enumerate(sizes)), 6))
    assert made(proposals.make(9)) == [0, 1, 2, 3]
    assert made(proposals.make(9)) == [4, 5]
    exact = Proposals(Ahead(iter(with_files(i, 24) for i in range(3)), 3))
    assert made(exact.make(9)) == [0, 1, 2], "100 bytes are not too many"


def test_who_takes_long_gives_others_a_turn_with_what_is_made(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(experiment_source, "monotonic", lambda: now[0])

    def slow():
        for index in range(3):
            yield TEN[index]
            now[0] += experiment_source.SPELL
            yield None

    proposals = Proposals(Ahead(slow(), 10))
    first = proposals.make(9)
    # Time is over when it is passed, not when it is reached: after the second one.
    assert (made(first), first.exhausted, first.over) == ([0, 1], False, False)
    second = proposals.make(9)
    assert (made(second), second.exhausted) == ([2], True)
    now[0] = 0.0
    passed = iter([0.0, 9.0])

    def later():
        now[0] = next(passed)
        yield None
        now[0] = next(passed)
        yield None

    idle = Proposals(Ahead(later(), 2)).make(9)
    assert (made(idle), idle.exhausted, idle.over) == ([], False, False)
    assert made(Proposals(Ahead(iter([None, *TEN[:2], None]), 2)).make(9)) == [0, 1]


def test_what_was_made_before_an_error_is_of_the_next_batch():
    def failing():
        yield from TEN[:2]
        raise ValueError

    proposals = Proposals(Ahead(failing(), 10))
    with pytest.raises(ValueError, match=r"^$"):
        proposals.make(9)
    assert made(proposals.make(9)) == [0, 1]
    assert made(proposals.make(9)) == []


@pytest.fixture
def arranged(tmp_path, monkeypatch):
    """Seven points in windows of three, with two repeats."""
    monkeypatch.setattr(experiment_source, "WINDOW", 3)
    (tmp_path / "a.sh").write_text(
        '#ZEN$ PARAM n = { 0:6 }\n#ZEN$ RUN "true {n}"\n#ZEN$ REPEAT 2\n'
    )
    application = scan(tmp_path / "a.sh")
    generator = ExperimentGenerator(application)
    return ArrangedPoints(select_points(application.space), generator, 2, 14)


def places(source):
    return [e and (e.values["n"], e.repeat) for e in source]


def test_points_come_in_their_order_with_all_repeats(arranged):
    everything = [(n, repeat) for n in range(7) for repeat in (1, 2)]
    assert places(arranged) == everything
    assert (arranged.total, arranged.over, arranged.expecting) == (14, True, False)


def test_the_first_points_are_made_once_and_come_in_their_turn(arranged, monkeypatch):
    first = list(arranged.try_first())
    assert places(first) == [(0, 1), (1, 1), (2, 1)]
    arranged.arrange(RunOrder("blocks", "seed"))
    generated = []
    make = ExperimentGenerator.experiment

    def counted(self, point, repeat, position=None):
        generated.append((point["n"], repeat))
        return make(self, point, repeat, position)

    monkeypatch.setattr(ExperimentGenerator, "experiment", counted)
    experiments = list(arranged)
    order = places(experiments)
    assert sorted(order) == [(n, repeat) for n in range(7) for repeat in (1, 2)]
    assert sorted(generated) == sorted(set(order) - set(places(first)))
    windows = [order[:6], order[6:12], order[12:]]
    assert [sorted({n for n, _ in window}) for window in windows] == [[0, 1, 2], [3, 4, 5], [6]]
    # All first repeats of a window come before its second ones.
    assert [[repeat for _, repeat in window] for window in windows] == [[1] * 3 + [2] * 3] * 2 + [
        [1, 2]
    ]
    assert [e.position.block for e in experiments] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3 + [5, 6]
    assert [e.position.turn for e in experiments] == [1, 2, 3] * 4 + [1, 1]


class Cached:
    """Says that these points and repeats are cached."""

    def __init__(self, points):
        self.points, self.asked = points, []

    def take(self, keys):
        self.asked.append(keys)
        return self.points[len(self.asked) - 1]


@pytest.mark.parametrize(
    ("masks", "more"),
    [
        (["101", "111", "1", "1"], [(4, 1), None]),
        (["111", "111", "0", "1"], [None, (6, 1)]),
        (["110", "011", "1", "0"], [(3, 2), (5, 1), (6, 2)]),
    ],
)
def test_points_that_are_cached_are_not_made_but_for_those_of_the_first_window(
    arranged, masks, more
):
    cached, loads = Cached([np.array([c == "1" for c in mask]) for mask in masks]), []
    arranged.skip_cached(lambda identity: loads.append(identity) or cached)
    assert places(arranged) == [(n, r) for n in range(3) for r in (1, 2)] + more
    assert len(loads) == 1
    assert len(cached.asked) == 4
