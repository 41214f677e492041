"""The point that is expected to be the best, where measurements are noisy and not repeated."""

import random
import statistics

import pytest

from tests.cli.conftest import zen
from zenturio.search.kriging_search import expected_best


def measured(noise, seed, count=120, sign=1.0):
    """Points of a smooth valley with a step, what was measured there, and what is true."""
    chance = random.Random(seed)
    points, scores, true = [], [], []
    for _ in range(count):
        n, x, kind = chance.randrange(12), chance.random(), chance.choice("ab")
        point = {"n": n, "x": x, "kind": kind, "z": x if kind == "a" else None}
        cost = 3 + (n - 7) ** 2 / 20 + 2 * (x - 0.4) ** 2 + 0.5 * (kind == "b")
        points.append(point)
        true.append(sign * cost)
        scores.append(sign * cost * chance.lognormvariate(0, noise))
    return points, scores, true


@pytest.mark.parametrize(("noise", "most"), [(0.1, 0.02), (0.3, 0.08)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_expected_best_is_nearer_to_the_true_one_than_the_luckiest(noise, most, sign):
    losses, lucky, scatters = [], [], []
    for seed in range(5):
        points, scores, true = measured(noise, seed, sign=sign)
        found = expected_best(points, scores, sign=sign)
        best = min(true, key=abs)
        losses.append(true[found.at] / best - 1)
        lucky.append(true[min(range(len(scores)), key=lambda at: abs(scores[at]))] / best - 1)
        scatters.append(found.scatter)
        assert abs(found.score / true[found.at] - 1) < 2 * noise
    assert statistics.median(losses) < most
    assert statistics.median(losses) < statistics.median(lucky)
    assert statistics.median(scatters) == pytest.approx(noise, rel=0.25)


def test_there_is_none_of_few_points_of_no_noise_and_of_no_numbers():
    points, scores, true = measured(0.1, 1)
    assert expected_best(points[:19], scores[:19]) is None
    assert expected_best(points, true) is None
    assert expected_best(points, [1.0] * len(points)) is None
    assert expected_best(points, [float("inf"), *scores[1:]]) is None


PROGRAM = """\
#ZEN$ PARAM n = { 0:60 }
#ZEN$ RUN "python3 noisy.py {n}"
#ZEN$ METRIC cost FROM stdout REGEX "cost (\\S+)" EXACTLY
#ZEN$ OBJECTIVE MINIMIZE cost
import random, sys
n = int(sys.argv[1])
print("cost", (5 + (n - 40) ** 2 / 90) * random.Random(n).lognormvariate(0, 0.2))
"""


def test_a_run_and_zen_best_tell_of_it_unless_the_metric_is_exact(tmp_path):
    program = PROGRAM.replace(" EXACTLY", "")
    (tmp_path / "noisy.py").write_text(program)
    out = zen("run", "noisy.py", "--search", "random", "--budget", 40, cwd=tmp_path).out
    (line,) = [line for line in out.splitlines() if line.startswith("expected best: cost = ")]
    assert "repeats tell" in line
    ranked = zen("best", "noisy", cwd=tmp_path).out
    assert line.split(", measured")[0] in ranked
    (row,) = zen("best", "noisy", "--json", cwd=tmp_path).facts
    assert row["expected"]["is_share"]
    assert 0.1 < row["expected"]["scatter"] < 0.3
    (tmp_path / "noisy.py").write_text(PROGRAM.replace("EXACTLY", "EXACT"))
    out = zen("run", "noisy.py", "--search", "random", "--budget", 8, cwd=tmp_path).out
    assert "expected best" not in out + zen("best", "noisy", cwd=tmp_path).out
