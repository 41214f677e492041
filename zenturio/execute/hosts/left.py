"""What drivers have at hosts, seen from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from time import monotonic

from zenturio import trust
from zenturio.execute.executor import Stage
from zenturio.execute.hosts.configuration import read_configuration
from zenturio.execute.hosts.events import Events
from zenturio.execute.hosts.host import Host
from zenturio.execute.hosts.journal import Journal

_ENDING = 20.0
"""Seconds within which hosts end what they are told to."""


class Left:
    """The experiments that a project has at hosts, whoever drives them."""

    def __init__(self, folder: Path, file: Path) -> None:
        self._folder = folder
        self._file = file

    def stages(self) -> Mapping[str, Stage]:
        """How far each experiment is there, by digest."""
        journal = Journal(self._folder)
        try:
            return {each: _stage(journal, each) for each in journal.digests()}
        finally:
            journal.close()

    def drained(self) -> Mapping[str, str]:
        """The hosts that get nothing new, and why."""
        journal = Journal(self._folder)
        try:
            return journal.drained()
        finally:
            journal.close()

    def cancel(self, digests: Collection[str]) -> int:
        """Ends those of *digests* whose drivers are dead; how many there were.

        At a host that cannot be reached they end when a driver reaches it.
        """
        journal = Journal(self._folder)
        events = Events(journal.folder)
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

    def _tell(self, names: Collection[str], journal: Journal) -> None:
        """Has hosts end what counts no longer, which they do when one comes."""
        configuration = read_configuration(self._file)
        trust.require(self._folder, configuration.texts())
        hosts = [
            Host(each, configuration.ways, journal.owner, {}, journal.counts, lambda _host: None)
            for each in configuration.discovered()
            if each.name in names
        ]
        end = monotonic() + _ENDING
        for host in hosts:
            host.first.wait(max(end - monotonic(), 0.0))
        for host in hosts:
            host.tidy(max(end - monotonic(), 0.0))
            host.close()


def _stage(journal: Journal, digest: str) -> Stage:
    if journal.has_ended(digest):
        return "ended"
    return "running" if journal.attempt(digest) is not None else "queued"
