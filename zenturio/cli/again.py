"""Commands that are told: as a shell takes them, for the same database, without passwords."""

import os
import shlex
import sys
from collections.abc import Sequence


def command(*words: str, db: str | None = None) -> str:
    """``zen WORDS``, with ``--db`` where the database was named on the command line."""
    named = [] if not db or db == os.environ.get("ZENTURIO_DB") else ["--db", _shown(db)]
    return shlex.join(["zen", *words, *named])


def only_failed(arguments: Sequence[str] | None = None) -> str:
    """The command that was given, for the failed ones alone."""
    given = iter(sys.argv[1:] if arguments is None else arguments)
    words: list[str] = []
    for word in given:
        if word in ("--only", "--db"):
            value = next(given, "")
            words += [word, _shown(value)] if word == "--db" else []
        elif word.startswith("--db="):
            words.append(f"--db={_shown(word.removeprefix('--db='))}")
        elif not word.startswith("--only="):
            words.append(word)
    return shlex.join(["zen", *words, "--only", "failed"])


def _shown(db: str) -> str:
    """A URL without its password; a path as it is."""
    if "://" not in db:
        return db
    from zenturio.record.open import dialect_at

    return dialect_at(db).location
