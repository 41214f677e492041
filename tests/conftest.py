"""What holds for all tests."""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import hypothesis
import pytest

from entry_points import refresh_entry_points

pytest_plugins = ["copied_workers", "skipped_groups", "time_limit"]

# A machine that is busy makes no test fail: how long an example takes is no promise.
hypothesis.settings.register_profile(
    "whole", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# `make test-all` tries 100 examples of each law (--hypothesis-profile=whole).
hypothesis.settings.register_profile(
    "gate", hypothesis.settings.get_profile("whole"), max_examples=30
)
# To learn which lines a law reaches, a few examples of it are enough.
hypothesis.settings.register_profile(
    "reach", hypothesis.settings.get_profile("gate"), max_examples=5, derandomize=True
)
COVERS_LAWS = "ZENTURIO_COVER_LAWS" in os.environ
hypothesis.settings.load_profile("reach" if COVERS_LAWS else "gate")

# What studies call python3 is the Python of the tests: another may be a script that looks for one,
# which takes ten times as long to start.
# What tests write into settings is theirs. Answers are kept apart from those of whoever runs them.
os.environ["ZENTURIO_TRUST"] = "1"
# Terminals of tests are plain ones, whatever the one is in which the tests run.
os.environ["TERM"] = "xterm"
os.environ.pop("NO_COLOR", None)
# Tests start Python hundreds of times: each would compile all that it loads where this is set.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Databases of tests would wait for the disk: they lie in memory where there is room. Files of a run
# take about 1 GiB; pytest keeps those of three runs.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 6 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / f"zenturio-tests-{os.getuid()}")
os.environ["XDG_CACHE_HOME"] = f"{os.environ['XDG_CONFIG_HOME']}/cache"
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Thousands of tests and modules stay until the end: nobody looks for garbage among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure(config):
    """Find plug-ins as pyproject.toml has them, whenever the environment was made."""
    # A shell starts what runs in the background with SIGINT ignored, and then Python leaves it so.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        refresh_entry_points()


PROJECT = Path(__file__).parents[1] / ".zenturio"
HAS_PROJECT = PROJECT.exists()
THREADS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
for name in THREADS:
    os.environ.pop(name, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """Fail if a test has left something in the process or the sources that changes other tests.

    Studies of a project in the folder of the sources are not found by their names from elsewhere; a
    number of threads in the environment counts as the user's own.
    """
    yield
    if not HAS_PROJECT and PROJECT.exists():
        made = sorted(path.name for path in PROJECT.glob("*"))
        shutil.rmtree(PROJECT, ignore_errors=True)
        pytest.fail(f"{item.nodeid}, or a test beside it, began a project in {PROJECT}: {made}")
    if threads := {name: os.environ.pop(name) for name in THREADS if name in os.environ}:
        pytest.fail(f"{item.nodeid} left {threads} in the environment")


KERNELS = re.compile(
    r"tests/(schedule|search)/|test_\w*(schedule|simulate|gantt|hosts|flow|front|stages)"
)
"""Tests of compiled kernels: `make test` compiles these in a new environment while other tests run."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Give each of several workers what needs kernels last: each begins with an equal part of the list."""
    yield
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        late = [item for item in items if KERNELS.search(item.nodeid)]
        early = [item for item in items if not KERNELS.search(item.nodeid)]
        shares = zip(_parts(early, workers), _parts(late, workers), strict=True)
        items[:] = [item for share in shares for part in share for item in part]


def _parts(items, count):
    """*items* in *count* parts of nearly equal length, in their order."""
    ends = [len(items) * number // count for number in range(count + 1)]
    return [items[begin:end] for begin, end in pairwise(ends)]


def pytest_itemcollected(item):
    """Laws run the same lines a thousand times: traced, they take half of the gate's time.

    So coverage counts what examples reach, and laws come on top of it.
    """
    if getattr(item.obj, "is_hypothesis_test", False) and not COVERS_LAWS:
        item.add_marker(pytest.mark.no_cover)
