"""Islands of a genetic search at a place: the same plan as in threads."""

import io
import sys
import zipfile
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from needs import needs
from sshd import SSHD, Testbed
from zenturio.errors import InputError, PlaceError
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.execute.island_runner import PlaceRunner
from zenturio.execute.places import open_place
from zenturio.experiment import Artifact, Outcome
from zenturio.schedule.commands import PlanRequest

FLOW = "layered:tasks=20,machines=3,ccr=2,seed=1"


def request(**settings):
    texts = {name: str(value) for name, value in settings.items()}
    return PlanRequest(FLOW, algorithm="ga", settings=texts, seed=3)


def assert_same_plan(one, other):
    assert one.start.tolist() == other.start.tolist()
    assert one.processor.tolist() == other.processor.tolist()
    for name in ("evaluations", "children", "found", "ended"):
        assert one.notes[name] == other.notes[name]


def files_below(folder):
    return [path for path in (folder / "store").rglob("*") if path.is_file()]


def test_islands_at_a_place_find_the_same_plan_as_on_cores(tmp_path):
    asked = request(evaluations=600, islands=2, exchanges=2)
    with open_place("local", tmp_path / ".zenturio", 2) as place:
        plan = asked.plan(islands=PlaceRunner(place, "local"))
    assert_same_plan(plan, asked.plan())
    assert plan.notes["found"]  # something evolved
    assert not files_below(tmp_path / ".zenturio")


@pytest.mark.slow
def test_islands_on_hosts_find_the_same_plan_as_on_cores(tmp_path):
    needs("ssh", SSHD)
    asked = request(evaluations=600, islands=2, exchanges=2)
    with Testbed(tmp_path, ["one", "two"]) as bed:
        machines = {name: {"slots": 1, "speed": 1.0} for name in ("one", "two")}
        for server in bed.servers.values():  # they have this zenturio on their PATH
            server.kill()
            config = server.folder / "sshd_config"
            here = f"SetEnv PATH={Path(sys.executable).parent}:"
            config.write_text(config.read_text().replace("SetEnv PATH=", here))
            server.start()
        path = bed.write(tmp_path / "hosts.toml", {"connect": 60}, **machines)
        with Hosts(tmp_path / "zen", options=HostsSettings(str(path))) as place:
            plan = asked.plan(islands=PlaceRunner(place, "hosts.toml"))
    assert_same_plan(plan, asked.plan())


@pytest.mark.slow
def test_a_limit_of_time_counts_the_start_of_each_step(tmp_path):
    with open_place("local", tmp_path / ".zenturio", 2) as place:
        plan = request(seconds=4, exchanges=3).plan(islands=PlaceRunner(place, "local"))
    assert plan.notes["ended"] in {"seconds", "bound"}
    assert plan.notes["evaluations"] > 2 * 40


class Returns:
    """A place where each experiment ends as it is told."""

    slots = 1

    def __init__(self, folder, status, content):
        self._file, self._status, self._content = folder / "kept" / "0", status, content

    def submit(self, experiment):
        future = Future()
        sent = {file.path: file.content for file in experiment.files}
        self._file.parent.mkdir()
        self._file.write_bytes(self._content(sent["island.npz"]))
        kept = Artifact("evolved.npz", 1, "", self._file)
        outcome = Outcome(experiment.digest, self._status, "exit 1", host="far", artifacts=(kept,))
        future.set_result(outcome)
        return future


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def changed(name, change):
    def content(sent):
        arrays = dict(np.load(io.BytesIO(sent)))
        change(arrays[name])
        file = io.BytesIO()
        np.savez(file, **arrays, processor_seconds=np.array(0.1))
        return file.getvalue()

    return content


def refusal(tmp_path, status, content):
    with pytest.raises(PlaceError) as raised:
        request(evaluations=600).plan(
            islands=PlaceRunner(Returns(tmp_path, status, content), "lab")
        )
    assert not list(tmp_path.iterdir())
    return str(raised.value)


def test_an_island_that_fails_is_told_with_its_host(tmp_path):
    assert "an island failed at lab (far): exit 1" in refusal(tmp_path, "failed", lambda sent: sent)


def test_what_comes_back_is_checked_before_compiled_code_follows_it(tmp_path):
    wrong = "an island came back that is not the one that was sent"
    assert "no island" in refusal(tmp_path, "ok", lambda _sent: b"nothing")
    for name, number in (("genes", 3), ("genes", -2), ("orders", 20), ("orders", 1)):
        assert wrong in refusal(
            tmp_path, "ok", changed(name, lambda array, n=number: array.fill(n))
        )
    assert "no island" in refusal(tmp_path, "ok", lambda sent: sent)  # it does not say how long


def test_a_damaged_file_is_no_island(tmp_path):
    whole = changed("genes", np.copy)
    header = io.BytesIO()
    large = {"descr": "<f8", "fortran_order": False, "shape": (2**50,)}
    np.lib.format.write_array_header_1_0(header, large)
    for content in (
        lambda sent: whole(sent).replace(b"\x93NUMPY", b"\x93DUMMY"),
        lambda _sent: zipped({"genes.npy": header.getvalue()}),
        lambda _sent: zipped({"genes": b"no array"}),
    ):
        assert "what came back from lab (far) is no island" in refusal(tmp_path, "ok", content)


def test_only_islands_can_evolve_elsewhere(tmp_path):
    runner = PlaceRunner(Returns(tmp_path, "ok", bytes), "lab")
    with pytest.raises(InputError, match="heft has no islands"):
        PlanRequest(FLOW).plan(islands=runner)
    with pytest.raises(InputError, match="islands only optimise the makespan, not cost"):
        PlanRequest(FLOW, algorithm="ga", objective="cost").plan(islands=runner)
