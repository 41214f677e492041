"""A time limit for each test: one that hangs fails with the stacks of all threads, and the run goes on.

So tests need no patience of their own. They wait for what is to happen (``until`` in
zenturio.testing.executor, a join, a result without a number), however long a busy machine takes.
"""

import faulthandler
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
END_SECONDS = 900.0
"""A process that does not even react to a signal for so long shows its stacks and ends."""


def pytest_addoption(parser):
    parser.addoption("--limit", type=float, help="seconds after which a test fails")
    parser.addoption(
        "--end", type=float, default=END_SECONDS,
        help="seconds after which a process ends that does not react",
    )  # fmt: skip


def pytest_configure(config):
    if hasattr(signal, "pthread_kill") and threading.current_thread() is threading.main_thread():
        watch = TimeLimit(config.getoption("--limit"), config.getoption("--end"))
        config.pluginmanager.register(watch)
        config.add_cleanup(watch.end)


class TimeLimit:
    """Watches the test that runs, in a thread of its own.

    The thread looks at a clock now and then: to wake it for each test would take longer than most tests. As long as
    it does, it puts off the end of the process; who holds the interpreter's lock, or ignores the signal, cannot.
    """

    def __init__(self, seconds, end_seconds):
        self._seconds = seconds
        self._end_seconds = end_seconds
        self._changes = threading.Lock()
        self._end = None
        self._hangs = False
        self._process = os.getpid()
        self._stacks = ""
        self._errors = os.dup(2)  # while a test runs, 2 is a file
        self._over = threading.Event()
        self._put_off()
        self._thread = threading.Thread(target=self._watch, name="time-limit", daemon=True)
        self._thread.start()

    def end(self):
        """Watch no longer."""
        self._over.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        os.close(self._errors)

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
        with self._changes:
            self._end, self._hangs = end, False

    def _put_off(self):
        faulthandler.dump_traceback_later(self._end_seconds, exit=True, file=self._errors)

    def _watch(self):
        while not self._over.wait(min(self._seconds or LIMIT_SECONDS, self._end_seconds) / 10):
            with self._changes:
                if self._end is not None and self._end <= time.monotonic():
                    self._stacks = stacks()
                    self._hangs = True
                    # What tears the test down may hang, too: it gets a limit of its own.
                    self._end = time.monotonic() + (self._seconds or LIMIT_SECONDS)
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)
                elif not self._hangs:
                    self._put_off()

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
