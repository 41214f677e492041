"""Workflows as networkx graphs, and as DOT files of Graphviz."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from zenturio.errors import InputError
from zenturio.expression import parse
from zenturio.schedule.formats.document import MAX_EDGES, MAX_TASKS
from zenturio.schedule.formats.wfformat import lost_of_tasks
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.document import place_at

_WORK = ("work", "weight", "runtime", "size", "cost")
_DATA = ("bytes", "data", "size", "weight")
_TEXTS = ("kind", "machine", "target", "program", "tag")


def from_networkx(graph: Any, name: str = "") -> Workflow:
    """Return the workflow of a directed *graph*.

    The work of a task is the node attribute ``work``, ``weight``, ``runtime``, ``size`` or
    ``cost``, whichever comes first; the bytes of an edge are ``bytes``, ``data``, ``size`` or
    ``weight``. Parallel edges are added up.
    """
    if not graph.is_directed():
        raise InputError("a workflow is a directed graph, and this one is not")
    tasks = [
        task_with(str(node), node_attributes) for node, node_attributes in graph.nodes(data=True)
    ]
    edges: dict[tuple[str, str], float] = {}
    for a, b, node_attributes in graph.edges(data=True):
        ends = str(a), str(b)
        edges[ends] = edges.get(ends, 0.0) + edge_bytes(ends, node_attributes)
    return Workflow.of(
        name or str(graph.name) or "graph", tasks, [(a, b, data) for (a, b), data in edges.items()]
    )


def task_with(name: str, attributes: Mapping[str, Any]) -> WorkflowTask:
    """Return a task with *attributes*; InputError if one is invalid."""
    texts = {key: str(attributes[key]) for key in _TEXTS if attributes.get(key)}
    if texts.get("kind", "job") not in {"job", "transfer"}:
        raise InputError(f"task {name!r}: kind is {texts['kind']!r}, not job or transfer")
    return WorkflowTask(
        name,
        _first_number(f"task {name!r}", attributes, _WORK),
        cores=_cores(name, attributes),
        memory=_first_number(f"task {name!r}", attributes, ("memory",)),
        **texts,  # type: ignore[arg-type]
    )


def edge_bytes(ends: tuple[str, str], attributes: Mapping[str, Any]) -> float:
    """Return the bytes of an edge with *attributes*."""
    return _first_number(f"edge {ends[0]} -> {ends[1]}", attributes, _DATA)


def _first_number(
    subject: str, attributes: Mapping[str, Any], keys: tuple[str, ...], default: float = 0.0
) -> float:
    """Return the number of the first of *keys* that is present."""
    for key in keys:
        if attributes.get(key) is not None:
            number = _number_of(attributes[key])
            if number is None:
                raise InputError(
                    f"{subject}: {key} is {attributes[key]!r:.60}, which is not a number"
                )
            if not 0 <= number < float("inf"):
                raise InputError(f"{subject}: {key} is {number:g}; it has to be 0 or more")
            return number
    return default


def _number_of(value: Any) -> float | None:
    """Return *value* as a number, also from a text such as 4GB; None if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    try:
        number = parse(str(value)).value({})
    except InputError:
        return None
    return float(number) if isinstance(number, int | float) else None


def _cores(name: str, attributes: Mapping[str, Any]) -> int:
    cores = _first_number(f"task {name!r}", attributes, ("cores",), 1.0)
    if not cores.is_integer() or not 1 <= cores <= MAX_TASKS:
        raise InputError(
            f"task {name!r}: cores is {cores:g}; it has to be a whole number from 1 on"
        )
    return int(cores)


def to_networkx(flow: Workflow) -> Any:
    """Return *flow* as a ``networkx.DiGraph``, with all facts as attributes."""
    import networkx as nx  # noqa: PLC0415 - loads for half a second

    graph = nx.DiGraph(name=flow.name)
    for task in flow.tasks:
        graph.add_node(task.name, **task_attributes(task))
    for a, b, data in flow.edges:
        previous = graph.edges[a, b]["bytes"] if graph.has_edge(a, b) else 0.0
        graph.add_edge(a, b, bytes=previous + data)
    return graph


def task_attributes(task: WorkflowTask) -> dict[str, Any]:
    """Return the attributes of *task* that differ from their defaults."""
    default = WorkflowTask("")
    attributes: dict[str, Any] = {"work": task.work}
    for key in (*_TEXTS, "cores", "memory"):
        if getattr(task, key) != getattr(default, key):
            attributes[key] = getattr(task, key)
    return attributes


def attribute_texts(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield attributes as texts; numbers in the shortest exact form."""
    for key, value in attributes.items():
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
r"""Escapes of a quoted text; ``\\n`` and ``\\l`` matter only to drawing programs."""
_BRACKET = re.compile("[<>]")
_MAX_DEPTH = 50
_KEYWORDS = {"graph", "digraph", "strict", "subgraph", "node", "edge"}

Attributes = dict[str, str]


class _DotParser:
    """A recursive-descent parser of DOT with one token of lookahead."""

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
            token = _TOKEN.match(self.text, at)
            if not token:
                self.at = at
                self.wrong(f"{self.text[at]!r} is not valid in DOT")
            if token["text"]:
                yield at, "name", _ESCAPED.sub(_unescaped, token["text"][1:-1])
            elif token["markup"]:
                end = self._end_of_markup(at)
                yield at, "name", self.text[at:end]
                at = end
                continue
            elif token["word"]:
                word = token["word"]
                yield at, word if word in _KEYWORDS else "name", word
            elif token["sign"]:
                yield at, token["sign"], token["sign"]
            at = token.end()
        while True:
            yield at, "end", "the end of the file"

    def _end_of_markup(self, at: int) -> int:
        """Return the end of the HTML text that begins with the < at *at*."""
        depth, end = 1, at + 1
        while depth:
            bracket = _BRACKET.search(self.text, end)
            if not bracket:
                self.at = at
                self.wrong("'<' is never closed")
            depth += 1 if bracket[0] == "<" else -1
            end = bracket.end()
        return end

    def wrong(self, message: str, hint: str = "") -> NoReturn:
        raise InputError(message, place=place_at(self.path, self.text, self.at), hint=hint)

    def step(self) -> str:
        """Return the value of the current token and advance."""
        value = self.value
        self.at, self.sign, self.value = next(self.tokens)
        return value

    def take(self, sign: str) -> str:
        """Return the value of the current token, which must be *sign*, and advance."""
        if self.sign != sign:
            expected = "a name" if sign == "name" else repr(sign)
            found = self.value if self.sign == "end" else f"{self.value!r:.60}"
            self.wrong(f"expected {expected}, not {found}")
        return self.step()

    def name(self) -> str:
        """Parse a name, or several joined by +."""
        text = self.take("name")
        while self.sign == "+":
            self.step()
            text += self.take("name")
        return text

    def graph(self) -> str:
        """Parse the whole file and return the name of the graph."""
        if self.sign == "strict":
            self.strict = True
            self.step()
        if self.sign == "graph":
            self.wrong("a graph without directions is not a workflow", "write digraph, and ->")
        self.take("digraph")
        name = self.step() if self.sign == "name" else ""
        self.take("{")
        self.statements(0)
        self.take("}")
        if self.sign != "end":
            self.wrong("a file has one graph")
        return name

    def statements(self, depth: int) -> list[str]:
        """Parse up to the closing brace and return the nodes that are named."""
        if depth > _MAX_DEPTH:
            self.wrong(f"braces are nested more than {_MAX_DEPTH} deep")
        nodes: list[str] = []
        while self.sign not in {"}", "end"}:
            if self.sign in {";", ","}:
                self.step()
            else:
                nodes += self.statement(depth)
        return nodes

    def statement(self, depth: int) -> list[str]:
        if self.sign in {"graph", "node", "edge"}:
            which = self.step()
            attributes = self.attributes()
            self.usual[which] |= attributes
            return []
        at, before = self.at, len(self.nodes)
        ends = [self.group(depth)]
        # ``key = value`` begins like a node statement: undo the node if it was new.
        if self.sign == "=" and len(ends[0]) == 1:
            return self.setting(len(self.nodes) - before)
        while self.sign == "->":
            self.step()
            ends.append(self.group(depth))
        if self.sign == "=":
            self.wrong("a group cannot be set")
        attributes = self.attributes()
        try:
            self.keep(ends, attributes)
        except InputError as error:
            self.at = at
            self.wrong(error.diagnostics[0].message)
        return [node for end in ends for node in end]

    def setting(self, new: int) -> list[str]:
        """Parse ``key = value`` of the graph, after its key was parsed as a node."""
        if new:
            self.nodes.popitem()
        self.take("=")
        self.name()
        return []

    def keep(self, ends: list[list[str]], attributes: Attributes) -> None:
        """Store a node's attributes, or the edges of a chain."""
        if len(ends) == 1:
            for node in ends[0]:
                self.nodes[node] |= attributes
                task_with(node, self.nodes[node])
        for before, after in itertools.pairwise(ends):
            if len(self.edges) + len(before) * len(after) > MAX_EDGES:
                raise InputError(f"more than {MAX_EDGES:,} edges")
            for a, b in itertools.product(before, after):
                if a == b:
                    raise InputError(f"task {a!r} waits for itself")
                previous = 0.0 if self.strict else self.edges.get((a, b), 0.0)
                self.edges[a, b] = previous + edge_bytes((a, b), self.usual["edge"] | attributes)

    def group(self, depth: int) -> list[str]:
        """Parse a node, or the nodes in braces."""
        if self.sign == "subgraph":
            self.step()
            if self.sign == "name":
                self.step()
        if self.sign == "{":
            self.step()
            outer_defaults = {which: dict(defaults) for which, defaults in self.usual.items()}
            nodes = list(dict.fromkeys(self.statements(depth + 1)))
            self.usual = outer_defaults
            self.take("}")
            return nodes
        name = self.name()
        while self.sign == ":":
            self.step()
            self.take("name")
        self.nodes.setdefault(name, dict(self.usual["node"]))
        if len(self.nodes) > MAX_TASKS:
            self.wrong(f"more than {MAX_TASKS:,} nodes")
        return [name]

    def attributes(self) -> Attributes:
        attributes: Attributes = {}
        while self.sign == "[":
            self.step()
            while self.sign != "]":
                key = self.name()
                attributes[key] = "true"
                if self.sign == "=":
                    self.step()
                    attributes[key] = self.name()
                if self.sign in {";", ","}:
                    self.step()
            self.step()
        return attributes


def _unescaped(match: re.Match[str]) -> str:
    return match[1] if match[1] in {"\\", '"'} else ""


def read_dot(path: Path, text: str) -> Workflow:
    """Parse a digraph; attributes mean the same as those of a networkx graph."""
    reader = _DotParser(path, text)
    name = reader.graph()
    tasks = [task_with(node, node_attributes) for node, node_attributes in reader.nodes.items()]
    edges = [(*ends, bytes_) for ends, bytes_ in reader.edges.items()]
    if not tasks:
        reader.wrong("a graph without nodes is not a workflow")
    return Workflow.of(name or path.stem, tasks, edges)


def read_dot_graph(path: Path, text: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Parse any digraph; return the label of each node, and the nodes with an edge to each."""
    reader = _DotParser(path, text)
    reader.graph()
    before: dict[str, set[str]] = {}
    for source, target in reader.edges:
        before.setdefault(target, set()).add(source)
    return {node: str(values.get("label", node)) for node, values in reader.nodes.items()}, before


def write_dot(flow: Workflow) -> Iterator[str]:
    """Yield *flow* as a digraph."""
    yield f"digraph {_quoted(flow.name)} {{\n"
    for task in flow.tasks:
        attributes = ", ".join(
            f"{key}={_quoted(text)}" for key, text in attribute_texts(task_attributes(task))
        )
        yield f"  {_quoted(task.name)} [{attributes}];\n"
    for a, b, data in flow.edges:
        yield f"  {_quoted(a)} -> {_quoted(b)}{f' [bytes={data!r}]' if data else ''};\n"
    yield "}\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_losses(flow: Workflow) -> Iterator[str]:
    yield from lost_of_tasks(flow, ("kind", "machine", "target", "tag", "cores", "memory"))
    if flow.notes:
        yield f"notes: {', '.join(flow.notes)}"
