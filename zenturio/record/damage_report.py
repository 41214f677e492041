"""Explanation of an unexpected error by damage in the databases that this process uses."""

from __future__ import annotations

from itertools import islice

from zenturio.errors import Diagnostic, ZenError
from zenturio.record.database import Database, Transaction, opened_databases
from zenturio.record.sqlite import SQLite
from zenturio.record.stored_value_check import foreign_slots, foreign_values


def damage_of_opened_files() -> tuple[Diagnostic, ...]:
    """Return what is wrong with the values of the files that were opened; nothing if all is well.

    Reading rows checks no types, so what fails on a value that no program of ours can have
    written fails anywhere. The check is made when that has happened.
    """
    diagnostics: list[Diagnostic] = []
    hint = "see what `zen db check` says; `zen db salvage` saves what can be read"
    for dialect in {
        database.dialect.location: database.dialect for database in opened_databases()
    }.values():
        if not isinstance(dialect, SQLite):
            continue
        database = Database(dialect, 0)
        try:
            messages = database.read(_messages)
            diagnostics += [
                Diagnostic(f"{dialect.location} is damaged: {message}", hint=hint)
                for message in messages
            ]
        except ZenError as error:
            diagnostics += error.diagnostics
        finally:
            database.close()
    return tuple(diagnostics)


def _messages(transaction: Transaction) -> list[str]:
    return foreign_values(transaction, most=3) or list(islice(foreign_slots(transaction), 3))
