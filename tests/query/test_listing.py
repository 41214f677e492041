"""Pages of a study are what its whole table is, cut."""

import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio.errors import InputError, NotFoundError
from zenturio.experiment import Missing
from zenturio.expression import parse
from zenturio.query import raw
from zenturio.query.listing import query_listing
from zenturio.query.study_table import TableQuery

WISHES = [
    TableQuery("matmul"),
    TableQuery("matmul", parse("n >= 256 and solver == 'cg'")),
    TableQuery("matmul", states=("failed",)),
    TableQuery("matmul", states=("timeout",)),
    TableQuery("matmul", sort=("-gflops", "threads")),
    TableQuery("matmul", parse("status != 'failed'"), sort=("solver", "-wtime")),
    TableQuery("matmul", sort=("-status",), columns=("n", "gflops")),
]


def _twin(wanted):
    """The rows in Python: what is wanted, chosen and sorted one by one."""
    rows = [dict(row) for row in matmul()]
    for row in rows:
        row.setdefault("status", "ok")
        row["gflops"] = row.get("gflops")
    rows.sort(key=lambda row: (row["index"], row["repeat"]))
    if wanted.where:
        rows = [row for row in rows if wanted.where.value(row) is True]
    if wanted.states:
        rows = [row for row in rows if row["status"] in wanted.states]
    for each in reversed(wanted.sort):
        key = each.removeprefix("-")
        rows.sort(key=lambda row: (row[key] is not None, row[key] or 0) if each[0] == "-"
                  else (row[key] is None, row[key] or 0), reverse=each[0] == "-")  # fmt: skip
    names = wanted.columns or (*PARAMETERS, *METRICS)
    return [(row["status"], *(row[name] for name in names)) for row in rows]


def _shown(rows):
    return [(row.status, *row.cells) for row in rows]


@pytest.mark.parametrize("wanted", WISHES, ids=str)
def test_all_numbers_cut_into_pages_are_the_whole_table(repository, wanted):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())

    def cut(listing):
        numbers = listing.numbers()
        parts = [numbers[start : start + 5] for start in range(0, len(numbers), 5)]
        return [row for part in parts for row in listing.those(part)]

    assert _shown(query_listing(repository, wanted, cut)) == _twin(wanted)
    first = query_listing(repository, wanted, lambda listing: listing.first(7))
    assert _shown(first) == _twin(wanted)[:7]


def test_an_index_leads_forwards_and_backwards_through_the_space(repository):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    wanted = TableQuery("matmul")
    whole = _twin(wanted)

    def walk(listing):
        pages = [listing.first(5)]
        while page := listing.behind(pages[-1][-1].number, 5):
            assert listing.rank(page[0].number) == sum(map(len, pages))
            pages.append(page)
        assert listing.before(None, 5) == [row for page in pages for row in page][-5:]
        for left, right in pairwise(pages):
            assert listing.before(right[0].number, 5) == left
        assert listing.before(pages[0][0].number, 5) == []
        return [row for page in pages for row in page]

    assert _shown(query_listing(repository, wanted, walk)) == whole


@pytest.mark.parametrize("wanted", WISHES, ids=str)
def test_the_sql_that_is_told_answers_the_same(repository, wanted):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    told = raw(repository, query_listing(repository, wanted, lambda listing: listing.sql(1000)))
    assert [row[1:] for row in told.rows] == _twin(wanted)


def test_a_metric_says_why_it_is_missing_and_which_number_it_is_not(repository):
    rows = [
        {"n": 1, "wtime": math.nan, "gflops": Missing("no line matches")},
        {"n": 2, "wtime": math.inf, "gflops": 2.0},
        {"n": 3},
    ]
    fill(repository, "odd", {"n": "int"}, METRICS, rows)
    found = query_listing(repository, TableQuery("odd"), lambda listing: listing.first(10))
    (_, nan, why), (_, inf, two), (_, *nothing) = (row.cells for row in found)
    assert math.isnan(nan)
    assert why == Missing("no line matches")
    assert (inf, two, nothing) == (math.inf, 2.0, [None, None])


@pytest.mark.parametrize("name", ["zen:position", "zen:number", "a{}b", "%s", 'say "it"', "x" * 90])
def test_names_are_data(repository, name):
    fill(repository, name, {name: "int"}, {"m": "real"}, [{name: i, "m": 1.0 - i} for i in (1, 2)])
    quoted = parse("`" + name + "` > 0")
    wanted = TableQuery(name, quoted, sort=(f"-{name}",))
    found = query_listing(repository, wanted, lambda listing: listing.those(listing.numbers()))
    assert [row.cells for row in found] == [(2, -1.0), (1, 0.0)]
    plain = query_listing(
        repository, TableQuery(name), lambda listing: listing.behind(found[1].number, 9)
    )
    assert [row.number for row in plain] == [found[0].number]


def test_positions_beyond_63_bits_keep_their_order(repository):
    indices = [5, 2**63 - 1, 2**63, 10**40, 10**40 + 1]
    rows = [{"n": n, "index": index} for n, index in enumerate(indices)]
    fill(repository, "vast", {"n": "int"}, {"m": "real"}, rows)

    def walk(listing):
        found = listing.first(1)
        while more := listing.behind(found[-1].number, 1):
            found += more
        return found

    walked = query_listing(repository, TableQuery("vast"), walk)
    assert [row.cells[0] for row in walked] == [0, 1, 2, 3, 4]


def test_what_is_not_there_is_named(sqlite):
    fill(sqlite, "matmul", PARAMETERS, METRICS, matmul())
    with pytest.raises(NotFoundError, match="no study"):
        query_listing(sqlite, TableQuery("matmull"), lambda listing: listing.first(1))
    with pytest.raises(NotFoundError, match="did you mean 'threads'"):
        query_listing(
            sqlite, TableQuery("matmul", sort=("-thread",)), lambda listing: listing.first(1)
        )
    with pytest.raises(InputError, match="gflop"):
        query_listing(
            sqlite, TableQuery("matmul", parse("gflop > 1")), lambda listing: listing.first(1)
        )


@settings(
    max_examples=settings.default.max_examples * 20 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sort=st.lists(st.sampled_from(["n", "-threads", "solver", "-wtime"]), max_size=3))
def test_every_order_holds_each_experiment_once(sqlite, sort):
    if not sqlite.studies():
        fill(sqlite, "matmul", PARAMETERS, METRICS, matmul())
    wanted = TableQuery("matmul", sort=tuple(sort))
    numbers = query_listing(sqlite, wanted, lambda listing: listing.numbers().tolist())
    assert sorted(numbers) == list(range(1, 37))


def test_causes_are_counted_and_shown_by_an_example(repository):
    rows = matmul()
    rows[9]["status"] = rows[20]["status"] = rows[21]["status"] = "timeout"
    fill(repository, "matmul", PARAMETERS, METRICS, rows)
    wanted = TableQuery("matmul")
    found = query_listing(repository, wanted, lambda listing: listing.causes(9))
    assert [(each.status, each.cause, each.count) for each in found] == [
        ("timeout", "exit 3", 3),
        ("failed", "exit 3", 1),
    ]
    assert [each.example.number for each in found] == [10, 5]
    assert len(query_listing(repository, wanted, lambda listing: listing.causes(1))) == 1


@pytest.mark.parametrize("long", ["x" * 100_000, "\0é" * 50_000])
def test_of_a_long_cause_only_the_beginning_is_read(repository, long):
    rows = matmul()
    rows[9]["status"], rows[9]["cause"] = "failed", long
    fill(repository, "matmul", PARAMETERS, METRICS, rows)
    causes = query_listing(repository, TableQuery("matmul"), lambda listing: listing.causes(9))
    (cut,) = [each.cause for each in causes if each.cause != "exit 3"]
    assert long.startswith(cut)
    assert 1_000 <= len(cut) <= 4_000


def test_a_study_tells_what_each_parameter_took(repository):
    rows = [{"n": n % 3, "x": n / 8, "s": None if n == 5 else f"s{n}"} for n in range(12)]
    fill(repository, "all", {"n": "int", "x": "real", "s": "str"}, {}, rows)

    def taken(listing):
        return [listing.taken(column, 10) for column in listing.catalog.parameters]

    n, x, s = query_listing(repository, TableQuery("all"), taken)
    assert n.values == (0, 1, 2)
    assert (x.values, x.low, x.high) == (None, 0.0, 11 / 8)
    assert (s.values, s.low) == (None, None)
    few = query_listing(repository, TableQuery("all"), lambda listing: listing.taken(s.column, 12))
    assert few.values == (*sorted(f"s{n}" for n in range(12) if n != 5), None)


def test_repeats_are_shown_where_there_are_any(repository):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    fill(repository, "once", {"n": "int"}, METRICS, [{"n": 1, "wtime": 2.0}])
    found = [
        query_listing(repository, TableQuery(n), lambda listing: listing.repeated())
        for n in ("matmul", "once")
    ]
    assert found == [True, False]
    wanted = TableQuery("matmul", repeats=True)
    names = query_listing(repository, wanted, lambda listing: [c.name for c in listing.columns])
    assert names == ["n", "threads", "solver", "repeat", "wtime", "gflops"]
