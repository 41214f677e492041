"""Kinds of machines in words."""

import pytest

from zenturio.experiment.machine import Machine, of_machines


@pytest.mark.parametrize(
    ("machine", "label"),
    [
        (Machine(), "unknown processor"),
        (Machine("EPYC"), "EPYC"),
        (Machine("EPYC", 1), "EPYC, 1 core"),
        (Machine("EPYC", 2), "EPYC, 2 cores"),
        (Machine("EPYC", 2, ("A100",)), "EPYC, 2 cores, A100"),
        (Machine("EPYC", 2, ("A100", "T4", "A100")), "EPYC, 2 cores, 2 x A100, T4"),
        (Machine("EPYC", 0, (), "module  load\ngcc"), "EPYC (module load gcc)"),
    ],
)
def test_a_kind_of_machine_is_named_by_what_it_has(machine, label):
    assert machine.label == label


def test_an_answer_from_several_kinds_of_machine_says_which_and_how_many_results():
    assert of_machines({}) == ()
    assert of_machines({"EPYC": 3}) == ()
    assert of_machines({"Xeon": 1, "EPYC": 3000}) == (
        "results of 2 kinds of machine: EPYC (3,000); Xeon (1); --machine picks one",
    )
