"""Results that have digests of an earlier format.

A format of digests is a matter of the program, not of the tables: what a digest was computed from
is not in the repository, so an upgrade cannot compute it again. A repository of that time has a
mark. Where it stands, experiments come with their former digests, too, and results that are found
by these take the present ones. The former ones stay as aliases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zenturio.experiment.experiment import Experiment
from zenturio.record import codec, result_rows, stored_recipes, studies
from zenturio.record.database import Transaction
from zenturio.record.study_context import StudyContext

FORMER = "digests of format 1"
"""The step of an upgrade that is never over, and the kind of the aliases."""


def mark_upgraded(transaction: Transaction) -> None:
    """Note that results may be there under digests of an earlier format."""
    transaction.insert_new("upgrade", ("step", "done", "at"), [(FORMER, 0, transaction.now)])


def has_former_digests(transaction: Transaction) -> bool:
    """Return whether results may be there under digests of an earlier format."""
    mark = transaction.dialect.mark
    return bool(transaction.sql(f"SELECT 1 FROM upgrade WHERE step = {mark}", (FORMER,)))


def adopt_former_digests(context: StudyContext, experiments: Iterable[Experiment]) -> bool:
    """Give what is there under the former digests of *experiments* the present ones.

    In every version, for a digest names the same experiment in all of them; whether there was any.
    """
    transaction, mark = context.transaction, context.transaction.dialect.mark
    present = {
        codec.digest_key(experiment.former): experiment
        for experiment in experiments
        if experiment.former
    }
    results = transaction.among_sql(
        "SELECT digest, id, version FROM results WHERE {among}", "digest", sorted(present)
    )
    tried = transaction.among_sql(
        "SELECT DISTINCT digest FROM attempts WHERE {among}", "digest", sorted(present)
    )
    former = {bytes(digest) for digest, *_ in (*results, *tried)}
    if not former:
        return False
    transaction.sql_many(
        # A row that has the present digest already wins: nothing is lost, and none is there twice.
        f"UPDATE results SET digest = {mark}, key = {mark} WHERE digest = {mark} AND NOT EXISTS"
        f" (SELECT 1 FROM results o WHERE o.digest = {mark} AND o.version = results.version"
        " AND o.round = results.round AND o.machine = results.machine)",
        [
            (
                codec.digest_key(present[old].digest),
                present[old].key or None,
                old,
                codec.digest_key(present[old].digest),
            )
            for old in sorted(former)
        ],
    )
    # What refers to experiments by digest, not by the id of a result, follows them.
    for table in ("attempts", "events"):
        pairs = [(codec.digest_key(present[old].digest), old) for old in sorted(former)]
        transaction.sql_many(f"UPDATE {table} SET digest = {mark} WHERE digest = {mark}", pairs)
    aliases = [(bytes(digest), number, FORMER) for digest, number, _ in results]
    transaction.insert_new("aliases", ("digest", "result", "kind"), aliases)
    _note_edits(context, {int(number): int(version) for _, number, version in results})
    _set_recipes(context, [present[old] for old in sorted(former)])
    return True


def _note_edits(context: StudyContext, versions: Mapping[int, int]) -> None:
    """Tell caches of each version which results they have to read again."""
    for version in studies.versions_by_id(context.transaction, set(versions.values())).values():
        beside = context if version.id == context.version.id else context.beside(version)
        result_rows.record_edit(
            beside, [number for number, of in versions.items() if of == version.id]
        )


def _set_recipes(context: StudyContext, experiments: Iterable[Experiment]) -> None:
    """In this version alone: another one has recipes of its own."""
    by_recipe: dict[int, list[bytes]] = {}
    for experiment in experiments:
        number = stored_recipes.recipe_number(context, experiment.program)
        if number is not None:
            by_recipe.setdefault(number, []).append(codec.digest_key(experiment.digest))
    mark = context.transaction.dialect.mark
    for number, keys in by_recipe.items():
        context.transaction.among_sql(
            f"UPDATE results SET recipe = {mark} WHERE version = {mark} AND {{among}}",
            "digest",
            sorted(keys),
            (number, context.version.id),
        )
