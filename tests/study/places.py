"""Places in this process that do what real ones do on their bad days."""

import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Thread

from zenturio.experiment import Experiment, Outcome
from zenturio.study.driver.progress import RunSummary
from zenturio.study.driver.study_driver import StudyDriver
from zenturio.testing.repository import outcome


def good(experiment: Experiment) -> Outcome:
    """What most experiments give."""
    return outcome(experiment, value=experiment.index)


class Scrambled:
    """Ends what it has in any order, from a thread of its own; counts how often each was run."""

    def __init__(
        self, result: Callable[[Experiment], Outcome] = good, slots: int = 2, seed: int = 0
    ) -> None:
        self.slots = slots
        self.ran: list[str] = []
        self._result = result
        self._random = random.Random(seed)
        self._waiting: list[tuple[Experiment, Future[Outcome]]] = []
        self._came = Event()
        self._closed = False
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self._waiting.append((experiment, future))
        self._came.set()
        return future

    def close(self) -> None:
        self._closed = True
        self._came.set()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def _work(self) -> None:
        while True:
            if not self._waiting:
                self._came.wait()
                self._came.clear()
                if self._closed:
                    return
                continue
            at = self._random.randrange(len(self._waiting))
            experiment, future = self._waiting.pop(at)
            if future.set_running_or_notify_cancel():
                self._end(experiment, future)

    def _end(self, experiment: Experiment, future: Future[Outcome]) -> None:
        self.ran.append(experiment.digest)
        try:
            future.set_result(self._result(experiment))
        except Exception as error:  # noqa: BLE001 - the place fails as the test wants it to
            future.set_exception(error)


class Killable(Future):
    """A future that can be cancelled while it runs, as the places promise."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self.experiment = experiment

    def cancel(self) -> bool:
        if super().cancel():
            return True
        if self.done():
            return False
        self.set_result(outcome(self.experiment, "cancelled"))
        return True


class Held:
    """Begins as many as it has slots, and ends them when the test says so."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.begun: dict[str, Killable] = {}
        self._waiting: list[Killable] = []

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        future = Killable(experiment)
        self._waiting.append(future)
        self._begin()
        return future

    def close(self) -> None:
        for future in (*self.begun.values(), *self._waiting):
            future.cancel()

    def end(self, digest: str, result: Outcome | None = None) -> None:
        """Lets one end."""
        future = self.begun.pop(digest)
        future.set_result(result or good(future.experiment))
        self._begin()

    def end_all(self) -> None:
        """Lets all end that have begun, and none begin instead."""
        begun, self.begun = self.begun, {}
        for future in begun.values():
            if not future.done():
                future.set_result(good(future.experiment))

    def _begin(self) -> None:
        while self._waiting and len(self.begun) < self.slots:
            future = self._waiting.pop(0)
            if future.set_running_or_notify_cancel():
                self.begun[future.experiment.digest] = future


class Drivers:
    """Runs that are driven in threads; what a failed test leaves behind is stopped."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor()
        self._driven: list[tuple[StudyDriver, Future[RunSummary]]] = []

    def __enter__(self):
        return self

    def submit(self, run: StudyDriver) -> Future[RunSummary]:
        """Drives it."""
        done = self._pool.submit(run.drive)
        self._driven.append((run, done))
        return done

    def __exit__(self, *_error):
        for run, done in self._driven:
            if not done.done():
                run.stop()
                run.stop()
        self._pool.shutdown()
