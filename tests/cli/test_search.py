"""Searches of annotated programs, as somebody types them."""

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.conftest import zen

PROGRAM = """\
x = 0
y = 0
#ZEN$ ASSIGN x = { 0:40 }
#ZEN$ ASSIGN y = { 0:40 }
#ZEN$ CONSTRAINT VALUE x + y <= 60
#ZEN$ RUN "python3 hill.py"
#ZEN$ METRIC height FROM stdout REGEX "height (\\S+)"
#ZEN$ OBJECTIVE MAXIMIZE height
print("height", 1000 - (x - 31) ** 2 - (y - 7) ** 2)
"""


@pytest.fixture
def hill(tmp_path):
    (tmp_path / "hill.py").write_text(PROGRAM)
    return tmp_path


def trials(folder):
    facts = zen(
        "sql", 'SELECT "index", height FROM study_hill_all ORDER BY 1', "--json", cwd=folder
    ).facts
    return [tuple(row) for row in facts["rows"]]


def test_a_search_spends_its_budget_and_names_the_best(hill):
    told = zen(
        "run", "hill.py", "--search", "random", "--budget", 30, "--seed", 5, "--json", cwd=hill
    )
    assert (told.facts["total"], told.facts["ok"], told.facts["unfinished"]) == (30, 30, 0)
    found = zen("best", "hill", "-n", 3, "--json", cwd=hill).facts
    heights = [each["scores"]["height"] for each in found]
    assert heights == sorted((height for _, height in trials(hill)), reverse=True)[:3]
    assert told.facts["best"]["value"] == heights[0]


def test_points_that_the_file_no_longer_holds_are_left_out_of_every_answer(tmp_path):
    path = tmp_path / "p.py"
    path.write_text(NARROWED.format("{ 1, 2, 3 }"))
    zen("run", "p.py", cwd=tmp_path)
    path.write_text(NARROWED.format("{ 1, 2 }"))
    found = zen("best", "p", "--json", cwd=tmp_path).facts
    assert [(each["parameters"]["n"], each["left_out"]) for each in found] == [(2, 1)]
    assert zen("best", "p", "--all", "--json", cwd=tmp_path).facts[0]["parameters"] == {"n": 3}
    assert "1 experiment is left out" in zen("best", "p", cwd=tmp_path).out
    assert zen("status", "p", "--json", cwd=tmp_path).facts["outside"] == 1
    assert "1 experiment is no longer in the space" in zen("status", cwd=tmp_path).out
    assert len(zen("results", "p", "--json", cwd=tmp_path).facts["rows"]) == 2
    assert "1 experiment is left out" in zen("plot", "p", "-o", "-", cwd=tmp_path).out
    zen("run", "p.py", cwd=tmp_path)  # nothing new, and the space is the narrow one now
    assert zen("status", "p", "--json", cwd=tmp_path).facts["outside"] == 1
    path.write_text(NARROWED.format("{ 1, 2, 3 }"))
    zen("run", "p.py", cwd=tmp_path)
    assert zen("status", "p", "--json", cwd=tmp_path).facts["outside"] == 0


NARROWED = """\
n = 1
#ZEN$ ASSIGN n = {}
#ZEN$ RUN "python3 p.py"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)"
#ZEN$ OBJECTIVE MAXIMIZE total
print("total", n * 10)
"""


def test_the_same_seed_tries_the_same_points_and_recalls_them(hill):
    command = ("run", "hill.py", "--search", "random", "--budget", 20, "--json")
    zen(*command, "--seed", 1, cwd=hill)
    before = trials(hill)
    again = zen(*command, "--seed", 1, cwd=hill).facts
    assert (again["known"], again["ok"]) == (20, 0)
    assert trials(hill) == before
    zen(*command, "--seed", 2, cwd=hill)
    assert len(trials(hill)) > 30


@pytest.mark.slow  # the gate kills a search that learns: test_search_kills.py
def test_a_search_that_was_killed_goes_on_to_the_same_trials(hill, tmp_path_factory):
    text = PROGRAM.replace("print(", "import time; time.sleep(0.03); print(")
    (hill / "hill.py").write_text(text)
    command = ["run", "hill.py", "--search", "random", "--budget", "40", "--seed", "9"]
    program = [sys.executable, "-c", "from zenturio.cli import main; main()", *command]
    with subprocess.Popen(
        program, cwd=hill, stdout=subprocess.DEVNULL, start_new_session=True
    ) as driver:
        while driver.poll() is None:
            told = zen("status", "hill", "--json", cwd=hill, code=None)
            if told.code == 0 and told.facts["ok"] > 3:
                break
        os.kill(driver.pid, signal.SIGKILL)
    zen(*command, cwd=hill)
    whole = tmp_path_factory.mktemp("unharmed")
    (whole / "hill.py").write_text(text)
    zen(*command, cwd=whole)
    assert trials(hill) == trials(whole)
    assert len(trials(hill)) == 40


def test_a_rule_stops_a_search_early(hill):
    told = zen(
        "run", "hill.py", "--search", "exhaustive", "--budget", 500, "--stop", "target=100",
        "--json", cwd=hill,
    )  # fmt: skip
    assert told.facts["best"]["value"] >= 100
    assert told.facts["ok"] < 100
    assert told.facts["unfinished"] == 0


def test_another_objective_can_be_given(hill):
    told = zen(
        "run", "hill.py", "--search", "exhaustive", "--budget", 10, "--objective",
        "MINIMIZE height + x", "--json", cwd=hill,
    )  # fmt: skip
    assert told.facts["best"]["goal"] == "height + x"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--search", "randm"), "did you mean 'random'"),
        (("--budget", "10"), "belongs to a search"),
        (("--confirm", "5"), "belongs to a search"),
        (("--search", "random", "--budget", "ten"), "is not a budget"),
        (("--search", "random", "--set", "colour=red"), "no setting"),
        (("--search", "random", "--stop", "later"), "--stop"),
        (("--search", "random", "--budget", "5", "--limit", "5"), "--search"),
        (("--search", "random", "--budget", "5", "--join"), "one driver"),
        (("--search", "random", "--objective", "MINIMIZE heigt"), "did you mean 'height'"),
    ],
)
def test_wrong_searches_say_what_would_be_right(hill, options, words):
    assert words in zen("run", "hill.py", *options, cwd=hill, code=2).err


def test_a_search_needs_an_objective(hill):
    (hill / "hill.py").write_text(PROGRAM.replace("#ZEN$ OBJECTIVE MAXIMIZE height\n", ""))
    told = zen("run", "hill.py", "--search", "random", "--budget", 5, cwd=hill, code=2)
    assert "OBJECTIVE" in told.err


def test_engines_are_listed_with_their_settings(hill):
    listed = {each["name"]: each for each in zen("engines", "--json", cwd=hill).facts}
    assert {"exhaustive", "random", "ga"} <= set(listed)
    for name, each in listed.items():
        assert each["about"], name
        assert all(setting["help"] for setting in each["settings"]), name
    lines = zen("engines", "ga", cwd=hill).out.splitlines()
    (population,) = [line.split() for line in lines if line.startswith("population")]
    assert population[:5] == ["population", "int", "from", "2", "auto"]


def test_failed_points_are_never_the_best(hill):
    text = PROGRAM.replace("print(", "if x > 20: raise SystemExit(1)\nprint(")
    (hill / "hill.py").write_text(text)
    told = zen(
        "run", "hill.py", "--search", "random", "--budget", 40, "--json", cwd=hill, code=3
    ).facts
    assert told["failed"] > 0
    assert told["best"]["at"]["x"] <= 20


def test_a_continuous_space_is_searched(hill):
    text = PROGRAM.replace("x = { 0:40 }", "x = { UNIFORM(0, 40) }")
    (hill / "hill.py").write_text(text)
    for engine in ("random", "ga", "anneal"):
        told = zen(
            "run", "hill.py", "--search", engine, "--budget", 12, "--name", engine, "--json",
            cwd=hill,
        ).facts  # fmt: skip
        assert told["total"] == told["ok"] + told["known"] == 12
        assert told["best"]["at"]["x"] % 1


def test_a_dry_run_of_a_search_says_what_it_may_come_to(hill):
    command = ("run", "hill.py", "--search", "random", "--budget", 20)
    assert "search by random, at most 20 points" in zen(*command, "--dry-run", cwd=hill).out
    zen(*command, cwd=hill)
    plan = zen(*command, "--dry-run", "--json", cwd=hill).facts
    assert (plan["engine"], plan["points"], plan["known"]) == ("random", 20, 20)
    assert (
        "no --budget" not in zen("run", "hill.py", "--search", "random", "--dry-run", cwd=hill).out
    )
    timed = zen("run", "hill.py", "--search", "random", "--budget", "1min", "--dry-run", cwd=hill)
    assert "at most 1,471 points" in timed.out


def test_a_search_of_many_points_without_a_budget_says_when_it_ends(tmp_path):
    (tmp_path / "s.sh").write_text(
        "# ZEN$ PARAM n = { 1:100001 }\n"
        '# ZEN$ RUN "echo {n}"\n# ZEN$ METRIC s FROM stdout REGEX "(\\d+)"\n'
        "# ZEN$ OBJECTIVE MINIMIZE s\n"
    )
    command = ("run", "s.sh", "--search", "random", "--dry-run")
    assert "no --budget: the search goes on until" in zen(*command, cwd=tmp_path).out
    assert "no --budget" not in zen(*command, "--budget", "1min", cwd=tmp_path).out


def test_a_dry_run_tells_what_is_wrong_with_a_search(hill):
    told = zen("run", "hill.py", "--search", "randm", "--dry-run", cwd=hill, code=2)
    assert "did you mean 'random'" in told.err


def test_the_best_by_another_objective_is_asked_for_as_the_file_would_ask(hill):
    zen("run", "hill.py", "--search", "random", "--budget", 12, cwd=hill)

    def best(objective):
        return zen("best", "hill", "--objective", objective, "--json", cwd=hill).facts[0]

    largest = max(height for _, height in trials(hill))
    assert best("maximize height")["scores"]["height"] == largest
    assert best("MAXIMIZE max(height, x + y)")["scores"]["max(height, x + y)"] == largest
    assert len(best("MINIMIZE min(x, y), MAXIMIZE wtime")["scores"]) == 2


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("MINIMIZE heigt", "did you mean 'height'"),
        ("MIN height", "--objective:1:"),
        ("height", "--objective:1:"),
    ],
)
def test_the_best_by_no_possible_objective_is_told_to_be_none(hill, objective, words):
    zen("run", "hill.py", "--search", "random", "--budget", 2, cwd=hill)
    told = zen("best", "hill", "--objective", objective, cwd=hill, code=2)
    assert words in told.err


def test_a_search_that_a_rule_ended_leaves_nothing_to_be_begun(hill):
    command = ("run", "hill.py", "--search", "exhaustive", "--budget", 50, "--stop", "stall=5")
    told = zen(*command, cwd=hill)
    assert "no improvement within" in told.out
    again = zen(*command, "--json", cwd=hill).facts
    assert again["ended"] == "stall"
    (study,) = zen("list", "--json", cwd=hill).facts
    assert study["planned"] <= study["experiments"] == study["ok"] < 50
    assert "missing" not in zen("status", "hill", cwd=hill).out


def test_the_best_of_a_search_is_told_at_the_mean_of_its_repeats(hill):
    text = PROGRAM.replace('"python3 hill.py"', '"python3 hill.py {s}"')
    text = text.replace("print(", "import sys\nprint(").replace("y - 7) ** 2", "y) ** 2, 7")
    text = text.replace("1000 - (x - 31) ** 2 - (y) ** 2, 7", "int(sys.argv[1]) * 100 - x - y")
    text += "#ZEN$ REPEAT 3 SEED s\n"
    (hill / "hill.py").write_text(text)
    told = zen("run", "hill.py", "--search", "exhaustive", "--budget", 4, "--json", cwd=hill)
    (found,) = zen("best", "hill", "--json", cwd=hill).facts
    assert told.facts["best"]["value"] == found["scores"]["height"] == 200
    assert told.facts["best"]["at"] == found["parameters"]
    assert found["as_good"]
    assert found["interval"][0] < 200 < found["interval"][1]
    assert (
        "may be as good as row 1 (95% intervals): row 2, 2 points further down"
        in zen("best", "hill", "-n", 2, cwd=hill).out
    )


@pytest.mark.parametrize("options", [("--search",), ("--search", "--budget", 9)])
def test_a_search_without_a_name_is_by_the_default_engine(hill, options):
    told = zen("run", "hill.py", "--dry-run", *options, cwd=hill)
    assert "search by auto" in told.out


def test_a_search_goes_the_same_way_with_fewer_slots_than_it_began_with(hill):
    command = ["run", "hill.py", "--search", "model", "--set", "candidates=8", "--json"]
    zen(*command, "--budget", 24, "-j", 4, cwd=hill)
    begun = trials(hill)
    again = zen(*command, "--budget", 24, "-j", 1, cwd=hill).facts
    assert (again["known"], trials(hill)) == (24, begun)


@pytest.mark.parametrize("engine", ["exhaustive", "random", "ga"])
def test_a_space_without_a_point_is_not_searched(hill, engine):
    (hill / "hill.py").write_text(PROGRAM.replace("x + y <= 60", "x + y < 0"))
    told = zen("run", "hill.py", "--search", engine, "--budget", 5, cwd=hill, code=2)
    assert "no point meets all constraints" in told.err
