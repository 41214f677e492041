"""Accounts of this machine that a test creates, and programs that they may run."""

import fcntl
import secrets
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from needs import needs

SOURCES = Path(__file__).parents[1]


def _change(*command):
    """Change the list of accounts, when no test beside this one does."""
    with Path(tempfile.gettempdir(), "zen-accounts.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for _ in range(100):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if "cannot lock" not in done.stderr:
                break
            time.sleep(0.1)
    assert done.returncode in (0, 6, 12), done.stderr  # 6: is gone already; 12: its mail was not


@contextmanager
def accounts(*names):
    """Accounts of this machine with homes, by the names that the page has for them."""
    made = {name: f"zen-{name}-{secrets.token_hex(3)}" for name in names}
    try:
        for account in made.values():
            _change("useradd", "--create-home", account)
        yield made
    finally:
        for account in made.values():
            _change("userdel", "--force", "--remove", account)


@contextmanager
def group_of(*members):
    """A group with these accounts in it."""
    name = f"zen-{secrets.token_hex(4)}"
    _change("groupadd", name)
    try:
        for member in members:
            _change("usermod", "--append", "--groups", name, member)
        yield name
    finally:
        _change("groupdel", name)


@contextmanager
def zen_for_everybody():
    """A folder with a ``zen`` and a ``python`` that other accounts may run.

    Ours may lie in root's home.
    """
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    needs(python)
    packages = sysconfig.get_path("purelib")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for program, options in (("zen", " -m zenturio"), ("python", "")):
            script = folder / program
            script.write_text(
                f'#!/bin/sh\nPYTHONPATH={SOURCES}:{packages} exec {python}{options} "$@"\n'
            )
            script.chmod(0o755)
        yield folder
