"""Kinds of machines in words."""

import os
import platform

import pytest

from zenturio.experiment import Build, Experiment, Recipe, Step
from zenturio.experiment.experiment import MachineKind, machine_notes
from zenturio.experiment.provenance import describe_host, host_values


@pytest.mark.parametrize(
    ("machine", "label"),
    [
        (MachineKind(), "unknown processor"),
        (MachineKind("EPYC"), "EPYC"),
        (MachineKind("EPYC", 1), "EPYC, 1 core"),
        (MachineKind("EPYC", 2), "EPYC, 2 cores"),
        (MachineKind("EPYC", 2, ("A100",)), "EPYC, 2 cores, A100"),
        (MachineKind("EPYC", 2, ("A100", "T4", "A100")), "EPYC, 2 cores, 2 x A100, T4"),
        (MachineKind("EPYC", 0, (), "module  load\ngcc"), "EPYC (module load gcc)"),
    ],
)
def test_a_kind_of_machine_is_named_by_what_it_has(machine, label):
    assert machine.label == label


def test_an_answer_from_several_kinds_of_machine_says_which_and_how_many_results():
    assert machine_notes({}) == ()
    assert machine_notes({"EPYC": 3}) == ()
    assert machine_notes({"Xeon": 1, "EPYC": 3000}) == (
        "results of 2 kinds of machine: EPYC (3,000); Xeon (1); --machine picks one",
    )


def test_the_facts_of_this_machine_are_those_of_its_system():
    facts = describe_host()
    assert (facts["name"], facts["arch"]) == (platform.node(), platform.machine())
    assert facts["kernel"] == platform.release()
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["memory"] > 2**20
    asked = host_values()
    assert {name: asked[name] for name in ("name", "arch", "cores", "memory", "cpu", "os")} == {
        name: facts[name] for name in ("name", "arch", "cores", "memory", "cpu", "os")
    }
    assert asked["load"] >= 0
    assert asked.keys() >= {"mhz"}


def test_an_experiment_asks_for_the_most_that_one_of_its_steps_or_of_its_build_needs():
    def made(*steps, build=None):
        return Experiment("0" * 32, -1, 1, {}, (), steps, {}, build, Recipe())

    large = Build("1" * 32, (), (Step("cc", cpus=4, memory=900),))
    assert (made().cpus, made().memory) == (1, 0)
    steps = (Step("a", cpus=2), Step("b", cpus=3, memory=100), Step("c"))
    assert (made(*steps).cpus, made(*steps).memory) == (3, 100)
    assert (made(*steps, build=large).cpus, made(*steps, build=large).memory) == (4, 900)
