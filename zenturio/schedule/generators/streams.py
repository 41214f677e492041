"""Streams of workflows by their words: files and generators with the times of their arrival."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zenturio.errors import InputError
from zenturio.schedule.formats import Instance
from zenturio.schedule.formats.document import FormatDocument, file_exists, read_text, read_toml
from zenturio.schedule.generators.bioinformatics import Online51
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.platform import Platform, identical
from zenturio.schedule.stream import WorkflowStream, WorkflowSubmission
from zenturio.search.settings import pairs, settings_of

STREAMS: Mapping[str, Any] = {"online-51": Online51}
MAX_WORKFLOWS = 10**6
"""Workflows in a stream."""


def is_stream(words: Sequence[str]) -> bool:
    """Whether *words* tell a stream, and not one workflow."""
    word = words[0]
    return (
        len(words) > 1
        or (word.partition(":")[0] in STREAMS and not file_exists(Path(word)))
        or Path(word).suffix.lower() == ".toml"
        or _split_times(word)[0] != word
    )


def stream_of(words: Sequence[str], seed: int = 0) -> tuple[WorkflowStream, Platform | None]:
    """The stream that *words* tell, and the platform on which its workflows agree, if any.

    A file such as stream.toml, a generator of streams such as ``online-51``, or workflows:
    ``gee@0 maxdo:spread=0.1@10 montage.json@0:600:12``.
    """
    if len(words) == 1:
        name, _, rest = words[0].partition(":")
        if name in STREAMS and not file_exists(Path(words[0])):
            return _generated_stream(name, rest, seed)
        if Path(words[0]).suffix.lower() == ".toml":
            return _read_stream_file(Path(words[0]), seed)
    found: list[tuple[Instance, WorkflowSubmission]] = []
    for word in words:
        workflow, times = _split_times(word)
        instance = instance_of(workflow, seed=seed)
        found += [(instance, WorkflowSubmission(instance.workflow, time)) for time in times]
    return _stream_and_platform("stream", found)


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
    if not 1 <= count <= MAX_WORKFLOWS:
        raise InputError(
            f"{text!r} are {max(count, 0):,} times", hint=f"from 1 to {MAX_WORKFLOWS:,}"
        )
    for i in range(count):
        yield first + i * every


def _generated_stream(name: str, rest: str, seed: int) -> tuple[WorkflowStream, Platform]:
    given = pairs(rest.split(",") if rest else [])
    text = given.pop("seed", str(seed))
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"seed={text} is not possible", hint="write a whole number from 0 on")
    kind = STREAMS[name]
    stream: WorkflowStream = settings_of(kind, given, name).stream(int(text))
    return stream, identical(4)


def _split_times(word: str) -> tuple[str, list[float]]:
    """A workflow and its times: time 0, if it tells none."""
    workflow, sign, times = word.rpartition("@")
    if not sign or file_exists(Path(word)):
        return word, [0.0]
    return workflow, list(times_of(times))


def _read_stream_file(path: Path, seed: int) -> tuple[WorkflowStream, Platform | None]:
    """What a file says: for each ``[[submit]]`` a workflow, and ``at`` which times."""
    document = read_toml(path, read_text(path))
    document.keys(document.value, ("name", "submit"), ())
    name = document.words(document.value.get("name", path.stem), ("name",))
    found: list[tuple[Instance, WorkflowSubmission]] = []
    for i, each in enumerate(document.items(document.value.get("submit", []), ("submit",))):
        way = ("submit", i)
        document.keys(each, ("workflow", "at", "name"), way)
        if "workflow" not in each:
            document.wrong(way, "a [[submit]] without a workflow", 'workflow = "montage.json"')
        text = document.words(each["workflow"], (*way, "workflow"))
        label = document.words(each.get("name", ""), (*way, "name"))
        beside = path.parent / text
        try:
            instance = instance_of(str(beside) if file_exists(beside) else text, seed=seed)
        except InputError as error:
            if error.diagnostics[0].place:
                raise
            diagnostic = error.diagnostics[0]
            document.wrong((*way, "workflow"), diagnostic.message, diagnostic.hint)
        times = _read_times(document, each.get("at", 0), (*way, "at"))
        found += [(instance, WorkflowSubmission(instance.workflow, time, label)) for time in times]
    if not found:
        document.wrong((), f"{path} submits no workflow", '[[submit]]\nworkflow = "montage.json"')
    return _stream_and_platform(name, found)


def _read_times(document: FormatDocument, value: Any, way: tuple[str | int, ...]) -> list[float]:
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


def _stream_and_platform(
    name: str, found: list[tuple[Instance, WorkflowSubmission]]
) -> tuple[WorkflowStream, Platform | None]:
    if len(found) > MAX_WORKFLOWS:
        raise InputError(f"{len(found):,} workflows: more than {MAX_WORKFLOWS:,} are not played")
    known = {id(each.platform): each.platform for each, _ in found if each.platform}
    platforms = list(known.values())
    agreed = platforms and all(each.machines == platforms[0].machines for each in platforms)
    return WorkflowStream.of(name, [each for _, each in found]), platforms[0] if agreed else None
