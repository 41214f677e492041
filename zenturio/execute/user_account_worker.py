"""
A worker of one user: runs packed experiments that come through a socket, many at a time.

    python -m zenturio.execute.user_account_worker

A service has it started as the user who submitted a study (`runas_helper`), with one end of a
socket as standard input, in a folder of its own. The first message says how experiments are run,
each other one brings an experiment or cancels one, as in `wire`; each answer is an outcome. The end
of the socket, or SIGTERM, ends all that runs.
"""

from __future__ import annotations

import signal
import sys
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from zenturio.errors import PlaceError, ZenError
from zenturio.execute import wire
from zenturio.execute.experiment_codec import pack_failure, pack_outcome, unpack_experiment
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.folder_files import remove_tree
from zenturio.execute.local import Local
from zenturio.execute.local_runner import RunnerSettings
from zenturio.experiment import INCOMING, Outcome
from zenturio.system.processes import die_with_parent

LARGEST_MESSAGE_BYTES = 2**30
"""Of an experiment, or of an outcome, with its files."""


class UserWorker:
    """Runs what comes through *descriptor* below *folder*."""

    def __init__(self, descriptor: int, folder: Path) -> None:
        self._descriptor = descriptor
        self._folder = folder
        self._futures: dict[int, Future[Outcome]] = {}
        self._ended: SimpleQueue[tuple[int, Future[Outcome]] | None] = SimpleQueue()

    def run(self) -> None:
        """Run what comes until nothing more can come."""
        greeting = wire.receive(self._descriptor)
        if greeting is None:
            return
        wire.send(self._descriptor, {"ready": True})
        settings = RunnerSettings(threads=greeting["threads"])
        answering = Thread(target=self._answer, name="zenturio-answers")
        answering.start()
        try:
            with Local(self._folder, greeting["slots"], settings=settings) as place:
                while (message := wire.receive(self._descriptor)) is not None:
                    if "cancel" in message:
                        if (future := self._futures.get(message["cancel"])) is not None:
                            future.cancel()
                    elif not self._begin(place, message["run"], message):
                        break
        finally:
            self._ended.put(None)
            answering.join()

    def _begin(self, place: Local, run: int, message: dict[str, object]) -> bool:
        """Take an experiment; false where the rest of it does not come."""
        blobs = wire.receive_blobs(self._descriptor, message, most=LARGEST_MESSAGE_BYTES)
        if blobs is None:
            return False
        try:
            future = place.submit(unpack_experiment(b"".join(blobs)))
        except ZenError as error:
            future = Future()
            future.set_exception(error)
        self._futures[run] = future
        future.add_done_callback(lambda done: self._ended.put((run, done)))
        return True

    def _answer(self) -> None:
        """Send outcomes as they come; who asked may be slow to read them."""
        while (ended := self._ended.get()) is not None:
            run, future = ended
            del self._futures[run]
            data = self._packed(future)
            with suppress(OSError):  # the service has gone, and this worker will, too
                wire.send(self._descriptor, {"run": run, "lengths": [len(data)]}, data)

    def _packed(self, future: Future[Outcome]) -> bytes:
        try:
            outcome = future.result()
            with disk_errors(self._folder):
                data = pack_outcome(outcome)
                for name in {
                    a.kept.relative_to(self._incoming).parts[0] for a in outcome.artifacts
                }:
                    remove_tree(str(self._incoming / name))
        except CancelledError:
            return pack_failure(PlaceError("it was cancelled before it began"))
        except ZenError as error:
            return pack_failure(error)
        if len(data) > LARGEST_MESSAGE_BYTES:
            return pack_failure(PlaceError("its artifacts have more than 1 GiB together"))
        return data

    @property
    def _incoming(self) -> Path:
        return self._folder.absolute() / INCOMING


def main() -> None:
    """Serve the socket that is standard input."""
    die_with_parent(signal.SIGKILL)
    sys.set_int_max_str_digits(0)  # metrics have as many digits as they have
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    UserWorker(0, Path.cwd()).run()


if __name__ == "__main__":
    main()
