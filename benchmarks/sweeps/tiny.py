"""What every tool runs: a static program that reads a filled file and prints one number."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

JOBS = 2
TEMPLATE = "n = N\n"
ANNOTATED = """\
#ZEN$ SUBSTITUTE N = {{ 1:{runs} }} AS n
#ZEN$ RUN "{program} input.txt"
#ZEN$ METRIC result FROM stdout REGEX "result=(\\S+)"
n = N
"""
ZEN = [sys.executable, "-c", "from zenturio.cli import main; main()"]
_PROGRAM = r"""
#include <stdio.h>
int main(int argc, char **argv)
{
    char line[128];
    FILE *file = fopen(argc > 1 ? argv[1] : "input.txt", "r");
    int n = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "n = %d", &n) == 1) {
            printf("result=%d\n", 2 * n);
            return 0;
        }
    return 1;
}
"""


def program(folder: Path) -> Path:
    """The program, compiled into *folder*."""
    source = folder / "tiny.c"
    source.write_text(_PROGRAM)
    subprocess.run(["cc", "-O2", "-static", source, "-o", folder / "tiny"], check=True)
    return folder / "tiny"


def environment(cache: Path, **more: str) -> dict[str, str]:
    """That of this process, but Python keeps its bytecode, as where pip installed a tool."""
    found = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    return found | {"PYTHONPYCACHEPREFIX": str(cache / "bytecode")} | more


def annotate(folder: Path, tiny: Path, runs: int) -> None:
    """The study as a file of ours."""
    (folder / "input.txt").write_text(ANNOTATED.format(runs=runs, program=tiny))


@dataclass(frozen=True)
class Taken:
    """What a command took: seconds on the wall, and of the processors, its children's too."""

    wall: float
    cpu: float


def xargs(tiny: Path, folder: Path, runs: int = 1000) -> Taken:
    """What xargs takes to start the program as often, always with the same file."""
    (folder / "input-of-xargs.txt").write_text(TEMPLATE.replace("N", "1"))
    numbers = "".join(f"{n}\n" for n in range(runs))
    command = ["xargs", f"-P{JOBS}", "-n1", str(tiny), "input-of-xargs.txt"]
    return timed(command, folder, os.environ, numbers)


def timed(command: str | list[str], folder: Path, env: Mapping[str, str], given: str = "") -> Taken:
    """What a command takes; what it printed is shown only if it fails."""
    begun, before = time.perf_counter(), _children()
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        shell=isinstance(command, str),
    )
    taken = Taken(time.perf_counter() - begun, _children() - before)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return taken


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def calm(patience: float, most: float = 1.0) -> None:
    """Waits up to *patience* seconds until the machine does little else."""
    end = time.monotonic() + patience
    while os.getloadavg()[0] > most and time.monotonic() < end:
        time.sleep(2)


def load() -> str:
    """How busy the machine is, for whoever reads the numbers."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
