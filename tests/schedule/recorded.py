"""Recorded graphs, traces and logs, which are not part of the project."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("DATA") or Path(__file__).parents[3] / "shared" / "data")


def recorded(pattern):
    """Return the files that match *pattern* in the folder $DATA.

    Skip the test if there are none, but fail it if $DATA is set: then they are expected.
    """
    files = sorted(DATA.glob(pattern))
    if files:
        return files
    if os.environ.get("DATA"):
        pytest.fail(f"DATA is {DATA}, and nothing there matches {pattern}")
    pytest.skip(f"no {pattern} in {DATA}: set DATA to a folder with the recorded files")
