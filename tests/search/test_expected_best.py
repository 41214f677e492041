"""The point that is expected to be the best, where measurements are noisy and not repeated."""

import random
import statistics

import pytest

import zenturio
from tests.cli.conftest import zen
from zenturio.errors import InputError
from zenturio.search import Directions, Trial
from zenturio.search.kriging_search import expected_best
from zenturio.search.loop import Confirmation


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


SWEEPS = {
    40: 267472,
    269: 174156,
    307: 161474,
    511: 102813,
    636: 72902,
    850: 28721,
    966: 6665,
    967: 6468,
    968: 6269,
    969: 6070,
    970: 5871,
    971: 5670,
    972: 5468,
    973: 5265,
    974: 5061,
    975: 4855,
    976: 4648,
    977: 4438,
    978: 4227,
    979: 4013,
    980: 3795,
    981: 3574,
    982: 3348,
    983: 3115,
    984: 2874,
    985: 2620,
    986: 2345,
    987: 2029,
    988: 1530,
    989: 1612,
    990: 1727,
    991: 2025,
    992: 2082,
    993: 2438,
    994: 2706,
    995: 3372,
    996: 4105,
    997: 5609,
    998: 8572,
    999: 16321,
}
"""Sweeps of an over-relaxation by 1,000 times its factor above 1, which grow beyond all bounds at 2: a
search by `auto`."""


def test_there_is_none_where_a_function_without_noise_contradicts_the_model():
    points = [{"n": 512, "omega": 1 + factor / 1000} for factor in SWEEPS]
    assert expected_best(points, list(SWEEPS.values())) is None


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


# Leading points that are measured again when the search is over


def test_a_confirmed_best_is_nearer_to_the_true_one_than_the_luckiest():
    space = zenturio.Space(n=range(61), m=range(4))
    true = {point: 5 + (point["n"] - 40) ** 2 / 30 + point["m"] for point in space}
    confirmed, lucky, values = [], [], []
    for seed in range(40):
        chance, calls = random.Random(seed), []

        def cost(point, chance=chance, calls=calls):
            calls.append(point)
            return true[point] * chance.lognormvariate(0, 0.3)

        found = zenturio.search(space, cost, engine="random", budget=120, confirm=20, seed=seed)
        assert found.count == len(found.trials) == 100
        assert len(calls) == 120
        assert found.best.scores == (statistics.fmean(found.confirmed),)
        values.append(found.best.scores[0] / true[found.best.point])
        luckiest = min(found.trials, key=lambda trial: trial.scores)
        least = min(true[trial.point] for trial in found.trials)
        confirmed.append(true[found.best.point] / least)
        lucky.append(true[luckiest.point] / least)
    assert statistics.fmean(confirmed) < statistics.fmean(lucky) - 0.02
    assert 0.8 < statistics.median(values) < 1.2


def test_a_confirmation_halves_its_points_ends_without_noise_and_drops_failures():
    points = list(zenturio.Space(n=range(12)))
    trials = [Trial(point, (float(point["n"]),)) for point in points] + [Trial(points[0], ())]

    def run(runs, score, direction="minimize"):
        confirmation, rounds = Confirmation(runs, Directions(direction)), []
        while not confirmation.is_over:
            rounds.append(
                [(point["n"], number) for point, number in confirmation.next_round(trials)]
            )
            assert rounds[-1] == [] or confirmation.next_round(trials) == [], "a round is pending"
            for n, _ in reversed(rounds[-1]):
                confirmation.tell(points[n], score(n))
        return rounds, confirmation.best

    rounds, best = run(16, lambda n: 20.0 - n)
    firsts = [[n for n, _ in each] for each in rounds]
    assert firsts == [[0, 1, 2, 3, 4], [4, 3], [4, 3], [4, 3], [4, 3], [4, 3], [4]]
    assert [number for each in rounds for n, number in each if n == 4] == [2, 3, 4, 5, 6, 7, 8]
    assert best == (points[4], [16.0] * 7)
    assert run(9, float) == ([[(n, 2) for n in range(5)], []], (points[0], [0.0]))
    assert run(6, lambda _n: None) == ([[(n, 2) for n in range(5)], []], None)
    assert run(6, lambda n: None if n == 1 else n + 1.0)[1] == (points[0], [1.0, 1.0])
    assert run(5, lambda n: 3.0 * n, "maximize")[1] == (points[11], [33.0])
    assert Confirmation(4, Directions()).next_round(trials[-1:]) == []


def test_a_point_with_several_trials_is_confirmed_as_one():
    found = zenturio.search(
        zenturio.Space(n=range(3)), lambda point: 1.0 + point["n"], engine="random", budget=20,
        confirm=10, allow_repeats=True,
    )  # fmt: skip
    assert found.count > len({trial.point for trial in found.trials})
    assert found.best.point["n"] == 0
    assert found.confirmed == (1.0,), "without noise there is no second round"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 10, "confirm": 6}, "6 of 10 runs"),
        ({"confirm": 6}, "the budget, which is not given"),
        ({"budget": 10, "confirm": -1}, "-1 runs"),
        ({"budget": 10, "confirm": 1, "takes": "columns"}, "take a point"),
        (
            {"budget": 10, "confirm": 1, "directions": ["minimize"] * 2},
            "of several objectives there is no single best point",
        ),
    ],
)
def test_what_cannot_be_confirmed_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        zenturio.search(zenturio.Space(n=range(9)), lambda point: point["n"], **options)


NOISY = """\
#ZEN$ PARAM n = { 0:60 }
#ZEN$ RUN "echo cost $((1000 + ({n} - 40) * ({n} - 40) + $(od -An -N1 -tu1 /dev/urandom)))"
#ZEN$ METRIC cost FROM stdout REGEX "cost (.*)"
#ZEN$ OBJECTIVE MINIMIZE cost
"""


def test_a_program_is_confirmed_within_its_budget_and_resumed_without_a_run(tmp_path):
    (tmp_path / "noisy.sh").write_text(NOISY)
    command = ("run", "noisy.sh", "--search", "--budget", "16", "--confirm", "8", "-j", "3")
    facts = zen(*command, "--json", cwd=tmp_path).facts
    assert facts["ok"] == 16
    assert facts["best"]["confirmed"] >= 2
    assert facts["expected"] is None
    again = zen(*command, cwd=tmp_path).out
    assert "0 run" in again
    assert f"confirmed best: cost = {facts['best']['value']:.6g} at n=" in again
    told = zen("best", "noisy", "--json", cwd=tmp_path).facts[0]["expected"]
    assert told["value"] == pytest.approx(facts["best"]["value"])
    assert told["confirmed"] == facts["best"]["confirmed"]
