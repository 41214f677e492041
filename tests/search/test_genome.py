"""Any genes can be repaired, and stand for a valid point; every point has genes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zenturio as zen
from space.random_spaces import spaces
from zenturio.errors import SpaceError
from zenturio.search import gene_encoding
from zenturio.search.genome import Genome


def genome_of(space):
    try:
        return Genome(space, seed=5)
    except SpaceError:
        assert space.size == 0
        return None


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(spaces(), st.integers(0, 99))
def test_whatever_genes_become_they_are_repaired_to_a_valid_point(space, seed):
    genome = genome_of(space)
    if genome is None:
        return
    wild = np.random.default_rng(seed).integers(-2, 9, size=(20, genome.length))
    genes = genome.repair(wild)
    assert all(space.contains(point) for point in genome.points(genes))
    assert np.array_equal(genome.repair(genes), genes)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(spaces())
def test_every_point_has_genes_of_its_own(space):
    genome = genome_of(space)
    if genome is None:
        return
    assert genome.count == space.size
    genes = genome.by_number(np.arange(space.size))
    assert set(genome.points(genes)) == set(space)
    assert [genome.row(point).tolist() for point in genome.points(genes)] == genes.tolist()
    columns = genome.columns(genes)
    assert {name: column.tolist() for name, column in columns.items()} == {
        name: [point[name] for point in genome.points(genes)] for name in columns
    }


def test_genes_of_numbers_count_by_value():
    genome = Genome(zen.Space(n=[8, 1, 4]))
    assert [point["n"] for point in genome.points(np.array([[0], [1], [2]]))] == [1, 4, 8]
    constrained = Genome(zen.Space(n=[8, 1, 4], m=[2, 1]).where("n + m != 5"))
    points = constrained.points(constrained.by_number(np.arange(5)))
    assert [tuple(point.values()) for point in points] == [(1, 1), (1, 2), (4, 2), (8, 1), (8, 2)]


def test_repairing_takes_the_nearest_that_is_valid():
    genome = Genome(zen.Space(n=zen.span(0, 9), m=zen.span(0, 9)).where("n % 3 == 0", "n < m"))
    wishes = np.array([[4, 4], [5, 2], [9, 9], [0, 0]])
    assert genome.repair(wishes).tolist() == [[3, 4], [6, 7], [6, 9], [0, 1]]


def test_a_parameter_that_others_settle_has_no_gene():
    space = zen.Space(a=[1, 2, 3], b=[4, 5, 6], c=[7, 8]).together("a", "b")
    assert Genome(space).names == ("a", "c")


def test_continuous_sets_are_reached_everywhere():
    space = zen.Space(x=zen.uniform(-1, 3), y=zen.loguniform(1e-3, 10))
    genome = Genome(space)
    ends = genome.points(np.array([[0, 0], [gene_encoding.FINE, gene_encoding.FINE]]))
    assert [tuple(point.values()) for point in ends] == [(-1, 1e-3), (3, 10)]
    middle = genome.points(np.array([[gene_encoding.FINE // 2, gene_encoding.FINE // 2]]))[0]
    assert middle["x"] == 1
    assert middle["y"] == pytest.approx(0.1)
    assert genome.row({"x": 1.0, "y": 0.1}) == pytest.approx([gene_encoding.FINE / 2] * 2)


def test_continuous_sets_that_constraints_bind_are_drawn():
    space = zen.Space(x=zen.uniform(0, 1), n=[1, 2, 3], k=["a", "b"]).where("x * n < 1")
    genome = Genome(space, seed=3)
    genes = genome.draw(np.random.default_rng(1), 50)
    points = genome.points(genes)
    assert all(space.contains(point) for point in points)
    assert points == Genome(space, seed=3).points(genes)
    other = Genome(space, seed=4)
    assert points != other.points(other.draw(np.random.default_rng(1), 50))
    assert genome.row(points[7]).tolist() == genes[7].tolist()


def test_continuous_sets_that_constraints_bind_have_genes_of_their_own():
    space = zen.Space(x=zen.uniform(0, 1), y=zen.uniform(0, 1), k=["a", "b"])
    space = space.where("x + y < 1", "x > 0.2 or k == 'a'")
    genome = Genome(space, seed=3)
    assert (genome.names, genome.free) == (("x", "y", "k"), False)
    wild = np.random.default_rng(2).integers(-2, gene_encoding.FINE + 3, size=(200, 3))
    genes = genome.repair(wild)
    points = genome.points(genes)
    assert all(space.contains(point) for point in points)
    assert np.array_equal(genome.repair(genes), genes)
    valid = (wild[:, 0] + wild[:, 1] < gene_encoding.FINE * 0.9) & (
        wild[:, 0] > gene_encoding.FINE * 0.25
    )
    valid &= (wild[:, :2] >= 0).all(axis=1)
    assert valid.sum() > 20
    assert np.array_equal(genes[valid, :2], wild[valid, :2])
    outside = [
        p for p, w in zip(points, wild.tolist(), strict=True) if w[0] + w[1] > gene_encoding.FINE
    ]
    assert np.mean([p["x"] + p["y"] for p in outside]) > 0.95  # at the border that was crossed


@pytest.mark.parametrize("engine", ["hill", "simplex", "gradient", "ga", "anneal"])
def test_a_search_in_a_narrow_region_comes_near_its_best(engine):
    space = zen.Space(x=zen.uniform(0, 1), y=zen.uniform(0, 1)).where("abs(x - y) < 0.01")
    found = zen.search(space, lambda p: abs(p["x"] - 0.7), engine=engine, budget=200, seed=1)
    by_chance = zen.search(space, lambda p: abs(p["x"] - 0.7), engine="random", budget=200, seed=1)
    assert found.best.scores < min(by_chance.best.scores, (0.002,))


def test_an_inactive_continuous_parameter_has_no_value():
    space = zen.Space(x=zen.parameter(zen.uniform(-2, 1), when="n > 1"), n=[1, 2])
    genome = Genome(space)
    points = genome.points(genome.draw(np.random.default_rng(1), 40))
    assert {(point["x"] is None, point["n"]) for point in points} == {(True, 1), (False, 2)}


def test_a_part_that_is_too_large_is_drawn(monkeypatch):
    monkeypatch.setattr(gene_encoding, "MAX_TABLE_GENES", 10)
    space = zen.Space(n=zen.span(0, 9), m=zen.span(0, 9)).where("n < m")
    genome = Genome(space)
    assert genome.count is None
    points = genome.points(genome.draw(np.random.default_rng(1), 40))
    assert all(space.contains(point) for point in points)


def test_a_space_without_a_point_is_refused():
    with pytest.raises(SpaceError):
        Genome(zen.Space(n=[1, 2]).where("n > 2"))
    with pytest.raises(SpaceError):
        Genome(zen.Space(n=[1, 2]).where("1 > 2"))


def test_a_kind_that_few_points_have_is_met_as_often_as_others_when_rows_are_scattered():
    space = zen.Space(
        solver=["cg", "lu"],
        steps=zen.parameter(zen.span(1, 200), when="solver == 'cg'"),
    )
    genome = Genome(space)
    rng = np.random.default_rng(1)
    shares = {
        how: np.mean([p["solver"] == "lu" for p in genome.points(draw(rng, 400))])
        for how, draw in (("drawn", genome.draw), ("scattered", genome.scatter))
    }
    assert shares["drawn"] < 0.05
    assert 0.4 < shares["scattered"] < 0.6


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(spaces(), st.integers(0, 99))
def test_scattered_rows_are_valid(space, seed):
    genome = genome_of(space)
    if genome is None:
        return
    genes = genome.scatter(np.random.default_rng(seed), 20)
    assert all(space.contains(point) for point in genome.points(genes))
