"""A number for each claim, from the events of both experiments; and the pictures, with --draw."""

import json
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pandas as pd

from zenturio.execute.hosts.attempt_journal import HostEvent
from zenturio.show.charts.column_charts import chart
from zenturio.show.charts.schedule_charts import host_stays, jobs_gantt
from zenturio.show.report_store import save


def read(name):
    """The events of a file; jobs are called by their numbers."""
    events = [HostEvent(**each) for each in json.loads(Path(f"{name}.json").read_text())]
    numbers = {}
    for event in events:
        if event.digest:
            numbers.setdefault(event.digest, f"job {len(numbers)}")
    return [
        HostEvent(e.time, e.kind, numbers.get(e.digest, ""), e.host, e.why, e.iteration)
        for e in events
    ]


def of(events, job, *kinds):
    return [e for e in events if e.digest == job and e.kind in kinds]


def ends(events):
    return {e.digest: e.time for e in events if e.kind == "ended"}


def hosts(events, job):
    """Where a job was, in order."""
    return [e.host for e in of(events, job, "started")]


def degradation(events, name):
    """What is claimed of experiment 5.3.1."""
    first = {job: hosts(events, job)[0] for job in ends(events)}
    begun = min(e.time for e in events if e.kind == "prolog")
    (moving,) = of(events, "job 0", "moving")
    started = of(events, "job 0", "started")[1]
    whole = ends(events)["job 0"] - begun
    others = [end for job, end in ends(events).items() if job != "job 0"]
    done = {e.host: e for e in of(events, "job 0", "progress") if e.time <= moving.time}
    lost = moving.time - done["pegasus"].time if done else 0.0
    return {
        f"{name}_placed": sorted(first.values()) == ["babieca"] * 4 + ["pegasus"],
        f"{name}_moved": hosts(events, "job 0") == ["pegasus", "babieca"]
        and not any(of(events, f"job {i}", "moving") for i in range(1, 5)),
        f"{name}_overhead": 100 * (started.time - moving.time + lost) / whole,
        f"{name}_first": min(others) > ends(events)["job 0"],
        f"{name}_share": (ends(events)["job 0"] - begun) / (min(others) - begun),
    }


def demands(events, name):
    """What is claimed of experiment 5.3.2."""
    order = [e.digest for e in events if e.kind == "ended"]
    later = [f"job {i}" for i in (2, 3, 4)]
    end = ends(events)
    moved = of(events, "job 1", "moving")
    runs = [
        (stay.start, stay.end)
        for stay in host_stays(events)
        if stay.host == "pegasus" and stay.activity == "running"
    ]
    runs.sort()
    asked = [of(events, job, "requires")[0] for job in later]
    return {
        f"{name}_placed": [hosts(events, f"job {i}")[0] for i in range(5)]
        == ["pegasus"] + ["babieca"] * 4,
        f"{name}_drawn": len(moved) == 1
        and moved[0].time >= end["job 0"]
        and moved[0].why == "pegasus is better",
        f"{name}_stayed": hosts(events, "job 0") == ["pegasus"]
        and hosts(events, "job 1") == ["babieca", "pegasus"]
        and all(of(events, job, "requires")[-1].host == "pegasus" for job in ("job 0", "job 1")),
        f"{name}_asked": all(
            hosts(events, job) == ["babieca", "pegasus"] and each.host == "babieca"
            for job, each in zip(later, asked, strict=True)
        ),
        f"{name}_waited": sum(each.time < end["job 1"] for each in asked),
        f"{name}_one_by_one": order[:2] == ["job 0", "job 1"]
        and all(a[1] <= b[0] for a, b in pairwise(runs)),
    }


def draw_progress(events, path):
    """The iterations of job 0 over time, and where it was."""
    begun = min(e.time for e in events if e.kind == "prolog")
    rows = [
        {"seconds": e.time - begun, "iteration": e.iteration, "host": e.host}
        for e in of(events, "job 0", "progress")
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["noun"] = "lines of its profile"
    save(chart(frame, "line", x="seconds", y="iteration", colour="host",
               title="Progress of job 0"), path)  # fmt: skip


def draw_load(events, path):
    begun = min(e.time for e in events if e.kind == "prolog")
    end = max(e.time for e in events) - begun
    told = [json.loads(line) for line in Path("load.jsonl").read_text().splitlines()]
    points = defaultdict(list)
    last = 0.0
    for each in told:
        at = max(each["time"] - begun, 0.0)
        points["seconds"] += [at - 1e-3, at] if at else [0.0]
        points["load"] += [last, each["load"]] if at else [each["load"]]
        last = each["load"]
    points["seconds"].append(end)
    points["load"].append(last)
    frame = pd.DataFrame(points)
    frame.attrs["noun"] = "points"
    save(chart(frame, "line", x="seconds", y="load", title="Load of pegasus"), path)


def draw(first, second, played, played_too):
    save(jobs_gantt(first, title="A machine is overloaded: job 0 leaves it"), "figure5-1.svg")
    draw_load(first, "figure5-1-load.svg")
    draw_progress(first, "figure5-1-progress.svg")
    save(jobs_gantt(second, title="Jobs that need more memory, from their second phase on"),
         "figure5-2.svg")  # fmt: skip
    save(
        jobs_gantt(played, title="The same, simulated: job 0 leaves a machine"), "simulated5-1.svg"
    )
    save(jobs_gantt(played_too, title="The same, simulated: jobs that need more memory"),
         "simulated5-2.svg")  # fmt: skip


def main():
    first, second = read("degradation"), read("demands")
    played, played_too = read("simulated-degradation"), read("simulated-demands")
    if "--draw" in sys.argv:
        draw(first, second, played, played_too)
    stayed = ends(read("stayed"))
    measured = {
        **degradation(first, "real"),
        **degradation(played, "simulated"),
        **demands(second, "real_second"),
        **demands(played_too, "simulated_second"),
        "stayed": stayed["job 0"] / min(end for job, end in stayed.items() if job != "job 0"),
    }
    Path("measured.json").write_text(json.dumps(measured, indent=1))


main()
