"""Every block of every page is run, or says why it is not.

The slow tests run them with the wheel, in an environment that has nothing else.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from page_blocks import ROOT, Block, PageShell, blocks, difference
from zenturio.annotate.dialects.dialect_registry import dialect_of
from zenturio.annotate.directive_lines import find
from zenturio.annotate.grammar import read
from zenturio.annotate.source import Source
from zenturio.errors import ZenError

PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("annotations", "experiments", "benchmarks")),
]
PAGES = [path for path in PAGES if path.exists()]
SHELL = ("console", "sh")
DATA = {
    "toml": tomllib.loads,
    "json": json.loads,
    "yaml": yaml.safe_load,
    "ini": lambda text: configparser.ConfigParser(strict=False).read_string(text),
}
SHOWN = ("", "text", "nginx", "markdown", "c", "sql")
"""Languages of blocks that nothing can run here."""
LONG = {
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "any-language",
            "clean-up",
            "dask",
            "export",
            "notebooks",
            "parallel-programs",
            "resume",
            "time-and-memory",
            "tune",
            "what-matters",
        )
    ),
    "docs/tutorial.md",
    "docs/tutorial-search.md",
    "docs/engines.md",
    "docs/sensitivity.md",
    "docs/algorithms.md",
    "docs/workflows.md",
}
"""Pages whose commands take more than three seconds."""
UV = Path(sys.executable).with_name("uv")
BY_LENGTH = [
    pytest.param(path, id=str(path.relative_to(ROOT)), marks=[pytest.mark.slow] * is_long)
    for path in PAGES
    for is_long in [str(path.relative_to(ROOT)) in LONG]
]


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def new_shell(tmp_path: Path) -> Iterator[Callable[[Path], PageShell]]:
    """What starts a shell in an empty folder, with the programs of another first."""
    shells = []

    def start(programs: Path) -> PageShell:
        for name in ("page", "home"):
            (tmp_path / name).mkdir()
        own = {name: value for name, value in os.environ.items() if not name.startswith("ZEN")}
        changes = {
            "PATH": f"{programs}{os.pathsep}{own['PATH']}",
            "HOME": str(tmp_path / "home"),
            "SOURCES": str(ROOT),
            "COLUMNS": "120",
            "PYTHONUNBUFFERED": "1",
        }
        shells.append(PageShell(tmp_path / "page", {**own, **changes}))
        return shells[-1]

    yield start
    for shell in shells:
        shell.close()


@pytest.fixture
def shell(new_shell: Callable[[Path], PageShell]) -> PageShell:
    return new_shell(Path(sys.executable).parent)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What to install, as the pages say: the wheel with its extras."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    (path,) = folder.glob("*.whl")
    return f"zenturio[dask,schedule] @ {path.as_uri()}"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: str) -> Path:
    """The programs of an environment in which the wheel is installed."""
    return programs_with(tmp_path_factory.mktemp("installed") / "env", wheel)


def programs_with(folder: Path, *packages: str) -> Path:
    """The programs of a new environment in *folder* that has the packages."""
    python = folder / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    return python.parent


@pytest.mark.parametrize("path", BY_LENGTH)
def test_the_blocks_of_a_page_run_as_printed(path, shell):
    assert faults_of_page(path, shell) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_the_blocks_of_a_page_run_with_what_a_user_installs(path, new_shell, installed):
    assert faults_of_page(path, new_shell(installed)) == []


@pytest.mark.slow
def test_the_same_study_runs_in_other_tools(new_shell, wheel, tmp_path):
    path = ROOT / "docs" / "coming-from.md"
    peers = {block.notes["peer"] for block in blocks(path) if "peer" in block.notes}
    programs = new_shell(programs_with(tmp_path / "peers", wheel, *sorted(peers)))
    assert faults_of_page(path, programs, with_peers=True) == []


def faults_of_page(path: Path, shell: PageShell, *, with_peers: bool = False) -> list[str]:
    return [
        f"{block}: {fault}"
        for block in blocks(path)
        if "not run" not in block.notes and (with_peers or "peer" not in block.notes)
        for fault in faults_of(block, shell)
    ]


def faults_of(block: Block, shell: PageShell) -> Iterator[str]:
    """Run *block* and compare what it prints."""
    if text := block.notes.get("before"):
        yield from faults_of_command(shell, text)
    if name := block.notes.get("write"):
        code, printed = shell.run(f"cat > {name} <<'END OF BLOCK'\n{block.text}END OF BLOCK")
        if code:
            yield printed
    elif block.language in SHELL:
        commands = block.commands
        for number, (command, shown) in enumerate(commands, 1):
            is_last = number == len(commands)
            wanted = int(block.notes.get("exit", 0)) if is_last else 0
            is_compared = bool(shown) and "output" not in block.notes
            yield from faults_of_command(shell, command, wanted, shown if is_compared else None)
    elif block.language == "python":
        yield from faults_of_command(shell, f"python - <<'END OF BLOCK'\n{block.text}END OF BLOCK")
    elif block.language == "zen":
        yield from faults_of_directives(block.text)
    elif block.language in DATA:
        try:
            DATA[block.language](block.text)
        except (ValueError, yaml.YAMLError, configparser.Error) as error:
            yield f"no {block.language}: {error}"
    if text := block.notes.get("after"):
        yield from faults_of_command(shell, text)


def faults_of_command(
    shell: PageShell, command: str, wanted: int = 0, shown: str | None = None
) -> Iterator[str]:
    code, printed = shell.run(command)
    if code != wanted:
        yield f"{command!r} ends with {code}: {printed[-600:]}"
    elif shown is not None and (fault := difference(shown, printed)):
        yield f"{command!r}: {fault}"


def faults_of_directives(text: str) -> Iterator[str]:
    """Read each directive of *text* by itself: others that it names need not be there."""
    lines = [line.removeprefix("ZEN$") for line in text.splitlines()]
    signs = ["# ZEN$" if line.startswith(("&", " ")) or not line else "# ZEN$ " for line in lines]
    content = "".join(f"{sign}{line}\n" for sign, line in zip(signs, lines, strict=True))
    dialect = dialect_of("block.sh")
    for written in find(Source.of(content.encode()), dialect).lines:
        try:
            read(written.body)
        except ZenError as error:
            yield f"{written.body.text}: {error}"


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_a_block_that_is_not_run_says_why(path):
    for block in blocks(path):
        assert block.language in {*SHELL, *DATA, *SHOWN, "python", "zen"}, block
        if block.language in SHOWN:
            assert not re.search(r"^\$ ", block.text, re.MULTILINE), f"{block}: commands as text"
        if named := re.search(r"tests/[\w/]+\.py", block.notes.get("not run", "")):
            assert (ROOT / named[0]).is_file(), block
        assert block.notes.get("not run", "-"), f"{block}: no reason"


def test_a_page_that_lies_is_noticed(shell):
    page = ROOT / "docs" / "never.md"

    def faults(shown: str, notes: str = "") -> list[str]:
        block = Block(str(page), 1, "console", shown, {"exit": notes} if notes else {})
        return list(faults_of(block, shell))

    assert faults("$ echo a; echo b\na\nb\n") == []
    assert faults("$ echo a; echo b\n...\nb\n") == []
    assert faults("$ echo took 1.5 s\ntook 0.2 s\n") == []
    assert faults("$ (exit 3)\n", "3") == []
    assert faults("$ echo a; echo b\na\n")
    assert faults("$ echo a\nb\n")
    assert faults("$ (exit 3)\n")
