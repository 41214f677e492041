"""Roles of PostgreSQL for a team on one database: who owns, administers, writes and reads.

A group role without a login owns the tables; its members administer. Another one, ``OWNER_views``,
owns the views for other programs, and may read what these show and nothing else. Writers are
members of that one alone: they bring views up to date by ``SET ROLE``, and can neither change a
table nor pass the row security of the queue, which says that a submission is of who logged in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from zenturio.errors import InputError, RecordError
from zenturio.record import reader_role, study_views
from zenturio.record.database import Database, Transaction
from zenturio.record.reader_role import Grant
from zenturio.record.sql_names import LONGEST, literal, quoted

LOCK_TIMEOUT = "2s"
"""How long a change of the tables waits for who reads them: writers wait behind it."""
_SHOWN_BY_VIEWS = (
    "results", "chunks", "studies", "machines", "hosts", "conditions", "copies", "attempts",
)  # fmt: skip
_PRIVATE = ("sources", "contents")
_QUEUE = "submissions"


@dataclass(frozen=True, slots=True)
class Team:
    """Who works on a database."""

    owner: str = ""
    """The group role that owns it; created if it is not there. Empty: the one of the database."""
    admins: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    is_private: bool | None = None
    """Whether readers see neither recorded programs nor the queue; None leaves that as it is."""

    @property
    def views(self) -> str:
        """The role that owns the views for other programs."""
        return f"{self.owner}_views"


def grant(database: Database, team: Team, *, execute: bool = True) -> Grant:
    """Let *team* work on a database; roles that have rights already keep them.

    Without *execute* the statements are only returned. Where the server denies them nothing is
    changed, and the grant says so. InputError if no owner is named and the database has no team.
    """
    identity = reader_role.identity_of(database)
    team = database.read(lambda t: _completed(t, identity.schema, team))
    if len(team.views.encode()) > LONGEST:
        raise InputError(f"the name of the role {team.owner!r} is too long")
    statements = tuple(database.read(lambda t: list(_statements(t, identity, team))))
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
    """Return *team* with what the database knows of the team that it has."""
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


def _statements(t: Transaction, identity: reader_role.Identity, team: Team) -> Iterator[str]:
    """Yield what is to be executed, of what changes a table only what has not been done."""
    _check_roles(t, team)
    views_schema = study_views.schema_name(identity.schema)
    owner, views, schema = quoted(team.owner), quoted(team.views), quoted(identity.schema)
    yield f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
    for role in (team.owner, team.views):
        if not _exists(t, role):
            yield f"CREATE ROLE {quoted(role)} NOLOGIN"
    # Who is no superuser can hand tables over only to a role that they are a member of.
    members = dict.fromkeys((identity.user, *team.admins))
    yield f"GRANT {owner}, {views} TO {', '.join(map(quoted, members))}"
    yield f"GRANT {views} TO {owner}"
    everybody = ", ".join(map(quoted, (team.owner, team.views, *team.writers, *team.readers)))
    yield f"GRANT CONNECT ON DATABASE {quoted(identity.database)} TO {everybody}"
    yield f"GRANT USAGE ON SCHEMA {schema} TO {everybody}"
    yield f"GRANT CREATE ON SCHEMA {schema} TO {owner}"
    yield from _ownership(t, identity.schema, "r", team.owner)
    if not t.sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (views_schema,)):
        yield f"CREATE SCHEMA {quoted(views_schema)}"
    yield f"ALTER SCHEMA {quoted(views_schema)} OWNER TO {views}"
    yield from _ownership(t, views_schema, "v", team.views)
    yield f"GRANT SELECT ON {', '.join(_SHOWN_BY_VIEWS)} TO {views}"
    yield from _rights(identity.schema, views_schema, team)
    yield from _row_security(t, identity.schema, team)


def _check_roles(t: Transaction, team: Team) -> None:
    for role in (*team.admins, *team.writers, *team.readers):
        if not _exists(t, role):
            hint = f"CREATE ROLE {quoted(role)} LOGIN, or createuser {role}"
            raise InputError(f"there is no role {role!r}", hint=hint)
    both = {*team.writers, *team.admins}.intersection(team.readers)
    if both:
        raise InputError(f"{', '.join(sorted(both))} cannot be a reader and more than that")


def _exists(t: Transaction, role: str) -> bool:
    return bool(t.sql("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)))


def _ownership(t: Transaction, schema: str, kind: str, role: str) -> Iterator[str]:
    """Hand over tables (``r``) or views (``v``); their sequences go with them."""
    rows = t.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s))"
        " AND relkind = %s AND pg_get_userbyid(relowner) <> %s ORDER BY relname",
        (schema, kind, role),
    )
    word = {"r": "TABLE", "v": "VIEW"}[kind]
    for (name,) in rows:
        yield f"ALTER {word} {quoted(schema)}.{quoted(name)} OWNER TO {quoted(role)}"


def _rights(schema: str, views_schema: str, team: Team) -> Iterator[str]:
    """Yield the rights upon the tables and views that there are, and those to come."""
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
    """Yield who sees and changes which rows: a submission is of who logged in."""
    # SET ROLE does not change session_user.
    admin = f"pg_has_role(session_user, {literal(team.owner)}, 'MEMBER')"
    own = f"person = session_user OR {admin}"
    member = f"pg_has_role(session_user, {literal(team.views)}, 'MEMBER')"
    visible = member if team.is_private else "true"
    wanted = {
        _QUEUE: {
            "read": f"FOR SELECT USING ({visible})",
            "add": f"FOR INSERT WITH CHECK ({own})",
            "change": f"FOR UPDATE USING ({own})",
        }
    }
    if team.is_private:
        private = {"read": f"FOR SELECT USING ({visible})", "write": f"FOR ALL USING ({member})"}
        wanted |= dict.fromkeys(_PRIVATE, private)
    for table in (_QUEUE, *_PRIVATE):
        policies = {_policy_name(word, text): text for word, text in wanted.get(table, {}).items()}
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
    """Return a name that says what the policy is, so that one that is there is not made again."""
    return f"zenturio_{word}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
