"""This machine as a place where experiments run as their submitters.

A worker for each user (`user_account_worker`) is started by a helper program of root
(`runas_helper`), and runs the experiments of that user alone, with that user's rights. What comes
back is checked like what a host sends: a worker is in the hands of its user.
"""

from __future__ import annotations

import json
import os
import socket
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from time import monotonic
from typing import Any

from zenturio.errors import ConflictError, Interrupted, PlaceError, RecordError, ZenError
from zenturio.execute import wire
from zenturio.execute.executor import CancellableFuture, ClosesOnExit
from zenturio.execute.experiment_codec import pack_experiment, unpack_outcome
from zenturio.execute.machines import own_machine
from zenturio.execute.user_account_worker import LARGEST_MESSAGE_BYTES
from zenturio.execute.wire import MalformedError, integer, list_of, record
from zenturio.experiment import INCOMING, Experiment, Outcome
from zenturio.system.machine import usable_cores

CANCEL_SECONDS = 20.0
"""Within which a worker ends a cancelled experiment; then the worker itself is killed."""
START_SECONDS = 30.0
_MOST_LOSSES = 3
"""How often an experiment is begun whose worker is lost each time."""
IDLE_SECONDS = 300.0
"""After which a worker that has nothing to run is ended."""
_ERRORS_BYTES = 4096
_LONGEST_WORDS = 200
_check_answer = record({
    "run": integer(1), "lengths": list_of(integer(0, LARGEST_MESSAGE_BYTES), 1, 1),
})  # fmt: skip


class UserTask(CancellableFuture):
    """The future of an experiment of a user."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment
        self.losses = 0
        """How many workers were lost under it."""
        self.worker: UserProcess | None = None

    def stop(self) -> None:
        worker = self.worker
        if worker is not None:
            worker.cancel(self)


class UserProcess:
    """One worker, as the service sees it: a socket to it, and one to its supervisor."""

    def __init__(self, user: str, place: RunAs) -> None:
        self.user = user
        self._place = place
        self._lock = Lock()
        self._tasks: dict[int, UserTask] = {}
        self._runs = 0
        self._last = monotonic()
        self._is_ready = self._is_lost = False
        self._outgoing: SimpleQueue[tuple[dict[str, Any], bytes] | None] = SimpleQueue()
        self._data, self._errors, self._supervisor = place.start_worker(user)
        self._outgoing.put(({"slots": place.slots, "threads": place.threads}, b""))
        self._sender, self._watcher, self._receiver = self._threads = [
            Thread(target=target, name=f"zenturio-{user}", daemon=True)
            for target in (self._send, self._watch, self._receive)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: UserTask) -> bool:
        """Take an experiment; false if this worker has ended."""
        with self._lock:
            if self._is_lost:
                return False
            self._runs += 1
            run = self._runs
            self._tasks[run] = task
            self._last = monotonic()
            task.worker = self
        # Packed by the thread that sends: it reads all files.
        self._outgoing.put(({"run": run}, b""))
        return True

    def cancel(self, task: UserTask) -> None:
        """End an experiment; a worker that does not is killed."""
        with self._lock:
            run = next((run for run, t in self._tasks.items() if t is task), None)
        if run is not None:
            self._outgoing.put(({"cancel": run}, b""))
            timer = Timer(CANCEL_SECONDS, self._check_cancelled, (run,))
            timer.daemon = True
            timer.start()

    def _check_cancelled(self, run: int) -> None:
        with self._lock:
            is_running = run in self._tasks
        if is_running:
            self.kill()

    @property
    def is_idle(self) -> bool:
        """Whether it has had nothing to run for long."""
        with self._lock:
            return not self._tasks and monotonic() > self._last + IDLE_SECONDS

    def kill(self) -> None:
        """End the worker and all that it began."""
        # The supervisor ends them with this connection, whatever the worker does.
        with suppress(OSError):
            self._supervisor.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the worker, and wait until nothing of it is left."""
        self.kill()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        while (outgoing := self._outgoing.get()) is not None:
            message, blob = outgoing
            run = message.get("run")
            try:
                if run is not None:
                    blob = pack_experiment(self._tasks[run].experiment)
                    message = {**message, "lengths": [len(blob)]}
                wire.send(self._data.fileno(), message, blob)
            except ZenError as error:
                self._settle(run or 0, error)
            except KeyError:
                continue  # it was lost meanwhile
            except OSError:
                self.kill()

    def _watch(self) -> None:
        """Wait until nothing of the worker is alive, and end its socket."""
        with suppress(OSError):
            while self._supervisor.recv(4096):
                pass
        # A user may have handed the other end to a process that no worker has begun.
        with suppress(OSError):
            self._data.shutdown(socket.SHUT_RDWR)

    def _receive(self) -> None:
        try:
            self._is_ready = wire.receive(self._data.fileno()) is not None
            while (answer := wire.receive(self._data.fileno())) is not None:
                _check_answer(answer, "an answer")
                blobs = wire.receive_blobs(self._data.fileno(), answer, most=LARGEST_MESSAGE_BYTES)
                if blobs is None:
                    break
                self._take(answer["run"], blobs[0])
        except (OSError, MalformedError):
            pass  # a user may do with a worker what they like; its tasks go to another one
        finally:
            self._end()

    def _take(self, run: int, data: bytes) -> None:
        with self._lock:
            task = self._tasks.get(run)
        if task is None:
            raise MalformedError(f"run {run} was not asked for")
        try:
            sender = f"the worker of {self.user}"
            outcome = unpack_outcome(data, task.experiment.digest, self._place.incoming, sender)
        except (ConflictError, Interrupted, RecordError) as error:
            # Of the service, these would mean that the study is to be tried again, for ever.
            self._settle(run, PlaceError(f"the worker of {self.user} failed: {error}"))
        except ZenError as error:
            self._settle(run, error)
        else:
            self._settle(run, outcome)

    def _settle(self, run: int, result: Outcome | ZenError) -> None:
        with self._lock:
            task = self._tasks.pop(run, None)
            self._last = monotonic()
        if task is not None:
            _complete(task, result)

    def _end(self) -> None:
        """After the end of the worker: nothing of it is alive, and its tasks go elsewhere."""
        self.kill()
        self._watcher.join()
        with self._lock:
            self._is_lost = True
            tasks, self._tasks = list(self._tasks.values()), {}
        self._outgoing.put(None)
        # The number of a closed descriptor may soon be that of another user's socket.
        self._sender.join()
        self._supervisor.close()
        self._data.close()
        try:
            words = os.read(self._errors, _ERRORS_BYTES).decode("utf-8", "replace")
        except OSError:
            words = ""
        os.close(self._errors)
        words = words.strip().rpartition("\n")[2][:_LONGEST_WORDS]
        for task in tasks:
            if self._is_ready or task.cancel_requested:
                self._place.resubmit(self.user, task, words)
            else:
                message = f"the worker of {self.user} does not start"
                _complete(task, PlaceError(f"{message}: {words}" if words else message))


def _complete(task: UserTask, result: Outcome | ZenError) -> None:
    if isinstance(result, ZenError):
        task.set_exception(result)
    else:
        task.set_result(result)


class RunAs(ClosesOnExit):
    """Run experiments on this machine, each as the user that it is for."""

    def __init__(self, folder: Path, helper: Path, jobs: int | None = None) -> None:
        """*helper* is the socket of root's helper; *jobs* at once, for all users together."""
        self.slots = jobs or usable_cores()
        self.threads = max(usable_cores() // self.slots, 1)
        self.machine = own_machine()
        self.incoming = folder.absolute() / INCOMING
        self._helper = helper
        self._closed = Event()
        self._lock = Lock()
        self._workers: dict[str, UserProcess] = {}

    @staticmethod
    def check(helper: Path) -> None:
        """PlaceError if this account cannot ask the program of root at *helper*."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            try:
                connection.connect(str(helper))
            except OSError as error:
                raise PlaceError(
                    f"zenturio cannot start processes as other users: {helper}: {error.strerror}",
                    hint="root starts zenturio-runas with --service and the name of this account",
                ) from error

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Refuse an experiment without a user."""
        task = UserTask(experiment)
        task.set_exception(PlaceError("this place runs an experiment only as a user"))
        return task

    def submit_as(self, user: str, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment of *user*."""
        task = UserTask(experiment)
        if task.set_running_or_notify_cancel():
            self._place(user, task)
        return task

    def resubmit(self, user: str, task: UserTask, words: str) -> None:
        """Take an experiment whose worker was lost; *words* are the last that it wrote."""
        task.losses += 1
        digest = task.experiment.digest
        if task.cancel_requested or self._closed.is_set():
            _complete(task, Outcome(digest, "cancelled", "cancelled"))
        elif task.losses >= _MOST_LOSSES:
            cause = f"the worker of {user} was lost" + (f": {words}" if words else "")
            _complete(task, Outcome(digest, "failed", cause))
        else:
            self._place(user, task)

    def _place(self, user: str, task: UserTask) -> None:
        try:
            with self._lock:
                if self._closed.is_set():
                    raise PlaceError("this place is closed")
                for idle in [w for w in self._workers.values() if w.user != user and w.is_idle]:
                    del self._workers[idle.user]
                    idle.kill()
                worker = self._workers.get(user)
                if worker is None or not worker.submit(task):
                    worker = self._workers[user] = UserProcess(user, self)
                    worker.submit(task)
        except ZenError as error:
            task.set_exception(error)

    def close(self) -> None:
        """End all workers, and all that runs."""
        with self._lock:
            self._closed.set()
            workers = list(self._workers.values())
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.close()

    def start_worker(self, user: str) -> tuple[socket.socket, int, socket.socket]:
        """Have a worker of *user* started; return its socket, its errors and its supervisor."""
        errors, errors_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        data, data_end = socket.socketpair()
        supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            supervisor.settimeout(START_SECONDS)
            supervisor.connect(str(self._helper))
            request = json.dumps({"start": user}).encode()
            socket.send_fds(supervisor, [request], [data_end.fileno(), errors_end])
            answer = json.loads(supervisor.recv(4096) or b"{}")
            supervisor.setblocking(True)
            reason = "" if "started" in answer else answer.get("refused", "it ended")
        except (OSError, ValueError) as error:
            reason = str(error)
        finally:
            data_end.close()
            os.close(errors_end)
        if reason:
            data.close()
            os.close(errors)
            supervisor.close()
            raise PlaceError(
                f"zenturio cannot start processes as {user}: {reason}",
                hint=f"zenturio-runas listens at {self._helper}; it starts members of its group",
            )
        return data, errors, supervisor
