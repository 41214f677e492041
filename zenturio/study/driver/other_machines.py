"""Results of other kinds of machine: how many there are, and what is said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zenturio.experiment import MachineKind
from zenturio.record import Repository


def machines_with_results(repository: Repository, digests: Sequence[str]) -> Counter[MachineKind]:
    """Count the results of these experiments by the kind of machine, where it is known."""
    outcomes = repository.find_outcomes(digests).values() if digests else ()
    return Counter(outcome.machine for outcome in outcomes if outcome.machine is not None)


def other_machine_notes(kinds: Counter[MachineKind]) -> tuple[str, ...]:
    """Say which kinds of machine have results that are not used; nothing if there are none."""
    if not kinds:
        return ()
    names = "; ".join(f"{kind.label} ({count:,})" for kind, count in kinds.most_common())
    count = sum(kinds.values())
    verb = "have results" if count > 1 else "has a result"
    return (f"{count:,} {verb} of another kind of machine: {names}; --machine any uses them",)
