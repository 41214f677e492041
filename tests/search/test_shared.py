"""Points that cost less, because another one has the same values of shared parameters."""

import numpy as np

from zenturio.search import Budget, Directions, SearchLoop, SearchProblem, drive, make
from zenturio.space import Space, span

SPACE = Space(mesh=span(1, 40), tol=span(1, 40), order=span(1, 4))


def cost(point):
    return (float((point["mesh"] - 22) ** 2 + (point["tol"] - 9) ** 2 + point["order"]),)


def meshes(shared, seed):
    """How many meshes thirty trials make, and the best of them."""
    problem = SearchProblem(SPACE, Directions(), seed, 30, slots=1, shared=shared)
    loop = SearchLoop(make("auto", problem), Directions(), Budget(30))
    trials = list(drive(loop, cost))
    return len({trial.point["mesh"] for trial in trials}), loop.best.scores[0]


def test_the_model_prefers_points_whose_mesh_is_there():
    plain, cheap = (
        np.array([meshes(shared, seed) for seed in range(4)])
        for shared in ((), (("mesh",), ("order", "mesh")))
    )
    assert cheap[:, 0].sum() < plain[:, 0].sum()
    assert np.median(cheap[:, 1]) <= 10
