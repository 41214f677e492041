"""Studies that were started from the portal: processes that continue when the portal ends.

The state of a study is in the database. This module keeps which process drives it, and its output,
so that a restarted portal finds both again.
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
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from zenturio import trust
from zenturio.errors import ConflictError, InputError, NotFoundError, PlaceError
from zenturio.files import make_folder, open_regular, read_regular
from zenturio.record.open import FOLDER
from zenturio.system.processes import process_birth

MOST_FINISHED = 20
"""Finished runs that are kept."""
SECOND_SIGNAL_SECONDS = 0.5
"""Between the two signals that stop a driver: after the second, it kills experiments."""
MOST_OUTPUT_BYTES = 4000
"""Of the output of a run, shown in the page."""
MOST_RECORD_BYTES = 2**20
PLAN_SECONDS = 60.0
"""That a plan may take."""
# -P: the working directory is the project's and may contain modules of any name.
_ZEN_COMMAND = [sys.executable, "-P", "-c", "from zenturio.cli import main; main()"]


@dataclass(frozen=True)
class PortalRun:
    """A process that drives a study, or did."""

    key: str
    study: str
    arguments: tuple[str, ...]
    """Of the command ``zen``."""
    pid: int
    born: str
    began: float

    @property
    def is_alive(self) -> bool:
        return process_birth(self.pid) == self.born

    @property
    def command(self) -> str:
        return shlex.join(["zen", *self.arguments])


class PortalRuns:
    """The runs of a project folder."""

    def __init__(self, folder: Path, db: str | None) -> None:
        self._folder = folder
        self._records = folder / FOLDER / "portal"
        self._environment = {**os.environ, **({"ZENTURIO_DB": db} if db else {})}
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = Lock()

    def plan(self, arguments: Sequence[str]) -> Mapping[str, Any]:
        """Return what ``zen run`` would do; raise InputError with its message if it would fail."""
        try:
            process = subprocess.run(
                [*_ZEN_COMMAND, "run", "--dry-run", "--json", *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PLAN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PlaceError(f"planning took longer than {PLAN_SECONDS:g} seconds") from error
        if process.returncode:
            raise InputError(process.stderr.decode("utf-8", "backslashreplace").strip())
        plan: Mapping[str, Any] = json.loads(process.stdout)
        return plan

    def start(self, study: str, arguments: Sequence[str]) -> PortalRun:
        """Start ``zen run`` with *arguments* in its own session, so that it outlives the portal."""
        # Names sort by time; the random part parts two portals that start at the same moment.
        key = f"{time.time_ns():x}-{secrets.token_hex(3)}"
        try:
            trust.begin(self._records.parent)
            make_folder(self._records.parent, self._records.name)
            with (self._records / f"{key}.log").open("xb") as log:
                child = subprocess.Popen(
                    [*_ZEN_COMMAND, "run", *arguments],
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise PlaceError(f"the study cannot be started: {error.strerror}") from error
        command = ("run", *arguments)
        run = PortalRun(key, study, command, child.pid, process_birth(child.pid) or "", time.time())
        text = json.dumps(asdict(run))
        record = self._records / f"{key}.json"
        record.write_text(f"{_signature(text)}\n{text}", encoding="utf-8")
        with self._lock:
            self._children.append(child)
        return run

    def list_runs(self) -> list[PortalRun]:
        """Return the runs, newest first; forget the oldest finished ones."""
        self._reap()
        runs: list[PortalRun] = []
        for path in sorted(self._records.glob("*.json"), reverse=True):
            run = _read(path)
            if run is None:
                continue
            if len(runs) >= MOST_FINISHED and not run.is_alive:
                path.unlink(missing_ok=True)
                path.with_suffix(".log").unlink(missing_ok=True)
            else:
                runs.append(run)
        return runs

    def find(self, key: str) -> PortalRun:
        """Return a run; raise NotFoundError if there is none of that key."""
        for run in self.list_runs():
            if run.key == key:
                return run
        raise NotFoundError("there is no such run", hint="see the list of runs")

    def output_tail(self, run: PortalRun) -> str:
        """Return the end of the output."""
        try:
            with open_regular(self._records / f"{run.key}.log") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - MOST_OUTPUT_BYTES, 0))
                return log.read(MOST_OUTPUT_BYTES).decode("utf-8", "backslashreplace")
        except OSError:
            return ""

    def resume(self, run: PortalRun) -> None:
        """Start the same command again; cached experiments are not run again."""
        if run.is_alive:
            raise ConflictError(f"study {run.study} is running", hint="pause it first")
        self.start(run.study, run.arguments[1:])

    def pause(self, run: PortalRun) -> None:
        """Let the run finish what it has started, and start nothing more."""
        _interrupt(run)

    def stop(self, run: PortalRun) -> None:
        """Let the run cancel what it has started, too."""
        _interrupt(run)
        timer = Timer(SECOND_SIGNAL_SECONDS, _interrupt_if_alive, [run])
        # The portal may end before: then the first signal alone counts.
        timer.daemon = True
        timer.start()

    def _reap(self) -> None:
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]


def _read(path: Path) -> PortalRun | None:
    """Return what a portal of this user has written; what came with a project is none of its runs.

    For a record says what is executed when it is resumed, and which process is to be stopped.
    """
    try:
        signature, _, text = read_regular(path, MOST_RECORD_BYTES).decode("utf-8").partition("\n")
        if not compare_digest(signature.encode(), _signature(text).encode()):
            return None
        values = json.loads(text)
        run = PortalRun(**{**values, "arguments": tuple(values["arguments"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return run if run.key == path.stem else None


def _signature(text: str) -> str:
    return blake2b(text.encode(), key=trust.user_key(), digest_size=16).hexdigest()


def _interrupt(run: PortalRun) -> None:
    """Send SIGINT like Ctrl-C; never to another process that has the same number now."""
    if not run.born or not run.is_alive:
        raise ConflictError(f"the run of study {run.study} has finished", hint="resume it")
    os.kill(run.pid, signal.SIGINT)


def _interrupt_if_alive(run: PortalRun) -> None:
    if run.is_alive:
        os.kill(run.pid, signal.SIGINT)
