"""One transaction at one version of a study, and what is cached between transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zenturio.experiment.experiment import MachineKind, ProgramIdentity
from zenturio.record import studies
from zenturio.record.database import Transaction
from zenturio.record.field_layout import (
    FieldColumns,
    FieldLayout,
    SlotColumns,
    arrange_columns,
)
from zenturio.record.studies import StudyVersion

HostKey = tuple[str, int, str, int]
"""Name, number of the kind of machine, kernel, memory."""


class GrantedClaim(NamedTuple):
    """A claim that was granted to a driver of this process."""

    number: int
    attempt: int
    position: Any
    repeat: int
    values: Mapping[str, Any]
    program: ProgramIdentity | None
    key: bytes
    round: int


@dataclass
class RepositoryCache:
    """What a repository caches of its database between transactions: what does not change."""

    layouts: dict[int, FieldLayout] = field(default_factory=dict)
    """By version; used while the revision is the same."""
    hosts: dict[HostKey, int] = field(default_factory=dict)
    machines: dict[MachineKind, int] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    """Those of which more is known than that rows of before are supposed to be theirs."""
    recipes: dict[tuple[int, str], int] = field(default_factory=dict)
    """The numbers of recipes, by version and digest."""
    granted: dict[tuple[int, str], GrantedClaim] = field(default_factory=dict)
    """By lease and digest: claims that are not recorded yet. A server that lost its power may have
    lost them."""


@dataclass
class StudyContext:
    """One transaction at one version of a study."""

    transaction: Transaction
    version: StudyVersion
    layout: FieldLayout
    cache: RepositoryCache
    new_hosts: dict[HostKey, int] = field(default_factory=dict)
    new_machines: dict[MachineKind, int] = field(default_factory=dict)
    new_confirmed: set[int] = field(default_factory=set)
    new_recipes: dict[tuple[int, str], int] = field(default_factory=dict)
    new_granted: dict[tuple[int, str], GrantedClaim] = field(default_factory=dict)
    settled: list[tuple[int, str]] = field(default_factory=list)
    """Claims that are over."""

    @staticmethod
    def at(transaction: Transaction, version: StudyVersion, cache: RepositoryCache) -> StudyContext:
        layout = studies.read_layout(transaction, version, cache.layouts.get(version.id))
        return StudyContext(transaction, version, layout, cache)

    def beside(self, version: StudyVersion) -> StudyContext:
        """Return the same transaction at another version."""
        return StudyContext.at(self.transaction, version, self.cache)

    def spread_columns(self, columns: FieldColumns, rows: int) -> SlotColumns:
        """Return values of *rows* rows by slot; the study has the fields that they need then."""
        # Ends, for each round means that another driver has added fields, of which there are few.
        while True:
            arranged = arrange_columns(self.layout, columns, rows)
            if arranged.layout is self.layout:
                return arranged
            widened = studies.widen(self.transaction, self.layout, arranged.layout)
            if widened is not None:
                studies.note_renamed(self.transaction, self.version.id, self.layout, widened)
                self.layout = widened
                return arranged
            # Another driver has just added fields: see which, and look for places once more.
            current = studies.versions_by_id(self.transaction, [self.version.id])[self.version.id]
            self.version = current
            self.layout = studies.read_layout(self.transaction, current)

    def committed(self) -> None:
        """Put what the transaction has learnt into the cache, now that it is committed."""
        self.cache.layouts[self.version.id] = self.layout
        self.cache.hosts |= self.new_hosts
        self.cache.machines |= self.new_machines
        self.cache.confirmed |= self.new_confirmed
        self.cache.recipes |= self.new_recipes
        self.cache.granted |= self.new_granted
        for key in self.settled:
            self.cache.granted.pop(key, None)
