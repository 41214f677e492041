"""Warnings about files of the application that are probably not its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import time_ns

from zenturio.annotate.file_selection import IGNORE
from zenturio.annotate.git_ignore import GitIgnore, IgnoreRule
from zenturio.annotate.model import Annotated, Application
from zenturio.errors import Diagnostic

_LINES = 5
"""Lines for .zenignore that are offered at the most."""
_SKEW = 60 * 10**9
"""Nanoseconds by which clocks may differ that are not worth a word."""
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta/history")


def _warning(message: str, hint: str) -> Diagnostic:
    return Diagnostic(message, None, hint, severity="warning")


def ignored(application: Application) -> Iterator[Diagnostic]:
    """Files that Git ignores: objects, binaries, results of before, or data."""
    rules = GitIgnore.around(application.root)
    if rules is None:
        return
    used = {use.path for use in application.uses}
    others = [
        file.path
        for file in application.files
        if not file.lines and not file.holes and file.source.path.absolute() not in used
    ]
    found = {path: rule for path in others if (rule := rules.rule(application.root / path))}
    if not found:
        return
    by_rule: dict[IgnoreRule, list[str]] = {}
    for path, rule in found.items():
        by_rule.setdefault(rule, []).append(path)
    first = ", ".join(list(found)[:3]) + (", ..." if len(found) > 3 else "")
    count = (
        "a file that Git ignores is"
        if len(found) == 1
        else f"{len(found):,} files that Git ignores are"
    )
    lines = [line for rule, paths in by_rule.items() for line in _lines(rule, paths)]
    yield _warning(
        f"{count} part of every experiment: {first}",
        "a change of such a file makes every experiment another one, and a BUILD may take what an "
        "earlier one left\n"
        f"for what it is to make; if these are no inputs, write into {application.root / IGNORE}:\n"
        + _listed(lines)
        + f'\nif they are, say so: ZEN$ USE FILE "{next(iter(found))}"',
    )


def _lines(rule: IgnoreRule, paths: Iterable[str]) -> list[str]:
    """What leaves *paths* out, as ``.zenignore`` is written."""
    pattern = rule.text.strip().rstrip("/")
    if "/" not in pattern and not set(pattern) & set("\\!#[ "):
        return [pattern]
    return [f"./{path}" for path in paths]


def _listed(lines: list[str]) -> str:
    lines = list(dict.fromkeys(lines))
    more = [f"... and {len(lines) - _LINES:,} more"] if len(lines) > _LINES else []
    return "\n".join(f"    {line}" for line in [*lines[:_LINES], *more])


def environments(application: Application) -> Iterator[Diagnostic]:
    """Virtual environments: a copy of one does not work, for it holds absolute paths."""
    for file in application.files:
        for mark in _ENVIRONMENT_MARKS:
            if file.path.endswith(f"/{mark}"):
                folder = file.path.removesuffix(f"/{mark}")
                yield _warning(
                    f"{folder} is a virtual environment: its copy in an experiment does not work",
                    f"write ./{folder} into {application.root / IGNORE}, and name its programs "
                    f"in full: {(application.root / folder).absolute()}/bin/...",
                )


def future(application: Application) -> Iterator[Diagnostic]:
    """Files whose times have not come yet: to a build they are as new as the present."""
    limit = time_ns() + _SKEW
    late = [file.path for file in application.files if _time(file) > limit]
    if late:
        more = f" and {len(late) - 1:,} more files" if len(late) > 1 else ""
        yield _warning(
            f"{late[0]}{more}: last written in the future, so a BUILD cannot tell what is newer",
            f"set the clock, or the time: touch {late[0]}",
        )


def _time(file: Annotated) -> int:
    return file.source.mtime or 0
