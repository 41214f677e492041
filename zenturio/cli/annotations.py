"""The verbs for annotated files: check, space, expand, init."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio import quantities
from zenturio.cli import output, safe_streams, spaces
from zenturio.cli.options import Json, Limit, Overrides, Paths, Sample, Trust

if TYPE_CHECKING:
    from zenturio.annotate.model import Application
    from zenturio.annotate.substitution import Replacement
    from zenturio.errors import Diagnostic
    from zenturio.study.used_files import Trace


SHOWN = 100
"""Diagnostics that are printed at most; as JSON, all are."""

COUNTING = 10.0
"""Seconds that ``zen check`` counts the points."""

Within = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="Time limit for counting the points.")
]


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this module in *app*."""
    app.command()(check)
    app.command()(space)
    app.command()(expand)
    app.command()(init)


def check(
    paths: Paths,
    param: Overrides = None,
    show: Annotated[
        bool, typer.Option("--show", help="Show each place where a value is filled in.")
    ] = False,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Run the first point and list the files and programs that it uses (Linux).",
        ),
    ] = False,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="With --trace: add USE directives for these files and programs."
        ),
    ] = False,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Check the directives for mistakes.

    Certain mistakes are errors, likely ones are warnings; all are shown at once. A sample of the
    experiments is generated as zen run would do it, so everything that zen run would refuse is an
    error. Nothing is executed without --trace. With --trace, the first point runs in a temporary
    folder; zen check lists the files and programs that it uses without declaring them, and the
    files that it writes elsewhere.

    Examples: zen check matmul.c; zen check . --json; zen check matmul.c --show; zen check . --trace
    --fix
    """
    from zenturio.annotate.commands import unversioned_programs
    from zenturio.errors import InputError

    if fix and not trace:
        raise InputError("--fix needs --trace", hint="write --trace --fix")
    application, diagnostics = _checked(paths, param or [])
    left_out = application.left_out if application else ()
    unversioned = unversioned_programs(application) if application else {}
    traced = Traced.of(application, fix=fix) if trace and application else None
    if json:
        diagnostic_facts = [_said(diagnostic) for diagnostic in diagnostics]
        facts = {
            "ok": application is not None,
            "diagnostics": diagnostic_facts,
            "left_out": left_out,
            "undeclared": {word: str(path) for word, path in unversioned.items()},
        }
        if show and application is not None:
            facts["replacements"] = replacement_facts(application)
        if traced is not None:
            facts["trace"] = traced.facts()
        output.facts(facts)
    else:
        if show and application is not None:
            print_replacements(application, in_colour=safe_streams.has_styles())
        output.diagnostics(diagnostics)
        _tell_left_out(left_out)
        if traced is None:
            _tell_undeclared(list(unversioned))
        else:
            typer.echo("\n".join(traced.lines()))
    if application is None:
        raise typer.Exit(2)
    if not json:
        number = len(diagnostics)
        warnings = f"{number} warning{'s' * (number > 1)}" if number else "no mistakes"
        # Counted last: it may take COUNTING seconds, and all diagnostics are on the screen by
        # then.
        points = spaces.points(application, spaces.size(application.space, COUNTING))
        typer.echo(f"{application.name}: {points}, {warnings}")


def _checked(
    paths: Sequence[str | Path], overrides: Sequence[str]
) -> tuple[Application | None, tuple[Diagnostic, ...]]:
    """Return the application, unless it is wrong or a run would refuse it, and all diagnostics."""
    from zenturio.annotate.lint import lint
    from zenturio.annotate.scan import scan
    from zenturio.errors import InputError
    from zenturio.study.driver.study_session import doubtful_formulas, refusals
    from zenturio.study.stages.stage_graph import stage_refusals, stages_of

    try:
        application = scan(paths, overrides=overrides)
        diagnostics = tuple(dict.fromkeys((*application.warnings, *lint(application))))
        stages = stages_of(application)
    except InputError as error:
        return None, error.diagnostics
    refused = tuple(dict.fromkeys(c for stage in stages for c in refusals(stage.application)))
    # Points of a space that is wrong would only say so again.
    if len(stages) > 1 and not refused:
        refused = stage_refusals(stages)
    diagnostics += tuple(c for stage in stages for c in doubtful_formulas(stage.application))
    if not refused:
        return application, diagnostics
    # A refusal says more of a place than a warning about it.
    places = {diagnostic.place for diagnostic in refused}
    return None, (*refused, *(c for c in diagnostics if c.place not in places))


def space(
    paths: Paths,
    param: Overrides = None,
    within: Within = COUNTING,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Show the parameters and how many points they make.

    Lists each parameter with its values, and each constraint with the number of points that it
    removes. Numbers that cannot be counted within the time limit are shown as unknown.

    Examples: zen space matmul.c; zen space . -P 'n={1,2}' --json
    """
    from zenturio.annotate.scan import scan

    application = scan(paths, overrides=param or [])
    if json:
        output.facts(spaces.facts(application, within))
    else:
        output.diagnostics(application.warnings, err=True)
        spaces.show(application, within)


def expand(
    paths: Paths,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write into.")
    ],
    limit: Limit = None,
    sample: Sample = None,
    seed: Annotated[int, typer.Option(help="Random seed of --sample.")] = 0,
    index: Annotated[
        int | None, typer.Option(min=0, help="Use the point with this number only.")
    ] = None,
    param: Overrides = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Write the files of each experiment into a folder of its own.

    Each folder is named by the digest of its experiment; manifest.jsonl lists them.

    Examples: zen expand matmul.c --out runs; zen expand . -o runs --sample 10 --seed 7
    """
    from zenturio.annotate.scan import scan
    from zenturio.study.driver.experiment_source import select_points
    from zenturio.study.experiment_export import expand

    application = scan(paths, overrides=param or [])
    points = select_points(application.space, limit=limit, sample=sample, seed=seed, index=index)
    with output.progress("expanding", points.count * application.repeat.count) as step:
        written = expand(application, points, out, step)
    manifest = out / "manifest.jsonl"
    if json:
        output.facts({"out": str(out), "experiments": written, "manifest": str(manifest)})
    else:
        output.diagnostics(application.warnings, err=True)
        typer.echo(f"{quantities.amount(written, 'experiment')} in {out}, listed in {manifest}")


def init(
    language: Annotated[
        str | None, typer.Argument(help="Programming language; default: list the languages.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write.")] = None,
) -> None:
    """Write a first annotated example that runs.

    Examples: zen init python; zen init c --out study/first.c
    """
    from zenturio.annotate import examples

    if language is None:
        output.table(("language", "file"), [(e.language, e.file) for e in examples.EXAMPLES])
        return
    example = examples.find(language)
    path = example.write(out or Path(example.file))
    typer.echo(f"wrote {path}; now try: zen space {path}")


def _tell_left_out(names: Sequence[str]) -> None:
    """Print which files are no part of the experiments: that may have been forged."""
    if names:
        more = [f"and {len(names) - SHOWN:,} more"] if len(names) > SHOWN else []
        listed = ", ".join([*names[:SHOWN], *more])
        typer.echo(f"not part of the experiments, because zen wrote them: {listed}")
        typer.echo("  a file that is edited, or declared with USE FILE, becomes an input again")


def _tell_undeclared(words: Sequence[str]) -> None:
    """Print which programs a change of which makes no other experiment."""
    if words:
        quoted = ", ".join(f'"{word}"' for word in words)
        typer.echo(f"not declared: {', '.join(words)}; updating it does not make a new experiment")
        typer.echo(f"  ZEN$ USE PROGRAM {quoted} makes its version part of each experiment")


def _said(diagnostic: Diagnostic) -> dict[str, Any]:
    place = diagnostic.place
    return {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }


SHOWN_REPLACEMENTS = 1000
"""Occurrences that are printed at most; as JSON, all are."""


def print_replacements(application: Application, *, in_colour: bool) -> None:
    """Print each occurrence, marked within its line."""
    from zenturio.annotate.substitution import replacements

    count = 0
    for count, replacement in enumerate(replacements(application.files), 1):
        if count <= SHOWN_REPLACEMENTS:
            _print(replacement, in_colour=in_colour)
    if count > SHOWN_REPLACEMENTS:
        typer.echo(f"... and {count - SHOWN_REPLACEMENTS:,} more: --json lists all")
    places = "1 place is" if count == 1 else f"{count:,} places are"
    typer.echo(f"{places} filled in by SUBSTITUTE and ASSIGN")


def replacement_facts(application: Application) -> list[dict[str, Any]]:
    """Return the occurrences as plain values."""
    from zenturio.annotate.substitution import replacements

    return [
        {
            "parameter": replacement.parameter,
            "target": replacement.target,
            "file": replacement.place.file,
            "line": replacement.place.line,
            "column": replacement.place.column,
            "width": replacement.place.width,
            "context": replacement.context,
        }
        for replacement in replacements(application.files)
    ]


def _print(replacement: Replacement, *, in_colour: bool) -> None:
    from zenturio.annotate.substitution import ASSIGNMENT
    from zenturio.errors import Diagnostic

    context = (
        replacement.context if replacement.context == ASSIGNMENT else f"in {replacement.context}"
    )
    message = f"{replacement.parameter}, {context}"
    # A diagnostic ends with the line and the marks below it: on a terminal the occurrence is
    # marked in the line instead.
    head, line, carets = str(Diagnostic(message, replacement.place)).rsplit("\n", 2)
    if not in_colour:
        typer.echo(f"{head}\n{line}\n{carets}")
        return
    start, end = carets.index("^"), carets.rindex("^") + 1
    typer.echo(f"{head}\n{line[:start]}", nl=False)
    safe_streams.styled(line[start:end], "reverse")
    typer.echo(line[end:])


_SHOWN_NAMES = 50
"""Names of each sort that are printed."""


@dataclass(frozen=True)
class Traced:
    """A trace, the directives that declare what it found, and where they were written."""

    trace: Trace
    directives: list[str]
    written_to: Path | None

    @staticmethod
    def of(application: Application, *, fix: bool) -> Traced:
        """Trace the first point; with *fix*, declare what it used in the file of the first RUN."""
        from zenturio.study.used_files import declare, declaring_folder, trace

        with output.waiting("tracing"):
            trace_result = trace(application)
        bodies = trace_result.directives(declaring_folder(application))
        path = declare(application, bodies) if fix and bodies else None
        return Traced(trace_result, bodies, path)

    def facts(self) -> dict[str, Any]:
        written_to = str(self.written_to) if self.written_to else None
        return {**asdict(self.trace), "directives": self.directives, "written_to": written_to}

    def lines(self) -> Iterator[str]:
        trace = self.trace
        if trace.exit:
            yield f"the traced experiment failed: exit {trace.exit}; it may have used less"
            yield from (f"  {line}" for line in trace.output.splitlines())
        if trace.is_partial:
            yield "a process of another architecture ran: what it used is not known"
        for title, names in (
            ("used, but not declared", (*trace.programs, *trace.files)),
            ("written outside of its folder", trace.written),
        ):
            if names:
                yield f"{title}:"
                yield from (f"  {name}" for name in names[:_SHOWN_NAMES])
            if len(names) > _SHOWN_NAMES:
                yield f"  ... and {len(names) - _SHOWN_NAMES:,} more: --json lists all"
        yield f"{trace.system:,} files of the system and of programs' installations were read"
        if self.written_to:
            directives = quantities.amount(len(self.directives), "directive")
            yield f"wrote {directives} into {self.written_to}"
        elif self.directives:
            yield "declare them (or let --fix write it):"
            yield from (f"  ZEN$ {body}" for body in self.directives[:_SHOWN_NAMES])
