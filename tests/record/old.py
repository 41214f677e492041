"""Databases as earlier and later programs made them."""

from zenturio.record.database import Database
from zenturio.record.open import flavour
from zenturio.record.schema import REVISIONS
from zenturio.record.upgrade import migrate


def make_old(url: str, revision: str = REVISIONS[0]) -> None:
    """An empty repository of that revision, made by its migrations."""
    kind = flavour(url)
    kind.settle()
    database = Database(kind, 5)
    migrate(database, revision)
    database.close()


def stamp(url: str, revision: str) -> None:
    """Lets the repository say that it has that revision."""
    database = Database(flavour(url), 5)
    database.write(
        lambda transaction: transaction.sql(
            f"UPDATE alembic_version SET version_num = '{revision}'"
        )
    )
    database.close()
