"""What pages say: numbers, times, addresses, commands; and what they keep for later."""

import shlex
import threading
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.experiment import Series
from zenturio.record import StudyDefinition
from zenturio.show.portal import page_templates as templates
from zenturio.show.portal.pages.experiment import ComparedValue
from zenturio.show.portal.pages.study import rerun_command
from zenturio.show.portal.state import ResultCache


@given(
    st.dictionaries(
        st.text(min_size=1), st.text(min_size=1) | st.lists(st.text(min_size=1), min_size=1)
    )
)
def test_an_address_says_what_it_was_given(given):
    pairs = parse_qsl(urlsplit(templates.address("/study", given)).query, keep_blank_values=True)
    flat = [(k, v) for k, vs in given.items() for v in (vs if isinstance(vs, list) else [vs])]
    assert pairs == flat


def test_an_address_leaves_out_what_is_not_said():
    given = {"name": "a", "where": "n > 1", "sort": ("a", "b"), "state": ""}
    assert templates.address("/x", given, where=None) == "/x?name=a&sort=a&sort=b"
    assert templates.address("/x", {}) == "/x"


def test_times_and_metrics_are_for_people():
    assert templates.utc_time(0) == ""
    assert templates.relative_time(1000, 1003) == "just now"
    assert templates.relative_time(1000, 1060) == "1 minute ago"
    assert templates.relative_time(1000, 1000 + 3 * 86_400) == "3 days ago"
    assert templates.utc_time(86_400) == "1970-01-02 00:00:00Z"
    assert templates.full_value(Series((1, 2.5, "a"))) == "1, 2.5, a"
    assert templates.full_value(0.1 + 0.2) == "0.30000000000000004"
    long = templates.short_text("x" * 500 + "end")
    assert len(long) < 100
    assert long.endswith("end")


def test_of_two_values_that_are_no_number_neither_differs_and_no_ratio_is_told():
    nan, inf = float("nan"), float("inf")
    assert not ComparedValue("m", "", nan, float("nan")).differs
    assert ComparedValue("m", "", nan, 1.0).differs
    assert ComparedValue("m", "", 2, 3.0).ratio == 1.5
    assert [ComparedValue("m", "", *two).ratio for two in ((inf, inf), (1.0, nan), (0, 1))] == [
        None
    ] * 3


def test_the_command_that_runs_a_study_again_is_taken_by_a_shell():
    notes = {
        "paths": ["-a b.c", "x.py"], "runs": ["./x"], "overrides": ["n={1:3}"], "root": "/a b",
    }  # fmt: skip
    told = rerun_command(StudyDefinition(notes=notes), "matmul", "my db.sqlite", "--only", "failed")
    assert shlex.split(told) == [
        "cd", "/a b", "&&", "zen", "run", "./-a b.c", "x.py", "-P", "n={1:3}", "--name", "matmul",
        "--db", "my db.sqlite", "--only", "failed",
    ]  # fmt: skip
    assert rerun_command(
        StudyDefinition(notes={"paths": ["m/matmul.c"], "runs": ["x"]}), "matmul", None
    ) == ("zen run m/matmul.c")
    assert rerun_command(StudyDefinition(), "from Python", None) == ""
    assert rerun_command(StudyDefinition(notes=notes), "matmul@1", None) == ""


def test_no_command_tells_a_password():
    notes = {"paths": ["a.c"], "runs": ["x"]}
    told = rerun_command(
        StudyDefinition(notes=notes), "a", "postgresql://u:secret@host/db?password=hidden"
    )
    assert "secret" not in told
    assert "hidden" not in told
    assert "host" in told


def test_an_answer_is_found_once_and_anew_when_it_changed(monkeypatch):
    cache, calls = ResultCache(2), []

    def find():
        calls.append(1)
        return len(calls)

    clock = [1000.0]
    monkeypatch.setattr("zenturio.show.portal.state.time.time", lambda: clock[0])
    assert cache.get("a", 1, find).value == cache.get("a", 1, find).value == 1
    assert cache.get("a", 2, find).value == 1, "what changes always is not asked for always"
    assert cache.peek("a", 1).value == 1
    clock[0] += 5
    assert cache.peek("a", 2) is None
    assert cache.get("a", 2, find).value == 2
    clock[0] += 500
    assert cache.get("a", 2, find).value == 3
    assert cache.peek("b", 1) is None
    cache.get("b", 1, find)
    cache.get("c", 1, find)
    assert cache.peek("a", 2) is None, "only the newest are cache"


def test_many_who_ask_at_once_wait_for_one_answer():
    cache, calls, begun = ResultCache(), [], threading.Event()

    def find():
        calls.append(1)
        begun.wait()
        return "found"

    got = []
    asking = [
        threading.Thread(target=lambda: got.append(cache.get("a", 1, find).value)) for _ in range(8)
    ]
    for each in asking:
        each.start()
    begun.set()
    for each in asking:
        each.join()
    assert got == ["found"] * 8
    assert len(calls) == 1


def test_an_answer_that_cannot_be_found_is_asked_for_again():
    cache = ResultCache()
    with pytest.raises(ZeroDivisionError):
        cache.get("a", 1, lambda: 1 // 0)
    assert cache.get("a", 1, lambda: 2).value == 2
