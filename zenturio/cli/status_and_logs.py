"""The verbs that inspect studies and experiments: list, status, show, logs, diff."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio import quantities
from zenturio.cli import output
from zenturio.cli.options import Database, Json
from zenturio.expression import text_of
from zenturio.quantities import iso_time, utc_day, utc_time

if TYPE_CHECKING:
    from zenturio.record import EquatedResult
    from zenturio.study.overview import ExperimentDetails, ExperimentDifference, StudyStatus


Digest = Annotated[str, typer.Argument(help="Digest of an experiment, or its first digits.")]
Of = Annotated[
    str | None, typer.Option("--study", help="Study, if several contain the experiment.")
]

MOST_COUNTED = 20_000
"""A list counts what is missing exactly in studies of at most so many experiments."""
MOST_RUNNING = 20
"""Experiments that run now and are listed."""
NOTHING = "there are no studies yet: zen run PATH"


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command(name="list")(list_studies)
    app.command()(status)
    app.command()(show)
    app.command()(logs)
    app.command()(diff)


def list_studies(db: Database = None, json: Json = False) -> None:
    """List the studies of the project.

    Example: zen list
    """
    from zenturio.study.overview import study_statuses

    statuses = with_unplanned_counts(db, study_statuses(db), MOST_COUNTED)
    if json:
        output.facts([_standing_facts(status) for status in statuses])
    elif not statuses:
        typer.echo(NOTHING)
    else:
        has_warmups = any(status.warmup for status in statuses)
        output.table(
            (
                *("study", "experiments", "ok"),
                *(("warm-ups",) if has_warmups else ()),
                *("failed", "missing", "created"),
            ),
            [
                (
                    *(s.study, s.total, s.ok),
                    *((s.warmup,) if has_warmups else ()),
                    *(s.failed, _left(s), utc_time(s.created)),
                )
                for s in statuses
            ],
            right="lrrrrr" if has_warmups else "lrrrr",
        )


def _left(status: "StudyStatus") -> int | str:
    """Return how many are missing; a lower bound, with a plus, if not all were counted."""
    return status.left if status.unplanned is not None else f"{status.left}+"


def status(
    study: Annotated[str | None, typer.Argument(help="Name of the study; default: all.")] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Show the progress, failures and drivers of studies.

    For a named study, also lists running experiments, and groups failures by cause, with the last
    lines of output of one experiment each.

    Example: zen status matmul
    """
    from zenturio.study.overview import study_status, study_statuses

    if study is None:
        statuses = with_unplanned_counts(db, study_statuses(db), MOST_COUNTED)
    else:
        statuses = with_unplanned_counts(db, [study_status(db, study)])
    # Causes take a query of their own: only where a single study was asked for.
    failed = output.failures_of_study(study, db) if study is not None and statuses[0].failed else []
    outside = _outside(db, statuses)
    # Records of a driver that died still say "running".
    at_work = study is not None and statuses[0].running and statuses[0].drivers
    running = _running(db, study) if study is not None and at_work else {}
    if json:
        facts = [{**_standing_facts(item), "outside": outside[item.study]} for item in statuses]
        study_facts = {"running_experiments": running, "failures": output.failure_facts(failed)}
        output.facts(facts if study is None else {**facts[0], **study_facts})
        return
    for item in statuses:
        typer.echo(_standing_line(item, db))
        if count := outside[item.study]:
            was = "experiment is" if count == 1 else "experiments are"
            typer.echo(f"  {count:,} {was} no longer in the space")
        for digest, values in running.items():
            typer.echo(f"  running {digest[:12]}  {output.values_text(values)}")
        output.print_failures(failed, item.study, db)
    if not statuses:
        typer.echo(NOTHING)


def _running(db: str | None, study: str) -> dict[str, Mapping[str, Any]]:
    """Return the values of the first running experiments by digest, for `zen logs --follow`."""
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        records = islice(repository.records(study, states=("running",)), MOST_RUNNING)
        return {record.digest: record.values for record in records}


def show(digest: Digest, study: Of = None, db: Database = None, json: Json = False) -> None:
    """Show an experiment: parameters, metrics, attempts.

    Example: zen show 5c37b9d7
    """
    from zenturio.study.overview import find_experiment, opened_repository

    with opened_repository(db) as repository:
        details = find_experiment(repository, digest, study)
    if json:
        output.facts(experiment_facts(details))
    else:
        print_experiment(details, db)


def logs(
    digest: Digest,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, help="Number of the attempt; default: the accepted or newest one."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Print output as it arrives, until the experiment finishes."
        ),
    ] = False,
    safe: Annotated[
        bool | None,
        typer.Option(
            "--safe/--raw",
            help="Escape control characters (default on a terminal), or print them.",
        ),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Print the output of an experiment, byte for byte.

    Its stdout goes to stdout, its stderr to stderr. On a terminal, control characters are escaped
    because they could change what the terminal shows or does; --raw prints them. The output of a
    running experiment can only be read on the machine where it runs, in its project.

    Examples: zen logs 5c37b9d7 --follow; zen logs 5c37b9d7 --raw
    """
    from zenturio.cli.safe_streams import ExperimentOutput
    from zenturio.study.log_follower import follow_log as follow_it
    from zenturio.study.log_follower import log_after, log_so_far
    from zenturio.study.overview import find_experiment, opened_repository

    printed_bytes = (0, 0)
    log_output = ExperimentOutput(safe=safe)
    with opened_repository(db) as repository:
        details = find_experiment(repository, digest)
        digest_in_full = details.record.digest
        if follow:
            printed_bytes = follow_it(
                repository, details.study, digest_in_full, _nothing if json else log_output.put
            )
        # What runs has no log in the database yet: it is read from the experiment's folder.
        elif details.record.state == "running" and attempt is None and not json:
            log_so_far(digest_in_full, log_output.put)
            log_output.close()
            typer.echo("the experiment is still running: --follow waits for more", err=True)
            return
        kept_logs = repository.logs(digest_in_full, attempt)
    if json:
        output.facts({"stdout": log_facts(kept_logs.stdout), "stderr": log_facts(kept_logs.stderr)})
        return
    for number, log in enumerate((kept_logs.stdout, kept_logs.stderr)):
        for part in log_after(log, printed_bytes[number]):
            log_output.put(number, part)
    log_output.close()


def _nothing(_number: int, _content: bytes) -> None:
    """Ignore output as it arrives: JSON is printed once, at the end."""


def diff(
    one: Digest, other: Digest, study: Of = None, db: Database = None, json: Json = False
) -> None:
    """Compare two experiments: parameters, metrics, files.

    Example: zen diff 5c37b9d7 4f1e2baa
    """
    from zenturio.study.overview import compare_experiments, find_experiment, opened_repository

    with opened_repository(db) as repository:
        difference = compare_experiments(
            find_experiment(repository, one, study), find_experiment(repository, other, study)
        )
    if json:
        output.facts(difference_facts(difference))
    else:
        print_difference(difference)


def _standing_line(status: "StudyStatus", db: str | None) -> str:
    parts = [f"{status.ok:,} ok"]
    parts += [quantities.amount(status.warmup, "warm-up")] if status.warmup else []
    wrong = f" ({status.counts['wrong']:,} with a wrong result)" if status.counts["wrong"] else ""
    parts += [f"{status.failed:,} failed{wrong}"] if status.failed else []
    # Records of a driver that died still say "running".
    at_work = "running" if status.drivers or status.stages else "interrupted"
    parts += [f"{status.running:,} {at_work}"] if status.running else []
    parts += [f"{status.missing:,} missing"] if status.missing else []
    line = f"{status.study}: {', '.join(parts)}{_several(status)}"
    if status.stages:
        stages = ", ".join(f"{count:,} {stage}" for stage, count in _ordered(status))
        line += f"\n  at {status.place}: {stages}"
    elif status.running and status.place not in ("", "local"):
        line += f"\n  at {status.place}"
    for machine, why in status.drained.items():
        line += f"\n  {machine}: {why}"
    for round_ in status.history[1:]:
        line += (
            f"\n  round {round_.number}: {status.rounds.get(round_.number, 0):,} results,"
            f" started {utc_time(round_.began)} by {round_.person}"
        )
        line += "; zen run --again continues it" if round_.is_open else ""
    for driver in status.drivers:
        line += f"\n  driver: process {driver.pid} on {driver.host} since {utc_time(driver.since)}"
    if status.left and not status.drivers:
        line += "\n  no driver is running; "
        if status.is_earlier_version:
            line += "the program was edited before all experiments had run"
        else:
            line += f"to resume: {_resume_command(status, db)}"
    return line


def _resume_command(status: "StudyStatus", db: str | None) -> str:
    """Return the command that resumes a study without a driver."""
    from zenturio.study.overview import queued_paths

    if status.command:
        return output.command_to_type(*status.command, db=db)
    if status.verb:
        return f"repeat the call (study.{status.verb}, zen {status.verb})"
    if status.place:
        return output.command_to_type("attach", status.study, db=db)
    paths = status.program_paths
    if paths and paths in queued_paths(db):
        return "zen serve (it is in the queue)"
    here = Path.cwd()
    files = map(Path, paths)
    short = (str(path.relative_to(here) if path.is_relative_to(here) else path) for path in files)
    return output.command_to_type("run", *short, db=db)


def _several(status: "StudyStatus") -> str:
    """Return a line on results by machine and round if there are several; else an empty text."""
    count = sum(status.machines.values())
    parts = [
        f"{len(origins)} {noun}"
        for origins, noun in (
            (status.machines, "kinds of machine"),
            (status.rounds, "rounds"),
        )
        if len(origins) > 1
    ]
    if not parts:
        return ""
    experiments = f"{status.total:,} of {max(status.planned, status.total):,} experiments"
    return f"\n  {experiments}, {count:,} results of {' and '.join(parts)}"


def with_unplanned_counts(
    db: str | None, statuses: list["StudyStatus"], most: int | None = None
) -> list["StudyStatus"]:
    """Return *statuses* with the experiments counted that the last runs did not plan.

    This reads each experiment of a study that was run with several spaces; studies of more than
    *most* experiments are left uncounted.
    """
    uncounted = [s for s in statuses if s.unplanned is None and (most is None or s.total <= most)]
    if not uncounted:
        return statuses
    from zenturio.query.points_outside import count_unplanned
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        counts = {s.study: count_unplanned(repository, s.study) for s in uncounted}
    return [replace(s, unplanned=counts.get(s.study, s.unplanned)) for s in statuses]


def _outside(db: str | None, statuses: Sequence["StudyStatus"]) -> dict[str, int]:
    """Return by study how many experiments have points that are not in its space any more."""
    from zenturio.query.excluded_points import digests_outside, is_unchanged
    from zenturio.study.overview import opened_repository

    counts = {status.study: 0 for status in statuses}
    changed = [s.study for s in statuses if not is_unchanged(s.study, s.notes, s.sources)]
    if changed:
        with opened_repository(db) as repository:
            counts |= {study: len(digests_outside(repository, study)) for study in changed}
    return counts


def _ordered(status: "StudyStatus") -> list[tuple[str, int]]:
    """Return the number of experiments in each stage at the place, running ones first."""
    order = ("running", "queued", "ended")
    return sorted(status.stages.items(), key=lambda item: order.index(item[0]))


def _standing_facts(status: "StudyStatus") -> dict[str, Any]:
    return {
        "study": status.study,
        "planned": status.planned,
        "experiments": status.total,
        "missing": status.missing,
        **{str(state): count for state, count in status.counts.items()},
        "results": sum(status.machines.values()),
        "machines": status.machines,
        "rounds": [
            {
                "number": round_.number,
                "began": iso_time(round_.began),
                "person": round_.person,
                "reason": round_.reason,
                "open": round_.is_open,
                "seed": round_.seed,
                "results": status.rounds.get(round_.number, 0),
            }
            for round_ in status.history
        ],
        "created": iso_time(status.created),
        "place": status.place,
        "stages": dict(_ordered(status)),
        "drained": dict(status.drained),
        "drivers": [
            {"host": d.host, "pid": d.pid, "since": iso_time(d.since)} for d in status.drivers
        ],
    }


def experiment_facts(details: "ExperimentDetails") -> dict[str, Any]:
    from zenturio.study.overview import measure_json

    record = details.record
    outcome = record.outcome
    return {
        "digest": record.digest,
        "study": details.study,
        "index": record.index,
        "repeat": record.repeat,
        "round": record.round,
        "state": record.state,
        "cause": outcome.cause if outcome else None,
        "equality": _equality_facts(details.equality),
        "redactions": [
            {
                "at": iso_time(redaction.at),
                "of": "experiment" if redaction.digest else "study",
                "what": redaction.text,
            }
            for redaction in details.redactions
        ],
        "parameters": dict(record.values),
        "metrics": {name: measure_json(value) for name, value in details.metrics.items()},
        "units": dict(details.units),
        "attempts": [
            {
                "number": attempt.number,
                "round": attempt.round,
                "machine": attempt.machine.label if attempt.machine else None,
                "state": attempt.state,
                "cause": attempt.cause,
                "host": attempt.host,
                "started": iso_time(attempt.started),
                "ended": iso_time(attempt.ended),
                "exit": attempt.exit,
            }
            for attempt in details.attempts
        ],
        "artifacts": [
            {"path": a.path, "size": a.size, "sha256": a.sha256, "kept": str(a.kept)}
            for a in details.artifacts
        ],
        "folder": str(details.folder) if details.folder else None,
        "commands": _commands(details),
        "provenance": dict(details.definition.provenance),
    }


def print_experiment(details: "ExperimentDetails", db: str | None) -> None:
    from zenturio.study.overview import measure_text

    record = details.record
    typer.echo(f"experiment {record.digest}\n{_state(details)}")
    typer.echo(f"study {details.study}, point {record.index}, repeat {record.repeat}")
    if details.equality:
        typer.echo(_accepted(details.equality))
    for redaction in details.redactions:
        of = "" if redaction.digest else " in the study"
        typer.echo(f"redacted: {redaction.text}{of}, {utc_time(redaction.at)}")
    typer.echo()
    rows = [
        ("parameter", n, text_of(v), details.units.get(n, "")) for n, v in record.values.items()
    ]
    rows += [
        ("metric", n, measure_text(value), details.units.get(n, ""))
        for n, value in details.metrics.items()
    ]
    output.table(("", "name", "value", "unit"), rows)
    if details.attempts:
        typer.echo()
        heads = ("attempt", "state", "cause", "host", "started", "took")
        rounds = ["round"] if any(a.round > 1 for a in details.attempts) else []
        rows_of_attempts = [
            (*[a.round for _ in rounds], a.number, a.state, a.cause, a.host, utc_time(a.started),
             _took(a.started, a.ended))
            for a in details.attempts
        ]  # fmt: skip
        output.table((*rounds, *heads), rows_of_attempts, right="r" * (1 + len(rounds)))
    for artifact in details.artifacts:
        typer.echo(f"kept {artifact.path} ({artifact.size:,} bytes) in {artifact.kept}")
    typer.echo()
    for line in _circumstances(details):
        typer.echo(line)
    typer.echo(f"output: {output.command_to_type('logs', record.digest[:12], db=db)}")


def _accepted(equality: "EquatedResult") -> str:
    """Return ``accepted as equal to matmul@1 by ann, 2026-11-19``; the experiment that was run."""
    text = f"accepted as equal to {equality.study} by {equality.person}, {utc_day(equality.at)}"
    return f"{text} (it ran as {equality.digest[:12]})" if equality.digest else text


def _equality_facts(equality: "EquatedResult | None") -> dict[str, Any] | None:
    if equality is None:
        return None
    return {
        "study": equality.study,
        "digest": equality.digest or None,
        "person": equality.person,
        "at": iso_time(equality.at),
    }


def _state(details: "ExperimentDetails") -> str:
    """Return ``ok``; ``failed (exit 3)``; ``timeout after 1 s``."""
    record = details.record
    cause = record.outcome.cause if record.outcome else ""
    if not cause:
        return record.state
    return cause if cause.startswith(record.state) else f"{record.state} ({cause})"


def _commands(details: "ExperimentDetails") -> list[str]:
    """Return the BUILD and RUN commands that ran; as written if values cannot be filled in."""
    from zenturio.study.reprocess_experiments import UnfilledError, commands_of

    notes = details.definition.notes
    as_written = [command for kind in ("builds", "runs") for command in notes.get(kind, ())]
    try:
        return commands_of(details.definition, details.record) or as_written
    except UnfilledError:
        return as_written


def _circumstances(details: "ExperimentDetails") -> Iterator[str]:
    """Yield commands, code, machine and tool: what a reader needs to repeat the experiment."""
    provenance = details.definition.provenance
    for command in _commands(details):
        yield f"command: {command}"
    if details.folder:
        yield f"folder: {details.folder}"
    if git := provenance.get("git"):
        dirty = ", with uncommitted changes" if git.get("dirty") else ""
        yield f"code: commit {git.get('commit') or 'none'} on {git.get('branch')}{dirty}"
    for part, digest in details.definition.notes.get("program", {}).items():
        if part.startswith("USE "):
            yield f"used: {part.removeprefix('USE ')} {digest[:8]}"
    for command, answer in details.definition.notes.get("versions", {}).items():
        yield f"{command}: {answer.partition(chr(10))[0]}"
    for program, facts in details.definition.notes.get("programs", {}).items():
        yield f"program: {program} is {facts['path']}, {facts['changes'][-1][1][:8]}"
    if host := provenance.get("host"):
        yield f"started from: {_machine(host)}; zenturio {provenance.get('tool')}"


def _machine(host: Mapping[str, Any]) -> str:
    memory = f"{host['memory'] / 2**30:.3g} GiB" if host.get("memory") else ""
    cores = f"{host['cores']} cores" if host.get("cores") else ""
    facts = (host.get("name"), host.get("cpu"), cores, memory, host.get("os"))
    return ", ".join(str(fact) for fact in facts if fact)


def _took(started: float, ended: float | None) -> str:
    return quantities.duration(ended - started) if ended and started else ""


def log_facts(log: Any) -> dict[str, Any]:
    return {
        "head": log.head.decode("utf-8", "backslashreplace"),
        "tail": log.tail.decode("utf-8", "backslashreplace"),
        "bytes": log.size,
    }


def difference_facts(difference: "ExperimentDifference") -> dict[str, Any]:
    from zenturio.study.overview import measure_json

    return {
        "digests": list(difference.digests),
        "parameters": {n: list(pair) for n, pair in difference.parameters.items()},
        "metrics": {
            n: [measure_json(value) for value in pair] for n, pair in difference.metrics.items()
        },
        "files": dict(difference.files),
        "note": difference.note,
    }


def print_difference(difference: "ExperimentDifference") -> None:
    first, second = (digest[:12] for digest in difference.digests)
    rows = [
        ("parameter", name, text_of(a), text_of(b), _ratio(a, b))
        for name, (a, b) in difference.parameters.items()
    ]
    rows += [
        ("metric", name, *_distinguishable(a, b), _ratio(a, b))
        for name, (a, b) in difference.metrics.items()
    ]
    if rows:
        output.table(("", "name", first, second, "ratio"), rows)
    else:
        typer.echo("parameters and metrics are equal")
    for path, text in difference.files.items():
        typer.echo(f"\n{path}\n{text}", nl=False)
    if difference.note:
        typer.echo(f"\n{difference.note}")


def _distinguishable(a: Any, b: Any) -> tuple[str, str]:
    """Return two metrics with enough digits to distinguish them."""
    if not isinstance(a, float) or not isinstance(b, float):
        return _brief(a), _brief(b)
    from zenturio.query.result_table import display_rows

    ((first,), (second,)) = display_rows([(a,), (b,)])
    return first, second


def _ratio(a: Any, b: Any) -> str:
    """Return the ratio of two positive numbers; empty for all others."""
    # A bool is an int in Python, and has no ratio.
    numbers = [x for x in (a, b) if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) < 2 or not all(number > 0 for number in numbers):
        return ""
    return f"{numbers[1] / numbers[0]:.3g}"


def _brief(measure: Any) -> str:
    """Return a metric for a comparison; ``zen show`` says why one is missing."""
    from zenturio.experiment import Missing
    from zenturio.study.overview import measure_text

    return "missing" if isinstance(measure, Missing) else measure_text(measure)
