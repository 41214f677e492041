"""What whole commands cost at the sizes that were promised, beside the goals.

    python benchmarks/whole_commands.py [--only NAME ...] [--folder FOLDER] [--postgresql]
        [--write FILE]

Each row is a command at one size, run as a process: processor seconds of the user and the system,
start-up included (0.36), and the largest resident size. What a row needs is made in the folder when
it is not there: all of it takes an hour and 10 GB. Rows that were measured are kept in
`whole_commands.json`, so that they can be measured one by one, and --write puts all of them between
the marks of a page of the documentation.

With --postgresql, rows that concern the database are measured on a server of its own, with the
processor seconds of its processes. It lies in the folder, and is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import growth

from zenturio.annotate.scan import scan
from zenturio.errors import ZenError
from zenturio.execute.machines import own_machine
from zenturio.experiment import ExperimentGenerator, Outcome
from zenturio.record.entities import DriverProcess
from zenturio.record.open import open_repository
from zenturio.study.overview import result_count

SERVER = "; PostgreSQL"
KEPT = Path(__file__).with_suffix(".json")
MARK = "commands"
ZEN = (sys.executable, "-m", "zenturio")
PROGRAM = """\
#ZEN$ SUBSTITUTE a = { 1:100 }
#ZEN$ SUBSTITUTE b = { 1:100 }
#ZEN$ SUBSTITUTE c = { 1:100 }
#ZEN$ METRIC score FROM stdout REGEX "t (\\S+)"
#ZEN$ RUN "sh p.sh"
echo t a.b c
"""
UNTIL_NEW = """\
import os
from zenturio.cli import main
from zenturio.execute.local import Local
Local.submit = lambda *_: os._exit(0)
main()
"""
"""Runs a command until it begins an experiment."""
OPEN = """\
import os
from zenturio.record import StudyDefinition
from zenturio.record.open import open_repository
repository = open_repository(os.environ.get("ZENTURIO_DB", ".zenturio/zenturio.db"))
for _ in range(1000):
    repository.open("s2500", StudyDefinition())
repository.close()
"""
PAGE = """\
import sys
from pathlib import Path
from starlette.applications import Starlette
from starlette.requests import Request
from zenturio.show.portal.pages.experiment import experiment
from zenturio.show.portal.state import Portal, PortalSettings
place = Path(".zenturio/zenturio.db").absolute()
app = Starlette()
app.state.portal = portal = Portal(PortalSettings(str(place), place.parent))
digest = next(iter(portal.repository.records("p"))).digest
experiment(Request({"type": "http", "method": "GET", "path": "/experiment/" + digest,
                    "path_params": {"digest": digest}, "query_string": sys.argv[1].encode(),
                    "headers": [], "app": app}))
portal.close()
"""
"""Makes the page of the first experiment in the portal."""
SEARCH = ("run", "p.sh", "--search", "random", "--budget", "1000000",
          "--objective", "MINIMIZE score", "-j", "2")  # fmt: skip
TWENTY = "for i in $(seq 20); do echo COUNT $i > out/$i; done"
FILES = """\
#ZEN$ SUBSTITUTE COUNT = { 1:{experiments} }
#ZEN$ RUN "sh p.sh"
#ZEN$ OUTPUT "out/*"
: COUNT
mkdir out
{command}
"""


@dataclass(frozen=True)
class Case:
    """A command at one size, and what it may cost."""

    name: str
    size: str
    words: tuple[str, ...]
    folder: str = "results"
    """What it needs: one of FOLDERS."""
    seconds: float | None = None
    megabytes: float | None = None
    remark: str = ""
    warm: bool = True
    """Whether it runs once before, so that caches are there."""
    has_copy: bool = True
    """Whether columnar copies may be there."""
    program: str = ""
    """A Python program that runs with the words, in place of zen."""
    on_server: bool = False
    """Whether it is measured on PostgreSQL as well."""


def small_study(place: Path | str) -> None:
    growth.fill(place, 1_000)


def large_study(place: Path | str, size: int = 10**7) -> None:
    growth.fill(place, size)


def two_studies(place: Path | str) -> None:
    growth.fill(place, 10**6)


def many_studies(place: Path | str, count: int = 5_000, points: int = 20) -> None:
    """Studies with results each, as if each had been run."""
    growth.fill_studies(place, count, points)


def cached(folder: Path, count: int = 10**6 - 10) -> None:
    """A study of 10^6 points, all but some of which have results."""
    (folder / "p.sh").write_text(PROGRAM)
    zen(folder, "run", "p.sh", "--limit", "1")
    repository = open_repository(str(database(folder)))
    application = scan(str(folder / "p.sh"))
    generator, machine = ExperimentGenerator(application), own_machine()
    lease = repository.acquire_lease("p", DriverProcess.current())
    points = enumerate(islice(application.space, count))
    while batch := list(islice(points, 4096)):
        made = [generator.experiment(point, 1, index=index) for index, point in batch]
        results = [(e, outcome(e.digest, e.index, machine)) for e in made]
        repository.add_results("p", lease.number, results, None, None)
    repository.release_lease(lease)
    repository.close()


def killed_search(folder: Path, count: int = 10**5) -> None:
    """A search, killed after 10^5 trials."""
    (folder / "p.sh").write_text(PROGRAM)
    process = subprocess.Popen([*ZEN, *SEARCH], cwd=folder, stderr=subprocess.DEVNULL)
    finished = 0
    while finished < count and process.poll() is None:
        time.sleep(2)
        with suppress(ZenError), closing(open_repository(str(database(folder)))) as repository:
            finished = result_count(repository, "p")
    process.kill()
    process.wait()


def outcome(digest: str, index: int, machine: Any) -> Outcome:
    metrics = {"score": float(index % 977) + 1}
    started = 1e9 + index
    return Outcome(
        digest, "ok", metrics=metrics, started=started, ended=started + 1, host="h", machine=machine
    )


def files_100000(folder: Path) -> None:
    """An application of 2 GB in 1,000 folders."""
    (folder / "p.sh").write_text('#ZEN$ SUBSTITUTE N = { 1:3 }\n#ZEN$ RUN "sh p.sh"\necho N\n')
    for number in range(1_000):
        part = folder / f"d{number:03}"
        part.mkdir()
        for at in range(100):
            (part / f"f{at:02}").write_bytes(os.urandom(200) * 100)


def artifacts(experiments: int, command: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        text = FILES.replace("{experiments}", str(experiments)).replace("{command}", command)
        (folder / "p.sh").write_text(text)

    return make


DATABASES: dict[str, Callable[[Path | str], None]] = {
    "small": small_study,
    "results": large_study,
    "compared": two_studies,
    "studies": many_studies,
}
"""What fills the database of a folder, on SQLite or PostgreSQL."""
FOLDERS: dict[str, Callable[[Path], None]] = {
    "cached": cached,
    "searched": killed_search,
    "files": files_100000,
    "artifacts": artifacts(1_000, TWENTY),
    "many-of-20": artifacts(10_000, TWENTY),
    "one-of-many": artifacts(1, "seq 100000 | (cd out && split -l 1 -a 5)"),
    "one-large": artifacts(1, "head -c 5G /dev/zero > out/large"),
    "plans": lambda _: None,
}
TWO_KEYS = ("--by", "n,threads")
HEATMAP = ("plot", "big", "--kind", "heatmap", "--x", "n", "--y", "threads", "--z", "wtime",
           "-o", "chart.svg")  # fmt: skip
CASES = (
    *(
        Case(name, "10^3 results", words, "small", remark="next to nothing but start-up")
        for name, words in (
            ("results by two keys", ("results", "big", *TWO_KEYS)),
            ("plot --kind heatmap", HEATMAP),
            ("best", ("best", "big")),
        )
    ),
    *(
        Case(name, size, words, folder, seconds=goal, on_server=True, warm=name != "db check",
             remark="linear, with progress" if name == "db check" else "")
        for size, folder, best, fit in (
            ("10^6 results", "compared", 0.6, 2.0), ("10^7 results", "results", 1.0, None)
        )
        for name, words, goal in (
            ("results --limit 5", ("results", "big", "--limit", "5"), 0.6),
            ("results by two keys", ("results", "big", *TWO_KEYS), 1.0),
            ("median by two keys", ("results", "big", *TWO_KEYS, "--agg", "median"), 1.0),
            ("results sorted, 5 rows", ("results", "big", "--sort=-gflops", "--limit", "5"), 1.0),
            ("plot --kind heatmap", HEATMAP, 1.0),
            ("best", ("best", "big"), best),
            ("fit", ("fit", "big", "--y", "wtime", "--x", "n"), fit),
            ("db check", ("db", "check"), None),
        )
    ),
    Case("results by a condition, 5 rows", "10^7 results",
         ("results", "big", "--where", "wtime < 10", "--limit", "5"), seconds=0.6),
    Case("results by a condition, 5 rows, no copy", "10^7 results",
         ("results", "big", "--where", "wtime < 10", "--limit", "5"),
         seconds=0.6, remark='prints "of about 300,000 rows"', has_copy=False),
    *(
        Case(f"plot --kind {kind}", "10^7 results",
             ("plot", "big", "--kind", kind, *more, "-o", "chart.svg"))
        for kind, more in {
            "line": ("--x", "n", "--y", "wtime"),
            "bar": ("--x", "n", "--y", "wtime"),
            "scatter": ("--x", "maxrss", "--y", "wtime"),
            "box": ("--x", "n", "--y", "wtime"),
            "pie": ("--x", "solver", "--y", "wtime"),
            "surface": ("--x", "n", "--y", "threads", "--z", "wtime"),
            "convergence": (),
            "importance": (),
            "slice": (),
            "pareto": ("--objective", "MINIMIZE wtime, MAXIMIZE gflops"),
            "parallel": (),
        }.items()
    ),
    Case("db backup", "10^7 results", ("db", "backup", "copy.db"), warm=False),
    Case("prune big", "10^7 results", ("prune", "big"), remark="only lists what it would remove"),
    Case("compare", "2 x 10^6 results",
         ("compare", "big", "other", "--metric", "wtime", "--on", "n"), "compared",
         seconds=3.0, megabytes=300, on_server=True),
    Case("best --agg median", "10^6 results", ("best", "big", "--agg", "median"), "compared",
         seconds=0.6, on_server=True),
    Case("list", "5,000 studies", ("list",), "studies", seconds=0.4, on_server=True),
    Case("status of one", "5,000 studies", ("status", "s2500"), "studies", on_server=True),
    Case("open a study 1,000 times", "5,000 studies", (), "studies", seconds=5.0, on_server=True,
         program=OPEN, remark="in one process, start-up included"),
    Case("run, all cached", "10^6 experiments", ("run", "p.sh", "--limit", "999990"),
         "cached", seconds=2.5, remark="2.0 with 5 new experiments, at a load of 17"),
    Case("resume a search, all cached", "10^5 trials",
         ("run", "p.sh", "--search", "random", "--budget", "99000", "--objective",
          "MINIMIZE score"), "cached", seconds=5.0, remark="in a study of 10^6 results"),
    Case("resume a killed search, until its next trial begins", "10^5 trials, 2 at a time",
         SEARCH, "searched", seconds=5.0, warm=False, program=UNTIL_NEW),
    Case("check", "10^5 files, 2 GB", ("check", "."), "files", seconds=6.0, megabytes=160,
         warm=False),
    Case("check, nothing changed", "10^5 files, 2 GB", ("check", "."), "files", seconds=1.0),
    Case("run --limit 1", "10^5 files, 2 GB", ("run", ".", "--limit", "1"), "files",
         seconds=10.0, megabytes=160, warm=False, remark="files of 1 kB here, 0.1 GB, in memory"),
    Case("run", "10^3 experiments with 20 artifacts", ("run", "p.sh"), "artifacts", warm=False),
    Case("run", "an experiment with 10^5 artifacts", ("run", "p.sh"), "one-of-many", warm=False),
    Case("show", "an experiment with 10^5 artifacts", ("show", "{digest}"), "one-of-many"),
    Case("the portal's page", "an experiment with 10^5 artifacts", ("",), "one-of-many",
         program=PAGE, remark="start-up of the portal included; 200 on a page"),
    Case("the portal's last page", "an experiment with 10^5 artifacts", ("page=500",),
         "one-of-many", program=PAGE),
    Case("run", "10^4 experiments with 20 artifacts", ("run", "p.sh"), "many-of-20", warm=False),
    *(
        Case(name, size, words, folder, warm=name != "prune p --yes")
        for size, folder in {
            "an experiment with 10^5 artifacts": "one-of-many",
            "10^3 experiments with 20 artifacts": "artifacts",
            "10^4 experiments with 20 artifacts": "many-of-20",
        }.items()
        for name, words in {
            "db check": ("db", "check"),
            "db check --artifacts": ("db", "check", "--artifacts"),
            "prune": ("prune",),
            "prune p": ("prune", "p"),
            "prune p --yes": ("prune", "p", "--yes"),
        }.items()
    ),
    Case("run", "an experiment with an artifact of 5 GB", ("run", "p.sh"), "one-large", warm=False),
    *(
        Case(verb, f"10^{tasks} tasks, {machines} machines",
             (verb, f"layered:tasks={10**tasks}", "--on", f"identical:{count}", *more), "plans",
             warm=False)
        for verb, tasks, machines, count, more in (
            ("schedule", 5, "10^4", 10**4, ()),
            ("schedule", 5, "10^5", 10**5, ()),
            ("schedule", 6, "16", 16, ()),
            ("schedule", 6, "10^5", 10**5, ()),
            ("simulate", 6, "16", 16, ("--algorithm", "heft")),
        )
    ),
    Case("schedule --gantt", "10^6 tasks, 16 machines",
         ("schedule", "layered:tasks=1000000", "--on", "identical:16", "--gantt", "plan.html"),
         "plans", warm=False),
)  # fmt: skip


def database(folder: Path) -> Path:
    path = folder / ".zenturio" / "zenturio.db"
    path.parent.mkdir(exist_ok=True)
    return path


def zen(folder: Path, *words: str, program: str = "") -> tuple[float, float]:
    """Run a command; return processor seconds and megabytes."""
    command = (sys.executable, "-c", program) if program else ZEN
    process = subprocess.Popen(
        [*command, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"zen {' '.join(words)}: {errors[-2000:].decode()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def prepared(base: Path, name: str) -> Path:
    """Return the folder of that name, made if it is not there."""
    folder = base / name
    if not folder.exists():
        folder.mkdir(parents=True)
        if name in DATABASES:
            DATABASES[name](database(folder))
        else:
            FOLDERS[name](folder)
    return folder


def measure(case: Case, base: Path) -> dict[str, Any]:
    folder = prepared(base, case.folder)
    os.environ["XDG_CACHE_HOME"] = str(base / ("cache" if case.has_copy else "no-cache"))
    if "{digest}" in case.words:
        with closing(open_repository(str(database(folder)))) as repository:
            digest = next(iter(repository.records("p"))).digest
        case = replace(case, words=tuple(w.replace("{digest}", digest) for w in case.words))
    return repeated(case, folder)


def repeated(case: Case, folder: Path, spent: Callable[[], float] = lambda: 0.0) -> dict[str, Any]:
    """Measure a case in *folder*; *spent* are processor seconds of others that work for it."""
    if case.warm:
        zen(folder, *case.words, program=case.program)
    before = spent()
    seconds, megabytes = zen(folder, *case.words, program=case.program)
    seconds += spent() - before
    load = os.getloadavg()[0]
    return {"seconds": round(seconds, 2), "megabytes": round(megabytes), "load": round(load)}


class ServerMeasurement:
    """PostgreSQL beside the folders, and the databases that were made there."""

    def __init__(self, base: Path) -> None:
        import databases

        base.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault(databases.postgres.PLACE, str(base))
        base.chmod(0o755)  # the server is another user
        self._base, self._urls = base, dict[str, str]()
        self._server = databases.postgres.Server()
        self._spent = partial(databases.server_seconds, self._server)

    def measure(self, case: Case) -> dict[str, Any]:
        folder = self._base / "server"
        folder.mkdir(exist_ok=True)
        if case.folder not in self._urls:
            self._urls[case.folder] = self._server.new_url()
            DATABASES[case.folder](self._urls[case.folder])
        added = {
            "ZENTURIO_DB": self._urls[case.folder], "ZENTURIO_TRUST": "1",
            "XDG_CACHE_HOME": str(self._base / "server-cache"),
        }  # fmt: skip
        with mock.patch.dict(os.environ, added):
            return repeated(case, folder, self._spent)

    def close(self) -> None:
        self._server.remove()


def table(measured: dict[str, dict[str, Any]]) -> str:
    """The rows as they stand in the documentation."""
    lines = [
        "| command | size | processor seconds (goal) | MB (goal) | PostgreSQL: s, MB | |",
        "|---|---|---:|---:|---:|---|",
    ]
    for case in CASES:
        row = measured.get(key(case))
        if row is None:
            continue
        cells = [
            case.name, case.size,
            _with_goal(f"{row['seconds']:.2f}", case.seconds),
            _with_goal(f"{row['megabytes']:,}", case.megabytes),
            _on_server(measured.get(key(case) + SERVER)),
            case.remark,
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    loads = [row["load"] for row in measured.values()]
    lines.append(f"\nLoad of the two cores during the measurements: {min(loads)} to {max(loads)}.")
    return "\n".join(lines) + "\n"


def _with_goal(text: str, goal: float | None) -> str:
    return text if goal is None else f"{text} ({goal:g})"


def _on_server(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{row['seconds']:.2f}, {row['megabytes']:,}"


def key(case: Case) -> str:
    return f"{case.name}; {case.size}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="rows of this name, size or folder, or NAME; SIZE",
    )
    parser.add_argument("--folder", type=Path, help="where studies are made, and stay")
    parser.add_argument("--postgresql", action="store_true", help="on a server of its own")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--none", action="store_true", help="measure nothing anew")
    arguments = parser.parse_args()
    measured = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory(prefix="zen-commands-") as temporary:
        base = (arguments.folder or Path(temporary)).absolute()
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        with ExitStack() as stack:
            take, suffix = partial(measure, base=base), ""
            if arguments.postgresql:
                server = stack.enter_context(closing(ServerMeasurement(base)))
                take, suffix = server.measure, SERVER
            for case in () if arguments.none else CASES:
                names = {case.name, case.size, case.folder, key(case)}
                if arguments.only and not names & {*arguments.only}:
                    continue
                if arguments.postgresql and not case.on_server:
                    continue
                row = {key(case) + suffix: take(case)}
                print(row, flush=True)
                # Read again: rows that take long are measured by several processes.
                measured = (json.loads(KEPT.read_text()) if KEPT.exists() else {}) | row
                KEPT.write_text(json.dumps(measured, indent=1) + "\n")
    if arguments.write:
        growth.write(arguments.write, MARK, table(measured))
    else:
        print(table(measured), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
