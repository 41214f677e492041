"""Each import contract bites: a sabotage of the package breaks it, and only a clean one keeps all."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRACTS = {
    each["id"]: each["name"]
    for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
}

SABOTAGES = {
    "an import from a room above": (
        "packages",
        "expression/scalar_functions.py",
        "import zenturio.space\n",
    ),
    "one under TYPE_CHECKING": (
        "packages",
        "space/__init__.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import zenturio.annotate\n",
    ),
    "one inside a function": (
        "packages",
        "record/leases.py",
        "def f():\n    import zenturio.study\n",
    ),
    "one between rooms of a line": ("packages", "execute/local.py", "import zenturio.record\n"),
    "a room that nobody planned": ("packages", "utils.py", "def help_everybody(): ...\n"),
    "SQLAlchemy in the annotate room": ("heavy", "annotate/scan.py", "import sqlalchemy\n"),
    "pandas in the execute room": ("heavy", "execute/local.py", "import pandas\n"),
    "plotly in the record room": ("record", "record/leases.py", "import plotly\n"),
    "typer outside the command line": ("terminal", "study/__init__.py", "import typer\n"),
    "a cycle inside a room": ("cycles", "errors.py", "import zenturio.plugins\n"),
}


def _lint(folder: Path) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
        ],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin", "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    return " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def package(tmp_path):
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "zenturio", tmp_path / "zenturio", ignore=ignore)
    return tmp_path


def test_the_package_keeps_every_contract(package):
    told = _lint(package)
    assert all(f"{name} KEPT" in told for name in CONTRACTS.values()), told


FAST = {"an import from a room above", "plotly in the record room", "typer outside the command line"} | {
    "SQLAlchemy in the annotate room", "a cycle inside a room",
}  # fmt: skip
"""One of each contract, in the gate."""


@pytest.mark.parametrize(
    "sabotage", [pytest.param(s, marks=[] if s in FAST else pytest.mark.slow) for s in SABOTAGES]
)
def test_each_contract_bites(package, sabotage):
    contract, file, line = SABOTAGES[sabotage]
    with (package / "zenturio" / file).open("a") as target:
        target.write(f"\n{line}")
    assert f"{CONTRACTS[contract]} BROKEN" in _lint(package)


def test_every_contract_has_a_sabotage():
    assert set(CONTRACTS) == {contract for contract, _, _ in SABOTAGES.values()}
