"""The fenced blocks of a page, and a shell that runs those that hold commands.

A comment of HTML before a block, which no reader sees, says what a test needs to know of it:

    <!-- not run: it needs a cluster          why its commands are not run
         peer: optuna                         run only beside this package of somebody else
         write: zenturio.toml                 the block is the content of this file
         before: cp -r $SOURCES/annotations . commands that are run before it
         after: zen places show lab           commands that are run after it
         exit: 3                              how its last command ends
         output: varies                       what it prints is not compared -->

Commands of a page share one shell in an empty folder, in the order of the page: what a block makes is
there for the next. ``$SOURCES`` is the project's folder. Of what is shown below a command, ``...`` stands for any lines,
``…`` for any text in a line, and durations, rates and sizes in memory may differ.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(
    r"(?:^ *<!--(?P<notes>(?:(?!-->).)*)-->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
_NOTES = ("not run", "peer", "write", "before", "after", "exit", "output")
_VARIES = re.compile(r"\b\d+(?:\.\d+)?(?:e[-+]\d+)? ?(?:s|ms|min|h|MB|GB|/s)(?![\w])|\d+ at a time")
_PROGRESS = re.compile(r"running \d+")
_SENTINEL = "--- end of command"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    notes: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Its commands, each with what is shown below it."""
        if self.language == "sh":
            return [(self.text, "")]
        commands: list[tuple[str, str]] = []
        is_continued = False
        for line in self.text.splitlines():
            if is_continued or line.startswith("$ "):
                text = line if is_continued else line[2:]
                if is_continued:
                    text = f"{commands.pop()[0]}\n{text}"
                commands.append((text, ""))
                is_continued = line.endswith("\\")
            elif commands:
                command, printed = commands.pop()
                commands.append((command, f"{printed}{line}\n"))
        return commands


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of the page *path*."""
    text = path.read_text(encoding="utf-8")
    page = str(path.relative_to(ROOT))
    parts = []
    for match in _BLOCK.finditer(text):
        indent = len(match["indent"])
        lines = [line[indent:] for line in match["text"].splitlines()]
        start = text.count("\n", 0, match.start("language")) + 1
        content = "".join(f"{line}\n" for line in lines)
        parts.append(Block(page, start, match["language"], content, _notes(match["notes"] or "")))
    return parts


def _notes(text: str) -> dict[str, str]:
    notes: dict[str, str] = {}
    for line in text.strip().splitlines():
        name, colon, value = line.strip().partition(":")
        if colon and name in _NOTES:
            notes[name] = "\n".join(filter(None, [notes.get(name), value.strip()]))
    return notes


def difference(shown: str, printed: str) -> str:
    """Return the first line of *shown* that *printed* does not have in its place, or nothing."""
    # Progress, which a terminal overwrites, is printed where a command takes long.
    lines = [line for line in printed.splitlines() if not _PROGRESS.match(line)]
    actual = [_masked(line) for line in lines]
    position, is_free = 0, False
    for line in shown.splitlines():
        if line.strip() == "...":
            is_free = True
            continue
        expected = re.compile(".*".join(map(re.escape, _masked(line).split("…"))))
        places = range(position, len(actual)) if is_free else [position]
        place = next((i for i in places if i < len(actual) and expected.fullmatch(actual[i])), None)
        if place is None:
            there = actual[position] if position < len(actual) else "(the end)"
            return f"the page shows {line!r}, the command prints {there!r}"
        position, is_free = place + 1, False
    if not is_free and position < len(actual) and any(actual[position:]):
        return f"the page does not show {actual[position]!r}"
    return ""


def _masked(line: str) -> str:
    return " ".join(_VARIES.sub("#", line.partition("  # ")[0]).split())


class PageShell:
    """A shell in *folder* that keeps its folder and variables from command to command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Run *command*; return its exit status and what it printed."""
        wires, output = self._process.stdin, self._process.stdout
        assert wires is not None
        assert output is not None
        # As one word for eval, a command that is no shell leaves the shell in order; its input is empty.
        status = f'printf "\\n{_SENTINEL} %s\\n" $?'
        wires.write(f"eval {shlex.quote(command)} </dev/null\n{status}\n")
        wires.flush()
        lines: list[str] = []
        for line in output:
            if line.startswith(_SENTINEL):
                return int(line.split()[-1]), "".join(lines).removesuffix("\n")
            lines.append(line)
        raise AssertionError(f"the shell ended in {command!r}: {''.join(lines)}")

    def close(self) -> None:
        """End the shell."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
