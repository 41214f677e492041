"""Kinds of machine in a database that was upgraded."""

import sqlite3

from zenturio.record.open import open_repository
from zenturio.testing.experiments import A, B, driven
from zenturio.testing.repository_machines import RISCV, ZEN5, run_on


def test_rows_of_before_count_everywhere_until_their_kind_of_machine_measures_again(tmp_path):
    place = tmp_path / "zenturio.db"
    repository = open_repository(str(place))
    (one,) = driven(repository)
    run_on(repository, one, A, ZEN5, 1.0)
    repository.close()
    with sqlite3.connect(place) as database:  # as an upgrade leaves them: only supposed
        database.execute("UPDATE machines SET assumed = 1")
    repository = open_repository(str(place))
    assert repository.cached("s", [A], {RISCV}) == {A.digest}
    run_on(repository, one, B, ZEN5, 1.0)
    assert repository.cached("s", [A, B], {RISCV}) == frozenset()
    assert repository.cached("s", [A, B], {ZEN5}) == {A.digest, B.digest}
    repository.close()
