"""The entry point of ``zen``: calls the verbs, turns errors into messages and exit codes."""

import gc
import logging
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import typer

from zenturio.cli import logging_options, safe_streams
from zenturio.cli.verbs import Verbs
from zenturio.errors import Diagnostic, ZenError

_log = logging.getLogger(__name__)
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


def _version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"zenturio {version('zenturio')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(  # noqa: ARG001 - its callback does it
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
    verbose: int = typer.Option(
        0, "--verbose", "-v", count=True, show_default=False, help=logging_options.VERBOSE_HELP
    ),
    log_file: Path | None = typer.Option(
        None, "--log-file", metavar="FILE", help=logging_options.FILE_HELP
    ),
) -> None:
    logging_options.set_verbosity(verbose)
    logging_options.set_file(log_file)


def main() -> None:
    """Run the command line; never returns."""
    # Verbs load much, and make many values that live on: to look for cycles among these after
    # every 700 of them is a twentieth of all time, and a single look at them another one.
    gc.set_threshold(100_000)
    # Sizes of spaces are exact, and have as many digits as they have.
    sys.set_int_max_str_digits(0)
    safe_streams.guard()
    code: int | None
    try:
        logging_options.begin(sys.argv[1:])
        with _work_shown():
            try:
                app()
                code = 0
            except SystemExit as request:
                code = request.code if isinstance(request.code, int) else int(bool(request.code))
        if error := safe_streams.output_error():
            typer.echo(f"the output cannot be written: {error.strerror}", err=True)
            code = code or 4
    except BaseException as error:
        code = _explain(error)
        if code is None:
            _log.info("unforeseen error", exc_info=True)
            typer.echo("this is a fault of zenturio: please attach `zen bugreport`", err=True)
            raise
    logging_options.end(code)
    safe_streams.note_redirected_files()
    # The interpreter looks for cycles among all that is loaded once more before it exits: a tenth
    # of the time of a short command, for memory that the system takes back anyway.
    gc.freeze()
    sys.exit(code)


def _work_shown() -> AbstractContextManager[None]:
    """Return a context that shows the progress of long work; on a pipe it loads nothing."""
    if not safe_streams.is_moving(sys.stderr):
        return nullcontext()
    from zenturio.cli.output import work_shown

    return work_shown()


def _explain(error: BaseException) -> int | None:
    """Print what is wrong, and return the exit code; None for an unforeseen *error*."""
    match error:
        case ZenError():
            sys.stdout.flush()
            for diagnostic in error.diagnostics:
                _log.info("%s", diagnostic.message)
                typer.echo(str(diagnostic), err=True)
            return error.exit_code
        case KeyboardInterrupt():
            return 130
        case SystemExit():  # the last words found no reader
            return error.code if isinstance(error.code, int) else 1
        case MemoryError():
            typer.echo("there is not enough memory for this: ask for less of it", err=True)
            return 4
    diagnostics = _damage()
    for diagnostic in diagnostics:
        typer.echo(str(diagnostic), err=True)
    return 4 if diagnostics else None


def _damage() -> tuple[Diagnostic, ...]:
    """Return the cause of an unexpected error, if it is values of the database that zenturio did
    not write.
    """
    if "zenturio.record.database" not in sys.modules:
        return ()
    from zenturio.record.consistency_check import damage_of_opened_files

    return damage_of_opened_files()
