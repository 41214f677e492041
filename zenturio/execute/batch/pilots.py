"""
Workers of Dask that stay, in jobs of their own: short experiments go to them.

They are begun when experiments turn out to be short, and take what is left as soon as the first of
them is there; until then, and if they fail, job arrays are used. What they do not see to its end
gets a job of its own. Nothing of theirs outlives the driver: what they had is run again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from statistics import median
from threading import Event, Lock, Thread
from time import monotonic
from typing import Literal

from zenturio.errors import ZenError
from zenturio.execute.batch.system import WORKER_BYTES, BatchOptions, PilotWorkers
from zenturio.execute.batch.tickets import BatchTicket, cancelled_outcome
from zenturio.experiment import Outcome
from zenturio.expression import parse
from zenturio.settings.schema import setting

_log = logging.getLogger(__name__)

SHORT_SECONDS = 5.0
"""Seconds below which an experiment is not worth a job of its own."""
LONG_SECONDS = 10.0
"""Seconds from which it is."""
LEAST_MEASURED = 20
"""So many experiments are measured before anything is made of their duration."""
IDLE_SECONDS = 60.0
"""Seconds after which pilots end that have nothing to do: somebody pays for them."""
LATE_SECONDS = 120.0
"""Seconds after which a note reports that none has started."""
CLOSING_SECONDS = 90.0
"""Seconds that closing waits for them, which may just be submitted: each step has a deadline."""
MOST_FAULTS = 3
"""So often they may fail to run something before all goes to job arrays again."""
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class PilotOptions(BatchOptions):
    """Settings of pilots: jobs whose worker stays and runs one experiment after the other."""

    pilots: Literal["auto", "never", "always"] = setting(
        "auto", "whether pilot jobs (Dask workers in jobs) run short experiments"
    )
    pilot_jobs: int = setting(4, "number of pilot jobs", low=1, high=100_000)
    pilot_cores: int = setting(
        4, "CPUs of each pilot job, and experiments in it at a time", low=1, high=4096
    )
    pilot_memory: str = setting("2GB", "memory of each pilot job")
    pilot_time: str = setting("01:00:00", "time limit of each pilot job")
    interface: str = setting(
        "", "network interface through which pilot jobs reach this machine: ib0"
    )


class Pilots:
    """The pilot jobs of one driver, and the decision by recent measurements to use them."""

    def __init__(
        self,
        options: PilotOptions | None,
        make: Callable[[], PilotWorkers],
        remark: Callable[[str], None],
        on_ready: Callable[[], None],
        resubmit: Callable[[BatchTicket], None],
    ) -> None:
        """*on_ready* is called when one is running, *resubmit* with experiments that need a job of
        their own.

        Without *options* there are none.
        """
        self._options = options or PilotOptions(pilots="never")
        self._make, self._remark, self._on_ready, self._resubmit = make, remark, on_ready, resubmit
        self._memory = _read_bytes(self._options.pilot_memory)
        self._always = self._wanted = self._options.pilots == "always"
        self._obstacle = _why_no_pilots(self._options)
        self._durations: deque[float] = deque(maxlen=LEAST_MEASURED)
        self._recent = self._faults = self._in_flight = 0
        self._last_used = monotonic()
        self._is_decided = options is None
        """Whether the note that none are used was printed."""
        self._lock = Lock()
        self._closed = Event()
        self._thread: Thread | None = None
        self._place: PilotWorkers | None = make() if self._always else None
        """Where they are, as soon as one of them is there."""

    @property
    def are_ready(self) -> bool:
        """Whether pilot jobs are used now."""
        return self._wanted and self._place is not None

    @property
    def wants(self) -> int:
        """How many experiments they like to have."""
        place = self._place
        return place.wants if place is not None and self._wanted else 0

    def takes(self, ticket: BatchTicket) -> bool:
        """Return whether *ticket* is for them now."""
        demand, options = ticket.demand, self._options
        fits = (
            demand.cpus <= options.pilot_cores
            and (demand.memory or 0) + WORKER_BYTES <= self._memory
        )
        return self.are_ready and fits and not ticket.alone

    def learn(self, seconds: float) -> None:
        """Note the duration of an experiment."""
        with self._lock:
            self._durations.append(seconds)
            count, usual = len(self._durations), median(self._durations)
        # Two limits, SHORT and LONG, with room between them: durations that vary around one limit
        # would send experiments to and fro.
        if self._always or count < LEAST_MEASURED or self._is_decided:
            return
        if self._wanted and usual >= LONG_SECONDS:
            self._wanted = False
            self._remark(f"experiments of {usual:.2g} s get jobs of their own again")
        elif not self._wanted and usual < SHORT_SECONDS and self._obstacle:
            self._is_decided = True
            self._remark(
                f"experiments of {usual:.2g} s are too short for a job each: pilot jobs would "
                f"run many of them, but {self._obstacle}"
            )
        elif not self._wanted and usual < SHORT_SECONDS:
            self._wanted = True

    def begin(self, waiting: int) -> bool:
        """So many wait: begins pilots if they are worth it, and whether it did."""
        if not self._wanted or (waiting < LEAST_MEASURED and self._recent < LEAST_MEASURED // 2):
            return False
        with self._lock:
            if self._thread is not None or self._always or self._closed.is_set():
                return False
            self._thread = Thread(target=self._loop, name="zenturio-pilots", daemon=True)
            usual = median(self._durations)
        many, cores = self._options.pilot_jobs, self._options.pilot_cores
        self._remark(
            f"experiments of {usual:.2g} s are too short for a job each: the others go to pilot "
            f"jobs (jobs: {many}, CPUs of each: {cores}) as soon as one is there"
        )
        self._thread.start()
        return True

    def count_submission(self) -> None:
        """Add an experiment to run."""
        self._recent += self._wanted

    def run(self, ticket: BatchTicket) -> bool:
        """Has them run *ticket*, which nobody else has; false if they have just gone."""
        with self._lock:
            place = self._place
            if place is None:
                return False
            self._in_flight += 1
        inner = place.submit(ticket.experiment)
        ticket.delegate(inner)
        # What pilots lose comes back as cancelled: it then gets a job of its own.
        inner.add_done_callback(lambda completed: self._on_done(ticket, completed))
        return True

    def close(self) -> None:
        """End them, with all that they run."""
        with self._lock:
            self._closed.set()
            thread, place = self._thread, self._place
        if thread is not None:
            thread.join(CLOSING_SECONDS)
        elif place is not None:
            place.close()

    def _loop(self) -> None:
        """Begin them, waits for the first, and ends them when they have nothing to do."""
        try:
            place = self._make()
        except ZenError as error:
            self._give_up(str(error))
            return
        late = monotonic() + LATE_SECONDS
        while not self._closed.wait(_POLL_SECONDS):
            if self._place is None and place.has_workers:
                self._last_used = monotonic()
                self._place = place
                self._on_ready()
            elif self._place is None and monotonic() > late:
                # Said once; the jobs of pilots may still begin, and job arrays go on meanwhile.
                late = float("inf")
                self._remark(
                    "no pilot job has connected yet, so job arrays continue: the pilot jobs "
                    "wait in the queue, or do not reach this machine (see squeue and the files "
                    "in places/jobs)"
                )
            elif self._place is not None and self._should_end():
                break
        place.close()
        with self._lock:
            self._thread = None
            self._recent = 0

    def _should_end(self) -> bool:
        """Return whether they are to end; then nothing is handed to them any more."""
        with self._lock:
            idle = not self._in_flight and monotonic() - self._last_used > IDLE_SECONDS
            if idle or self._faults >= MOST_FAULTS:
                self._place = None
            return self._place is None

    def _give_up(self, why: str) -> None:
        _log.info("pilot jobs are no longer used: %s", why)
        self._is_decided, self._wanted = True, False
        self._remark(f"pilot jobs are no longer used, and job arrays continue: {why}")

    def _on_done(self, ticket: BatchTicket, inner: Future[Outcome]) -> None:
        """Settle an experiment of a pilot job; one that was stopped from outside gets a job of its
        own.
        """
        with self._lock:
            self._in_flight -= 1
            self._last_used = monotonic()
        error = None if inner.cancelled() else inner.exception()
        outcome = (
            cancelled_outcome(ticket.digest, None) if inner.cancelled() or error else inner.result()
        )
        lost = outcome.status == "cancelled"
        if ticket.cancel_requested or self._closed.is_set():
            ticket.set_result(cancelled_outcome(ticket.digest, outcome))
        elif lost:
            self._resubmit_lost(ticket, error, outcome.cause)
        else:
            if outcome.status == "ok":
                self.learn(outcome.ended - outcome.started)
            ticket.set_result(outcome)

    def _resubmit_lost(self, ticket: BatchTicket, error: BaseException | None, cause: str) -> None:
        why = str(error) if error else cause
        if error is not None and self._always:
            ticket.set_exception(error)
            return
        self._remark(f"experiments that a pilot job does not finish get jobs of their own: {why}")
        if error is not None:
            self._faults += 1
            if self._faults == MOST_FAULTS:
                self._give_up(why)
        # Never twice to pilots: an experiment that takes its worker down would take the next, too.
        ticket.alone = True
        ticket.delegate(None)
        try:
            self._resubmit(ticket)
        except ZenError as fault:
            ticket.set_exception(fault)


def _why_no_pilots(options: PilotOptions) -> str:
    """Return why no pilot jobs are used, as a message; nothing if there may be."""
    if options.pilots == "never":
        return 'pilots = "never"'
    if options.pilots == "auto" and options.folder:
        return "pilot jobs need a project folder that the nodes see, and folder names another one"
    if options.pilots == "auto" and options.extra:
        return (
            "extra may request something for each job alone: "
            'pilots = "always" passes it to the pilot jobs'
        )
    return ""


def _read_bytes(text: str) -> float:
    """Return what *text* says, as far as it can be read: Dask reads it itself."""
    try:
        return float(parse(text).value({}) or 0)
    except (ZenError, TypeError, ValueError):
        return float("inf")
