"""The portal on a million experiments, under fifty tabs, and beside the pages of others.

    python benchmarks/portal.py [--size N] [--trials N] [--tabs N] [--json] [--cache FOLDER]
    python benchmarks/portal.py --database FILE

A portal is started on a study of a million experiments in SQLite, as `zen portal` starts it; its
pages are asked for over HTTP, and its resident memory is read from the system. Then a study of
tiny programs is driven alone and under open tabs, in turns. Beside it Optuna's dashboard and
MLflow's server answer for 10,000 trials what their pages wait for, and the portal for as many.
The peers are installed with pip into an environment of their own in the cache folder.

With --database, each page and each chart of a study `big` that is there is asked for twice instead;
`whole_commands.py` makes one of ten million experiments in its folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from driving import STUDY, tiny

from results import digest, fill  # isort: skip

PEERS = ("optuna==5.0.0", "optuna-dashboard==0.21.0", "mlflow==3.17.2")
TABLES = {
    "the first rows": {},
    "rows in the middle": {"after": "middle"},
    "the last rows": {"before": "end"},
    "a filter that half meet": {"where": "n >= 512 and solver == 'cg'"},
    "a filter that few meet": {"where": "wtime < 0.02"},
    "sorted, the first rows": {"sort": "-gflops"},
    "sorted and filtered": {"sort": "wtime", "where": "threads == 7"},
}
STUDY_PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "home": ("/", {}),
    "the study, first of all": ("/study", {"name": "big"}),
    **{
        f"its table, {name}": ("/study", {"name": "big", **more})
        for name, more in TABLES.items()
        if name != "rows in the middle"
    },
    "rows of a sorted table, counted": ("/study/found", {"name": "big", "sort": "-gflops"}),
    "rows of a filter, counted": ("/study/found", {"name": "big", "where": "wtime < 10"}),
    "its failures": ("/study/failures", {"name": "big"}),
    "its parameters": ("/study/parameters", {"name": "big"}),
    "an experiment": ("{experiment}", {}),
    "the form of charts": ("/chart", {"study": "big"}),
    "SQL": ("/sql", {}),
    "reports": ("/report", {}),
    **{
        f"a chart: {kind}": ("/chart/figure", {"study": "big", "kind": kind, **more})
        for kind, more in {
            "line": {"x": "n", "y": "wtime"},
            "bar": {"x": "n", "y": "wtime"},
            "scatter": {"x": "maxrss", "y": "wtime"},
            "box": {"x": "n", "y": "wtime"},
            "pie": {"x": "solver", "y": "wtime"},
            "heatmap": {"x": "n", "y": "threads", "z": "wtime"},
            "surface": {"x": "n", "y": "threads", "z": "wtime"},
            "convergence": {},
            "importance": {},
            "slice": {},
            "pareto": {"objective": "MINIMIZE wtime, MAXIMIZE gflops"},
            "parallel": {},
        }.items()
    },
}
REST = 12.0
"""Seconds after which the portal has given back what it does not hold."""
CHART = {"study": "big", "kind": "line", "x": "n", "color": "solver", "log": "x"}
CHARTS = {
    "the first chart, with what draws": {"y": "wtime"},
    "a chart with two group-bys": {"y": "gflops"},
}


@dataclass
class Browser:
    """One connection that is kept, and what was answered on it last."""

    port: int
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        """A new connection: servers close those that rest."""
        self._line = HTTPConnection("127.0.0.1", self.port, timeout=120)

    def get(self, path: str, given: dict[str, str] | None = None, body: Any = None) -> bytes:
        target = f"{path}?{urlencode(given)}" if given else path
        headers = {"Cookie": self.cookie, **self.headers} if self.cookie else dict(self.headers)
        method = "GET" if body is None else "POST"
        if body is not None:
            headers["Content-Type"] = "application/json"
        self._line.request(method, target, body and json.dumps(body), headers)
        answer = self._line.getresponse()
        content = answer.read()
        if answer.status == 303:
            self.cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
        elif answer.status != 200:
            raise SystemExit(f"{target}: {answer.status}\n{content[:500].decode()}")
        return content

    def seconds(self, path: str, given: dict[str, str] | None = None, body: Any = None) -> float:
        begun = time.perf_counter()
        self.get(path, given, body)
        return time.perf_counter() - begun


@contextmanager
def process(command: list[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A server while it runs; it and what it started end behind."""
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True, **more,
    )  # fmt: skip
    try:
        yield running
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(running.pid, number)
            with suppress(subprocess.TimeoutExpired):
                running.wait(5)
        running.stdout.close()


@contextmanager
def portal(db: Path) -> Iterator[tuple[Browser, int, float]]:
    """A browser that was let in, the portal's process, and the seconds until it showed home."""
    command = [sys.executable, "-c", "from zenturio.cli import main; main()"]
    begun = time.perf_counter()
    words = [*command, "portal", "--no-browser", "--db", str(db)]
    with process(words, cwd=db.parent) as running:
        link = next(line for line in running.stdout if "token=" in line).strip()
        port = int(re.search(r":(\d+)/", link)[1])
        browser = Browser(port)
        browser.get(link[link.index("/", 8) :])
        browser.get("/")
        yield browser, running.pid, time.perf_counter() - begun


def memory(pid: int) -> tuple[float, float]:
    """Resident megabytes of a process, and the most that it ever had."""
    text = Path(f"/proc/{pid}/status").read_text()
    return tuple(int(re.search(rf"{n}:\s+(\d+)", text)[1]) / 1024 for n in ("VmRSS", "VmHWM"))


def processor(pid: int) -> float:
    """Seconds of the processor that a process and what it started have had, to the nanosecond."""
    total = 0
    for each in family(pid):
        for task in Path(f"/proc/{each}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def family(pid: int) -> list[int]:
    """A server and the processes that it started."""
    command = ["pgrep", "-g", str(pid)]
    others = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return [*dict.fromkeys([pid, *map(int, others)])]


def asked_often(browser: Browser, pid: int, rounds: int, *question: Any) -> list[float]:
    """Milliseconds: the first time, the median, and the processor's for each of the others."""
    times = [browser.seconds(*question)]
    before = processor(pid)
    times += [browser.seconds(*question) for _ in range(rounds)]
    used = (processor(pid) - before) / rounds
    return [times[0] * 1000, statistics.median(times) * 1000, used * 1000]


def million(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    """Pages of a large study, each asked for several times; milliseconds."""
    db = folder / "big.db"
    fill(db, size).close()
    middle = digest(size // 2).hex()
    found: dict[str, Any] = {}
    with portal(db) as (browser, pid, started):
        found["from the command to home"] = [started * 1000, processor(pid) * 1000]
        before = processor(pid)
        taken = browser.seconds("/study", {"name": "big"})
        found["the first page of the study"] = [taken * 1000, (processor(pid) - before) * 1000]
        found["memory then, MB"] = memory(pid)[0]
        pages = {}
        for name, given in TABLES.items():
            asked = {"name": "big", **{k: middle if v == "middle" else v for k, v in given.items()}}
            pages[name] = asked_often(browser, pid, rounds, "/study", asked)
            found["memory under tables, MB"] = memory(pid)[0]
        browser.get("/study/found", asked)
        asked = {"name": "big", "sort": "-gflops"}
        found["counting a sorted table, once"] = asked_often(
            browser, pid, rounds, "/study/found", asked
        )
        following = re.search(r'rel="next" href="([^"]+)"', browser.get("/study", asked).decode())
        behind = following[1].replace("&amp;", "&")
        pages["sorted, a page behind"] = asked_often(browser, pid, rounds, behind)
        for path in ("/study/failures", "/study/parameters"):
            before = processor(pid)
            taken = browser.seconds(path, {"name": "big"})
            found[f"{path[7:]}, once"] = [taken * 1000, (processor(pid) - before) * 1000]
        time.sleep(REST)
        browser.connect()
        found["memory after tables, MB"] = memory(pid)[0]
        for name, axes in CHARTS.items():
            before = processor(pid)
            taken = browser.seconds("/chart/figure", CHART | axes)
            found[name] = [taken * 1000, (processor(pid) - before) * 1000]
        time.sleep(REST)
        found["memory in the end, MB"], found["memory at most, MB"] = memory(pid)
    return found | {"pages": pages}


def each_page(db: Path) -> dict[str, Any]:
    """Milliseconds of each page of a study that is there: the first time, and once more."""
    found: dict[str, Any] = {}
    with portal(db) as (browser, pid, started):
        found["from the command to home"] = [started * 1000, processor(pid) * 1000]
        (link,) = re.findall(rb"/experiment/[0-9a-f]{32}", browser.get("/study", {"name": "big"}))[
            :1
        ]
        for name, (path, asked) in STUDY_PAGES.items():
            # The server's time of the processor for both: other work makes the wall say little.
            times = []
            for _ in range(2):
                before = processor(pid)
                browser.get(path.replace("{experiment}", link.decode()), asked)
                times.append((processor(pid) - before) * 1000)
            found[name] = {"first": times[0], "again": times[1]}
            print(f"{name}: {times[0]:.0f}, {times[1]:.0f} ms", file=sys.stderr)
        found["memory in the end, MB"], found["memory at most, MB"] = memory(pid)
    return found


def under_tabs(folder: Path, tabs: int, runs: int, rounds: int) -> dict[str, Any]:
    """Seconds of a run alone and under open tabs, in turns; and what those cost the processor."""
    program = tiny(folder)
    ways = ["alone", "a portal, no tabs", f"{tabs} tabs"]
    times: dict[str, list[float]] = {way: [] for way in ways}
    used = []
    for turn in range(rounds):
        for way in ways[turn % 3 :] + ways[: turn % 3]:
            place = folder / f"run-{turn}-{ways.index(way)}"
            (place / ".zenturio").mkdir(parents=True)
            (place / "input.txt").write_text(STUDY.format(count=runs, program=program))
            run(place, "--limit", "1")
            if way == "alone":
                times[way].append(run(place, "-j", "2"))
                continue
            db = place / ".zenturio" / "zenturio.db"
            with portal(db) as (browser, pid, _), opened(browser, 0 if "no" in way else tabs):
                before = processor(pid)
                times[way].append(run(place, "-j", "2"))
                if "no" not in way:
                    used.append((processor(pid) - before) / times[way][-1])
    medians = {way: statistics.median(taken) for way, taken in times.items()}
    quickest = {f"{way}, the quickest": min(taken) for way, taken in times.items()}
    return medians | quickest | {"of one processor, under tabs, %": 100 * statistics.median(used)}


def run(folder: Path, *words: str) -> float:
    """Seconds of a run, from its first claim to its last commit."""
    command = [sys.executable, "-c", "from zenturio.cli import main; main()", "run", "input.txt"]
    done = subprocess.run(
        [*command, *words, "--json"], cwd=folder, check=True, capture_output=True, text=True
    )
    return float(json.loads(done.stdout)["seconds"])


@contextmanager
def opened(browser: Browser, tabs: int) -> Iterator[None]:
    """So many tabs that hear how the study goes on; none of them is hidden."""
    lines = []
    over = threading.Event()
    for _ in range(tabs):
        line = socket.create_connection(("127.0.0.1", browser.port))
        request = f"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {browser.cookie}\r\n\r\n"
        line.sendall(request.encode())
        lines.append(line)

    def read() -> None:
        while not over.wait(1.0):
            for line in lines:
                with suppress(BlockingIOError):
                    line.recv(1 << 16, socket.MSG_DONTWAIT)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()
        for line in lines:
            line.close()


def peers(cache: Path) -> Path:
    """The folder of programs of an environment that has the peers."""
    folder = cache / "portal-peers"
    mark = folder / "peers.txt"
    wanted = "\n".join(PEERS)
    if not mark.exists() or mark.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PEERS]
        subprocess.run(command, check=True, stdout=sys.stderr)
        mark.write_text(wanted)
    return folder / "bin"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def beside(folder: Path, programs: Path, trials: int, rounds: int) -> dict[str, Any]:
    """The same 10,000 trials in each: start, the page, what it waits for, memory."""
    script = Path(__file__).parent / "pages" / "peers.py"
    command = [str(programs / "python"), str(script), str(folder), str(trials)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = {"optuna-dashboard": _optuna(folder, programs, rounds)}
    found["MLflow"] = _mlflow(folder, programs, rounds)
    db = folder / "small.db"
    fill(db, trials).close()
    with portal(db) as (browser, pid, started):
        asked = {"name": "big"}
        times = asked_often(browser, pid, rounds, "/study", asked)
        size = len(browser.get("/study", asked))
        found["zen portal"] = _row(started, times, size, pid)
    return found


def _row(started: float, times: list[float], size: int, pid: int) -> dict[str, float]:
    return {
        "start, s": started,
        "first, ms": times[0],
        "median, ms": times[1],
        "processor, ms": times[2],
        "KB": size / 1000,
        "memory, MB": sum(memory(each)[0] for each in family(pid)),
    }


def _answering(browser: Browser, begun: float) -> float:
    """Seconds until the server answers its first page."""
    while time.perf_counter() - begun < 180:
        with suppress(OSError):
            browser.get("/", None)
            return time.perf_counter() - begun
        browser.connect()
        time.sleep(0.05)
    raise SystemExit("a peer does not answer")


def _optuna(folder: Path, programs: Path, rounds: int) -> dict[str, float]:
    port, begun = free_port(), time.perf_counter()
    words = [str(programs / "optuna-dashboard"), f"sqlite:///{folder}/optuna.db"]
    with process([*words, "--port", str(port), "--host", "127.0.0.1"]) as running:
        browser = Browser(port)
        browser.headers = {"Host": f"127.0.0.1:{port}"}
        with suppress(SystemExit):  # its first page redirects
            _answering(browser, begun)
        started = time.perf_counter() - begun
        browser.connect()
        times = asked_often(browser, running.pid, rounds, "/api/studies/1")
        return _row(started, times, len(browser.get("/api/studies/1")), running.pid)


def _mlflow(folder: Path, programs: Path, rounds: int) -> dict[str, float]:
    port, begun = free_port(), time.perf_counter()
    words = [str(programs / "mlflow"), "server", "--backend-store-uri"]
    words += [f"sqlite:///{folder}/mlflow.db", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    asked = {
        "experiment_ids": ["1"],
        "max_results": 100,
        "order_by": ["attributes.start_time DESC"],
    }
    with process([*words, "--workers", "1"], cwd=folder, env=environment) as running:
        browser = Browser(port)
        started = _answering(browser, begun)
        path = "/api/2.0/mlflow/runs/search"
        times = asked_often(browser, running.pid, rounds, path, None, asked)
        return _row(started, times, len(browser.get(path, None, asked)), running.pid)


def told(found: dict[str, Any]) -> str:
    """Everything, for a person."""
    lines = []
    for part, facts in found.items():
        lines += ["", part]
        for name, value in facts.items():
            if isinstance(value, dict):
                inner = ", ".join(f"{n} {_brief(v)}" for n, v in value.items())
                lines.append(f"  {name}: {inner}")
            else:
                lines.append(f"  {name}: {_brief(value)}")
    return "\n".join(lines[1:])


def _brief(value: Any) -> str:
    if isinstance(value, list):
        names = ("first", "median", "processor") if len(value) == 3 else ("once", "processor")
        return " ".join(f"{name} {each:.1f}" for name, each in zip(names, value, strict=False))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="experiments")
    parser.add_argument("--trials", type=int, default=10_000, help="beside the peers; 0: without")
    parser.add_argument("--tabs", type=int, default=50)
    parser.add_argument("--runs", type=int, default=4000, help="of the tiny program; 0: none")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cache", type=Path, default=Path("build/peers"), help="for the peers")
    parser.add_argument("--database", type=Path, metavar="FILE", help="ask for each page of it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.database:
        found["each page, processor ms"] = each_page(options.database.absolute())
        print(json.dumps(found, indent=2) if options.json else told(found))
        return
    with tempfile.TemporaryDirectory(prefix="zen-portal-") as name:
        folder = Path(name)
        found["a large study, ms"] = million(folder, options.size, options.rounds)
        if options.runs:
            found["a run, s"] = under_tabs(folder, options.tabs, options.runs, 9)
        if options.trials:
            programs = peers(options.cache.absolute())
            found["others"] = beside(folder, programs, options.trials, options.rounds)
    print(json.dumps(found, indent=2) if options.json else told(found))


if __name__ == "__main__":
    main()
