"""A study of 10,000 experiments whose driver is killed ten times: python by_hand.py [COUNT] [SEED].

What docs/faults.md tells. It kills the driver with -9 at random moments, resumes to the end with
a real ``zen run``, and compares each result with those of a run that nobody harmed.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from study import oracle

KILLS = 10


def main(count: int, seed: int) -> None:
    moment = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="zen-by-hand-") as folder:
        place = Path(folder)
        study = oracle.Study(place / "harmed", str(place / "harmed.db"), count).write()
        for kill in range(1, KILLS + 1):
            driver = study.start()
            oracle.wait_for(driver, "planned")
            time.sleep(moment.uniform(0, 1.6 * count / 10_000))
            driver.kill()
            out, _ = driver.communicate()
            left = oracle.alive(study.folder)
            states = study.states()
            print(
                f"kill {kill:2}: told of {oracle.told(out):5,} outcomes; in the database"
                f" {states['ok']:6,} ok, {states['running']:3} claimed; {len(left)} processes alive"
            )
        begun = time.monotonic()
        out, _ = oracle.finished(study.zen())
        print(f"zen run to the end in {time.monotonic() - begun:.0f} s: {out.splitlines()[1]}")
        harmed = study.results()
        wanted = oracle.unharmed(count, 1, "")
        print(f"unharmed: {len(wanted):,} results; harmed: {len(harmed):,}")
        print(f"that differ: {sum(harmed.get(at) != wanted[at] for at in wanted)}")
        assert oracle.faults(study) == []
        print("exactly one accepted result each, database sound, no process alive")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["10000"])[0]), int((sys.argv[2:] or ["20250"])[0]))
