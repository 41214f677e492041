"""Streams of workflows by their words: files and generators with the times of their arrival."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zenturio.errors import InputError
from zenturio.schedule.formats import Instance
from zenturio.schedule.formats.document import Document, read_text, read_toml, there
from zenturio.schedule.generators.bioinformatics import Online51
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.platform import Platform, identical
from zenturio.schedule.stream import Stream, Submission
from zenturio.search.settings import pairs, settings_of

STREAMS: Mapping[str, Any] = {"online-51": Online51}
MOST = 10**6
"""Workflows in a stream."""


def is_stream(words: Sequence[str]) -> bool:
    """Whether *words* tell a stream, and not one workflow."""
    word = words[0]
    return (
        len(words) > 1
        or (word.partition(":")[0] in STREAMS and not there(Path(word)))
        or Path(word).suffix.lower() == ".toml"
        or _parted(word)[0] != word
    )


def stream_of(words: Sequence[str], seed: int = 0) -> tuple[Stream, Platform | None]:
    """The stream that *words* tell, and the platform on which its workflows agree, if any.

    A file such as stream.toml, a generator of streams such as ``online-51``, or workflows:
    ``gee@0 maxdo:spread=0.1@10 montage.json@0:600:12``.
    """
    if len(words) == 1:
        name, _, rest = words[0].partition(":")
        if name in STREAMS and not there(Path(words[0])):
            return _generated(name, rest, seed)
        if Path(words[0]).suffix.lower() == ".toml":
            return _read(Path(words[0]), seed)
    found: list[tuple[Instance, Submission]] = []
    for word in words:
        workflow, times = _parted(word)
        instance = instance_of(workflow, seed=seed)
        found += [(instance, Submission(instance.workflow, time)) for time in times]
    return _joined("stream", found)


def times_of(text: str) -> Iterator[float]:
    """``12``, or ``0:600:12``: from 0 to 600, every 12 seconds."""
    try:
        numbers = [float(each) for each in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and math.isfinite(numbers[0]):
        yield numbers[0]
        return
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)) or numbers[2] <= 0:
        raise InputError(f"{text!r} is no time", hint="@12, or @FIRST:LAST:EVERY as in @0:600:12")
    first, last, every = numbers
    count = math.floor((last - first) / every + 1e-9) + 1
    if not 1 <= count <= MOST:
        raise InputError(f"{text!r} are {max(count, 0):,} times", hint=f"from 1 to {MOST:,}")
    for i in range(count):
        yield first + i * every


def _generated(name: str, rest: str, seed: int) -> tuple[Stream, Platform]:
    given = pairs(rest.split(",") if rest else [])
    text = given.pop("seed", str(seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not possible", hint="write a whole number from 0 on")
    kind = STREAMS[name]
    stream: Stream = settings_of(kind, given, name).stream(int(text))
    return stream, identical(4)


def _parted(word: str) -> tuple[str, list[float]]:
    """A workflow and its times: time 0, if it tells none."""
    workflow, sign, times = word.rpartition("@")
    if not sign or there(Path(word)):
        return word, [0.0]
    return workflow, list(times_of(times))


def _read(path: Path, seed: int) -> tuple[Stream, Platform | None]:
    """What a file says: for each ``[[submit]]`` a workflow, and ``at`` which times."""
    document = read_toml(path, read_text(path))
    document.keys(document.value, ("name", "submit"), ())
    name = document.words(document.value.get("name", path.stem), ("name",))
    found: list[tuple[Instance, Submission]] = []
    for i, each in enumerate(document.items(document.value.get("submit", []), ("submit",))):
        way = ("submit", i)
        document.keys(each, ("workflow", "at", "name"), way)
        if "workflow" not in each:
            document.wrong(way, "a [[submit]] without a workflow", 'workflow = "montage.json"')
        text = document.words(each["workflow"], (*way, "workflow"))
        label = document.words(each.get("name", ""), (*way, "name"))
        beside = path.parent / text
        try:
            instance = instance_of(str(beside) if there(beside) else text, seed=seed)
        except InputError as error:
            if error.diagnostics[0].place:
                raise
            diagnostic = error.diagnostics[0]
            document.wrong((*way, "workflow"), diagnostic.message, diagnostic.hint)
        times = _times(document, each.get("at", 0), (*way, "at"))
        found += [(instance, Submission(instance.workflow, time, label)) for time in times]
    if not found:
        document.wrong((), f"{path} submits no workflow", '[[submit]]\nworkflow = "montage.json"')
    return _joined(name, found)


def _times(document: Document, value: Any, way: tuple[str | int, ...]) -> list[float]:
    """One time, several, or ``"0:600:12"``."""
    if isinstance(value, list):
        return [document.number(each, (*way, i)) for i, each in enumerate(value)]
    if isinstance(value, str) and ":" in value:
        try:
            return list(times_of(value))
        except InputError as error:
            diagnostic = error.diagnostics[0]
            document.wrong(way, diagnostic.message, diagnostic.hint)
    return [document.number(value, way)]


def _joined(name: str, found: list[tuple[Instance, Submission]]) -> tuple[Stream, Platform | None]:
    if len(found) > MOST:
        raise InputError(f"{len(found):,} workflows: more than {MOST:,} are not played")
    known = {id(each.platform): each.platform for each, _ in found if each.platform}
    platforms = list(known.values())
    agreed = platforms and all(each.machines == platforms[0].machines for each in platforms)
    return Stream.of(name, [each for _, each in found]), platforms[0] if agreed else None
