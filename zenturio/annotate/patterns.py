"""Patterns of paths (globs, .gitignore) and of metrics (regular expressions, JSON paths).

A folder may hold links to itself: Python's own ``glob`` follows them, and two of them make 2^40
paths of one pattern. Here ``**`` follows no links, and entries are counted up to a limit.

The rules of .gitignore are read here and Git is never run: the configuration of a received
repository names programs that `git status` would execute.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zenturio.errors import AnnotationError, Passage
from zenturio.name_patterns import name_fits
from zenturio.regular_expressions import Pattern, PatternError, compile_pattern, matcher_name

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


MOST_ENTRIES = 300_000
"""Entries of folders that a pattern may look at."""
_MAGIC = re.compile(r"[*?\[]")


class TooManyEntries(Exception):
    """The pattern looks at more than ``MOST_ENTRIES`` entries."""


class PathPattern:
    """One search for the paths that match a pattern."""

    def __init__(self, base: str, most: int = MOST_ENTRIES) -> None:
        self._base = base
        self._left = most

    def matches(self, pattern: str) -> Iterator[str]:
        """Yield the paths from the base that match, as the pattern writes them.

        Some may come twice. Hidden entries match only where the pattern's part begins with a
        dot; TooManyEntries once it looks at too many.
        """
        root, parts = "", pattern.split("/")
        while parts and not parts[0] and len(parts) > 1:
            root, parts = "/", parts[1:]
        yield from self._below(root, parts)

    def _below(self, prefix: str, parts: list[str]) -> Iterator[str]:
        """Yield the matches of *parts* in the folder *prefix*, which is empty or ends with /."""
        head, later_parts = parts[0], parts[1:]
        if head == "**":
            yield from self._recursive(prefix, later_parts)
        elif _MAGIC.search(head):
            for entry in self._entries(prefix):
                if _fits(entry.name, head) and (not later_parts or entry.is_dir()):
                    yield from self._descend(prefix + entry.name, later_parts)
        elif not later_parts:
            if (head or prefix) and os.path.lexists(self._at(prefix + head)):
                yield prefix + head
        elif Path(self._at(prefix + head)).is_dir():
            yield from self._descend(prefix + head, later_parts)

    def _descend(self, path: str, later_parts: list[str]) -> Iterator[str]:
        if later_parts:
            yield from self._below(f"{path}/", later_parts)
        else:
            yield path

    def _recursive(self, prefix: str, later_parts: list[str]) -> Iterator[str]:
        """The matches of ``**`` and *later_parts*: in the folder, and in all folders below it."""
        if later_parts:
            yield from self._below(prefix, later_parts)
        elif prefix:
            yield prefix
        for entry in self._entries(prefix):
            if entry.name.startswith("."):
                continue
            if not later_parts:
                yield prefix + entry.name
            # A folder may hold a link to itself.
            if entry.is_dir(follow_symlinks=False):
                inner = self._recursive(f"{prefix}{entry.name}/", later_parts)
                yield from (path for path in inner if later_parts or path[-1] != "/")

    def _at(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._base}/{path}"

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._at(prefix)) as entries:
                listed = [self._counted(entry) for entry in entries]
        except OSError:
            return []
        return listed

    def _counted(self, entry: os.DirEntry[str]) -> os.DirEntry[str]:
        self._left -= 1
        if self._left < 0:
            raise TooManyEntries
        return entry


def _fits(name: str, part: str) -> bool:
    # As in a shell: a star does not match hidden files.
    return (part[0] == "." or name[0] != ".") and name_fits(name, part)


_NAME = ".gitignore"
_LARGEST = 1_000_000
"""Bytes of a file of rules; what is longer is not one."""


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """A line of a file of rules."""

    file: Path
    line: int
    text: str


@dataclass
class _Rules:
    """The rules of one file, about paths below *base*."""

    base: str
    rules: list[IgnoreRule]
    spec: GitIgnoreSpec

    def decides(self, path: str) -> tuple[bool, IgnoreRule] | None:
        """Whether *path* (from the top, with a slash behind a folder) is ignored, if they say."""
        result = self.spec.check_file(path[len(self.base) :])
        if result.include is None or result.index is None:
            return None
        return result.include, self.rules[result.index]


@dataclass
class GitIgnore:
    """The rules that hold in the working tree at *top*."""

    top: Path
    _files: dict[str, _Rules | None] = field(default_factory=dict)
    _folders: dict[str, IgnoreRule | None] = field(default_factory=dict)
    _names: dict[Path, str | None] = field(default_factory=dict)
    _rules: dict[str, tuple[_Rules, ...]] = field(default_factory=dict)

    @staticmethod
    def around(folder: Path) -> GitIgnore | None:
        """Return the rules for *folder*, if it is in a working tree of Git."""
        real = Path(os.path.realpath(folder))
        top = next(
            (
                folder_above
                for folder_above in (real, *real.parents)
                if (folder_above / ".git").exists()
            ),
            None,
        )
        return None if top is None else GitIgnore(top)

    def rule(self, path: Path) -> IgnoreRule | None:
        """Return the rule by which Git ignores the file *path*, if it does."""
        return self.rule_in(path.parent, path.name)

    def rule_in(self, parent: Path, name: str) -> IgnoreRule | None:
        """Return the rule by which Git ignores the file *name* in *parent*, if it does."""
        if parent not in self._names:
            self._names[parent] = self._name_of(parent)
        folder = self._names[parent]
        if folder is None:
            return None
        # As Git does: below an ignored folder no rule can take a file in again.
        outer = self._folder(folder) if folder else None
        return outer or self._decided(f"{folder}/{name}" if folder else name, folder)

    def _name_of(self, folder: Path) -> str | None:
        """Return the path of *folder* from the top; None if it is not in the working tree."""
        real = Path(os.path.realpath(folder))
        if not real.is_relative_to(self.top):
            return None
        return "" if real == self.top else real.relative_to(self.top).as_posix()

    def _folder(self, folder: str) -> IgnoreRule | None:
        """Return the rule by which a folder is ignored, and so all that is in it."""
        if folder not in self._folders:
            above = folder.rpartition("/")[0]
            outer = self._folder(above) if above else None
            self._folders[folder] = outer or self._decided(folder + "/", above)
        return self._folders[folder]

    def _decided(self, name: str, folder: str) -> IgnoreRule | None:
        """What the nearest file of rules says of *name* in *folder*."""
        if folder not in self._rules:
            self._rules[folder] = tuple(self._around(folder))
        for rules in self._rules[folder]:
            decided = rules.decides(name)
            if decided is not None:
                return decided[1] if decided[0] else None
        return None

    def _around(self, folder: str) -> Iterable[_Rules]:
        """Yield the files of rules that hold in *folder*, the nearest first."""
        parts = folder.split("/") if folder else []
        bases = ["".join(f"{part}/" for part in parts[:n]) for n in range(len(parts), -1, -1)]
        paths = [(base, self.top / base / _NAME) for base in bases]
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        paths += [("", self.top / ".git/info/exclude"), ("", Path(home, "git/ignore"))]
        for base, path in paths:
            key = str(path)
            if key not in self._files:
                self._files[key] = _read(base, path)
            if (rules := self._files[key]) is not None:
                yield rules


def _read(base: str, path: Path) -> _Rules | None:
    """Return the rules of a file; None where there is none, or the file is too large to be one."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    rules = [IgnoreRule(path, number, line) for number, line in enumerate(lines, 1)]
    # Not empty: empty lines would not be counted.
    patterns = [line if _is_pattern(line) else "#" for line in lines]
    if matcher_name() == "regex":
        return _Rules(base, rules, _bounded_spec(patterns))
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - most commands read no rules

    # RE2, because a stranger's patterns may be made to backtrack for ever.
    return _Rules(base, rules, GitIgnoreSpec.from_lines(patterns, backend="re2"))


def _bounded_spec(patterns: list[str]) -> GitIgnoreSpec:
    """Return rules each of which is matched by itself, in bounded time."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - as above
    from pathspec.pattern import RegexPattern  # noqa: PLC0415 - as above

    spec = GitIgnoreSpec.from_lines(patterns, backend="simple")
    for pattern in spec.patterns:
        if isinstance(pattern, RegexPattern) and pattern.regex is not None:
            pattern.regex = cast("re.Pattern[str]", compile_pattern(pattern.regex.pattern))
    return spec


def _is_pattern(line: str) -> bool:
    """Return whether Git would heed it: what is no pattern is passed over."""
    try:
        _bounded_spec([line])
    except (ValueError, re.error, PatternError):
        return False
    return bool(line)


# Patterns of metrics: regular expressions and JSON paths that find metrics and targets


def check_pattern(passage: Passage) -> Pattern:
    """Return the compiled pattern; AnnotationError where RE2 cannot read it."""
    place = passage.place(0, len(passage.text))
    try:
        return compile_pattern(passage.text)
    except PatternError as error:
        message = f"the regular expression cannot be read: {error}"
        raise AnnotationError(message, place=place, hint=_hint(str(error))) from None


def _hint(reason: str) -> str:
    """Return a hint for the commonest mistakes."""
    if "perl operator" in reason:
        return "the syntax is RE2's, without look-around; put the text to extract in a group (…)"
    if "escape sequence: \\" in reason and reason[-1].isdigit():
        return "the syntax is RE2's, without back references"
    if "missing" in reason:
        return "close it; write \\( or \\[ for a literal bracket"
    if "repetition" in reason:
        return "write a backslash before a literal sign: \\* \\+ \\?"
    return "the syntax is that of RE2, which is Python's without look-around and back references"


_STEP = re.compile(
    r"""
    \.(?P<name>[^\s.\[\]'"]+)
  | \[\s*(?P<number>-?[0-9]{1,9})\s*\]
  | \[\s*(?P<every>\*)\s*\]
  | \[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]
  | \[\s*\?\s*(?P<open>\()?\s*@
        (?P<path>(?:\.[^\s.\[\]'"()<>=!]+|\[\s*(?:-?[0-9]{1,9}|"[^"]*"|'[^']*')\s*\])*)
        \s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>"[^"]*"|'[^']*'|[^\s\])"']+))?
        \s*(?(open)\))\s*\]
    """,
    re.VERBOSE,
)
EVERY = None
"""The step ``[*]`` or ``.*``: every member of a list or an object."""


@dataclass(frozen=True, slots=True)
class JsonFilterSelector:
    """The step ``[?(@.name == 'cg')]``: the members for which it is true.

    Without an operator, those in which the path leads somewhere.
    """

    path: tuple[JsonStep, ...]
    operator: str
    literal: Any

    def accepts(self, value: Any) -> bool:
        """Return whether *value* compares so with the literal: numbers with numbers alone."""
        if _family(value) is not _family(self.literal):
            return self.operator == "!="
        equal = bool(value == self.literal)
        if self.operator in ("==", "!="):
            return equal is (self.operator == "==")
        is_ordered = isinstance(value, int | float | str) and not isinstance(value, bool)
        return (equal and self.operator in ("<=", ">=")) or (
            is_ordered
            and bool(value < self.literal if self.operator[0] == "<" else value > self.literal)
        )


JsonStep: TypeAlias = "str | int | JsonFilterSelector | None"


def _family(value: Any) -> type:
    """Numbers of both kinds compare with each other, all else with its own type only."""
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def json_steps(path: str | Passage) -> tuple[JsonStep, ...]:
    """Return the steps of *path*: names, indices (from the end if negative), ``EVERY``, filters."""
    passage = Passage.of(path, "JSON")
    text = passage.text
    if not text.startswith("$"):
        hint = f'write "$.{text}"' if re.fullmatch(r"[\w.]+", text) else _EXAMPLE
        raise AnnotationError("a JSON path must begin with $", place=passage.place(0), hint=hint)
    steps: list[JsonStep] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if not match:
            place = passage.place(at, len(text))
            message = f"{text[at:]} is not a step of a JSON path"
            hint = _FILTER_EXAMPLE if text.startswith("[?", at) else _EXAMPLE
            raise AnnotationError(message, place=place, hint=hint)
        try:
            steps.append(_step(match))
        except ValueError:
            place = passage.place(*match.span("literal"))
            message = f"{match['literal']} is neither a number nor a text in quotes"
            raise AnnotationError(message, place=place, hint=_FILTER_EXAMPLE) from None
        at = match.end()
    return tuple(steps)


_EXAMPLE = 'as "$.results[0].time", "$[-1]", "$.runs[*].time" or "$[\'two words\']"'
_FILTER_EXAMPLE = 'as "$.jobs[?(@.name == \'read\')].time" or "$.runs[?(@.n >= 100)].time"'


def _step(match: re.Match[str]) -> JsonStep:
    if match["path"] is not None:
        literal = json.loads(_double_quoted(match["literal"])) if match["operator"] else None
        return JsonFilterSelector(json_steps("$" + match["path"]), match["operator"] or "", literal)
    if match["every"] or match["name"] == "*":
        return EVERY
    if match["number"]:
        return int(match["number"])
    if match["quoted"]:
        return re.sub(r"\\(.)", r"\1", match["quoted"][1:-1])
    return match["name"]


def _double_quoted(literal: str) -> str:
    """Return the literal as JSON writes it, which knows no single quotes."""
    return json.dumps(literal[1:-1]) if literal[0] in "\"'" else literal
