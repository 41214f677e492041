"""docs/json.md has the keys of what --json prints; ZEN_UPDATE_GOLDENS=1 writes it anew."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import typer

import loaded
from postgres import postgres, postgres_url
from zenturio.cli.main import app

__all__ = ["postgres", "postgres_url"]

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
HEAD = """# Results as JSON

With `--json` a command prints one JSON value to standard output and nothing else; progress and warnings go to standard error, and
the [exit code](reference.md#exit-codes) is the same as without it. A value that is absent is `null`; `[]` behind a key stands for a list, and on a line
of its own for each element of the list that the command prints. Keys may be added in later versions. Times are in seconds, points of time in ISO 8601.

`init`, `portal` and `serve` print no facts and have no `--json`. Of a key that holds an object or a list of objects, the meaning names the keys of these.
"""
STUDY = {
    "study": "name of the study",
    "planned": "experiments of the last run",
    "missing": "those of them that have no outcome and do not run",
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
RUN = {
    "study": "name of the study",
    "total": "experiments in this run",
    "known": "experiments that had a result already (cached)",
    "ok": "experiments that succeeded",
    "failed": "experiments that failed",
    "wrong": "those of the failed whose result a VERIFY refuses",
    "unfinished": "experiments that did not finish",
    "skipped": "those of them that --only does not run",
    "seconds": "duration of the run",
    "interrupted": "whether somebody stopped it",
    "failures[]": FAILURES,
    "best": "best point: `goal`, `value`, `at`, `repeat`, `confirmed`, `is_known`; null without an objective",
    "expected": "point of a search without repeats that a model expects to be the best, or that was"
    " `confirmed` by so many measurements: `goal`, expected `value`, `measured`, `at`, `scatter`,"
    " `is_share`; null otherwise",
    "ended": "why a search ended: exhausted, budget, time, target or stall",
    "alone": "experiments that needed more CPUs than there are and ran alone",
    "blocked": "experiments that waited for a stage that failed",
    "remarks[]": "warnings about the results",
    "before[]": "the same for each stage that it waited for",
    "notes[]": "what was said of cached results at the start",
    "round": "round in which points were measured again",
    "stops": "points that needed no more repeats, by reason",
}
RUN_PLAN = {
    "study": "name of the study",
    "points": "points, or with --search the points that it may try",
    "repeats": "repeats of each point",
    "experiments": "experiments in this run",
    "known": "experiments with a result, among those that were looked at",
    "looked_at": "experiments that were looked at",
    "slots": "experiments that run at a time",
    "archived": "version that the earlier results become, if the program has changed",
    "engine": "engine of a search",
    "before[]": "the same for each stage that it waits for",
    "remarks[]": "remarks about cached results",
    "kinds": "kinds of machine, each of which runs all experiments",
    "least": "repeats that each point has in any case, with UNTIL",
    "until": "precision that ends repeats",
    "warmup": "warm-up runs of each point",
    "is_as_needed": "whether the search of a later stage chooses the experiments",
}
SUBMISSION = {
    "number": "number in the queue",
    "user": "who submitted it",
    "verified": "whether the service has checked who that is",
    "study": "name of the study",
    "turn": "`waiting`, `running`, `finished`, `failed` or `cancelled`",
    "cause": "why it failed",
    "submitted": "when it was submitted",
    "begun": "when it began",
    "ended": "when it ended",
    "request": "what `zen run` would be given: paths and options",
}
TABLE = {
    "columns[]": "names of the columns",
    "rows[]": "rows, each a list with a value for each column",
    "units": "unit of each column that has one",
    "found": "rows that meet the condition",
    "experiments": "experiments that the rows are made from; null if it does not apply",
    "is_estimate": "whether `found` is an estimate",
    "total": "experiments of the study",
    "notes[]": "remarks, such as how many values are missing",
}
SETTINGS = (
    "settings: `name`, `type`, `default`, `help`, bounds `low` and `high`, `choices`, `optional`,"
    " and how files and secrets are read: `executes`, `read`, `is_secret`"
)
PLACE = {
    "name": "name of the place",
    "kind": "what it is",
    "from": "file and line that set it, or `built in`",
    "about": "what it does",
}
PLAN = {
    "algorithm": "algorithm that made the plan",
    "workflow": "name of the workflow",
    "platform": "name of the machines",
    "makespan": "makespan",
    "metrics": "metrics of the plan, by [name](workflows.md); null where one is not defined",
    "notes": "what the algorithm says of its plan",
    "tasks[]": "tasks: `id`, `machine`, `core` of a machine with several, `start`, `end`",
}
TRACE = {
    **PLAN,
    "makespan": "makespan; null if tasks are left",
    "planned": "makespan of the plan that was followed",
    "runs": "runs of tasks by how they ended",
    "wasted": "processor time of runs that were lost",
    "left[]": "tasks that did not finish",
    "skipped[]": "tasks that a condition skipped",
    "events[]": "events: `time`, `kind`, and where they apply `task`, `machine`, `share`",
}
WRITTEN = {
    "out": "file that was written",
    "tasks": "tasks of the workflow",
    "edges": "edges of the workflow",
    "lost[]": "what the format cannot hold",
}
HOST = {
    "[].host": "name of the host",
    "[].up": "whether it can be reached and used",
    "[].why": "why not",
    "[].name": "name of the host, for REQUIRE and RANK",
    "[].address": "address",
    "[].node": "what the host calls itself",
    "[].arch": "architecture",
    "[].os": "operating system",
    "[].kernel": "kernel",
    "[].cpu": "model of the processor",
    "[].mhz": "clock frequency",
    "[].cores": "cores",
    "[].memory": "bytes of memory",
    "[].free_memory": "bytes that are free",
    "[].disk": "bytes that are free on the disk of its folder",
    "[].python": "version of Python",
    "[].speed": "millions of steps of the benchmark in a second",
    "[].load": "load",
    "[].cost": "cost, if the file has one",
    "[].tags": "tags, with commas between them",
    "[].slots": "slots",
    "[].free": "slots that are free",
}
RECOMMENDED = (
    "best setting: `settings`, `precision` with `low` and `high`, `visited`, `needed`, `repeats`"
)
KEYS = {
    "run": RUN,
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
    "results": TABLE,
    "sql": {"columns[]": "names of the columns", "rows[]": "rows, each a list of values"},
    "best": {
        "[].parameters": "the point",
        "[].scores": "value of each objective",
        "[].aggregates": "what each score is of the repeats: `median`, `mean`",
        "[].std": "standard deviation of repeats for each objective scored by their mean",
        "[].used": "repeats that have a value of the objective",
        "[].ok": "repeats that succeeded",
        "[].tried": "repeats that finished",
        "[].interval": "95% interval of the score; null for too few repeats, several objectives and"
        " other aggregates",
        "[].as_good": "whether it may be as good as the best; null if that is not known",
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
        "[].mixed[]": "other parameters in which rows of a point differ: then there are no intervals",
    },
    "show": {
        "digest": "digest of the experiment",
        "study": "name of the study",
        "index": "number of the point",
        "repeat": "number of the repeat, from 1; 0 is the warm-up",
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
    "run --dry-run": {
        **RUN_PLAN,
        "script": "script of one job of the place, if it starts jobs",
    },
    "attach": RUN,
    "submit": SUBMISSION,
    "queue": {f"[].{key}": meaning for key, meaning in SUBMISSION.items()},
    "cancel STUDY": {
        "study": "name of the study",
        "stopped[]": "drivers that were stopped: `host`, `pid`",
        "told[]": "drivers on other machines, which stop at their next heartbeat: `host`, `pid`",
        "jobs": "queued jobs of dead drivers that were cancelled",
    },
    "cancel DIGEST": {
        "digest": "digest of the experiment",
        "study": "name of the study",
        "state": "what it is now: `cancelled`, or the status with which it had finished",
    },
    "cancel NUMBER": {
        "[].number": "number of the submission",
        "[].study": "name of the study",
        "[].turn": "`cancelled`, or how it had ended",
    },
    "expand": {
        "out": "folder in which the experiments are",
        "experiments": "experiments that were written",
        "manifest": "file with a JSON object for each of them",
    },
    "extract": {
        "study": "name of the study",
        "experiments": "experiments that were measured again",
        "metrics[]": "metrics that are new or have changed",
        "gone[]": "metrics that are no longer declared",
        "missing": "values that the kept output does not have, or that are not numbers where the"
        " objective needs them",
        "failed": "experiments that fail now because a metric is missing",
        "mended": "failed experiments that are ok now",
        "changes[]": "what else has changed in the program",
        "reasons[]": "metrics that are missing in some experiments: `metric`, `count` of these, and"
        " `why`, the most frequent reason",
        "remarks[]": "what is likely not meant, such as a pattern that captures a part of a number",
    },
    "diff": {
        "digests[]": "the two experiments",
        "parameters": "values of each parameter that differs, of the one and of the other",
        "metrics": "values of each metric that differs, of the one and of the other",
        "files": "lines that differ, by file",
        "note": "what keeps the files from being compared",
    },
    "equate": {
        "study": "name of the study",
        "version": "version whose results were accepted",
        "accepted": "results that were accepted",
        "cached": "experiments that had a result of their own",
        "outside": "results of points that are no longer in the space",
        "person": "who accepted them",
        "changes[]": "differences of the two programs",
        "archived": "version that was left by this command; null if none was",
    },
    "equate --undo": {
        "version": "version whose results are no longer accepted",
        "removed": "results that were removed",
    },
    "compare": {
        "verdict": "verdict over all points, such as `faster`, `slower`, `equal` or `unclear (...)`",
        "ratio": "geometric mean of the ratios, second by first",
        "low": "lower end of its 95% interval",
        "high": "upper end of its 95% interval",
        "blocks": "blocks in which both ran",
        "counts": "points by verdict",
        "conditions[]": "conditions of the runs that differ between the two",
        **TABLE,
    },
    "gate": {
        "study": "study that has the measurements",
        "baseline": "version that is compared with",
        "version": "version that is judged",
        "metric": "what is compared",
        "unit": "its unit",
        "worse": "share by which it may be worse",
        "verdict": "`worse`, `no worse` or `unclear`",
        "points[]": "points: `point`, `baseline`, `version`, `ratio` with `low` and `high`, `blocks`, `failures`, `verdict`",
    },
    "history": TABLE,
    "noise": TABLE,
    "bisect": {
        "state": "`found`; `open` if several commits remain; or why nothing was found",
        "commits[]": "the commit that changed the metric, or those that may have",
        "ratio": "metric of the bad commit by that of the good one",
        "runs": "experiments that were run",
        "skipped[]": "commits that do not build or run",
    },
    "explain": {
        "study": "name of the study",
        "objectives[]": "objectives",
        "points": "points with results",
        "usable": "points with a number of the objective",
        "explained": "share of the variance that the model explains",
        "parameters[]": "parameters: `parameter`, `first`, `first_interval`, `total`, `total_interval`, `matters`",
        "pairs[]": "pairs that matter together: `parameters`, `share`, `interval`",
        "best[]": "best points: `parameters`, `scores`, `interval`, `as_good`",
        "as_good": "points that may be as good as the best; null without repeats",
        "next": "a point to try next; null if nothing is left",
        "engine": "engine that proposes it",
        "notes[]": "remarks",
        "file": "the chart, with -o",
    },
    "sensitivity": {
        "metric": "what is explained",
        "unit": "its unit",
        "design": "design of the points",
        "seed": "its seed",
        "used": "runs of the design that have results",
        "factors[]": "parameters: `factor`, and `first`, `total`, `matters`, or for Morris `size`, `mean`, `spread`; with intervals",
        "shapley[]": "Shapley effects of parameters that depend on each other: `parameter`, `share`, `interval`, `matters`",
        "points": "points from which the Shapley effects were computed",
        "notes[]": "remarks",
        "file": "the chart, with -o",
    },
    "scaling": {
        "study": "name of the study",
        "over": "what counts the workers",
        "metric": "the time or the rate",
        "unit": "its unit",
        "mode": "`strong` or `weak`",
        "is_rate": "whether more of the metric is better",
        "curves[]": "curves: `key`, `points` (`workers`, `rows`, `value`, `speedup`, `efficiency`, `serial`, intervals) and `models` (`name`, `coefficients`, `limit`, `best_at`, ...)",
        "notes[]": "remarks",
    },
    "plot": {
        "file": "file of the chart",
        "kind": "kind of chart",
        "rows": "experiments or groups that are drawn",
    },
    "report": {
        "file": "file of the report",
        "title": "its title",
        "charts": "charts in it",
        "errors[]": "why a chart cannot be drawn",
    },
    "engines": {
        "[].name": "name of the engine",
        "[].about": "what it does and what it is for",
        "[].settings[]": SETTINGS,
        "[].multi_objective": "whether it takes several objectives",
    },
    "tune": {
        "study": "study of the searches",
        "file": "file that describes the tuning",
        "settings": "settings that were tried",
        "of": "settings that there are",
        "searches": "searches in all",
        "known": "searches that had a result already",
        "ok": "searches that succeeded in this run",
        "failed": "searches that failed",
        "seconds": "duration",
        "archived": "name of an earlier tuning of other settings, if there was one",
        "optimum": "score that counts as found",
        "recommended": RECOMMENDED,
        "cheapest": "the same of the cheapest setting that is as good",
        "alike[]": "the same of settings that are as good",
        "importance[]": "settings that matter: `setting`, `share`, `total`, `chance`, `matters`",
    },
    "import": {
        "study": "study that was made",
        "source": "name of Optuna's study",
        "imported": "trials that were imported",
        "cached": "trials that had been imported before",
        "unfinished": "trials that have not finished and were left out",
    },
    "places": {f"[].{key}": meaning for key, meaning in PLACE.items()},
    "places show": {
        **PLACE,
        "jobs": "experiments at a time; null if the place decides",
        "settings[]": "settings: `name`, `type`, `value`, `configured`, `help`",
    },
    "places show --script": {
        "script": "script of a job",
        "submitted": "false: nothing was submitted",
    },
    "places check": {
        "name": "name of the place",
        "kind": "what it is",
        "ok": "whether experiments can run there",
        "findings[]": "what was tried: `good`, `text`, `hint`",
    },
    "hosts": HOST,
    "hosts --events": {
        "[].time": "seconds since 1970",
        "[].kind": "what happened",
        "[].digest": "experiment or task",
        "[].host": "host",
        "[].why": "reason",
        "[].iteration": "iteration of a task in a loop",
    },
    "hosts --gantt": {
        "file": "file of the chart",
        "events": "events that it shows",
    },
    "algorithms": {
        "[].name": "name of the algorithm",
        "[].kind": "`static`, `just-in-time`, `moldable`, `online`, `dynamic`, `exact` or `cluster`",
        "[].about": "what it does",
        "[].more": "how, with the source",
        "[].settings[]": SETTINGS,
    },
    "schedule": PLAN,
    "simulate": TRACE,
    "simulate --runs": {
        "runs": "runs with different seeds",
        "ended": "runs that finished",
        "mean": "mean makespan",
        "least": "least makespan",
        "q1": "lower quartile",
        "median": "median",
        "q3": "upper quartile",
        "most": "greatest makespan",
        "makespans[]": "makespan of each run; null if it did not finish",
    },
    "warm": {
        "[].name": "what was compiled",
        "[].seconds": "time that it took",
        "[].skipped": "why it was left out",
    },
    "workflow show": {
        "name": "name of the workflow",
        "tasks": "tasks",
        "transfers": "tasks that transfer files",
        "edges": "edges",
        "looped": "whether it has a loop",
        "levels": "levels of the graph",
        "width": "most tasks of a level",
        "critical": "work of the longest path, on a machine of speed 1",
        "work": "work of all tasks, on a machine of speed 1",
        "data": "bytes that are transferred",
        "moldable": "tasks that can use several processors",
        "programs[]": "programs: `name`, `tasks`, `work`",
        "parallelism": "work by critical path",
        "notes": "what the file says besides",
        "platform": "machines: `name`, `machines`, `cores`, `sites`, `speeds`; null if the file has none",
    },
    "workflow generate": WRITTEN,
    "workflow convert": WRITTEN,
    "workflow annotate": {
        "folder": "folder of the study",
        "tasks": "tasks of the workflow",
    },
    "workflow generators": {
        "[].name": "name of the generator",
        "[].about": "what it makes",
        "[].settings[]": SETTINGS,
    },
    "workflow run": {
        **TRACE,
        "predictions[]": "tasks: `task`, `predicted` and `took`, in seconds",
        "study": "study that has recorded the times",
    },
    "prune": {
        "removed": "whether it was done; false without --yes",
        "studies[]": "studies: `study`, `experiments`, `shared`, `attempts`, `log_bytes`, `artifacts`, `foreign`",
        "folders[]": "folders that runs left: `path`, `files`, `bytes`",
        "garbage": "files that no experiment refers to: `files`, `bytes`",
    },
    "redact": {
        "redacted": "whether it was done; false without --yes",
        "backups_removed": "whether backups of the database were removed",
        "rows": "rows in which the secret stands, by table",
        "numbers": "results that are a number and equal to it; they stay",
        "artifacts[]": "kept files that hold it",
        "files[]": "other files in `.zenturio` that hold it",
        "backups[]": "backups of the database, which may hold it",
        "schemas[]": "schemas of views that were renewed",
        "remaining[]": "files that still hold it",
    },
    "bugreport": {
        "file": "the zip file",
        "bytes": "its size",
        "parts": "files in it, with their sizes",
    },
    "db check": {
        "ok": "whether no damage was found",
        "diagnostics[]": "damage",
        "identities": "with --identity: digests that are right",
        "unknown_identities": "with --identity: digests that cannot be checked",
    },
    "db backup": {
        "copy": "file of the copy",
        "bytes": "its size",
        "removed[]": "older copies that were removed",
    },
    "db restore": {"restored": "database that was made"},
    "db copy": {
        "rows": "rows of each table",
        "digest": "digest over all rows, the same in both databases",
    },
    "db salvage": {
        "target": "the new database",
        "rows": "rows that were saved, by table",
        "pages": "pages that are destroyed",
        "unreadable": "rows of other pages that cannot be read",
        "waiting": "experiments that have to run again",
    },
    "db upgrade": {
        "before": "version of the schema before",
        "after": "version of the schema now",
        "copy": "copy of the database before; null if nothing was to do",
    },
    "db views": {
        "[].study": "name of the study",
        "[].name": "name of its view in SQL",
        "[].is_stored": "whether the view stands in the database",
        "[].is_pinned": "whether it always does",
        "[].opened": "when the study was opened last",
    },
    "db grant": {
        "role": "role that was created or changed",
        "done": "whether it was done; false with --sql, or without the right to",
        "statements[]": "SQL statements",
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


SCRIPT = (
    "# ZEN$ PARAM n = { 1:8 }\n"
    '# ZEN$ RUN "echo $(({n} * {n}))"\n'
    '# ZEN$ METRIC square FROM stdout REGEX "(\\d+)"\n'
    "# ZEN$ OBJECTIVE MINIMIZE square\n"
)


def printer(folder):
    """Return a function that runs a command with --json, and returns what it printed."""

    def output(*words, code=0):
        done = loaded.zen(*words, "--json", cwd=folder)
        assert done.returncode == code, (words, done.stderr)
        return json.loads(done.stdout)

    return output


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the commands print that scripts use most, of a small study."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "s.sh").write_text(SCRIPT)
    output = printer(folder)
    first = {"run": output("run", "s.sh")}
    (digest,) = output("results", "s", "--columns", "digest", "--limit", "1")["rows"][0]
    commands = {
        "list": [], "status": ["s"], "space": ["s.sh"], "check": ["s.sh"],
        "results": ["s"], "sql": ["SELECT 1 AS a"], "best": ["s"],
        "fit": ["s", "--y", "square", "--x", "n"], "show": [digest], "logs": [digest],
    }  # fmt: skip
    return first | {command: output(command, *words) for command, words in commands.items()}


FREQUENT = (
    "run", "list", "status", "space", "check", "results", "sql", "best", "fit", "show", "logs",
)  # fmt: skip


@pytest.mark.parametrize("command", FREQUENT)
def test_the_keys_on_the_page_are_those_that_a_command_prints(command, printed):
    assert keys_of(printed[command]) == set(KEYS[command])


MODEL = (
    "# ZEN$ PARAM a = { UNIFORM(0, 1) }\n# ZEN$ PARAM b = { UNIFORM(0, 1) }\n"
    '# ZEN$ RUN "echo {a}"\n# ZEN$ METRIC e FROM stdout REGEX "(\\S+)"\n'
)
HOSTS = '[hosts.one]\nvia = "sh"\nslots = 1\nspeed = 1.0\ncost = 1.0\ntags = ["a"]\nfolder = "FOLDER/one"\n'
COMPARED = ("--metric", "square", "--budget", "1min")


def printed_by_others(folder, postgres_url):
    """Return what each of the other commands prints."""
    output = printer(folder)
    (folder / "s.sh").write_text(SCRIPT)
    (folder / "m.sh").write_text(MODEL)
    (folder / "hosts.toml").write_text(HOSTS.replace("FOLDER", str(folder)))
    (folder / "leak.txt").write_text("secret123\n")
    (folder / "report.md").write_text("# Squares\n")
    (folder / "zenturio.toml").write_text('[places.cluster]\nkind = "slurm"\n')
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "s.sh"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    output("run", "s.sh")
    digests = [row[0] for row in output("results", "s", "--columns", "digest")["rows"][:2]]
    (folder / "s.sh").write_text(SCRIPT.replace("{n} * {n}", "{n} * {n} + 5"))
    subprocess.run([*git, "commit", "-qam", "two"], cwd=folder, check=True)
    output("run", "s.sh", "--on", "hosts")
    output("run", "m.sh", "--design", "morris:8")
    output("workflow", "generate", "wien2k", "kpoints=2", "atoms=1", "-o", "w.json")
    done = {
        "run --dry-run": output("run", "s.sh", "--dry-run"),
        "attach": output("attach", "s"),
        "submit": output("submit", "s.sh"),
        "queue": output("queue"),
        "cancel STUDY": output("cancel", "m"),
        "cancel DIGEST": output("cancel", digests[0]),
        "cancel NUMBER": output("cancel", "1"),
        "expand": output("expand", "s.sh", "-o", "look", "--limit", "2"),
        "extract": output("extract", "s"),
        "diff": output("diff", *digests),
        "equate": output("equate", "s@1"),
        "equate --undo": output("equate", "s@1", "--undo"),
        "compare": output("compare", "s@1", "s", "--metric", "square"),
        "gate": output("gate", "s", "--baseline", "s@1", *COMPARED, "--limit", "1", code=7),
        "history": output("history", "s", "--metric", "square", "--limit", "1"),
        "noise": output("noise", "s.sh", "--metric", "square", "--limit", "1"),
        "bisect": output("bisect", "s", "--good", "HEAD~1", "--bad", "HEAD", *COMPARED),
        "explain": output("explain", "m", "--objective", "MINIMIZE e", "-o", "s.svg"),
        "sensitivity": output("sensitivity", "m", "--metric", "e", "-o", "m.svg"),
        "scaling": output("scaling", "s", "--over", "n", "--metric", "square"),
        "plot": output("plot", "s", "-o", "p.svg"),
        "report": output("report", "report.md", "-o", "r.html"),
        "engines": output("engines", "ga"),
        "tune": output("tune", "s.sh", "--engine", "ga", "--settings", "population=4:8:4",
                   "--budget", "20", "--repeats", "3"),
        "import": output("import", "optuna", _optuna_study(folder)),
        "places": output("places"),
        "places show": output("places", "show", "local"),
        "places show --script": output("places", "show", "cluster", "--script"),
        "places check": output("places", "check", "local"),
        "hosts": output("hosts"),
        "hosts --events": output("hosts", "--events"),
        "hosts --gantt": output("hosts", "--gantt", "jobs.svg"),
        "algorithms": output("algorithms", "heft"),
        "schedule": output("schedule", "w.json", "--on", "identical:2"),
        "simulate": output("simulate", "w.json", "--on", "identical:2", "--algorithm", "heft"),
        "simulate --runs": output("simulate", "w.json", "--on", "identical:2", "--algorithm", "heft", "--runs", "2"),
        "warm": output("warm"),
        "workflow show": output("workflow", "show", "w.json"),
        "workflow generate": output("workflow", "generate", "wien2k", "-o", "v.json"),
        "workflow convert": output("workflow", "convert", "w.json", "w.dot"),
        "workflow annotate": output("workflow", "annotate", "w.json", "-o", "flow"),
        "workflow generators": output("workflow", "generators", "wien2k"),
        "workflow run": output("workflow", "run", "w.json", "--command", "true", "--on", "local"),
        "prune": output("prune", "m"),
        "redact": output("redact", "--from-file", "leak.txt"),
        "bugreport": output("bugreport"),
        "db check": output("db", "check", "--identity"),
        "db backup": (backup := output("db", "backup")),
        "db restore": output("db", "restore", backup["copy"], "--db", "restored.db"),
        "db copy": output("db", "copy", ".zenturio/zenturio.db", "copy.db"),
        "db salvage": output("db", "salvage", ".zenturio/zenturio.db", "saved.db"),
        "db upgrade": output("db", "upgrade"),
        "db views": output("db", "views"),
    }  # fmt: skip
    output("run", "s.sh", "--db", postgres_url)
    return done | {"db grant": output("db", "grant", "--sql", "--db", postgres_url)}


def _optuna_study(folder) -> str:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = f"sqlite:///{folder / 'trials.db'}"
    study = optuna.create_study(storage=url, study_name="net")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    return url


@pytest.mark.slow
def test_the_keys_on_the_page_are_those_that_each_other_command_prints(tmp_path, postgres_url):
    printed = printed_by_others(tmp_path, postgres_url)
    assert printed.keys() | set(FREQUENT) == KEYS.keys()
    differing = {name: keys_of(answer) ^ set(KEYS[name]) for name, answer in printed.items()}
    assert {name: keys for name, keys in differing.items() if keys} == {}


def commands_with_json(command, path=()):
    for name, each in getattr(command, "commands", {}).items():
        yield from commands_with_json(each, (*path, name))
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(path)


def test_each_command_with_json_is_on_the_page():
    with_json = set(commands_with_json(typer.main.get_command(app)))
    on_page = {re.split(r" (?=--|[A-Z])", name, maxsplit=1)[0] for name in KEYS}
    assert on_page == with_json


def test_the_page_has_the_keys():
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
