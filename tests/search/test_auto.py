"""The default engine: it mixes proposals, and chooses by budget, objectives and space."""

import numpy as np
import pytest

import zenturio as zen
from zenturio.search import Directions, SearchProblem, make
from zenturio.search.auto_search import GlobalLocalSearch
from zenturio.search.baselines import Random
from zenturio.search.ga import Ga
from zenturio.search.genome import Genome
from zenturio.search.local_quadratic import LocalQuadratic, _fit, _in_ball
from zenturio.search.nsga2 import Nsga2

PLANE = zen.Space(x=zen.uniform(-5, 5), y=zen.uniform(-5, 5))
SOLVERS = zen.Space(
    solver=["direct", "multigrid", "krylov"],
    pivot=zen.parameter(["none", "partial"], when="solver == 'direct'"),
    levels=zen.parameter(list(range(2, 9)), when="solver == 'multigrid'"),
    smoothing=zen.parameter(zen.uniform(0, 2), when="solver == 'multigrid'"),
    tolerance=zen.parameter(zen.loguniform(1e-9, 1e-1), when="solver == 'krylov'"),
    tile=[8, 16, 32, 64],
)


def solver_cost(point):
    """A good branch at first sight, and a better one for one setting."""
    tiles = abs(point["tile"] - 32) / 32
    if point["solver"] == "direct":
        return 1.0 + tiles + (point["pivot"] == "none")
    if point["solver"] == "krylov":
        return 1.5 + tiles + abs(np.log10(point["tolerance"]) + 6) / 4
    return tiles + 3 * abs(point["smoothing"] - 0.7) + 0.5 * abs(point["levels"] - 5)


def ellipsoid(point):
    turned = (point["x"] - 1) + 0.6 * (point["y"] + 2), (point["y"] + 2) - 0.6 * (point["x"] - 1)
    return 1e4 * turned[0] ** 2 + turned[1] ** 2


@pytest.mark.parametrize(
    ("space", "directions", "budget", "engine"),
    [(PLANE, ("minimize",), 200, GlobalLocalSearch), (PLANE, ("minimize",), 10_000, Ga),
     (PLANE, ("minimize",), None, GlobalLocalSearch), (PLANE, ("minimize", "maximize"), 5000, Nsga2),
     (PLANE, ("minimize", "maximize"), 100, GlobalLocalSearch),
     (zen.Space(x=range(800)), ("minimize",), 900, Random)],
)  # fmt: skip
def test_the_engine_is_chosen_by_the_problem(space, directions, budget, engine):
    problem = SearchProblem(space, Directions(directions), budget=budget)
    assert type(make("auto", problem).chosen) is engine


@pytest.mark.parametrize(
    ("space", "directions", "starts"),
    [(PLANE, ("minimize",), [4, 4, 12, 20, 20]), (SOLVERS, ("minimize",), [5, 8, 16, 20, 20]),
     (PLANE, ("minimize", "maximize"), [5, 8, 16, 20, 20])],
)  # fmt: skip
def test_fewer_random_points_come_first_where_all_genes_are_continuous(space, directions, starts):
    problems = [
        SearchProblem(space, Directions(directions), budget=budget)
        for budget in (30, 50, 100, 200, None)
    ]
    assert [make("auto", problem).chosen.starts for problem in problems] == starts
    assert make("auto", problems[1], {"starts": 9}).chosen.starts == 9


def test_a_smooth_function_is_minimised_to_many_digits():
    best = zen.search(PLANE, ellipsoid, engine="auto", budget=80, seed=1).best
    assert best.scores[0] < 1e-3
    assert zen.search(PLANE, ellipsoid, engine="model", budget=80, seed=1).best.scores[0] > 1e-2


@pytest.mark.parametrize("engine", ["auto", "model"])
def test_a_branch_that_looks_bad_at_first_is_not_given_up(engine):
    trials = zen.search(SOLVERS, solver_cost, engine=engine, budget=90, seed=2).trials
    counts = [sum(t.point["solver"] == name for t in trials) for name in ("direct", "krylov")]
    assert min(counts) >= 4
    assert min(t.scores[0] for t in trials) < 0.4


def test_several_objectives_spread_along_the_front():
    space = zen.Space(x=zen.uniform(0, 1), y=zen.uniform(0, 1))

    def both(point):
        return point["x"] ** 2 + point["y"], (point["x"] - 1) ** 2 + point["y"]

    front = zen.search(
        space, both, ("minimize", "minimize"), engine="auto", budget=60, seed=3
    ).front
    firsts = [trial.point["x"] for trial in front if trial.point["y"] < 0.1]
    assert len(firsts) > 10
    assert max(firsts) - min(firsts) > 0.6


def test_a_search_with_a_compiled_objective_is_that_of_the_chosen_engine():
    numba = pytest.importorskip("numba")
    space = zen.Space(x=range(1000), y=range(1000))

    @numba.njit
    def bowl(row):
        return float((row[0] - 371) ** 2 + (row[1] - 608) ** 2)

    assert zen.search(space, bowl, engine="auto", budget=3000, seed=2).best.scores[0] < 500


def test_an_inactive_gene_is_0_and_an_active_one_is_not():
    genome, rng = Genome(SOLVERS), np.random.default_rng(1)
    rows = genome.repair(rng.integers(genome.sizes, size=(300, genome.length)))
    assert (genome.repair(rows) == rows).all()
    for point, row in zip(genome.points(rows), rows, strict=True):
        assert SOLVERS.contains(point)
        values = dict(zip(genome.names, row.tolist(), strict=True))
        for name, is_optional in zip(genome.names, genome.optional, strict=True):
            assert not is_optional or (values[name] == 0) == (point[name] is None)
        # A logarithm is not undone to the last of 52 bits.
        assert np.abs(genome.row(point) - row).max() <= 1 << 12


def test_parameters_that_become_active_take_any_of_their_values():
    genome, rng = Genome(SOLVERS), np.random.default_rng(2)
    rows = genome.draw(rng, 400)
    solver = genome.names.index("solver")
    rows[:, solver] = rows[:, solver].max() - rows[:, solver]  # another branch, but for one
    levels = {point["levels"] for point in genome.points(genome.repair(rows))} - {None}
    assert len(levels) >= 5


def test_conditions_hold_beside_whens_in_a_space_without_a_table():
    space = SOLVERS.where("solver != 'multigrid' or levels * smoothing <= 6")
    genome, rng = Genome(space), np.random.default_rng(3)
    rows = genome.repair(rng.integers(genome.sizes, size=(200, genome.length)))
    assert all(space.contains(point) for point in genome.points(rows))


def test_a_quadratic_is_fitted_exactly_from_enough_points():
    rng = np.random.default_rng(0)
    steps, root = rng.uniform(-1, 1, (12, 3)), rng.normal(size=(3, 3))
    curvature, slope = root @ root.T, rng.normal(size=3)
    losses = 5 + steps @ slope + 0.5 * np.einsum("ni,ij,nj->n", steps, curvature, steps)
    scale = np.median(losses - losses.min())
    fitted_slope, fitted_curvature = _fit(steps, losses, np.ones(12))
    assert fitted_slope * scale == pytest.approx(slope, rel=1e-4, abs=1e-6)
    assert fitted_curvature * scale == pytest.approx(curvature, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_the_step_in_the_ball_is_no_worse_than_any_other(seed):
    rng = np.random.default_rng(seed)
    root, slope = rng.normal(size=(4, 4)), rng.normal(size=4)
    curvature = root + root.T
    step = _in_ball(slope, curvature)
    assert np.linalg.norm(step) <= 1 + 1e-9
    directions = rng.normal(size=(2000, 4))
    others = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    others *= rng.random((2000, 1)) ** 0.25
    values = others @ slope + 0.5 * np.einsum("ni,ij,nj->n", others, curvature, others)
    assert slope @ step + 0.5 * step @ curvature @ step <= values.min() + 1e-9


def test_steps_that_are_under_way_together_shrink_the_radius_once():
    quadratic = LocalQuadratic(np.random.default_rng(1))
    epoch, radius = quadratic.epoch, quadratic.radius
    for _ in range(5):
        quadratic.observe(improved=False, epoch=epoch)
    assert quadratic.radius == radius / 2


def test_steps_lead_down_before_a_slope_is_known():
    rng = np.random.default_rng(1)
    quadratic, points, best = LocalQuadratic(rng), rng.random((8, 20)), []
    for _ in range(30):
        losses = ((points - 0.5) ** 2).sum(axis=1)
        best.append(losses.min())
        step = quadratic.propose(points, losses, np.empty((0, 20)))
        improved = bool(((step - 0.5) ** 2).sum() < best[-1])
        quadratic.observe(improved=improved, epoch=quadratic.epoch)
        points = np.vstack([points, step])
    assert best[-1] < best[0] / 3


def test_the_first_point_is_in_the_middle_of_continuous_ranges():
    space = zen.Space(x=zen.uniform(2, 4), rate=zen.loguniform(1e-4, 1e-2), kind=["a", "b"])
    search = make("auto", SearchProblem(space, Directions(), seed=3, budget=30))
    (point,) = search.ask(1)
    assert point["x"] == pytest.approx(3)
    assert point["rate"] == pytest.approx(1e-3)
    for seed in range(5):
        search = make("auto", SearchProblem(SOLVERS, Directions(), seed=seed, budget=30))
        (point,) = search.ask(1)
        assert point in SOLVERS
        assert point["smoothing"] == (1 if point["solver"] == "multigrid" else None)
