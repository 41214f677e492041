"""What others send is checked before it is used: whatever it is, it is taken or refused."""

import json
import os
import struct
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.execute import wire
from zenturio.execute.hosts.connection import (
    ANSWER_CHECKS,
    check_answer,
    check_event,
    valid_facts,
)
from zenturio.execute.run_conditions import check_run_facts
from zenturio.execute.wire import (
    MalformedError,
    first_of,
    integer,
    list_of,
    number,
    one_of,
    path,
    read_json,
    record,
    text,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=20,
)
RUN = {
    "stop": "", "why": "", "step": 0, "status": 0, "wtime": 0.5, "ctime": 0.1, "maxrss": None,
    "hidden": 0, "started": 1.0, "ended": 2.0, "load": [0.5, None], "sizes": [1, 2], "lengths": [0, 0, 0, 0],
}  # fmt: skip


def accepts(check, value):
    """Return whether *check* accepts *value*; an exception of another kind is a fault."""
    try:
        check(value, "it")
    except MalformedError:
        return False
    return True


def test_types_and_ranges_are_checked():
    malformed = [
        (integer(0, 9), (-1, 10, 1.0, True, "1", None)),
        (number(0), (-0.5, float("nan"), float("inf"), 10**400, "1", True)),
        (text(3), ("four", 1, "\0", "\ud800")),
        (one_of(0, "a"), (False, 0.0, "b", [])),
        (list_of(integer(), 2), ([1, 2, 3], [-1], {}, "ab")),
        (record({"a": integer()}, {"b": text()}), ({}, {"a": 1, "c": 2}, {"a": 1, "b": 2}, [])),
        (first_of(integer(), text()), (1.5, None)),
        (path, ("", "/a", "../a", "a/../b", "a//b", "./a", "a/", "x" * 256, 3)),
    ]
    assert [value for check, values in malformed for value in values if accepts(check, value)] == []
    assert accepts(path, "a/b.c\udc80")


def test_a_message_names_the_part_that_is_wrong():
    with pytest.raises(MalformedError, match=r"^reply\.status is 'x', not a whole number"):
        check_run_facts({**RUN, "status": "x"}, 1)
    with pytest.raises(MalformedError, match=r"^reply\.step is 1 of 1"):
        check_run_facts({**RUN, "step": 1}, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"[" * 65 + b"]" * 65,
        b"[" + b"0," * 2**20 + b"0]",
        b"1" * 10**6,
        b'{"a": ' + b"-" + b"9" * 5000 + b"}",
        b"\xff",
        b"",
        b'"\\',
    ],
)
def test_json_that_exhausts_memory_or_time_is_refused_in_no_time(data):
    with pytest.raises(MalformedError):
        read_json(data)


@given(JSON)
def test_json_of_usual_size_is_read(value):
    assert repr(read_json(json.dumps(value).encode())) == repr(json.loads(json.dumps(value)))


@given(st.sampled_from(sorted(ANSWER_CHECKS)), JSON, st.text(max_size=9))
def test_any_answer_is_taken_or_refused(do, value, name):
    for answer in (value, {name: value}, {"error": value}, {"files": value, "state": value}):
        try:
            check_answer(do, answer) if isinstance(answer, dict) else None
            check_event(answer) if isinstance(answer, dict) else None
        except MalformedError:
            pass


@given(st.sampled_from(sorted(RUN)), JSON)
def test_any_account_of_a_run_is_taken_or_refused(name, value):
    try:
        check_run_facts({**RUN, name: value}, 3)
    except MalformedError:
        return
    assert type(value) in (str, int, float, list, type(None))


@given(st.dictionaries(st.sampled_from(["cores", "memory", "load", "speed", "gpus"]), JSON))
def test_facts_that_make_no_sense_are_left_out_and_told(facts):
    sound, fault = valid_facts(facts)
    assert sound.items() <= facts.items()
    assert bool(fault) == (len(sound) < len(facts))
    assert type(sound.get("cores", 1)) is int


def through_a_pipe(data):
    ends = os.pipe()

    def write():
        with os.fdopen(ends[1], "wb") as far:
            far.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        message = wire.receive(ends[0])
        return message, None if message is None else wire.receive_blobs(ends[0], message, most=100)
    finally:
        while os.read(ends[0], 65536):
            pass
        thread.join()
        os.close(ends[0])


@given(st.binary(max_size=60))
def test_any_bytes_on_the_wire_are_a_message_or_refused(noise):
    for data in (noise, struct.pack("!I", len(noise)) + noise):
        try:
            message, _ = through_a_pipe(data)
        except MalformedError:
            continue
        assert message is None or isinstance(message, dict)


def test_memory_is_taken_as_bytes_come_not_as_a_length_says():
    tracemalloc.start()
    try:
        for length, size in ((2**32 - 1, 10), (wire.LARGEST_MESSAGE_BYTES, 10)):
            try:
                message, _ = through_a_pipe(struct.pack("!I", length) + b"x" * size)
            except MalformedError:
                message = None
            assert message is None
        said = json.dumps({"lengths": [2**62]}).encode()
        with pytest.raises(MalformedError, match="lengths"):
            through_a_pipe(struct.pack("!I", len(said)) + said)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
