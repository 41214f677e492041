"""The manual page zen(1), made from docs/commands.md whenever the wheel is built."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = re.compile(
    r"^## (?P<command>zen[^\n]*)\n\n```text\n(?P<help>.*?)^```", re.MULTILINE | re.DOTALL
)
HEAD = """.TH ZEN 1 "" "zenturio {version}"
.SH NAME
zen \\- run parameter studies and query their results
.SH DESCRIPTION
What "zen COMMAND --help" prints, for each command.
"""


def man_page(commands: str, version: str) -> str:
    """Return the manual page of the page *commands*."""
    parts = [
        f".SH {part['command'].upper()}\n.nf\n{_verbatim(part['help'])}.fi\n"
        for part in PARTS.finditer(commands)
    ]
    return HEAD.format(version=version) + "".join(parts)


def _verbatim(text: str) -> str:
    """Keep hyphens, which are typed, and lines that begin as a request of roff does."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


class ManPage(BuildHookInterface):  # type: ignore[type-arg]
    """Put the manual page where `man` finds it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        path = Path(mkdtemp(), "zen.1")
        commands = Path(self.root, "docs", "commands.md").read_text(encoding="utf-8")
        path.write_text(man_page(commands, self.metadata.version), encoding="utf-8")
        build_data["shared_data"][str(path)] = "share/man/man1/zen.1"
