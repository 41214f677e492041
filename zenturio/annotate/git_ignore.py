"""
Which files Git ignores: its rules are read here, and Git is never run.

A received repository's configuration names programs that `git status` and its like execute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import re2
from pathspec import GitIgnoreSpec

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
        found = self.spec.check_file(path[len(self.base) :])
        if found.include is None or found.index is None:
            return None
        return found.include, self.rules[found.index]


@dataclass
class GitIgnore:
    """The rules that hold in the working tree at *top*."""

    top: Path
    _files: dict[str, _Rules | None] = field(default_factory=dict)
    _folders: dict[str, IgnoreRule | None] = field(default_factory=dict)

    @staticmethod
    def around(folder: Path) -> GitIgnore | None:
        """The rules for *folder*, if it is in a working tree of Git."""
        real = Path(os.path.realpath(folder))
        top = next((each for each in (real, *real.parents) if (each / ".git").exists()), None)
        return None if top is None else GitIgnore(top)

    def rule(self, path: Path) -> IgnoreRule | None:
        """The rule by which Git ignores the file *path*, if it does."""
        real = Path(os.path.realpath(path.parent), path.name)
        if not real.is_relative_to(self.top):
            return None
        name = real.relative_to(self.top).as_posix()
        folder = name.rpartition("/")[0]
        return (self._folder(folder) if folder else None) or self._decided(name, folder)

    def _folder(self, folder: str) -> IgnoreRule | None:
        """The rule by which a folder is ignored, and so all that is in it."""
        if folder not in self._folders:
            above = folder.rpartition("/")[0]
            outer = self._folder(above) if above else None
            self._folders[folder] = outer or self._decided(folder + "/", above)
        return self._folders[folder]

    def _decided(self, name: str, folder: str) -> IgnoreRule | None:
        """What the nearest file of rules says of *name* in *folder*."""
        for rules in self._around(folder):
            decided = rules.decides(name)
            if decided is not None:
                return decided[1] if decided[0] else None
        return None

    def _around(self, folder: str) -> Iterable[_Rules]:
        """The files of rules that hold in *folder*, the nearest first."""
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
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    rules = [IgnoreRule(path, number, line) for number, line in enumerate(lines, 1)]
    # Not empty: empty lines would not be counted.
    patterns = [line if _is_pattern(line) else "#" for line in lines]
    # RE2, because a stranger's patterns may be made to backtrack for ever.
    return _Rules(base, rules, GitIgnoreSpec.from_lines(patterns, backend="re2"))


def _is_pattern(line: str) -> bool:
    """Whether Git would heed it: what is no pattern is passed over."""
    try:
        GitIgnoreSpec.from_lines([line], backend="re2")
    except (ValueError, re.error, re2.error):
        return False
    return bool(line)
