"""What a command passes through: modules of ours, frames, transactions, statements.

    python benchmarks/counts.py [--json] [--list COMMAND] [--deepest COMMAND]

Counted in a process of its own for each command: modules of ours that are loaded, those of which a
function runs, the deepest chain of our own calls, and what is said to SQLite. None of it depends on
the machine. ``--list`` prints the modules of one command, those that only were loaded with a dash.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STUDY = """\
#ZEN$ ASSIGN n = { 1 }
#ZEN$ RUN "echo total {n}"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)"
"""
COMMANDS = {
    "run": "run small.sh",
    "run, new study": "run other.sh",
    "run, cached": "run small.sh",
    "results": "results small",
    "plot": "plot small --x n --y total -o chart.html",
    "schedule": "schedule wien2k:kpoints=4 --on identical:4",
    "portal page": "PAGE /study?name=small",
}

PROBE = r"""
import contextlib, importlib, json, os, pathlib, sys, threading, time
import zenturio
TOP = os.path.dirname(zenturio.__file__) + os.sep
executed, depths, deepest, chain = set(), {}, 0, []
IS_FUNCTION = 0x1  # CO_OPTIMIZED: neither a module nor the body of a class


def profile(frame, event, _argument):
    global deepest, chain
    code = frame.f_code
    if event not in ("call", "return") or not code.co_filename.startswith(TOP):
        return
    if not code.co_flags & IS_FUNCTION:
        return
    thread = threading.get_ident()
    if event == "return":
        depths[thread] = depths.get(thread, 1) - 1
        return
    if not code.co_name.endswith(("comp>", "genexpr>")):  # these also fill a module's constants
        executed.add(code.co_filename)
    depths[thread] = depths.get(thread, 0) + 1
    if depths[thread] > deepest:
        deepest, chain = depths[thread], calls(frame)


def calls(frame):
    found = []
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(TOP) and frame.f_code.co_flags & IS_FUNCTION:
            found.append(f"{name[len(TOP):]}:{frame.f_lineno} {frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


statements = []


def watch(module):
    connect = module.connect

    def watched(*words, **options):
        connection = connect(*words, **options)
        connection.set_trace_callback(statements.append)
        return connection

    module.connect = watched


def count():
    ours = sorted(name for name in sys.modules if name.split(".")[0] == "zenturio")
    run = {sys.modules[n].__file__: n for n in ours if getattr(sys.modules[n], "__file__", None)}
    begun = [s for s in statements if s.lstrip().upper().startswith("BEGIN")]
    ended = ("BEGIN", "COMMIT", "ROLLBACK")
    said = [s for s in statements if not s.lstrip().upper().startswith(ended)]
    print("\n" + json.dumps({
        "loaded": ours,
        "executed": sorted(run[file] for file in executed if file in run),
        "frames": deepest,
        "chain": chain,
        "transactions": len(begun),
        "statements": len(said),
    }))


def show_page(path):
    from http.cookiejar import CookieJar
    from urllib.request import HTTPCookieProcessor, build_opener
    from zenturio.show.portal.server import PortalServer
    from zenturio.show.portal.state import PortalSettings
    folder = pathlib.Path.cwd()
    server = PortalServer(PortalSettings(db=str(folder / ".zenturio/zenturio.db"), folder=folder))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.is_started:
        time.sleep(0.01)
    opener = build_opener(HTTPCookieProcessor(CookieJar()))
    opener.open(server.link()).read()
    address = server.listen_address.url.rstrip("/") + path
    opener.open(address).read()  # what the first page of a portal loads is not counted
    executed.clear(), statements.clear(), depths.clear()
    globals()["deepest"] = 0
    opener.open(address).read()


for name in ("sqlite3", "pysqlite3.dbapi2"):
    with contextlib.suppress(ImportError):
        watch(importlib.import_module(name))
threading.setprofile(profile)
sys.setprofile(profile)
try:
    if sys.argv[1] == "PAGE":
        show_page(sys.argv[2])
    else:
        from zenturio.cli import main
        main()
except SystemExit as error:
    if error.code:
        raise
finally:
    sys.setprofile(None)
    count()
    sys.stdout.flush()
os._exit(0)
"""


def count(words: str, folder: Path) -> dict[str, Any]:
    """Run *words* in *folder*; return what was counted."""
    environment = {**os.environ, "ZENTURIO_TRUST": "1", "XDG_CONFIG_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words.split()],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"zen {words} failed: {done.stderr}")
    *_, last = done.stdout.splitlines()
    counts: dict[str, Any] = json.loads(last)
    return counts


def write_studies(folder: Path) -> None:
    """Write what the commands run: two studies of one experiment each."""
    (folder / "small.sh").write_text(STUDY)
    (folder / "other.sh").write_text(STUDY.replace("{ 1 }", "{ 2 }"))
    (folder / ".zenturio").mkdir()


def count_all() -> dict[str, dict[str, Any]]:
    """Return the counts of all commands, in their order and in one project."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_studies(folder)
        return {command: count(words, folder) for command, words in COMMANDS.items()}


def main() -> None:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", choices=COMMANDS, help="print the modules of a command")
    parser.add_argument("--deepest", choices=COMMANDS, help="print its deepest chain of calls")
    arguments = parser.parse_args()
    counts = count_all()
    if arguments.list:
        executed = set(counts[arguments.list]["executed"])
        for module in counts[arguments.list]["loaded"]:
            print(" " if module in executed else "-", module)
        return
    if arguments.deepest:
        print("\n".join(counts[arguments.deepest]["chain"]))
        return
    numbers = {
        command: {
            name: len(n) if isinstance(n, list) else n
            for name, n in found.items()
            if name != "chain"
        }
        for command, found in counts.items()
    }
    if arguments.json:
        print(json.dumps(numbers, indent=2))
        return
    columns = ("loaded", "executed", "frames", "transactions", "statements")
    print(f"{'':16}" + "".join(f"{name:>14}" for name in columns))
    for command, found in numbers.items():
        print(f"{command:16}" + "".join(f"{found[name]:14}" for name in columns))


if __name__ == "__main__":
    main()
