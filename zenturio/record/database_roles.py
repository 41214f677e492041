"""Roles of a PostgreSQL database: the read-only role, and those of a team.

A role that owns the tables can write to them, and SQL can undo the limits of a session (SET ROLE, a
read-only default). So SQL that users write runs as a role with no right but reading: one that
``zen db grant`` made, with its password in the user's configuration folder, the one of
ZENTURIO_SQL_URL, or the role that opened the database if that can only read.

The server is asked each time what the role may do; its name proves nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zenturio import trust
from zenturio.errors import InputError, PlaceError, RecordError, SafetyError
from zenturio.record import study_views
from zenturio.record.database import Database, Transaction
from zenturio.record.postgresql import PostgreSQL, ServerURL
from zenturio.record.sql_names import LONGEST, literal, quoted

VARIABLE = "ZENTURIO_SQL_URL"
STATEMENT_SECONDS = 60
"""The limit that the server sets for each statement of the role, whatever its client sets."""

_HARMLESS = ("pg_read_all_data", "pg_read_all_settings", "pg_read_all_stats")
"""Roles of the server that a reader may be a member of."""

POWERS = f"""
SELECT 'is a superuser, or can make roles or databases' FROM pg_roles
 WHERE rolname = session_user
   AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)
UNION ALL
SELECT 'can become the role ' || rolname FROM pg_roles
 WHERE pg_has_role(session_user, oid, 'MEMBER')
   AND rolname NOT IN (session_user, {", ".join(map(literal, _HARMLESS))})
UNION ALL
SELECT 'can write to the table ' || c.relname FROM pg_class c
 WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relkind IN ('r', 'p')
   AND (has_table_privilege(session_user, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
        OR has_any_column_privilege(session_user, c.oid, 'INSERT, UPDATE'))
LIMIT 1
"""
"""Selects what a role can do beyond reading; no row if nothing."""

_IDENTITY = (
    "SELECT current_database(), current_schema(), session_user::text,"
    " (SELECT system_identifier FROM pg_control_system())"
)


_VIEWS = (
    "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL,"
    " has_database_privilege(current_database(), 'CREATE')"
)


_CREATORS = (
    "SELECT DISTINCT ON (n.nspname) n.nspname::text, pg_get_userbyid(c.relowner)::text"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'v') AND n.nspname IN (%s, %s)"
)
"""The roles that will create tables and views later: the present owners. In a team these are
groups.
"""


_UNREADABLE = (
    "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v')"
    " AND relnamespace = to_regnamespace(quote_ident(current_schema()))"
    " AND NOT has_table_privilege(%s, oid, 'SELECT') LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Grant:
    """The statements that let a role read a repository, and whether they were executed."""

    role: str
    statements: tuple[str, ...]
    done: bool
    """Whether the statements were executed; else an administrator has to execute them."""
    why: str = ""
    """The error of the server, if it refused them."""


@dataclass(frozen=True, slots=True)
class DatabaseLogin:
    """A login: user, server and database."""

    database: str
    schema: str
    user: str
    system: int

    @property
    def role(self) -> str:
        """The name of the read-only role, unique to this user and database on the server."""
        about = json.dumps([self.database, self.schema, self.user])
        short = hashlib.sha256(about.encode()).hexdigest()[:8]
        schema = re.sub(r"[^a-z0-9_]", "_", self.schema.lower())[:30]
        return f"zenturio_reader_{schema}_{short}"

    @property
    def password_file(self) -> Path:
        return trust.config_folder() / "sql-readers" / f"{self.system}-{self.role}.json"


def reader(database: Database) -> PostgreSQL:
    """Return the server of *database* with the login that may run SQL of users.

    SafetyError if no login can only read. The caller has to execute ``POWERS`` once connected.
    """
    kind, login = _server(database), current_login(database)
    if url := os.environ.get(VARIABLE):
        return PostgreSQL(_parsed(url), kind.wait).within(login.schema)
    if password := _stored_password(login.password_file):
        return kind.as_user(login.role, password).within(login.schema)
    if not database.read(lambda t: t.sql(POWERS)):
        return kind
    raise SafetyError(
        f"SQL queries run in a read-only role of PostgreSQL, and none exists yet: {login.user!r} "
        "can write",
        hint=f"`zen db grant` makes one; or name another login in {VARIABLE}",
    )


def check_powers(rows: Sequence[Sequence[Any]]) -> None:
    """Raise SafetyError if the rows of ``POWERS`` name a right that a reader must not have."""
    if rows:
        raise SafetyError(
            f"SQL queries run in a read-only role of PostgreSQL, and this one {rows[0][0]}",
            hint=f"`zen db grant` makes one; {VARIABLE} may name another",
        )


def grant_reading(database: Database, role: str, *, execute: bool) -> Grant:
    """Grant *role* read access to the repository, or create a role for the SQL of this user.

    Without *execute* the statements are only returned. If the server refuses one, nothing is
    changed, and the `Grant` has its error.
    """
    login = current_login(database)
    name = role or login.role
    exists = database.read(
        lambda t: bool(t.sql("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)))
    )
    if role and not exists:
        raise InputError(
            f"there is no role {role!r}", hint="without --role, `zen db grant` makes one"
        )
    statements: list[str] = []
    if not role:
        password = _stored_password(login.password_file) or _new_password(login)
        statements += _login(database, name, password, exists=exists)
    statements += _reader_rights(database, login, name)
    if not execute:
        return Grant(name, tuple(statements), done=False)
    try:
        database.write(lambda t: [t.sql(statement) for statement in statements])
    except RecordError as error:
        return Grant(name, tuple(statements), done=False, why=error.diagnostics[0].message)
    # A GRANT by a role that does not own the table is only a warning of the server, not an error.
    unreadable = database.read(lambda t: t.sql(_UNREADABLE, (name,)))
    if unreadable:
        why = f"{name} may not read {unreadable[0][0]}, for {login.user} does not own it"
        return Grant(name, tuple(statements), done=False, why=why)
    if not role:
        _check_login(database)
    return Grant(name, tuple(statements), done=True)


def connect(kind: PostgreSQL) -> Any:
    """Return a connection with a reader's login; PlaceError if the server refuses it."""
    try:
        return kind.connect()  # not from a pool: what SQL changes in the session ends with it
    except Exception as error:
        if not (kind.lost(error) or kind.refuses(error)):
            raise
        message = kind.hide(" ".join(str(error).split()))
        raise PlaceError(
            f"the login for SQL does not work: {message}",
            hint="`zen db grant` sets its password anew"
            if "password authentication failed" in message
            else "let the administrator add this line at the top of pg_hba.conf, and reload the"
            f" server: {kind.login_rule()}",
        ) from error


def _check_login(database: Database) -> None:
    connection = connect(reader(database))
    try:
        cursor = connection.cursor()
        cursor.execute(POWERS)
        check_powers(cursor.fetchall())
    finally:
        connection.close()


def _server(database: Database) -> PostgreSQL:
    if not isinstance(database.dialect, PostgreSQL):
        raise InputError(
            f"{database.dialect.location} is a file: SQL reads it without a role",
            hint="zen db grant is for PostgreSQL",
        )
    return database.dialect


def current_login(database: Database) -> DatabaseLogin:
    """Return the login of *database* at its server; InputError for a file."""
    _server(database)
    ((name, schema, user, system),) = database.read(lambda t: t.sql(_IDENTITY))
    return DatabaseLogin(name, schema, user, int(system))


def _parsed(url: str) -> ServerURL:
    try:
        return ServerURL.parse(url)
    except ValueError as error:
        raise InputError(f"{VARIABLE} is not a PostgreSQL URL") from error


def _login(database: Database, role: str, password: str, *, exists: bool) -> list[str]:
    """Return the statements that create *role* or set its password, which is hashed in them."""
    connection = database.connections.raw_connection()
    try:
        server: Any = connection.driver_connection
        verifier = server.pgconn.encrypt_password(
            password.encode(), role.encode(), b"scram-sha-256"
        ).decode()
    finally:
        connection.close()
    name, verb = quoted(role), "ALTER" if exists else "CREATE"
    return [
        f"{verb} ROLE {name} LOGIN NOINHERIT PASSWORD {literal(verifier)}",
        f"ALTER ROLE {name} SET default_transaction_read_only = on",
        f"ALTER ROLE {name} SET statement_timeout = '{STATEMENT_SECONDS}s'",
        f"ALTER ROLE {name} SET idle_in_transaction_session_timeout = '{STATEMENT_SECONDS}s'",
    ]


def _reader_rights(database: Database, login: DatabaseLogin, role: str) -> list[str]:
    """Return the statements that let *role* read present and future tables and views."""
    views = study_views.schema_name(login.schema)
    ((has_views, creates),) = database.read(lambda t: t.sql(_VIEWS, (views,)))
    statements = [f"CREATE SCHEMA {quoted(views)}"] if creates and not has_views else []
    schemas = [login.schema, *([views] if creates or has_views else [])]
    name = quoted(role)
    owners: dict[str, str] = dict(database.read(lambda t: t.sql(_CREATORS, (login.schema, views))))
    statements.append(f"GRANT CONNECT ON DATABASE {quoted(login.database)} TO {name}")
    for schema_name in schemas:
        schema, creator = quoted(schema_name), quoted(owners.get(schema_name, login.user))
        new_tables = f"ALTER DEFAULT PRIVILEGES FOR ROLE {creator} IN SCHEMA"
        statements += [
            f"GRANT USAGE ON SCHEMA {schema} TO {name}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}",
            f"{new_tables} {schema} GRANT SELECT ON TABLES TO {name}",
        ]
    return statements


def _stored_password(path: Path) -> str:
    """Return the password in *path*, a file that only this user may read; empty without one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise SafetyError(
                f"{path}: others can read or replace this password",
                hint="remove the file, and run `zen db grant` again",
            )
        with suppress(ValueError, KeyError, TypeError):
            return str(json.loads(file.read(10_000))["password"])
    return ""


def _new_password(login: DatabaseLogin) -> str:
    path, password = login.password_file, secrets.token_urlsafe(32)
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, flags, 0o600), "w") as file:
            json.dump({"role": login.role, "password": password}, file)
        draft.rename(path)
    except OSError as error:
        raise PlaceError(
            f"the password of the role cannot be kept in {path}: {error.strerror}",
            hint=f"set XDG_CONFIG_HOME to your own folder, or name a login in {VARIABLE}",
        ) from error
    return password


# A team on one PostgreSQL database: owner, administrators, writers and readers
#
# A group role without a login owns the tables; its members are the administrators. Another group,
# ``OWNER_views``, owns the views for other programs, and can read only what they show. Writers are
# members of that group only: they update views by ``SET ROLE``, but can neither alter a table nor
# bypass the row security of the queue, by which a submission belongs to the login that entered it.

LOCK_TIMEOUT = "2s"
"""How long an ALTER waits for readers: writers queue behind it meanwhile."""
_SHOWN_BY_VIEWS = (
    "results", "chunks", "studies", "machines", "hosts", "conditions", "copies", "attempts",
)  # fmt: skip
_PRIVATE = ("sources", "contents")
_QUEUE = "submissions"


@dataclass(frozen=True, slots=True)
class Team:
    """The roles of a team on a database."""

    owner: str = ""
    """The group role that owns the database; created if missing. Empty: the present owner."""
    admins: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    is_private: bool | None = None
    """Whether recorded programs and the queue are hidden from readers; None changes nothing."""

    @property
    def views(self) -> str:
        """The role that owns the views for other programs."""
        return f"{self.owner}_views"


def grant_team(database: Database, team: Team, *, execute: bool = True) -> Grant:
    """Grant *team* its rights on a database; roles keep rights that they have already.

    Without *execute* the statements are only returned. If the server refuses one, nothing is
    changed, and the `Grant` has its error. InputError if no owner is named and the database has no
    team.
    """
    login = current_login(database)
    team = database.read(lambda t: _completed(t, login.schema, team))
    if len(team.views.encode()) > LONGEST:
        raise InputError(f"the name of the role {team.owner!r} is too long")
    statements = tuple(database.read(lambda t: list(_statements(t, login, team))))
    if not execute:
        return Grant(team.owner, statements, done=False)
    try:
        database.write(lambda t: [t.sql(statement) for statement in statements])
    except RecordError as error:
        why = error.diagnostics[0].message
        if "has been locked" in why:
            why = "somebody reads the tables at this moment (pg_stat_activity names the session)"
        return Grant(team.owner, statements, done=False, why=why)
    return Grant(team.owner, statements, done=True)


def _completed(t: Transaction, schema: str, team: Team) -> Team:
    """Return *team* completed by the owner and the settings that the database has now."""
    owner, is_private = team.owner, team.is_private
    if not owner:
        rows = t.sql(
            "SELECT rolname FROM pg_tables JOIN pg_roles ON rolname = tableowner"
            " WHERE schemaname = %s AND tablename = 'results' AND NOT rolcanlogin",
            (schema,),
        )
        if not rows or not _exists(t, f"{rows[0][0]}_views"):
            raise InputError("a team needs a role that owns the database", hint="add --owner ROLE")
        ((owner,),) = rows
    if is_private is None:
        query = "SELECT 1 FROM pg_policies WHERE schemaname = %s AND tablename = %s"
        is_private = bool(t.sql(query, (schema, _PRIVATE[0])))
    return replace(team, owner=owner, is_private=is_private)


def _statements(t: Transaction, login: DatabaseLogin, team: Team) -> Iterator[str]:
    """Yield the statements to execute; those that alter a table only if still needed."""
    _check_roles(t, team)
    views_schema = study_views.schema_name(login.schema)
    owner, views, schema = quoted(team.owner), quoted(team.views), quoted(login.schema)
    yield f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
    for role in (team.owner, team.views):
        if not _exists(t, role):
            yield f"CREATE ROLE {quoted(role)} NOLOGIN"
    # Only a superuser can transfer tables to a role without being a member of it.
    members = dict.fromkeys((login.user, *team.admins))
    yield f"GRANT {owner}, {views} TO {', '.join(map(quoted, members))}"
    yield f"GRANT {views} TO {owner}"
    everybody = ", ".join(map(quoted, (team.owner, team.views, *team.writers, *team.readers)))
    yield f"GRANT CONNECT ON DATABASE {quoted(login.database)} TO {everybody}"
    yield f"GRANT USAGE ON SCHEMA {schema} TO {everybody}"
    yield f"GRANT CREATE ON SCHEMA {schema} TO {owner}"
    yield from _ownership(t, login.schema, "r", team.owner)
    if not t.sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (views_schema,)):
        yield f"CREATE SCHEMA {quoted(views_schema)}"
    yield f"ALTER SCHEMA {quoted(views_schema)} OWNER TO {views}"
    yield from _ownership(t, views_schema, "v", team.views)
    yield f"GRANT SELECT ON {', '.join(_SHOWN_BY_VIEWS)} TO {views}"
    yield from _team_rights(login.schema, views_schema, team)
    yield from _row_security(t, login.schema, team)


def _check_roles(t: Transaction, team: Team) -> None:
    for role in (*team.admins, *team.writers, *team.readers):
        if not _exists(t, role):
            hint = f"CREATE ROLE {quoted(role)} LOGIN, or createuser {role}"
            raise InputError(f"there is no role {role!r}", hint=hint)
    conflicting = {*team.writers, *team.admins}.intersection(team.readers)
    if conflicting:
        raise InputError(
            f"{', '.join(sorted(conflicting))} cannot be a reader and also a writer or an"
            " administrator"
        )


def _exists(t: Transaction, role: str) -> bool:
    return bool(t.sql("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)))


def _ownership(t: Transaction, schema: str, kind: str, role: str) -> Iterator[str]:
    """Yield statements that transfer tables (``r``) or views (``v``) with their sequences."""
    rows = t.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s))"
        " AND relkind = %s AND pg_get_userbyid(relowner) <> %s ORDER BY relname",
        (schema, kind, role),
    )
    word = {"r": "TABLE", "v": "VIEW"}[kind]
    for (name,) in rows:
        yield f"ALTER {word} {quoted(schema)}.{quoted(name)} OWNER TO {quoted(role)}"


def _team_rights(schema: str, views_schema: str, team: Team) -> Iterator[str]:
    """Yield the grants on present and future tables and views."""
    tables, shown = f"SCHEMA {quoted(schema)}", f"SCHEMA {quoted(views_schema)}"
    of_owner = f"ALTER DEFAULT PRIVILEGES FOR ROLE {quoted(team.owner)} IN {tables}"
    of_views = f"ALTER DEFAULT PRIVILEGES FOR ROLE {quoted(team.views)} IN {shown}"
    for names, verbs in (
        (team.writers, "SELECT, INSERT, UPDATE, DELETE"),
        (team.readers, "SELECT"),
    ):
        if not names:
            continue
        roles = ", ".join(map(quoted, names))
        yield f"GRANT {verbs} ON ALL TABLES IN {tables} TO {roles}"
        yield f"{of_owner} GRANT {verbs} ON TABLES TO {roles}"
        yield f"GRANT USAGE ON {shown} TO {roles}"
        yield f"GRANT SELECT ON ALL TABLES IN {shown} TO {roles}"
        yield f"{of_views} GRANT SELECT ON TABLES TO {roles}"
    if team.writers:
        roles = ", ".join(map(quoted, team.writers))
        yield f"GRANT USAGE ON ALL SEQUENCES IN {tables} TO {roles}"
        yield f"{of_owner} GRANT USAGE ON SEQUENCES TO {roles}"
        yield f"REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {roles}"
        yield f"GRANT {quoted(team.views)} TO {roles}"


def _row_security(t: Transaction, schema: str, team: Team) -> Iterator[str]:
    """Yield the policies of row security: a submission belongs to the login that entered it."""
    # SET ROLE does not change session_user.
    admin = f"pg_has_role(session_user, {literal(team.owner)}, 'MEMBER')"
    own = f"person = session_user OR {admin}"
    member = f"pg_has_role(session_user, {literal(team.views)}, 'MEMBER')"
    visible = member if team.is_private else "true"
    policies_by_table = {
        _QUEUE: {
            "read": f"FOR SELECT USING ({visible})",
            "add": f"FOR INSERT WITH CHECK ({own})",
            "change": f"FOR UPDATE USING ({own})",
        }
    }
    if team.is_private:
        private = {"read": f"FOR SELECT USING ({visible})", "write": f"FOR ALL USING ({member})"}
        policies_by_table |= dict.fromkeys(_PRIVATE, private)
    for table in (_QUEUE, *_PRIVATE):
        texts = policies_by_table.get(table, {})
        policies = {_policy_name(word, text): text for word, text in texts.items()}
        name = f"{quoted(schema)}.{table}"
        present = {
            policy
            for (policy,) in t.sql(
                "SELECT policyname FROM pg_policies WHERE schemaname = %s AND tablename = %s"
                " AND policyname LIKE 'zenturio_%%'",
                (schema, table),
            )
        }
        for policy in sorted(present - policies.keys()):
            yield f"DROP POLICY {quoted(policy)} ON {name}"
        for policy in policies.keys() - present:
            yield f"CREATE POLICY {quoted(policy)} ON {name} {policies[policy]}"
        verb = "ENABLE" if policies else "DISABLE"
        if policies.keys() != present:
            yield f"ALTER TABLE {name} {verb} ROW LEVEL SECURITY"


def _policy_name(word: str, text: str) -> str:
    """Return a name that depends on the text of a policy, so that an existing one is kept."""
    return f"zenturio_{word}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
