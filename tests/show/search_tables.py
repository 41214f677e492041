"""Tables as searches leave them."""

import numpy as np
import pandas as pd


def searched(points=200, parameters=3, seed=0):
    """A row for each point, in the order of visit; what came later is better, by and by."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame({f"p{i}": random.integers(0, 8, points) for i in range(parameters)})
    table["block"] = 2 ** random.integers(3, 10, points)
    table["solver"] = random.choice(["cg", "gmres", "jacobi"], points)
    table["wtime"] = (
        5.0 + (table["p0"] - 3) ** 2 + (table["solver"] == "cg") * 4 + random.normal(0, 1, points)
    )
    table["energy"] = 40 - table["wtime"] + random.normal(0, 3, points)
    table["loss"] = random.random(points)
    table["visit"] = np.arange(1, points + 1)
    table.attrs = {
        "study": "stencil",
        "units": {"wtime": "s", "energy": "J", "block": "KiB"},
        "parameters": [*(f"p{i}" for i in range(parameters)), "block", "solver"],
        "goals": ["minimize wtime", "minimize energy"],
        "visit": "visit",
        "noun": "points",
        "of": points,
    }
    return table


def runs(searches, direction="minimize"):
    """Several searches in one table: of each the scores in their order."""
    rows = [
        {"run": name, "visit": at + 1, "p": at, "score": score}
        for name, scores in searches.items()
        for at, score in enumerate(scores)
    ]
    table = pd.DataFrame(rows)
    table.attrs = {
        "parameters": ["p"], "goals": [f"{direction} score"], "visit": "visit",
        "runs": ["run"], "noun": "points",
    }  # fmt: skip
    return table
