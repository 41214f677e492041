"""WIEN2k, the application of Prodan and Fahringer, "Dynamic Scheduling of Scientific Workflow
Applications on the Grid" (SAC 2005).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zenturio.schedule import predict
from zenturio.schedule.formats.instance import Instance
from zenturio.schedule.testbeds import grid_2005
from zenturio.schedule.workflow import Workflow, WorkflowTask
from zenturio.search.settings import setting

FLOPS = 1e9
"""Operations that a machine of speed 1 does in a second: speeds are in GHz."""


@dataclass(frozen=True)
class Wien2k:
    """WIEN2k: electronic structure of a solid, k-points in parallel, repeated until it converges.

    LAPW1 works 7 A N^2 + N^3 operations for each k-point, LAPW2 a tenth of that, and between
    them go 200 N A bytes (sections 3 and 4.2). The other tasks are as the settings say.
    """

    kpoints: int = setting(50, "k-points, each an LAPW1 and an LAPW2", low=1, high=1_000_000)
    atoms: int = setting(64, "atoms: A", low=1, high=100_000)
    size: int = setting(5000, "size of the matrix: N", low=1, high=1_000_000)
    spread: float = setting(0.1, "by which part k-points differ in work", low=0, high=0.9)
    lapw0: float = setting(0.5, "work of LAPW0, in LAPW1s", low=0, high=1000)
    rest: float = setting(0.05, "work of LCORE, FERMI, mixer and test, in LAPW1s", low=0, high=1000)
    loop: bool = setting(False, "with the edge from the test of convergence back to LAPW0")
    transfers: bool = setting(False, "with file transfers between k-points as tasks of their own")
    shared: bool = setting(False, "LAPW1 and LAPW2 of a k-point on one machine, whichever it is")

    def count(self) -> int:
        return 5 + self.kpoints * (3 if self.transfers else 2)

    def instance(self, seed: int) -> Instance:
        flops = predict.lapw1_operations(self.atoms, self.size)
        chance = np.random.default_rng(seed)
        lapw1 = flops / FLOPS * chance.uniform(1 - self.spread, 1 + self.spread, self.kpoints)
        kpoints = range(1, self.kpoints + 1)
        mean = flops / FLOPS
        tasks = [
            self._job("lapw0", self.lapw0 * mean),
            *(self._job("lapw1", lapw1[k - 1], k) for k in kpoints),
            self._job("lapw2_fermi", self.rest * mean),
            *(self._job("lapw2", predict.LAPW2_SHARE * lapw1[k - 1], k) for k in kpoints),
            *(self._job(each, self.rest * mean) for each in ("lcore", "mixer", "converged")),
        ]
        edges = [("lapw0", "lcore", 0.0), ("lcore", "mixer", 0.0), ("mixer", "converged", 0.0)]
        for k in kpoints:
            edges += [
                ("lapw0", f"lapw1_{k}", 0.0),
                (f"lapw1_{k}", "lapw2_fermi", 0.0),
                ("lapw2_fermi", f"lapw2_{k}", 0.0),
                (f"lapw2_{k}", "mixer", 0.0),
            ]
        vector = predict.vector_bytes(self.atoms, self.size)
        if self.transfers:
            for k in kpoints:
                a, b, moved = f"lapw1_{k}", f"lapw2_{k}", f"vector_{k}"
                here, there = self._machine("lapw1", k), self._machine("lapw2", k)
                tasks.append(WorkflowTask(moved, vector, "transfer", here, there, "case.vector"))
                edges += [(a, moved, 0.0), (moved, b, 0.0)]
        else:
            edges += [(f"lapw1_{k}", f"lapw2_{k}", vector) for k in kpoints]
        if self.loop:
            edges.append(("converged", "lapw0", 0.0))
        return Instance(Workflow.of(f"wien2k-{self.kpoints}", tasks, edges), grid_2005())

    def _job(self, program: str, work: float, number: int = 0) -> WorkflowTask:
        name = f"{program}_{number}" if number else program
        return WorkflowTask(
            name, float(work), machine=self._machine(program, number), program=program
        )

    def _machine(self, program: str, number: int) -> str:
        """The abstract machine of a task, if anything depends on it (Definition 1)."""
        if self.shared and number:
            return f"kpoint_{number}"
        return f"{program}_{number}".removesuffix("_0") if self.transfers else ""
