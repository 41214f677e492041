"""The model of what was tried: it foresees, learns what matters, and forgets nothing good."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenturio as zen
from zenturio.search import SearchProblem, kriging_search
from zenturio.search.kriging_search import (
    KINDS,
    NOISES,
    Features,
    GaussianProcess,
    KrigingSearch,
    KrigingSettings,
    blas_library,
    log_levels,
    near,
    select_training,
)

SIZES, ORDERED = np.array([5, 9, 101, 3]), np.array([False, True, True, False])


def naive_kernel(rows, others, weights):
    """How alike two rows are, gene by gene."""
    found = np.empty((len(rows), len(others)))
    for i, row in enumerate(rows):
        for j, other in enumerate(others):
            away = 0.0
            for gene, size in enumerate(SIZES):
                if ORDERED[gene]:
                    away += weights[gene] * ((row[gene] - other[gene]) / (size - 1)) ** 2
                elif row[gene] != other[gene]:
                    away += weights[gene]
            found[i, j] = math.exp(-away / 2)
    return found


@given(st.integers(0, 999))
def test_what_is_foreseen_is_the_textbooks_formula(seed):
    rng = np.random.default_rng(seed)
    rows, new = (rng.integers(SIZES, size=(count, 4)) for count in (12, 5))
    costs = rng.normal(size=12)
    features = Features(SIZES, ORDERED)
    model = GaussianProcess(features)
    model.fit(rows, costs)
    weights = np.exp(features.usual)
    inverse = np.linalg.inv(
        naive_kernel(rows, rows, weights) + (math.exp(NOISES[0]) + 1e-9) * np.eye(12)
    )
    near = naive_kernel(new, rows, weights)
    likely, doubt = model.predict(new)
    spread = costs @ inverse @ costs / 12
    assert likely == pytest.approx(near @ inverse @ costs)
    variances = [spread * max(1 - k @ inverse @ k, 0) for k in near]
    assert doubt**2 == pytest.approx(variances, abs=1e-9)


@given(st.integers(0, 999))
def test_learning_follows_the_slope_of_the_likelihood(seed):
    rng = np.random.default_rng(seed)
    model = GaussianProcess(Features(SIZES, ORDERED))
    plain = model._features(rng.integers(SIZES, size=(20, 4)))
    costs, learnt = rng.normal(size=20), model._parameters + rng.normal(size=5)
    _, slope = model._likelihood(plain, costs, learnt)
    for at in range(5):
        step = np.zeros(5)
        step[at] = 1e-5
        above, below = (model._likelihood(plain, costs, learnt + s)[0] for s in (step, -step))
        assert slope[at] == pytest.approx((above - below) / 2e-5, rel=1e-2, abs=1e-3)


def test_it_learns_which_genes_matter():
    rng = np.random.default_rng(1)
    rows = rng.integers(SIZES, size=(60, 4))
    model = GaussianProcess(Features(SIZES, ORDERED))
    costs = np.sin(rows[:, 2] / 12.0) + (rows[:, 0] == 3)
    model.learn(rows, costs - costs.mean())
    one, nothing, other, none = model._parameters[:4]
    assert min(one, other) > max(nothing, none)


def test_a_set_of_very_many_kinds_takes_no_more_room_than_one_of_many():
    features = Features(np.array([10**12, 4]), np.array([False, False]))
    assert features(np.array([[10**11, 3]])).shape == (1, KINDS + 4)


@given(st.lists(st.floats(-100, 100) | st.just(math.inf), min_size=1, max_size=30))
def test_levels_keep_the_order_and_failures_are_as_bad_as_the_worst(losses):
    losses = np.array(losses)
    levels = log_levels(losses)
    assert np.isfinite(levels).all()
    usable = np.isfinite(losses)
    order = np.argsort(losses[usable], kind="stable")
    assert (np.diff(levels[usable][order]) >= 0).all()
    if usable.any():
        assert (levels[~usable] == levels[usable].max()).all()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(4, 40))
def test_what_is_held_are_the_last_trials_and_the_best(losses, most):
    losses = np.array(losses, dtype=np.float64)
    held = select_training(losses, most)
    assert len(held) == len(set(held.tolist())) == min(most, len(losses))
    assert int(np.argmin(losses)) in held
    assert set(range(max(len(losses) - most // 2, 0), len(losses))) <= set(held.tolist())


def test_few_points_by_chance_come_before_a_model_of_a_small_budget():
    space = zen.Space(x=range(100))
    starts = [
        KrigingSearch(SearchProblem(space, budget=b), KrigingSettings()).starts
        for b in (10, 60, 900, None)
    ]
    assert starts == [4, 10, 20, 20]
    assert KrigingSearch(SearchProblem(space), KrigingSettings(starts=7)).starts == 7


def test_a_memory_that_is_full_does_not_end_the_search():
    found = zen.search(
        zen.Space(x=range(40), y=range(40)), lambda p: (p["x"] - 7) ** 2 + (p["y"] - 31) ** 2,
        engine="model", budget=120, memory=30,
    )  # fmt: skip
    assert (found.count, found.best.scores) == (120, (0.0,))


def tried_values(objective, seed, **options):
    space = zen.Space(x=zen.uniform(6.8, 8.4))
    found = zen.search(space, objective, engine="model", seed=seed, **options)
    return [trial.point["x"] for trial in found.trials]


@pytest.mark.parametrize("seed", range(3))
def test_points_of_one_batch_are_far_apart_where_uncertainty_is_all_that_counts(seed):
    """Without belief in the rows under way, the widest gap is proposed again and again."""
    values = tried_values(
        lambda p: (p["x"] - 7.5059) ** 2, seed, budget=22, batch=8, starts=12, caution=1000.0
    )
    assert len({round(value, 1) for value in values[12:]}) >= 6


@pytest.mark.parametrize("seed", range(3))
def test_no_two_points_are_nearer_than_noise_can_tell_apart(seed):
    """Only means count, so nothing else keeps points from where the mean is lowest."""
    rng = np.random.default_rng(seed)
    values = tried_values(
        lambda p: (p["x"] - 7.5059) ** 2 + 0.3 * rng.normal(), seed,
        budget=40, batch=8, caution=0.0,
    )  # fmt: skip
    assert len({round(value, 2) for value in values}) >= 35


def test_a_model_learns_from_a_compiled_objective():
    numba = pytest.importorskip("numba")
    space = zen.Space(x=range(1000), y=range(1000))

    @numba.njit
    def bowl(row):
        return float((row[0] - 371) ** 2 + (row[1] - 608) ** 2)

    best = zen.search(space, bowl, engine="model", budget=60, seed=2).best
    # The best of 60 random points is 5,000 on average.
    assert best.scores[0] < 100


@pytest.mark.slow
def test_a_batch_is_as_good_as_one_point_after_the_other_where_results_are_noisy():
    def distance(batch, seed):
        rng = np.random.default_rng(seed)
        values = tried_values(
            lambda p: (p["x"] - 7.5059) ** 2 * (1 + 0.1 * rng.normal()), seed,
            budget=24, batch=batch,
        )  # fmt: skip
        return min(abs(value - 7.5059) for value in values)

    batched, single = (np.median([distance(batch, s) for s in range(9)]) for batch in (4, 1))
    assert max(batched, single) < 0.005  # of a range of 1.6
    assert batched < 10 * single


def test_believed_rows_leave_means_as_they_are_and_shrink_deviations_around_them():
    rng = np.random.default_rng(4)
    rows, costs = rng.integers(SIZES, size=(12, 4)), rng.normal(size=12)
    believed, far = rng.integers(SIZES, size=(2, 4)), rng.integers(SIZES, size=(30, 4))
    model = GaussianProcess(Features(SIZES, ORDERED))
    model.fit(rows, costs)
    mean, deviation = model.predict(np.concatenate([believed, far]))
    model.believe(believed)
    mean_after, deviation_after = model.predict(np.concatenate([believed, far]))
    assert mean_after == pytest.approx(mean)
    assert (deviation_after <= deviation + 1e-9).all()
    assert (deviation_after[:2] < 0.3 * deviation[:2]).all()


@pytest.mark.parametrize("noise", [-3.0, -9.0])
def test_a_memory_that_is_full_is_updated_by_the_rows_that_came_and_went(monkeypatch, noise):
    inverted = []

    def inverse(kernel, noise):
        inverted.append(len(kernel))
        return np.linalg.inv(kernel + (np.exp(noise) + 1e-9) * np.eye(len(kernel)))

    monkeypatch.setattr(kriging_search, "_inverse", inverse)
    rng = np.random.default_rng(5)
    rows, costs = rng.integers(SIZES, size=(50, 4)), rng.normal(size=50)
    rows[17] = rows[3]  # repeats are rows of their own
    new = rng.integers(SIZES, size=(30, 4))
    model, anew = (GaussianProcess(Features(SIZES, ORDERED)) for _ in range(2))
    model._parameters[-1] = anew._parameters[-1] = noise
    for at in range(20):
        model.fit(rows[at : at + 30], costs[at : at + 30])
    assert inverted.count(30) <= 2
    anew.fit(rows[19:49], costs[19:49])
    for updated, expected in zip(model.predict(new), anew.predict(new), strict=True):
        assert updated == pytest.approx(expected, rel=1e-5, abs=1e-7)


@given(st.integers(0, 999), st.sampled_from([0.0, 0.3, 1.0, 5.0]))
def test_deviations_are_computed_for_rows_that_may_be_among_the_lowest(seed, caution):
    rng = np.random.default_rng(seed)
    rows, new = (rng.integers(SIZES, size=(count, 4)) for count in (25, 60))
    costs = rng.normal(size=25)
    model = GaussianProcess(Features(SIZES, ORDERED))
    model.fit(rows, costs - costs.mean())
    mean, deviation = model.predict(new)
    bounds = mean - caution * deviation
    chosen, lowest = model.lowest_bounds(new, caution, 5)
    assert lowest == pytest.approx(bounds[chosen], abs=1e-9)
    assert np.sort(lowest)[:5] == pytest.approx(np.sort(bounds)[:5], abs=1e-9)
    assert caution or len(chosen) == 10
    limit = float(np.sort(bounds)[2])
    within, _ = model.lowest_bounds(new, caution, 5, limit)
    assert set(np.flatnonzero(bounds < limit)) <= set(within.tolist())


def test_two_rows_are_near_if_no_gene_differs_by_more_than_its_step():
    others, steps = np.array([[5, 1]]), np.array([2, 0])
    rows = np.array([[3, 1], [7, 1], [8, 1], [5, 2]])
    assert near(rows, others, steps).tolist() == [True, True, False, False]
    assert not near(others, others, np.zeros(2, dtype=np.int64)).any()


@pytest.mark.parametrize(
    ("slots", "batch", "budget", "lag"),
    [(1, None, 200, 0), (None, None, None, 3), (8, None, None, 31), (8, 5, 200, 4),
     (8, None, 200, 31), (64, None, 200, 99), (64, None, 90, 63)],
)  # fmt: skip
def test_points_under_way_follow_the_slots_and_leave_half_of_the_budget_to_the_model(
    slots, batch, budget, lag
):
    problem = SearchProblem(zen.Space(x=range(100)), budget=budget, slots=slots)
    assert KrigingSearch(problem, KrigingSettings(batch=batch)).lag == lag


def test_the_model_computes_with_one_thread_and_gives_the_others_back(monkeypatch):
    """Threads of a busy machine wait for each other, and decide the last bits of a sum."""
    library = blas_library()
    if library is None:
        pytest.skip("NumPy has another library here")
    counts, fit = [], GaussianProcess.fit

    def fitted(self, rows, costs):
        counts.append(library.scipy_openblas_get_num_threads64_())
        fit(self, rows, costs)

    monkeypatch.setattr(GaussianProcess, "fit", fitted)
    before = library.scipy_openblas_get_num_threads64_()
    library.scipy_openblas_set_num_threads64_(2)
    try:
        space = zen.Space(a=range(9), b=range(9))
        zen.search(space, lambda point: point["a"] * point["b"], engine="model", budget=12)
        assert set(counts) == {1}
        assert library.scipy_openblas_get_num_threads64_() == 2
    finally:
        library.scipy_openblas_set_num_threads64_(before)


@pytest.mark.parametrize("sizes", [(3, 4, 2), (1, 5), (2**31, 2**30), (2**40, 2**40)])
def test_distinct_rows_stand_in_the_order_of_their_genes(sizes):
    rows = np.random.default_rng(1).integers(np.minimum(sizes, 6), size=(50, len(sizes)))
    rows[::7] = np.array(sizes) - 1
    engine = SimpleNamespace(genome=SimpleNamespace(sizes=np.array(sizes)))
    distinct = KrigingSearch._distinct(engine, rows)
    assert distinct.tolist() == np.unique(rows, axis=0).tolist()
