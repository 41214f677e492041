"""Files that are likely no inputs are named, and Git is not run for it."""

import os
import subprocess
import time

import pytest

from needs import needs
from zenturio.annotate.lint import lint
from zenturio.annotate.patterns import GitIgnore
from zenturio.annotate.scan import scan

RULES = """\
# made by make
*.o
!keep.o
/build/
data/**
!data/kept/
a b.txt

trailing\\
[
foo[z-a]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    folder = tmp_path / "app"
    (folder / ".git").mkdir(parents=True)
    (folder / "a.sh").write_text('# ZEN$ RUN "sh a.sh"\n')
    return folder


def fill(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def warnings(folder):
    return [str(each) for each in lint(scan(folder))]


def test_files_that_git_ignores_are_named_with_the_lines_that_leave_them_out(folder):
    (folder / ".gitignore").write_text("*.o\n/build/\n")
    fill(folder, "p.o", "src/q.o", "build/out.txt", "p.c")
    (found,) = warnings(folder)
    assert (
        "3 files that Git ignores are part of every experiment: build/out.txt, p.o, src/q.o"
        in found
    )
    assert "BUILD" in found
    lines = [line.strip() for line in found.splitlines()[-3:-1]]
    assert lines == ["./build/out.txt", "*.o"]
    (folder / ".zenignore").write_text("\n".join(lines))
    assert warnings(folder) == []
    assert scan(folder).file_paths == ["a.sh", "p.c"]


def test_an_annotated_file_that_git_ignores_is_meant(folder):
    (folder / ".gitignore").write_text("*\n")
    assert warnings(folder) == []


def test_a_cache_of_cmake_that_names_its_source_folder_is_warned_of(folder):
    fill(folder, "build/CMakeCache.txt")
    assert warnings(folder) == []
    cache = f"CMAKE_CACHEFILE_DIR:INTERNAL=x\nCMAKE_HOME_DIRECTORY:INTERNAL={folder}\n"
    (folder / "build" / "CMakeCache.txt").write_text(cache)
    (warning,) = warnings(folder)
    assert f"build/CMakeCache.txt belongs to {folder}: CMake refuses it" in warning
    (folder / ".zenignore").write_text(warning.splitlines()[-1].strip() + "\n")
    assert warnings(folder) == []
    assert scan(folder).file_paths == ["a.sh"]


def test_outside_of_a_working_tree_no_rule_holds(folder):
    (folder / ".git").rmdir()
    (folder / ".gitignore").write_text("*.o\n")
    fill(folder, "p.o")
    assert warnings(folder) == []


def test_rules_of_folders_around_and_of_the_user_hold_too(folder, tmp_path):
    below = folder / "deep" / "app"
    fill(below, "p.o", "q.tmp", "r.log", "s.bak")
    (below / "a.sh").write_text('# ZEN$ RUN "true"\n')
    (folder / ".gitignore").write_text("*.o\n")
    fill(folder, ".git/info/exclude")
    (folder / ".git/info/exclude").write_text("*.tmp\n")
    fill(tmp_path, "home/git/ignore")
    (tmp_path / "home/git/ignore").write_text("*.log\n")
    (found,) = warnings(below)
    assert "3 files" in found
    assert "s.bak" not in found


def test_the_rules_are_read_as_git_reads_them(folder):
    needs("git")
    (folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / ".gitignore").write_text(RULES)
    names = (
        "p.o",
        "keep.o",
        "build/x",
        "build/keep.o",
        "build/deep/keep.o",
        "src/build/x",
        "data/y",
        "data/kept/z",
        "a b.txt",
        "sub/w.o",
    )
    fill(folder, *names, "sub/keep.o", "sub/only", "foo", "trailing")
    (folder / "sub/.gitignore").write_text("!w.o\nonly\n")
    rules = GitIgnore.around(folder)
    paths = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    mine = {path.relative_to(folder).as_posix() for path in paths if rules.rule(path)}
    words = ["git", "ls-files", "-z", "--others", "--ignored", "--exclude-standard"]
    told = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    assert mine == set(told.stdout.split("\0")) - {""}


def test_patterns_that_were_made_to_take_for_ever_take_no_time(folder):
    (folder / ".gitignore").write_text("*a" * 60 + "b\n")
    fill(folder, "a" * 250)
    assert warnings(folder) == []


def test_git_is_not_run(folder, monkeypatch):
    (folder / ".gitignore").write_text("*.o\n")
    fill(folder, "p.o")
    monkeypatch.setenv("PATH", "")
    assert len(warnings(folder)) == 1


def test_a_virtual_environment_is_named(folder):
    fill(folder, "venv/pyvenv.cfg", "venv/bin/python", "conda/env/conda-meta/history")
    found = "\n".join(warnings(folder))
    assert "venv is a virtual environment" in found
    assert f"write ./conda/env into {folder}/.zenignore" in found


def test_a_time_that_has_not_come_yet_is_warned_of(folder):
    fill(folder, "p.o")
    when = time.time() + 10_000
    os.utime(folder / "p.o", (when, when))
    (found,) = warnings(folder)
    assert "p.o: the modification time is in the future" in found


@pytest.mark.parametrize(
    ("line", "is_warned"),
    [("wc data.txt", True), ("wc /srv/data.txt", False), ("wc ../data.txt", False)],
)
def test_a_single_file_that_reads_a_declared_neighbour_by_its_bare_name_is_warned(
    folder, line, is_warned
):
    program = folder / "a.sh"
    fill(folder, "data.txt")
    program.write_text(f'# ZEN$ RUN "sh a.sh"\n# ZEN$ USE FILE "data.txt"\n{line}\n')
    named = [text for text in map(str, lint(scan(program))) if "names data.txt" in text]
    assert bool(named) == is_warned
    assert all(f"zen run {folder};" in text for text in named)
    assert not [text for text in warnings(folder) if "names data.txt" in text]


def test_a_single_file_whose_values_are_files_beside_it_is_warned(folder):
    fill(folder, "a.png")
    program = folder / "a.sh"
    program.write_text('# ZEN$ RUN "wc {f}"\n# ZEN$ PARAM f = { GLOB("*.png") }\n')
    named = [text for text in map(str, lint(scan(program))) if "names a.png" in text]
    assert len(named) == 1
    assert f"zen run {folder};" in named[0]


def test_a_seed_that_nothing_uses_is_warned_of_with_the_line_that_gives_it(folder):
    def told(lines):
        (folder / "a.sh").write_text(f'# ZEN$ REPEAT 3 SEED s\n# ZEN$ RUN "sh a.sh"\n{lines}')
        return [text for text in warnings(folder) if "REPEAT sets s, but nothing" in text]

    (text,) = told("")
    assert "ZEN$ ASSIGN seed = @s" in text
    assert told("# ZEN$ ASSIGN seed = @s\n") == []
