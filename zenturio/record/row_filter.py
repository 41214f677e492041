"""The filter of result rows by kind of machine and by round."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from zenturio.errors import InputError, did_you_mean
from zenturio.experiment.experiment import UNKNOWN_KIND
from zenturio.record.entities import ExperimentRecord

RoundChoice = int | Literal["newest", "all"]
"""A round by its number; the newest one of each experiment and kind of machine; or every one."""


@dataclass(frozen=True, slots=True)
class RowChoice:
    """A user's choice among the results of an experiment."""

    machine: str = ""
    """A kind of machine, or a part of its label that no other kind has; every kind, if empty."""
    round: RoundChoice = "newest"

    def holds(self, record: ExperimentRecord) -> bool:
        """Return whether a result is of the chosen round."""
        if self.round == "newest":
            return record.newest
        return self.round in ("all", record.round)


NEWEST = RowChoice()
"""The newest result of each experiment on each kind of machine."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The same as a database has it."""

    machine: int | None = None
    """The number of a kind of machine; every kind, if none is named."""
    round: RoundChoice = "newest"

    @property
    def conditions(self) -> str:
        """What a row ``e`` has to meet, each condition behind AND."""
        machine_condition = "" if self.machine is None else f" AND e.machine = {int(self.machine)}"
        if self.round == "newest":
            return f"{machine_condition} AND e.newest = 1"
        return (
            machine_condition
            if self.round == "all"
            else f"{machine_condition} AND e.round = {int(self.round)}"
        )


def read_round(text: str) -> RoundChoice:
    """Return what ``--round`` says: nothing, a number, or all."""
    word = text.strip().lower()
    if word in ("", "newest"):
        return "newest"
    if word == "all":
        return "all"
    if word.isdecimal() and int(word) > 0:
        return int(word)
    raise InputError(f"--round {text}", hint="the number of a round, or all")


def label_of(record: ExperimentRecord) -> str:
    """Return the kind of machine that measured a result, in words."""
    machine = record.outcome.machine if record.outcome else None
    return machine.label if machine else UNKNOWN_KIND


def machine_named(text: str, labels: Collection[str]) -> str:
    """Return the one of *labels* that is, or contains, *text*; InputError if none or several do."""
    if text in labels:
        return text
    matches = [label for label in sorted(labels) if text.casefold() in label.casefold()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(
            f"--machine {text}: several kinds of machine match",
            hint=f"one of: {'; '.join(matches)}",
        )
    kinds = "; ".join(sorted(labels))
    hint = did_you_mean(text, labels) if len(labels) > 5 else f"there are: {kinds or 'none'}"
    raise InputError(f"--machine {text}: no kind of machine with results matches", hint=hint)


def round_notes(counts: Mapping[int, int]) -> tuple[str, ...]:
    """Return the note on an answer that has results of several rounds."""
    if len(counts) < 2:
        return ()
    named = "; ".join(f"{number} ({count:,})" for number, count in sorted(counts.items()))
    return (f"results of {len(counts)} rounds: {named}; --round picks one",)
