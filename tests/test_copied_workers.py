"""Workers that are copies of one process do what workers do."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import os

import pytest

WHERE = os.getpid()


def test_it_dies():
    os._exit(1)


@pytest.mark.parametrize("number", range(4))
def test_others_go_on(number):
    assert os.getpid() != WHERE == os.getppid()
    assert "PYTEST_XDIST_WORKER" in os.environ
    assert not hasattr(__import__("__main__"), "__file__")
"""


def test_tests_are_imported_once_and_a_worker_that_dies_is_replaced(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    options = ["-p", "copied_workers", "-p", "no:cacheprovider", "-n", "2", "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert "crashed while running 'test_some.py::test_it_dies'" in done.stdout
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
