"""Hosts that cannot run what others can: experiments run elsewhere, and such a host is drained."""

import json
import sys

import pytest

from parent_process import PARENT
from zenturio.errors import PlaceError
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.execute.hosts.remote_host import fault_sign
from zenturio.experiment import Log, Step
from zenturio.system.machine import machine_facts
from zenturio.testing.executor import experiment, outcome, until


@pytest.fixture
def place(tmp_path):
    """Opens a place on this machine without SSH: the faster host is asked first."""
    opened = []

    def make(names=("bad", "good"), **options):
        lines = ["[options]\n", *(f"{n} = {json.dumps(v)}\n" for n, v in options.items())]
        for speed, name in enumerate(reversed(names), 1):
            (tmp_path / name).mkdir(exist_ok=True)
            lines += [
                f'[hosts.{name}]\naddress = {json.dumps(name)}\nvia = "sh"\nslots = 1\n',
                f"speed = {speed}\npython = {json.dumps(sys.executable)}\n",
                f"folder = {json.dumps(str(tmp_path / name))}\n",
            ]
        (tmp_path / "hosts.toml").write_text("".join(lines))
        found = Hosts(tmp_path / "zen", options=HostsSettings(str(tmp_path / "hosts.toml")))
        opened.append(found)
        return found

    yield make
    for each in opened:
        each.close()


def lacking(tmp_path, command="exec python9"):
    """An experiment whose interpreter is missing at the host ``bad``."""
    return experiment(f"case $PWD in {tmp_path}/bad/*) {command};; esac; echo on")


FAULTS = {
    "interpreter": "exec no-such-interpreter p.py",
    "tool-in-a-script": "echo 'p.sh: line 3: gfortran: command not found' >&2; exit 127",
    "disk": 'echo "OSError: [Errno 28] No space left on device" >&2; exit 1',
    "quota": "echo 'cp: writing x: Disk quota exceeded' >&2; exit 1",
    "supervisor": f"{PARENT}; kill -9 $parent; sleep 60",
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_what_a_host_cannot_run_runs_on_another_and_the_host_is_drained(place, tmp_path, fault):
    there = place()
    for _ in range(3):
        found = outcome(there, lacking(tmp_path, FAULTS[fault]))
        assert (found.status, found.host, found.stdout.head) == ("ok", "good", b"on\n")
    bad = there.host("bad")
    assert bad.drain_reason.startswith("drained, it could not run 3 experiments in a row: ")
    assert [line for line in there.remarks if line == f"bad: {bad.drain_reason}"]
    assert outcome(there, lacking(tmp_path, "false")).host == "good"
    assert "drained" in [event.kind for event in there.events.seen]


def test_a_command_that_is_missing_everywhere_is_the_experiments_own_fault(place):
    there = place(("one", "two", "three"))
    for number in range(4):
        found = outcome(there, experiment(f"no-such-program; test {number} = x"))
        assert (found.status, found.exit) == ("failed", 1)
    for _ in range(4):
        found = outcome(there, experiment("no-such-program"))
        assert (found.status, found.exit) == ("failed", 127)
    assert not any(host.drain_reason for host in there.hosts)
    begun = [event.host for event in there.events.seen if event.kind == "started"]
    assert len(begun) == 4 + 3 + 3  # each host once for the first, and nobody asks them again


def test_a_program_that_fails_by_itself_fails_once(place):
    there = place()
    assert outcome(there, experiment("exit 3")).exit == 3
    assert [event.kind for event in there.events.seen].count("started") == 1


def test_a_host_that_ran_one_in_between_is_not_drained(place, tmp_path):
    there = place()
    for _ in range(3):
        outcome(there, lacking(tmp_path))
        outcome(there, lacking(tmp_path))
        assert outcome(there, experiment("true")).host == "bad"
    assert not there.host("bad").drain_reason


def test_a_drained_host_is_probed_and_taken_back(place, tmp_path):
    there = place(status=0.2)
    tool = tmp_path / "tool"
    command = f"case $PWD in {tmp_path}/bad/*) exec {tool};; esac; echo on"
    for _ in range(3):
        assert outcome(there, experiment(command)).host == "good"
    until(lambda: "bad: it is taken back" in there.remarks)  # it runs a small job, for all that
    assert "drained" in [event.kind for event in there.events.seen]
    assert outcome(there, experiment("true")).host == "bad"


def test_a_host_on_which_nothing_can_be_prepared_is_drained_until_it_can(
    place, tmp_path, monkeypatch
):
    there = place(status=0.2, retries=0)
    jobs = tmp_path / "bad" / "jobs"
    until(jobs.exists)
    (owner,) = [p for p in jobs.iterdir() if p.is_dir()]
    owner.rename(tmp_path / "kept")
    owner.write_text("in the way, as a disk that is full")
    for _ in range(3):
        assert outcome(there, experiment("true")).host == "good"
    bad = there.host("bad")
    until(lambda: bad.drain_reason)
    owner.unlink()
    (tmp_path / "kept").rename(owner)
    until(lambda: not bad.drain_reason)
    assert outcome(there, experiment("true")).host == "bad"


def test_where_every_host_is_drained_the_study_ends_with_the_reasons(place, tmp_path):
    there = place(retries=0, drain=1)
    for name in ("bad", "good"):
        until((tmp_path / name / "jobs").exists)
        (owner,) = (tmp_path / name / "jobs").iterdir()
        owner.rename(tmp_path / f"{name}-kept")
        owner.touch()
    with pytest.raises(PlaceError, match="Not a directory"):
        outcome(there, experiment("true"))
    until(lambda: all(host.drain_reason for host in there.hosts))
    with pytest.raises(PlaceError, match="no usable host is left") as caught:
        outcome(there, experiment("true"))
    assert "bad: drained, " in str(caught.value)
    assert "good: drained, " in str(caught.value)


def test_who_looks_on_sees_which_host_is_drained_and_why(place, tmp_path):
    there = place()
    left = Hosts.left(tmp_path / "zen", HostsSettings(str(tmp_path / "hosts.toml")))
    assert left.drained() == {}
    for _ in range(3):
        outcome(there, lacking(tmp_path))
    until(left.drained)
    assert left.drained() == {"bad": there.host("bad").drain_reason}
    there.close()
    assert left.drained() == {}


def test_signs_of_a_hosts_fault_are_those_of_failures_alone():
    full = Log(b"No space left on device", b"", 23)
    assert fault_sign("", 1, "", full) == "no space left on device"
    assert (
        fault_sign("", 0, "", full)
        == fault_sign("timeout", 0, "", full)
        == fault_sign("", 1, "", Log())
        == ""
    )
    assert "exit 127" in fault_sign("", 127, "", Log())
    assert "too many" in fault_sign("unstartable", 0, "too many processes", Log())


def test_an_outcome_tells_the_machine_of_the_host_that_ran_it(place):
    found = outcome(place(("one",)), experiment("true"))
    facts = machine_facts()
    assert (found.machine.cpu, found.machine.cores) == (facts["cpu"], facts["cores"])
    assert found.host_details.memory == facts["memory"]
    assert found.conditions.load_start >= 0


def test_a_host_counts_the_slots_in_use_where_the_experiment_ran(hosts, tmp_path):
    place = hosts(one={"slots": 4})
    started, mark, over = (tmp_path / name for name in ("started", "mark", "over"))
    wide = Step(f"touch {started}; until test -e {mark}; do sleep 0.01; done", cpus=2)
    first = place.submit(experiment(wide))
    until(started.exists)
    second = place.submit(experiment(f"touch {mark}; until test -e {over}; do sleep 0.01; done"))
    found = [first.result(60).conditions]
    over.touch()
    found.append(second.result(60).conditions)
    assert [(c.slots, c.slots_start, c.slots_end) for c in found] == [(4, 2, 3), (4, 3, 1)]
