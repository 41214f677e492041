"""Hosts that lie: what they say is checked, and what they were to run runs elsewhere."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from zenturio.errors import PlaceError
from zenturio.execute.hosts.broker import HostJob
from zenturio.execute.hosts.connection import Connection
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.execute.hosts.host_choice import JobRequirements
from zenturio.execute.wire import MalformedError
from zenturio.experiment import Recipe
from zenturio.testing.executor import experiment, long, outcome, running, until

HOSTILE = Path(__file__).with_name("hostile.py")
VALUES = {
    "setuid", "outside", "absolute", "nul", "twice", "types", "names", "words", "jobs", "list", "deep", "many",
    "digits", "length", "negative", "frame", "no-json", "event", "unasked", "token",
}  # fmt: skip


@pytest.fixture
def place(tmp_path):
    """A place of a host that tells one lie, and of an honest one that is slower."""
    opened = []

    def make(lie, *, honest=True):
        script = tmp_path / "python"
        script.write_text(f"#!/bin/sh\nexec {sys.executable} {HOSTILE} {lie} {tmp_path}/liar\n")
        script.chmod(0o755)
        lines = [
            "[options]\nconnect = 20\n",
            '[hosts.liar]\naddress = "liar"\nvia = "sh"\nslots = 1\nspeed = 9.0\n',
            f"python = {json.dumps(str(script))}\n",
        ]
        if honest:
            lines += [
                '[hosts.honest]\naddress = "honest"\nvia = "sh"\nslots = 1\nspeed = 1.0\n',
                f"python = {json.dumps(sys.executable)}\nfolder = {json.dumps(str(tmp_path / 'honest'))}\n",
            ]
        (tmp_path / "hosts.toml").write_text("".join(lines))
        found = Hosts(tmp_path / "zen", options=HostsSettings(str(tmp_path / "hosts.toml")))
        opened.append(found)
        return found

    yield make
    for each in opened:
        each.close()


def left():
    return experiment("echo said; echo yes > left.txt", recipe=Recipe(outputs=("left.txt",)))


QUICK = {"setuid", "outside", "types", "many", "length", "no-json", "unasked", "token"}
"""A quarter of a second of processor each: the other lies are told in make test-all."""


@pytest.mark.parametrize(
    "lie",
    [pytest.param(v, marks=[] if v in QUICK else [pytest.mark.slow]) for v in sorted(VALUES)],
)
def test_what_a_host_says_that_lies_is_not_believed_and_the_study_goes_on_elsewhere(place, lie):
    there = place(lie)
    found = outcome(there, left())
    assert (found.host, found.status, found.stdout.head) == ("honest", "ok", b"said\n")
    (artifact,) = found.artifacts
    assert artifact.kept.read_bytes() == b"yes\n"
    assert artifact.kept.stat().st_mode & 0o7022 == 0
    liar = there.host("liar")
    assert liar.distrusted
    assert liar.fault.startswith("not trusted any more: ")
    assert [line for line in there.check() if line.startswith("liar: not trusted")]


def test_where_every_host_lies_the_study_ends_with_the_reason(place):
    there = place("list", honest=False)
    with pytest.raises(PlaceError, match="liar: not trusted any more: a message is not an object"):
        outcome(there, left())
    with pytest.raises(PlaceError, match="no usable host is left"):
        outcome(there, left())


def large_files(folder):
    """Files of more than 64 MiB below *folder*; hosts remove some of it meanwhile."""
    paths = [Path(name, file) for name, _, files in os.walk(folder) for file in files]
    large = []
    for path in paths:
        with suppress(FileNotFoundError):
            if path.stat().st_size > 2**26:
                large.append(path)
    return large


def test_more_bytes_than_an_attempt_may_bring_back_are_not_fetched(place, tmp_path):
    there = place("large")
    found = outcome(there, left())
    assert (found.host, found.status) == ("honest", "ok")
    assert not there.host("liar").distrusted  # it may be that the experiment left so much
    assert large_files(tmp_path) == []
    why = [event.why for event in there.events.seen if event.kind == "left"]
    assert "at most 2147483648 B may" in why[0]


def test_events_that_nobody_reads_are_not_kept_without_end():
    job = HostJob(left(), 1, JobRequirements.of(left()))
    event = {"text": "x" * 2**16, "told": 0}

    def flood():
        for _ in range(10**6):
            job.notify("profile", event)

    with pytest.raises(MalformedError, match="more events than can be read"):
        flood()
    job.discard_events()
    job.notify("profile", {"text": "y", "told": 1})
    assert job.next_event(1.0)[0] == "profile"
    assert job.next_event(0.0) == ("", {})


@pytest.mark.parametrize(
    "noise", ["yes", "yes | tr -d '\\n'", "yes >&2", "head -c 1000000 /dev/zero"]
)
def test_a_login_that_prints_without_end_is_given_up(tmp_path, noise):
    script = tmp_path / "python"
    mark = long("87.8")
    script.write_text(f"#!/bin/sh\n{noise.replace('yes', f'yes {mark}')}\n")
    script.chmod(0o755)
    with pytest.raises(PlaceError):
        Connection(
            ["/bin/sh", "-c"], str(script), str(tmp_path / "remote"), "me", patience=0.5,
            on_event=lambda _event: None, on_dropped=lambda _connection: None,
        )  # fmt: skip
    until(lambda: not running(mark))
