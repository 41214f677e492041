"""Machines that are reached over SSH as an executor: opened, surveyed, and seen from outside."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread, current_thread
from time import monotonic
from typing import Any

from zenturio import trust
from zenturio.errors import PlaceError
from zenturio.execute.executor import ClosesOnExit, Progress
from zenturio.execute.file_staging import disk_errors
from zenturio.execute.hosts.attempt_journal import AttemptJournal, EventLog
from zenturio.execute.hosts.attempt_manager import AttemptManager, AttemptServices, OutcomeBuilder
from zenturio.execute.hosts.broker import Broker, HostJob
from zenturio.execute.hosts.connection import DroppedError, RequestFailedError
from zenturio.execute.hosts.host_choice import JobRequirements
from zenturio.execute.hosts.hosts_file import HostMachine, HostsFile, read_hosts_file
from zenturio.execute.hosts.prolog_epilog import Stages
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.execute.wire import MalformedError, read_json
from zenturio.execute.workspace import Keep
from zenturio.experiment import INCOMING, Experiment, MachineKind, Outcome
from zenturio.experiment.experiment import Kinds
from zenturio.expression import Value
from zenturio.files import read_regular
from zenturio.settings.schema import setting

_ENDING_SECONDS = 20.0
"""Seconds within which hosts end cancelled experiments."""


class HostsOutstanding:
    """The experiments of a project at its hosts, of any driver."""

    def __init__(self, folder: Path, file: Path) -> None:
        self._folder = folder
        self._file = file

    def stages(self) -> Mapping[str, Progress]:
        """Return how far each experiment is there, by digest."""
        journal = AttemptJournal(self._folder)
        try:
            return {digest: _progress_of(journal, digest) for digest in journal.digests()}
        finally:
            journal.close()

    def drained(self) -> Mapping[str, str]:
        """Return the hosts that get nothing new, and why."""
        journal = AttemptJournal(self._folder)
        try:
            return journal.drained()
        finally:
            journal.close()

    def cancel(self, digests: Collection[str]) -> int:
        """End those of *digests* whose drivers are dead; how many there were.

        At a host that cannot be reached they end when a driver reaches it.
        """
        journal = AttemptJournal(self._folder)
        events = EventLog(journal.folder)
        try:
            names = set()
            count = 0
            for digest in digests:
                attempt = journal.attempt(digest)
                if attempt is None or journal.is_driven(attempt) or journal.has_ended(digest):
                    continue
                journal.forget(digest)
                events.note("failed", digest, attempt.host, "cancelled")
                names.add(attempt.host)
                count += 1
            if names:
                self._tell(names, journal)
            return count
        finally:
            journal.close()

    def _tell(self, names: Collection[str], journal: AttemptJournal) -> None:
        """Has hosts end what counts no longer, which they do when one comes."""
        configuration = read_hosts_file(self._file)
        trust.require(self._folder, configuration.texts())
        hosts = [
            RemoteHost(
                machine,
                configuration.options,
                journal.owner,
                {},
                journal.counts,
                lambda _host: None,
            )
            for machine in configuration.discovered()
            if machine.name in names
        ]
        end = monotonic() + _ENDING_SECONDS
        for host in hosts:
            host.first.wait(max(end - monotonic(), 0.0))
        for host in hosts:
            host.tidy(max(end - monotonic(), 0.0))
            host.close()


def _progress_of(journal: AttemptJournal, digest: str) -> Progress:
    if journal.has_ended(digest):
        return "ended"
    return "running" if journal.attempt(digest) is not None else "queued"


_MOST_MESSAGES = 100
_LARGEST_FACTS = 2**24
"""Bytes of what is known of hosts."""
_CLOSING_SECONDS = 20.0
"""Seconds within which what runs is ended, at the most."""


@dataclass(frozen=True)
class HostsSettings:
    """What can be set in zenturio.toml; all else stands in the file of hosts."""

    file: str = setting("hosts.toml", "the file that lists the hosts")


_DEFAULTS = HostsSettings()


class Hosts(ClosesOnExit):
    """Run experiments over SSH on the hosts of a file.

    *folder*, in the project, records which host has which experiment.
    """

    Options = HostsSettings

    def __init__(
        self,
        folder: Path = Path(".zenturio"),
        jobs: int | None = None,
        *,
        keep: Keep = "never",  # noqa: ARG002 - folders at hosts never stay
        pin: bool = False,  # noqa: ARG002 - hosts pin nothing
        options: HostsSettings = _DEFAULTS,
        configuration: HostsFile | None = None,
        stages: Stages | None = None,
    ) -> None:
        """*jobs* at once, at all hosts together; by default as many as they have slots."""
        if configuration is None:
            configuration = read_hosts_file(_hosts_file(folder, options))
            trust.require(folder.absolute(), configuration.texts())
        self._configuration = configuration
        self.options = self._configuration.options
        self._folder = folder.absolute()
        self._journal = AttemptJournal(folder)
        self.events = EventLog(self._journal.folder)
        self.remarks: deque[str] = deque(maxlen=_MOST_MESSAGES)
        stages = stages or Stages.of(self.options)
        self._broker = Broker(self.options, jobs, stages.selector, self._start_attempt)
        self._agents: set[Thread] = set()
        self._turn = Lock()
        self._closed = Event()
        self._stuck = False
        """Whether nothing runs although jobs wait: it was told."""
        self._delivered: set[str] = set()
        """Experiments whose outcomes this driver has received."""
        self._stored_facts = read_facts(self._journal.folder)
        self._services = AttemptServices(
            self.options,
            stages,
            self._journal,
            self.events,
            OutcomeBuilder(self._folder / INCOMING),
            self._broker,
        )
        self._update_hosts(self._configuration.discovered())
        if self.options.discover:
            Thread(target=self._discover, name="zenturio-discovery", daemon=True).start()
        try:
            self.slots = self._slots(jobs)
        except BaseException:
            self.close()
            raise

    @property
    def hosts(self) -> list[RemoteHost]:
        """All hosts, with what is known of them."""
        return self._broker.hosts

    def host(self, name: str) -> RemoteHost | None:
        """Return the host of that name, if there is one."""
        return self._broker.host(name)

    @property
    def machines(self) -> Kinds:
        """The kinds of machine of the hosts that are connected."""
        return frozenset(host.kind for host in self.hosts if host.is_up and host.kind is not None)

    def slots_of(self, machine: MachineKind) -> int:
        """Return how many experiments the hosts of that kind run at once."""
        return min(sum(host.slots for host in self.hosts if host.kind == machine), self.slots)

    def submit(self, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment; one that an earlier driver began goes on, or has ended already."""
        return self._submit(experiment)

    def submit_to(self, machine: MachineKind, experiment: Experiment) -> Future[Outcome]:
        """Take an experiment that only hosts of that kind may run."""
        return self._submit(experiment, machine)

    def _submit(self, experiment: Experiment, kind: MachineKind | None = None) -> Future[Outcome]:
        requirements = JobRequirements.of(experiment, self.options.require, self.options.rank)
        job = HostJob(experiment, max(host.slots for host in self.hosts), requirements, kind)
        if self._closed.is_set():
            job.set_exception(PlaceError("this place is closed"))
            return job
        refusal = self._broker.refusal(job)
        if refusal is not None:
            job.set_exception(refusal)
        # What a killed driver began still runs at its host: a second start would run it twice.
        elif not self._adopt(job):
            self.events.note("submitted", job.digest)
            self._broker.put(job)
        return job

    def alone(self, name: str) -> AbstractContextManager[None]:
        """Return the only one in the project that has *name*; ConflictError else."""
        return self._journal.alone(name)

    def forget(self, digest: str) -> None:
        """Remove the files of an experiment whose outcome is recorded."""
        self._delivered.discard(digest)
        self._journal.forget(digest)

    def close(self) -> None:
        """Kill what runs, cancel what waits, and let go of the hosts.

        Outcomes stay until they are forgotten: the next driver finds them.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        waiting, running = self._broker.close()
        for job in waiting:
            self._services.cancel_waiting_job(job)
        for job in running:
            job.cancel()
        end = monotonic() + _CLOSING_SECONDS
        for thread in list(self._agents):
            thread.join(max(end - monotonic(), 0.0))
        for host in self.hosts:
            host.tidy(max(end - monotonic(), 0.0))
        with suppress(OSError):
            write_facts(self._journal.folder, self.hosts)
        for host in self.hosts:
            host.close()
        self._journal.close()

    @staticmethod
    def left(folder: Path, options: HostsSettings) -> HostsOutstanding:
        """Return what drivers have at the hosts of a file."""
        return HostsOutstanding(folder, _hosts_file(folder, options))

    def check(self) -> Iterable[str]:
        """What is wrong with hosts, in words."""
        for host in self.hosts:
            if not host.is_up or host.fault:
                yield f"{host.name}: {host.fault}"

    def suspend(self, digest: str, *, resume: bool = False) -> bool:
        """Suspend or resume the processes of a running experiment; whether it runs."""
        attempt = self._journal.attempt(digest)
        host = self._broker.host(attempt.host) if attempt else None
        if attempt is None or host is None:
            return False
        try:
            host.ask("signal", token=attempt.token, signal="CONT" if resume else "STOP")
        except (DroppedError, RequestFailedError):
            return False
        return True

    def _update_hosts(self, machines: Iterable[HostMachine]) -> None:
        """New machines become hosts; those that are gone get nothing more."""
        machines_by_name = {machine.name: machine for machine in machines}
        present = {host.name for host in self.hosts}
        for host in self.hosts:
            host.leaving = host.name not in machines_by_name
        for name, machine in machines_by_name.items():
            if name in present:
                continue
            facts = self._stored_facts.get(name, {})
            facts = facts if facts.get("address") == machine.address else {}
            self._broker.add(
                RemoteHost(
                    machine, self.options, self._journal.owner, facts, self._journal.counts,
                    self._changed,
                )
            )  # fmt: skip

    def _slots(self, jobs: int | None) -> int:
        """Return how many at once; PlaceError where no host can be reached."""
        end = monotonic() + 3 * self.options.connect
        for host in self.hosts:
            host.first.wait(max(end - monotonic(), 0.0))
        if not any(host.is_up for host in self.hosts):
            why = "\n".join(f"{host.name}: {host.fault}" for host in self.hosts)
            raise PlaceError("no host can be reached", hint=why)
        slots = sum(host.slots for host in self.hosts)
        return max(min(slots, jobs or slots), 1)

    def _adopt(self, job: HostJob) -> bool:
        """Return whether an earlier driver has begun it: then it goes on from there."""
        if job.digest in self._delivered:  # by this one, which wants another attempt
            self.forget(job.digest)
        job.add_done_callback(lambda _done: self._delivered.add(job.digest))
        outcome = self._journal.outcome(job.digest)
        # Measured on a kind of machine that this job must not use: it has to run again.
        if outcome is not None and outcome.machine is not None and not job.suits(outcome.machine):
            self._journal.forget(job.digest)
            return False
        if outcome is not None:
            job.set_running_or_notify_cancel()
            self.events.note("adopted", job.digest, outcome.host, "ended")
            job.set_result(replace(outcome, attempt=1))
            return True
        attempt = self._journal.attempt(job.digest)
        host = self._broker.host(attempt.host) if attempt else None
        if host is None or not job.suits(host.kind):
            self._journal.forget(job.digest)
            return False
        job.set_running_or_notify_cancel()
        self._broker.adopt(job, host)
        return True

    def _start_attempt(self, job: HostJob, host: RemoteHost) -> None:
        """An agent for an attempt, in a thread of its own."""
        agent = AttemptManager(self._services, job, host)
        thread = Thread(target=self._run, args=(agent,), name="zenturio-agent", daemon=True)
        # Both under the lock: an agent that ends at once must find itself in the set to leave it.
        with self._turn:
            self._agents.add(thread)
            thread.start()

    def _run(self, agent: AttemptManager) -> None:
        try:
            agent.run()
        finally:
            with self._turn:
                self._agents.discard(current_thread())

    def _changed(self, host: RemoteHost) -> None:
        """Heard in the host's thread."""
        if host.announced != host.is_up:
            if host.announced is not None or not host.is_up:
                self.remarks.append(f"{host.name}: {'it is back' if host.is_up else host.fault}")
            host.announced = host.is_up
            self.events.note("up" if host.is_up else "down", host=host.name, why=host.fault)
        if host.announced_drain_reason != host.drain_reason:
            host.announced_drain_reason = host.drain_reason
            self.remarks.append(f"{host.name}: {host.drain_reason or 'it is taken back'}")
            self.events.note(
                "drained" if host.drain_reason else "taken back",
                host=host.name,
                why=host.drain_reason,
            )
            self._journal.keep_drained(
                {h.name: h.drain_reason for h in self.hosts if h.drain_reason}
            )
        if host.drain_reason:
            self._broker.reject_impossible()
        self._broker.rebalance()
        stuck = self._broker.stuck() if host.is_up else ""
        if stuck and not self._stuck:
            self.remarks.append(stuck)
        self._stuck = bool(stuck)

    def _discover(self) -> None:
        while not self._closed.wait(self.options.exists):
            with suppress(PlaceError):  # as it was, then
                self._update_hosts(self._configuration.discovered())
                self._broker.rebalance()


def _hosts_file(folder: Path, options: HostsSettings) -> Path:
    """Return the file of hosts: from where one stands, or else from the project's folder."""
    path = Path(options.file)
    return path if path.exists() else folder.absolute().parent / path


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the facts of hosts that an earlier driver stored."""
    try:
        facts = read_json(read_regular(folder / "facts.json", _LARGEST_FACTS))
    except (OSError, MalformedError):
        return {}
    items = facts.items() if isinstance(facts, dict) else ()
    return {name: known_facts for name, known_facts in items if isinstance(known_facts, dict)}


def write_facts(folder: Path, hosts: Iterable[RemoteHost]) -> None:
    with disk_errors(folder):
        facts = read_facts(folder)
        for host in hosts:
            facts[host.name] = {**host.facts, "address": host.machine.address}
        draft = folder / ".facts.json"
        draft.unlink(missing_ok=True)  # a link would be written through
        with draft.open("x") as file:
            file.write(json.dumps(facts))
        draft.replace(folder / "facts.json")


@dataclass(frozen=True)
class HostState:
    """A host as it was seen."""

    name: str
    address: str
    up: bool
    why: str
    """What is wrong, if anything is."""
    facts: Mapping[str, Value]


def trusted_hosts_file(file: Path, folder: Path) -> HostsFile:
    """Return the configuration in *file* once the user has agreed to what it executes.

    *folder* is the project's data folder. SafetyError if the user has not.
    """
    configuration = read_hosts_file(file)
    trust.require(folder, configuration.texts())
    return configuration


def survey_hosts(
    configuration: HostsFile, folder: Path, *, remeasure: bool = False
) -> list[HostState]:
    """Return all hosts of *configuration*, queried now; what they are is kept in *folder*, the
    project's.

    With *remeasure* their speeds are measured once more.
    """
    journal = AttemptJournal(folder)
    stored = {} if remeasure else read_facts(journal.folder)
    hosts = [
        RemoteHost(
            machine,
            configuration.options,
            journal.owner,
            stored.get(machine.name, {}),
            lambda _token: True,  # a look ends nothing
            lambda _host: None,
        )
        for machine in configuration.discovered()
    ]
    end = monotonic() + 3 * configuration.options.connect
    try:
        for host in hosts:
            host.first.wait(max(end - monotonic(), 0.0))
        write_facts(journal.folder, [host for host in hosts if host.is_up])
        return [HostState(h.name, h.machine.address, h.is_up, h.fault, h.values()) for h in hosts]
    finally:
        for host in hosts:
            host.close()
        journal.close()
