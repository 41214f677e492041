"""A study on hosts, with drivers killed and connections cut at random moments."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zenturio.testing.executor import long, running

PROGRAM = """
#ZEN$ ASSIGN n = { 1:12 }
#ZEN$ RUN "python3 work.py MARK"
#ZEN$ METRIC square FROM stdout REGEX "square=(\\d+)"
import time
open("FOLDER/begun", "a").write("%d\\n" % n)
time.sleep(0.15 + n % 3 * 0.1)
print(f"square={n * n}")
"""
ZEN = Path(sys.executable).parent / "zen"
MARK = long("87.1")
COMMAND = [ZEN, "run", "work.py", "--on", "hosts.toml"]


def zen(folder, *words):
    done = subprocess.run([ZEN, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def described(testbed, folder, **options):
    """The program and three hosts in *folder*."""
    (folder / "work.py").write_text(PROGRAM.replace("FOLDER", str(folder)).replace("MARK", MARK))
    names = {"one": {"slots": 2}, "two": {"slots": 1}, "three": {"slots": 1}}
    declared = {name: {"speed": 1.0, **each} for name, each in names.items()}
    testbed.write(folder / "hosts.toml", {"connect": 5, **options}, **declared)
    return list(names)


def square_of_all(folder):
    """Resumes; whether each experiment has one result, and it is right."""
    summary = json.loads(zen(folder, "run", "work.py", "--on", "hosts.toml", "--json"))
    assert summary["ok"] + summary["known"] == 12
    rows = json.loads(zen(folder, "results", "work", "--json"))
    at = rows["columns"].index("square")
    assert sorted(row[at] for row in rows["rows"]) == [n * n for n in range(1, 13)]
    assert zen(folder, "db", "check")
    assert not running(MARK)


@pytest.mark.slow  # six seconds of processor: test_faults.py kills each part once in the gate
@pytest.mark.parametrize("seed", range(25))
def test_every_experiment_runs_once_whoever_is_killed(testbed, tmp_path, seed):
    dice = random.Random(seed)
    names = described(testbed, tmp_path, patience=60)
    for _ in range(3):
        with subprocess.Popen(
            COMMAND, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as driver:
            end = time.monotonic() + dice.uniform(0.5, 2.5)
            while time.monotonic() < end and driver.poll() is None:
                time.sleep(dice.uniform(0.0, 0.4))
                if dice.random() < 0.5:
                    testbed[dice.choice(names)].drop()
            driver.kill()
    square_of_all(tmp_path)
    assert sorted(map(int, (tmp_path / "begun").read_text().split())) == list(range(1, 13))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_every_experiment_has_one_result_whichever_host_dies(testbed, tmp_path, seed):
    dice = random.Random(seed)
    names = described(testbed, tmp_path, patience=0.5)
    with subprocess.Popen(
        COMMAND, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as driver:
        while driver.poll() is None:
            victim = testbed[dice.choice(names)]
            time.sleep(dice.uniform(0.2, 0.8))
            victim.kill(all_of_it=dice.random() < 0.5)
            time.sleep(dice.uniform(0.0, 1.2))
            victim.revive()
            if dice.random() < 0.15:
                driver.kill()
    square_of_all(tmp_path)
    assert set(map(int, (tmp_path / "begun").read_text().split())) == set(range(1, 13))
