"""A test that hangs fails by itself, says where it was, and those after it run."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = '''\
import subprocess
import threading
from pathlib import Path

import pytest


@pytest.fixture
def lasting():
    yield
    threading.Event().wait()


def test_it_waits_for_a_thread():
    def never_ends():
        threading.Event().wait()

    thread = threading.Thread(target=never_ends, daemon=True)
    thread.start()
    try:
        thread.join()
    except Exception:
        """Code under test that goes on, whatever happens."""


def test_it_waits_for_a_process():
    subprocess.run(["sleep", "1000"])


def test_what_tears_it_down_hangs(lasting):
    pass


def test_it_runs_though_others_hung():
    Path("ran").touch()
'''


def test_a_test_that_hangs_fails_with_all_stacks_and_the_run_goes_on(tmp_path):
    (tmp_path / "test_hanging.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # The directories of modules that this process has: its plugin, and pytest.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    options = ["-p", "time_limit", "--limit", "0.5", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-q", "-rEf", str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert (tmp_path / "ran").exists(), done.stdout + done.stderr
    assert "FAILED test_hanging.py::test_it_waits_for_a_thread" in done.stdout
    assert "FAILED test_hanging.py::test_it_waits_for_a_process" in done.stdout
    assert "ERROR test_hanging.py::test_what_tears_it_down_hangs" in done.stdout
    assert "it took too long; the stacks of all threads:" in done.stdout
    assert "in never_ends" in done.stdout
