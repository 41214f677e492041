"""docs/json.md has the keys of what --json prints; ZEN_UPDATE_GOLDENS=1 writes it anew."""

import json
import os
from pathlib import Path

import pytest

import loaded

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
HEAD = """# Results as JSON

With `--json` a command prints one JSON value to standard output and nothing else; progress and warnings go to standard error, and
the [exit code](reference.md#exit-codes) is the same as without it. A value that is absent is `null`; `[]` behind a key stands for a list, and on a line
of its own for each element of the list that the command prints. Keys may be added in later versions. Times are in seconds, points of time in ISO 8601.

These are the commands that scripts use most; `zen COMMAND --help` says of the others whether they have `--json`.
"""
STUDY = {
    "study": "name of the study",
    "planned": "experiments of the last run",
    "experiments": "experiments that are recorded",
    "running": "experiments that run now",
    "ok": "experiments that succeeded",
    "warmup": "warm-up runs, which do not count",
    "failed": "experiments that failed",
    "wrong": "experiments whose result a VERIFY refuses",
    "timeout": "experiments that reached a TIMEOUT",
    "cancelled": "experiments that were cancelled",
    "results": "results, those of all rounds and machines counted",
    "machines": "results of each kind of machine",
    "rounds[]": "rounds: `number`, `began`, `person`, `reason`, `open`, `seed`, `results`",
    "created": "when the study was recorded first",
    "place": "where it ran last",
    "stages": "experiments at the place by how far they are, where they outlive the driver",
    "drained": "machines of the place that get no more experiments, with the reason",
    "drivers[]": "processes that run the study now",
}
FAILURES = "failures by cause: `cause`, `count`, and one of them: `digest`, `values`, `end` of its output, `reasons`"
KEYS = {
    "run": {
        "study": "name of the study",
        "total": "experiments in this run",
        "known": "experiments that had a result already (cached)",
        "ok": "experiments that succeeded",
        "failed": "experiments that failed",
        "wrong": "those of the failed whose result a VERIFY refuses",
        "unfinished": "experiments that did not finish",
        "seconds": "duration of the run",
        "interrupted": "whether somebody stopped it",
        "failures[]": FAILURES,
        "best": "best point: `goal`, `value`, `at`, `repeat`; null without an objective",
        "ended": "why a search ended: exhausted, budget, time, target or stall",
        "alone": "experiments that needed more CPUs than there are and ran alone",
        "blocked": "experiments that waited for a stage that failed",
        "remarks[]": "warnings about the results",
        "before[]": "the same for each stage that it waited for",
        "notes[]": "what was said of cached results at the start",
        "round": "round in which points were measured again",
        "stops": "points that needed no more repeats, by reason",
    },
    "list": {f"[].{key}": meaning for key, meaning in STUDY.items()},
    "status": {
        **STUDY,
        "outside": "experiments whose points are no longer in the space",
        "running_experiments": "digests of running experiments, and where they run",
        "failures[]": FAILURES,
    },
    "space": {
        "study": "name of the study",
        "parameters[]": "parameters: `name`, `kind`, `type`, `unit`, `size`, `values`, `range`, `when`",
        "derived[]": "parameters that are computed",
        "cartesian": "points without constraints",
        "size": "points; null if they cannot be counted",
        "unknown": "why they cannot be counted",
        "repeat": "runs of each point",
        "until": "precision that ends repeats",
        "warmup": "warm-up runs of each point",
        "constraints[]": "constraints: `text`, `kind`, `removes`",
        "metrics[]": "metrics: `name`, `unit`, `source`, `formula`, `optional`, `exact`",
        "objectives[]": "objectives",
        "samples[]": "some points",
    },
    "check": {
        "ok": "whether the study can run",
        "diagnostics[]": "`severity`, `message`, `hint`, `file`, `line`, `column`",
        "left_out[]": "files that are not part of the program",
        "undeclared": "programs that commands start and no USE declares, with their paths",
    },
    "results": {
        "columns[]": "names of the columns",
        "rows[]": "rows, each a list with a value for each column",
        "units": "unit of each column that has one",
        "found": "rows that meet the condition",
        "experiments": "experiments that the rows are made from",
        "is_estimate": "whether `found` is an estimate",
        "total": "experiments of the study",
        "notes[]": "remarks, such as how many values are missing",
    },
    "sql": {"columns[]": "names of the columns", "rows[]": "rows, each a list of values"},
    "best": {
        "[].parameters": "the point",
        "[].scores": "value of each objective",
        "[].used": "repeats that have a value of the objective",
        "[].ok": "repeats that succeeded",
        "[].tried": "repeats that finished",
        "[].interval": "interval of the score; null without repeats",
        "[].as_good": "whether it may be as good as the best; null without repeats",
        "[].left_out": "points that are no longer in the space and were left out",
        "[].machine": "kind of machine",
        "[].round": "round, if one was chosen",
    },
    "fit": {
        "[].by": "values of the parameters of --by, for which this formula holds",
        "[].kind": "form of the formula",
        "[].y": "what is explained",
        "[].x[]": "what explains it",
        "[].formula": "the formula",
        "[].r2": "share of the variance that it explains",
        "[].error": "root of the mean square of what remains",
        "[].rows": "experiments used",
        "[].points": "points used",
        "[].coefficients[]": "coefficients: `value` and 95% `interval`",
    },
    "show": {
        "digest": "digest of the experiment",
        "study": "name of the study",
        "index": "number of the point",
        "repeat": "number of the repeat, from 0",
        "round": "round of the result",
        "state": "status",
        "cause": "why it failed",
        "equality": "who accepted the result of another version (`zen equate`)",
        "redactions[]": "what `zen redact` removed",
        "parameters": "the point",
        "metrics": 'metrics; `{"missing": reason}` where there is none',
        "units": "unit of each metric that has one",
        "attempts[]": "attempts: `number`, `round`, `machine`, `state`, `cause`, `host`, `started`, `ended`, `exit`",
        "artifacts[]": "files that were kept",
        "folder": "folder of the experiment, if it was kept",
        "commands[]": "commands",
        "provenance": "versions, host and environment at the time",
    },
    "logs": {
        "stdout": "`head`, `tail` and number of `bytes` of standard output",
        "stderr": "the same of standard error",
    },
}  # fmt: skip


def page() -> str:
    parts = [HEAD]
    for command, keys in KEYS.items():
        rows = [f"| `{key}` | {meaning} |" for key, meaning in keys.items()]
        table = "\n".join(["| key | meaning |", "|---|---|", *rows])
        parts.append(f"## zen {command}\n\n{table}\n")
    return "\n".join(parts)


def keys_of(value, prefix="") -> set[str]:
    if isinstance(value, list):
        return {key for element in value for key in keys_of(element, "[].")}
    return {prefix + key + "[]" * isinstance(part, list) for key, part in value.items()}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each command prints of a small study."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "s.sh").write_text(
        "# ZEN$ PARAM n = { 1:8 }\n"
        '# ZEN$ RUN "echo $(({n} * {n}))"\n'
        '# ZEN$ METRIC square FROM stdout REGEX "(\\d+)"\n'
        "# ZEN$ OBJECTIVE MINIMIZE square\n"
    )

    def output(*words):
        done = loaded.zen(*words, "--json", cwd=folder)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = {"run": output("run", "s.sh")}
    (digest,) = output("results", "s", "--columns", "digest", "--limit", "1")["rows"][0]
    commands = {
        "list": [], "status": ["s"], "space": ["s.sh"], "check": ["s.sh"],
        "results": ["s"], "sql": ["SELECT 1 AS a"], "best": ["s"],
        "fit": ["s", "--y", "square", "--x", "n"], "show": [digest], "logs": [digest],
    }  # fmt: skip
    return first | {command: output(command, *words) for command, words in commands.items()}


@pytest.mark.parametrize("command", KEYS)
def test_the_keys_on_the_page_are_those_that_a_command_prints(command, printed):
    assert keys_of(printed[command]) == set(KEYS[command])


def test_the_page_has_the_keys():
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
