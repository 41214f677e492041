"""Accounts of this machine that a test creates, and programs that they may run."""

import secrets
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import contextmanager
from pathlib import Path

from needs import needs

SOURCES = Path(__file__).parents[1]


@contextmanager
def accounts(*names):
    """Accounts of this machine with homes, by the names that the page has for them."""
    made = {name: f"zen-{name}-{secrets.token_hex(3)}" for name in names}
    try:
        for account in made.values():
            subprocess.run(["useradd", "--create-home", account], check=True)
        yield made
    finally:
        for account in made.values():
            subprocess.run(["userdel", "--remove", account], check=False, capture_output=True)


@contextmanager
def group_of(*members):
    """A group with these accounts in it."""
    name = f"zen-{secrets.token_hex(4)}"
    subprocess.run(["groupadd", name], check=True)
    try:
        for member in members:
            subprocess.run(["usermod", "--append", "--groups", name, member], check=True)
        yield name
    finally:
        subprocess.run(["groupdel", name], check=False, capture_output=True)


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
