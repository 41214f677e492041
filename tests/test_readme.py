"""The front page says what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import loaded
import page_blocks
from zenturio import errors

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
ZEN = [sys.executable, "-c", "from zenturio.cli import main; main()"]


def zen(*words: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([*ZEN, *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_its_program_is_the_one_in_the_gallery():
    program = (ROOT / "annotations" / "matmul" / "matmul.c").read_text(encoding="utf-8")
    (shown,) = blocks("c")
    lines = [line for line in shown.splitlines() if line.strip() != "..."]
    known = {" ".join(line.split()) for line in program.splitlines()}
    assert lines
    for line in lines:
        assert " ".join(line.split()) in known, line


def test_what_it_shows_of_a_space_is_what_is_printed():
    shown = next(block for block in blocks("console") if "zen space annotations/matmul" in block)
    command, _, printed = shown.partition("\n")
    assert zen(*command.split()[2:]).startswith(printed.removesuffix("...\n"))


def test_its_first_steps_can_be_followed(tmp_path):
    # The whole page is run by test_page_blocks.py, but slowly: here in a process that has loaded.
    steps = [
        command.partition("#")[0].split()
        for block in page_blocks.blocks(ROOT / "README.md")
        if block.language == "console" and "not run" not in block.notes
        for command, _ in block.commands
    ]
    ours = [words[1:] for words in steps if words[0] == "zen"]
    first = next(i for i, words in enumerate(ours) if words[0] == "init")
    assert len(ours[first:]) > 3
    for words in ours[first:]:
        done = loaded.zen(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)


def test_every_verb_that_it_names_is_there():
    rows = re.findall(r"^\| (`zen .*?) \|", TEXT, re.MULTILINE)
    named = {word for row in rows for word in re.findall(r"`(?:zen )?(\w+)", row)}
    assert {"check", "space", "expand", "init", "run"} <= named
    assert named <= set(re.findall(r"^  (\w+) ", zen("--help"), re.MULTILINE))


def test_the_exit_codes_that_it_names_are_those_of_the_errors():
    codes = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")} - {1}
    sentence = TEXT[TEXT.index("and ends with") : TEXT.index("(interrupted)")]
    assert codes == {int(code) for code in re.findall(r"\b(\d+)\b", sentence)} - {0}


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!http)([^)#]+)", TEXT))))
def test_every_link_leads_somewhere(link):
    assert (ROOT / link).exists()


def test_a_space_of_300_to_the_100_is_exact_and_decoded_at_once(tmp_path):
    lines = [f"# ZEN$ PARAM task{i} = {{ machine{{1:300}} }}\n" for i in range(100)]
    (tmp_path / "tasks.sh").write_text("".join(lines))
    told = zen("space", "tasks.sh", cwd=tmp_path)
    assert "5.15e+247 points" in told
    assert told.count("#") == 3
