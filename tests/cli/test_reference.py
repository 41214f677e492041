"""docs/commands.md is what --help says; ZEN_UPDATE_GOLDENS=1 writes it anew."""

import os
from pathlib import Path

from typer.main import get_command

from zenturio.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
HEAD = """# The commands

The output of `zen VERB --help` for all verbs, on one page. `zenturio` is the same program as `zen`.

Each verb also takes these options, before or after its name:

| option | effect |
|---|---|
| `-v`, `-vv` | Log to stderr what zenturio does: a few lines for each command, or each transition of an experiment. |
| `--log-file FILE` | Append all log lines, of every level, to FILE. |

`ZENTURIO_LOG=info` (or `debug`) does the same as `-v`; `ZENTURIO_LOG=info,zenturio.record=debug` sets another level for
one part, and `ZENTURIO_LOG_FILE` names the file. Child processes inherit both variables; experiments do not. A log line
contains the time in UTC, level, logger, process and message; passwords and tokens are replaced by asterisks. A command
that fails or logs something writes its last log lines to `.zenturio/logs`. This folder takes at most 10 MiB;
`zen bugreport` collects its files.
"""


def page():
    parts = [HEAD]
    zen = get_command(app)
    for path, command in [((), zen), *sorted(_commands(zen, ()))]:
        said = command.get_help(_context(command, path)).strip()
        parts.append(f"## {' '.join(('zen', *path))}\n\n```text\n{said}\n```\n")
    return "\n".join(parts)


def _commands(group, path):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield (*path, name), command
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _context(command, path):
    context = type(command).context_class if hasattr(type(command), "context_class") else None
    assert context is not None
    return context(
        command, info_name=" ".join(("zen", *path)), max_content_width=96, terminal_width=96
    )


def test_the_reference_is_what_help_says():
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
