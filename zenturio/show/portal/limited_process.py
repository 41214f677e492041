"""Work for a page in a process of its own, which ends when its time or its memory is used up.

Schedules are made of what an address says: how long one takes, nobody knows before. A thread could
not be stopped, and its memory would be the portal's; a process can be killed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from zenturio import errors
from zenturio.errors import ConflictError, InputError, PlaceError, ZenError

AT_ONCE = 2
"""Processes at the same time: pages have threads left, and studies have cores."""
TURN_SECONDS = 10.0
"""For which a request waits for one of them."""
MOST_ANSWERED = 32_000_000
"""Bytes of an answer."""
_turns = BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True)
class Limits:
    """What one request may take."""

    seconds: float = 40.0
    memory: int = 2 * 2**30
    """Bytes of address space: libraries that are loaded take 0.4 GiB of it."""


def run_limited(task: str, facts: Mapping[str, Any], limits: Limits = Limits()) -> bytes:
    """Return what *task*, one of TASKS, makes of *facts*.

    Errors of the task are raised here as they were there; PlaceError if a limit was reached.
    """
    asked = json.dumps([task, facts, limits.seconds, limits.memory]).encode()
    with _turn(), _started() as process:
        try:
            answer, _ = process.communicate(asked, limits.seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise _late(limits) from None
    if process.returncode == -signal.SIGXCPU:
        raise _late(limits)
    return _read(answer, limits)


def _late(limits: Limits) -> PlaceError:
    return PlaceError(
        f"it took longer than {limits.seconds:g} seconds, which is as long as a page may",
        hint="ask for less; in a terminal there is no such limit",
    )


def _started() -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that what a library may start ends with it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


@contextmanager
def _turn() -> Iterator[None]:
    if not _turns.acquire(timeout=TURN_SECONDS):
        raise ConflictError("others are drawing at this moment", hint="ask again in a few seconds")
    try:
        yield
    finally:
        _turns.release()


def _read(answer: bytes, limits: Limits) -> bytes:
    head, _, content = answer.partition(b"\n")
    try:
        error, text = json.loads(head)
    except ValueError:  # it was killed, or a library ended it
        error, text = "MemoryError", ""
    if error == "MemoryError":
        raise PlaceError(
            f"it needs more than {limits.memory / 2**30:.3g} GiB, which is as much as a page may",
            hint="ask for less; in a terminal there is no such limit",
        )
    if error:
        raise _kind(error)(text)
    return content


def _kind(name: str) -> type[ZenError]:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, ZenError) else PlaceError


def _schedule_figure(facts: Mapping[str, Any]) -> bytes:
    from zenturio.show.portal.chart_json import figure_json  # noqa: PLC0415 - plotly loads slowly

    figure = figure_json(_scene(facts), dark=facts["dark"]) | {"brush": None}
    return json.dumps({"figures": [figure], "sql": "", "chosen": {}}).encode()


def _schedule_file(facts: Mapping[str, Any]) -> bytes:
    from zenturio.show.saving import content  # noqa: PLC0415 - matplotlib loads slowly

    return content(_scene(facts), facts["format"])


def _scene(facts: Mapping[str, Any]) -> Any:
    from zenturio.show.charts.schedule_query import PlanView, scene  # noqa: PLC0415 - numba loads slowly

    view = PlanView.of(facts["view"].items())
    return scene(view, Path(facts["folder"]), slow=facts["slow"])


def _report_file(facts: Mapping[str, Any]) -> bytes:
    from zenturio.record.open import open_repository  # noqa: PLC0415 - only one task needs it
    from zenturio.show.report import read  # noqa: PLC0415
    from zenturio.show.report_store import exported  # noqa: PLC0415

    report, folder = read(facts["text"], facts["name"]), Path(facts["folder"])
    repository = open_repository(facts["db"], create=False)
    try:
        return exported(report, facts["format"], repository, folder, slow=facts["slow"])
    finally:
        repository.close()


TASKS: Mapping[str, Callable[[Mapping[str, Any]], bytes]] = {
    "schedule figure": _schedule_figure,
    "schedule file": _schedule_file,
    "report file": _report_file,
}


def main() -> None:
    """Do what standard input asks, and answer: a line of JSON, and behind it the content."""
    task, facts, seconds, memory = json.load(sys.stdin)
    processor = int(seconds) + 1  # it ends by itself, too, if who started it has gone
    resource.setrlimit(resource.RLIMIT_CPU, (processor, processor))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        head, content = ["", ""], TASKS[task](facts)
        if len(content) > MOST_ANSWERED:
            raise InputError(
                f"the answer has {len(content):,} bytes: a page takes {MOST_ANSWERED:,}",
                hint="ask for less; in a terminal there is no such limit",
            )
    except MemoryError:
        head, content = ["MemoryError", ""], b""
    except ZenError as error:
        head, content = [type(error).__name__, str(error)], b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + content)


if __name__ == "__main__":
    main()
