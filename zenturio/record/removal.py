"""How a study goes: what only it has goes with it, what it shares stays with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from sqlalchemy import and_, bindparam, delete, func, not_, or_, select, update
from sqlalchemy.sql.elements import BindParameter

from zenturio.experiment.experiment import Artifact
from zenturio.record import codec, complaints, leases, studies, views
from zenturio.record.database import Transaction
from zenturio.record.facts import Removal
from zenturio.record.layout import Layout
from zenturio.record.schema import (
    artifacts,
    attempts,
    contents,
    counters,
    definitions,
    events,
    experiments,
    fields,
    logs,
    shares,
    sources,
)
from zenturio.record.schema import leases as lease_table
from zenturio.record.schema import studies as study_table

_OF: BindParameter[int] = bindparam("of_study")
_SHARED = select(shares.c.experiment)
_ALONE = select(experiments.c.id).where(
    experiments.c.study == _OF, experiments.c.id.not_in(_SHARED)
)
_COUNT = select(func.count()).select_from(experiments).where(experiments.c.id.in_(_ALONE))
_TRIED = _COUNT.where(experiments.c.state != "waiting")
_PAST = select(func.count()).select_from(attempts).where(attempts.c.experiment.in_(_ALONE))
_PARTS = (logs.c.stdout_head, logs.c.stdout_tail, logs.c.stderr_head, logs.c.stderr_tail)
_LOG_BYTES = select(
    func.coalesce(
        func.sum(sum((func.length(part) for part in _PARTS[1:]), func.length(_PARTS[0]))), 0
    )
).where(logs.c.experiment.in_(_ALONE))
_IN_STORE = artifacts.c.kept.startswith("store:", autoescape=True)
_ELSEWHERE = artifacts.c.experiment.not_in(_ALONE)
_SAME_CONTENT = select(artifacts.c.sha256).where(_ELSEWHERE, _IN_STORE)
_SAME_FILE = select(artifacts.c.kept).where(_ELSEWHERE, not_(_IN_STORE))
_NEEDED = or_(
    and_(_IN_STORE, artifacts.c.sha256.in_(_SAME_CONTENT)), artifacts.c.kept.in_(_SAME_FILE)
)
"""Whether somebody else has the file, too: in the store it is the same for all of one content."""
_KEPT = (
    select(
        experiments.c.digest, artifacts.c.path, artifacts.c.size, artifacts.c.sha256,
        artifacts.c.kept,
    )
    .join(experiments, experiments.c.id == artifacts.c.experiment)
    .where(artifacts.c.experiment.in_(_ALONE), not_(_NEEDED))
)  # fmt: skip
_CONTENTS = select(artifacts.c.sha256).where(_IN_STORE).distinct()

_HEIR = (
    select(func.min(shares.c.study))
    .where(shares.c.experiment == experiments.c.id, shares.c.study != _OF)
    .scalar_subquery()
)
_BEQUEATH = (
    update(experiments)
    .where(experiments.c.study == _OF, experiments.c.id.in_(_SHARED))
    .values(study=_HEIR)
)
_UNSHARE = delete(shares).where(
    shares.c.experiment.in_(select(experiments.c.id).where(experiments.c.study == shares.c.study))
)
_GO = (
    *(delete(t).where(t.c.experiment.in_(_ALONE)) for t in (logs, artifacts, attempts)),
    delete(experiments).where(experiments.c.id.in_(_ALONE)),
    delete(shares).where(shares.c.study == _OF),
    delete(sources).where(
        sources.c.definition.in_(select(definitions.c.id).where(definitions.c.study == _OF))
    ),
    *(delete(t).where(t.c.study == _OF) for t in (events, fields, counters, definitions)),
    delete(lease_table).where(lease_table.c.study == _OF),
    delete(study_table).where(study_table.c.id == _OF),
)
_FORGET_CONTENTS = delete(contents).where(contents.c.sha256.not_in(select(sources.c.sha256)))


Locate = Callable[[Artifact, str], Artifact]
"""From what a row says of an artifact of an experiment to where its file is."""


def burden(transaction: Transaction, name: str, locate: Locate) -> Removal:
    """What would go with the study."""
    _, study, _ = studies.one(transaction, name)
    ((alone,),) = transaction.rows(_COUNT, of_study=study)
    ((tried,),) = transaction.rows(_TRIED, of_study=study)
    ((past,),) = transaction.rows(_PAST, of_study=study)
    ((log_bytes,),) = transaction.rows(_LOG_BYTES, of_study=study)
    kept = {
        str(locate(_artifact(*row), bytes(digest).hex()).kept)
        for digest, *row in transaction.rows(_KEPT, of_study=study)
    }
    every = sum(studies.counts(transaction, name).values())
    return Removal(name, alone, every - alone, tried + past, int(log_bytes), tuple(sorted(kept)))


def _artifact(path: str, size: int, sha256: str, kept: str) -> Artifact:
    return Artifact(codec.unescape(path), size, sha256, Path(codec.unescape(kept)))


def contents_in_use(transaction: Transaction, sha256: Iterable[str]) -> frozenset[str]:
    """Those of these contents that an artifact in a store has."""
    rows = transaction.among(_CONTENTS, artifacts.c.sha256, sorted(set(sha256)))
    return frozenset(content for (content,) in rows)


def delete_study(transaction: Transaction, name: str, locate: Locate) -> Removal:
    """Takes the study away; ConflictError while it has a driver."""
    for lease in leases.living(transaction, name):
        raise complaints.still_driven(lease)
    removal = burden(transaction, name, locate)
    study, number, revision = studies.one(transaction, name)
    for statement in _GO[:4]:
        transaction.run(statement, of_study=number)
    transaction.run(_BEQUEATH, of_study=number)
    transaction.run(_UNSHARE)
    for statement in _GO[4:]:
        transaction.run(statement, of_study=number)
    transaction.run(_FORGET_CONTENTS)
    views.drop(transaction, study)
    transaction.sql(f"DROP TABLE {Layout(number, name, revision, ()).table}")
    return removal
