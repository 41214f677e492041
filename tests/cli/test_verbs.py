"""The table of verbs says what the verbs say themselves, and loads none of them."""

import json
import subprocess
import sys

import pytest
from typer.main import get_command

from zenturio.cli.main import app
from zenturio.cli.verbs import all_groups

LINES = {verb: line for verbs in all_groups().values() for verb, (_, line) in verbs.items()}


@pytest.mark.parametrize("verb", LINES)
def test_the_table_has_the_first_line_of_the_verbs_own_help(verb):
    command = get_command(app).commands[verb]
    assert command.help.strip().split("\n\n")[0].replace("\n", " ") == LINES[verb]
    assert len(LINES[verb]) <= 64, "the list of verbs would cut it"


def test_a_verb_of_a_module_is_in_the_table():
    import zenturio.cli.verbs as table

    for verb in LINES:
        table._Commands()[verb]
    commands = table._Commands()
    for verb in LINES:
        commands[verb]
    assert set(commands._made) == set(LINES)


def test_help_and_a_verb_load_no_module_of_another_verb():
    probe = """
import json, sys
from zenturio.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted(m for m in sys.modules if m.startswith("zenturio.cli."))), file=sys.stderr)
"""
    loaded = {}
    for words in ("--help", "init --help"):
        done = subprocess.run(
            [sys.executable, "-c", probe, *words.split()], capture_output=True, text=True
        )
        loaded[words] = json.loads(done.stderr)
    always = ["logging_options", "main", "safe_streams", "verbs"]
    assert loaded["--help"] == [f"zenturio.cli.{name}" for name in always]
    assert "zenturio.cli.annotations" in loaded["init --help"]
    assert "zenturio.cli.run" not in loaded["init --help"]
