"""A project with studies of several sorts: measured, searched, half done, hostile, and really run."""

from contextlib import chdir
from hashlib import blake2b, sha256

from zenturio.annotate.scan import scan, scan_kept
from zenturio.experiment import Missing
from zenturio.experiment.experiment import Artifact, Experiment, Log, Outcome, Recipe
from zenturio.record import DriverProcess, Field, StudyDefinition
from zenturio.record.open import FOLDER, open_repository
from zenturio.search.designs import Design
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.local_run import run_locally

EVIL = "<script>alert(1)</script>"
"""What must never be more than text."""
BEGAN = 1_790_000_000.0


def fill_project(folder):
    """Studies in the database of *folder*: matmul, stencil, half, designed, EVIL, and hello, which was run."""
    (folder / FOLDER).mkdir()
    repository = open_repository(folder / FOLDER / "zenturio.db")
    try:
        _matmul(repository)
        _stencil(repository)
        _half(repository)
        _designed(repository)
        _evil(repository, folder)
    finally:
        repository.close()
    _hello(folder)


def enter(repository, study, definition, rows):
    """A study with *rows* of (values, metrics, what differs in the outcome)."""
    repository.open(study, definition)
    lease = repository.acquire_lease(study, DriverProcess.current(), seconds=600)
    repeats = {}
    results = []
    for number, (values, metrics, more) in enumerate(rows):
        digest = blake2b(f"{study} {number}".encode(), digest_size=16).hexdigest()
        point = tuple(values.items())
        repeats[point] = repeats.get(point, 0) + 1
        index = list(repeats).index(point)
        at = {"attempt": 1, "host": "kofel", "started": BEGAN + number, "ended": BEGAN + number + 1}
        facts = {"status": "ok", "cause": "", **at, **more}
        experiment = Experiment(digest, index, repeats[point], values, (), (), {}, None, Recipe())
        results.append((experiment, Outcome(digest, metrics=metrics, **facts)))
    repository.add_results(study, lease.number, results)
    repository.release_lease(lease)
    return [experiment.digest for experiment, _ in results]


def _matmul(repository):
    """Three sizes, four numbers of threads, two solvers, three repeats; some failed."""
    rows = []
    for n in (128, 256, 512):
        for threads in (1, 2, 4, 8):
            for solver in ("cg", "gmres"):
                for repeat in (1, 2, 3):
                    wtime = n**3 / 2e7 / threads**0.8 + repeat / 50 + (solver == "gmres") / 4
                    metrics = {"wtime": wtime, "gflops": n**3 / wtime / 1e6, "exit": 0}
                    more = {}
                    if (n, threads, repeat) == (512, 8, 3):
                        more = {"status": "timeout", "cause": "timeout after 30 s"}
                        metrics = {"wtime": 30.0, "gflops": Missing("it did not end")}
                    elif threads == 2 and repeat == 2:
                        said = b"reading matrix\nout of memory in block 7\n"
                        more = {"status": "failed", "cause": "exit 3", "exit": 3,
                                "stderr": Log(said, b"", len(said))}  # fmt: skip
                        metrics = {"exit": 3, "gflops": Missing("no line matches gflops (\\S+)")}
                    values = {"n": n, "threads": threads, "solver": solver}
                    rows.append((values, metrics, more))
    definition = StudyDefinition(
        (Field("n", "int", "cells", "assign"), Field("threads", "int", "", "env"),
         Field("solver", "str", "", "substitute")),
        (Field("wtime", "real", "s"), Field("gflops", "real", "GFLOP/s"), Field("exit", "int")),
        ({"direction": "minimize", "expression": "wtime"},),
        {"git": {"commit": "4f1e2baa", "branch": "main", "dirty": True}},
        notes={"experiments": len(rows), "paths": ["matmul.c"], "runs": ["./matmul {n}"]},
    )  # fmt: skip
    enter(repository, "matmul", definition, rows)


def _stencil(repository):
    """A search with two goals, as it came to better points."""
    rows = []
    for number in range(60):
        a, b = number * 7 % 16, number * 5 % 11
        loss = (a - 11) ** 2 / 10 + abs(b - 4) + 3 / (number + 1)
        solver = ("jacobi", "multigrid")[number % 2]
        values = {"block": 2 ** (3 + a % 6), "unroll": b, "solver": solver, "depth": a}
        rows.append((values, {"loss": loss, "energy": 60 - loss + b, "wtime": loss / 7}, {}))
    definition = StudyDefinition(
        (Field("block", "int", "KiB"), Field("unroll", "int"), Field("solver", "str"),
         Field("depth", "int")),
        (Field("loss", "real"), Field("energy", "real", "J"), Field("wtime", "real", "s")),
        ({"direction": "minimize", "expression": "loss"},
         {"direction": "minimize", "expression": "energy"}),
        notes={"experiments": len(rows)},
    )  # fmt: skip
    enter(repository, "stencil", definition, rows)


def _half(repository):
    """A study that somebody left in the middle."""
    rows = [({"n": n}, {"wtime": float(n)}, {}) for n in range(1, 13)]
    fields = (Field("n", "int"),), (Field("wtime", "real", "s"),)
    enter(repository, "half", StudyDefinition(*fields, notes={"experiments": 40}), rows)


DESIGNED = b"""\
#ZEN$ PARAM a = { 0:9 }
#ZEN$ PARAM b = { 0:9 }
#ZEN$ CONSTRAINT VALUE a + b <= 12
#ZEN$ METRIC cost FROM stdout REGEX "(.*)"
#ZEN$ RUN "true {a} {b}"
"""


def _designed(repository):
    """The points of a design, whose parameters are tied."""
    sources = {"designed.sh": DESIGNED}
    points = dict.fromkeys(Design("saltelli", 20).points(scan_kept(sources, ()).space))
    rows = [(dict(p), {"cost": float(p["a"] * p["b"] + p["a"])}, {}) for p in points]
    definition = StudyDefinition(
        (Field("a", "int"), Field("b", "int")), (Field("cost", "real"),), sources=sources,
        notes={"experiments": len(rows), "run": {"design": "saltelli:20", "seed": 0}},
    )  # fmt: skip
    enter(repository, "designed", definition, rows)


def _evil(repository, folder):
    """Names, values, causes and output that would be scripts."""
    said = f"{EVIL}\n\0\xff\x1b[31m".encode("latin-1")
    kept = folder / FOLDER / "artifacts" / "evil"
    kept.parent.mkdir()
    kept.write_bytes(b"what it left\n")
    artifact = Artifact(f"../{EVIL}", 13, sha256(b"what it left\n").hexdigest(), kept)
    rows = [
        ({EVIL: value, "select": n}, {f"m{EVIL}": 1.0 / (n + 1), "why": EVIL},
         {"status": "failed", "cause": EVIL, "stdout": Log(said, b"", len(said)),
          "stderr": Log(said, b"end", 5_000), "artifacts": (artifact,)} if n % 2 else {})
        for n, value in enumerate([EVIL, '"><img src=x onerror=alert(1)>', "=1+1", "a\nb"])
    ]  # fmt: skip
    definition = StudyDefinition(
        (Field(EVIL, "str", EVIL), Field("select", "int")),
        (Field(f"m{EVIL}", "real", EVIL), Field("why", "str")),
        notes={"experiments": len(rows), "paths": [f"{EVIL}.sh"], "runs": [f"./x {EVIL}"]},
    )
    enter(repository, EVIL, definition, rows)


HELLO = """\
#!/bin/sh
#ZEN$ PARAM word = {hello, goodbye}
count=1
#ZEN$ ASSIGN count = {1:2}
#ZEN$ RUN "sh hello.sh {word}" TIMEOUT 60s
#ZEN$ METRIC letters FROM stdout REGEX "letters (\\d+)"
#ZEN$ OUTPUT "*.txt"
echo "$1 $count" > said.txt
echo "letters $((${#1} * count))"
echo "to stderr" >&2
"""


def _hello(folder):
    """A study that is really run: its files, output and artifacts are there."""
    path = folder / "hello.sh"
    path.write_text(HELLO)
    path.chmod(0o755)
    with chdir(folder):
        application = scan([path])
        run_locally(application, select_points(application.space))
