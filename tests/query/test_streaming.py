"""A table that is sent part by part is the one that is written at once."""

import io
import math

import pyarrow.parquet as pq
import pytest

from query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio.errors import InputError
from zenturio.experiment import Missing
from zenturio.expression import parse
from zenturio.query import export, results
from zenturio.query.listing import query_listing
from zenturio.query.result_table import stream_table
from zenturio.query.study_table import TableQuery


def _sent(repository, wanted, kind, size=5, **options):
    def ask(listing):
        numbers = listing.numbers()
        parts = (
            [row.cells for row in listing.those(numbers[at : at + size])]
            for at in range(0, len(numbers), size)
        )
        return b"".join(stream_table(listing.columns, parts, kind, **options))

    return query_listing(repository, wanted, ask)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_parts_make_the_same_text_as_the_whole(repository, kind):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    ok = TableQuery("matmul", parse("status == 'ok'"), repeats=True)
    whole = export(results(repository, "matmul"), kind)
    assert _sent(repository, ok, kind).decode() == whole


def test_parts_make_a_parquet_file_with_types_and_units(repository):
    rows = [
        {"n": 1, "s": "=1+1", "m": 1, "big": 2**70},
        {"n": 2, "s": None, "m": math.nan, "big": 1},
        {"n": 3, "s": "b", "m": Missing("why"), "big": 2},
        {"n": 4, "s": "b", "m": -math.inf, "big": 3},
    ]
    fill(repository, "odd", {"n": "int", "s": "str", "big": "int"}, {"m": "real s"}, rows)
    found = pq.read_table(io.BytesIO(_sent(repository, TableQuery("odd"), "parquet", size=3)))
    assert [str(field.type) for field in found.schema] == ["int64", "string", "string", "double"]
    assert found.schema.field("m").metadata == {b"unit": b"s"}
    n, s, big, m = found.to_pydict().values()
    assert (n, s) == ([1, 2, 3, 4], ["=1+1", None, "b", "b"])
    assert big == [str(2**70), "1", "2", "3"]
    assert math.isnan(m[1])
    assert (m[0], m[2:]) == (1.0, [None, -math.inf])


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_table_without_rows_is_one_all_the_same(sqlite, kind):
    fill(sqlite, "none", PARAMETERS, METRICS, [])
    sent = _sent(sqlite, TableQuery("none"), kind)
    if kind == "parquet":
        assert pq.read_table(io.BytesIO(sent)).column_names == [*PARAMETERS, *METRICS]
    else:
        assert sent == {"csv": b"n,threads,solver,wtime,gflops\n", "jsonl": b""}[kind]


def test_a_format_that_there_is_not_is_named(sqlite):
    fill(sqlite, "none", PARAMETERS, METRICS, [])
    with pytest.raises(InputError, match="'xls'"):
        _sent(sqlite, TableQuery("none"), "xls")


def test_each_part_is_exact_or_for_a_spreadsheet(sqlite):
    rows = [{"flags": "-O2"}, {"flags": "=1+1"}]
    fill(sqlite, "flags", {"flags": "str"}, {}, rows)
    assert _sent(sqlite, TableQuery("flags"), "csv", size=1) == b"flags\n-O2\n=1+1\n"
    defused = _sent(sqlite, TableQuery("flags"), "csv", size=1, spreadsheet=True)
    assert defused == b"flags\n'-O2\n'=1+1\n"
    with pytest.raises(InputError, match="not parquet"):
        _sent(sqlite, TableQuery("flags"), "parquet", spreadsheet=True)
