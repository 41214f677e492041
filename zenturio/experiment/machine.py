"""The machine that an attempt ran on: its kind, the host, and what varied while it ran.

Every field may be unknown: an executor fills in what the place tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MachineKind:
    """A kind of machine: results of one kind can be compared, those of two cannot."""

    cpu: str = ""
    """The model, as the system names it; empty where it does not say."""
    cores: int = 0
    """Physical cores; 0 where nobody counted them."""
    accelerators: tuple[str, ...] = ()
    """The model of each."""
    setup: str = ""
    """What the place ran before, such as ``module load gcc/13``."""

    @property
    def label(self) -> str:
        """All of it in words."""
        parts = [self.cpu or "unknown processor"]
        if self.cores:
            parts.append(f"{self.cores} core{'s' if self.cores > 1 else ''}")
        parts += [
            f"{count} x {name}" if count > 1 else name
            for name, count in Counter(self.accelerators).items()
        ]
        label = ", ".join(parts)
        return f"{label} ({' '.join(self.setup.split())})" if self.setup else label


Kinds = AbstractSet[MachineKind] | None
"""The kinds of machine whose results count; None where those of every kind do."""


@dataclass(frozen=True, slots=True)
class HostDetails:
    """One machine as it was when an attempt began."""

    name: str = ""
    kernel: str = ""
    """Name and release of the operating system."""
    memory: int = 0
    """Bytes; 0 where nobody asked."""


@dataclass(frozen=True, slots=True)
class HostConditions:
    """What varies on a host from attempt to attempt; None where it was not measured."""

    load_start: float | None = None
    """Processes that ran or waited for a processor, on average over the last minute."""
    load_end: float | None = None
    mhz_start: float | None = None
    mhz_end: float | None = None
    celsius_start: float | None = None
    celsius_end: float | None = None
    steal: float | None = None
    """The share of time that a hypervisor gave to others, from 0 to 1."""
    pressure: float | None = None
    """The share of time that some process waited for a processor, from 0 to 1."""
    slots: int | None = None
    """Experiments that might run beside each other on the host, this one included."""
    cpus: int | None = None
    """Processors that the experiment was bound to."""
    governor: str | None = None
    """What sets the frequency of the processors."""
    other: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    """What else the place told."""


UNKNOWN_KIND = "an unknown kind"
"""What stands for the kind of machine of results that do not say theirs."""


def machine_notes(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What is said of an answer that has results of several kinds of machine."""
    if len(counts) < 2:
        return ()
    named = "; ".join(f"{label} ({count:,})" for label, count in sorted(counts.items()))
    kinds = f"results of {len(counts)} kinds of machine: {named}"
    return (f"{kinds}; --machine picks one",)
