"""What other workflow systems record of their runs: traces of Nextflow, metadata of Snakemake.

Read only. A task is one job that ended well; its work is the seconds that it took.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from zenturio.errors import InputError
from zenturio.schedule.formats.document import MAX_EDGES, MAX_TASKS, FormatDocument, file_exists
from zenturio.schedule.formats.graphs import read_dot_graph
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.document import place_at, read_text

Edges = dict[tuple[str, str], float]


# Nextflow

_TRACE_COLUMNS = ("hash", "name", "status")
_ENDED_WELL = {"COMPLETED", "CACHED"}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d+)?) ?(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?) ?([KMGTPE]?)B", re.ASCII)
_NAME = re.compile(r"(\S+)(?: \((.*)\))?")
"""Matches ``PROCESS (TAG)``, the name of a task."""


def is_nextflow_trace(text: str) -> bool:
    """Return whether *text* begins with the names of a trace's columns."""
    columns = text.partition("\n")[0].split("\t")
    return all(name in columns for name in _TRACE_COLUMNS)


@dataclass(frozen=True)
class _TraceRow:
    task: WorkflowTask
    hash: str
    workdir: str
    process: str
    tag: str


def read_nextflow_trace(path: Path, text: str) -> Workflow:
    """Parse the trace that ``nextflow run -with-trace`` writes.

    Tasks wait for those whose files are linked into their folders in ``work``; if these are gone,
    for those of the processes before theirs in ``dag.dot``. Raise InputError if there is neither,
    and several processes.
    """
    trace = _TraceReader(path, text)
    rows = list(trace.rows())
    if not rows:
        trace.wrong(1, "no task succeeded")
    edges = _linked(path.parent, rows)
    if edges is None:
        edges = _joined_by_processes(path.parent / "dag.dot", rows)
    if edges is None and len({row.process for row in rows}) > 1:
        trace.wrong(
            1,
            "the trace does not say which task waits for which",
            "keep the folder work, or a dag.dot (nextflow run -with-dag dag.dot), beside it",
        )
    tasks = [row.task for row in rows]
    return Workflow.of(path.stem, tasks, [(a, b, size) for (a, b), size in (edges or {}).items()])


class _TraceReader:
    """The rows of a trace; texts of a cell are shown with their line."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def rows(self) -> Iterator[_TraceRow]:
        lines = self._text.split("\n")
        columns = lines[0].rstrip("\r").split("\t")
        names: set[str] = set()
        for number, line in enumerate(lines[1:], 2):
            if not line.strip():
                continue
            cells = line.rstrip("\r").split("\t")
            if len(cells) != len(columns):
                self.wrong(number, f"{len(cells)} cells, but {len(columns)} columns")
            row = dict(zip(columns, cells, strict=True))
            if row["status"] in _ENDED_WELL:
                if len(names) >= MAX_TASKS:
                    self.wrong(number, f"more than {MAX_TASKS:,} tasks")
                yield self._row(row, number, names)

    def _row(self, row: Mapping[str, str], line: int, names: set[str]) -> _TraceRow:
        parts = _NAME.fullmatch(row["name"])
        process = row.get("process", "") or (parts[1] if parts else row["name"])
        # Two tasks may have one name: then the hash, which nobody else has, tells them apart.
        name = row["name"] if row["name"] not in names else f"{row['name']} {row['hash']}"
        if not row["name"] or name in names:
            self.wrong(line, f"two tasks have the name {name!r}" if row["name"] else "no name")
        names.add(name)
        seconds = row.get("realtime", "-")
        if seconds == "-":
            seconds = row.get("duration", "-")
        if seconds == "-":
            self.wrong(line, f"task {name!r} has neither realtime nor duration")
        cpus = row.get("cpus", "-")
        if cpus != "-" and not (cpus.isascii() and cpus.isdecimal() and 0 < len(cpus) < 7):
            self.wrong(line, f"cpus {cpus!r} is not a number of cores")
        task = WorkflowTask(
            name,
            self._seconds(seconds, line),
            program=process,
            cores=max(int(cpus), 1) if cpus != "-" else 1,
            memory=self._bytes(row.get("peak_rss", "-"), line),
        )
        tag = parts[2] or "" if parts else ""
        return _TraceRow(task, row["hash"], row.get("workdir", ""), process, tag)

    def _seconds(self, text: str, line: int) -> float:
        """Return a duration: ``1h 2m 3.5s``, or milliseconds with ``trace.raw``."""
        if text.isascii() and text.isdecimal() and len(text) < 18:
            return int(text) / 1e3
        parts = text.split(" ")
        if not all(map(_DURATION.fullmatch, parts)):
            self.wrong(line, f"{text!r:.40} is not a duration")
        return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))

    def _bytes(self, text: str, line: int) -> float:
        """Return a size: ``6.3 MB`` (of 1024 x 1024 bytes), or bytes with ``trace.raw``."""
        if text in ("-", "", "null"):
            return 0.0
        if text.isascii() and text.isdecimal() and len(text) < 20:
            return float(text)
        size = _SIZE.fullmatch(text)
        if size is None:
            self.wrong(line, f"{text!r:.40} is not a size")
        return float(size[1]) * 1024.0 ** " KMGTPE".index(size[2] or " ")

    def wrong(self, line: int, message: str, hint: str = "") -> NoReturn:
        offset = sum(len(row) + 1 for row in self._text.split("\n")[: line - 1])
        raise InputError(message, place=place_at(str(self._path), self._text, offset), hint=hint)


def _linked(folder: Path, rows: list[_TraceRow]) -> Edges | None:
    """Return the edges with their bytes, from links in the tasks' folders.

    None if the folders are not all there. Nextflow links each input of a task into its folder.
    """
    folders: dict[str, str] = {}
    for row in rows:
        where = _work_folder(folder, row)
        if where is None:
            return None
        folders[str(where)] = row.task.name
    edges: Edges = {}
    for place, name in folders.items():
        for link in os.scandir(place):
            if not link.is_symlink():
                continue
            file = Path(os.path.realpath(link.path))
            source = next((folders[str(up)] for up in file.parents if str(up) in folders), name)
            if source != name:
                size = file.stat().st_size if file.is_file() else 0
                edges[source, name] = edges.get((source, name), 0.0) + size
    return edges


def _work_folder(folder: Path, row: _TraceRow) -> Path | None:
    """Return the folder of a task: from its own column, or its hash ``0b/be0d1c``."""
    if row.workdir and Path(row.workdir).is_dir():
        return Path(os.path.realpath(row.workdir))
    if not re.fullmatch(r"[0-9a-f]{2}/[0-9a-f]{6,}", row.hash):
        return None
    first, remaining_digits = row.hash.split("/")
    folders = sorted((folder / "work" / first).glob(f"{remaining_digits}*"))
    return Path(os.path.realpath(folders[0])) if folders else None


def _joined_by_processes(dag: Path, rows: list[_TraceRow]) -> Edges | None:
    """Return edges from the graph of processes; None if there is none.

    Tasks of two processes that have tags in common are joined where their tags are equal. Without
    common tags, each task of the later process waits for all of the earlier one.
    """
    if not dag.is_file():
        return None
    labels, arrows = read_dot_graph(dag, read_text(dag))
    tasks: dict[str, list[_TraceRow]] = defaultdict(list)
    for row in rows:
        tasks[row.process].append(row)
    node_of = {label.rpartition(":")[2]: node for node, label in labels.items() if label}
    process_of = {
        node_of[name.rpartition(":")[2]]: name
        for name in tasks
        if name.rpartition(":")[2] in node_of
    }
    edges: Edges = {}
    for node, process in process_of.items():
        for source in _processes_before(node, arrows, process_of):
            pairs = _pairs_by_tag(tasks[process_of[source]], tasks[process])
            # Counted as they come: all pairs of two large processes fit into no memory.
            for a, b in itertools.islice(pairs, MAX_EDGES + 1):
                edges[a.task.name, b.task.name] = 0.0
            if len(edges) > MAX_EDGES:
                raise InputError(f"{dag}: more than {MAX_EDGES:,} edges")
    return edges


def _pairs_by_tag(
    before: list[_TraceRow], after: list[_TraceRow]
) -> Iterator[tuple[_TraceRow, _TraceRow]]:
    """Yield the pairs of tasks with equal tags; all pairs if the processes share no tag."""
    by_tag: dict[str, list[_TraceRow]] = defaultdict(list)
    for row in before:
        by_tag[row.tag].append(row)
    shared = {row.tag for row in after if row.tag} & by_tag.keys()
    if not shared:
        return itertools.product(before, after)
    return ((a, b) for b in after if b.tag in shared for a in by_tag[b.tag])


def _processes_before(
    node: str, arrows: Mapping[str, set[str]], process_of: Mapping[str, str]
) -> set[str]:
    """Return the processes that lead to *node*, directly or through channels and operators."""
    pending, visited, processes = list(arrows.get(node, ())), set[str](), set[str]()
    while pending:
        before = pending.pop()
        if before in visited:
            continue
        visited.add(before)
        if before in process_of:
            processes.add(before)
        else:
            pending += arrows.get(before, ())
    return processes - {node}


# Snakemake

METADATA = Path(".snakemake", "metadata")


@dataclass
class _SnakemakeJob:
    rule: str
    inputs: list[str]
    seconds: float
    outputs: list[str] = field(default_factory=list)


def is_snakemake_folder(path: Path) -> bool:
    """Return whether Snakemake ran in the folder *path*."""
    return file_exists(path / METADATA) or path.name == METADATA.parts[0]


def read_snakemake_folder(folder: Path) -> Workflow:
    """Read the workflow that Snakemake ran in *folder*, from ``.snakemake/metadata``.

    There it keeps for each file which rule made it, when, and from which files; ``snakemake
    --report`` is made of the same. A task is named for its rule and its first file.
    """
    if folder.name == METADATA.parts[0]:
        folder = folder.absolute().parent
    jobs = _jobs(folder / METADATA)
    if not jobs:
        raise InputError(f"Snakemake recorded no complete job in {folder / METADATA}")
    names = [f"{job.rule} {min(job.outputs)}" for job in jobs]
    maker = {file: i for i, job in enumerate(jobs) for file in job.outputs}
    edges: Edges = {}
    for i, job in enumerate(jobs):
        for file in job.inputs:
            source = maker.get(file, i)
            if source != i:
                edge = (names[source], names[i])
                edges[edge] = edges.get(edge, 0.0) + _size(folder, file)
    tasks = [WorkflowTask(names[i], job.seconds, program=job.rule) for i, job in enumerate(jobs)]
    return Workflow.of(
        folder.absolute().name, tasks, [(a, b, size) for (a, b), size in edges.items()]
    )


def _jobs(metadata: Path) -> list[_SnakemakeJob]:
    """Return the jobs, in the order in which they began.

    Each file has a record; those of the files of one job agree in rule, inputs and end.
    """
    jobs: dict[tuple[Any, ...], _SnakemakeJob] = {}
    began: dict[tuple[Any, ...], float] = {}
    for count, path in enumerate(sorted(path for path in metadata.rglob("*") if path.is_file())):
        if count >= MAX_TASKS:
            raise InputError(f"{metadata} has more than {MAX_TASKS:,} files")
        document = FormatDocument.from_json(path, read_text(path))
        record = document.value
        if not isinstance(record, dict) or not isinstance(record.get("rule"), str):
            document.wrong((), "this record of Snakemake names no rule")
        if record.get("incomplete"):
            continue
        inputs = document.items(record.get("input", []), ("input",))
        document.texts(inputs, lambda j: ("input", j))
        start = document.number(record.get("starttime"), ("starttime",))
        end = document.number(record.get("endtime"), ("endtime",))
        key = (record["rule"], end, tuple(sorted(inputs)))
        # The records of a job's files are written one after the other, each with a start.
        began[key] = min(start, began.get(key, start))
        job = jobs.setdefault(key, _SnakemakeJob(record["rule"], sorted(set(inputs)), 0.0))
        job.seconds = max(end - began[key], 0.0)
        job.outputs.append(_file_of(document, path.relative_to(metadata)))
    return [jobs[key] for key in sorted(jobs, key=lambda key: (began[key], key))]


def _file_of(document: FormatDocument, record: Path) -> str:
    """Return the file that a record is about: its name, in base64 and in parts if it is long."""
    text = "".join(part.removeprefix("@") for part in record.parts)
    try:
        return base64.urlsafe_b64decode(text.encode()).decode()
    except (binascii.Error, UnicodeError):
        document.wrong((), f"{text!r:.60} is not the name of a file in base64")


def _size(folder: Path, file: str) -> float:
    """Return the bytes of *file* if it is still there; only files in *folder* are looked at."""
    path = folder / file
    try:
        if path.resolve().is_relative_to(folder.resolve()) and path.is_file():
            return float(path.stat().st_size)
    except (OSError, ValueError):
        pass
    return 0.0
