"""``zen serve`` as a process: places, the thread that serves, the pages, and their common end."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from zenturio.execute import Executor
from zenturio.execute.places import open_place
from zenturio.record.open import FOLDER, open_repository, project_folder
from zenturio.study.house import House
from zenturio.study.queueing import choose_policy
from zenturio.study.serving import Serving
from zenturio.study.submitting import alone
from zenturio.study.wishes import Wishes


def serve_here(
    host: str | None, port: int | None, policy: str, on: Sequence[str], jobs: int | None,
    db: str | None,
) -> None:  # fmt: skip
    """Serve the project until somebody stops it."""
    project = project_folder()
    house = _house(project, host, port, policy, on)
    with ExitStack() as stack:
        stack.enter_context(alone(project / FOLDER))
        repository = open_repository(db)
        stack.callback(repository.close)
        places: dict[str, Executor] = {}
        for name in house.places:
            opened = open_place(name, project / FOLDER, jobs, keep="failed")
            places[name] = stack.enter_context(opened)
        serving = Serving(repository, places, house.policy, _tell, Wishes(project / FOLDER))
        slots = ", ".join(f"{each.slots} on {name}" for name, each in places.items())
        _tell(f"serving {project}: slots {slots}; policy {house.policy}")
        over = threading.Event()
        with _stopping(over):
            serving.run(over)


def _house(
    project: Path, host: str | None, port: int | None, policy: str, on: Sequence[str]
) -> House:
    """What the file says, and options say otherwise."""
    house = House.of(project)
    if host is not None:
        house = replace(house, host=host)
    if port is not None:
        house = replace(house, port=port)
    if policy:
        house = replace(house, policy=choose_policy(policy))
    return replace(house, places=tuple(dict.fromkeys(on))) if on else house


def _tell(words: str) -> None:
    typer.echo(words)


@contextmanager
def _stopping(over: threading.Event) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a lost terminal end the service."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: over.set()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
