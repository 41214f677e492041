"""What a lost driver had claimed is found without reading every experiment."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

RUNNING = sa.text("state = 'running'")


def upgrade() -> None:
    op.create_index(
        "experiments_running",
        "experiments",
        ["driver"],
        sqlite_where=RUNNING,
        postgresql_where=RUNNING,
    )
