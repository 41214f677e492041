"""A task: WORK seconds at speed 1, in steps of a tenth; it tells each, and leaves a file.

It computes nothing, but is as far as a machine of this speed would be by now: the file that $SPEED
names holds the speed, which may be another one at any time.
"""

import json
import os
import sys
import time
from pathlib import Path

name, work = sys.argv[1], float(sys.argv[2])
steps = max(round(work / 0.1), 1)
speed, profile = Path(os.environ["SPEED"]), Path(os.environ["ZEN_PROFILE"])
now = time.monotonic()
for step in range(1, steps + 1):
    begun, left = now, work / steps
    while left > 0:
        pace = float(speed.read_text())
        time.sleep(min(left / pace, 0.05))
        before, now = now, time.monotonic()
        left -= (now - before) * pace
    line = {"iteration": step, "seconds": round(now - begun, 4), "of": steps}
    with profile.open("a") as file:
        file.write(json.dumps(line) + "\n")
Path(f"{name}.dat").write_text(f"{name} at {os.environ['ZEN_HOST_NAME']}\n")
