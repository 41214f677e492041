"""Commands that are told can be pasted."""

import pytest

from zenturio.cli.output import command_for_failed, command_to_type


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("run a.c", "zen run a.c --only failed"),
        ("run a.c --only missing -j 2", "zen run a.c -j 2 --only failed"),
        ("run --only=failed a.c --name b", "zen run a.c --name b --only failed"),
        ("run a.c --db b.db", "zen run a.c --db b.db --only failed"),
        (
            "run a.c --db=postgresql://me:s3cret@h/d",
            "zen run a.c '--db=postgresql://me:***@h/d' --only failed",
        ),
        (
            "run a.c --db postgresql://me:s3cret@h/d",
            "zen run a.c --db 'postgresql://me:***@h/d' --only failed",
        ),
    ],
)
def test_the_command_for_the_failed_ones_keeps_what_was_given(given, told):
    assert command_for_failed(given.split()) == told


def test_words_are_quoted_for_the_shell():
    assert command_for_failed(["run", "a b.c", "-P", "k={1,2}"]) == (
        "zen run 'a b.c' -P 'k={1,2}' --only failed"
    )


def test_the_database_is_named_where_the_environment_does_not(monkeypatch):
    monkeypatch.delenv("ZENTURIO_DB", raising=False)
    assert (
        command_to_type("results", "a b")
        == command_to_type("results", "a b", db="")
        == "zen results 'a b'"
    )
    assert command_to_type("results", "a", db="x.db") == "zen results a --db x.db"
    monkeypatch.setenv("ZENTURIO_DB", "x.db")
    assert command_to_type("results", "a", db="x.db") == "zen results a"
