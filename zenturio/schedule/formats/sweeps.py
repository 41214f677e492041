"""Edges of parameter-sweep tasks: between whole layers, or between single subtasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenturio.errors import did_you_mean
from zenturio.schedule.formats.document import MAX_EDGES, FormatDocument, KeyPath
from zenturio.schedule.workflow import Floats, Indices

_EDGE_KEYS = ("from", "to", "bytes", "join")


@dataclass(frozen=True)
class EdgeColumns:
    sources: Indices
    targets: Indices
    data: Floats


@dataclass(frozen=True)
class SweepRanges:
    """The subtasks that each parameter-sweep task has become."""

    ranges: Mapping[str, range]

    def edges(
        self, document: FormatDocument, number: Mapping[str, int], rows: list[Any]
    ) -> EdgeColumns:
        """*rows*, those between sweeps joined all with all, or each with each."""
        sources: list[Indices] = []
        targets: list[Indices] = []
        data: list[Floats] = []
        count = 0
        for i, given in enumerate(rows):
            way: KeyPath = ("edges", i)
            edge = _edge_object(document, given, way)
            a, b = (self._ends(document, number, edge.get(key), way) for key in ("from", "to"))
            moved = document.number(edge.get("bytes", 0.0), (*way, "bytes"))
            each = document.words(edge.get("join", "all"), (*way, "join"))
            if each not in {"all", "each"}:
                document.wrong((*way, "join"), f"join is {each!r}", "write 'all' or 'each'")
            if each == "each" and len(a) != len(b):
                document.wrong(way, f"{len(a)} subtasks cannot be joined each with one of {len(b)}")
            pairs = len(a) if each == "each" else len(a) * len(b)
            count += pairs
            if count > MAX_EDGES:
                document.wrong(way, f"more than {MAX_EDGES:,} edges")
            sources.append(np.array(a) if each == "each" else np.repeat(a, len(b)))
            targets.append(np.array(b) if each == "each" else np.tile(b, len(a)))
            data.append(np.full(pairs, moved))
        return EdgeColumns(
            _concatenated(sources), _concatenated(targets), np.concatenate([np.zeros(0), *data])
        )

    def _ends(
        self, document: FormatDocument, number: Mapping[str, int], name: Any, way: KeyPath
    ) -> range:
        document.words(name, way)
        if name in self.ranges:
            return self.ranges[name]
        if name not in number:
            hint = did_you_mean(name, [*self.ranges, *number])
            document.wrong(way, f"no task is named {name!r}", hint)
        return range(number[name], number[name] + 1)


def _edge_object(document: FormatDocument, given: Any, way: KeyPath) -> dict[str, Any]:
    if isinstance(given, dict):
        document.keys(given, _EDGE_KEYS, way)
        return given
    if not isinstance(given, list) or not 2 <= len(given) <= 3:
        document.wrong(way, "an edge is [from, to], [from, to, bytes] or an object")
    return dict(zip(_EDGE_KEYS, given, strict=False))


def _concatenated(columns: list[Indices]) -> Indices:
    return np.concatenate([np.zeros(0, np.int32), *columns]).astype(np.int32)
