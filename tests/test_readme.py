"""The front page says what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import loaded
import page_blocks

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
ZEN = [sys.executable, "-c", "from zenturio.cli import main; main()"]


def zen(*words: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([*ZEN, *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_its_program_makes_as_many_points_as_its_run_shows(tmp_path):
    # The whole page is run by test_page_blocks.py, but slowly.
    (program,) = blocks("c")
    (tmp_path / "relax.c").write_text(program)
    shown = next(block for block in blocks("console") if "zen run relax.c" in block)
    assert "60 points" in shown
    assert "\n60 points\n" in loaded.zen("space", "relax.c", cwd=tmp_path).stdout


def test_its_first_steps_can_be_followed(tmp_path):
    steps = [
        command.partition("#")[0].split()
        for block in page_blocks.blocks(ROOT / "README.md")
        if block.language == "console"
        for command, _ in block.commands
        if "first.py" in command or "init" in command
    ]
    assert len(steps) == 3
    for words in steps:
        done = loaded.zen(*words[1:], cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)


def test_it_is_short():
    assert len(TEXT) < 8_000, "it is a door: the rest belongs on a page of docs/"


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!http)([^)#]+)", TEXT))))
def test_every_link_leads_somewhere(link):
    assert (ROOT / link).exists()


def test_a_space_of_300_to_the_100_is_exact_and_decoded_at_once(tmp_path):
    lines = [f"# ZEN$ PARAM task{i} = {{ machine{{1:300}} }}\n" for i in range(100)]
    (tmp_path / "tasks.sh").write_text("".join(lines))
    told = zen("space", "tasks.sh", cwd=tmp_path)
    assert "5.15e+247 points" in told
    assert told.count("#") == 3
