# Aligns a sequence with the structures of a data base, a number of them in each iteration: it takes
# the time, and does what the program of the paper does for its schedulers. The machines are those
# of Table 5.1, as $GRID describes them: an iteration takes the longer the slower the machine is,
# and the more it has to do otherwise.
#
# ZEN$ PARAM job = { 0:4 }
# ZEN$ PARAM iterations = { 40 }
# ZEN$ PARAM exact = { 40 }
# ZEN$ PARAM seconds = { 0.1 } UNIT "s"
# ZEN$ RUN "python3 align.py {job} {iterations} {exact} {seconds}"
# ZEN$ METRIC aligned FROM stdout REGEX "aligned (\d+)"
# ZEN$ METRIC at FROM stdout REGEX "at (\w+)"
import json
import os
import sys
import time
from pathlib import Path

_, job, iterations, exact, seconds = sys.argv
iterations, exact, seconds = int(iterations), int(exact), float(seconds)
machine = os.environ["ZEN_HOST_NAME"]
speed = float(os.environ["ZEN_HOST_SPEED"])
load = Path(os.environ["GRID"], f"{machine}.json")
state = Path("state.json")  # the restart file: the best candidates so far, and what comes next
found = json.loads(state.read_text()) if state.exists() else {"next": 0, "best": []}

for number in range(found["next"], iterations):
    if number == exact:  # from now on alignments are exact, and need more memory
        Path(os.environ["ZEN_REQUIRE"]).write_text("REQUIRE host.memory >= 512MB\n")
        if int(os.environ["ZEN_HOST_MEMORY"]) < 512_000_000:
            time.sleep(60)  # until it is heard: here we may not go on
    begun = time.monotonic()
    left = seconds / speed
    while left > 0:  # in small steps: the load may change at any time
        step = min(left, seconds / 20)
        time.sleep(step * (1 + json.loads(load.read_text())["load"]))
        left -= step
    found = {"next": number + 1, "best": [*found["best"], hash((job, number)) % 1000][-20:]}
    draft = Path("state.draft")
    draft.write_text(json.dumps(found))
    draft.replace(state)
    taken = time.monotonic() - begun
    with Path(os.environ["ZEN_PROFILE"]).open("a") as profile:
        line = {"iteration": number + 1, "seconds": round(taken, 4), "of": iterations}
        profile.write(json.dumps(line) + "\n")

print(f"aligned {found['next']} at {machine}")
