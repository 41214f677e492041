"""What short commands cost before they do anything: processor time, against their floor.

    python benchmarks/start.py [--rounds N] [--json]

The floor is Python with typer, and with SQLAlchemy too. The best of the rounds counts, children
included: a busy machine makes a command slower and never faster.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """\
n = 1
#ZEN$ ASSIGN n = { 1:4 }
#ZEN$ RUN "python3 small.py"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)"
#ZEN$ OBJECTIVE MAXIMIZE total
print("total", n * 10)
"""
ZEN = str(Path(sys.executable).parent / "zen")
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import typer": [sys.executable, "-c", "import typer"],
    "import typer, sqlalchemy": [sys.executable, "-c", "import typer, sqlalchemy"],
    "zen --help": [ZEN, "--help"],
    "zen list": [ZEN, "list"],
    "zen status": [ZEN, "status"],
    "zen status small": [ZEN, "status", "small"],
    "zen results small": [ZEN, "results", "small"],
    "zen run small.py, cached": [ZEN, "run", "small.py"],
}


def seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Processor seconds of *command*."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measures all commands in turn, round by round, and prints the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ZENTURIO_TRUST": "1", "XDG_CONFIG_HOME": folder}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles everything
        project = Path(folder) / "project"
        project.mkdir()
        (project / "small.py").write_text(PROGRAM)
        seconds([ZEN, "run", "small.py"], project, environment)
        best = {
            name: min(seconds(command, project, environment) for _ in range(asked.rounds))
            for name, command in COMMANDS.items()
        }
    load = os.getloadavg()[0]
    if asked.json:
        print(json.dumps({"load": load, "seconds": best}))
        return
    print(f"processor seconds, best of {asked.rounds}, at a load of {load:.1f}")
    for name, found in best.items():
        print(f"{name:26}{found:8.3f}")


if __name__ == "__main__":
    main()
