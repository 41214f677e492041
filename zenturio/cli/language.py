"""The verbs of the language: check, space, expand, init."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output

if TYPE_CHECKING:
    from zenturio.annotate import Application
    from zenturio.errors import Complaint

LISTED = 1000
"""Values of a parameter that ``zen space --json`` lists at most; its size is always exact."""

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Annotated files, or a folder that is an application."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-P", "--param", metavar="NAME={SET}", help="Replace a parameter's set, or add a parameter."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")]


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(check)
    app.command()(space)
    app.command()(expand)
    app.command()(init)


def check(paths: Paths, param: Overrides = None, json: Json = False) -> None:
    """Look for mistakes in the directives, sure ones and likely ones.

    Examples: zen check matmul.c; zen check . --json
    """
    from zenturio.annotate import lint, scan
    from zenturio.errors import InputError

    application = None
    try:
        application = scan(paths, overrides=param or [])
        complaints = (*application.warnings, *lint(application))
    except InputError as error:
        complaints = error.complaints
    if json:
        output.facts({"ok": application is not None, "complaints": [_said(c) for c in complaints]})
    else:
        for complaint in complaints:
            typer.echo(str(complaint))
    if application is None:
        raise typer.Exit(2)
    if not json:
        warnings = f"{len(complaints)} warnings" if complaints else "nothing to complain of"
        typer.echo(f"{application.name}: {_points(application)}, {warnings}")


def space(paths: Paths, param: Overrides = None, json: Json = False) -> None:
    """Show the space that the directives span: parameters, constraints, sizes, three points.

    Examples: zen space matmul.c; zen space . -P 'n={1,2}' --json
    """
    from zenturio.annotate import scan

    application = scan(paths, overrides=param or [])
    if json:
        output.facts(_space_facts(application))
    else:
        _warn(application)
        _print_space(application)


def expand(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write into.")],
    limit: Annotated[int | None, typer.Option(min=0, help="Only the first N points.")] = None,
    sample: Annotated[int | None, typer.Option(min=0, help="N points drawn at random.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of --sample.")] = 0,
    index: Annotated[int | None, typer.Option(min=0, help="Only the point of this number.")] = None,
    param: Overrides = None,
    json: Json = False,
) -> None:
    """Write the files of each experiment into a folder named by its digest, and a manifest.

    Examples: zen expand matmul.c --out runs; zen expand . -o runs --sample 10 --seed 7
    """
    from zenturio.annotate import scan
    from zenturio.study.expand import choose, expand

    application = scan(paths, overrides=param or [])
    points = choose(application, limit=limit, sample=sample, seed=seed, index=index)
    with output.progress("expanding", points.count * application.repeat.count) as step:
        written = expand(application, points, out, step)
    manifest = out / "manifest.jsonl"
    if json:
        output.facts({"out": str(out), "experiments": written, "manifest": str(manifest)})
    else:
        _warn(application)
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


def _said(complaint: "Complaint") -> dict[str, Any]:
    place = complaint.place
    return {
        "severity": complaint.severity,
        "message": complaint.message,
        "cure": complaint.cure,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }


def _warn(application: "Application") -> None:
    for complaint in application.warnings:
        typer.echo(str(complaint), err=True)


def _points(application: "Application") -> str:
    found = application.space
    if not found.finite:
        return "a continuous space, for search engines"
    times = application.repeat.count
    runs = f", {output.count(found.size * times)} experiments" if times > 1 else ""
    return f"{output.count(found.size)} points{runs}"


def _space_facts(application: "Application") -> dict[str, Any]:
    found = application.space
    removed = found.costs() if found.finite else [None] * len(found.constraints)
    return {
        "study": application.name,
        "parameters": [
            {
                "name": each.name,
                "kind": each.kind,
                "type": each.domain.type,
                "unit": each.unit,
                "size": each.domain.size if each.domain.finite else None,
                "values": _values(each.domain, LISTED),
                "when": each.when.text if each.when else None,
            }
            for each in found.dimensions
        ],
        "derived": [
            {"name": each.name, "kind": each.kind, "unit": each.unit, "formula": each.derived.text}
            for each in found.parameters
            if each.derived is not None
        ],
        "cartesian": found.cartesian if found.finite else None,
        "size": found.size if found.finite else None,
        "repeat": application.repeat.count,
        "constraints": [
            {"text": str(each), "kind": "index" if hasattr(each, "names_in_step") else "value"}
            | {"removes": cost}
            for each, cost in zip(found.constraints, removed, strict=True)
        ],
        "metrics": [
            {"name": m.name, "unit": m.unit, "source": m.source or None, "optional": m.optional}
            for m in application.metrics
        ],
        "objectives": [
            {"direction": goal.direction, "expression": goal.expression.text}
            for goal in application.goals
        ],
        "samples": [dict(point) for point in found.sample(3, 0)],
    }


def _values(domain: Any, most: int) -> list[Any]:
    if not domain.finite:
        return []
    return [domain.value(i) for i in range(min(domain.size, most))]


def _print_space(application: "Application") -> None:
    found = application.space
    output.table(
        ("parameter", "kind", "size", "values"),
        [
            (p.name, p.kind, output.count(p.domain.size) if p.domain.finite else "-", _shown(p))
            for p in found.dimensions
        ]
        + [(p.name, "derived", "", f":= {p.derived.text}") for p in found.parameters if p.derived],
        right="llr",
    )
    if not found.finite:
        typer.echo("\ncontinuous: a search engine draws its points (zen run --search)")
    else:
        if found.constraints:
            typer.echo()
            rows = zip(found.constraints, found.costs(), strict=True)
            output.table(
                ("constraint", "takes away"),
                [(str(each), output.count(cost)) for each, cost in rows],
                right="lr",
            )
            typer.echo(f"\n{output.count(found.cartesian)} combinations, {_points(application)}")
        else:
            typer.echo(f"\n{_points(application)}")
    for metric in application.metrics:
        unit = f" [{metric.unit}]" if metric.unit else ""
        origin = f"from {metric.source}" if metric.source else f":= {metric.formula}"
        typer.echo(f"metric {metric.name}{unit} {origin}")
    for goal in application.goals:
        typer.echo(f"objective: {goal.direction} {goal.expression.text}")
    samples = found.sample(3, 0)
    if samples:
        typer.echo("\nthree of them:" if len(samples) == 3 else "\nthe points:")
        for point in samples:
            number = f"#{found.index(point)}" if found.finite else "-"
            typer.echo(f"  {number}  " + "  ".join(f"{k}={_text(point, k)}" for k in point))


def _shown(parameter: Any, width: int = 60) -> str:
    """The first values, as many as a line holds, and the last."""
    domain = parameter.domain
    unit = f" {parameter.unit}" if parameter.unit else ""
    if not domain.finite:
        return f"{domain}{unit}"
    shown: list[str] = []
    for i in range(min(domain.size, 12)):
        shown.append(domain.text(i) or '""')
        if sum(map(len, shown)) + 2 * len(shown) > width:
            break
    if len(shown) < domain.size:
        shown += ["...", domain.text(domain.size - 1)]
    return ", ".join(shown) + unit


def _text(point: Any, name: str) -> str:
    return "-" if point[name] is None else point.text(name) or '""'
