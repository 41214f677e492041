"""Facts of the machine that ran an attempt: collected there, carried by the outcome."""

import os
import platform

import pytest

from zenturio.execute.experiment_codec import pack_experiment, pack_outcome, unpack_outcome
from zenturio.execute.json_checks import MalformedError
from zenturio.execute.local import Local
from zenturio.execute.machine_json import (
    check_machine_facts,
    machine_facts,
    machine_parts_from_json,
    machine_parts_to_json,
    physical_cores,
)
from zenturio.execute.worker import run_packed
from zenturio.experiment import Outcome
from zenturio.experiment.experiment import HostConditions, HostDetails, MachineKind
from zenturio.testing.executor import experiment, outcome


def here():
    facts = machine_facts()
    return (
        MachineKind(facts["cpu"], facts["cores"], tuple(facts["accelerators"])),
        HostDetails(platform.node(), f"{platform.system()} {platform.release()}", facts["memory"]),
    )


def test_an_outcome_tells_the_machine_that_ran_it_and_its_load(tmp_path):
    with Local(tmp_path / "zen", 1) as place:
        for command in ("true", "exit 3", "kill -9 $$"):
            found = outcome(place, experiment(command))
            assert (found.machine, found.host_details) == here()
            assert found.conditions.load_start >= 0
            assert found.conditions.load_end >= 0
        broken = outcome(place, experiment("true", builds=("exit 2",)))
        assert (broken.machine, broken.conditions) == (here()[0], None)


def test_a_worker_sends_them_along(tmp_path):
    what = experiment("true")
    found = unpack_outcome(
        run_packed(pack_experiment(what), tmp_path), what.digest, tmp_path / "outputs"
    )
    assert (found.machine, found.host_details) == here()
    assert found.conditions.load_start >= 0


def test_facts_are_of_the_machine_and_as_they_are_checked():
    facts = machine_facts()
    check_machine_facts(facts, "facts")
    assert facts["memory"] > 2**20
    assert 0 <= facts["cores"] <= os.cpu_count()
    for name in facts:
        with pytest.raises(MalformedError):
            check_machine_facts({**facts, name: None}, "facts")


def test_threads_of_one_core_are_counted_once(tmp_path):
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert physical_cores(tmp_path) == 2


def test_all_that_may_be_known_comes_out_as_it_went_in(tmp_path):
    gone = Outcome(
        "ab" * 16, "ok",
        machine=MachineKind("EPYC", 64, ("H100", "H100"), "module load gcc/13"),
        host_details=HostDetails("n1", "Linux 6.1", 2**38),
        conditions=HostConditions(0.5, None, 3e3, celsius_end=60.5, slots=4, governor="performance",
                              other={"fans": 3, "quiet": True, "note": None}),
    )  # fmt: skip
    assert unpack_outcome(pack_outcome(gone), gone.digest, tmp_path) == gone
    none = machine_parts_from_json(machine_parts_to_json(Outcome("ab" * 16, "ok")))
    assert set(none.values()) == {None}
