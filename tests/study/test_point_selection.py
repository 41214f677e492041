"""Which points an option names, and which requests are refused with what to do instead."""

import pytest

from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.study.driver import experiment_source
from zenturio.study.driver.experiment_source import PointSelection, select_points


@pytest.fixture
def space_of(tmp_path):
    def made(*declarations):
        lines = [f"# ZEN$ {text}\n" for text in (*declarations, 'RUN "true"')]
        (tmp_path / "a.py").write_text("".join(lines))
        return scan([tmp_path / "a.py"]).space

    return made


def numbers(selection):
    return [(index, point["n"]) for index, point in selection.numbered()]


def test_options_name_points_by_their_numbers(space_of):
    space = space_of("PARAM n = { 10:14 }")
    every = [(0, 10), (1, 11), (2, 12), (3, 13), (4, 14)]
    for options, expected in (
        ({}, every),
        ({"limit": 2}, every[:2]),
        ({"limit": 0}, []),
        ({"limit": 9}, every),
        ({"index": 0}, every[:1]),
        ({"index": 4}, every[4:]),
    ):
        selection = select_points(space, **options)
        assert numbers(selection) == expected, options
        assert selection.count == len(expected), options
        for size in (1, 2, 5, 7):
            blocks = list(selection.blocks(size))
            assert [p["n"] for block in blocks for p in block.points] == [n for _, n in expected]
            assert all(len(block) == size for block in blocks[:-1])
    drawn = select_points(space, sample=3, seed=2)
    assert (drawn.count, len(set(numbers(drawn)))) == (3, 3)
    assert set(numbers(drawn)) <= set(every)
    assert numbers(drawn) == numbers(select_points(space, sample=3, seed=2))
    # A sample is the same in the next run, whose options name no seed either.
    assert numbers(select_points(space, sample=3)) == numbers(
        select_points(space, sample=3, seed=0)
    )
    assert (PointSelection.none(space).count, list(PointSelection.none(space))) == (0, [])


def test_a_point_that_is_not_there_and_two_options_are_refused(space_of):
    space = space_of("PARAM n = { 10:14 }")
    for options, message in (
        ({"index": 5}, "there are only 5 points"),
        ({"limit": 1, "index": 1}, "exclude each other"),
        ({"sample": 1, "index": 1}, "exclude each other"),
    ):
        with pytest.raises(InputError, match=message):
            select_points(space, **options)


def test_very_many_points_are_run_only_if_somebody_says_so(space_of, monkeypatch):
    assert experiment_source.MANY == 1_000_000  # as the pages say
    monkeypatch.setattr(experiment_source, "MANY", 5)
    assert select_points(space_of("PARAM n = { 1:5 }")).count == 5
    six = space_of("PARAM n = { 1:6 }")
    with pytest.raises(InputError, match="6 points are too many") as refused:
        select_points(six)
    assert "--limit 6" in str(refused.value)
    assert select_points(six, limit=6).count == 6
    vast = space_of(*(f"PARAM p{i} = {{ 1:1000 }}" for i in range(5)), "PARAM n = { 1:2 }")
    with pytest.raises(InputError, match="2,000,000,000,000,000 points are too many"):
        select_points(vast)
    assert [p["n"] for p in select_points(vast, limit=3)] == [1, 2, 1]


def test_a_continuous_space_can_only_be_sampled(space_of):
    space = space_of("PARAM n = { UNIFORM(0, 1) }")
    for options in ({}, {"limit": 1}, {"index": 0}):
        with pytest.raises(InputError, match="continuous"):
            select_points(space, **options)
    drawn = select_points(space, sample=2)
    assert [index for index, _ in drawn.numbered()] == [-1, -1]
