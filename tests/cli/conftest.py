"""The command line as a user has it: a process with arguments, two streams and an exit code."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import loaded


@dataclass(frozen=True)
class Told:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        return json.loads(self.out)


def zen(*arguments: object, cwd: Path, code: int | None = 0) -> Told:
    """Run ``zen`` with *arguments*; fail where it does not end with *code*."""
    done = loaded.zen(*arguments, cwd=cwd)
    told = Told(done.returncode, done.stdout, done.stderr)
    assert code is None or told.code == code, told
    return told


@pytest.fixture
def study(tmp_path):
    """A small study in Python, in a folder of its own."""
    path = tmp_path / "small.py"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of the small study, run to its end; nobody changes it."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.py").write_text(SMALL)
    zen("run", "small.py", "-j", 2, cwd=folder)
    return folder


@pytest.fixture
def ran(finished, study):
    """The small study, run to its end: a copy, which takes a tenth of what the run takes."""
    shutil.copytree(finished, study.parent, dirs_exist_ok=True)
    return study


SMALL = """\
n = 1
#ZEN$ ASSIGN n = { 1:4 } UNIT "cells"
#ZEN$ SUBSTITUTE low = { low, high } AS level
level = "low"
#ZEN$ CONSTRAINT VALUE n < 4 or level == "high"
#ZEN$ RUN "python3 small.py" TIMEOUT 30s
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)" UNIT "J"
#ZEN$ OBJECTIVE MAXIMIZE total
print("total", n * 10)
"""
