"""Graphs of networkx as workflows, and back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from zenturio.errors import InputError
from zenturio.expression import parse
from zenturio.schedule.formats.document import MAX_EDGES, MAX_TASKS, place_at
from zenturio.schedule.formats.wfformat import lost_of_tasks
from zenturio.schedule.model.workflow import Workflow, WorkflowTask

_WORK = ("work", "weight", "runtime", "size", "cost")
_DATA = ("bytes", "data", "size", "weight")
_TEXTS = ("kind", "machine", "target", "program", "tag")


def from_networkx(graph: Any, name: str = "") -> Workflow:
    """The workflow of a directed *graph*.

    A node's ``work``, ``weight``, ``runtime``, ``size`` or ``cost`` is its work, an edge's
    ``bytes``, ``data``, ``size`` or ``weight`` its data; parallel edges are added up.
    """
    if not graph.is_directed():
        raise InputError("a workflow is a directed graph, and this one is not")
    tasks = [task_with(str(node), known) for node, known in graph.nodes(data=True)]
    edges: dict[tuple[str, str], float] = {}
    for a, b, known in graph.edges(data=True):
        ends = str(a), str(b)
        edges[ends] = edges.get(ends, 0.0) + edge_bytes(ends, known)
    return Workflow.of(
        name or str(graph.name) or "graph", tasks, [(a, b, data) for (a, b), data in edges.items()]
    )


def task_with(name: str, known: Mapping[str, Any]) -> WorkflowTask:
    """A task with the attributes that are *known* of it."""
    texts = {key: str(known[key]) for key in _TEXTS if known.get(key)}
    if texts.get("kind", "job") not in {"job", "transfer"}:
        raise InputError(f"task {name!r}: kind is {texts['kind']!r}, not job or transfer")
    return WorkflowTask(
        name,
        _first_number(f"task {name!r}", known, _WORK),
        cores=_cores(name, known),
        memory=_first_number(f"task {name!r}", known, ("memory",)),
        **texts,  # type: ignore[arg-type]
    )


def edge_bytes(ends: tuple[str, str], known: Mapping[str, Any]) -> float:
    """The bytes along an edge with the attributes that are *known* of it."""
    return _first_number(f"edge {ends[0]} -> {ends[1]}", known, _DATA)


def _first_number(
    what: str, known: Mapping[str, Any], keys: tuple[str, ...], default: float = 0.0
) -> float:
    for key in keys:
        if known.get(key) is not None:
            found = _number_of(known[key])
            if found is None:
                raise InputError(f"{what}: {key} is {known[key]!r:.60}, no number")
            if not 0 <= found < float("inf"):
                raise InputError(f"{what}: {key} is {found:g}; it has to be 0 or more")
            return found
    return default


def _number_of(given: Any) -> float | None:
    """*given* as a number: also from a text such as 4GB."""
    try:
        return float(given)
    except (TypeError, ValueError):
        pass
    try:
        found = parse(str(given)).value({})
    except InputError:
        return None
    return float(found) if isinstance(found, int | float) else None


def _cores(name: str, known: Mapping[str, Any]) -> int:
    found = _first_number(f"task {name!r}", known, ("cores",), 1.0)
    if not found.is_integer() or not 1 <= found <= MAX_TASKS:
        raise InputError(
            f"task {name!r}: cores is {found:g}; it has to be a whole number from 1 on"
        )
    return int(found)


def to_networkx(flow: Workflow) -> Any:
    """A ``networkx.DiGraph`` of *flow* with all it knows as attributes."""
    import networkx as nx  # noqa: PLC0415 - loads for half a second

    graph = nx.DiGraph(name=flow.name)
    for each in flow.tasks:
        graph.add_node(each.name, **task_attributes(each))
    for a, b, data in flow.edges:
        before = graph.edges[a, b]["bytes"] if graph.has_edge(a, b) else 0.0
        graph.add_edge(a, b, bytes=before + data)
    return graph


def task_attributes(task: WorkflowTask) -> dict[str, Any]:
    """What is known of *task* beside its name, without what is as it is commonly."""
    common = WorkflowTask("")
    found: dict[str, Any] = {"work": task.work}
    for key in (*_TEXTS, "cores", "memory"):
        if getattr(task, key) != getattr(common, key):
            found[key] = getattr(task, key)
    return found


def attribute_texts(known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Attributes as texts; of numbers, the shortest that say them exactly."""
    for key, value in known.items():
        yield key, repr(value) if isinstance(value, float) else str(value)


_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | ^\#[^\n]*
    | (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<markup><)
    | (?P<word>[^\W\d]\w* | -?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][+-]?\d+)?)
    | (?P<sign>->|--|[{}\[\]=;,:+])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_ESCAPED = re.compile(r"\\([\\\"\n]|\r\n)")
"""What a backslash changes in a quoted text: \\n and \\l are for those who draw it."""
_BRACKET = re.compile("[<>]")
_MAX_DEPTH = 50
_KEYWORDS = {"graph", "digraph", "strict", "subgraph", "node", "edge"}

Attributes = dict[str, str]


class _DotParser:
    """One token ahead; what has been read is in ``nodes`` and ``edges``."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = str(path), text
        self.tokens = self._tokens()
        self.at, self.sign, self.value = 0, "", ""
        self.nodes: dict[str, Attributes] = {}
        self.edges: dict[tuple[str, str], float] = {}
        """The bytes of each: of several between the same nodes, of all of them."""
        self.usual: dict[str, Attributes] = {"graph": {}, "node": {}, "edge": {}}
        """Attributes that are set for all that follow."""
        self.strict = False
        self.step()

    def _tokens(self) -> Iterator[tuple[int, str, str]]:
        at = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if not found:
                self.at = at
                self.wrong(f"{self.text[at]!r} is nothing of DOT")
            if found["text"]:
                yield at, "name", _ESCAPED.sub(_unescaped, found["text"][1:-1])
            elif found["markup"]:
                end = self._end_of_markup(at)
                yield at, "name", self.text[at:end]
                at = end
                continue
            elif found["word"]:
                word = found["word"]
                yield at, word if word in _KEYWORDS else "name", word
            elif found["sign"]:
                yield at, found["sign"], found["sign"]
            at = found.end()
        while True:
            yield at, "end", "the end of the file"

    def _end_of_markup(self, at: int) -> int:
        """Where the text ends that is written as HTML, from the < at *at* on."""
        depth, end = 1, at + 1
        while depth:
            found = _BRACKET.search(self.text, end)
            if not found:
                self.at = at
                self.wrong("'<' is never closed")
            depth += 1 if found[0] == "<" else -1
            end = found.end()
        return end

    def wrong(self, message: str, hint: str = "") -> NoReturn:
        raise InputError(message, place=place_at(self.path, self.text, self.at), hint=hint)

    def step(self) -> str:
        """The value of the token, and on to the next."""
        value = self.value
        self.at, self.sign, self.value = next(self.tokens)
        return value

    def take(self, sign: str) -> str:
        if self.sign != sign:
            self.wrong(f"{self.value!r:.60} stands where {sign!r} should")
        return self.step()

    def name(self) -> str:
        """A name, or several joined by +."""
        found = self.take("name")
        while self.sign == "+":
            self.step()
            found += self.take("name")
        return found

    def graph(self) -> str:
        """The whole file: its name."""
        if self.sign == "strict":
            self.strict = True
            self.step()
        if self.sign == "graph":
            self.wrong("a graph without directions is no workflow", "write digraph, and ->")
        self.take("digraph")
        name = self.step() if self.sign == "name" else ""
        self.take("{")
        self.statements(0)
        self.take("}")
        if self.sign != "end":
            self.wrong("a file has one graph")
        return name

    def statements(self, depth: int) -> list[str]:
        """All up to the brace that closes: the nodes that are named."""
        if depth > _MAX_DEPTH:
            self.wrong(f"braces are nested more than {_MAX_DEPTH} deep")
        found: list[str] = []
        while self.sign not in {"}", "end"}:
            if self.sign in {";", ","}:
                self.step()
            else:
                found += self.statement(depth)
        return found

    def statement(self, depth: int) -> list[str]:
        if self.sign in {"graph", "node", "edge"}:
            which = self.step()
            known = self.attributes()
            self.usual[which] |= known
            return []
        at, before = self.at, len(self.nodes)
        ends = [self.group(depth)]
        if self.sign == "=" and len(ends[0]) == 1:
            return self.setting(len(self.nodes) - before)
        while self.sign == "->":
            self.step()
            ends.append(self.group(depth))
        if self.sign == "=":
            self.wrong("a group cannot be set")
        known = self.attributes()
        try:
            self.keep(ends, known)
        except InputError as error:
            self.at = at
            self.wrong(error.diagnostics[0].message)
        return [node for end in ends for node in end]

    def setting(self, new: int) -> list[str]:
        """A ``key = value`` of the graph, whose key has been taken for a node."""
        if new:
            self.nodes.popitem()
        self.take("=")
        self.name()
        return []

    def keep(self, ends: list[list[str]], known: Attributes) -> None:
        """Keep a node with what is *known* of it, or the edges of a chain."""
        if len(ends) == 1:
            for node in ends[0]:
                self.nodes[node] |= known
                task_with(node, self.nodes[node])
        for before, after in itertools.pairwise(ends):
            if len(self.edges) + len(before) * len(after) > MAX_EDGES:
                raise InputError(f"more than {MAX_EDGES:,} edges")
            for a, b in itertools.product(before, after):
                if a == b:
                    raise InputError(f"task {a!r} waits for itself")
                before_it = 0.0 if self.strict else self.edges.get((a, b), 0.0)
                self.edges[a, b] = before_it + edge_bytes((a, b), self.usual["edge"] | known)

    def group(self, depth: int) -> list[str]:
        """A node, or the nodes in braces."""
        if self.sign == "subgraph":
            self.step()
            if self.sign == "name":
                self.step()
        if self.sign == "{":
            self.step()
            around = {which: dict(known) for which, known in self.usual.items()}
            found = list(dict.fromkeys(self.statements(depth + 1)))
            self.usual = around
            self.take("}")
            return found
        name = self.name()
        while self.sign == ":":
            self.step()
            self.take("name")
        self.nodes.setdefault(name, dict(self.usual["node"]))
        if len(self.nodes) > MAX_TASKS:
            self.wrong(f"more than {MAX_TASKS:,} nodes")
        return [name]

    def attributes(self) -> Attributes:
        found: Attributes = {}
        while self.sign == "[":
            self.step()
            while self.sign != "]":
                key = self.name()
                found[key] = "true"
                if self.sign == "=":
                    self.step()
                    found[key] = self.name()
                if self.sign in {";", ","}:
                    self.step()
            self.step()
        return found


def _unescaped(found: re.Match[str]) -> str:
    return found[1] if found[1] in {"\\", '"'} else ""


def read_dot(path: Path, text: str) -> Workflow:
    """The workflow of a digraph; attributes as those of a networkx graph."""
    reader = _DotParser(path, text)
    name = reader.graph()
    tasks = [task_with(node, known) for node, known in reader.nodes.items()]
    edges = [(*ends, bytes_) for ends, bytes_ in reader.edges.items()]
    if not tasks:
        reader.wrong("a graph without nodes is no workflow")
    return Workflow.of(name or path.stem, tasks, edges)


def write_dot(flow: Workflow) -> Iterator[str]:
    """*flow* as a digraph."""
    yield f"digraph {_quoted(flow.name)} {{\n"
    for each in flow.tasks:
        known = ", ".join(
            f"{key}={_quoted(text)}" for key, text in attribute_texts(task_attributes(each))
        )
        yield f"  {_quoted(each.name)} [{known}];\n"
    for a, b, data in flow.edges:
        yield f"  {_quoted(a)} -> {_quoted(b)}{f' [bytes={data!r}]' if data else ''};\n"
    yield "}\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_losses(flow: Workflow) -> Iterator[str]:
    yield from lost_of_tasks(flow, ("kind", "machine", "target", "tag", "cores", "memory"))
    if flow.notes:
        yield f"notes: {', '.join(flow.notes)}"
