"""Both experiments in simulated time: decisions are those of the tool, machines are numbers.

    python simulate.py degradation|demands SECONDS [--stay] > events.json

--stay: no contract is looked at, nothing moves.
"""

import heapq
import json
import sys
import tomllib
from itertools import count
from pathlib import Path

from zenturio.errors import Passage
from zenturio.execute.hosts.host_choice import (
    JobRequirements,
    ProgressProfile,
    best_host,
    worth_moving,
)
from zenturio.expression import parse

STAGING = 0.015
"""Seconds to prepare a machine and to start there, as measured; to stop and leave takes as long."""
HEARD = 0.1
"""Seconds after which a line of a profile is heard."""
ITERATIONS, EXACT, OVERLOADED, LOAD = 40, 26, 16, 4.0
MB = 10**6


class Job:
    """One sequence: where it is, and how far."""

    def __init__(self, name, wants):
        self.name, self.wants = name, wants
        self.done = self.attempt = 0
        self.profile, self.machine, self.score = None, None, 0.0
        self.exact = False


class Grid:
    """Machines, jobs, and a heap of what happens next."""

    def __init__(self, which, seconds, ways):
        described = tomllib.loads(Path(f"{which}.toml").read_text())
        self.ways = {**described["options"], **ways}
        self.phases, self.seconds = which == "demands", seconds
        self.facts = {
            name: {**host, "memory": int(host["memory"].replace("GB", "000MB")[:-2]) * MB,
                   "name": name, "load": 0.0, "free": host["slots"]}
            for name, host in described["hosts"].items()
        }  # fmt: skip
        self.now, self.events, self.heap, self.order = 0.0, [], [], count()
        rank = parse(Passage.of(self.ways["rank"]))
        self.jobs = [Job(f"job {i}", JobRequirements(rank=rank)) for i in range(5)]
        self.waiting = list(self.jobs)
        self.assign()
        while self.heap:
            self.now, _, job, attempt, what = heapq.heappop(self.heap)
            if attempt == job.attempt:
                what(job)

    def later(self, seconds, job, what):
        heapq.heappush(self.heap, (self.now + seconds, next(self.order), job, job.attempt, what))

    def note(self, kind, job, why="", iteration=None):
        host = job.machine["name"] if job.machine else ""
        self.events.append({"time": self.now, "kind": kind, "digest": job.name, "host": host,
                            "why": why, "iteration": iteration})  # fmt: skip

    def free(self, without=None):
        return [m for m in self.facts.values() if m["free"] and m is not without]

    def assign(self):
        for job in list(self.waiting):
            machines = self.free()
            at = best_host(job.wants, machines)
            if at is not None:
                self.waiting.remove(job)
                self.go(job, machines[at])

    def go(self, job, machine):
        job.machine, job.profile, job.score = machine, self.profile(), job.wants.score(machine)
        machine["free"] -= 1
        self.note("prolog", job)
        self.later(STAGING, job, self.start)

    def profile(self):
        return ProgressProfile(self.ways.get("breaches", 1))

    def start(self, job):
        self.note("started", job)
        self.iterate(job)

    def iterate(self, job):
        if job.done == ITERATIONS:
            self.end(job)
            return
        if self.phases and job.done == EXACT and not job.exact:
            job.exact = True
            job.wants = job.wants.replaced_by("REQUIRE host.memory >= 512MB")
            self.note("requires", job, "REQUIRE host.memory >= 512MB")
            if not job.wants.is_met_by(job.machine):
                self.later(HEARD, job, lambda job: self.leave(job, "the program requires another"))
                return
        machine = job.machine
        taken = self.seconds / machine["speed"] * (1 + machine["load"])
        self.later(taken, job, lambda job: self.did(job, taken))

    def did(self, job, taken):
        job.done += 1
        line = {"iteration": job.done, "seconds": taken, "of": ITERATIONS}
        self.later(HEARD, job, lambda job: self.hear(job, json.dumps(line)))
        if not self.phases and job.machine["name"] == "pegasus" and job.done == OVERLOADED:
            job.machine["load"] = LOAD
        self.iterate(job)

    def hear(self, job, line):
        job.profile.update(line, 0)
        self.note("progress", job, iteration=job.profile.iteration)
        if job.profile.broken(self.ways.get("contract", 0.0)):
            machines = self.free(without=job.machine)
            at = best_host(job.wants, machines)
            if at is not None and self.gains(job, machines[at], 0.0):
                self.leave(job, "the contract is broken")

    def gains(self, job, machine, gain):
        there = job.wants.score(machine)
        return worth_moving(job.profile, job.score, there, move=2 * STAGING, gain=gain, anew=False)

    def leave(self, job, why):
        self.note("moving", job, why)
        job.attempt += 1
        self.later(STAGING, job, self.left)

    def left(self, job):
        self.note("left", job)
        job.machine["free"] += 1
        self.waiting = sorted([*self.waiting, job], key=self.jobs.index)
        self.assign()

    def end(self, job):
        self.note("ended", job)
        job.machine["free"] += 1
        job.attempt += 1
        job.machine = None
        self.assign()
        for other in self.jobs if self.ways.get("gain") else ():
            machines = self.free()
            at = best_host(other.wants, machines) if other.machine and not other.exact else None
            if at is not None and self.gains(other, machines[at], self.ways["gain"]):
                self.leave(other, f"{machines[at]['name']} is better")
                return


stay = {"contract": 0.0, "gain": 0.0} if "--stay" in sys.argv else {}
print(json.dumps(Grid(sys.argv[1], float(sys.argv[2]), stay).events, indent=1))
