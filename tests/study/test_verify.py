"""A result that a VERIFY refuses is wrong: never the best, never in an aggregate, counted."""

import pytest

from cli.conftest import zen
from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.record.open import open_repository

PROGRAM = """\
#ZEN$ PARAM n = { 1:4 }
#ZEN$ RUN "echo error {n} time {n}; echo {n} > out; echo {n} >> {folder}" RETRY 3
#ZEN$ METRIC error FROM stdout REGEX "error (\\S+)"
#ZEN$ METRIC time FROM stdout REGEX "time (\\S+)"
#ZEN$ OBJECTIVE MINIMIZE -time
#ZEN$ VERIFY error <= 3
#ZEN$ VERIFY "test `cat out` != 2"
"""


@pytest.fixture
def study(tmp_path):
    """Four points, of which the second and the fourth, the best, are wrong."""
    text = PROGRAM.replace("{folder}", f"{tmp_path}/.ran")
    (tmp_path / "p.sh").write_text(text)
    return tmp_path


def records(folder):
    repository = open_repository(str(folder / ".zenturio" / "zenturio.db"))
    try:
        return {r.values["n"]: r for r in repository.records("p")}
    finally:
        repository.close()


def test_wrong_results_are_counted_and_are_never_the_best(study):
    ran = zen("run", "p.sh", "-j", "1", "--json", cwd=study, code=3).facts
    assert (ran["ok"], ran["failed"], ran["wrong"]) == (2, 2, 2)
    causes = {failure["cause"]: failure for failure in ran["failures"]}
    assert causes.keys() == {"VERIFY error <= 3", 'VERIFY "test `cat out` != 2": exit 1'}
    assert causes["VERIFY error <= 3"]["reasons"] == ["error is 4"]
    assert len((study / ".ran").read_text().split()) == 4, "a wrong result is not tried again"
    found = {n: record.state for n, record in records(study).items()}
    assert found == {1: "ok", 2: "wrong", 3: "ok", 4: "wrong"}
    best = zen("best", "p", "--json", cwd=study).facts
    assert [point["parameters"]["n"] for point in best] == [3]
    table = zen("results", "p", "--by", "n", "--agg", "count", "--json", cwd=study).facts
    assert [row[0] for row in table["rows"]] == [1, 3]
    status = zen("status", "p", "--json", cwd=study).facts
    assert (status["ok"], status["wrong"], status["failed"]) == (2, 2, 0)
    assert zen("status", "p", cwd=study).out.startswith("p: 2 ok, 2 failed (2 with a wrong result)")


def test_only_failed_runs_wrong_ones_again(study):
    zen("run", "p.sh", cwd=study, code=3)
    ran = zen("run", "p.sh", "--only", "failed", "--json", cwd=study, code=3).facts
    assert (ran["failed"], ran["wrong"]) == (2, 2)
    assert len((study / ".ran").read_text().split()) == 6


def test_a_search_gets_no_score_of_a_wrong_result(study):
    ran = zen("run", "p.sh", "--search", "random", "--budget", "4", "--json", cwd=study,
              code=3).facts  # fmt: skip
    assert ran["best"]["at"] == {"n": 3}


def test_another_verification_is_another_experiment(study):
    def digests(text):
        (study / "p.sh").write_text(text)
        application = scan(study / "p.sh")
        generator = ExperimentGenerator(application)
        points = [application.space.point(i) for i in range(2)]
        return [each.digest for point in points for each in generator.experiments(point)]

    text = (study / "p.sh").read_text()
    lines = text.splitlines()
    plain = digests("\n".join(lines[:5]))
    assert digests(text) not in (plain, digests(text.replace("<= 3", "<= 2")))
    assert digests("\n".join(lines[:5])) == plain


def test_a_build_knows_nothing_of_verifications(study):
    def build(text):
        (study / "p.sh").write_text(text)
        application = scan(study / "p.sh")
        (made,) = ExperimentGenerator(application).experiments(application.space.point(0))
        return made.build.digest

    text = '#ZEN$ BUILD "true"\n' + (study / "p.sh").read_text()
    assert build(text) == build(text.replace("<= 3", "<= 2"))
