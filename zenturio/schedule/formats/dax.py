"""DAX, the XML of Pegasus, read only: jobs with runtimes and files, and their dependencies."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from zenturio.errors import InputError, did_you_mean
from zenturio.schedule.formats.document import MAX_TASKS
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.document import place_at

_JOBS = ("job", "dax", "dag")


def read_dax(path: Path, text: str) -> Workflow:
    """Parse a workflow; the work of a task is its ``runtime``.

    Along an edge go the files that one job writes and the other reads.
    """
    return _DaxReader(path, text).read()


class _DaxReader:
    """One pass over the XML, which knows the place of each element."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text
        # Whatever the declaration says, the text was UTF-8 when it was read.
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        # Entities may refer to each other, and grow a few lines into gigabytes.
        self._parser.EntityDeclHandler = self._refuse_entity
        self._name = path.stem
        self._depth = 0
        self._job = ""
        self._child = ""
        self._tasks: dict[str, WorkflowTask] = {}
        self._read: dict[str, dict[str, float]] = {}
        self._written: dict[str, set[str]] = {}
        self._edges: dict[tuple[str, str], int] = {}
        """Each edge, and the line that names it."""

    def read(self) -> Workflow:
        try:
            self._parser.Parse(self._text.encode(), True)
        except expat.ExpatError as error:
            message = expat.errors.messages[error.code]
            self._wrong(f"not XML: {message}", line=error.lineno)
        if not self._tasks:
            self._wrong("no jobs", line=1)
        edges = []
        for (parent, child), line in self._edges.items():
            for name in (parent, child):
                if name not in self._tasks:
                    hint = did_you_mean(name, self._tasks)
                    self._wrong(f"no job has the id {name!r}", hint, line)
            sizes, written = self._read[child], self._written[parent]
            edges.append((parent, child, sum(sizes[file] for file in sizes if file in written)))
        return Workflow.of(self._name, list(self._tasks.values()), edges)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = tag.rpartition(":")[2]
        self._depth += 1
        if self._depth == 1:
            if element != "adag":
                self._wrong(f"the file is a {element!r}, not an 'adag'")
            self._name = attributes.get("name") or self._name
        elif self._depth == 2 and element in _JOBS:
            self._add_job(attributes)
        elif self._depth == 2 and element == "child":
            self._child = self._needed(attributes, "ref", element)
        elif self._depth == 3 and element == "parent" and self._child:
            edge = (self._needed(attributes, "ref", element), self._child)
            self._edges[edge] = self._parser.CurrentLineNumber
        elif self._depth == 3 and element == "uses" and self._job:
            self._add_file(attributes)

    def _end(self, _tag: str) -> None:
        self._depth -= 1
        if self._depth == 1:
            self._job = self._child = ""

    def _add_job(self, attributes: dict[str, str]) -> None:
        self._job = self._needed(attributes, "id", "job")
        if self._job in self._tasks:
            self._wrong(f"two jobs have the id {self._job!r}")
        if len(self._tasks) >= MAX_TASKS:
            self._wrong(f"more than {MAX_TASKS:,} jobs")
        if "runtime" not in attributes:
            self._wrong(f"job {self._job!r} has no runtime", "a trace or a generated DAX has them")
        cores = attributes.get("numcores", "1")
        if not (cores.isascii() and cores.isdecimal() and len(cores) < 7 and int(cores)):
            self._wrong(f"numcores {cores!r} is not a number of cores")
        self._tasks[self._job] = WorkflowTask(
            self._job,
            self._number(attributes["runtime"], "runtime"),
            program=attributes.get("name", ""),
            cores=int(cores),
        )
        self._read[self._job], self._written[self._job] = {}, set()

    def _add_file(self, attributes: dict[str, str]) -> None:
        name = attributes.get("file") or self._needed(attributes, "name", "uses")
        link = attributes.get("link", "input")
        if link in ("input", "inout"):
            self._read[self._job][name] = self._number(attributes.get("size", "0"), "size")
        if link in ("output", "inout"):
            self._written[self._job].add(name)

    def _needed(self, attributes: dict[str, str], key: str, element: str) -> str:
        if not attributes.get(key):
            self._wrong(f"a {element} has no {key}")
        return attributes[key]

    def _number(self, text: str, what: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 <= number < 1e300:
            self._wrong(f"{what} {text!r} is not a number from 0 on")
        return number

    def _refuse_entity(self, *_: object) -> None:
        self._wrong("entities are not read", "remove the DTD")

    def _wrong(self, message: str, hint: str = "", line: int = 0) -> NoReturn:
        """Raise InputError at *line*, or where the parser is."""
        before = self._text.split("\n")[: (line or self._parser.CurrentLineNumber) - 1]
        offset = sum(len(row) + 1 for row in before)
        raise InputError(message, place=place_at(str(self._path), self._text, offset), hint=hint)
