"""Machines: their kinds as JSON, what experiments require of them, and whether one is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from zenturio.errors import ExpressionError, InputError, PlaceError, ZenError
from zenturio.execute.wire import (
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
from zenturio.experiment import Experiment, HostConditions, HostDetails, MachineKind, Outcome
from zenturio.experiment.experiment import value_at
from zenturio.experiment.provenance import host_values
from zenturio.system.machine import CPU_PRESSURE, machine_facts

# Each job is a Python that starts: only conditions on its machine need the language.
if TYPE_CHECKING:
    from zenturio.expression import Expression

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


# Requirements: what an experiment REQUIREs of the machine that it runs on


def check_requirements(experiment: Experiment) -> None:
    """ExpressionError where a REQUIRE of *experiment* has no value, on a machine as this one."""
    for expression in experiment.recipe.requires:
        value_at(expression, experiment.values, host=host_values())


def unmet_requirement(experiment: Experiment) -> ZenError | None:
    """Return why this machine is not what *experiment* wants; none where it is."""
    if not experiment.recipe.requires:
        return None
    from zenturio.expression import holds  # noqa: PLC0415

    try:
        for expression in experiment.recipe.requires:
            if not holds(value_at(expression, experiment.values, host=host_values())):
                return _requirement_error(expression)
    except ExpressionError as error:
        return error
    return None


def _requirement_error(require: Expression) -> PlaceError:
    from zenturio.expression import text_of  # noqa: PLC0415

    facts = host_values()
    actual = ", ".join(f"host.{n} = {text_of(facts.get(n))}" for n in sorted(require.host_names))
    return PlaceError(
        f"this machine does not meet REQUIRE {require.text}: {actual or 'see the values'}",
        place=require.passage.place(0, len(require.text)),
        hint="run it on another machine, or require less",
    )


# Quiet machines: what ``zen run --quiet-machine`` waits for
#
# A machine is too busy if processes had to wait for a processor in more than 5% of the last ten
# seconds, as the kernel counts it (pressure stall information): of all that a machine tells, this
# agrees best with how much slower runs are (decisions/machine-load.md). Experiments that have their
# own processors do not make others wait, so it can be asked while some run.

BUSY_SHARE = 0.05
PATIENCE_SECONDS = 600.0
"""For so long a busy machine is waited for while nothing runs on it."""


class QuietMachine:
    """Tells when the next experiment may start."""

    def __init__(self, path: str = "") -> None:
        """InputError if the system cannot count an event."""
        self._path = Path(path or CPU_PRESSURE)
        self._busy_since: float | None = None
        if self._pressure() is None:
            raise InputError(
                f"--quiet-machine: this system does not count how long processes wait"
                f" ({self._path})",
                hint="on Linux from 4.20 on; some containers hide it",
            )

    def wait_reason(self, *, has_running: bool) -> str:
        """Return why nothing should start now; empty if the machine is quiet.

        PlaceError where it has been busy for long, and it is not *has_running*, experiments of
        this run, that will end.
        """
        share = self._pressure() or 0.0
        if share <= BUSY_SHARE:
            self._busy_since = None
            return ""
        now = monotonic()
        if self._busy_since is None or has_running:
            self._busy_since = now
        if now - self._busy_since >= PATIENCE_SECONDS:
            raise PlaceError(
                f"the machine is busy: processes waited for a processor in {share:.0%} of the last"
                " 10 s",
                hint="run it later, or without --quiet-machine",
            )
        return (
            "the machine is busy (processes waited for a processor in more than"
            f" {BUSY_SHARE:.0%} of the last 10 s): waiting until it is quiet"
        )

    def _pressure(self) -> float | None:
        """Return the share of the last ten seconds in which some process waited."""
        try:
            words = self._path.read_text("ascii").split()
            return float(words[1].removeprefix("avg10=")) / 100
        except (OSError, ValueError, IndexError):
            return None
