"""Options and arguments that several verbs share."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from zenturio import trust
from zenturio.errors import InputError

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Annotated files, or the folder of a program."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-P",
        "--param",
        metavar="NAME={SET}",
        help="Replace the set of a parameter, or add a parameter.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Act as the user whose token is in this file."),
]


def read_token(file: Path | None) -> str:
    """Return the token in a file of the user; empty without a file."""
    if file is None:
        return ""
    from zenturio.files import read_regular

    trust.check_owner(file, "file of a token")
    try:
        return read_regular(file, 1024).decode("utf-8", "surrogateescape").strip()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error


def _agree(yes: bool) -> bool:
    if yes:
        os.environ[trust.VARIABLE] = "1"
    return yes


def _use_work_folder(folder: str) -> str:
    if folder:
        os.environ["ZENTURIO_WORK"] = os.path.abspath(folder)  # noqa: PTH100 - a text stays one
    return folder


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_agree,
        help="Execute commands of settings and read files outside the project without asking.",
    ),
]
Work = Annotated[
    str,
    typer.Option(
        "--work",
        callback=_use_work_folder,
        metavar="DIR",
        help="Keep database, results and folders of experiments below this folder; default: the"
        " project's, or ZENTURIO_WORK.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--db", envvar="ZENTURIO_DB", metavar="PATH|URL", help="Database; default: the project's."
    ),
]

# Which points are run, and which of their experiments.
Limit = Annotated[int | None, typer.Option(min=0, help="Use the first N points only.")]
Sample = Annotated[int | None, typer.Option(min=0, help="Use N random points.")]
Engine = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help="Search with this engine instead of running all points; default: auto; see zen"
        " engines.",
    ),
]


DEFAULT_ENGINE = "auto"


class DefaultEngineCommand(TyperCommand):
    """A verb whose option ``--search`` may have no name behind it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the default engine behind each --search that has none."""
        named: list[str] = []
        for at, word in enumerate(args):
            named.append(word)
            if word == "--search" and (at + 1 == len(args) or args[at + 1].startswith("-")):
                named.append(DEFAULT_ENGINE)
        return super().parse_args(ctx, named)


Budget = Annotated[
    str,
    typer.Option(
        metavar="N|10min",
        help="Budget of a search: points, time or both. Without a search: time, spent on the "
        "points whose intervals are widest.",
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Stop a search early: target=12.5, stall=100 or stall=20%."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Setting of the search engine."),
]
LearnFrom = Annotated[
    str,
    typer.Option(
        metavar="STUDY",
        help="Let the search also use results of another version or machine, such as train@1.",
    ),
]
Ordered = Annotated[
    bool,
    typer.Option(
        "--ordered",
        help="Make a search propose the same points regardless of the order in which results "
        "arrive; each proposal can then use fewer results.",
    ),
]
Confirm = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Measure the leading points of a search again, with N runs of its budget, because "
        "the best of many noisy results is partly luck.",
    ),
]
Replay = Annotated[
    str,
    typer.Option(
        metavar="STUDY",
        help="Repeat the search of this study, such as train@1, with results arriving in the "
        "recorded order.",
    ),
]
Objective = Annotated[
    str, typer.Option(metavar="'MINIMIZE expr'", help="Objective; default: that of the file.")
]
Design = Annotated[
    str,
    typer.Option(
        metavar="KIND:N",
        help="Run the points of a design: lhs:200, sobol:256, saltelli:128, morris:10 (these four"
        " suit zen sensitivity), or covering:2, which has each pair of values at least once.",
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed of --sample, --design and --search.")]
Only = Annotated[
    str,
    typer.Option(
        metavar="failed,missing", help="Run failed experiments again, missing ones, or both."
    ),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again", help="Measure everything again in a new round; earlier results are kept."
    ),
]
Order = Annotated[
    str,
    typer.Option(
        metavar="blocks|random|sorted",
        help="Order of the experiments: all points once in random order, then again (blocks); "
        "all experiments in random order; or each point with all its repeats (sorted).",
    ),
]
Observe = Annotated[
    list[str] | None,
    typer.Option(
        "--observe",
        metavar="NAME",
        help="Report each change of state of an experiment to this observer; may be repeated.",
    ),
]
MachineKind = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="same|any",
        help="Use cached results of the same kind of machine only, or of any.",
    ),
]
EachMachine = Annotated[
    bool,
    typer.Option(
        "--each-machine", help="Run each experiment once on every kind of machine of the place."
    ),
]
Name = Annotated[str | None, typer.Option(help="Name of the study; default: that of the file.")]
