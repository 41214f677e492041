"""One transaction at one version of a study, and what is cached between transactions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from zenturio.experiment.experiment import (
    HostConditions,
    HostDetails,
    MachineKind,
    Outcome,
    ProgramIdentity,
)
from zenturio.record import codec, studies
from zenturio.record.codec import Form
from zenturio.record.database import Transaction
from zenturio.record.field_layout import (
    NO_FORM,
    FieldColumns,
    FieldLayout,
    SlotValues,
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
    own_versions: set[int] = field(default_factory=set)
    """Those that this process created: what it has not recorded of them need not be looked up."""
    granted: dict[tuple[int, str], GrantedClaim] = field(default_factory=dict)
    """By lease and digest: claims that are not recorded yet. A server that lost its power may have
    lost them."""


@dataclass
class StudyTransaction:
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
    def at(
        transaction: Transaction, version: StudyVersion, cache: RepositoryCache
    ) -> StudyTransaction:
        layout = studies.read_layout(transaction, version, cache.layouts.get(version.id))
        return StudyTransaction(transaction, version, layout, cache)

    def beside(self, version: StudyVersion) -> StudyTransaction:
        """Return the same transaction at another version."""
        return StudyTransaction.at(self.transaction, version, self.cache)

    def spread_columns(self, columns: FieldColumns, rows: int) -> SlotValues:
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
            self._read_again()

    def _read_again(self) -> None:
        """Another driver has just changed fields: see which."""
        current = studies.versions_by_id(self.transaction, [self.version.id])[self.version.id]
        self.version = current
        self.layout = studies.read_layout(self.transaction, current)

    def set_forms(self, change: Callable[[FieldLayout], Mapping[int, Form]]) -> None:
        """Declare which forms of values fields of this version have, by their numbers.

        The study remembers the forms of all of its versions together.
        """
        while True:
            forms, members = change(self.layout), dict(self.layout.members)
            members |= {n: replace(members[n], forms=form) for n, form in forms.items()}
            total = dict.fromkeys(forms, NO_FORM)
            others = studies.members_of_others(self.transaction, self.version)
            for versions_members in (members, *others):
                total |= {n: total[n] | m.forms for n, m in versions_members.items() if n in total}
            fields = tuple(
                replace(f, forms=total.get(f.number, f.forms)) for f in self.layout.fields
            )
            layout = replace(self.layout, fields=fields, members=members)
            changed = (
                layout
                if layout == self.layout
                else studies.widen(self.transaction, self.layout, layout)
            )
            if changed is not None:
                self.layout = changed
                return
            self._read_again()

    def committed(self) -> None:
        """Put what the transaction has learnt into the cache, now that it is committed."""
        self.cache.layouts[self.version.id] = self.layout
        if self.version.is_new:
            self.cache.own_versions.add(self.version.id)
        self.cache.hosts |= self.new_hosts
        self.cache.machines |= self.new_machines
        self.cache.confirmed |= self.new_confirmed
        self.cache.recipes |= self.new_recipes
        self.cache.granted |= self.new_granted
        for key in self.settled:
            self.cache.granted.pop(key, None)


# Kinds of machine, hosts, and conditions of attempts

UNKNOWN_MACHINE = 0
"""The number of an unknown kind of machine."""

_MACHINE = ("digest", "label", "cpu", "cores", "accelerators", "setup", "assumed")
_HOST = ("name", "machine", "kernel", "memory")
_CONDITIONS = tuple(f.name for f in fields(HostConditions) if f.name != "other")


def machine_digest(machine: MachineKind) -> bytes:
    """Return the same for the same kind, in every repository."""
    facts = [machine.cpu, machine.cores, sorted(machine.accelerators), machine.setup]
    return blake2b(json.dumps(facts).encode(), digest_size=16).digest()


def machine_number(context: StudyTransaction, machine: MachineKind | None) -> int:
    """Return the number of a kind of machine; a new one gets one."""
    if machine is None:
        return UNKNOWN_MACHINE
    number = context.cache.machines.get(machine) or context.new_machines.get(machine)
    if number is not None:
        return number
    transaction = context.transaction
    digest, mark = machine_digest(machine), transaction.dialect.mark
    query = f"SELECT id, assumed FROM machines WHERE digest = {mark}"
    rows = transaction.sql(query, (digest,))
    if not rows:
        escaped = map(codec.escape, (machine.label, machine.cpu))
        remaining_columns = json.dumps(list(machine.accelerators)), codec.escape(machine.setup), 0
        rows = transaction.sql(
            f"INSERT INTO machines ({', '.join(_MACHINE)})"
            f" VALUES ({', '.join([mark] * len(_MACHINE))})"
            " ON CONFLICT DO NOTHING RETURNING id, assumed",
            (digest, *escaped, machine.cores, *remaining_columns),
        ) or transaction.sql(query, (digest,))
    ((number, assumed),) = rows
    context.new_machines[machine] = int(number)
    if not assumed:
        context.new_confirmed.add(int(number))
    return int(number)


def numbers_of(transaction: Transaction, kinds: AbstractSet[MachineKind]) -> frozenset[int]:
    """Return the numbers of *kinds*, and of kinds that were only assumed."""
    rows = transaction.among_sql(
        "SELECT id FROM machines WHERE assumed <> 0 OR {among}",
        "digest",
        sorted(map(machine_digest, kinds)),
    )
    return frozenset({UNKNOWN_MACHINE, *(number for (number,) in rows)})


def confirm_machines(context: StudyTransaction, numbers: Iterable[int]) -> None:
    """Say that these kinds of machine have results of their own by now, not only assumed ones.

    Otherwise what they measure from now on would count for every kind.
    """
    new = set(numbers) - {UNKNOWN_MACHINE} - context.cache.confirmed - context.new_confirmed
    context.transaction.among_sql(
        "UPDATE machines SET assumed = 0 WHERE assumed <> 0 AND {among}", "id", sorted(new)
    )
    context.new_confirmed |= new


def machines_of(transaction: Transaction, numbers: Iterable[int]) -> dict[int, MachineKind]:
    """Return kinds of machine by their numbers."""
    rows = transaction.among_sql(
        "SELECT id, cpu, cores, accelerators, setup FROM machines WHERE {among}",
        "id",
        sorted(set(numbers) - {UNKNOWN_MACHINE}),
    )
    with codec.decoding():
        return {
            number: MachineKind(
                codec.unescape(cpu), cores, tuple(json.loads(accelerators)), codec.unescape(setup)
            )
            for number, cpu, cores, accelerators, setup in rows
        }


def host_numbers(context: StudyTransaction, outcomes: Sequence[Outcome]) -> list[tuple[int, int]]:
    """Return the numbers of the kind of machine and of the host of each outcome."""
    keys: list[HostKey] = []
    for outcome in outcomes:
        about = outcome.host_details or HostDetails()
        machine = machine_number(context, outcome.machine)
        keys.append((outcome.host, machine, codec.escape(about.kernel), about.memory))
    cached_hosts = context.cache.hosts | context.new_hosts
    new = sorted(set(keys) - cached_hosts.keys())
    if new:
        details = {
            key: codec.escape(outcome.host_details.unmeasured)
            for key, outcome in zip(keys, outcomes, strict=True)
            if outcome.host_details is not None and outcome.host_details.unmeasured
        }
        marks = ", ".join([context.transaction.dialect.mark] * (len(_HOST) + 1))
        for key in new:
            # What is not measured changes, once a driver or a sensor is installed.
            ((number,),) = context.transaction.sql(
                f"INSERT INTO hosts ({', '.join(_HOST)}, unmeasured) VALUES ({marks})"
                f" ON CONFLICT ({', '.join(_HOST)}) DO UPDATE"
                " SET unmeasured = coalesce(excluded.unmeasured, hosts.unmeasured) RETURNING id",
                (codec.escape(key[0]), *key[1:], details.get(key)),
            )
            context.new_hosts[key] = number
        cached_hosts |= context.new_hosts
    return [(key[1], cached_hosts[key]) for key in keys]


def keep_conditions(
    transaction: Transaction, attempts: Iterable[tuple[int, HostConditions | None]]
) -> None:
    """Write down what varied during attempts, by their numbers."""
    rows = []
    for number, conditions in attempts:
        if conditions is not None:
            other = codec.compact_json(dict(conditions.other)) if conditions.other else None
            facts = asdict(conditions)
            rows.append((number, *(facts[name] for name in _CONDITIONS), other))
    transaction.insert_new("conditions", ("attempt", *_CONDITIONS, "other"), rows)


def conditions_of(transaction: Transaction, attempts: Sequence[int]) -> dict[int, HostConditions]:
    """Return the conditions of attempts, of those that have any."""
    rows = transaction.among_sql(
        f"SELECT attempt, {', '.join(_CONDITIONS)}, other FROM conditions WHERE {{among}}",
        "attempt",
        attempts,
    )
    with codec.decoding():
        return {
            number: HostConditions(
                **dict(zip(_CONDITIONS, facts, strict=True)), other=json.loads(other or "{}")
            )
            for number, *facts, other in rows
        }


def hosts_of(transaction: Transaction, numbers: Iterable[int]) -> Mapping[int, tuple[Any, ...]]:
    """Name, kind of machine, kernel and memory of hosts, and what they do not tell."""
    rows = transaction.among_sql(
        "SELECT id, name, machine, kernel, memory, unmeasured FROM hosts WHERE {among}",
        "id",
        sorted(set(numbers)),
    )
    return {
        number: (
            codec.unescape(name),
            machine,
            codec.unescape(kernel),
            memory,
            codec.unescape(unmeasured or ""),
        )
        for number, name, machine, kernel, memory, unmeasured in rows
    }
