"""The words behind ``zen simulate`` or ``zen schedule``, where no shell reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenturio.errors import InputError, did_you_mean


@dataclass(frozen=True)
class ParsedArguments:
    """A workflow or a stream of several, options, settings and a seed, all as written."""

    workflows: tuple[str, ...]
    options: dict[str, str]
    settings: list[str]
    seed: int

    @classmethod
    def read(cls, verb: str, words: Sequence[str], known: Sequence[str]) -> ParsedArguments:
        """What the *words* behind *verb* say; of options, those that are *known*."""
        given: dict[str, str] = {}
        workflows: list[str] = []
        settings: list[str] = []
        rest = iter(words)
        for word in rest:
            name, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
            if name and name not in known:
                raise InputError(f"{verb}: no {name} here", hint=did_you_mean(name, known))
            if name and name != "--json" and not sign:
                value = next(rest, "")
            if name in ("", "--set"):
                (settings if name else workflows).append(value)
            elif name in given:
                raise InputError(f"{verb}: {name} is given twice")
            else:
                given[name] = value
        seed = given.get("--seed", "0")
        if not workflows or not seed.isdecimal():
            raise InputError(f"{verb} WORKFLOW: a workflow, and a seed that is a number")
        options = {name.removeprefix("--"): value for name, value in given.items()}
        return cls(tuple(workflows), options, settings, int(seed))

    def only(self, verb: str) -> str:
        """The one workflow there is."""
        if len(self.workflows) > 1:
            raise InputError(f"{verb}: a workflow is given twice")
        return self.workflows[0]
