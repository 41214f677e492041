"""The door: puts the verbs together, and turns every error into words and an exit code."""

import gc
import os
import sys

import typer

from zenturio.cli import terminal
from zenturio.cli.verbs import Verbs
from zenturio.errors import Diagnostic, ZenError

app = typer.Typer(
    name="zen",
    cls=Verbs,
    help="Parameter studies written as comments: run them anywhere, remember everything.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: zen init python; zen space first.py. Each verb has --help with examples.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"zenturio {version('zenturio')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line; never returns."""
    # Verbs load much, and make many values that live on: to look for cycles among these after
    # every 700 of them is a twentieth of all time.
    gc.set_threshold(50_000)
    # Sizes of spaces are exact, and have as many digits as they have.
    sys.set_int_max_str_digits(0)
    terminal.guard()
    try:
        app()
    except ZenError as error:
        sys.stdout.flush()
        for diagnostic in error.diagnostics:
            typer.echo(str(diagnostic), err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Who reads has gone (`zen space ... | head`): nothing more is to be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError:
        typer.echo("there is not enough memory for this: ask for less of it", err=True)
        sys.exit(4)
    except Exception:
        diagnostics = _damage()
        if not diagnostics:
            raise
        for diagnostic in diagnostics:
            typer.echo(str(diagnostic), err=True)
        sys.exit(4)


def _damage() -> tuple[Diagnostic, ...]:
    """What explains an unforeseen error: values of a database that no program of ours wrote."""
    if "zenturio.record.database" not in sys.modules:
        return ()
    from zenturio.record.damage import damage

    return damage()
