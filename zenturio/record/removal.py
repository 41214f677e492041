"""How a study goes: what only it has goes with it, what it shares stays with the others."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy.sql.elements import BindParameter

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
_KEPT_ELSEWHERE = select(artifacts.c.kept).where(artifacts.c.experiment.not_in(_ALONE))
_KEPT = (
    select(artifacts.c.kept)
    .where(artifacts.c.experiment.in_(_ALONE), artifacts.c.kept.not_in(_KEPT_ELSEWHERE))
    .distinct()
)

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


def burden(transaction: Transaction, name: str) -> Removal:
    """What would go with the study."""
    _, study, _ = studies.one(transaction, name)
    ((alone,),) = transaction.rows(_COUNT, of_study=study)
    ((tried,),) = transaction.rows(_TRIED, of_study=study)
    ((past,),) = transaction.rows(_PAST, of_study=study)
    ((log_bytes,),) = transaction.rows(_LOG_BYTES, of_study=study)
    kept = sorted(codec.unescape(path) for (path,) in transaction.rows(_KEPT, of_study=study))
    every = sum(studies.counts(transaction, name).values())
    return Removal(name, alone, every - alone, tried + past, int(log_bytes), tuple(kept))


def delete_study(transaction: Transaction, name: str) -> Removal:
    """Takes the study away; ConflictError while it has a driver."""
    for lease in leases.living(transaction, name):
        raise complaints.still_driven(lease)
    removal = burden(transaction, name)
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
