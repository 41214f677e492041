"""Makeflow, read only: rules that make files from files, and the log of their run beside them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from zenturio.errors import InputError
from zenturio.schedule.formats.document import MAX_TASKS
from zenturio.schedule.model.workflow import Workflow, WorkflowTask
from zenturio.settings.document import place_at, read_text

LOG_ENDING = ".makeflowlog"
"""Makeflow appends it to the name of the workflow."""

_VARIABLE = re.compile(r"\$(?:\$|(\w+)|\{(\w+)\}|\((\w+)\))")
_ASSIGNMENT = re.compile(r"(?:export\s+)?@?(\w+)\s*(\+?=)(.*)", re.DOTALL)
_DEFAULT_CATEGORY = "default"
_MAX_COUNT = 10**7
"""Cores or accelerators of a task, as in other formats."""
_MAX_EXPANDED = 10**6
"""Characters of a line after its variables are replaced; ``A=$A$A`` doubles with each line."""


@dataclass
class _Rule:
    line: int
    targets: list[str]
    sources: list[str]
    category: str
    command: str = ""
    variables: dict[str, str] = field(default_factory=dict)


@dataclass
class _RunLog:
    """What the log tells: seconds of each rule by its number, and bytes of each file."""

    seconds: Mapping[int, float]
    sizes: Mapping[str, float]


def read_makeflow(path: Path, text: str) -> Workflow:
    """Parse a workflow: a rule is a task, named for the first file that it makes.

    The program of a task is its category, or the first word of its command. Its work is the time
    in the log ``PATH.makeflowlog``, and 0 if there is none; bytes are those of the files in the
    log, or of ``.SIZE``.
    """
    return _MakeflowReader(path, text).read()


class _MakeflowReader:
    """One pass over the lines, which knows the line of each error."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text
        self._line = 0
        self._category = _DEFAULT_CATEGORY
        self._variables: dict[str, dict[str, str]] = {_DEFAULT_CATEGORY: {}}
        """Of each category; those of the default one count for all."""
        self._sizes: dict[str, float] = {}
        self._rules: list[_Rule] = []

    def read(self) -> Workflow:
        for line in self._lines():
            self._read_line(line)
        if not self._rules:
            self._wrong("no rules")
        log = self._log()
        maker: dict[str, int] = {}
        for i, rule in enumerate(self._rules):
            self._line = rule.line
            if not rule.command:
                self._wrong(f"the rule of {rule.targets[0]!r} has no command")
            for name in rule.targets:
                if name in maker:
                    self._wrong(f"two rules make {name!r}")
                maker[name] = i
        tasks = [self._task(rule, log.seconds.get(i, 0.0)) for i, rule in enumerate(self._rules)]
        sizes = {**self._sizes, **log.sizes}
        edges: dict[tuple[str, str], float] = {}
        for rule in self._rules:
            for name in dict.fromkeys(rule.sources):
                if name in maker:
                    edge = (self._rules[maker[name]].targets[0], rule.targets[0])
                    edges[edge] = edges.get(edge, 0.0) + sizes.get(name, 0.0)
        self._line = 0
        return Workflow.of(self._path.stem, tasks, [(a, b, size) for (a, b), size in edges.items()])

    def _lines(self) -> Iterator[str]:
        """Yield lines without comments, those that end with a backslash joined."""
        joined = ""
        for number, line in enumerate(self._text.split("\n"), 1):
            if not joined:
                self._line = number
            joined += line.rstrip("\r")
            if joined.endswith("\\"):
                joined = joined[:-1] + " "
            else:
                yield joined
                joined = ""
        yield joined

    def _read_line(self, line: str) -> None:
        words = line.strip()
        if not words or words.startswith("#"):
            return
        if line[0] in " \t" and self._rules:
            self._read_command(words)
        elif words.startswith("."):
            self._read_directive(self._words(words))
        elif (assignment := _ASSIGNMENT.fullmatch(words)) is not None:
            self._assign(assignment, self._variables[self._category])
            if assignment[1] == "CATEGORY":
                self._enter(self._variables[self._category].pop("CATEGORY"))
        elif not words.startswith("export "):
            self._read_rule(words)

    def _read_command(self, words: str) -> None:
        rule = self._rules[-1]
        assignment = _ASSIGNMENT.fullmatch(words) if words.startswith("@") else None
        if assignment is not None:
            self._assign(assignment, rule.variables)
        elif rule.command:
            self._wrong("a rule has one command", "join commands with && or ;")
        else:
            rule.command = self._expanded(words, rule)

    def _read_directive(self, words: list[str]) -> None:
        match words:
            case [".MAKEFLOW" | ".RESOURCE", "CATEGORY", name]:
                self._enter(name)
            case [".RESOURCE", key, value, *_]:
                self._variables[self._category][key] = value
            case [".SIZE", name, size, *_]:
                self._sizes[name] = self._number(size, ".SIZE")

    def _enter(self, category: str) -> None:
        self._category = category
        self._variables.setdefault(category, {})

    def _assign(self, assignment: re.Match[str], variables: dict[str, str]) -> None:
        name, sign, value = assignment.groups()
        text = " ".join(self._words(self._expanded(value)))
        previous = variables.get(name, self._variables[_DEFAULT_CATEGORY].get(name, ""))
        variables[name] = f"{previous} {text}".strip() if sign == "+=" else text

    def _read_rule(self, words: str) -> None:
        if len(self._rules) >= MAX_TASKS:
            self._wrong(f"more than {MAX_TASKS:,} rules")
        # In ``a->b: c`` the file a has the name b where the command runs.
        names = self._words(self._expanded(words))
        ends = [i for i, name in enumerate(names) if name == ":" or name.endswith(":")]
        if not ends:
            self._wrong(f"{words!r:.60} is neither a rule nor an assignment", "write OUT: IN")
        before, after = names[: ends[0]], names[ends[0] + 1 :]
        before += [names[ends[0]][:-1]] if names[ends[0]] != ":" else []
        targets = [name.partition("->")[0] for name in before]
        if not targets:
            self._wrong("a rule without a target")
        sources = [name.partition("->")[0] for name in after]
        self._rules.append(_Rule(self._line, targets, sources, self._category))

    def _task(self, rule: _Rule, seconds: float) -> WorkflowTask:
        values = {
            **self._variables[_DEFAULT_CATEGORY], **self._variables[rule.category],
            **rule.variables,
        }  # fmt: skip
        self._line = rule.line
        command = rule.command.removeprefix("LOCAL ").split()
        has_category = rule.category != _DEFAULT_CATEGORY
        cores = self._number(values.get("CORES", "1"), "CORES", _MAX_COUNT)
        return WorkflowTask(
            rule.targets[0],
            seconds,
            program=rule.category if has_category or not command else Path(command[0]).name,
            cores=max(int(cores), 1),
            memory=self._number(values.get("MEMORY", "0"), "MEMORY") * 1e6,
            accelerators=int(self._number(values.get("GPUS", "0"), "GPUS", _MAX_COUNT)),
        )

    def _expanded(self, text: str, rule: _Rule | None = None) -> str:
        """Return *text* with its variables replaced; unknown ones are empty, as in the shell."""
        scopes = [rule.variables] if rule else []
        scopes += [self._variables[self._category], self._variables[_DEFAULT_CATEGORY]]
        length = len(text)

        def value(match: re.Match[str]) -> str:
            nonlocal length
            name = match[1] or match[2] or match[3]
            if name is None:
                return "$"
            replacement = next((scope[name] for scope in scopes if name in scope), "")
            # Counted here: a line may name a long variable so often that no memory holds it.
            length += len(replacement)
            if length > _MAX_EXPANDED:
                self._wrong(f"variables make this line longer than {_MAX_EXPANDED:,} characters")
            return replacement

        return _VARIABLE.sub(value, text)

    def _words(self, text: str) -> list[str]:
        try:
            return shlex.split(text, comments=True)
        except ValueError as error:
            self._wrong(str(error).lower())

    def _number(self, text: str, what: str, high: float = 1e300) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number <= high:
            self._wrong(f"{what} {text!r} is not a number from 0 to {high:g}")
        return number

    def _log(self) -> _RunLog:
        """Return what the log beside the workflow tells; nothing if there is none."""
        path = self._path.with_name(self._path.name + LOG_ENDING)
        return _read_log(read_text(path)) if path.is_file() else _RunLog({}, {})

    def _wrong(self, message: str, hint: str = "") -> NoReturn:
        before = self._text.split("\n")[: max(self._line, 1) - 1]
        offset = sum(len(row) + 1 for row in before)
        raise InputError(message, place=place_at(str(self._path), self._text, offset), hint=hint)


_STATE = re.compile(r"(\d{1,18}) (\d{1,9}) ([0-4]) ")
"""Matches a line of the log: microseconds, the number of a rule, its new state."""
_FILE_EXISTS = re.compile(r"# FILE \d+ (.+) 2 (\d{1,18})\s*")
_RUNNING, _COMPLETE = "1", "2"


def _read_log(text: str) -> _RunLog:
    """Return the time of the last complete run of each rule, and the sizes of files."""
    began: dict[int, int] = {}
    seconds: dict[int, float] = {}
    sizes: dict[str, float] = {}
    for line in text.split("\n"):
        if (state := _STATE.match(line)) is not None:
            rule, now = int(state[2]), int(state[1])
            if state[3] == _RUNNING:
                began[rule] = now
            elif state[3] == _COMPLETE and rule in began:
                seconds[rule] = max(now - began[rule], 0) / 1e6
        elif (file := _FILE_EXISTS.fullmatch(line)) is not None:
            sizes[file[1]] = float(file[2])
    return _RunLog(seconds, sizes)
