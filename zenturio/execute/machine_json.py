"""Kinds of machines, hosts and conditions: from what a place tells, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Any, NamedTuple

from zenturio.execute.json_checks import (
    Check,
    any_text,
    boolean,
    first_of,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    record,
    text,
)
from zenturio.experiment import HostConditions, HostDetails, MachineKind, Outcome
from zenturio.system.machine import machine_facts

_NAME = text(256)
check_machine_facts = record({
    "cpu": _NAME, "cores": integer(0, 2**20), "accelerators": list_of(_NAME, 1024), "name": _NAME,
    "kernel": _NAME, "memory": integer(0, 2**62), "unmeasured": any_text(4096),
})  # fmt: skip
"""MalformedError where something is not what ``machine_facts`` returns."""
_TEXT = any_text(2**16)
_OTHER = nullable(first_of(boolean, integer(-(2**63)), number(), _TEXT))
_COUNTS = (
    "slots", "cpus", "run_block", "run_turn", "runnable", "throttled", "slots_start", "slots_end",
)  # fmt: skip
_CONDITION: Mapping[str, Check] = {
    "governor": _TEXT,
    "run_order": _TEXT,
    "pinned": _TEXT,
    "other": object_of(text(256), _OTHER, 1000),
    **dict.fromkeys(_COUNTS, integer()),
}
_check_machine = record(
    {"cpu": _TEXT, "cores": integer(), "accelerators": list_of(_TEXT, 4096), "setup": _TEXT}
)
_check_host = record(
    {"name": _TEXT, "kernel": _TEXT, "memory": integer()}, {"unmeasured": any_text(2**16)}
)
_check_conditions = record(
    {f.name: nullable(_CONDITION.get(f.name, number())) for f in fields(HostConditions)}
)
check_machine_parts: Mapping[str, Check] = {
    "machine": nullable(_check_machine),
    "host_details": nullable(_check_host),
    "conditions": nullable(_check_conditions),
}


class SlotUse(NamedTuple):
    """How many slots a place has, and how many were in use when a run began and ended."""

    total: int
    at_start: int
    at_end: int


def machine_parts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an outcome from the facts of a machine."""
    return {
        "machine": MachineKind(facts["cpu"], facts["cores"], tuple(facts["accelerators"])),
        "host_details": HostDetails(
            facts["name"], facts["kernel"], facts["memory"], facts["unmeasured"]
        ),
    }


@cache
def own_machine_parts() -> dict[str, Any]:
    """Return the same of the machine that this is."""
    return machine_parts(machine_facts())


def own_machine() -> MachineKind:
    """Return the kind of machine that this is."""
    machine: MachineKind = own_machine_parts()["machine"]
    return machine


def run_conditions(run: Mapping[str, Any], slots: SlotUse | None = None) -> HostConditions:
    """Return what varied, as the launcher of a run saw it, at a place with these *slots*.

    A host counts its slots itself.
    """
    before, after = run["load"]
    machine, threads = run.get("machine", {}), run.get("threads", {})
    cpus = run.get("cpus")
    counted = {"perf": "user mode alone"} if run.get("user_mode") else {}
    other = {**threads, **counted}
    total, at_start, at_end = slots or run.get("slots") or (None, None, None)
    return HostConditions(
        load_start=before, load_end=after, slots=total, slots_start=at_start, slots_end=at_end,
        cpus=cpus, pinned=run.get("pinned"), other=other, **machine,
    )  # fmt: skip


def machine_parts_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the same fields as JSON has them."""
    parts = (outcome.machine, outcome.host_details, outcome.conditions)
    return {
        name: None if part is None else asdict(part)
        for name, part in zip(check_machine_parts, parts, strict=True)
    }


def machine_parts_from_json(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of an outcome from what was written, and checked."""
    machine, host, varied = (manifest[name] for name in check_machine_parts)
    if machine is not None:
        machine = MachineKind(**{**machine, "accelerators": tuple(machine["accelerators"])})
    return {
        "machine": machine,
        "host_details": None if host is None else HostDetails(**host),
        "conditions": None if varied is None else HostConditions(**varied),
    }
