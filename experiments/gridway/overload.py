"""Waits until the job at a machine has done some iterations; then the machine is overloaded.

python overload.py MACHINE ITERATIONS LOAD
"""

import json
import os
import sys
import time
from pathlib import Path

machine, iterations, load = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
grid = Path(os.environ["GRID"])


def done():
    """The iterations that the job there has done."""
    for state in (grid / machine).glob("jobs/*/*/folder/state.json"):
        try:
            return json.loads(state.read_text())["next"]
        except OSError:  # it is being taken away
            continue
    return 0


def told(load):
    draft = grid / f"{machine}.draft"
    draft.write_text(json.dumps({"load": load}))
    draft.replace(grid / f"{machine}.json")
    with Path("load.jsonl").open("a") as file:
        file.write(json.dumps({"time": time.time(), "load": load}) + "\n")


told(0.0)
while done() < iterations:
    time.sleep(0.01)
told(load)
while True:
    time.sleep(60)
