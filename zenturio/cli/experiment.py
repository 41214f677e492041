"""How experiments are shown: one with all that is known of it, and where two differ."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from zenturio.cli import again, output
from zenturio.expression import text_of
from zenturio.record.timestamps import iso_time, utc_day, utc_time
from zenturio.show import quantities

if TYPE_CHECKING:
    from zenturio.record import EquatedResult
    from zenturio.study.overview import ExperimentDetails, ExperimentDifference


def facts_of(found: "ExperimentDetails") -> dict[str, Any]:
    from zenturio.study.overview import measure_json

    record = found.record
    outcome = record.outcome
    return {
        "digest": record.digest,
        "study": found.study,
        "index": record.index,
        "repeat": record.repeat,
        "round": record.round,
        "state": record.state,
        "cause": outcome.cause if outcome else None,
        "equality": _equality_facts(found.equality),
        "redactions": [
            {
                "at": iso_time(each.at),
                "of": "experiment" if each.digest else "study",
                "what": each.text,
            }
            for each in found.redactions
        ],
        "parameters": dict(record.values),
        "metrics": {name: measure_json(each) for name, each in found.metrics.items()},
        "units": dict(found.units),
        "attempts": [
            {
                "number": each.number,
                "round": each.round,
                "machine": each.machine.label if each.machine else None,
                "state": each.state,
                "cause": each.cause,
                "host": each.host,
                "started": iso_time(each.started),
                "ended": iso_time(each.ended),
                "exit": each.exit,
            }
            for each in found.attempts
        ],
        "artifacts": [
            {"path": a.path, "size": a.size, "sha256": a.sha256, "kept": str(a.kept)}
            for a in found.artifacts
        ],
        "folder": str(found.folder) if found.folder else None,
        "commands": [*_commands(found)],
        "provenance": dict(found.definition.provenance),
    }


def print_found(found: "ExperimentDetails", db: str | None) -> None:
    from zenturio.study.overview import measure_text

    record = found.record
    typer.echo(f"experiment {record.digest}\n{_state(found)}")
    typer.echo(f"study {found.study}, point {record.index}, repeat {record.repeat}")
    if found.equality:
        typer.echo(_accepted(found.equality))
    for redaction in found.redactions:
        of = "" if redaction.digest else " in the study"
        typer.echo(f"redacted: {redaction.text}{of}, {utc_time(redaction.at)}")
    typer.echo()
    rows = [("parameter", n, text_of(v), found.units.get(n, "")) for n, v in record.values.items()]
    rows += [
        ("metric", n, measure_text(each), found.units.get(n, ""))
        for n, each in found.metrics.items()
    ]
    output.table(("", "name", "value", "unit"), rows)
    if found.attempts:
        typer.echo()
        heads = ("attempt", "state", "cause", "host", "started", "took")
        rounds = ["round"] if any(a.round > 1 for a in found.attempts) else []
        rows_of_attempts = [
            (*[a.round for _ in rounds], a.number, a.state, a.cause, a.host, utc_time(a.started),
             _took(a.started, a.ended))
            for a in found.attempts
        ]  # fmt: skip
        output.table((*rounds, *heads), rows_of_attempts, right="r" * (1 + len(rounds)))
    for artifact in found.artifacts:
        typer.echo(f"kept {artifact.path} ({artifact.size:,} bytes) in {artifact.kept}")
    typer.echo()
    for line in _circumstances(found):
        typer.echo(line)
    typer.echo(f"what it said: {again.command('logs', record.digest[:12], db=db)}")


def _accepted(equality: "EquatedResult") -> str:
    """``accepted as equal to matmul@1 by ann, 2026-11-19``; the experiment that was run."""
    said = f"accepted as equal to {equality.study} by {equality.person}, {utc_day(equality.at)}"
    return f"{said} (it ran as {equality.digest[:12]})" if equality.digest else said


def _equality_facts(equality: "EquatedResult | None") -> dict[str, Any] | None:
    if equality is None:
        return None
    return {
        "study": equality.study,
        "digest": equality.digest or None,
        "person": equality.person,
        "at": iso_time(equality.at),
    }


def _state(found: "ExperimentDetails") -> str:
    """``ok``; ``failed (exit 3)``; ``timeout after 1 s``."""
    record = found.record
    cause = record.outcome.cause if record.outcome else ""
    if not cause:
        return record.state
    return cause if cause.startswith(record.state) else f"{record.state} ({cause})"


def _commands(found: "ExperimentDetails") -> Iterator[str]:
    """BUILD and RUN as they were written."""
    for kind in ("builds", "runs"):
        yield from found.definition.notes.get(kind, ())


def _circumstances(found: "ExperimentDetails") -> Iterator[str]:
    """Commands, code, machine and tool: what somebody needs who wants to run it once more."""
    provenance = found.definition.provenance
    for command in _commands(found):
        yield f"command: {command}"
    if found.folder:
        yield f"folder: {found.folder}"
    if git := provenance.get("git"):
        dirty = ", with changes that were not committed" if git.get("dirty") else ""
        yield f"code: commit {git.get('commit') or 'none'} on {git.get('branch')}{dirty}"
    for part, digest in found.definition.notes.get("program", {}).items():
        if part.startswith("USE "):
            yield f"used: {part.removeprefix('USE ')} {digest[:8]}"
    for command, answer in found.definition.notes.get("versions", {}).items():
        yield f"{command}: {answer.partition(chr(10))[0]}"
    for program, facts in found.definition.notes.get("programs", {}).items():
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


def difference_facts(found: "ExperimentDifference") -> dict[str, Any]:
    from zenturio.study.overview import measure_json

    return {
        "digests": list(found.digests),
        "parameters": {n: list(pair) for n, pair in found.parameters.items()},
        "metrics": {n: [measure_json(each) for each in pair] for n, pair in found.metrics.items()},
        "files": dict(found.files),
        "note": found.note,
    }


def print_difference(found: "ExperimentDifference") -> None:
    one, other = (digest[:12] for digest in found.digests)
    rows = [
        ("parameter", name, text_of(a), text_of(b), _ratio(a, b))
        for name, (a, b) in found.parameters.items()
    ]
    rows += [
        ("metric", name, *_told_apart(a, b), _ratio(a, b)) for name, (a, b) in found.metrics.items()
    ]
    if rows:
        output.table(("", "name", one, other, "ratio"), rows)
    else:
        typer.echo("parameters and metrics are the same")
    for path, text in found.files.items():
        typer.echo(f"\n{path}\n{text}", nl=False)
    if found.note:
        typer.echo(f"\n{found.note}")


def _told_apart(one: Any, other: Any) -> tuple[str, str]:
    """Two metrics, with as many digits as tell them apart."""
    if not isinstance(one, float) or not isinstance(other, float):
        return _brief(one), _brief(other)
    from zenturio.query.result_table import display_rows

    ((first,), (second,)) = display_rows([(one,), (other,)])
    return first, second


def _ratio(one: Any, other: Any) -> str:
    """The ratio of numbers above zero: of others it says nothing."""
    numbers = [x for x in (one, other) if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) < 2 or not all(number > 0 for number in numbers):
        return ""
    return f"{numbers[1] / numbers[0]:.3g}"


def _brief(measure: Any) -> str:
    """A metric in a table of two: why one is missing is what ``zen show`` tells."""
    from zenturio.experiment import Missing
    from zenturio.study.overview import measure_text

    return "missing" if isinstance(measure, Missing) else measure_text(measure)
