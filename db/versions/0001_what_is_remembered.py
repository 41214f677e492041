"""Studies, their fields, their drivers; experiments, attempts and what they left."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id() -> sa.Column:
    return sa.Column("id", NUMBER, primary_key=True, autoincrement=True)


def _part(name: str, kind: sa.types.TypeEngine = NUMBER) -> sa.Column:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _must(name: str, kind: sa.types.TypeEngine) -> sa.Column:
    return sa.Column(name, kind, nullable=False)


def _may(name: str, kind: sa.types.TypeEngine) -> sa.Column:
    return sa.Column(name, kind)


def upgrade() -> None:
    _studies()
    _experiments()
    _files()


def _studies() -> None:
    op.create_table(
        "studies",
        _id(),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("view", sa.Text, nullable=False, unique=True),
        sa.Column("view_all", sa.Text, nullable=False, unique=True),
        _must("created", sa.Double),
        _must("revision", sa.Integer),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "definitions",
        _id(),
        _must("study", NUMBER),
        _must("at", sa.Double),
        _must("document", sa.Text),
    )
    op.create_index("ix_definitions_study", "definitions", ["study"])
    op.create_table(
        "sources", _part("definition"), _part("path", sa.Text()), _must("sha256", sa.LargeBinary)
    )
    op.create_table("contents", _part("sha256", sa.LargeBinary()), _must("content", sa.LargeBinary))
    op.create_table(
        "fields",
        _part("study"),
        _part("position", sa.Integer()),
        _must("role", sa.Text),
        _must("name", sa.Text),
        _may("type", sa.Text),
        *(_must(name, sa.Text) for name in ("unit", "kind", "how")),
        _must("forms", sa.SmallInteger),
    )
    op.create_table(
        "leases",
        _id(),
        _must("study", NUMBER),
        _must("token", sa.Text),
        _must("host", sa.Text),
        _must("pid", NUMBER),
        _must("born", sa.Text),
        *(_must(name, sa.Double) for name in ("since", "until", "seconds")),
        _may("ended", sa.Double),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_leases_study", "leases", ["study"])
    op.create_table("counters", _part("study"), _part("state", sa.Text()), _must("count", NUMBER))


def _experiments() -> None:
    op.create_table("hosts", _id(), sa.Column("name", sa.Text, nullable=False, unique=True))
    op.create_table(
        "experiments",
        _id(),
        sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
        _must("study", NUMBER),
        _must("state", sa.Text),
        _must("attempt", sa.Integer),
        _may("driver", NUMBER),
        _may("host", NUMBER),
        _may("started", sa.Double),
        _may("ended", sa.Double),
        _may("exit", sa.Integer),
        _may("cause", sa.Text),
    )
    op.create_table("shares", _part("experiment"), _part("study"))
    op.create_table(
        "attempts",
        _part("experiment"),
        _part("number", sa.Integer()),
        _part("driver"),
        _must("state", sa.Text),
        _may("host", NUMBER),
        _may("started", sa.Double),
        _may("ended", sa.Double),
        _may("exit", sa.Integer),
        _may("cause", sa.Text),
        _may("metrics", sa.Text),
    )


def _files() -> None:
    op.create_table(
        "logs",
        _id(),
        _must("experiment", NUMBER),
        _must("attempt", sa.Integer),
        _must("driver", NUMBER),
        *(
            _must(f"{stream}_{part}", kind)
            for stream in ("stdout", "stderr")
            for part, kind in (
                ("head", sa.LargeBinary()),
                ("tail", sa.LargeBinary()),
                ("size", NUMBER),
            )
        ),
    )
    op.create_index("ix_logs_experiment", "logs", ["experiment"])
    op.create_table(
        "artifacts",
        _id(),
        _must("experiment", NUMBER),
        _must("attempt", sa.Integer),
        _must("driver", NUMBER),
        _must("path", sa.Text),
        _must("size", NUMBER),
        _must("sha256", sa.Text),
        _must("kept", sa.Text),
    )
    op.create_index("ix_artifacts_experiment", "artifacts", ["experiment"])
    op.create_table(
        "events",
        _id(),
        _must("study", NUMBER),
        _may("experiment", NUMBER),
        _must("at", sa.Double),
        _must("kind", sa.Text),
        _must("text", sa.Text),
    )
    op.create_index("ix_events_study", "events", ["study"])
    op.create_index("ix_events_experiment", "events", ["experiment"])
