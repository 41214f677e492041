"""Hosts of several kinds of machine: which there are, and an experiment that goes to one kind."""

from dataclasses import replace

from zenturio.execute.machines import own_machine
from zenturio.testing.executor import experiment

RISCV = replace(own_machine(), cpu="RISC-V")


def test_hosts_say_which_kind_of_machine_they_are_when_they_are_connected(hosts):
    place = hosts(one={}, two={})
    assert place.machines == {own_machine()}
    assert place.slots_of(own_machine()) == 2
    assert place.slots_of(RISCV) == 0


def test_an_experiment_for_one_kind_of_machine_goes_to_a_host_of_that_kind(hosts):
    place = hosts(one={"slots": 4}, two={})
    place.host("two").kind = RISCV
    assert place.machines == {own_machine(), RISCV}
    futures = [place.submit_to(RISCV, experiment(f"echo {i}")) for i in range(3)]
    assert {future.result(60).host for future in futures} == {"two"}
    assert place.submit_to(own_machine(), experiment("true")).result(60).host == "one"


def test_a_result_of_another_kind_that_waits_at_the_place_is_not_taken(hosts, tmp_path):
    first = hosts(one={}, two={})
    first.host("two").kind = RISCV
    done = first.submit_to(own_machine(), experiment("echo there")).result(60)
    assert done.host == "one"
    first.close()  # nobody has forgotten the outcome: it waits for the next driver
    second = hosts(one={}, two={})
    second.host("two").kind = RISCV
    assert second.submit_to(RISCV, experiment("echo there")).result(60).host == "two"
