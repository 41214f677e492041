"""The treap of idle times knows the longest gap of each subtree after every change."""

import numpy as np
import pytest

from zenturio.schedule.kernels.list_scheduling import NONE, find_gap, insert_gap, no_gaps, use_gap


def longest(gaps, gap):
    """The longest of a subtree, one gap at a time; each gap is checked on the way."""
    if gap == NONE:
        return 0.0
    below = [longest(gaps, int(gaps.left[gap])), longest(gaps, int(gaps.right[gap]))]
    found = max(float(gaps.end[gap] - gaps.start[gap]), *below)
    assert gaps.longest[gap] == found
    return found


def first_fit(intervals, ready, length):
    """The naive twin of find: the starts of all gaps in the order of time."""
    fits = (a for a, b in sorted(intervals) if b > a and max(a, ready) + length <= b)
    return next(fits, None)


@pytest.mark.parametrize("seed", range(12))
def test_the_longest_below_each_gap_is_known_after_every_change(seed):
    random = np.random.default_rng(seed)
    gaps = no_gaps(1, 400)
    intervals, clock = [], 0.0
    for _ in range(120):
        if random.random() < 0.5 or not intervals:  # a new gap behind all others
            start = clock + float(random.integers(1, 5))
            clock = start + float(random.integers(1, 30))
            insert_gap(gaps, 0, NONE, start, clock)
            intervals.append([start, clock])
        else:
            ready = float(random.integers(0, int(clock) + 1))
            length = float(random.integers(1, 12))
            gap = find_gap(gaps, 0, ready, length)
            expected = first_fit(intervals, ready, length)
            assert (None if gap == NONE else float(gaps.start[gap])) == expected
            if gap != NONE:
                start = max(expected, ready) if random.random() < 0.6 else expected
                start = max(start, ready)
                end = start + length
                at = next(i for i, (a, b) in enumerate(intervals) if a == expected and b > a)
                first, behind = intervals[at]
                use_gap(gaps, 0, gap, start, end)
                intervals[at : at + 1] = [[first, start], [end, behind]]
        longest(gaps, int(gaps.root[0]))
