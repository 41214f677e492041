"""Studies that are submitted wait in the database: a restart of the service loses none."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "submissions",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("token", sa.Text, nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("person", "study", "request")),
        sa.Column("submitted", sa.Double, nullable=False),
        sa.Column("turn", sa.Text, nullable=False),
        sa.Column("begun", sa.Double),
        sa.Column("ended", sa.Double),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("cause", "progress")),
        sqlite_autoincrement=True,
    )
