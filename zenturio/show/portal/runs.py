"""Studies that were started from the portal: processes of their own, which outlive it.

What a study has come to stands in the database; what is kept here is which process drives it, so
that a portal that was started anew finds it again, and what it printed.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from zenturio.errors import ConflictError, InputError, NotFoundError, PlaceError
from zenturio.record.driver import born
from zenturio.record.open import FOLDER

KEPT = 20
"""Runs that are remembered when they have ended."""
AGAIN = 0.5
"""Seconds between the two times that a driver is asked to stop: at the second it kills."""
PRINTED = 4000
"""Bytes of what a run printed that are shown."""
PLANNING = 60.0
"""Seconds that a plan may take."""
# -P: the folder where it runs is the project's, and may hold a module of any name.
_MAIN = [sys.executable, "-P", "-c", "from zenturio.cli import main; main()"]


@dataclass(frozen=True)
class Run:
    """A process that drives a study, or did."""

    key: str
    study: str
    arguments: tuple[str, ...]
    """Of ``zen``."""
    pid: int
    born: str
    began: float

    @property
    def alive(self) -> bool:
        return born(self.pid) == self.born

    @property
    def command(self) -> str:
        return shlex.join(["zen", *self.arguments])


class Runs:
    """The runs of a project folder."""

    def __init__(self, folder: Path, db: str | None) -> None:
        self._folder = folder
        self._kept = folder / FOLDER / "portal"
        self._environment = {**os.environ, **({"ZENTURIO_DB": db} if db else {})}
        self._children: list[subprocess.Popen[bytes]] = []
        self._turn = Lock()

    def plan(self, arguments: Sequence[str]) -> Mapping[str, Any]:
        """What ``zen run`` would do; InputError in its words if that is nothing."""
        try:
            done = subprocess.run(
                [*_MAIN, "run", "--dry-run", "--json", *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PLANNING,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PlaceError(f"the plan took longer than {PLANNING:g} seconds") from error
        if done.returncode:
            raise InputError(done.stderr.decode("utf-8", "backslashreplace").strip())
        found: Mapping[str, Any] = json.loads(done.stdout)
        return found

    def start(self, study: str, arguments: Sequence[str]) -> Run:
        """``zen run`` with *arguments*, in a session of its own: it does not end with us."""
        key = f"{time.time_ns():x}-{secrets.token_hex(3)}"
        try:
            self._kept.mkdir(parents=True, exist_ok=True)
            with (self._kept / f"{key}.log").open("xb") as log:
                child = subprocess.Popen(
                    [*_MAIN, "run", *arguments],
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise PlaceError(f"the study cannot be started: {error.strerror}") from error
        words = ("run", *arguments)
        run = Run(key, study, words, child.pid, born(child.pid) or "", time.time())
        (self._kept / f"{key}.json").write_text(json.dumps(asdict(run)), encoding="utf-8")
        with self._turn:
            self._children.append(child)
        return run

    def all(self) -> list[Run]:
        """The newest first; those that ended long ago are forgotten."""
        self._reap()
        found: list[Run] = []
        for path in sorted(self._kept.glob("*.json"), reverse=True):
            run = _read(path)
            if run is None or (len(found) >= KEPT and not run.alive):
                path.unlink(missing_ok=True)
                path.with_suffix(".log").unlink(missing_ok=True)
            else:
                found.append(run)
        return found

    def run(self, key: str) -> Run:
        """NotFoundError if there is no such run."""
        for run in self.all():
            if run.key == key:
                return run
        raise NotFoundError("no such run was started here", hint="see the list of runs")

    def printed(self, run: Run) -> str:
        """The end of what it printed."""
        try:
            with (self._kept / f"{run.key}.log").open("rb") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - PRINTED, 0))
                return log.read().decode("utf-8", "backslashreplace")
        except OSError:
            return ""

    def resume(self, run: Run) -> None:
        """The same once more: what has an outcome is not run again."""
        if run.alive:
            raise ConflictError(f"study {run.study} is at work", hint="pause it first")
        self.start(run.study, run.arguments[1:])

    def pause(self, run: Run) -> None:
        """Let it end what it has begun, and take nothing more."""
        _signal(run)

    def stop(self, run: Run) -> None:
        """Let it kill what it has begun, too."""
        _signal(run)
        again = Timer(AGAIN, _signal_if_there, [run])
        again.daemon = True
        again.start()

    def _reap(self) -> None:
        with self._turn:
            self._children = [child for child in self._children if child.poll() is None]


def _read(path: Path) -> Run | None:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return Run(**{**facts, "arguments": tuple(facts["arguments"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _signal(run: Run) -> None:
    """As Ctrl-C does; never to another process that has got its number since."""
    if not run.born or not run.alive:
        raise ConflictError(f"the run of study {run.study} has ended", hint="resume it")
    os.kill(run.pid, signal.SIGINT)


def _signal_if_there(run: Run) -> None:
    if run.alive:
        os.kill(run.pid, signal.SIGINT)
