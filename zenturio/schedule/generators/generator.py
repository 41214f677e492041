"""Generators of workflows by name, with their settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from zenturio.errors import InputError, NotFoundError, did_you_mean
from zenturio.schedule.formats import Instance, read_instance
from zenturio.schedule.formats.document import file_exists
from zenturio.schedule.generators import bioinformatics, kwave, layered, recipe, sweeps, wien2k
from zenturio.search.settings import Setting, described, pairs, settings_of


class WorkflowGenerator(Protocol):
    """A frozen dataclass of settings; of the same settings and seed it makes the same workflow."""

    def count(self) -> int:
        """How many tasks the workflow will have: known before any is made."""
        ...

    def instance(self, seed: int) -> Instance: ...


_GENERATORS: dict[str, type[Any]] = {
    "ctg": sweeps.Ctg,
    "ditg": sweeps.Ditg,
    "dotg": sweeps.Dotg,
    "gee": bioinformatics.Gee,
    "itg": sweeps.Itg,
    "kwave-barrier": kwave.KwaveBarrier,
    "kwave-independent": kwave.KwaveIndependent,
    "kwave-tree": kwave.KwaveTree,
    "layered": layered.Layered,
    "maxdo": bioinformatics.MaxDo,
    "otg": sweeps.Otg,
    "pipealign": bioinformatics.PipeAlign,
    "ptg": sweeps.Ptg,
    "recipe": recipe.TraceRecipe,
    "sweep": sweeps.RandomSweep,
    "topcuoglu": layered.Topcuoglu,
    "wien2k": wien2k.Wien2k,
}


@dataclass(frozen=True, slots=True)
class GeneratorDescription:
    """A generator as it is listed."""

    name: str
    about: str
    settings: tuple[Setting, ...]


def names() -> list[str]:
    """The names of all generators, sorted."""
    return sorted(_GENERATORS)


def describe(name: str) -> GeneratorDescription:
    """What the generator *name* makes, and what can be set."""
    found = _generator_class(name)
    about = (inspect.getdoc(found) or "").partition("\n")[0]
    return GeneratorDescription(name, about, described(found))


def generate(name: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """What the generator *name* makes of *settings* and *seed*; of the same always the same."""
    return _generator(name, settings).instance(seed)


def count_of(text: str) -> int | None:
    """How many tasks the generator ``NAME:key=value,...`` will make; none of a file.

    It makes none of them, so that who answers strangers can refuse what is too much.
    """
    name, _, rest = text.partition(":")
    if name not in _GENERATORS or file_exists(Path(text)):
        return None
    given = pairs(rest.split(",") if rest else [])
    given.pop("seed", None)
    return _generator(name, given).count()


def _generator(name: str, settings: Mapping[str, Any] | None) -> WorkflowGenerator:
    kind = _generator_class(name)
    known = {each.name for each in described(kind)}
    given = dict(settings or {})
    wrong = next((key for key in given if key not in known), None)
    if wrong is not None:
        raise InputError(
            f"generator {name} has no setting {wrong!r}", hint=did_you_mean(wrong, known)
        )
    generator: WorkflowGenerator = settings_of(kind, given)
    return generator


def instance_of(text: str, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Instance:
    """The workflow in the file *text*, or of the generator ``NAME`` or ``NAME:key=value,...``."""
    name, _, rest = text.partition(":")
    exists = file_exists(Path(text))
    if name not in _GENERATORS or exists:
        if not exists and not Path(text).suffix and text != "-":
            hint = did_you_mean(name, _GENERATORS)
            raise NotFoundError(f"{text!r} is neither a file nor a generator", hint=hint)
        return read_instance(text)
    given = dict(settings or {}) | pairs(rest.split(",") if rest else [])
    return generate(name, {k: v for k, v in given.items() if k != "seed"}, _seed(given, seed))


def _seed(given: Mapping[str, Any], seed: int) -> int:
    text = str(given.get("seed", seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not possible", hint="write a whole number from 0 on")
    return int(text)


def _generator_class(name: str) -> type[Any]:
    if name not in _GENERATORS:
        hint = did_you_mean(name, _GENERATORS)
        raise NotFoundError(f"no generator is named {name!r}", hint=hint)
    return _GENERATORS[name]
