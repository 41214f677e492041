"""kill -9 of the driver: at each failpoint, at moments that nobody chose, again and again."""

import importlib
import random
import re
import signal
import time
from pathlib import Path

import pytest

import zenturio
from postgres import slow_on_server
from study import oracle
from zenturio import failpoints

ROOT = Path(zenturio.__file__).parent
DECLARED = {
    name: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in sorted(ROOT.rglob("*.py"))
    for name in re.findall(r'\bFailpoint\("([\w.]+)"\)', path.read_text("utf-8"))
}
"""Every failpoint of the code, and its module."""
ELSEWHERE = {
    **{
        name: "a run does not upgrade; tests/record/test_upgrade.py does"
        for name in DECLARED
        if name.startswith("upgrade.")
    },
    **dict.fromkeys(
        ("store.collected", "store.removed"),
        "a run collects nothing; tests/record/test_artifact_store.py does",
    ),
    **{
        name: "a run redacts nothing; tests/record/test_redaction.py does"
        for name in DECLARED
        if name.startswith("redact.")
    },
    "copy.copied": "a run copies no database; tests/record/test_database_copy.py interrupts one",
    "batch.submitting": "a run on this machine has no queue; test_slurm.py does",
    "batch.submitted": "the same",
    **dict.fromkeys(
        ("serve.taken", "serve.settling", "serve.settled"),
        "a service passes them; test_served_kills.py",
    ),
}
ONCE = {
    "study.opened", "study.leased", "study.added", "study.set_aside", "study.driven", "study.left",
    "record.created",
}  # fmt: skip
"""A driver of a small study may pass them only once; the others at least so often:"""
OFTEN = 2
REACHED = sorted(DECLARED.keys() - ELSEWHERE.keys())


def test_the_failpoints_that_are_tried_are_all_that_there_are():
    for module in DECLARED.values():
        importlib.import_module(module)
    assert {n for n in failpoints.names() if not n.startswith("test.")} == DECLARED.keys()
    assert {name for name in DECLARED if name.startswith("study.")} >= {
        "study.added", "study.claiming", "study.claimed", "study.submitted", "study.ended",
        "study.committing", "study.committed", "study.set_aside", "study.leased", "study.left",
    }  # fmt: skip


def faults_after_kill(study, failpoint):
    """Let a driver die there, and return what does not hold of the study that another resumes."""
    driver = study.start(ZENTURIO_FAILPOINT=failpoint)
    out, err = driver.communicate()
    assert driver.returncode == -signal.SIGKILL, (driver.returncode, err)
    assert study.states().get("ok", 0) >= oracle.told(out)
    return oracle.faults_after_resume(study)


def on_sqlite():
    """Those of a study in the gate; tests/record/test_kills.py passes those of the record there."""
    few = {name for name in REACHED if name.startswith("study.")} | {"record.committed"}
    marks = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(name, marks=marks[name in few]) for name in REACHED]


@pytest.mark.parametrize("name", on_sqlite())
def test_a_driver_that_is_killed_at_a_failpoint_is_resumed(study, name):
    assert faults_after_kill(study(25), f"{name}:{1 if name in ONCE else OFTEN}") == []


def on_a_server():
    """A few in the gate."""
    few = {"study.claimed", "study.committed", "study.set_aside"}
    marks = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(name, marks=marks[name in few]) for name in REACHED]


@pytest.mark.parametrize("name", on_a_server())
def test_a_driver_that_is_killed_at_a_failpoint_is_resumed_on_a_server(study, postgres_url, name):
    assert faults_after_kill(study(25, url=postgres_url), f"{name}:1") == []


@pytest.mark.slow
@pytest.mark.parametrize("passing", [1, 3, 4, 5])
@pytest.mark.parametrize("name", [n for n in REACHED if n not in ONCE | {"record.widened"}])
def test_a_driver_that_is_killed_at_a_later_passing_is_resumed(study, url, name, passing):
    assert faults_after_kill(study(150, url=url), f"{name}:{passing}") == []


def faults_after_kills(study, seed, longest, kills):
    """Kill driver after driver; what any of them told is kept."""
    moment = random.Random(seed)
    kept = 0
    for _ in range(kills):
        driver = study.start()
        if moment.random() < 0.8:
            oracle.wait_for(driver, "planned")
        time.sleep(moment.uniform(0, longest))
        driver.kill()
        out, _ = driver.communicate()
        kept += oracle.told(out)
        assert study.states().get("ok", 0) >= kept
    return oracle.faults_after_resume(study)


@slow_on_server("url")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_driver_that_is_killed_at_any_moment_is_resumed(study, url, seed):
    assert faults_after_kills(study(150, repeats=2, url=url), seed, 0.3, 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 113))
def test_a_driver_that_is_killed_at_a_hundred_moments_is_resumed(study, url, seed):
    assert faults_after_kills(study(300, repeats=2, url=url), seed, 0.6, 4) == []
