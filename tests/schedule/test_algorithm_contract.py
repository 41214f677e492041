"""What every algorithm promises: the suite that plug-ins inherit, for our own algorithms."""

import pytest

from zenturio.schedule.algorithm import describe, make, names
from zenturio.testing.algorithms import AlgorithmContract

STATIC = [name for name in names() if describe(name).kind == "static"]


@pytest.mark.parametrize("name", STATIC)
class TestStaticAlgorithms(AlgorithmContract):
    @pytest.fixture(autouse=True)
    def _chosen(self, name):
        self.name = name

    def algorithm(self, seed):
        return make(self.name, seed=seed)
