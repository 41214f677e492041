"""What every algorithm promises: the suites that plug-ins inherit, for our own algorithms."""

import re
from pathlib import Path

import pytest

from zenturio.schedule.algorithm import Kind, describe, make, names
from zenturio.testing.algorithms import AlgorithmContract
from zenturio.testing.moldable_algorithms import MoldableContract
from zenturio.testing.online_algorithms import OnlineContract
from zenturio.testing.policies import PolicyContract

SUITES: dict[Kind, tuple[type, ...]] = {
    "static": (AlgorithmContract,),
    "exact": (),  # its search may end by the clock, so it plans otherwise on a busy machine
    "just-in-time": (AlgorithmContract, PolicyContract),
    "dynamic": (PolicyContract,),
    "moldable": (MoldableContract,),
    "online": (OnlineContract,),
    "cluster": (),  # they queue jobs of a log: test_cluster_replay.py
}


SLOW = {"portfolio"}
"""It runs several of the others; test_portfolio.py has it in the gate."""


def of_suite(suite):
    chosen = [name for name in names() if suite in SUITES[describe(name).kind]]
    return [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in chosen]


SMALLER = {
    "moheft": {"width": 5, "generations": 10, "population": 8},
    "moldable-front": {"generations": 30, "population": 20},
    "tabu": {"moves": 200},
}
"""Settings with which an algorithm plans the problems of its suite in less than a second."""


class Named:
    """An algorithm by its name."""

    @pytest.fixture(autouse=True)
    def _chosen(self, name):
        self.name = name

    def algorithm(self, seed):
        return make(self.name, SMALLER.get(self.name, {}), seed)

    policy = algorithm


@pytest.mark.parametrize("name", of_suite(AlgorithmContract))
class TestPlanningAlgorithms(Named, AlgorithmContract):
    pass


@pytest.mark.parametrize("name", of_suite(PolicyContract))
class TestPolicies(Named, PolicyContract):
    pass


@pytest.mark.parametrize("name", of_suite(MoldableContract))
class TestMoldableAlgorithms(Named, MoldableContract):
    pass


@pytest.mark.parametrize("name", of_suite(OnlineContract))
class TestOnlineAlgorithms(Named, OnlineContract):
    pass


class TestExampleOfThePage(AlgorithmContract):
    """The example in docs/plug-ins.md."""

    def algorithm(self, seed):
        page = Path(__file__).parents[2] / "docs" / "plug-ins.md"
        text = page.read_text(encoding="utf-8").split("## A scheduling algorithm\n")[1]
        names = {}
        exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], names)
        return names["Fastest"](seed=seed)


def test_every_built_in_algorithm_keeps_a_contract():
    assert {describe(name).kind for name in names()} <= SUITES.keys()
