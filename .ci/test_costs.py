"""Processor seconds of each test, its children and servers included, however busy the machine is.

    PYTHONPATH=.ci .venv/bin/pytest -p test_costs --costs FILE ...

Each worker counts in a control group of its own (cpuacct; root can make one), so that daemons
count, too. FILE gets a line for each phase of a test: processor seconds, seconds by the clock,
phase, test. A fixture that tests share is paid by the first that uses it, in its phase "setup".
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

GROUPS = Path("/sys/fs/cgroup/cpuacct")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the numbers go."""
    parser.addoption("--costs", metavar="FILE", help="write processor seconds of each test here")


class Costs:
    """Writes a line for each phase of a test in this process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        group = GROUPS / f"zenturio-tests-{os.getpid()}"
        group.mkdir()
        (group / "cgroup.procs").write_text(str(os.getpid()))
        self._usage = group / "cpuacct.usage"
        self._before = self._now()
        self._clock = time.monotonic()

    def _now(self) -> float:
        return int(self._usage.read_text()) / 1e9

    def _write(self, phase: str, name: str) -> None:
        """A line of what was used since the last one."""
        before, self._before = self._before, self._now()
        start, self._clock = self._clock, time.monotonic()
        with self._file.open("a") as file:
            used, passed = self._before - before, self._clock - start
            file.write(f"{used:.3f}\t{passed:.3f}\t{phase}\t{name}\n")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """What lies between two tests is of no test: collection, above all."""
        self._write("between", item.nodeid)
        try:
            return (yield)
        finally:
            self._write("setup", item.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """The test itself."""
        try:
            return (yield)
        finally:
            self._write("call", item.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """What a fixture of the session takes to end is the last test's."""
        try:
            return (yield)
        finally:
            self._write("teardown", item.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """Count, in workers or where there are none."""
    file = config.getoption("--costs")
    if file and not (config.getoption("numprocesses", None) and not hasattr(config, "workerinput")):
        config.pluginmanager.register(Costs(Path(file).absolute()))
