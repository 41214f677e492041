"""The verbs of searching: engines, best, tune."""

from typing import TYPE_CHECKING, Annotated

import typer

from zenturio.cli import output
from zenturio.cli.answer import All, OfMachine, OfRound
from zenturio.cli.options import Database, Json
from zenturio.cli.tune import tune

if TYPE_CHECKING:
    from zenturio.search import Setting
    from zenturio.study.best_points import ScoredPoint


def add_to(app: typer.Typer) -> None:
    """Put the verbs of this file into *app*."""
    app.command()(engines)
    app.command()(best)
    app.command()(tune)


def engines(
    engine: Annotated[str | None, typer.Argument(help="One of them, with its settings.")] = None,
    json: Json = False,
) -> None:
    """List the search engines and their settings.

    Examples: zen engines; zen engines ga
    """
    from dataclasses import asdict

    from zenturio.search import describe, names

    found = [describe(name) for name in ([engine] if engine else names())]
    if json:
        output.facts([asdict(each) for each in found])
    elif engine is None:
        rows = [(e.name, "multi_objective" if e.multi_objective else "one", e.about) for e in found]
        output.table(("engine", "goals", "what it does"), rows)
        typer.echo("\nsettings of one: zen engines NAME; a search: zen run FILE --search NAME")
    else:
        typer.echo(f"{found[0].name}: {found[0].about}\n")
        settings = found[0].settings
        output.table(
            ("setting", "type", "default", "what it is"),
            [(s.name, output.kind(s), _default(s), s.help) for s in settings],
        )


def _default(setting: "Setting") -> str:
    from zenturio.settings.schema import AUTO

    return AUTO if setting.optional and setting.default is None else output.number(setting.default)


def best(
    study: Annotated[str, typer.Argument(help="The study.")],
    count: Annotated[int, typer.Option("-n", min=1, help="How many points.")] = 1,
    objective: Annotated[
        str, typer.Option(metavar="'MINIMIZE expr'", help="The goal, if not the study's.")
    ] = "",
    outside: All = False,
    machine: OfMachine = "",
    round_: OfRound = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """Show the best points of a study.

    Points are ranked for each kind of machine by itself. Repeats count as their mean: used of
    them have a number for the goal, ok of them succeeded, tried of them ran to an end. Of several
    goals, the Pareto front is shown.

    Example: zen best matmul -n 5
    """
    from zenturio.query.present import digests_outside, left_out_notes
    from zenturio.query.result_table import display_rows
    from zenturio.record.row_filter import RowChoice, read_round
    from zenturio.study.best_points import best as best_of
    from zenturio.study.overview import opened_repository

    with opened_repository(db) as repository:
        without = frozenset() if outside else digests_outside(repository, study)
        rows = RowChoice(machine, read_round(round_))
        found = best_of(repository, study, count, objective, without=without, rows=rows)
    if json:
        output.facts(
            [
                {
                    "parameters": dict(each.values),
                    "scores": dict(each.scores),
                    "used": each.used,
                    "ok": each.ok,
                    "tried": each.tried,
                    "left_out": found.outside,
                    "machine": each.machine.label if each.machine else None,
                    "round": each.round,
                }
                for each in found.points
            ]
        )
        return
    apart = []
    if len(found.machines) > 1:
        apart.append("machine")
    if any(point.round is not None for point in found.points) and len(found.rounds) > 1:
        apart.append("round")
    names = list(found.points[0].values) if found.points else []
    goals = list(found.points[0].scores) if found.points else []
    lines = [
        (*p.values.values(), *p.scores.values(), p.used, p.ok, p.tried, *_origin(p, apart))
        for p in found.points
    ]
    heads = (*names, *goals, "used", "ok", "tried", *apart)
    output.table(
        heads, display_rows(lines), right="l" * len(names) + "r" * (len(heads) - len(names))
    )
    typer.echo(f"\n{len(found.points):,} of {found.of:,} points: {found.words}")
    for note in (*found.notes, *left_out_notes(found.outside)):
        typer.echo(note)


def _origin(point: "ScoredPoint", names: list[str]) -> list[object]:
    """What tells apart the rows of a point that several machines or rounds have measured."""
    known = {"machine": point.machine.label if point.machine else "", "round": point.round}
    return [known[name] for name in names]
