"""Runs a study from this gallery to its end, as a user would, and shows what came out."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "demo-output"
STUDY = sys.argv[1] if len(sys.argv) > 1 else "predators"


def zen(*arguments):
    """Say the command, then let it run; what it says is shown as it is."""
    print(f"\n$ zen {shlex.join(arguments)}", flush=True)
    command = [sys.executable, "-m", "zenturio", *arguments]
    done = subprocess.run(command, cwd=OUT)
    if done.returncode:
        sys.exit(done.returncode)


shutil.rmtree(OUT, ignore_errors=True)
(OUT / ".zenturio").mkdir(parents=True)
shutil.copytree(HERE / STUDY, OUT / STUDY)
program = sorted((OUT / STUDY).glob("*.*"))[0]

print(f"The program, {program.name}, is as its author wrote it; only comments were added:\n")
lines = program.read_text(encoding="utf-8").splitlines()
print("\n".join(f"    {line}" for line in lines if "ZEN$" in line))

zen("space", STUDY)
zen("run", STUDY)
zen("results", STUDY, "--sort", "drift", "--limit", "5")
zen("results", STUDY, "--by", "h", "--agg", "mean,max", "--metric", "drift,wtime")
zen("fit", STUDY, "--y", "drift", "--x", "h", "--by", "beta")
zen("plot", STUDY, "--x", "h", "--y", "drift", "--color", "alpha", "--log", "x,y", "-o", "drift.html")
print(f"\nA page to look around in: {OUT / 'drift.html'}\nThe database: {OUT / '.zenturio' / 'zenturio.db'}")
portal = Path(sys.executable).with_name("zen")
print(f"The portal, in a browser: cd {OUT} && {portal} portal")
