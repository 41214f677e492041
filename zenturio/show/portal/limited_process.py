"""Work for a page in a process of its own, with limits of time and memory.

A schedule is computed for a URL, and takes an unpredictable time. A thread could not be stopped,
and its memory would be that of the portal; a process can be killed.
"""

from __future__ import annotations

import errno
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

CONCURRENT_PROCESSES = 2
"""Processes at a time: pages need threads and studies need cores, too."""
QUEUE_SECONDS = 10.0
"""For which a request waits for a slot."""
MOST_ANSWER_BYTES = 32_000_000
"""Bytes of an answer."""
_slots = BoundedSemaphore(CONCURRENT_PROCESSES)


@dataclass(frozen=True)
class ProcessLimits:
    """What one request may use."""

    seconds: float = 40.0
    memory: int = 2 * 2**30
    """Bytes of address space: loaded libraries take 0.4 GiB of it."""


def run_limited(
    task: str, arguments: Mapping[str, Any], limits: ProcessLimits = ProcessLimits()
) -> bytes:
    """Return the result of *task*, one of TASKS, with *arguments*.

    Raise the errors of the task as they are, and PlaceError if it reaches a limit.
    """
    request = json.dumps([task, arguments, limits.seconds, limits.memory]).encode()
    with _slot(), _start() as process:
        try:
            answer, _ = process.communicate(request, limits.seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise _time_limit_error(limits) from None
    if process.returncode == -signal.SIGXCPU:
        raise _time_limit_error(limits)
    return _read_answer(answer, limits)


def _time_limit_error(limits: ProcessLimits) -> PlaceError:
    return PlaceError(
        f"it took longer than {limits.seconds:g} seconds, the limit of a page",
        hint="request less; in a terminal there is no such limit",
    )


def _start() -> subprocess.Popen[bytes]:
    """Return a process in a session of its own, so that its children can be killed with it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


@contextmanager
def _slot() -> Iterator[None]:
    if not _slots.acquire(timeout=QUEUE_SECONDS):
        raise ConflictError("too many charts are being drawn", hint="try again in a few seconds")
    try:
        yield
    finally:
        _slots.release()


def _read_answer(answer: bytes, limits: ProcessLimits) -> bytes:
    head, _, content = answer.partition(b"\n")
    try:
        error, text = json.loads(head)
    except ValueError:  # it was killed, or a library exited
        error, text = "MemoryError", ""
    if error == "MemoryError":
        raise PlaceError(
            f"it needs more than {limits.memory / 2**30:.3g} GiB of memory, the limit of a page",
            hint="request less; in a terminal there is no such limit",
        )
    if error:
        raise _error_class(error)(text)
    return content


def _error_class(name: str) -> type[ZenError]:
    error_class = getattr(errors, name, None)
    return (
        error_class
        if isinstance(error_class, type) and issubclass(error_class, ZenError)
        else PlaceError
    )


def _schedule_figure(arguments: Mapping[str, Any]) -> bytes:
    from zenturio.show.portal.chart_json import figure_json  # noqa: PLC0415

    figures = [
        figure_json(chart, dark=arguments["dark"]) | {"selection": None}
        for chart in _schedule_charts(arguments)
    ]
    return json.dumps({"figures": figures, "sql": "", "chosen": {}}).encode()


def _schedule_file(arguments: Mapping[str, Any]) -> bytes:
    from zenturio.show.report_store import chart_bytes  # noqa: PLC0415 - only for files

    return chart_bytes(_schedule_charts(arguments)[0], arguments["format"])


def _schedule_charts(arguments: Mapping[str, Any]) -> Any:
    from zenturio.show.charts.chart_query import ScheduleQuery, schedule_charts  # noqa: PLC0415 - loads numba

    query = ScheduleQuery.from_address(arguments["query"].items())
    return schedule_charts(query, Path(arguments["folder"]), slow=arguments["slow"])


def _report_file(arguments: Mapping[str, Any]) -> bytes:
    from zenturio.record.open import open_repository  # noqa: PLC0415 - only one task needs it
    from zenturio.show.markdown_report import parse_report  # noqa: PLC0415
    from zenturio.show.report_store import export_report  # noqa: PLC0415

    report, folder = parse_report(arguments["text"], arguments["name"]), Path(arguments["folder"])
    repository = open_repository(arguments["db"], create=False, finds_unique=True)
    try:
        return export_report(
            report, arguments["format"], repository, folder, slow=arguments["slow"]
        )
    finally:
        repository.close()


TASKS: Mapping[str, Callable[[Mapping[str, Any]], bytes]] = {
    "schedule figure": _schedule_figure,
    "schedule file": _schedule_file,
    "report file": _report_file,
}


def _run_task(task: str, arguments: Mapping[str, Any]) -> bytes:
    content = TASKS[task](arguments)
    if len(content) > MOST_ANSWER_BYTES:
        raise InputError(
            f"the answer has {len(content):,} bytes; a page allows {MOST_ANSWER_BYTES:,}",
            hint="request less; in a terminal there is no such limit",
        )
    return content


def main() -> None:
    """Run the task in standard input; write a line of JSON and then the content."""
    task, arguments, seconds, memory = json.load(sys.stdin)
    cpu_seconds = int(seconds) + 1  # it also ends by itself, if the portal was killed
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        head, content = ["", ""], _run_task(task, arguments)
    except MemoryError:
        head, content = ["MemoryError", ""], b""
    except ZenError as error:
        head, content = [type(error).__name__, str(error)], b""
    except Exception as error:  # noqa: BLE001 - an uncaught one would look like a lack of memory
        # With little memory, libraries fail to load, and the system says ENOMEM.
        if isinstance(error, ImportError) or getattr(error, "errno", None) == errno.ENOMEM:
            head, content = ["MemoryError", ""], b""
        else:
            text = f"the page could not be made: {type(error).__name__}: {error}"
            head, content = ["PlaceError", text], b""
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + content)


if __name__ == "__main__":
    main()
