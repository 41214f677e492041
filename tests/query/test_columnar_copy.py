"""The columnar copy answers as the database does, and follows it."""

import itertools
import math
import random
import re
import shutil
import statistics
import threading
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.query.conftest import fill
from zenturio.experiment.experiment import HostConditions
from zenturio.expression import parse
from zenturio.log_setup import work_progress
from zenturio.query import compare_studies, listing, results, study_frame
from zenturio.query.catalog import SnapshotReader
from zenturio.query.frames import group_frame, varying_parameters
from zenturio.query.interleaved_pairs import copied_runs
from zenturio.query.listing import query_listing
from zenturio.query.study_table import TableQuery, open_table
from zenturio.record import columnar_copy
from zenturio.record.entities import NEWEST
from zenturio.record.open import open_repository
from zenturio.record.redaction import redact
from zenturio.record.secret_masking import Secret
from zenturio.show.portal.state import ColumnarCopyBuilder
from zenturio.study import best_points
from zenturio.study.best_points import best

PARAMETERS = {"n": "int", "solver": "str", "fast": "bool", "omega": "real"}
METRICS = {"wtime": "real s", "cores": "int", "balance": "real"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder of the test's own, and a copy of every study."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(columnar_copy, "COPY_ROWS", 1)
    monkeypatch.setattr(columnar_copy, "SEGMENT_ROWS", 32)
    monkeypatch.setattr(columnar_copy, "ROWS_AT_ONCE", 23)
    return tmp_path / "cache"


def rows_of(seed, count=200):
    chance = random.Random(seed)
    return [
        {
            "index": number // 2,
            "repeat": number % 2 + 1,
            "n": chance.choice([1, 2, -7, None]),
            "solver": chance.choice(["cg", "Ä", "zz", None]),
            "fast": chance.random() < 0.5,
            "omega": chance.choice([0.5, 1.25, 1e-3]),
            "wtime": chance.choice([None, chance.gauss(1e6, 1e-3), chance.random()]),
            "cores": chance.choice([None, chance.randrange(9), 2**40]),
            "balance": chance.choice([chance.gauss(0, 1), 1e6, -1e6]),
            "status": chance.choice(["ok", "ok", "failed"]),
        }
        for number in range(count)
    ]


@pytest.fixture
def study(repository):
    """A study with gaps, texts, truths and values that nearly cancel."""
    fill(repository, "s", PARAMETERS, METRICS, rows_of(3))
    return repository


def without_copy(ask):
    """What the database answers."""
    kept, columnar_copy.COPY_ROWS = columnar_copy.COPY_ROWS, 10**12
    try:
        return ask()
    finally:
        columnar_copy.COPY_ROWS = kept


def is_near(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300) or math.isnan(a + b)
    return a == b and type(a) is type(b)


def differences(copied, asked):
    """Return the pairs that two answers do not have in common."""
    heads = [
        (table.columns, table.found, table.experiments, table.total, table.notes, len(table.rows))
        for table in (copied, asked)
    ]
    if heads[0] != heads[1]:
        return list(zip(*heads, strict=True))
    pairs = [
        p for rows in zip(copied.rows, asked.rows, strict=True) for p in zip(*rows, strict=True)
    ]
    return [pair for pair in pairs if not is_near(*pair)]


CONDITIONS = [
    None, "n == 1", "not (n > 0 and wtime < 1)", "solver in ('cg', 'zz') or fast == fast",
    "wtime >= 0.5 or cores != 3", "status == 'failed'", "solver != 'cg'", "2 > n", "index < 40",
]  # fmt: skip


@settings(
    max_examples=settings.default.max_examples * 25 // 100,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    by=st.lists(st.sampled_from([*PARAMETERS, "repeat"]), unique=True, max_size=3),
    aggregates=st.lists(
        st.sampled_from(["mean", "min", "max", "std", "count", "median", "sum"]),
        unique=True, min_size=1, max_size=3,
    ),
    where=st.sampled_from(CONDITIONS),
)  # fmt: skip
def test_groups_of_the_copy_agree_with_those_of_the_database(study, by, aggregates, where):
    def ask():
        return results(study, "s", by=by, aggregates=aggregates, where=where)

    assert study.columnar_copy("s") is not None
    assert differences(ask(), without_copy(ask)) == []


ORDERS = [(), ("-wtime",), ("cores", "-n"), ("n",)]


@pytest.mark.parametrize(
    "repository", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
def test_rows_of_the_copy_stand_in_the_order_of_the_database(study):
    assert study.columnar_copy("s") is not None

    def differences_of(where, sort, limit):
        def ask():
            return results(study, "s", sort=sort, limit=limit, where=where)

        return differences(ask(), without_copy(ask))

    questions = itertools.product(CONDITIONS, ORDERS, [0, 1, 7, None])
    found = {question: differences_of(*question) for question in questions}
    assert {question: pairs for question, pairs in found.items() if pairs} == {}


@pytest.mark.parametrize(
    "repository", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize("where", [None, "wtime >= 0.5 or cores != 3", "solver != 'cg'", "n == 9"])
def test_pages_of_the_copy_are_cut_from_the_order_of_the_database(study, where):
    """Page by page from the first row and back from the last, with what stands before each."""
    assert study.columnar_copy("s") is not None
    condition = where and parse(where)
    for sort in ("", "wtime", "-wtime", "n", "-solver", "fast", "-balance"):
        query = TableQuery("s", condition, sort=(sort,) if sort else ())
        with open_table(study, query) as table:
            ordered = without_copy(table.numbers).tolist()
        pages = []
        with open_table(study, query) as table:
            for turn in (False, True):
                at, size = None, 30
                while page := table.page(size, at, is_backwards=turn):
                    assert page.total == len(ordered)
                    pages.append((page.start, page.numbers.tolist()))
                    if len(page.numbers) < size:
                        break
                    at = int(page.numbers[0 if turn else -1])
        assert len(pages) >= 2 * (len(ordered) // 30 + 1)
        for start, numbers in pages:
            assert numbers == ordered[start : start + len(numbers)], (where, sort, start)


def test_causes_of_failures_by_the_copy_are_those_of_the_database(study, monkeypatch):
    monkeypatch.setattr(listing, "FEW_FAILURES", 1)
    assert study.columnar_copy("s") is not None

    def causes():
        return query_listing(study, TableQuery("s"), lambda found: found.causes(5))

    assert len(causes()) > 0
    assert causes() == without_copy(causes)


def compared_rows(seed, count=240):
    """Two versions in blocks; some runs failed, some ran elsewhere or have no value."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        place = number // 12, number % 12
        conditions = HostConditions(
            load_start=chance.choice([0.1, 2.5, None]), slots=chance.choice([1, 1, 1, 2]),
            governor=chance.choice(["performance", None]),
            run_order=chance.choice(["blocks"] * 9 + ["sorted"]), run_block=place[0] + 1,
            run_turn=place[1] + 1,
        )  # fmt: skip
        rows.append(
            {
                "index": place[1] // 2,
                "repeat": place[0] + 1,
                "n": place[1] // 2 if place[1] < 10 else None,
                "version": "old" if place[1] % 2 else "new",
                "wtime": chance.choice([None] + 9 * [chance.lognormvariate(number % 2, 0.1)]),
                "status": chance.choice(["ok"] * 12 + ["failed"]),
                "host": chance.choice(["kofel"] * 20 + ["hafelekar"]),
                "started": float(number) + chance.random() / 2,
                "conditions": conditions if chance.random() < 0.9 else None,
            }
        )
    return rows


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
def test_comparisons_by_the_copy_are_those_of_the_database(repository, seed):
    parameters, metrics = {"n": "int", "version": "str"}, {"wtime": "real s"}
    fill(repository, "s", parameters, metrics, compared_rows(seed))
    fill(repository, "t", parameters, metrics, compared_rows(seed + 50, 150))
    sides = ('version == "old"', 'version == "new"')
    for studies, options in (
        (("s", "s"), {"where": sides}),
        (("s", "t"), {"on": ["n"]}),
        (("s", "t"), {"where": (sides[0], None)}),
    ):

        def ask(studies=studies, options=options):
            return compare_studies(repository, *studies, "wtime", outside=True, **options)

        assert copied_runs(
            repository, "s", "wtime", where=None, rows=NEWEST, outside=True, is_paired=True
        ) is not None  # fmt: skip
        assert repr(ask()) == repr(without_copy(ask))
        assert any(pair.blocks for pair in ask().pairs) == (studies == ("s", "s"))


def rows_read_by(ask, monkeypatch):
    """How many rows of the database became objects of Python."""
    counts = []

    def counted(rows):
        counts.append(len(rows))
        return rows

    fetch, batches = SnapshotReader.fetch, SnapshotReader.batches
    with monkeypatch.context() as patch:
        patch.setattr(SnapshotReader, "fetch", lambda *values: counted(fetch(*values)))
        patch.setattr(SnapshotReader, "batches", lambda *values: map(counted, batches(*values)))
        ask()
    return sum(counts)


@pytest.mark.parametrize(
    "repository", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
def test_a_comparison_reads_of_the_database_only_conditions_that_there_are(repository, monkeypatch):
    rows = [{**row, "conditions": None} for row in compared_rows(4)]
    some = [row | {"conditions": HostConditions(slots=1)} for row in rows[:60]] + rows[60:]
    for name, runs in (("s", rows), ("t", some)):
        fill(repository, name, {"n": "int", "version": "str"}, {"wtime": "real s"}, runs)
        assert repository.columnar_copy(name) is not None
    sides = ('version == "old"', 'version == "new"')

    def rows_read(*studies, **options):
        def ask():
            compare_studies(repository, *studies, "wtime", outside=True, **options)

        return rows_read_by(ask, monkeypatch)

    few = rows_read("s", "s", where=sides)
    assert few < len(rows) / 2
    assert rows_read("t", "t", where=sides) == few + 2 * 60
    assert rows_read("s", "t", on=["n"]) < few + 60 + 20


def test_frames_of_the_copy_are_those_of_the_database(study):
    def ask():
        columns = ["n", "solver", "fast", "omega", "repeat", "wtime", "cores"]
        return study_frame(study, "s", columns=columns), study_frame(study, "s", metrics=["wtime"])

    for copied, asked in zip(ask(), without_copy(ask), strict=True):
        assert copied.equals(asked)
        assert (copied.dtypes == asked.dtypes).all()


@pytest.mark.parametrize("kind", ["mean", "median", "count"])
def test_a_chart_shows_the_same_with_and_without_the_copy(study, kind):
    def ask():
        return group_frame(study, "s", ["solver", "n"], "balance", kind, spread="yes")

    copied, asked = ask(), without_copy(ask)
    assert list(copied) == list(asked)
    for name in copied:
        pairs = zip(copied[name].tolist(), asked[name].tolist(), strict=True)
        assert all(one is other or is_near(one, other) for one, other in pairs)
    assert copied.attrs["grouped"] == asked.attrs["grouped"]
    assert varying_parameters(study, "s") == without_copy(lambda: varying_parameters(study, "s"))


@pytest.mark.parametrize("goal", ["MINIMIZE wtime", "MAXIMIZE wtime"])
@pytest.mark.parametrize("count", [1, 5, 60])
def test_the_best_medians_and_their_intervals_are_those_of_all_records(
    sqlite, monkeypatch, goal, count
):
    monkeypatch.setattr(best_points, "MOST_LEADERS", 4)
    chance = random.Random(f"{goal} {count}")
    rows = [
        # Ties between points, and some values far off, by which means are of no use.
        {"n": n, "index": 50 - n, "repeat": repeat, "wtime": wtime}
        for n in range(50)
        for repeat in range(1, chance.randint(2, 10))
        for wtime in [chance.choice([n // 3 + chance.randint(0, 5), 1e9, -1e9, None, 0.1])]
    ]
    fill(sqlite, "b", {"n": "int"}, METRICS, rows)
    copied, asked = (
        best(sqlite, "b", count, goal),
        without_copy(lambda: best(sqlite, "b", count, goal)),
    )
    assert copied == asked
    measured: dict[int, list[float]] = {}
    for row in rows:
        if row["wtime"] is not None:
            measured.setdefault(row["n"], []).append(row["wtime"])
    sign = -1 if goal.startswith("MAX") else 1
    ranked = sorted(measured, key=lambda n: (sign * statistics.median(measured[n]), 50 - n))
    assert [point.values["n"] for point in copied.points] == ranked[:count]


@pytest.mark.parametrize(
    "goal", ["MINIMIZE balance", "MAXIMIZE omega", "MINIMIZE cores", "MAXIMIZE wtime"]
)
def test_the_best_points_are_those_of_all_records(sqlite, goal):
    fill(sqlite, "b", PARAMETERS, METRICS, rows_of(5))
    rankings = best(sqlite, "b", 7, goal), without_copy(lambda: best(sqlite, "b", 7, goal))
    # Large studies that are ranked by columns have no intervals of means: decisions/search.md.
    copied, asked = (replace(ranking, noise=None, leaders=()) for ranking in rankings)
    assert copied == asked


def copied_mean(repository, study="s"):
    return results(repository, study, by=["solver"], aggregates=["sum"])


def check_follows(repository, study="s"):
    copied = copied_mean(repository, study)
    assert differences(copied, without_copy(lambda: copied_mean(repository, study))) == []


def segments(folder):
    return {path.name for path in folder.rglob("*.columns")}


def test_the_copy_follows_results_that_are_added(sqlite, folder):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    check_follows(sqlite)
    before = segments(folder)
    fill(sqlite, "s", PARAMETERS, METRICS, [{**row, "index": 500 + i} for i, row in enumerate(
        rows_of(2, 150))][100:])  # fmt: skip
    check_follows(sqlite)
    assert len(before & segments(folder)) >= 3  # what was copied is not copied again


def numbers(repository):
    connection = repository.connections.raw_connection()
    rows = connection.cursor().execute("SELECT id FROM results ORDER BY id").fetchall()
    connection.close()
    return [number for (number,) in rows]


def change(repository, *statements):
    """Change the database as another process would."""
    connection = repository.connections.raw_connection()
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    for statement in statements:
        cursor.execute(statement)
    cursor.execute("COMMIT")
    connection.close()


def test_the_copy_follows_a_result_whose_number_was_drawn_early(sqlite):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    early = numbers(sqlite)[40]
    change(sqlite, f"CREATE TABLE kept AS SELECT * FROM results WHERE id = {early}",
           f"DELETE FROM results WHERE id = {early}",
           "UPDATE counters SET count = count - 1 WHERE status ="
           " (SELECT status FROM kept)")  # fmt: skip
    check_follows(sqlite)
    change(sqlite, "INSERT INTO results SELECT * FROM kept",
           "UPDATE counters SET count = count + 1 WHERE status = (SELECT status FROM kept)",
           "DROP TABLE kept")  # fmt: skip
    check_follows(sqlite)


def edit(repository, number):
    """Change the value of a parameter of a result in place, as an extraction changes metrics."""
    change(repository, f"UPDATE results SET v0 = 77 WHERE id = {number}",
           "UPDATE versions SET edits = edits + 1",
           f"INSERT INTO edits SELECT id, edits, {number}, {number} FROM versions")  # fmt: skip


def test_the_copy_follows_changes_in_place(sqlite, folder):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 200))
    check_follows(sqlite)
    before, number = segments(folder), numbers(sqlite)[50]
    edit(sqlite, number)
    check_follows(sqlite)
    assert 77 in {row[0] for row in results(sqlite, "s", by=["n"], where="status != 'x'").rows}
    assert before & segments(folder)


def test_copies_of_three_studies_follow_each_its_own_changes(sqlite, folder):
    rows = rows_of(1, 130)
    for begin, end in ((0, 10), (10, 20), (20, 130)):
        for study in "rst":
            fill(sqlite, study, PARAMETERS, METRICS, rows[begin:end])
        for study in "rst":
            check_follows(sqlite, study)
    # Of a study with an edit the segment of the row and the open one are read again, and no other.
    for number, row in enumerate((5, 130), 1):
        before = segments(folder)
        change(sqlite, f"UPDATE results SET v0 = 77 WHERE id = {row}",
               "UPDATE versions SET edits = edits + 1 WHERE id = 1",
               f"INSERT INTO edits VALUES (1, {number}, {row}, {row})")  # fmt: skip
        for study in "stst":
            check_follows(sqlite, study)
        assert segments(folder) == before
        for _ in range(2):
            check_follows(sqlite, "r")
        read_again = {int(name.partition("-")[0], 16) for name in segments(folder) - before}
        assert len(read_again) == 2
        assert (1 in read_again) == (row == 5)


@pytest.mark.parametrize("column", ["digest", "started", "ended"])
def test_a_segment_whose_last_row_is_another_one_is_read_again(sqlite, folder, column):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 40))
    check_follows(sqlite)
    before = segments(folder)
    value = "zeroblob(32)" if column == "digest" else f"{column} + 1"
    change(sqlite, f"UPDATE results SET {column} = {value} WHERE id = {numbers(sqlite)[31]}")
    check_follows(sqlite)
    assert any(name.startswith("0000000000000001-") for name in segments(folder) - before)


def test_the_copy_follows_a_backup_that_went_another_way(tmp_path, sqlite):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    sqlite.close()
    place, backup = tmp_path / "zenturio.db", tmp_path / "backup.db"
    shutil.copy(place, backup)
    for seed in (2, 3):
        for path in tmp_path.glob("zenturio.db*"):
            path.unlink()
        shutil.copy(backup, place)
        repository = open_repository(place)
        rows = [{**row, "index": 1000 * seed + i} for i, row in enumerate(rows_of(seed, 200))]
        fill(repository, "s", PARAMETERS, METRICS, rows[100:])
        check_follows(repository)
        repository.close()


@pytest.mark.parametrize("edits_after", [0, 1])
def test_the_copy_follows_a_backup_from_before_an_edit(tmp_path, sqlite, edits_after):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    sqlite.close()
    place, backup = tmp_path / "zenturio.db", tmp_path / "backup.db"
    shutil.copy(place, backup)
    repository = open_repository(place)
    edit(repository, numbers(repository)[10])
    check_follows(repository)
    repository.close()
    for path in tmp_path.glob("zenturio.db*"):
        path.unlink()
    shutil.copy(backup, place)
    repository = open_repository(place)
    for at in range(edits_after):
        edit(repository, numbers(repository)[90 + at])

    def by_size():
        return results(repository, "s", by=["n"], aggregates=["sum"])

    for _ in range(2):  # the second time from what the first one wrote
        assert differences(by_size(), without_copy(by_size)) == []
    repository.close()


def test_results_that_are_removed_leave_the_copy(sqlite):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    check_follows(sqlite)
    sqlite.delete("s")
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(4, 100))
    check_follows(sqlite)


@pytest.mark.parametrize(
    "harm", ["flip", "cut", "remove", "json", "path", "type", "edits", "last", "parts", "values"]
)
def test_a_damaged_copy_is_made_anew(sqlite, folder, harm):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    check_follows(sqlite)
    path = min(folder.rglob("*.columns"))
    (manifest,) = folder.rglob("manifest.json")
    text = manifest.read_text()
    match harm:
        case "flip":
            content = bytearray(path.read_bytes())
            for at in range(0, len(content), 7):
                content[at] ^= 255
            path.write_bytes(content)
        case "cut":
            path.write_bytes(path.read_bytes()[:-9])
        case "remove":
            path.unlink()
        case "json":
            manifest.write_text(text[:-20])
        case "path":
            manifest.write_text(text.replace(path.name, "../../secret"))
        case "type":
            manifest.write_text(text.replace('"|i1"', '"|O"').replace('"<f8"', '"|O8"'))
        case "edits":
            manifest.write_text(text.replace('"edits": 0', '"edits": "x"'))
        case "last":
            manifest.write_text(re.sub(r'"last": \d+', '"last": "0) OR (1 = 1"', text))
        case "parts":
            manifest.write_text(re.sub(r'"parts": \{[^}]*\}', '"parts": null', text))
        case "values":
            manifest.write_text(re.sub(r'("parameter:\w+": )\[[^]]*\]', r"\1null", text))
    check_follows(sqlite)
    check_follows(sqlite)


def test_a_copy_that_others_can_write_to_is_not_believed(sqlite, folder, caplog):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    check_follows(sqlite)
    (manifest,) = folder.rglob("manifest.json")
    manifest.write_text(manifest.read_text().replace('"cg"', '"bad"'))
    manifest.parent.chmod(0o777)
    check_follows(sqlite)
    manifest.parent.chmod(0o700)
    manifest.unlink()
    elsewhere = folder.parent / "elsewhere"
    elsewhere.write_text("not ours")
    manifest.symlink_to(elsewhere)
    check_follows(sqlite)
    assert elsewhere.read_text() == "not ours"


def test_without_a_cache_folder_the_database_answers(sqlite, folder, monkeypatch):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    (folder.parent / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "file"))
    check_follows(sqlite)


def test_a_copy_is_read_in_the_snapshot_of_the_question(sqlite):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    with open_table(sqlite, TableQuery("s")) as table:
        before = table.copied().count
        rows = [{**row, "index": 900 + i} for i, row in enumerate(rows_of(8, 140))]
        fill(sqlite, "s", PARAMETERS, METRICS, rows[100:])
        table._opened_copy = None
        assert table.copied().count == before == 100
    check_follows(sqlite)


def test_what_the_copy_cannot_say_is_asked_of_the_database(sqlite, monkeypatch):
    rows = [{"n": number, "y": value, "z": 1.0} for number, value in enumerate(
        [1e200, math.inf, -math.inf, math.nan, 2**70, 5e-324] * 8)]  # fmt: skip
    fill(sqlite, "s", {"n": "int"}, {"y": "real", "z": "real"}, rows)
    for aggregates in (["sum"], ["mean", "std"], ["median"], ["min", "max"]):

        def ask(aggregates=aggregates):
            return results(sqlite, "s", by=["z"], aggregates=aggregates)

        assert differences(ask(), without_copy(ask)) == []
    where = "sqrt(n) < 3 and n + 1 > 2"
    assert len(results(sqlite, "s", where=where, limit=99).rows) == 7


def test_a_secret_that_is_removed_leaves_the_copy(tmp_path, sqlite, folder):
    rows = [{**row, "solver": "hunter22" if row["n"] == 1 else "cg"} for row in rows_of(1, 100)]
    fill(sqlite, "s", PARAMETERS, METRICS, rows)
    check_follows(sqlite)
    (manifest,) = folder.rglob("manifest.json")
    another = tmp_path / "of-another-user"
    shutil.copytree(folder, another)
    assert "hunter22" in manifest.read_text()
    sqlite.close()
    redact(tmp_path / "zenturio.db", Secret("hunter22"), "me")
    assert not segments(folder)
    shutil.copytree(another, folder, dirs_exist_ok=True)
    repository = open_repository(tmp_path / "zenturio.db")
    check_follows(repository)
    repository.close()
    assert "hunter22" not in manifest.read_text()


def test_who_waits_for_a_copy_is_told_how_far_it_is(sqlite):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    steps = []
    token = work_progress.set(lambda _words, *step: steps.append(step))
    copied_mean(sqlite)
    copied_mean(sqlite)
    work_progress.reset(token)
    assert steps == [(32, 100), (64, 100), (96, 100), (100, 100)]


def test_who_must_not_wait_has_the_copy_made_beside_the_question(sqlite, folder):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    wanted = []
    sqlite.copy_wanted = wanted.append
    check_follows(sqlite)
    assert wanted == ["s"]
    assert not segments(folder)
    maker = ColumnarCopyBuilder(sqlite)
    maker.start("s")
    maker.start("s")
    maker.start("nowhere")
    for thread in threading.enumerate():
        if thread.name.startswith("copy of"):
            thread.join()
    before = segments(folder)
    assert before
    check_follows(sqlite)
    assert (wanted, segments(folder)) == (["s"], before)


def test_a_column_of_many_values_is_copied_without_a_dictionary(study, monkeypatch):
    monkeypatch.setattr(columnar_copy, "MOST_VALUES", 2)

    def ask():
        return results(study, "s", by=["n", "omega"], aggregates=["mean", "count"])

    assert differences(ask(), without_copy(ask)) == []
    copied = study.columnar_copy("s")
    assert copied is not None
    words = copied.column("parameter:omega").codes()[1]
    assert sorted(words) == [1e-3, 0.5, 1.25]


@pytest.mark.parametrize("where", [None, "n == 1", "n == 99"])
@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.slow), 3, 10])
def test_values_that_parameters_took_are_those_of_the_database(study, where, most):
    condition = parse(where) if where else None

    def ask():
        return query_listing(
            study,
            TableQuery("s", condition),
            lambda listing: [listing.taken(column, most) for column in listing.catalog.parameters],
        )

    results(study, "s", by=["n"])  # makes the copy
    copied, asked = ask(), without_copy(ask)
    assert [repr(column) for column in copied] == [repr(column) for column in asked]


@pytest.mark.parametrize("key", ["metric:wtime", "metric:cores", "metric:balance"])
def test_reals_that_are_read_in_parts_are_those_of_the_column(study, key, monkeypatch):
    results(study, "s", by=["n"])  # makes the copy
    stored = study.columnar_copy("s").reals(key)
    whole = study.columnar_copy("s").column(key).reals()
    assert isinstance(stored, columnar_copy.StoredReals)
    assert len(stored) == len(whole)
    bounds = [0, 1, 31, 32, 33, 64, 65, len(whole)]
    for rows in [slice(a, b) for a in bounds for b in bounds if a <= b]:
        np.testing.assert_array_equal(stored[rows], whole[rows])
    for places in ([], [0], [31, 32, 0, 5, 32], range(len(whole))):
        places = np.array(places, dtype=np.int64)
        np.testing.assert_array_equal(stored[places], whole[places])


def test_a_file_that_goes_while_parts_are_read_is_asked_of_the_database(sqlite, folder):
    fill(sqlite, "s", PARAMETERS, METRICS, rows_of(1, 100))
    check_follows(sqlite)
    copied = sqlite.columnar_copy("s")
    stored = copied.reals("metric:wtime")
    stored[slice(0, 32)]
    for path in folder.rglob("*.columns"):
        path.unlink()
    with pytest.raises(columnar_copy.NotInCopyError):
        stored[slice(32, 64)]
    check_follows(sqlite)


def test_a_part_that_was_cut_or_changed_is_damage(tmp_path):
    path, values = tmp_path / "part", np.arange(5, dtype=np.int16)
    path.write_bytes(b"before" + values.tobytes())
    part = [6, values.dtype.str, zlib.crc32(values.tobytes())]
    for kind in (np.int16, np.int64, np.float64):
        target = np.zeros(5, dtype=kind)
        columnar_copy.read_part(path, part, target)
        assert target.tolist() == [0, 1, 2, 3, 4]
    columnar_copy.read_part(path, [6, part[1], 0], np.zeros(0, dtype=np.int16))
    shorter = zlib.crc32(values[:4].tobytes() + bytes(2))
    for content, checksum in (
        (b"before" + values[::-1].tobytes(), part[2]),
        (b"before" + values[:4].tobytes(), part[2]),
        (b"before" + values[:4].tobytes(), shorter),  # as if zeros followed
    ):
        path.write_bytes(content)
        with pytest.raises(columnar_copy._DamagedError):
            columnar_copy.read_part(path, [6, part[1], checksum], np.zeros(5, dtype=np.int16))
    with pytest.raises(columnar_copy._DamagedError):
        columnar_copy.read_part(path, [6, "|O", 0], np.zeros(5, dtype=np.int16))
