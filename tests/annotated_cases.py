r"""Golden files of annotated inputs, each with what is printed about it.

A case begins with ``=== title``. Then come the files, each behind ``--- name``; how they are scanned
where that is not the only file or the folder, behind ``--- scan``; and behind ``--- printed`` what is
said. In a file whose name ends in ``.bin`` the text ``\0`` stands for a byte of zero.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True)
class Case:
    title: str
    files: tuple[tuple[str, str], ...]
    command: str
    printed: str

    @property
    def paths(self) -> list[str]:
        words = shlex.split(self.command.partition("-P")[0])
        if words:
            return words
        return [self.files[0][0]] if len(self.files) == 1 else ["."]

    @property
    def overrides(self) -> list[str]:
        words = shlex.split(self.command)
        return [word for flag, word in pairwise(words) if flag == "-P"]

    def write(self, folder: Path) -> None:
        for name, text in self.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = text.encode()
            path.write_bytes(data.replace(b"\\0", b"\0") if name.endswith(".bin") else data)

    def __str__(self) -> str:
        parts = [f"=== {self.title}\n"]
        parts += [f"--- {name}\n{text}" for name, text in self.files]
        parts += [f"--- scan {self.command}\n"] * bool(self.command)
        return "".join(parts) + f"--- printed\n{self.printed}\n"


def read_cases(path: Path) -> list[Case]:
    blocks = path.read_text().split("=== ")[1:]
    return [_case(block) for block in blocks]


def _case(block: str) -> Case:
    title, _, rest = block.partition("\n")
    files, command, printed = [], "", ""
    for part in ("\n" + rest).split("\n--- ")[1:]:
        head, _, text = part.partition("\n")
        if head == "printed":
            printed = text.strip("\n")
        elif head.startswith("scan"):
            command = head.removeprefix("scan").strip()
        else:
            files.append((head, text + "\n" if text else ""))
    return Case(title, tuple(files), command, printed)


def check(path: Path, title: str, answer: Callable[[Case], str], folder: Path) -> None:
    """Compare one case, or write what is printed now if ZEN_UPDATE_GOLDENS is set."""
    cases = read_cases(path)
    case = next(case for case in cases if case.title == title)
    case.write(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        printed = answer(case)
    finally:
        os.chdir(before)
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        now = [
            Case(c.title, c.files, c.command, printed if c is case else c.printed) for c in cases
        ]
        path.write_text("\n".join(map(str, now)))
    else:
        assert printed == case.printed


def titles(path: Path) -> list[str]:
    return [case.title for case in read_cases(path)]
