"""Compiled inner loops of searches, on bare arrays; they import nothing of ours.

Numba keeps compiled code beside the sources, or in the user's cache folder. Where neither can be
written (an installation of root's, a service without a home) it refuses to begin, unless it is told
of a folder: then the code goes to the system's folder for temporary files.
"""

import os
import stat
import tempfile
from importlib.util import find_spec
from pathlib import Path


def temporary_code_folder(parent: Path) -> Path:
    """Return a folder below *parent* that is this user's alone, the same one each time if possible.

    What lies in it is executed, so a folder that somebody else could have filled is not taken.
    """
    folder = parent / f"zenturio-compiled-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        status = folder.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if not is_own or status.st_mode & 0o077:
            return Path(tempfile.mkdtemp(prefix="zenturio-compiled-", dir=parent))
    return folder


def can_write(folder: Path) -> bool:
    """Return whether a file can be made in *folder*, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose_code_folder() -> None:
    if "NUMBA_CACHE_DIR" in os.environ or can_write(Path(__file__).parent / "__pycache__"):
        return
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    except RuntimeError:  # a user without a home
        caches = Path("/nonexistent")
    if not can_write(caches / "numba"):
        from numba import config  # noqa: PLC0415 - half a second; a kernel loads it next

        folder = temporary_code_folder(Path(tempfile.gettempdir()))
        vars(config)["CACHE_DIR"] = str(folder)


if find_spec("numba") is not None:
    _choose_code_folder()
