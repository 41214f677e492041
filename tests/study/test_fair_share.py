"""Users share the slots of a place in proportion to their weights, whatever each of them submits."""

from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenturio.errors import InputError
from zenturio.study.service.service_config import ServiceConfig
from zenturio.study.service.slot_policy import (
    FairShare,
    UserLoad,
    UserShare,
    in_turns,
    jain_index,
)


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


@settings(max_examples=settings.default.max_examples * 25 // 100)
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


def test_a_slot_is_shared_with_those_who_have_some():
    loads = {
        "a": UserLoad(slots=2),
        "b": UserLoad(wanted=1),
        "c": UserLoad(slots=1),
        "d": UserLoad(),
    }
    fair = FairShare()
    assert fair.why_waiting("b", loads, 3) == "a slot: b has 0 of 3, shared with a, c"
    assert fair.why_waiting("a", {"a": UserLoad(slots=2)}, 3) == "a slot: a has 2 of 3"
    assert fair.why_waiting("new", {}, 3) == "a slot: new has 0 of 3"


def test_of_equals_who_came_first_is_next_and_then_the_name_decides():
    loads = {"b": UserLoad(wanted=1, arrival=2.0), "a": UserLoad(wanted=1, arrival=3.0)}
    assert FairShare().next_user(loads) == "b"
    loads = {"b": UserLoad(wanted=1), "a": UserLoad(wanted=1)}
    assert FairShare().next_user(loads) == "a"
    assert FairShare().next_user({"a": UserLoad(slots=3)}) is None
    assert FairShare().next_user({}) is None


def test_a_quota_may_be_used_up_but_not_passed():
    fair = FairShare({"a": UserShare(slots=3)})
    for slots, wanted, served in (
        (0, 1, True),
        (2, 1, True),
        (2, 2, False),
        (3, 1, False),
        (0, 9, True),
    ):
        is_served = fair.next_user({"a": UserLoad(slots=slots, wanted=wanted)}) == "a"
        assert is_served == served, (slots, wanted)


def test_who_comes_back_begins_where_the_others_are_and_nobody_is_set_back():
    fair = FairShare()
    fair.next_user({"a": UserLoad(100.0, 1, 1), "b": UserLoad(10.0, 1, 1)})
    fair.next_user({"a": UserLoad(100.0, 1, 1), "b": UserLoad(10.0)})
    fair.next_user({"a": UserLoad(120.0, 1, 1), "b": UserLoad(10.0, 0, 1)})
    assert fair._offset["b"] == 110.0
    assert fair.next_user({"a": UserLoad(121.0, 0, 1), "b": UserLoad(10.0, 0, 1)}) == "b"
    fair.next_user({"b": UserLoad(10.0, 1, 1)})
    fair.next_user({"a": UserLoad(500.0, 0, 1), "b": UserLoad(20.0, 1, 1)})
    assert fair._offset.get("a", 0.0) == 0.0


def test_submissions_begin_in_turns_up_to_what_each_user_may_have_at_work():
    shares = FairShare({"a": UserShare(active=2), "*": UserShare(active=1)})
    assert in_turns(["a", "a", "a", "b", "b", "c"], {}, shares) == [0, 3, 5, 1]
    assert in_turns(["a", "b", "c"], {"a": 1, "b": 1}, shares) == [2, 0]
    assert in_turns([], {}, shares) == []
    assert FairShare().share("anybody").active == 16


def test_the_index_of_equality_is_one_of_equals_and_least_where_one_has_all():
    assert jain_index([2.0, 2.0, 2.0]) == 1.0
    assert jain_index([6.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain_index([0.0, 0.0]) == jain_index([]) == 1.0
    assert jain_index([1.0, 3.0]) == 16 / 20
