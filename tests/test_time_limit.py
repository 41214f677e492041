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


DEAF = """\
import signal
import threading


def test_it_does_not_react():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    threading.Event().wait()
"""


def _pytest(folder, tests, *options):
    (folder / "test_hanging.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    # The directories of modules that this process has: its plugin, and pytest.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    options = ["-p", "time_limit", "-p", "no:cacheprovider", "-p", "no:xdist", *options]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-q", "-rEf", str(folder)],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip


def test_a_process_that_does_not_react_shows_its_stacks_and_ends(tmp_path):
    done = _pytest(tmp_path, DEAF, "--limit", "0.5", "--end", "1")
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr
    assert "in test_it_does_not_react" in done.stderr


def test_a_test_that_hangs_fails_with_all_stacks_and_the_run_goes_on(tmp_path):
    done = _pytest(tmp_path, TESTS, "--limit", "1")
    assert (tmp_path / "ran").exists(), done.stdout + done.stderr
    assert "FAILED test_hanging.py::test_it_waits_for_a_thread" in done.stdout
    assert "FAILED test_hanging.py::test_it_waits_for_a_process" in done.stdout
    assert "ERROR test_hanging.py::test_what_tears_it_down_hangs" in done.stdout
    assert "it took too long; the stacks of all threads:" in done.stdout
    assert "in never_ends" in done.stdout
