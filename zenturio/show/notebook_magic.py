"""``%%zen``: an annotated program in a notebook cell, run as a study.

``%load_ext zenturio`` brings it. ``%%zen first.py`` keeps the cell as ``first.py`` below the
project's ``.zenturio/cells`` and runs that; the cell's value is the study.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from zenturio.errors import InputError, ZenError
from zenturio.files import make_folder, refuse_link, replace_whole
from zenturio.record.open import begin_project
from zenturio.show.study import Study, run
from zenturio.study.driver.progress import RunProgress

CELLS_FOLDER = "cells"
UPDATE_SECONDS = 0.25
"""Seconds between two checks how far a run is."""
_FILE_NAME = re.compile(r"\w[\w.-]{0,63}")


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext zenturio`` does."""
    shell.register_magic_function(lambda line, cell: cell_magic(shell, line, cell), "cell", "zen")


def cell_magic(shell: Any, line: str, cell: str) -> Study:
    """Run the *cell* as a study; a mistake is told in words, without a traceback."""
    from IPython.core.error import UsageError  # noqa: PLC0415 - there where a shell is
    from IPython.display import DisplayHandle  # noqa: PLC0415

    handle: Any = DisplayHandle()  # type: ignore[no-untyped-call] # IPython says no types
    handle.display({"text/plain": "..."}, raw=True)
    try:
        options = _parse_line(line)
        path = write_cell_file(options.file, cell)
        study = run(
            path,
            name=options.name,
            jobs=options.jobs,
            overrides=options.set,
            limit=options.limit,
            sample=options.sample,
            seed=options.seed,
            only=options.only,
            listener=_progress_display(handle),
        )
    except ZenError as error:
        handle.update({"text/plain": ""}, raw=True)
        raise UsageError(str(error)) from None
    summary = study.summary
    assert summary is not None, "a study that was run knows how that ended"
    handle.update({"text/plain": _summary_text(study)}, raw=True)
    if options.as_:
        shell.user_ns[options.as_] = study
    return study


def write_cell_file(name: str, cell: str) -> Path:
    """The cell as a file of the project, for programs are files."""
    if not _FILE_NAME.fullmatch(name):
        raise InputError(
            f"no cell can be called {name!r}", hint="a name without folders, such as first.py"
        )
    path = make_folder(begin_project(), CELLS_FOLDER) / name
    refuse_link(path)
    replace_whole(path, [cell.encode()])
    # Its RUN may start the file itself.
    path.chmod(0o755)
    return path


class _LineParser(argparse.ArgumentParser):
    """The rest of the line behind ``%%zen``."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"%%zen: {message}", hint=self.format_usage().strip())


def _parse_line(line: str) -> argparse.Namespace:
    """What is said beside the name of the file: some of the options of ``zen run``."""
    parser = _LineParser("%%zen", add_help=False, exit_on_error=False)
    parser.add_argument("file", nargs="?", default="cell.py")
    parser.add_argument("--as", dest="as_", metavar="NAME", default="")
    parser.add_argument("--name", default="")
    parser.add_argument("--jobs", "-j", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="'n = {1:3}'")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="missing")
    try:
        return parser.parse_args(_split_words(line))
    except argparse.ArgumentError as error:
        parser.error(str(error))


def _split_words(line: str) -> Sequence[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InputError(f"%%zen {line}: {error}") from None


def _progress_display(handle: Any) -> Callable[[RunProgress], None]:
    """Tells below the cell how far it is, now and then."""
    last_shown = [0.0]

    def tell(progress: RunProgress) -> None:
        if monotonic() - last_shown[0] >= UPDATE_SECONDS:
            last_shown[0] = monotonic()
            failed = f", {progress.failed:,} failed" if progress.failed else ""
            text = f"{progress.done:,} of {progress.total:,}{failed}"
            handle.update({"text/plain": text}, raw=True)

    return tell


def _summary_text(study: Study) -> str:
    summary = study.summary
    assert summary is not None
    causes = "; ".join(f"{failure.count:,} x {failure.cause}" for failure in summary.failures)
    failed = f", {summary.failed:,} failed ({causes})" if summary.failed else ""
    return f"{study.name}: {summary.ok:,} run, {summary.cached:,} cached{failed}"
