"""The verbs of the language: check, space, expand, init."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output, replaced, spaces
from zenturio.cli.options import Json, Limit, Overrides, Paths, Sample, Trust

if TYPE_CHECKING:
    from zenturio.annotate.model import Application
    from zenturio.errors import Diagnostic

SHOWN = 100
"""Diagnostics that are printed at most; as JSON, all are."""

COUNTING = 10.0
"""Seconds that ``zen check`` counts the points."""

Within = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long the points may be counted.")
]


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(check)
    app.command()(space)
    app.command()(expand)
    app.command()(init)


def check(
    paths: Paths,
    param: Overrides = None,
    show: Annotated[
        bool, typer.Option("--show", help="Show each place that values are put in.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Run one point, and list what it uses (Linux).")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write USE for what the trace found into the file.")
    ] = False,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Check the directives for mistakes.

    Sure mistakes are errors, likely ones are warnings; all are told at once. Experiments are made
    for a part of the points, as zen run makes them: what it would refuse is an error. Nothing is
    executed, but with --trace: it runs the first point in a folder that is thrown away, and lists
    the files and programs that it used outside of what is declared, and what it wrote elsewhere.

    Examples: zen check matmul.c; zen check . --json; zen check matmul.c --show; zen check . --trace
    --fix
    """
    from zenturio.annotate.commands import undeclared_programs
    from zenturio.cli import tracing
    from zenturio.errors import InputError

    if fix and not trace:
        raise InputError("--fix writes what --trace finds", hint="give both: --trace --fix")
    application, diagnostics = _checked(paths, param or [])
    left_out = application.left_out if application else ()
    undeclared = undeclared_programs(application) if application else {}
    traced = tracing.Traced.of(application, fix=fix) if trace and application else None
    if json:
        said = [_said(diagnostic) for diagnostic in diagnostics]
        facts = {
            "ok": application is not None,
            "diagnostics": said,
            "left_out": left_out,
            "undeclared": {word: str(path) for word, path in undeclared.items()},
        }
        if show and application is not None:
            facts["replacements"] = replaced.facts(application)
        if traced is not None:
            facts["trace"] = traced.facts()
        output.facts(facts)
    else:
        if show and application is not None:
            replaced.show(application, in_colour=sys.stdout.isatty())
        _tell(diagnostics)
        _tell_left_out(left_out)
        if traced is None:
            _tell_undeclared(list(undeclared))
        else:
            typer.echo("\n".join(traced.lines()))
    if application is None:
        raise typer.Exit(2)
    if not json:
        number = len(diagnostics)
        told = f"{number} warning{'s' * (number > 1)}" if number else "nothing to complain of"
        points = spaces.points(application, spaces.size(application.space, COUNTING))
        typer.echo(f"{application.name}: {points}, {told}")


def _checked(
    paths: "Sequence[str | Path]", overrides: "Sequence[str]"
) -> "tuple[Application | None, tuple[Diagnostic, ...]]":
    """The application, unless it is wrong or a run would refuse it, and all diagnostics."""
    from zenturio.annotate.lint import lint
    from zenturio.annotate.scan import scan
    from zenturio.errors import InputError
    from zenturio.study.driver.refusals import doubtful_formulas, refusals
    from zenturio.study.stages.stage_graph import stages_of

    try:
        application = scan(paths, overrides=overrides)
        diagnostics = tuple(dict.fromkeys((*application.warnings, *lint(application))))
        stages = [stage.application for stage in stages_of(application)]
    except InputError as error:
        return None, error.diagnostics
    refused = tuple(dict.fromkeys(c for stage in stages for c in refusals(stage)))
    diagnostics += tuple(c for stage in stages for c in doubtful_formulas(stage))
    if not refused:
        return application, diagnostics
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

    Every parameter with its values, every constraint with what it takes away. What cannot be
    counted in time is shown as unknown.

    Examples: zen space matmul.c; zen space . -P 'n={1,2}' --json
    """
    from zenturio.annotate.scan import scan

    application = scan(paths, overrides=param or [])
    if json:
        output.facts(spaces.facts(application, within))
    else:
        _tell(application.warnings, err=True)
        spaces.show(application, within)


def expand(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write into.")],
    limit: Limit = None,
    sample: Sample = None,
    seed: Annotated[int, typer.Option(help="Seed of --sample.")] = 0,
    index: Annotated[int | None, typer.Option(min=0, help="Only the point of this number.")] = None,
    param: Overrides = None,
    trust: Trust = False,  # noqa: ARG001 - its callback does it
    json: Json = False,
) -> None:
    """Write the files of each experiment into a folder of its own.

    The folders are named by the experiments' digests; manifest.jsonl lists them.

    Examples: zen expand matmul.c --out runs; zen expand . -o runs --sample 10 --seed 7
    """
    from zenturio.annotate.scan import scan
    from zenturio.study.expand import expand
    from zenturio.study.point_selection import select_points

    application = scan(paths, overrides=param or [])
    points = select_points(application.space, limit=limit, sample=sample, seed=seed, index=index)
    with output.progress("expanding", points.count * application.repeat.count) as step:
        written = expand(application, points, out, step)
    manifest = out / "manifest.jsonl"
    if json:
        output.facts({"out": str(out), "experiments": written, "manifest": str(manifest)})
    else:
        _tell(application.warnings, err=True)
        typer.echo(f"{written:,} experiments in {out}, listed in {manifest}")


def init(
    language: Annotated[
        str | None, typer.Argument(help="The language; without it, those there are.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write.")] = None,
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


def _tell_left_out(names: "Sequence[str]") -> None:
    """Print which files are no part of the experiments: that may have been forged."""
    if names:
        more = [f"and {len(names) - SHOWN:,} more"] if len(names) > SHOWN else []
        listed = ", ".join([*names[:SHOWN], *more])
        typer.echo(f"left out, as zen wrote them: {listed}")
        typer.echo("  a file that is edited, or declared with USE FILE, is an input again")


def _tell_undeclared(words: "Sequence[str]") -> None:
    """Print which programs a change of which makes no other experiment."""
    if words:
        quoted = ", ".join(f'"{word}"' for word in words)
        typer.echo(f"not declared: {', '.join(words)}; an update of it is no other experiment")
        typer.echo(f"  ZEN$ USE PROGRAM {quoted} makes what it is part of each experiment")


def _said(diagnostic: "Diagnostic") -> dict[str, Any]:
    place = diagnostic.place
    return {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }


def _tell(diagnostics: "Sequence[Diagnostic]", *, err: bool = False) -> None:
    """Print diagnostics, and how many more there are."""
    for diagnostic in diagnostics[:SHOWN]:
        typer.echo(str(diagnostic), err=err)
    if len(diagnostics) > SHOWN:
        typer.echo(f"... and {len(diagnostics) - SHOWN:,} more: --json lists all", err=err)
