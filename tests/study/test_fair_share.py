"""Users share the slots of a place in proportion to their weights, whatever each of them submits."""

from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.errors import InputError
from zenturio.study.service.fair_share import (
    FairShare,
    UserLoad,
    UserShare,
    in_turns,
    jain_index,
)
from zenturio.study.service.service_config import ServiceConfig


def play(slots, lengths, until, shares=None, arrivals=None):
    """Return each user's slot-seconds until then, if all always want one slot more.

    *lengths*: how long each experiment of a user takes; *arrivals*: when each user comes.
    """
    fair, now = FairShare(shares or {}), 0.0
    arrivals = arrivals or dict.fromkeys(lengths, 0.0)
    spent, running = dict.fromkeys(lengths, 0.0), []
    had = dict.fromkeys(lengths, 0.0)
    while now < until:
        while len(running) < slots:
            loads = {}
            for user, length in lengths.items():
                own = [whose for _, _, whose in running if whose == user]
                wanted = int(now >= arrivals[user])
                loads[user] = UserLoad(spent[user] + length * len(own), len(own), wanted)
            user = fair.next_user(loads)
            if user is None:
                break
            heappush(running, (now + lengths[user], now, user))
        end, begun, user = heappop(running)
        now = end
        spent[user] += end - begun
        had[user] += min(end, until) - min(begun, until)
    for _, begun, user in running:
        had[user] += max(0.0, until - begun)
    return had


@settings(max_examples=25)
@given(st.integers(1, 8), st.lists(st.floats(0.5, 5.0), min_size=2, max_size=4))
def test_equal_users_have_equal_slot_seconds_whatever_their_experiments_take(slots, lengths):
    named = {f"user{i}": length for i, length in enumerate(lengths)}
    had = play(slots, named, 20 * max(lengths) * len(lengths))
    assert jain_index(had.values()) > 0.95


def test_weights_are_proportions():
    shares = {"a": UserShare(weight=3.0)}
    had = play(4, {"a": 1.0, "b": 2.0}, 200.0, shares)
    assert had["a"] / had["b"] == pytest.approx(3.0, rel=0.05)


def test_idle_time_is_not_saved_up():
    had = play(2, {"a": 1.0, "b": 1.0}, 100.0, arrivals={"a": 0.0, "b": 50.0})
    assert had["b"] == pytest.approx(50.0, abs=3)


def test_a_higher_priority_is_served_first_and_a_quota_leaves_the_others_something():
    shares = {"a": UserShare(priority=1, slots=2)}
    assert play(3, {"a": 1.0, "b": 1.0}, 10.0, shares) == {"a": 20.0, "b": 10.0}
    fair = FairShare({"a": UserShare(slots=2)})
    assert fair.next_user({"a": UserLoad(wanted=4)}) == "a"
    assert fair.next_user({"a": UserLoad(slots=1, wanted=4)}) is None


def test_who_waits_is_told_for_what():
    fair = FairShare({"a": UserShare(slots=1), "c": UserShare(priority=1), "*": UserShare()})
    loads = {"a": UserLoad(1.0, 1, 1), "b": UserLoad(1.0, 0, 1), "c": UserLoad(2.0, 3, 1)}
    assert fair.why_waiting("a", loads, 4) == "a slot: a may have 1 at a time"
    assert fair.why_waiting("b", loads, 4) == "a slot: c first, by priority"
    assert fair.why_waiting("c", loads, 4) == "a slot: c has 3 of 4, shared with a"


def test_users_take_turns_and_nobody_has_more_studies_at_work_than_their_bound():
    fair = FairShare({"a": UserShare(active=3), "b": UserShare(active=2)})
    users = ["a"] * 6 + ["b"] * 4
    assert in_turns(users, {"a": 1}, fair) == [6, 0, 7, 1]
    assert in_turns([], {}, fair) == []


def test_shares_are_read_from_the_projects_file_and_mistakes_are_named(tmp_path):
    file = tmp_path / "zenturio.toml"
    file.write_text('[serve.shares]\nalice = { weight = 2, slots = 8 }\n"*" = { active = 4 }\n')
    shares = ServiceConfig.of(tmp_path).shares
    assert shares == {"alice": UserShare(weight=2.0, slots=8), "*": UserShare(active=4)}
    file.write_text("[serve.shares]\nalice = { weigth = 2 }\nbob = { slots = 0 }\n")
    with pytest.raises(InputError) as wrong:
        ServiceConfig.of(tmp_path)
    assert "weigth" in str(wrong.value)
    assert "slots=0" in str(wrong.value)
    file.write_text("[serve]\nshares = 3\n")
    with pytest.raises(InputError, match="a table for each user"):
        ServiceConfig.of(tmp_path)
