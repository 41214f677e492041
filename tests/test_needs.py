"""A test that needs a program is skipped without it, and fails where CI promises everything."""

import pytest

from needs import needs


@pytest.fixture
def path(monkeypatch, tmp_path):
    """A PATH that holds one program, called ``there``."""
    program = tmp_path / "there"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)


def test_a_program_that_is_there_lets_the_test_run(path):
    needs("there")


def test_a_missing_program_skips_the_test_and_says_which(path):
    with pytest.raises(pytest.skip.Exception, match=r"needs there and gone; .*: gone$"):
        needs("there", "gone")


def test_a_missing_program_fails_the_test_under_ci(path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not on the PATH: gone; CI=true promises"):
        needs("gone")


def test_ci_asks_nothing_of_a_program_that_is_there(path, monkeypatch):
    monkeypatch.setenv("CI", "true")
    needs("there")


def test_a_whole_module_can_be_skipped(path):
    with pytest.raises(pytest.skip.Exception) as skipped:
        needs("gone")
    assert skipped.value.allow_module_level
