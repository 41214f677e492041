"""Three users on one service: fair shares, and nothing lost, while everything is killed.

    python benchmarks/team.py [--studies N] [--slots N ...] [--windows N] [--quiet] [--json]

Alice has many studies, bob a few, carol one large one; their experiments sleep for 0.1, 0.2 and 0.4
seconds. A service shares 2 slots among them, then 16, on a PostgreSQL of its own. Meanwhile a
reader leaves a transaction open, the service is killed with -9 and started again, and the server
is restarted; with --quiet nothing happens. Then: each experiment has one right result
and none was recorded twice; Jain's index of the users' slot-seconds in windows of twenty longest
experiments in which all have work; the longest time for which a user with work began nothing; and
the same load under Slurm's formula of fair shares, 2^(-usage / share), played with its two extreme
periods of calculation: at each decision, and once in a window.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

SECONDS = {"alice": 0.1, "bob": 0.2, "carol": 0.4}
"""How long an experiment of each sleeps."""
LONGEST = max(SECONDS.values())
WINDOW = 20 * LONGEST
STUDY = """\
#!/bin/sh
#ZEN$ PARAM n = {{ 1:{count} }}
#ZEN$ RUN "sh {name}.sh {{n}}"
#ZEN$ METRIC square FROM stdout REGEX "square (\\d+)"
sleep {seconds}
echo "square $(($1 * $1))"
"""
Span = tuple[float, float, str]
"""When an experiment began and ended, and whose it is."""


def serve(url: str, slots: int) -> None:
    """A service as a process of its own."""
    from zenturio.execute.local import Local
    from zenturio.record.open import open_repository
    from zenturio.study.service.study_service import StudyService

    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with Local(Path(".zenturio"), slots) as place:
        service = StudyService(open_repository(url), {"local": place}, "fcfs")
        thread = threading.Thread(target=service.run, args=(over,))
        thread.start()
        thread.join()


def studies_of(count: int, slots: int, windows: float) -> dict[str, list[tuple[str, int]]]:
    """Names and sizes of each user's studies: work for so many windows, if shares are equal."""
    share = slots * WINDOW * windows / len(SECONDS)
    numbers = {"carol": 1, "bob": max(1, count // 6)}
    numbers["alice"] = max(1, count - sum(numbers.values()))
    return {
        user: [
            (f"{user}{i}", max(1, round(share / SECONDS[user] / numbers[user])))
            for i in range(numbers[user])
        ]
        for user in SECONDS
    }


class Disturbances:
    """What happens meanwhile."""

    def __init__(self, server: Any, url: str, slots: int) -> None:
        self.server, self.url, self.slots = server, url, slots
        self.service = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, "--serve", self.url, "--slots", str(self.slots)]
        return subprocess.Popen(command, env={**os.environ, "ZENTURIO_TRUST": "1"})

    def kill_service(self) -> None:
        self.service.kill()
        self.service.wait()
        self.service = self.start()


def run(count: int, slots: int, windows: float, *, quiet: bool) -> dict[str, Any]:
    """Submit, disturb, wait, and compare with what is right."""
    from zenturio.record import maintenance
    from zenturio.record.open import open_repository
    from zenturio.study.service.submission_client import submit_study
    from zenturio.study.study_request import StudyRequest

    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from postgres import Server

    submitted = studies_of(count, slots, windows)
    sizes = {name: size for studies in submitted.values() for name, size in studies}
    server = Server()
    with tempfile.TemporaryDirectory(prefix="zen-team-") as folder:
        os.chdir(folder)
        Path(".zenturio").mkdir()
        url = server.new_url()
        repository = open_repository(url)
        for user, studies in submitted.items():
            for name, size in studies:
                text = STUDY.format(name=name, count=size, seconds=SECONDS[user])
                Path(f"{name}.sh").write_text(text)
                submit_study(repository, StudyRequest((f"{name}.sh",)), user)
        meanwhile = Disturbances(server, url, slots)
        begun = time.monotonic()
        events = [] if quiet else [("kill", 0.8), ("restart", 1.4)]
        reader = None if quiet else open_reader(server, url)
        try:
            while not all_done(repository, sizes):
                if events and time.monotonic() - begun > events[0][1] * WINDOW:
                    event, _ = events.pop(0)
                    if event == "kill":
                        meanwhile.kill_service()
                    else:
                        server.restart()
                        reader = open_reader(server, url)
                time.sleep(0.5)
                if meanwhile.service.poll() is not None:
                    raise SystemExit("the service ended")
            elapsed = time.monotonic() - begun
            meanwhile.service.send_signal(signal.SIGTERM)
            meanwhile.service.wait(60)
            facts = judge(repository, submitted)
            facts["damage"] = len(maintenance.check_repository(url))
        finally:
            if meanwhile.service.poll() is None:
                meanwhile.service.kill()
                meanwhile.service.wait()
            if reader is not None:
                reader.close()
            repository.close()
            os.chdir("/")
            server.remove()
    played = {
        f"slurm_{word}": jain_in_windows(play_slurm(submitted, slots, period))
        for word, period in (("always", 0.0), ("window", WINDOW))
    }
    return {"slots": slots, "studies": len(sizes), "seconds": elapsed, **facts, **played}


def open_reader(server: Any, url: str) -> Any:
    """A transaction that is left open upon the tables."""
    connection = server.connect()
    connection.execute(f"SET search_path = {url.rpartition('%3D')[2]}")
    connection.execute("BEGIN; SELECT count(*) FROM results; SELECT count(*) FROM submissions")
    return connection


def all_done(repository: Any, sizes: dict[str, int]) -> bool:
    submissions = repository.submissions()
    failed = [s for s in submissions if s.turn not in ("waiting", "running", "done")]
    if failed:
        raise SystemExit(f"{failed[0].study}: {failed[0].cause}")
    return sum(s.turn == "done" for s in submissions) == len(sizes)


def judge(repository: Any, submitted: dict[str, list[tuple[str, int]]]) -> dict[str, Any]:
    """What was recorded, against what is right."""
    spans: list[Span] = []
    wrong = 0
    for user, studies in submitted.items():
        for name, size in studies:
            records = list(repository.records(name, states=("ok",)))
            squares = sorted(int(r.outcome.metrics["square"]) for r in records)
            wrong += squares != [n * n for n in range(1, size + 1)]
            spans += [(r.outcome.started, r.outcome.ended, user) for r in records]
    indices = jain_in_windows(spans)
    return {
        "experiments": len(spans),
        "wrong_studies": wrong,
        "jain": indices,
        "longest_pause": longest_pause(spans),
    }


def jain_in_windows(spans: Sequence[Span]) -> list[float]:
    """Jain's index of the users' slot-seconds, in each window in which all had work."""
    from zenturio.study.service.slot_policy import jain_index

    begin = min(start for start, _, _ in spans)
    last = min(max(start for start, _, user in spans if user == each) for each in SECONDS)
    indices = []
    while begin + WINDOW <= last:
        amounts = dict.fromkeys(SECONDS, 0.0)
        for start, end, user in spans:
            amounts[user] += max(0.0, min(end, begin + WINDOW) - max(start, begin))
        indices.append(round(jain_index(amounts.values()), 4))
        begin += WINDOW
    return indices


def longest_pause(spans: Sequence[Span]) -> dict[str, float]:
    """For how many longest experiments each user with work began nothing, at the most."""
    pauses = {}
    for each in SECONDS:
        starts = sorted(start for start, _, user in spans if user == each)
        gaps = [after - before for before, after in pairwise(starts)]
        pauses[each] = round(max(gaps, default=0.0) / LONGEST, 1)
    return pauses


def play_slurm(
    submitted: dict[str, list[tuple[str, int]]], slots: int, period: float
) -> list[Span]:
    """The same load, where the next slot goes to the user with the highest fair-share factor.

    F = 2^(-usage / share), with equal shares and usage as it was when it was last calculated; its
    half-life is a week, so that nothing decays meanwhile.
    """
    left = {user: sum(size for _, size in studies) for user, studies in submitted.items()}
    usage, known = dict.fromkeys(left, 0.0), dict.fromkeys(left, 0.0)
    spans: list[Span] = []
    running: list[Span] = []
    now = calculated = 0.0
    while any(left.values()):
        while len(running) < slots and any(left.values()):
            if now >= calculated + period:
                known, calculated = dict(usage), now
            total = sum(known.values()) or 1.0
            factors = {u: 2 ** (-known[u] / total * len(left)) for u, n in left.items() if n}
            user = max(factors, key=lambda u: factors[u])
            left[user] -= 1
            heappush(running, (now + SECONDS[user], now, user))
        end, begun, user = heappop(running)
        now = end
        usage[user] += end - begun
        spans.append((begun, end, user))
    return spans


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=24, help="of all users (200 for the claim)")
    parser.add_argument("--slots", type=int, nargs="+", default=[2, 16])
    parser.add_argument("--windows", type=float, default=2.5, help="of work for each user")
    parser.add_argument("--quiet", action="store_true", help="kill and restart nothing")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.slots[0])
        return
    rows = [run(options.studies, n, options.windows, quiet=options.quiet) for n in options.slots]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(
            f"{row['slots']} slots, {row['studies']} studies, {row['experiments']} experiments in"
            f" {row['seconds']:.0f} s: {row['wrong_studies']} studies wrong, {row['damage']} faults"
        )
        print(f"  Jain's index in windows of {WINDOW:g} s: {row['jain']}")
        print(f"  Slurm's formula, at each decision: {row['slurm_always']}")
        print(f"  Slurm's formula, once in a window: {row['slurm_window']}")
        print(f"  longest pause, in longest experiments: {row['longest_pause']}")


if __name__ == "__main__":
    main()
