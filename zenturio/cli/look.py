"""The verbs that look: list, status, show, logs, diff."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output
from zenturio.cli.language import Json
from zenturio.cli.run import Database

if TYPE_CHECKING:
    from zenturio.study.look import Difference, Found, Standing

Digest = Annotated[str, typer.Argument(help="An experiment's digest, or its first digits.")]
Of = Annotated[str | None, typer.Option("--study", help="The study, where several have it.")]

NOTHING = "nothing was run here yet: zen run PATH"


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command(name="list")(list_studies)
    app.command()(status)
    app.command()(show)
    app.command()(logs)
    app.command()(diff)


def list_studies(db: Database = None, json: Json = False) -> None:
    """List the studies of the project.

    Example: zen list
    """
    from zenturio.study.look import standings

    found = standings(db)
    if json:
        output.facts([_standing_facts(each) for each in found])
    elif not found:
        typer.echo(NOTHING)
    else:
        output.table(
            ("study", "experiments", "ok", "failed", "left", "created"),
            [(s.study, s.total, s.ok, s.failed, s.left, _time(s.created)) for s in found],
            right="lrrrr",
        )


def status(
    study: Annotated[str | None, typer.Argument(help="The study; all, if none is named.")] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Say where studies stand: what ran, what failed, who drives.

    Example: zen status matmul
    """
    from zenturio.study.look import standing, standings

    found = standings(db) if study is None else [standing(db, study)]
    if json:
        facts = [_standing_facts(each) for each in found]
        output.facts(facts if study is None else facts[0])
        return
    for each in found:
        typer.echo(_standing_line(each))
    if not found:
        typer.echo(NOTHING)


def show(digest: Digest, study: Of = None, db: Database = None, json: Json = False) -> None:
    """Show an experiment: parameters, metrics, attempts.

    Example: zen show 5c37b9d7
    """
    from zenturio.study.look import find, opened

    with opened(db) as repository:
        found = find(repository, digest, study)
    if json:
        output.facts(_found_facts(found))
    else:
        _print_found(found)


def logs(
    digest: Digest,
    attempt: Annotated[int | None, typer.Option(min=1, help="Which attempt.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait until it has ended.")
    ] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Print what an experiment said, to the byte.

    Its stdout goes to stdout, its stderr to stderr, when it has ended; --follow waits for that.

    Example: zen logs 5c37b9d7 --follow
    """
    from zenturio.study.look import await_end, find, opened

    with opened(db) as repository:
        found = find(repository, digest)
        if follow:
            await_end(repository, found.record.digest, found.study)
        said = repository.logs(found.record.digest, attempt)
    if json:
        output.facts({"stdout": _log_facts(said.stdout), "stderr": _log_facts(said.stderr)})
        return
    for log, stream in ((said.stdout, sys.stdout), (said.stderr, sys.stderr)):
        stream.flush()
        stream.buffer.write(log.head)
        if log.tail:
            missing = log.size - len(log.head) - len(log.tail)
            stream.buffer.write(f"\n[... {missing:,} bytes were not kept ...]\n".encode())
            stream.buffer.write(log.tail)
        stream.flush()


def diff(
    one: Digest, other: Digest, study: Of = None, db: Database = None, json: Json = False
) -> None:
    """Compare two experiments: parameters, metrics, files.

    Example: zen diff 5c37b9d7 4f1e2baa
    """
    from zenturio.study.look import difference, find, opened

    with opened(db) as repository:
        found = difference(repository, find(repository, one, study), find(repository, other, study))
    if json:
        output.facts(_difference_facts(found))
    else:
        _print_difference(found)


def _time(seconds: float | None) -> str:
    if not seconds:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _iso(seconds: float | None) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None


def _standing_line(standing: "Standing") -> str:
    parts = [f"{standing.ok:,} ok"]
    parts += [f"{standing.failed:,} failed"] if standing.failed else []
    parts += [f"{standing.running:,} running"] if standing.running else []
    parts += [f"{standing.waiting:,} waiting"] if standing.waiting else []
    if standing.planned > standing.total:
        parts.append(f"{standing.planned - standing.total:,} not begun")
    line = f"{standing.study}: {', '.join(parts)}"
    for driver in standing.drivers:
        line += f"\n  driven by process {driver.pid} on {driver.host} since {_time(driver.since)}"
    if standing.left and not standing.drivers:
        line += "\n  nobody drives it: the same zen run goes on"
    return line


def _standing_facts(standing: "Standing") -> dict[str, Any]:
    return {
        "study": standing.study,
        "planned": standing.planned,
        "experiments": standing.total,
        **{str(state): count for state, count in standing.counts.items()},
        "created": _iso(standing.created),
        "drivers": [
            {"host": d.host, "pid": d.pid, "since": _iso(d.since)} for d in standing.drivers
        ],
    }


def _found_facts(found: "Found") -> dict[str, Any]:
    from zenturio.study.look import plain

    record = found.record
    outcome = record.outcome
    return {
        "digest": record.digest,
        "study": found.study,
        "index": record.index,
        "repeat": record.repeat,
        "state": record.state,
        "cause": outcome.cause if outcome else None,
        "parameters": dict(record.values),
        "metrics": {name: plain(each) for name, each in found.metrics.items()},
        "units": dict(found.units),
        "attempts": [
            {
                "number": each.number,
                "state": each.state,
                "cause": each.cause,
                "host": each.host,
                "started": _iso(each.started),
                "ended": _iso(each.ended),
                "exit": each.exit,
            }
            for each in found.attempts
        ],
        "artifacts": [
            {"path": a.path, "size": a.size, "sha256": a.sha256, "kept": str(a.kept)}
            for a in found.artifacts
        ],
    }


def _print_found(found: "Found") -> None:
    from zenturio.study.look import words

    record = found.record
    cause = f" ({record.outcome.cause})" if record.outcome and record.outcome.cause else ""
    typer.echo(f"experiment {record.digest}\n{record.state}{cause}")
    typer.echo(f"study {found.study}, point {record.index}, repeat {record.repeat}\n")
    rows = [
        ("parameter", n, output.number(v), found.units.get(n, "")) for n, v in record.values.items()
    ]
    rows += [
        ("metric", n, words(each), found.units.get(n, "")) for n, each in found.metrics.items()
    ]
    output.table(("", "name", "value", "unit"), rows)
    if found.attempts:
        typer.echo()
        output.table(
            ("attempt", "state", "cause", "host", "started", "took"),
            [
                (a.number, a.state, a.cause, a.host, _time(a.started), _took(a.started, a.ended))
                for a in found.attempts
            ],
            right="r",
        )
    for artifact in found.artifacts:
        typer.echo(f"kept {artifact.path} ({artifact.size:,} bytes) in {artifact.kept}")
    typer.echo(f"\nwhat it said: zen logs {record.digest[:12]}")


def _took(started: float, ended: float | None) -> str:
    return output.duration(ended - started) if ended and started else ""


def _log_facts(log: Any) -> dict[str, Any]:
    return {
        "head": log.head.decode("utf-8", "backslashreplace"),
        "tail": log.tail.decode("utf-8", "backslashreplace"),
        "bytes": log.size,
    }


def _difference_facts(found: "Difference") -> dict[str, Any]:
    from zenturio.study.look import plain

    return {
        "digests": list(found.digests),
        "parameters": {n: list(pair) for n, pair in found.parameters.items()},
        "metrics": {n: [plain(each) for each in pair] for n, pair in found.metrics.items()},
        "files": dict(found.files),
    }


def _print_difference(found: "Difference") -> None:
    from zenturio.study.look import words

    one, other = (digest[:12] for digest in found.digests)
    rows = [
        ("parameter", name, output.number(a), output.number(b), _ratio(a, b))
        for name, (a, b) in found.parameters.items()
    ]
    rows += [
        ("metric", name, words(a), words(b), _ratio(a, b)) for name, (a, b) in found.metrics.items()
    ]
    if rows:
        output.table(("", "name", one, other, "ratio"), rows)
    else:
        typer.echo("parameters and metrics are the same")
    for path, text in found.files.items():
        typer.echo(f"\n{path}\n{text}", nl=False)
    if found.note:
        typer.echo(f"\n{found.note}")


def _ratio(one: Any, other: Any) -> str:
    numbers = [x for x in (one, other) if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) < 2 or numbers[0] == 0:
        return ""
    return f"{numbers[1] / numbers[0]:.3g}"
