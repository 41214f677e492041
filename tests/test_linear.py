"""What reads bytes that experiments wrote takes time in line with their number.

A pattern of Python's re may go back and forth for ever, with the interpreter's lock held, and
whoever wrote the bytes chooses how often. RE2 and plain scanning do not.
"""

import ast
from pathlib import Path

import pytest

from zenturio.errors import did_you_mean
from zenturio.experiment.metrics import parse_value

PACKAGE = Path(__file__).parent.parent / "zenturio"
READERS = (
    "experiment/experiment.py", "experiment/metrics.py",
    "execute/spawn.py", "execute/local_runner.py",
    "show/portal", "study/overview.py", "study/log_follower.py",
)  # fmt: skip
"""Packages and modules that see output, artifacts and metrics as the experiment left them."""


def modules():
    for reader in READERS:
        path = PACKAGE / reader
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def imports(module):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("module", list(modules()), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_reads_bytes_of_experiments_has_no_pattern_that_goes_back(module):
    assert not {"re", "fnmatch", "sre_compile", "regex"} & set(imports(module))


def test_a_long_number_that_is_none_is_text_at_once():
    for raw in (b"1" * 1_000_000 + b"x", b"1" * 1_000_000 + b"d", b"-" * 1_000_000):
        assert parse_value(raw) == raw.decode()


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b"1.5D+03", 1500.0), (b" -.5d-1 ", -0.05), (b"+2.d0", 2.0), (b"1D3", 1000.0)],
)
def test_a_real_of_fortran_is_a_number(raw, value):
    assert parse_value(raw) == value


@pytest.mark.parametrize("raw", [b".d1", b"1d", b"d1", b"1d1d1", b"1.2.3d1", b"--1d1", b"1d+-1"])
def test_what_is_nearly_a_real_of_fortran_is_text(raw):
    assert parse_value(raw) == raw.decode()


def test_a_hint_compares_no_text_that_is_too_long_for_a_name():
    """The nearest of names takes the product of their lengths."""
    long = "ab" * 10_000_000
    assert did_you_mean(long, ["threads", long]) == "there is: threads"
    assert did_you_mean("thread", ["threads", long]) == "did you mean 'threads'?"
