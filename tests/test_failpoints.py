"""A failpoint ends the process where its name says, and nowhere else."""

import os
import signal
import subprocess
import sys

import pytest

from zenturio.failpoints import Failpoint, names

PASS = """
from zenturio.failpoints import Failpoint
a, b = Failpoint("test.a"), Failpoint("test.b")
for n in range(3):
    print(n, flush=True)
    a()
    b()
"""


@pytest.mark.parametrize(
    ("wanted", "passed"),
    [("test.a:1", 1), ("test.b:3", 3), ("test.b:4", None), ("test.c:1", None), ("test.a", None),
     ("test.a:0", None), ("test.a:x", None), ("", None)],
)  # fmt: skip
def test_the_process_ends_at_the_passing_that_was_asked_for(wanted, passed):
    environment = os.environ | {"ZENTURIO_FAILPOINT": wanted}
    done = subprocess.run(
        [sys.executable, "-c", PASS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == (0 if passed is None else -signal.SIGKILL)
    assert len(done.stdout.split()) == (passed or 3)


def test_a_name_is_declared_once():
    Failpoint("test.once")
    assert "test.once" in names()
    with pytest.raises(ValueError, match="declared twice"):
        Failpoint("test.once")
