"""A look at hosts: which there are, whether they can be reached, what they are and how they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from zenturio import trust
from zenturio.execute.hosts.attempt_journal import AttemptJournal
from zenturio.execute.hosts.executor import read_facts, write_facts
from zenturio.execute.hosts.hosts_file import HostsFile, read_hosts_file
from zenturio.execute.hosts.remote_host import RemoteHost
from zenturio.expression import Value


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
    """All hosts of *configuration*, asked now; what they are is kept in *folder*, the project's.

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
        write_facts(journal.folder, [host for host in hosts if host.up])
        return [HostState(h.name, h.machine.address, h.up, h.why, h.values()) for h in hosts]
    finally:
        for host in hosts:
            host.close()
        journal.close()
