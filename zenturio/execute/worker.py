"""
One experiment on the machine that this is: the other end of a place that is elsewhere.

    python -m zenturio.execute.worker PARCEL OUTCOME [--start FILE] [--folder F] [--session S]

runs what is packed in the file PARCEL and writes the file OUTCOME, which appears whole or not at
all; where it is there already nothing is run, and it is never replaced. SIGTERM, and the death of
the process that started this one (not with ``--stay``), end the experiment with all that it
started: its outcome is then ``cancelled``. When this process is killed, its launcher does the same.

A batch system may end a job by a signal and start it again. So what may have come of such a signal
is no OUTCOME: it goes to FILE, which belongs to this start of the job alone, and which is empty
from when the experiment begins.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

from zenturio.errors import PlaceError, ZenError
from zenturio.execute.experiment_codec import pack_failure, pack_outcome, unpack_experiment
from zenturio.execute.local import Local
from zenturio.execute.local_runner import RunnerSettings
from zenturio.execute.workspace import Keep
from zenturio.experiment import Outcome
from zenturio.system.processes import die_with_parent

SETTLE_SECONDS = 0.25
"""How long a job waits for a signal after its experiment has ended.

Who ends a job signals one process after the other. A shell whose command got the signal first goes
on and may end well, and the outcome must not count. On a busy machine some ten milliseconds were
seen between two processes; a job of a batch system takes much longer to start than this wait.
"""
_SIGNALS = ("SIGTERM", "SIGKILL")


def run_packed(
    parcel: bytes,
    folder: Path,
    *,
    keep: Keep = "never",
    session: str = "",
    shared: bool = False,
    settings: RunnerSettings | None = None,
) -> bytes:
    """Return the outcome of a packed experiment, run below *folder*, or why it could not be run.

    Workers of one *session* that share a disk try a build that fails once. With *shared* who asks
    sees the same disk, and artifacts are only named.
    """
    run_settings = replace(settings or RunnerSettings(), session=session)
    return _run_packed(parcel, folder, keep, run_settings, shared=shared)[0]


def _run_packed(
    parcel: bytes,
    folder: Path,
    keep: Keep,
    settings: RunnerSettings,
    *,
    shared: bool,
    begins: Callable[[], None] = lambda: None,
    settle: float = 0.0,
) -> tuple[bytes, bool]:
    """Return the packed outcome, and whether a signal from outside may have brought it about.

    *begins* is called when the experiment is about to begin; a signal counts that comes up to
    *settle* seconds after its end.
    """
    try:
        experiment = unpack_experiment(parcel)
        # The machine may be larger than what the job has of it.
        settings = replace(settings, threads=settings.threads or experiment.cpus)
        with Local(folder, experiment.cpus, keep=keep, settings=settings) as place:
            begins()
            outcome = _wait_for_outcome(place.submit(experiment), settle)
            return pack_outcome(outcome, shared=shared), is_from_signal(outcome)
    except ZenError as error:
        return pack_failure(error), False
    except OSError as error:
        words = f"{error.filename or folder}: {error.strerror or error}"
        return pack_failure(PlaceError(words)), False


def _cpu_count(text: str) -> int:
    """Return the CPUs that a job has; 0 where its batch system does not say."""
    return int(text) if text.isdecimal() else 0


def is_from_signal(outcome: Outcome) -> bool:
    """Return whether it depends on why the job ended what *outcome* means.

    Batch systems end a job by the signals by which a program may end itself.
    """
    if outcome.status == "cancelled":
        return True
    ended, _, _ = outcome.cause.partition(": ")  # behind it stands what the experiment said
    return outcome.status == "failed" and any(name in ended for name in _SIGNALS)


def _wait_for_outcome(future: Future[Outcome], settle: float) -> Outcome:
    """Return the outcome; if this thread gets signals, SIGTERM and SIGINT cancel it.

    Who ends a job signals all of its processes: what the program came to behind that counts for
    nothing, for a part of it may have been killed. Neither does what it came to up to *settle*
    seconds before.
    """
    stopped = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        future.cancel()

    before = {}
    with suppress(ValueError):  # not in the main thread: whoever has that is to see to signals
        before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        outcome = future.result()
        end = monotonic() + settle if before else 0.0
        while not stopped and monotonic() < end:
            sleep(0.01)
        if stopped:
            return replace(outcome, status="cancelled", cause="cancelled")
        return outcome
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(words: list[str] | None = None) -> int:
    """Run a parcel as the command line says; 0 where an outcome is written."""
    parser = argparse.ArgumentParser(
        prog="python -m zenturio.execute.worker", description="Run one packed experiment."
    )
    parser.add_argument("parcel", type=Path, help="what to run")
    parser.add_argument("outcome", type=Path, help="where to write what came out")
    parser.add_argument("--start", type=Path, help="where to write what depends on the job's end")
    parser.add_argument("--folder", type=Path, help="where to run it; the outcome's, if not given")
    parser.add_argument("--keep", choices=("always", "failed", "never"), default="never")
    parser.add_argument("--session", default="", help="whose builds that failed are remembered")
    parser.add_argument("--cpus", type=_cpu_count, default=0, help="how many the job has")
    parser.add_argument("--shared", action="store_true", help="name artifacts, do not send them")
    parser.add_argument("--stay", action="store_true", help="go on when the parent process ends")
    arguments = parser.parse_args(words)
    sys.set_int_max_str_digits(0)  # metrics have as many digits as they have
    # A batch system may start a finished job again: the first outcome counts.
    if arguments.outcome.exists():
        return 0
    if not arguments.stay:
        die_with_parent()
    start: Path | None = arguments.start
    outcome, is_doubtful = _run_packed(
        arguments.parcel.read_bytes(),
        arguments.folder or arguments.outcome.absolute().parent,
        arguments.keep,
        RunnerSettings(session=arguments.session, threads=arguments.cpus),
        shared=arguments.shared,
        begins=start.touch if start else lambda: None,
        settle=SETTLE_SECONDS if start else 0.0,
    )
    if start is not None and is_doubtful:
        write_whole(start, outcome)
    else:
        write_once(arguments.outcome, outcome)
    return 0


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, and synced to disk before it is visible."""
    _write_draft(path, content).replace(path)


def write_once(path: Path, content: bytes) -> None:
    """Like `write_whole`, but an existing file is kept: the first writer wins."""
    draft = _write_draft(path, content)
    try:
        # A link fails where the name exists, which a rename would replace: write once, atomically.
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    except OSError:  # a disk without links
        draft.replace(path)
    draft.unlink(missing_ok=True)


def _write_draft(path: Path, content: bytes) -> Path:
    draft = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        # The name must not appear before the bytes after a crash of the file server.
        os.fsync(file.fileno())
    return draft


if __name__ == "__main__":
    sys.exit(main())
