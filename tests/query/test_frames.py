"""A study becomes a table of pandas, and a result becomes text for others."""

import csv
import io
import json
import math

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.query.conftest import METRICS, PARAMETERS, fill, matmul
from zenturio.errors import InputError, PlaceError
from zenturio.query import FORMATS, export, format_of_path, study_frame
from zenturio.query.result_table import ResultTable, display_rows


def test_a_frame_has_right_types_and_knows_its_units(repository):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    table = study_frame(repository, "matmul")
    assert list(table.columns) == ["n", "threads", "solver", "repeat", "wtime", "gflops"]
    assert [str(kind) for kind in table.dtypes] == [
        "int64", "int64", "string", "int64", "float64", "float64",
    ]  # fmt: skip
    assert len(table) == 35
    assert table["gflops"].isna().sum() == 1
    asked = table.attrs.pop("sql")
    assert asked.startswith('SELECT r."')
    assert table.attrs == {
        "study": "matmul",
        "units": {"wtime": "s", "gflops": "GFLOP/s"},
        "parameters": ["n", "threads", "solver"],
        "metrics": ["wtime", "gflops"],
        "of": 36,
        "left_out": 0,
        "machines": {},
        "rounds": {},
        "noun": "experiments",
    }


def test_a_frame_of_everything_has_failures_too(repository):
    fill(repository, "matmul", PARAMETERS, METRICS, matmul())
    table = study_frame(repository, "matmul", everything=True)
    assert table["status"].value_counts().to_dict() == {"ok": 35, "failed": 1}
    assert list(table["index"]) == sorted(table["index"])
    assert set(table["host"]) == {"kofel"}
    assert len(study_frame(repository, "matmul", where="n == 128 and status != 'ok'")) == 1


def test_a_nan_or_an_infinity_makes_a_column_of_integers_real(repository):
    rows = [{"i": 1, "m": 5, "k": 1}, {"i": 2, "m": math.nan}, {"i": 3, "m": math.inf, "k": 3}]
    fill(repository, "odd", {"i": "int"}, {"m": "int", "k": "int"}, rows)
    table = study_frame(repository, "odd")
    assert [str(table[name].dtype) for name in "imk"] == ["int64", "float64", "Int64"]
    assert table["m"].tolist() == pytest.approx([5, math.nan, math.inf], nan_ok=True)


def test_missing_values_keep_their_column_s_type(repository):
    rows = [{"i": 1, "b": True, "s": "a", "m": 5}, {"m": 2**70}]
    fill(repository, "holes", {"i": "int", "b": "bool", "s": "str"}, {"m": "int"}, rows)
    table = study_frame(repository, "holes")
    kinds = {name: str(kind) for name, kind in table.dtypes.items()}
    assert kinds == {"i": "Int64", "b": "boolean", "s": "string", "repeat": "int64", "m": "object"}
    assert table["i"].isna().tolist() == [False, True]
    assert table["m"].tolist() == [5, 2**70]


def test_an_empty_study_is_an_empty_frame(repository):
    fill(repository, "empty", PARAMETERS, METRICS, [])
    table = study_frame(repository, "empty")
    assert list(table.columns) == ["n", "threads", "solver", "repeat", "wtime", "gflops"]
    assert table.empty


ODD = ResultTable(
    columns=("=name", "x"),
    rows=(
        ("=1+1", -1.5),
        ("@cmd", math.nan),
        ("+a", math.inf),
        ("-O3", -3),
        ("-7.5", None),
        ("\tx", 1e-300),
        ('say "hi", you\nthere', True),
        ("Größe | <b> & 5% of $x_1^2$ \\ {~#}", -math.inf),
    ),
    units={"x": "m/s"},
    found=8,
)


def _read(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def test_csv_is_exact():
    lines = _read(export(ODD, "csv"))
    assert lines[0] == ["=name", "x"]
    assert [line[0] for line in lines[1:]] == [row[0] for row in ODD.rows]


def test_texts_with_any_end_of_line_are_one_cell_of_csv():
    texts = ["a\rb", "a\nb", "a\r\nb", 'a"b', "a,b", " a ", "\0", "'", "a\u2028b"]
    result = ResultTable(("s", "n"), tuple((text, 1) for text in texts), found=len(texts))
    assert [line[0] for line in _read(export(result, "csv"))[1:]] == texts


def test_csv_tells_an_empty_text_from_an_absent_value():
    result = ResultTable(("s", "t"), (("", None), (None, "")), found=2)
    assert export(result, "csv") == 's,t\n"",\n,""\n'
    assert export(ResultTable(("s",), ((None,), ("a",)), found=2), "csv") == 's\n""\na\n'


def test_only_csv_is_written_for_a_spreadsheet():
    with pytest.raises(InputError, match="only CSV is written for a spreadsheet, not jsonl"):
        export(ODD, "jsonl", spreadsheet=True)


def test_csv_for_a_spreadsheet_defuses_formulas_and_leaves_numbers():
    lines = _read(export(ODD, "csv", spreadsheet=True))
    assert lines[0] == ["'=name", "x"]
    assert [line[0] for line in lines[1:7]] == ["'=1+1", "'@cmd", "'+a", "'-O3", "-7.5", "'\tx"]
    assert lines[7][0] == 'say "hi", you\nthere'
    assert [line[1] for line in lines[1:]] == [
        "-1.5", "nan", "inf", "-3", "", "1e-300", "true", "-inf",
    ]  # fmt: skip


def test_json_lines_are_valid_whatever_the_numbers_are():
    def refuse(name):
        raise AssertionError(name)

    lines = [json.loads(line, parse_constant=refuse) for line in export(ODD, "jsonl").splitlines()]
    assert [line["x"] for line in lines] == [
        -1.5, "NaN", "Infinity", -3, None, 1e-300, True, "-Infinity",
    ]  # fmt: skip
    assert lines[6]["=name"] == 'say "hi", you\nthere'


SMALL = ResultTable(
    ("n", "name", "x"), ((1, "a|b", 0.1234567), (20, "c\n_d", None)), {"x": "s"}, found=2
)


def test_markdown_is_a_table():
    assert export(SMALL, "markdown") == (
        "| n | name | x (s) |\n| --: | --- | --: |\n| 1 | a\\|b | 0.123457 |\n| 20 | c _d |  |\n"
    )


def test_latex_is_a_table_with_rules():
    assert export(SMALL, "latex") == (
        "\\begin{tabular}{rlr}\n"
        "\\toprule\n"
        "n & name & x (s) \\\\\n"
        "\\midrule\n"
        "1 & a|b & 0.123457 \\\\\n"
        "20 & c \\_d &  \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_plain_text_is_aligned():
    assert export(SMALL, "table") == (
        " n  name      x (s)\n"
        " 1  a|b    0.123457\n"
        "20  c\\n_d\n"
    )  # fmt: skip


def test_parquet_keeps_types_and_units():
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(export(SMALL, "parquet")))
    assert table.to_pydict() == {"n": [1, 20], "name": ["a|b", "c\n_d"], "x": [0.1234567, None]}
    assert table.schema.field("x").metadata[b"unit"] == b"s"
    mixed = ResultTable(("m",), ((1,), ("a",), (2**70,), (None,)), found=4)
    found = pq.read_table(io.BytesIO(export(mixed, "parquet"))).to_pydict()
    assert found == {"m": ["1", "a", str(2**70), None]}


def test_without_pyarrow_the_command_that_installs_it_is_told(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PlaceError, match="pyarrow") as caught:
        export(SMALL, "parquet")
    assert "[parquet]'" in str(caught.value)


@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_can_be_exported_too(kind):
    assert isinstance(export(ResultTable(("n", "x"), ()), kind), str | bytes)


def test_a_file_s_name_tells_its_format(tmp_path):
    assert format_of_path(tmp_path / "a.MD") == "markdown"
    assert format_of_path(tmp_path / "a.csv") == "csv"
    with pytest.raises(InputError, match="does not have the suffix of a table"):
        format_of_path(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="no format is named 'exel'"):
        export(SMALL, "exel")


def test_a_result_becomes_a_frame_again():
    table = SMALL.frame()
    assert table.attrs["units"] == {"x": "s"}
    assert isinstance(table, pd.DataFrame)
    assert table["n"].tolist() == [1, 20]


def test_public_names_are_the_namespace():
    import zenturio.query as room

    assert all(getattr(room, name) is not None for name in room.__all__)
    assert callable(room.fit)
    assert callable(room.compare)
    with pytest.raises(AttributeError, match="no attribute 'plot'"):
        room.plot  # noqa: B018


def test_the_room_loads_nothing_heavy_until_it_is_asked_to():
    import subprocess
    import sys

    code = (
        "import sys, zenturio.query; "
        "print({'sqlalchemy', 'pandas', 'numpy', 'pyarrow'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def column(values):
    return [row[0] for row in display_rows([(value,) for value in values])]


def test_numbers_have_as_many_digits_as_tell_them_apart():
    assert column([1.23456781, 1.23456789, 2.5]) == ["1.2345678", "1.2345679", "2.5"]
    assert column([0.1, 0.1, 0.1 + 1e-17 * 3]) == ["0.1", "0.1", "0.10000000000000003"]
    assert column([3, 3.0000001]) == ["3", "3.0000001"]
    three = [-7.123455999, -7.123455998, -7.123455997]
    assert column(three) == list(map(repr, three))  # not -7.12346, which is below the others
    assert column([1e-12, 1.0000001e-12]) == ["1e-12", "1.0000001e-12"]


def test_whole_numbers_are_written_whole():
    assert column([84420.0, 1e6, 3, 1234567.0, 0.5, 1e15]) == [
        "84420", "1000000", "3", "1234567", "0.5", "1e+15",
    ]  # fmt: skip


def test_numbers_without_neighbours_keep_six_digits():
    assert column([0.123456789, 3.14159265, None, math.nan, math.inf]) == [
        "0.123457", "3.14159", "", "nan", "inf",
    ]  # fmt: skip


near = st.integers(0, 99).map(lambda n: 7 + n * 1e-9)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | near, max_size=20))
@example([7.000000011, 7.000000047, 7.000000052, 7.000000069])
def test_different_numbers_are_different_texts(values):
    found = column(values)
    assert len(set(found)) == len(set(map(repr, values)))  # -0.0 is equal to 0.0
    in_order = [float(text) for _, text in sorted(zip(values, found, strict=True))]
    assert in_order == sorted(in_order)


def test_times_since_1970_differ_by_less_than_a_second():
    assert column([1.7e9 + 0.25, 1.7e9 + 0.5]) == ["1700000000.2", "1700000000.5"]
