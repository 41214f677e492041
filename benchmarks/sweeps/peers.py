"""The tools, the command that does the sweep with each, and where its results are then."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.tiny import ZEN

Reader = Callable[[Path], list[float]]
PARALLEL = (
    "seq $RUNS | parallel --will-cite -j$JOBS --joblog jobs.log --resume --results runs/{}/"
    " 'sed s/N/{}/ input.txt > runs/{}/input.txt && cd runs/{} && $PROGRAM input.txt' > log.txt"
    " && find runs -name stdout -exec sed -n s/^result=//p {} + > results.txt"
)


@dataclass(frozen=True)
class Peer:
    """A tool, which pip installs as *package*, or which the system has as *tool*."""

    name: str
    package: str
    command: str
    results: Reader = field(repr=False)
    most: int = 10**9
    """As many runs as it does in about a minute on two quiet cores."""
    tool: str = ""

    def ready(self, cache: Path) -> str:
        """Why it cannot be had, or nothing; installs it where it is not there yet."""
        if not self.package:
            return "" if shutil.which(self.tool) else f"this system has no {self.tool}"
        done = cache / self.package / "ready"
        if done.exists():
            return ""
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(done.parent)], check=True)
        python = str(done.parent / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", self.package]
        told = subprocess.run(pip, capture_output=True, text=True, check=False)
        if told.returncode:
            return f"pip: {told.stderr.strip().splitlines()[-1]}"
        done.touch()
        return ""

    def version(self, cache: Path) -> str:
        """Which one it is."""
        if not self.package:
            told = subprocess.run([self.tool, "--version"], capture_output=True, check=True)
            return (re.search(r"[\d.]+\d", (told.stdout + told.stderr).decode()) or [""])[0]
        ask = f"from importlib.metadata import version; print(version({self.package!r}))"
        python = cache / self.package / "bin" / "python"
        return subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, check=True
        ).stdout.strip()


def rows(file: str, query: str) -> Reader:
    """What *query* finds in a SQLite database."""

    def read(folder: Path) -> list[float]:
        connection = sqlite3.connect(folder / file)
        found = [float(value) for (value,) in connection.execute(query) if value is not None]
        connection.close()
        return found

    return read


def files(pattern: str, find: Callable[[str], Any] = float) -> Reader:
    """What *find* reads in each file."""
    return lambda folder: [float(find(path.read_text())) for path in folder.glob(pattern)]


def ours(folder: Path) -> list[float]:
    """What the view of our study says."""
    ask = [*ZEN, "sql", "SELECT result FROM study_input", "--json"]
    told = subprocess.run(ask, cwd=folder, capture_output=True, check=True)
    return [row[0] for row in json.loads(told.stdout)["rows"]]


def _of_jube(folder: Path) -> list[float]:
    (table,) = folder.glob("bench/*/result/result.dat")
    with table.open() as file:
        return [float(row["result"]) for row in csv.DictReader(file)]


def _of_parallel(folder: Path) -> list[float]:
    return [float(line) for line in (folder / "results.txt").read_text().split()]


PEERS = (
    Peer("GNU parallel", "", PARALLEL, _of_parallel, tool="parallel"),
    Peer(
        "doit",
        "doit",
        "doit -f dodo.py -n $JOBS",
        rows(
            "doit.db",
            """SELECT json_extract(task_data, '$."_values_:".result') FROM doit"""
            " WHERE task_id LIKE 'sweep:%'",
        ),
    ),
    Peer(
        "signac-flow",
        "signac-flow",
        "python signac_sweep.py",
        files("workspace/*/signac_job_document.json", lambda text: json.loads(text)["result"]),
    ),
    Peer(
        "Sacred",
        "sacred",
        "python sacred_sweep.py",
        files("observed/*/run.json", lambda text: json.loads(text)["result"]),
    ),
    Peer(
        "luigi",
        "luigi",
        "python luigi_sweep.py",
        files("runs/*/result.json", lambda text: json.loads(text)["result"]),
    ),
    Peer(
        "Snakemake",
        "snakemake",
        "snakemake -c$JOBS --quiet all",
        files("runs/*/result.txt"),
        most=1000,
    ),
    Peer("JUBE", "", "jube run jube.xml -r", _of_jube, most=100, tool="jube"),
    Peer(
        "Optuna, SQLite",
        "optuna",
        "python optuna_sweep.py",
        rows("optuna.db", "SELECT value FROM trial_values"),
        most=300,
    ),
    Peer(
        "py_experimenter",
        "py_experimenter",
        "python py_experimenter_sweep.py",
        rows("py_experimenter.db", "SELECT result FROM sweep"),
        most=300,
    ),
    Peer(
        "MLflow",
        "mlflow",
        "python mlflow_sweep.py",
        rows("mlflow.db", "SELECT value FROM latest_metrics WHERE key = 'result'"),
        most=200,
    ),
)
OURS = Peer("zenturio", "", f"'{ZEN[0]}' -c '{ZEN[2]}' run input.txt -j $JOBS", ours)
