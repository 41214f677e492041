"""A result that a VERIFY refuses is wrong: never the best, never in an aggregate, counted."""

import pytest

from cli.conftest import zen
from zenturio.annotate.parameters import own_values
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


SAME = """\
threads=1
#ZEN$ ASSIGN threads = { 1, 2, 4 }
#ZEN$ PARAM n = { 10, 20 }
#ZEN$ VERIFY SAME "out.dat" WITHIN 1e-6 AS BASELINE
#ZEN$ RUN "sh s.sh {n}"
x=1.5
[ $threads = 2 ] && x=1.50000001
[ $threads = 4 ] && x=1.75
printf "# result\\nenergy $1 $x\\n" > out.dat
echo "$threads $1" >> "$FOLDER/.ran"
"""


class TestSame:
    """Files are compared with those of the program as it stands, or of a point that is named."""

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("FOLDER", str(tmp_path))
        (tmp_path / ".zenturio").mkdir()
        (tmp_path / "s.sh").write_text(SAME)
        return tmp_path

    def states(self, folder):
        repository = open_repository(str(folder / ".zenturio" / "zenturio.db"))
        try:
            return {tuple(r.values.values()): r.state for r in repository.records("s")}
        finally:
            repository.close()

    def ran(self, folder):
        return (folder / ".ran").read_text().splitlines()

    @pytest.mark.parametrize("jobs", [1, 3])
    def test_a_result_that_differs_is_wrong_and_the_log_says_where(self, folder, jobs):
        ran = zen("run", "s.sh", "-j", jobs, "--json", cwd=folder, code=3).facts
        assert (ran["ok"], ran["wrong"], ran["known"], ran["unfinished"]) == (4, 2, 0, 0)
        (failure,) = ran["failures"]
        assert failure["cause"] == 'VERIFY SAME "out.dat" WITHIN 1e-06 AS BASELINE'
        assert failure["end"] == "out.dat: line 2, column 11: 1.75 instead of 1.5, 0.25 off"
        assert self.states(folder)[4, 10] == "wrong"
        assert self.states(folder)[2, 10] == "ok"

    def test_baselines_run_before_all_others_and_once(self, folder):
        zen("run", "s.sh", "-j", "1", cwd=folder, code=3)
        order = self.ran(folder)
        assert len(order) == 6
        for n in ("10", "20"):
            assert next(line for line in order if line.endswith(n)) == f"1 {n}"
        again = zen("run", "s.sh", "--json", cwd=folder, code=3).facts
        assert (again["known"], again["ok"], len(self.ran(folder))) == (6, 0, 6)

    def test_a_baseline_runs_even_if_it_is_not_among_the_points(self, folder):
        zen("run", "s.sh", "-P", "threads={1,4}", "-P", "n={20}", "--search", "random", "--budget", "1",
            "--objective", "MAXIMIZE wtime", "--seed", "3", "--json", cwd=folder, code=None)  # fmt: skip
        assert self.ran(folder)[0] == "1 20"

    def test_what_was_wrong_is_measured_again_beside_the_baseline_of_before(self, folder):
        zen("run", "s.sh", "-j", "1", cwd=folder, code=3)
        ran = self.ran(folder)
        again = zen(
            "run", "s.sh", "--again", "--only", "failed", "--json", cwd=folder, code=3
        ).facts
        wrong = [point for point, state in self.states(folder).items() if state == "wrong"]
        assert (again["failed"], again["known"]) == (len(wrong), 6 - len(wrong))
        assert len(self.ran(folder)) == len(ran) + len(wrong)

    def test_a_point_can_be_named(self, folder):
        named = SAME.replace("BASELINE", "BASELINE WHERE threads == 4 and n == 10", 1)
        (folder / "s.sh").write_text(named.replace("energy $1", "energy"))
        zen("run", "s.sh", "-j", "1", cwd=folder, code=3)
        good = {point for point, state in self.states(folder).items() if state == "ok"}
        assert good == {(4, 10), (4, 20)}
        assert self.ran(folder)[0] == "4 10"

    def test_without_a_baseline_that_succeeds_nothing_is_right(self, folder):
        (folder / "s.sh").write_text(
            SAME.replace("x=1.5\n", "x=1.5\n[ $threads = 1 ] && exit 3\n", 1)
        )
        ran = zen("run", "s.sh", "--json", cwd=folder, code=3).facts
        assert (ran["ok"], ran["failed"], ran["wrong"]) == (0, 6, 0)
        causes = {failure["cause"] for failure in ran["failures"]}
        assert any(cause.endswith("the baseline did not succeed") for cause in causes)

    def test_files_without_a_value_of_the_set_need_a_name(self, folder):
        (folder / "s.sh").write_text(SAME.replace("threads=1\n", "threads=3\n", 1))
        words = "no value of threads in the files is an element of its set"
        assert words in zen("check", "s.sh", cwd=folder, code=None).out
        run = zen("run", "s.sh", cwd=folder, code=2)
        assert words in run.err
        assert "AS BASELINE WHERE threads == ..." in run.err

    def test_points_that_are_compared_with_themselves_alone_are_named(self, folder):
        text = '#ZEN$ PARAM n = { 1, 2 }\n#ZEN$ RUN "./a {n}"\n'
        text += '#ZEN$ VERIFY SAME "out.dat" AS BASELINE\n'
        (folder / "p.sh").write_text(text)
        words = "each point is compared with itself, because no file contains a value of n"
        assert words in zen("check", "p.sh", cwd=folder, code=None).out
        (folder / "p.sh").write_text(text.replace("BASELINE", "BASELINE WHERE n == 1"))
        assert words not in zen("check", "p.sh", cwd=folder, code=None).out

    def test_a_parameter_that_is_none_is_refused(self, folder):
        (folder / "s.sh").write_text(SAME.replace("BASELINE", "BASELINE WHERE thread == 1", 1))
        assert "no parameter is named thread" in zen("check", "s.sh", cwd=folder, code=2).out

    def test_each_seed_has_a_baseline_of_its_own(self, folder):
        text = SAME.replace('{n}"', '{n} {s}"\n#ZEN$ REPEAT 2 SEED s').replace("$1 $x", "$2 $x")
        (folder / "s.sh").write_text(text)
        ran = zen("run", "s.sh", "--json", cwd=folder, code=3).facts
        assert (ran["ok"], ran["wrong"]) == (8, 4)


def test_values_of_files_are_found_before_assignments_and_in_targets(tmp_path):
    (tmp_path / "a.py").write_text(
        "tile = 16  # cells\n#ZEN$ ASSIGN tile = { 8, 16 }\n"
        "#ZEN$ SUBSTITUTE 0.8 = { 0.5, 0.8 } AS rate\nr = 0.8\n"
        '#ZEN$ SUBSTITUTE NAME = { a, b }\ns = NAME\n#ZEN$ PARAM n = { 1, 2 }\n#ZEN$ RUN "true"\n'
    )
    assert own_values(scan(tmp_path / "a.py")) == {"tile": 16, "rate": 0.8, "NAME": None}


def test_what_a_file_has_by_itself_is_assigned_before_the_directive_or_next_behind_it(tmp_path):
    (tmp_path / "a.py").write_text(
        "#ZEN$ ASSIGN tile = { 8, 16 }\ntile = 16\n#ZEN$ ASSIGN tile = { 8, 16 } AS again\n"
        'tile = 8\n#ZEN$ RUN "python3 a.py"\ntile = 99\n'
    )
    assert own_values(scan(tmp_path / "a.py")) == {"tile": 16, "again": 16}
