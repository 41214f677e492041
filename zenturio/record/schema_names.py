"""Names of the schema that every start needs: revisions, tables and slots, without SQLAlchemy."""

from __future__ import annotations

from typing import Literal

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
"""Every revision of the schema, oldest first; ``schema`` has the tables of the last one."""

DialectName = Literal["sqlite", "postgresql"]

TABLES = frozenset({
    "aliases", "artifacts", "attempts", "chunks", "claims", "conditions", "contents", "copies",
    "counters", "definitions", "edits", "events", "fields", "hosts", "leases", "logs", "machines",
    "projects", "recipes", "results", "rounds", "sources", "studies", "submissions", "upgrade",
    "versions",
})  # fmt: skip

SLOT_NAMES: dict[DialectName, tuple[str, ...]] = {
    "sqlite": tuple(f"v{i}" for i in range(32)),
    "postgresql": (
        *(f"i{i}" for i in range(16)),
        *(f"r{i}" for i in range(24)),
        *(f"t{i}" for i in range(12)),
    ),
}
"""The columns of ``results`` that all studies share; on PostgreSQL the letter is the type."""
