"""Searches whose driver is killed with -9, as somebody types them: the same trials in the end."""

import signal
import time
from contextlib import closing, suppress

import pytest

from loaded import Program
from tests.cli.conftest import zen
from zenturio.errors import NotFoundError
from zenturio.record.open import open_repository

PROGRAM = """\
import time
x = 0
y = 0
#ZEN$ ASSIGN x = { 0:40 }
#ZEN$ ASSIGN y = { 0:40 }
#ZEN$ SUBSTITUTE plain = { plain, blocked, tiled } AS kind
#ZEN$ CONSTRAINT VALUE x + y <= 60
#ZEN$ RUN "python3 hill.py"
#ZEN$ METRIC height FROM stdout REGEX "height (\\S+)"
#ZEN$ OBJECTIVE MAXIMIZE height
kind = "plain"
time.sleep(0.01 + 0.03 * (x % 3))
height = 1000 - (x - 31) ** 2 - (y - 7) ** 2 - 90 * len(kind)
if x % 5 == 3:
    raise SystemExit("no such luck")
print("height", "nan" if x % 7 == 4 else "inf" if x % 7 == 5 else height)
"""

ENGINES = {
    "ga": ("--budget", "36", "--set", "population=9"),
    "model": ("--budget", "24"),
    "hill": ("--budget", "40"),
    "portfolio": ("--budget", "40"),
    "optuna:TPE": ("--budget", "24", "--set", "batch=4"),
}
IN_THE_GATE = {"ga"}


def trials(folder, study="hill"):
    query = f'SELECT "index", height, status FROM study_{study}_all ORDER BY 1'
    told = zen("sql", query, "--json", cwd=folder)
    return [tuple(row) for row in told.facts["rows"]]


def written(folder):
    (folder / "hill.py").write_text(PROGRAM)
    return folder


def killed(folder, command, known):
    """A driver of its own that dies when the study knows at least so many outcomes."""
    driver = Program(None, *command, cwd=folder)
    while driver.poll() is None and outcomes(folder) < known:
        time.sleep(0.02)
    driver.kill()
    driver.communicate()
    return driver.returncode


def outcomes(folder):
    """How many outcomes the study has in its database so far."""
    place = folder / ".zenturio" / "zenturio.db"
    with suppress(NotFoundError), closing(open_repository(place, create=False)) as repository:
        found = repository.count_states("hill")
        return found["ok"] + found["failed"]
    return 0


@pytest.mark.parametrize(
    "engine",
    [pytest.param(e, marks=() if e in IN_THE_GATE else pytest.mark.slow) for e in ENGINES],
)
def test_a_search_that_learns_and_was_killed_goes_on_to_the_same_trials(engine, tmp_path_factory):
    command = ["run", "hill.py", "--search", engine, *ENGINES[engine], "--seed", "9", "-j", "3"]
    command += ["--ordered"]
    harmed = written(tmp_path_factory.mktemp("harmed"))
    ends = [killed(harmed, command, known) for known in (3, 14)]
    assert -signal.SIGKILL in ends
    last = zen(*command, "--json", cwd=harmed, code=None).facts
    assert last["known"] >= 3
    unharmed = written(tmp_path_factory.mktemp("unharmed"))
    whole = zen(*command, "--json", cwd=unharmed, code=None).facts
    assert trials(harmed) == trials(unharmed)
    assert last["best"] == whole["best"]
    assert last["total"] == whole["total"] == int(ENGINES[engine][1])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", "ga"])
def test_a_search_that_was_killed_keeps_the_order_of_arrival_which_is_replayed(engine, tmp_path):
    written(tmp_path)
    command = ["run", "hill.py", "--search", engine, "--budget", "24", "--seed", "9", "-j", "3"]
    ends = [killed(tmp_path, command, known) for known in (2, 7, 15)]
    assert -signal.SIGKILL in ends
    zen(*command, cwd=tmp_path, code=None)
    replayed = zen("run", "hill.py", "--replay", "hill", "--again", "--json", "-j", 2,
                   cwd=tmp_path, code=None).facts  # fmt: skip
    assert replayed["notes"][-1] == (
        "the search takes 24 results in the order of arrival of hill@1"
    )
    order = 'SELECT "index", run_block, run_turn, height FROM study_hill_all WHERE round = {}'
    rounds = [zen("sql", f"{order.format(n)} ORDER BY run_turn", cwd=tmp_path).out for n in (1, 2)]
    assert len(rounds[0].splitlines()) > 24
    assert rounds[0] == rounds[1]


@pytest.mark.slow
def test_failures_and_what_is_no_number_are_never_the_best_and_are_tried_once(tmp_path):
    written(tmp_path)
    command = ["run", "hill.py", "--search", "ga", "--budget", 60, "--seed", 2, "--json"]
    told = zen(*command, cwd=tmp_path, code=3).facts
    assert told["failed"] > 0
    x, y, kind = (told["best"]["at"][name] for name in ("x", "y", "kind"))
    assert x % 5 != 3
    assert x % 7 not in {4, 5}
    assert told["best"]["value"] == 1000 - (x - 31) ** 2 - (y - 7) ** 2 - 90 * len(kind)
    (best,) = zen("best", "hill", "--json", cwd=tmp_path).facts
    assert best["scores"]["height"] == told["best"]["value"]
    again = zen(*command, cwd=tmp_path, code=None).facts
    assert (again["known"], again["ok"]) == (60, 0)


@pytest.mark.slow
def test_a_search_learns_from_what_another_study_of_the_same_program_knows(tmp_path):
    written(tmp_path)
    command = ["run", "hill.py", "--search", "ga", "--seed", 2, "--budget"]
    first = zen(*command, 40, "--json", cwd=tmp_path, code=3).facts
    assert first["notes"] == []
    other = [*command, 20, "--name", "other"]
    starts = (
        "the search starts with 40 points that were measured before, by any study of this program"
    )
    assert starts in zen(*other, "--dry-run", cwd=tmp_path).out
    second = zen(*other, "--json", cwd=tmp_path, code=None).facts
    assert second["notes"] == [starts]
    assert (second["known"], second["ok"] + second["failed"]) == (0, 20)
    assert second["best"]["value"] >= first["best"]["value"]
    assert second["best"]["is_known"] == (second["best"]["value"] == first["best"]["value"])
    tried = {row[0] for row in trials(tmp_path)}
    assert not tried & {row[0] for row in trials(tmp_path, "other")}
    again = zen(*other, "--json", cwd=tmp_path, code=None).facts
    assert (again["known"], again["ok"], again["failed"]) == (20, 0, 0)


def test_a_search_in_time_ends_in_time_and_tries_whole_points(tmp_path):
    written(tmp_path)
    told = zen(
        "run",
        "hill.py",
        "--search",
        "random",
        "--budget",
        "0.5s",
        "--json",
        cwd=tmp_path,
        code=None,
    ).facts
    assert 0 < told["total"] < 1000
    assert told["unfinished"] == 0
    assert told["ok"] + told["failed"] == told["total"]


@pytest.mark.slow
def test_a_search_learns_from_an_earlier_version_only_when_asked(tmp_path):
    written(tmp_path)
    zen("run", "hill.py", "--search", "random", "--budget", 30, cwd=tmp_path, code=3)
    changed = PROGRAM.replace("1000 -", "990 -").replace("0.01 + 0.03 * (x % 3)", "0")
    (tmp_path / "hill.py").write_text(changed)
    command = ["run", "hill.py", "--search", "random", "--budget", 16, "--seed", 5]
    assert "advise" not in zen(*command, "--dry-run", cwd=tmp_path).out
    command += ["--learn-from", "hill", "--json"]
    first = zen(*command, cwd=tmp_path, code=3).facts
    (note,) = first["notes"]
    assert "points of hill advise the search" in note
    # What it learns from is recorded: hill is another study by now, and the search goes its way.
    again = zen(*command, cwd=tmp_path, code=None).facts
    assert (again["known"], again["ok"], again["notes"]) == (16, 0, [note])
    lost = zen("run", "hill.py", "--search", "--learn-from", "nil", cwd=tmp_path, code=None)
    assert "nil" in lost.err
