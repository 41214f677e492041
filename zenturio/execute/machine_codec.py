"""Kinds of machines, hosts and conditions: from what a place tells, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from zenturio.execute.schema import (
    Check,
    first_of,
    flag,
    items,
    loose_text,
    nullable,
    real,
    record,
    table,
    text,
    whole,
)
from zenturio.experiment import Outcome
from zenturio.experiment.machine import Conditions, Host, Machine

_TEXT = loose_text(2**16)
_OTHER = nullable(first_of(flag, whole(-(2**63)), real(), _TEXT))
_COUNTS = ("slots", "cpus")
_CONDITION: Mapping[str, Check] = {
    "governor": _TEXT,
    "other": table(text(256), _OTHER, 1000),
    **dict.fromkeys(_COUNTS, whole()),
}
_check_machine = record(
    {"cpu": _TEXT, "cores": whole(), "accelerators": items(_TEXT, 4096), "setup": _TEXT}
)
_check_host = record({"name": _TEXT, "kernel": _TEXT, "memory": whole()})
_check_conditions = record(
    {f.name: nullable(_CONDITION.get(f.name, real())) for f in fields(Conditions)}
)
check_machine_parts: Mapping[str, Check] = {
    "machine": nullable(_check_machine),
    "host_details": nullable(_check_host),
    "conditions": nullable(_check_conditions),
}


def machine_parts(told: Mapping[str, Any], run: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Fields of an outcome from the facts of a machine, and from what its launcher saw."""
    conditions = None
    if run is not None:
        before, after = run["load"]
        conditions = Conditions(load_start=before, load_end=after)
    return {
        "machine": Machine(told["cpu"], told["cores"], tuple(told["accelerators"])),
        "host_details": Host(told["name"], told["kernel"], told["memory"]),
        "conditions": conditions,
    }


def write_machine_parts(outcome: Outcome) -> dict[str, Any]:
    """The same fields as JSON has them."""
    parts = (outcome.machine, outcome.host_details, outcome.conditions)
    return {
        name: None if part is None else asdict(part)
        for name, part in zip(check_machine_parts, parts, strict=True)
    }


def read_machine_parts(told: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an outcome from what was written, and checked."""
    machine, host, conditions = (told[name] for name in check_machine_parts)
    if machine is not None:
        machine = Machine(**{**machine, "accelerators": tuple(machine["accelerators"])})
    return {
        "machine": machine,
        "host_details": None if host is None else Host(**host),
        "conditions": None if conditions is None else Conditions(**conditions),
    }
