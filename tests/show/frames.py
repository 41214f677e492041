"""Realistic tables to draw."""

from itertools import product

import numpy as np
import pandas as pd

LONG = "a long solver name (preconditioned, restarted, $x$ <b>)"


def frame(threads=(1, 2, 4), sizes=(128, 256, 512), solvers=("cg",), repeats=5, seed=0):
    random = np.random.default_rng(seed)
    rows = []
    for n, thread, solver in product(sizes, threads, solvers):
        truth = 2e-9 * n**3 / thread**0.85 * (1 + solvers.index(solver) / 3)
        for repeat in range(repeats):
            wtime = truth * (1 + 0.06 * random.normal()) + 0.002
            row = {"n": n, "threads": thread, "solver": solver, "repeat": repeat + 1}
            rows.append({**row, "wtime": wtime, "gflops": 2e-9 * n**3 / wtime})
    found = pd.DataFrame(rows)
    found.attrs = {
        "study": "matmul",
        "units": {"wtime": "s", "gflops": "GFLOP/s"},
        "parameters": ["n", "threads", "solver"],
        "of": len(found) + 7,
    }
    return found
