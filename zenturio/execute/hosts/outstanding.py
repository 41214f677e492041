"""What drivers have at hosts, seen from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from time import monotonic

from zenturio import trust
from zenturio.execute.executor import Progress
from zenturio.execute.hosts.attempt_journal import AttemptJournal
from zenturio.execute.hosts.event_log import EventLog
from zenturio.execute.hosts.hosts_file import read_hosts_file
from zenturio.execute.hosts.remote_host import RemoteHost

_ENDING_SECONDS = 20.0
"""Seconds within which hosts end what they are told to."""


class HostsOutstanding:
    """The experiments that a project has at hosts, whoever drives them."""

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
