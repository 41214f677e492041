"""Processes that the package starts import nothing from the folder where they run.

That folder is a project, which may come from anybody: without -P or -I a ``typer.py`` there would
be taken for the one that is installed.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "zenturio"
# What names the interpreter in a hint and starts nothing: it imports no subprocess.
SHOWS_IT = PACKAGE / "install_hint.py"
USES = [
    pytest.param(path, line, id=f"{path.relative_to(PACKAGE)}:{line}")
    for path in sorted(PACKAGE.rglob("*.py"))
    for line, text in enumerate(path.read_text().splitlines(), 1)
    if "sys.executable" in text and path != SHOWS_IT
]


def test_what_only_shows_the_interpreter_starts_no_process():
    text = SHOWS_IT.read_text()
    assert not any(word in text for word in ("subprocess", "os.exec", "os.spawn", "os.system"))


def lines_of_statement(path, line):
    """The text of the statement in *line*, or of the one behind it where that goes on with it."""
    found = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.stmt)
        and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or line)
    ]
    inner = max(found, key=lambda node: node.lineno)
    lines = path.read_text().splitlines()
    return "\n".join(lines[inner.lineno - 1 : (inner.end_lineno or line) + 1])


@pytest.mark.parametrize(("path", "line"), USES)
def test_every_python_that_is_started_ignores_the_folder_where_it_runs(path, line):
    text = lines_of_statement(path, line)
    words = text.replace('"', " ").replace("'", " ").replace(",", " ").split()
    assert {"-P", "-I"} & set(words), text


def test_no_process_is_started_by_multiprocessing_which_would_import_from_there():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if "multiprocessing" not in text and "ProcessPoolExecutor" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = [each.name for each in getattr(node, "names", []) if hasattr(each, "name")]
            module = getattr(node, "module", "") or ""
            assert not any(name.startswith("multiprocessing") for name in [module, *names]), (
                f"{path}:{getattr(node, 'lineno', 0)}"
            )
            assert "ProcessPoolExecutor" not in names
