"""A time limit for each test: one that hangs fails with the stacks of all threads, and the run goes on.

So tests need no patience of their own. They wait for what is to happen (``until`` in
zenturio.testing.executor, a join, a result without a number), however long a busy machine takes.
"""

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest

LIMIT_SECONDS = 300.0
"""Some hundred times as long as a test of the gate takes by itself."""
SLOW_LIMIT_SECONDS = 840.0
"""Below faulthandler_timeout, which ends a process that does not even react to a signal."""


def pytest_addoption(parser):
    parser.addoption("--limit", type=float, help="seconds after which a test fails")


def pytest_configure(config):
    if hasattr(signal, "pthread_kill") and threading.current_thread() is threading.main_thread():
        config.pluginmanager.register(TimeLimit(config.getoption("--limit")))


class TimeLimit:
    """Watches the test that runs, in a thread of its own."""

    def __init__(self, seconds):
        self._seconds = seconds
        self._changed = threading.Condition()
        self._end = None
        self._process = os.getpid()
        self._stacks = ""
        threading.Thread(target=self._watch, name="time-limit", daemon=True).start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        slow = item.get_closest_marker("slow") is not None
        seconds = self._seconds or (SLOW_LIMIT_SECONDS if slow else LIMIT_SECONDS)
        before = signal.signal(signal.SIGUSR2, self._fail)
        self._watch_until(time.monotonic() + seconds)
        try:
            return (yield)
        finally:
            self._watch_until(None)
            signal.signal(signal.SIGUSR2, before)

    def _watch_until(self, end):
        with self._changed:
            self._end = end
            self._changed.notify()

    def _watch(self):
        with self._changed:
            while True:
                left = None if self._end is None else self._end - time.monotonic()
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                self._stacks = stacks()
                # What tears the test down may hang, too: it gets a limit of its own.
                self._end = time.monotonic() + (self._seconds or LIMIT_SECONDS)
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)

    def _fail(self, _number, _frame):
        if os.getpid() == self._process:  # a child that was forked has this handler, too
            pytest.fail(f"it took too long; the stacks of all threads:\n\n{self._stacks}")


def stacks():
    """Where each thread of this process is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"thread {names.get(ident, ident)}:\n{''.join(_lines(frame))}"
        for ident, frame in sys._current_frames().items()
        if ident != threading.get_ident()
    )


def _lines(frame):
    entries = traceback.extract_stack(frame)
    ours = [e for e in entries if not {"_pytest", "pluggy"} & set(Path(e.filename).parts)]
    return traceback.format_list(ours)
