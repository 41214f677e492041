"""Experiments run in blocks: every point once in a random order, then every point again."""

from itertools import islice

import pytest

import zenturio as zen
from cli.conftest import zen as command
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.experiment.experiment import RunPosition
from zenturio.record.open import open_repository
from zenturio.space import Space
from zenturio.study.driver.experiment_source import WINDOW, RunOrder, choose_order, select_points
from zenturio.study.local_run import run_locally
from zenturio.study.study_request import PlaceOptions

PROGRAM = """\
#ZEN$ SUBSTITUTE n = { 1:6 }
#ZEN$ REPEAT 3
#ZEN$ RUN "sh plain.sh"
echo n
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A run begins a project in the current folder: not in that of the tests."""
    monkeypatch.chdir(tmp_path)


def arranged(order, points, repeats=1):
    return [(point, repeat) for point, repeat, _ in order.arrange(points, repeats)]


def test_a_block_has_every_point_once_and_blocks_come_one_after_the_other():
    made = list(RunOrder("blocks", "a").arrange(range(50), 3))
    for block in (1, 2, 3):
        members = [each for each in made if each[2].block == block]
        assert sorted(point for point, _, _ in members) == list(range(50))
        assert {repeat for _, repeat, _ in members} == {block}
        assert [position.turn for _, _, position in members] == list(range(1, 51))
    assert [position.block for _, _, position in made] == [1] * 50 + [2] * 50 + [3] * 50


def test_each_block_has_an_order_of_its_own_which_the_seed_decides():
    first, second = (arranged(RunOrder("blocks", seed), range(50), 2) for seed in "ab")
    assert first == arranged(RunOrder("blocks", "a"), range(50), 2)
    assert first != second
    assert [p for p, _ in first[:50]] != [p for p, _ in first[50:]]
    assert [p for p, _ in first[:50]] != list(range(50))


def test_sorted_runs_all_repeats_of_a_point_together():
    assert arranged(RunOrder(), "ab", 2) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_random_mixes_points_and_repeats():
    made = list(RunOrder("random", "a").arrange(range(20), 10))
    assert sorted(each[:2] for each in made) == [(p, r) for p in range(20) for r in range(1, 11)]
    assert {each[2].block for each in made} == {1}
    assert len({repeat for _, repeat, _ in made[:20]}) > 2


def test_a_space_of_any_size_begins_at_once():
    """Points are taken in windows; nothing is counted."""

    def endless():
        number = 0
        while True:
            number += 1
            assert number <= 3 * WINDOW
            yield number

    made = list(islice(RunOrder("blocks", "a").arrange(endless(), 2), 5 * WINDOW))
    blocks = [position.block for _, _, position in made]
    assert blocks == [block for block in range(1, 6) for _ in range(WINDOW)]
    assert {p for p, _, _ in made[: 2 * WINDOW]} == set(range(1, WINDOW + 1))
    assert {p for p, _, _ in made[4 * WINDOW :]} == set(range(2 * WINDOW + 1, 3 * WINDOW + 1))


def test_every_permutation_of_three_points_is_as_likely():
    """Of 600 seeds each of the six comes about 100 times; beyond 50 off is 1 in 10^6."""
    seen = {}
    for seed in range(600):
        permutation = tuple(p for p, _ in arranged(RunOrder("blocks", str(seed)), "abc"))
        seen[permutation] = seen.get(permutation, 0) + 1
    assert len(seen) == 6
    assert all(50 < count < 150 for count in seen.values()), seen


def test_an_order_that_is_none_is_refused():
    with pytest.raises(InputError, match="--order block: neither"):
        choose_order("block")


class Study:
    def __init__(self, folder):
        self.path, self.db = folder / "plain.sh", str(folder / "zenturio.db")
        self.path.write_text(PROGRAM)

    def run(self, limit=None, jobs=1, **options):
        application = scan([str(self.path)])
        points = select_points(application.space, limit=limit)
        return run_locally(
            application, points, db=self.db, place=PlaceOptions(jobs=jobs), **options
        )

    def attempts(self):
        """Point, repeat and position of each result, in the order of their starts."""
        repository = open_repository(self.db)
        try:
            records = [record for record in repository.records("plain") if record.outcome]
            positions = {}
            for record in records:
                (attempt,) = repository.attempts(record.digest)
                said = attempt.conditions
                positions[record.digest] = RunPosition(
                    said.run_order, said.run_block, said.run_turn
                )
            records.sort(key=lambda record: record.outcome.started)
            return [(r.index, r.repeat, positions[r.digest]) for r in records]
        finally:
            repository.close()

    def seeds(self):
        repository = open_repository(self.db)
        try:
            return [each.seed for each in repository.rounds("plain")]
        finally:
            repository.close()


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_a_run_takes_points_in_blocks_and_records_where_each_stood(study):
    assert study.run().ok == 18
    order = RunOrder("blocks", *study.seeds())
    assert study.attempts() == list(order.arrange(range(6), 3))


def test_the_order_is_a_column(study):
    study.run()
    rows = command("results", "plain", "--all", "--by", "run_order,run_block", "--agg", "count",
                   "--json", "--db", study.db, cwd=study.path.parent).facts["rows"]  # fmt: skip
    assert [row[:2] for row in rows] == [["blocks", 1], ["blocks", 2], ["blocks", 3]], rows


def test_a_run_that_goes_on_keeps_the_order(study):
    assert study.run(limit=2).ok == 6
    (seed,) = study.seeds()
    assert study.run().ok == 12
    assert study.seeds() == [seed]
    every = list(RunOrder("blocks", seed).arrange(range(6), 3))
    late = [each for each in study.attempts() if each[0] >= 2]
    assert late == [each for each in every if each[0] >= 2]


def test_each_round_draws_an_order(study):
    study.run()
    command("run", "plain.sh", "--again", "-j", "1", "--db", study.db, cwd=study.path.parent)
    first, second = study.seeds()
    assert first
    assert second
    assert first != second


def test_sorted_is_a_word_away(study):
    command("run", "plain.sh", "--order", "sorted", "-j", "1", "--db", study.db,
            cwd=study.path.parent)  # fmt: skip
    assert [each[:2] for each in study.attempts()] == [(p, r) for p in range(6) for r in (1, 2, 3)]
    assert study.seeds() == [""]


def test_functions_are_called_in_blocks(tmp_path):
    called = []

    @zen.experiment(repeat=2)
    def f(n):
        called.append(n)
        return {"m": n}

    space = Space(n=range(20))
    zen.run(f, space, db=str(tmp_path / "a.db"))
    assert sorted(called[:20]) == sorted(called[20:]) == list(range(20))
    assert called[:20] != list(range(20))
    called.clear()
    zen.run(f, space, db=str(tmp_path / "b.db"), order="sorted")
    assert called == [n for n in range(20) for _ in (1, 2)]


def test_a_stage_takes_what_is_ready_in_blocks(tmp_path):
    (tmp_path / "mesh.sh").write_text(
        '#ZEN$ SUBSTITUTE n = { 1:2 }\n#ZEN$ RUN "sh mesh.sh"\n#ZEN$ OUTPUT "m"\necho n > m\n'
    )
    (tmp_path / "solve.sh").write_text(
        '#ZEN$ SUBSTITUTE n = { 1:2 }\n#ZEN$ SUBSTITUTE k = { 1:8 }\n#ZEN$ AFTER "mesh" ON n\n'
        '#ZEN$ REPEAT 2\n#ZEN$ RUN "sh solve.sh"\necho k n\n'
    )
    command("run", "solve.sh", "-j", "1", cwd=tmp_path)
    repository = open_repository(str(tmp_path / ".zenturio" / "zenturio.db"))
    try:
        (seed,) = [each.seed for each in repository.rounds("solve")]
        records = sorted(repository.records("solve"), key=lambda r: r.outcome.started)
        for n in (1, 2):
            mine = [(r.values["k"], r.index, r.repeat) for r in records if r.values["n"] == n]
            assert [repeat for _, _, repeat in mine] == [1] * 8 + [2] * 8
            drawn = sorted(mine, key=lambda each: RunOrder("blocks", seed).key(*each[1:]))
            assert mine == drawn
    finally:
        repository.close()


VERSIONS = """\
#ZEN$ PARAM version = { "old", "new" }
#ZEN$ PARAM n = { 1:2 }
#ZEN$ REPEAT 9
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)" UNIT "s"
#ZEN$ RUN "sh versions.sh {version} {n}"
case $1 in old) echo total $(($2 * 10)) ;; new) echo total $(($2 * 15)) ;; esac
"""


def test_versions_that_are_values_of_a_parameter_are_compared_within_their_blocks(tmp_path):
    (tmp_path / "versions.sh").write_text(VERSIONS)
    at = ("--db", str(tmp_path / "zenturio.db"))
    command("run", "versions.sh", "-j", "1", *at, cwd=tmp_path)
    conditions = ('version == "old"', 'version == "new"')
    asked = ("compare", "versions", "versions", "--metric", "total", *at)
    asked += tuple(part for condition in conditions for part in ("--where", condition))
    facts = command(*asked, "--json", cwd=tmp_path).facts
    assert (facts["verdict"], facts["ratio"]) == ("slower", pytest.approx(1.5))
    assert facts["blocks"] == 9
    assert facts["counts"] == {"slower": 2}
    shown = command(*asked, cwd=tmp_path).out
    assert shown.startswith("version=new against version=old, total: slower; ratio 1.5 (1.5 to 1.5")
    found = zen.Study("versions", at[1]).compare(metric="total", where=conditions)
    assert found.facts().items() <= facts.items()
    turned = zen.Study("versions", at[1]).compare(metric="total", where=conditions[::-1])
    assert turned.overall.verdict == "faster"


def test_versions_that_run_one_after_the_other_are_not_interleaved(tmp_path):
    (tmp_path / "versions.sh").write_text(VERSIONS)
    at = ("--db", str(tmp_path / "zenturio.db"))
    for version in ("old", "new"):
        chosen = ("-P", f'version={{"{version}"}}')
        command("run", "versions.sh", "-j", "1", *chosen, *at, cwd=tmp_path)
    asked = [part for v in ("old", "new") for part in ("--where", f'version == "{v}"')]
    facts = command("compare", "versions", "versions", *asked, "--metric", "total", "--all",
                    "--json", *at, cwd=tmp_path).facts  # fmt: skip
    assert facts["verdict"] == "unclear (not interleaved)"
    assert facts["ratio"] == pytest.approx(1.5)


GOLDEN = [2, 6, 1, 5, 7, 0, 4, 3]
MIXED = [
    ("c", 1), ("c", 2), ("b", 1), ("b", 2), ("d", 2), ("a", 1), ("a", 2), ("d", 1),
]  # fmt: skip


def test_the_order_of_a_seed_is_that_of_earlier_versions():
    blocks, random = RunOrder("blocks", "seed"), RunOrder("random", "seed")
    assert blocks.places(8, 1) == GOLDEN
    assert [(at, repeat) for at, repeat, _ in random.arrange("abcd", 2)] == MIXED
    # Studies that resume go through the windows that they had.
    last = [position for *_, position in blocks.arrange(range(WINDOW + 1), 1)][-1]
    assert (WINDOW, last.block, last.turn) == (2048, 2, 1)
    assert [blocks.key(3, 2)[0], len(random.key(3, 2))] == [2, 1]
