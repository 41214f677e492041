"""The work that each peer does for a point: a folder, a filled file, kept output, one metric."""

import os
import re
import subprocess
from pathlib import Path

PROGRAM = os.environ["PROGRAM"]
RUNS = int(os.environ["RUNS"])
JOBS = int(os.environ["JOBS"])
TEMPLATE = Path("input.txt")


def measure(n, folder):
    """The number that the program prints for *n*."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "input.txt").write_text(TEMPLATE.read_text().replace("N", str(n)))
    command = [PROGRAM, "input.txt"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    (folder / "stdout.txt").write_text(done.stdout)
    return float(re.search(r"result=(\S+)", done.stdout)[1])
