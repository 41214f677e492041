"""Groups of rows by numbers are those that a dictionary of lists makes, whatever their sizes."""

import math
import statistics
from collections import defaultdict

import numpy as np
import pytest

from zenturio.record import columnar_copy, columnar_groups
from zenturio.record.columnar_copy import NotInCopyError
from zenturio.record.columnar_groups import LARGEST, GroupedValues, RowGroups


def drawn(sizes, length, seed=0):
    """Codes of *length* rows, a column for each of *sizes*, and values with some NaN."""
    chance = np.random.default_rng(seed)
    codes = [chance.integers(0, size, length) for size in sizes]
    values = np.where(chance.random(length) < 0.2, np.nan, chance.normal(1e3, 1, length))
    return codes, values


def naive_groups(codes):
    rows_by_key = defaultdict(list)
    for row, key in enumerate(zip(*(column.tolist() for column in codes), strict=True)):
        rows_by_key[key].append(row)
    return dict(sorted(rows_by_key.items()))


@pytest.mark.parametrize(
    ("sizes", "length"),
    [
        ([3], 40), ([2, 5, 1], 90), ([4, 4], 1), ([2, 3], 3000),
        ([10**6, 10**6], 500),  # more combinations than have a place each
        ([2**31, 3], 300), ([2**18], 100_000),  # more groups than 16 bits count
    ],
)  # fmt: skip
def test_rows_are_grouped_in_the_order_of_their_codes(sizes, length):
    codes, values = drawn(sizes, length)
    groups, expected = RowGroups(codes, sizes, length), naive_groups(codes)
    assert groups.count == len(expected)
    assert list(zip(*(column.tolist() for column in groups.codes), strict=True)) == list(expected)
    assert groups.rows.tolist() == [len(rows) for rows in expected.values()]
    assert groups.order.tolist() == [row for rows in expected.values() for row in rows]
    number = {row: at for at, rows in enumerate(expected.values()) for row in rows}
    assert groups.cells.tolist() == [number[row] for row in range(length)]
    members = list(expected.values())
    last = groups.count - 1
    assert [groups.members(at).tolist() for at in (0, last)] == [members[0], members[last]]
    grouped = GroupedValues(groups, values)
    plain = [values[rows][~np.isnan(values[rows])].tolist() for rows in members]
    assert grouped.counts.tolist() == list(map(len, plain))
    assert grouped.values_of(last) == plain[last]
    for at in range(0, groups.count, max(1, groups.count // 50)):
        own = plain[at]
        facts = (grouped.sums, grouped.sizes, grouped.lows, grouped.highs, grouped.medians)
        if not own:
            assert (facts[0][at], facts[1][at]) == (0, 0)
            assert all(np.isnan(fact[at]) for fact in facts[2:])
            continue
        expected_facts = [sum(own), sum(own), min(own), max(own), statistics.median(own)]
        assert [fact[at] for fact in facts] == pytest.approx(expected_facts, rel=1e-12)
        assert grouped.means[at] == pytest.approx(statistics.mean(own), rel=1e-14)
        if len(own) > 1:
            assert grouped.deviations[at] == pytest.approx(statistics.stdev(own), rel=1e-9)
        else:
            assert np.isnan(grouped.deviations[at])


def test_of_no_rows_and_of_no_columns_there_are_groups_all_the_same():
    empty = RowGroups([np.empty(0, dtype=np.int64)], [3], 0)
    assert (empty.count, empty.rows.tolist(), empty.starts.tolist()) == (0, [], [])
    assert GroupedValues(empty, np.empty(0)).lows.tolist() == []
    assert GroupedValues(empty, np.empty(0)).highs.tolist() == []
    whole = RowGroups([], [], 4)
    assert (whole.count, whole.rows.tolist(), whole.codes) == (1, [4], [])
    assert GroupedValues(whole, np.array([4.0, 1.0, 3.0, 2.0])).medians.tolist() == [2.5]


def test_a_column_without_values_makes_no_groups_of_its_own(monkeypatch):
    monkeypatch.setattr(columnar_groups, "MOST_CELLS", 0)
    codes = [np.zeros(5, dtype=np.int64), np.array([1, 0, 1, 0, 1])]
    for _ in range(2):
        groups = RowGroups(codes, [0, 2], 5)
        assert [column.tolist() for column in groups.codes] == [[0, 0], [0, 1]]
        assert groups.rows.tolist() == [2, 3]
        monkeypatch.undo()


def test_more_combinations_than_can_be_numbered_are_left_to_the_database():
    codes = [np.zeros(1, dtype=np.int64)] * 3
    assert RowGroups(codes, [2**30, 2**30, 2], 1).count == 1
    with pytest.raises(NotInCopyError):
        RowGroups(codes, [2**31, 2**30, 2], 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_values_whose_squares_overflow_are_left_to_the_database(sign):
    groups = RowGroups([], [], 2)
    largest = np.array([1.0, sign * LARGEST])
    with pytest.raises(NotInCopyError):
        GroupedValues(groups, largest)
    below = GroupedValues(groups, np.nextafter(largest, 0))
    assert below.greatest == np.nextafter(LARGEST, 0)
    assert below.is_one_signed == (sign > 0)


def test_magnitudes_are_summed_where_signs_differ():
    groups = RowGroups([np.array([0, 0, 1, 1, 1])], [2], 5)
    mixed = GroupedValues(groups, np.array([-1.0, 3.0, -2.0, np.nan, 5.0]))
    assert (mixed.sums.tolist(), mixed.sizes.tolist()) == ([2.0, 3.0], [4.0, 7.0])
    assert (mixed.greatest, mixed.is_one_signed) == (5.0, False)
    negative = GroupedValues(groups, np.array([-1.0, -3.0, -2.0, -0.5, 0.0]))
    assert (negative.sums.tolist(), negative.sizes.tolist()) == ([-4.0, -2.5], [4.0, 2.5])
    assert negative.is_one_signed


def test_sums_and_means_leave_nothing_of_the_rounding_of_a_plain_sum():
    chance = np.random.default_rng(7)
    values = 1e6 + chance.random(200_000)
    exact = math.fsum(values.tolist())
    plain = np.bincount(np.zeros(len(values), dtype=int), values)[0]
    assert abs(plain - exact) > 10 * math.ulp(exact), "the plain sum is no good"
    grouped = GroupedValues(RowGroups([], [], len(values)), values)
    assert abs(grouped.sums[0] - exact) <= 4 * math.ulp(exact)
    assert abs(grouped.means[0] - exact / len(values)) <= 4 * math.ulp(1e6)
    assert grouped.deviations[0] == pytest.approx(statistics.stdev(values.tolist()), rel=1e-12)


def test_rows_that_take_no_part_are_in_no_group(monkeypatch):
    monkeypatch.setattr(columnar_copy, "ROWS_AT_ONCE", 7)
    codes, values = drawn([4, 3], 100)
    chosen = np.random.default_rng(5).random(100) < 0.7
    values[~chosen] = 1e6
    groups, some = (
        RowGroups(codes, [4, 3], 100, chosen),
        RowGroups([column[chosen] for column in codes], [4, 3], int(chosen.sum())),
    )
    assert [c.tolist() for c in groups.codes] == [c.tolist() for c in some.codes]
    assert groups.rows.tolist() == some.rows.tolist()
    all_values, their_values = GroupedValues(groups, values), GroupedValues(some, values[chosen])
    for name in ("counts", "means", "sums", "deviations", "lows", "highs", "medians"):
        answer, expected = (getattr(v, name) for v in (all_values, their_values))
        np.testing.assert_allclose(answer, expected, rtol=1e-12, err_msg=name)
    assert all_values.values_of(2) == their_values.values_of(2)
    numbers = np.arange(100, dtype=np.int16)
    assert groups.least(numbers).tolist() == some.least(numbers[chosen]).tolist()
    assert groups.greatest(numbers).tolist() == some.greatest(numbers[chosen]).tolist()
    wide = RowGroups([codes[0], codes[1]], [2**40, 2**20], 100, chosen)
    assert wide.rows.sum() == chosen.sum()


def test_deviations_are_corrected_for_a_mean_that_no_float_holds():
    values = 2.0**53 + 2.0 * np.array([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    grouped = GroupedValues(RowGroups([], [], len(values)), values)
    assert grouped.deviations[0] == pytest.approx(statistics.stdev(map(int, values)), rel=1e-12)


@pytest.mark.parametrize("count", [2**16 - 1, 2**16, 2**16 + 1])
def test_values_stand_in_the_order_of_their_groups_also_where_16_bits_end(count):
    chance = np.random.default_rng(count)
    codes = chance.permutation(np.repeat(np.arange(count), 2))
    chosen = chance.permutation(np.arange(2 * count) > 2)  # three rows take no part
    groups = RowGroups([codes], [count], 2 * count, chosen)
    values = np.arange(2 * count)
    apart = np.where(chosen, codes, count)
    assert groups.in_order(values).tolist() == np.lexsort((values, apart)).tolist()
    assert groups.order.tolist() == groups.in_order(values).tolist()


class CountedReals:
    """Reals that count how many of them are read."""

    def __init__(self, values):
        self._values = values
        self.dtype = values.dtype
        self.read = 0

    def __len__(self):
        return len(self._values)

    def __getitem__(self, rows):
        some = self._values[rows]
        self.read += len(some)
        return some


@pytest.fixture
def small_samples(monkeypatch):
    """A sample is taken of few rows, and parts are small."""
    monkeypatch.setattr(columnar_copy, "ROWS_AT_ONCE", 1000)
    monkeypatch.setattr(columnar_groups, "_SAMPLED_ROWS", 60)


@pytest.mark.parametrize("name", ["means", "sums", "counts", "medians"])
def test_values_are_read_twice_at_the_most(small_samples, name):
    codes, values = drawn([3, 4], 9000)
    reals = CountedReals(values)
    getattr(GroupedValues(RowGroups(codes, [3, 4], len(values)), reals), name)
    assert reals.read <= (1 if name == "counts" else 2) * len(values)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("kind", ["drawn", "equal", "few values", "rising", "misleading"])
def test_quantiles_by_a_sample_are_those_of_all_values(small_samples, kind, share):
    codes, values = drawn([3, 4], 9000, seed=5)
    chosen = np.random.default_rng(1).random(len(values)) < 0.9
    groups = RowGroups(codes, [3, 4], len(values), chosen)
    values = {
        "drawn": values,
        "equal": np.ones(len(values)),
        "few values": np.round(values - 1000),
        "rising": np.arange(len(values)) * 1.0,
        "misleading": values,
    }[kind]
    grouped = GroupedValues(groups, values)
    assert grouped._stride > 4
    if kind == "misleading":  # no sample tells where the ranks are: the answer is the same
        grouped._sampled = [(np.full(400, 1e9), np.arange(400) % 12)]
    for at, answer in enumerate(grouped.quantiles(share).tolist()):
        own = np.sort(values[groups.members(at)])
        own = own[~np.isnan(own)]
        place = (len(own) - 1) * share
        low, high = own[math.floor(place)], own[min(math.floor(place) + 1, len(own) - 1)]
        assert answer == low + (high - low) * (place - math.floor(place))
