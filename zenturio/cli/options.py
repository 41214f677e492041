"""What several verbs are told in the same words."""

import os
from typing import Annotated

import typer

from zenturio import trust

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


def _agree(yes: bool) -> bool:
    if yes:
        os.environ[trust.VARIABLE] = "1"
    return yes


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_agree,
        help="Execute shell text of settings, and read files elsewhere, unasked.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--db", envvar="ZENTURIO_DB", metavar="PATH|URL", help="The database, if not the project's."
    ),
]

# Which points, and of which of them the experiments.
Limit = Annotated[int | None, typer.Option(min=0, help="Only the first N points.")]
Sample = Annotated[int | None, typer.Option(min=0, help="N points drawn at random.")]
Engine = Annotated[
    str, typer.Option(metavar="ENGINE", help="Search instead of running all: zen engines.")
]
Budget = Annotated[
    str, typer.Option(metavar="N|10min", help="What a search may spend: points, time, both.")
]
Stop = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="target=12.5, stall=100, stall=20%.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the engine."),
]
Objective = Annotated[
    str, typer.Option(metavar="'MINIMIZE expr'", help="The goal, if not the file's.")
]
Seed = Annotated[int, typer.Option(help="Seed of --sample and --search.")]
Only = Annotated[
    str, typer.Option(metavar="failed,missing", help="Run again what failed, run what is missing.")
]
Again = Annotated[
    bool,
    typer.Option("--again", help="Measure again what has results, beside them: another round."),
]
MachineKind = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="same|any",
        help="Whose results count as cached: of this kind of machine, or of any.",
    ),
]
EachMachine = Annotated[
    bool,
    typer.Option("--each-machine", help="Measure everything on each kind of machine of the place."),
]
Name = Annotated[str | None, typer.Option(help="The study's name, if not the file's.")]
