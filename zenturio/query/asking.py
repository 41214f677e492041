"""SQL that somebody writes: it may read, for a while and so much, and nothing else.

The database itself denies the rest. SQLite: the file is opened for reading, an authoriser allows
SELECT alone, a progress handler ends what takes too long, and its heap is limited. PostgreSQL: a
read-only transaction, one statement behind a cursor, a time limit of the server's, and a login role
of its own that has no right but to read these tables.
"""

from __future__ import annotations

from zenturio.errors import InputError, Passage
from zenturio.query.raw_limits import QueryLimits
from zenturio.query.result import ResultTable
from zenturio.query.user_sql import with_name_hint, with_names_in_backticks, written_head
from zenturio.record import Repository

DEFAULT_LIMITS = QueryLimits()


def raw(repository: Repository, text: str, limits: QueryLimits = DEFAULT_LIMITS) -> ResultTable:
    """The answer to *text*, one SELECT.

    InputError with the database's words if it is wrong, SafetyError if it is denied or too much.
    """
    engine = getattr(repository, "engine", None)
    if engine is None:
        raise InputError(f"{repository.location} is no database: there is nothing to be asked")
    statement = text.strip().rstrip(";").rstrip()
    if not statement:
        raise InputError("the query is empty", hint='such as: zen sql "SELECT * FROM study_matmul"')
    if "\0" in statement:
        place = Passage.of(statement, "<sql>").place(statement.index("\0"))
        raise InputError("a query holds no NUL byte", place=place)
    expanded: str = repository.expand_views(statement)  # type: ignore[attr-defined] # a database has it
    try:
        if engine.dialect.name == "sqlite":
            from zenturio.query.raw_sqlite import run_in_sqlite  # noqa: PLC0415

            names, rows = run_in_sqlite(
                repository.location, with_names_in_backticks(expanded), limits
            )
            names = [written_head(head, statement) for head in names]
        else:
            from zenturio.query.raw_postgresql import run_in_postgresql as ask_server  # noqa: PLC0415

            names, rows = ask_server(
                repository.connect_reader(),  # type: ignore[attr-defined] # a database has it
                statement,
                expanded,
                limits,
            )
    except InputError as error:
        raise with_name_hint(error, repository, statement) from error
    cut = len(rows) > limits.rows
    notes = (f"cut after {limits.rows:,} rows: there are more",) if cut else ()
    shown = tuple(rows[: limits.rows])
    return ResultTable(tuple(names), shown, found=len(shown), notes=notes, sql=text)
