"""Kernels are compiled also where neither the installation nor a home can be written."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from unprivileged import NOBODY, unprivileged
from zenturio.search.kernels import can_write, temporary_code_folder

COMPILE = """\
import sys, tempfile
from pathlib import Path
tempfile.tempdir = sys.argv[1]
real = Path.mkdir
def refuse(self, *args, **options):
    if self.name in ("__pycache__", "numba"):
        raise PermissionError(13, "Permission denied")
    real(self, *args, **options)
Path.mkdir = refuse
from zenturio.search.kernels import rng
print(rng.__name__)
from numba import config
print(config.CACHE_DIR)
"""


def test_compiled_code_goes_to_a_temporary_folder_where_nothing_else_can_be_written(tmp_path):
    environment = {n: v for n, v in os.environ.items() if n != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(tmp_path)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [
        "zenturio.search.kernels.rng",
        str(tmp_path / f"zenturio-compiled-{os.getuid()}"),
    ]


def test_the_folder_is_the_user_s_alone_and_stays(tmp_path):
    folder = temporary_code_folder(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert temporary_code_folder(tmp_path) == folder


@pytest.mark.parametrize("change", ["open to others", "a link", "somebody else's"])
def test_a_folder_that_others_could_have_filled_is_not_taken(tmp_path, change):
    folder = tmp_path / f"zenturio-compiled-{os.getuid()}"
    if change == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif change == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif os.getuid() == 0:
        folder.mkdir(mode=0o700)
        os.chown(folder, NOBODY, NOBODY)
    else:
        pytest.skip("only root can give a folder away")
    chosen = temporary_code_folder(tmp_path)
    assert chosen != folder
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_written_is_noticed(tmp_path):
    assert can_write(tmp_path / "new" / "numba")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    with unprivileged():
        assert not can_write(closed)
        assert not can_write(Path("/nonexistent/.cache/numba"))
