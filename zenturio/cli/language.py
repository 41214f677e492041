"""The verbs of the language: check, space, expand, init."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zenturio.cli import output

if TYPE_CHECKING:
    from zenturio.annotate import Application
    from zenturio.errors import Complaint
    from zenturio.space import Domain, Parameter, Point, Space

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
        points = _points(application, _Sizes.of(application.space).size)
        typer.echo(f"{application.name}: {points}, {warnings}")


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
    from zenturio.study.choose import choose
    from zenturio.study.expand import expand

    application = scan(paths, overrides=param or [])
    points = choose(application.space, limit=limit, sample=sample, seed=seed, index=index)
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


def _points(application: "Application", size: int | None) -> str:
    if size is None:
        return "points that cannot be counted"
    times = application.repeat.count
    runs = f", {output.count(size * times)} experiments" if times > 1 else ""
    return f"{output.count(size)} point{'' if size == 1 else 's'}{runs}"


@dataclass(frozen=True)
class _Sizes:
    """What can be counted of a space; where it cannot, why."""

    cartesian: int | None = None
    size: int | None = None
    costs: tuple[int | None, ...] = ()
    why: str = ""

    @staticmethod
    def of(space: "Space") -> "_Sizes":
        from zenturio.errors import SpaceError

        try:
            costs = tuple(cost for _, cost in space.costs())
            return _Sizes(space.cartesian, space.size, costs)
        except SpaceError as error:
            return _Sizes(None, None, (None,) * len(space.constraints), str(error))


def _count(domain: "Domain") -> int | None:
    """How many elements a set has; none where that is no number, or depends on the point."""
    from zenturio.space import Continuous, Dependent

    return None if isinstance(domain, Continuous | Dependent) else domain.size


def _space_facts(application: "Application") -> dict[str, Any]:
    from zenturio.space import Zip

    found = application.space
    sizes = _Sizes.of(found)
    return {
        "study": application.name,
        "parameters": [
            {
                "name": each.name,
                "kind": each.kind,
                "type": domain.type,
                "unit": each.unit,
                "size": _count(domain),
                "values": _values(domain),
                "when": each.when.text if each.when else None,
            }
            for each, domain in _domains(found)
        ],
        "derived": [
            {"name": each.name, "kind": each.kind, "unit": each.unit, "formula": each.derived.text}
            for each in found.parameters
            if each.derived is not None
        ],
        "cartesian": sizes.cartesian,
        "size": sizes.size,
        "repeat": application.repeat.count,
        "constraints": [
            {
                "text": each.text,
                "kind": "index" if isinstance(each, Zip) else "value",
                "removes": cost,
            }
            for each, cost in zip(found.constraints, sizes.costs, strict=True)
        ],
        "metrics": [
            {
                "name": each.name,
                "unit": each.unit,
                "source": each.source or None,
                "formula": each.formula.text if each.formula else None,
                "optional": each.optional,
            }
            for each in application.metrics
        ],
        "objectives": [
            {"direction": goal.direction, "expression": goal.expression.text}
            for goal in application.goals
        ],
        "samples": [dict(point) for point in _samples(found, sizes)],
    }


def _domains(space: "Space") -> list[tuple["Parameter", "Domain"]]:
    return [(each, each.domain) for each in space.dimensions if each.domain is not None]


def _values(domain: "Domain") -> list[Any]:
    """The first values of a set, as many as are listed."""
    return [domain.value(i) for i in range(min(_count(domain) or 0, LISTED))]


def _samples(space: "Space", sizes: _Sizes) -> "list[Point]":
    if sizes.size is not None:
        return space.sample(min(3, sizes.size), 0)
    return space.sample(3, 0)


def _print_space(application: "Application") -> None:
    found = application.space
    sizes = _Sizes.of(found)
    rows: list[tuple[str, str, str, str]] = [
        (each.name, each.kind, _shown_size(domain), _shown(domain, each.unit))
        for each, domain in _domains(found)
    ]
    rows += [
        (each.name, "derived", "", f":= {each.derived.text}")
        for each in found.parameters
        if each.derived is not None
    ]
    output.table(("parameter", "kind", "size", "values"), rows, right="llr")
    if found.constraints:
        typer.echo()
        texts = [each.text for each in found.constraints]
        costs = ["?" if cost is None else output.count(cost) for cost in sizes.costs]
        output.table(("constraint", "takes away"), zip(texts, costs, strict=True), right="lr")
    typer.echo()
    if sizes.why:
        typer.echo(sizes.why)
    elif found.constraints and sizes.cartesian is not None:
        before = output.count(sizes.cartesian)
        typer.echo(f"{before} combinations, {_points(application, sizes.size)}")
    else:
        typer.echo(_points(application, sizes.size))
    _print_questions(application)
    samples = _samples(found, sizes)
    if samples:
        typer.echo(f"\n{len(samples)} of them:" if sizes.size != len(samples) else "\nall of them:")
    for point in samples:
        number = f"#{found.index(point)}  " if sizes.size is not None else ""
        typer.echo(f"  {number}" + "  ".join(f"{name}={_text(point, name)}" for name in point))


def _print_questions(application: "Application") -> None:
    """What is measured, and what is wanted."""
    for metric in application.metrics:
        unit = f" [{metric.unit}]" if metric.unit else ""
        formula = f":= {metric.formula.text}" if metric.formula else f"from {metric.source}"
        typer.echo(f"metric {metric.name}{unit} {formula}")
    for goal in application.goals:
        typer.echo(f"objective: {goal.direction} {goal.expression.text}")


def _shown_size(domain: "Domain") -> str:
    size = _count(domain)
    return "-" if size is None else output.count(size)


def _shown(domain: "Domain", unit: str, width: int = 60) -> str:
    """The first elements, as many as a line holds, and the last."""
    behind = f" {unit}" if unit else ""
    size = _count(domain)
    if size is None:
        return f"{domain}{behind}"
    shown: list[str] = []
    for i in range(min(size, 12)):
        if sum(map(len, shown)) + 2 * len(shown) > width:
            break
        shown.append(domain.text(i) or '""')
    if len(shown) < size:
        shown += ["...", domain.text(size - 1)]
    return ", ".join(shown) + behind


def _text(point: "Point", name: str) -> str:
    return "-" if point[name] is None else point.text(name) or '""'
