"""Metrics: found, reported, computed, typed; and where they are missing, why."""

import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.model import Metric
from zenturio.errors import InputError, Place
from zenturio.experiment import Evidence, Log, MetricReader, Missing, Recipe, Series
from zenturio.experiment.experiment import missing_reasons
from zenturio.experiment.metrics import (
    PartialNumberCheck,
    RegexFinder,
    measure,
    parse_value,
    take_value,
)
from zenturio.experiment.number_hints import LONGEST, clock_hint, describe_text, number_hint
from zenturio.expression import parse
from zenturio.regular_expressions import SlowPatternError
from zenturio.space import Space


def log(text):
    data = text.encode() if isinstance(text, str) else text
    return Log(data, b"", len(data))


def found(metric, text="", **evidence):
    """What one metric is in a text on stdout."""
    given = Evidence(log(text), **evidence)
    return measure(Recipe((metric,)), {}, given)[metric.name]


def regex(pattern, take="last", name="x", source="stdout", **more):
    return Metric(name, source, regex=pattern, take=take, **more)


def formula(name, text, **more):
    return Metric(name, formula=parse(text), **more)


# Regular expressions


def test_group_one_is_the_value():
    assert found(regex(r"GFLOPS=\s*(\S+)"), "GFLOPS=  3.25\n") == 3.25


def test_without_a_group_the_whole_match_is_the_value():
    assert found(regex(r"[0-9]+"), "n = 12") == 12


def test_a_group_of_the_metrics_name_goes_before_group_one():
    assert found(regex(r"(\w+) (?P<x>\d+)"), "a 1") == 1
    assert found(regex(r"(?P<y>\w+) (\d+)"), "a 1") == "a"


@pytest.mark.parametrize("pattern", [r"^x=(.*)", r"x=(\w+)$", r"^x=(\w+)$"])
def test_a_pattern_with_a_bound_knows_both_kinds_of_line_ends(pattern):
    for end in ("\n", "\r\n"):
        assert found(regex(pattern, "all"), f"x=a{end}x=b{end}") == Series(("a", "b"))


def test_a_group_that_takes_no_part_is_no_value():
    assert found(regex(r"a(\d)?"), "a1 a") == 1
    assert found(regex(r"a(\d)?", "first"), "a a1 a2") == 1
    lost = Log(b"a a1 a2", b"a8 a9 a", 100)
    for take, value in (("first", 1), ("last", 9)):
        assert measure(Recipe((regex(r"a(\d)?", take),)), {}, Evidence(lost))["x"] == value


@pytest.mark.parametrize(
    ("take", "value"),
    [
        ("first", 4),
        ("last", 2.5),
        ("min", 1),
        ("max", 4),
        ("mean", 2.5),
        ("sum", 7.5),
        ("count", 3),
        ("all", Series((4, 1, 2.5))),
    ],
)
def test_take_says_which_of_several(take, value):
    assert found(regex(r"t=(\S+)", take), "t=4 t=1\nt=2.5") == value


def test_what_matches_nothing_says_where_it_was_looked_for():
    missing = found(regex(r"GFLOPS=(\S+)"), "a\nb\nc\n")
    assert missing == Missing("`GFLOPS=(\\S+)` matched nothing in stdout (3 lines)")
    assert found(regex("y"), "x") == Missing("`y` matched nothing in stdout (1 line)")
    assert found(regex("y"), "") == Missing("`y` matched nothing in stdout (empty)")


def test_nothing_can_be_counted():
    assert found(regex("y", "count"), "x") == 0


def test_stderr_is_another_source():
    evidence = Evidence(log("1"), log("2"))
    assert measure(Recipe((regex(r"\d", source="stderr"),)), {}, evidence)["x"] == 2


def test_a_pattern_that_would_backtrack_for_ever_ends():
    assert isinstance(found(regex("(a*)*b"), "a" * 100_000), Missing)


@given(st.binary())
def test_no_bytes_are_an_error(data):
    assert found(regex(r"(?s)(.*)", "first"), data) == parse_value(data)
    assert isinstance(found(Metric("x", "stdout", json="$.a"), data), Missing)
    found(Metric("x", "stdout", column="1"), data)


def test_words_beyond_ascii_are_found():
    assert found(regex(r"Größe=(\S+)"), b"\xff\x00 Gr\xc3\xb6\xc3\x9fe=5") == 5


def test_bytes_that_are_no_utf8_survive():
    value = found(regex(r"=(.*)"), b"=\xff\xfe")
    assert value.encode("utf-8", "surrogateescape") == b"\xff\xfe"


LONG = Log(b"t=1\nt=2\n" + b"." * 92, b"." * 92 + b"\nt=8\nt=9", 10_000)


@pytest.mark.parametrize(("take", "value"), [("first", 1), ("last", 9)])
def test_the_first_and_the_last_of_a_long_stream_are_known(take, value):
    assert measure(Recipe((regex(r"t=(\d)", take),)), {}, Evidence(LONG))["x"] == value


@pytest.mark.parametrize("take", ["min", "max", "mean", "sum", "count", "all"])
def test_what_needs_the_middle_of_a_long_stream_is_missing(take):
    missing = measure(Recipe((regex(r"t=(\d)", take),)), {}, Evidence(LONG))["x"]
    assert isinstance(missing, Missing)
    assert "10000 bytes, of which 200 were kept" in missing.why


@pytest.mark.parametrize(
    "finder", [{"json": "$.a"}, {"column": "a"}, {"regex": "a", "take": "count"}]
)
def test_a_stream_that_lost_one_byte_is_not_whole(finder):
    metric = Metric("x", "stdout", **finder)
    for size, is_whole in ((8, True), (9, False)):
        value = measure(Recipe((metric,)), {}, Evidence(Log(b'{"a":', b" 1}", size)))["x"]
        is_lost = isinstance(value, Missing) and f"{size} bytes, of which 8 were kept" in value.why
        assert is_lost != is_whole


def test_a_match_in_the_head_is_not_the_last_one():
    only_head = Log(b"t=1", b"...", 100)
    assert isinstance(measure(Recipe((regex(r"t=(\d)"),)), {}, Evidence(only_head))["x"], Missing)


# Values


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"3", 3),
        (b"-07", -7),
        (b"+1.50", 1.5),
        (b"1e3", 1000.0),
        (b".5", 0.5),
        (b"1.5D+03", 1500.0),
        (b"-2d0", -2.0),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"inf", math.inf),
        (b"-Infinity", -math.inf),
        (b"1e999", "1e999"),
        (b"1d999", "1d999"),
        (b"1_000", "1_000"),
        (b"0x10", "0x10"),
        (b"true", "true"),
        (b"", ""),
        (b"3 s", "3 s"),
        (b"2d", "2d"),
        (b"2dx", "2dx"),
        (b"xd2", "xd2"),
    ],
)
def test_texts_become_values(raw, value):
    assert parse_value(raw) == value
    assert type(parse_value(raw)) is type(value)


@pytest.mark.parametrize("limit", [4300, 0])
def test_an_integer_is_one_as_far_as_the_process_reads_them(limit):
    value = "9" * 5000 if limit else 10**5000 - 1
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        assert parse_value(b"9" * 5000) == value
    finally:
        sys.set_int_max_str_digits(before)


def test_nan_is_told_from_text():
    assert math.isnan(parse_value(b"NaN"))
    assert parse_value(b"nano") == "nano"


@given(st.integers())
def test_every_integer_is_exact(number):
    assert found(regex(r"(\S+)"), str(number)) == number


def test_of_a_long_text_among_numbers_the_beginning_is_named():
    why = f"TAKE sum needs numbers, but one of 2 is '{'x' * 36}..."
    assert take_value([1, "x" * 60], "sum") == Missing(why)
    assert take_value([1, "x" * 38], "sum").why.endswith(f"'{'x' * 38}'")
    assert take_value([1, "x" * 39], "sum").why.endswith(f"'{'x' * 36}...")


@given(st.floats(allow_nan=False))
def test_every_float_is_exact(number):
    assert found(regex(r"(\S+)"), repr(number)) == number


@given(st.lists(st.integers(), min_size=1))
def test_sums_of_integers_are_exact(numbers):
    found = take_value(numbers, "sum")
    assert (found, type(found)) == (sum(numbers), int)


@given(st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_the_smallest_and_largest_are_among_them(numbers):
    assert take_value(numbers, "min") == min(numbers)
    assert take_value(numbers, "max") == max(numbers)


@pytest.mark.parametrize("take", ["min", "max", "mean", "sum"])
def test_nan_among_numbers_is_not_hidden(take):
    assert math.isnan(take_value([1, math.nan, 2], take))


@pytest.mark.parametrize("take", ["min", "max", "mean", "sum"])
def test_text_among_numbers_is_named(take):
    assert take_value([1, "abc"], take) == Missing(
        f"TAKE {take} needs numbers, but one of 2 is 'abc'"
    )


def test_inf_and_minus_inf_have_no_sum():
    assert isinstance(take_value([math.inf, -math.inf], "sum"), Missing)
    assert take_value([math.inf, 1], "sum") == math.inf


# JSON

DOCUMENT = json.dumps(
    {"a": {"b": 3, "two words": "t"}, "list": [{"x": 1}, {"x": 2.5}], "n": None, "y": True}
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.a.b", 3),
        ("$['a']['two words']", "t"),
        ("$.list[0].x", 1),
        ("$.list[-1].x", 2.5),
        ("$.list[*].x", 2.5),
        ("$.y", True),
    ],
)
def test_a_path_leads_to_a_value(path, value):
    assert found(Metric("x", "stdout", json=path), DOCUMENT) == value


def test_all_values_of_a_path_are_a_series():
    metric = Metric("x", "stdout", json="$.list[*].x", take="all")
    assert found(metric, DOCUMENT) == Series((1, 2.5))


LINE = "stdout (1 line)"
MEMBERS = "$.list[0] is its first member, $.list[*] are all"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("$.b", "$.b leads nowhere in stdout (1 line)"),
        ("$.list[7].x", "$.list[7].x leads nowhere in stdout (1 line)"),
        ("$.a", "$.a is an object in stdout (1 line), not a value; $.a.NAME is a member"),
        ("$.list", f"$.list is a list in {LINE}, not a value; {MEMBERS}"),
        ("$.n", "its value is null"),
    ],
)
def test_a_path_that_leads_to_no_value_says_so(path, why):
    assert found(Metric("x", "stdout", json=path), DOCUMENT) == Missing(why)


def test_lines_of_json_among_others_are_read():
    text = 'starting\n{"t": 1}\n[not json\n{"t": 2}\n'
    assert found(Metric("x", "stdout", json="$.t", take="sum"), text) == 3


@pytest.mark.parametrize("text", ["nothing", "[" * 100_000, ""])
def test_what_is_no_json_is_missing(text):
    assert "there is no JSON in stdout" in found(Metric("x", "stdout", json="$.a"), text).why


def test_numbers_of_json_are_exact_and_not_invented():
    text = '{"big": 123456789012345678901234567890, "huge": 1e999, "nan": NaN}'
    assert found(Metric("x", "stdout", json="$.big"), text) == 123456789012345678901234567890
    assert found(Metric("x", "stdout", json="$.huge"), text) == "1e999"
    assert math.isnan(found(Metric("x", "stdout", json="$.nan"), text))


@pytest.mark.parametrize("metric", [
    Metric("x", "stdout", json="$.t", take="sum"), Metric("x", "stdout", column="t", take="sum"),
])  # fmt: skip
def test_a_document_whose_middle_was_not_kept_is_missing(metric):
    said = Evidence(Log(b'{"t": 1}\n', b'{"t": 2}\n', 100))
    why = measure(Recipe((metric,)), {}, said)["x"].why
    assert "the middle of stdout" in why


# CSV


@pytest.mark.parametrize(
    "text",
    [
        "n,time\n1,0.5\n2,1.5\n",
        "n;time\n1;0.5\n2;1.5\n",
        "n\ttime\n1\t0.5\n2\t1.5",
        "# n time\n1 0.5\n2 1.5\n",
        '"n","time"\r\n"1","0.5"\r\n"2","1.5"\r\n',
        "\ufeffn,time\n1,0.5\n\n2, 1.5\n",
    ],
)
@pytest.mark.parametrize("column", ["time", "2"])
def test_a_column_is_found_by_name_or_number(text, column):
    metric = Metric("x", "stdout", column=column, take="all")
    assert found(metric, text) == Series((0.5, 1.5))


def test_without_a_header_the_first_row_counts():
    assert found(Metric("x", "stdout", column="2", take="sum"), "1,2\n3,4\n") == 6


def test_a_column_of_words_keeps_its_header_out():
    text = "name,time\nfast,1\nslow,2\n"
    assert found(Metric("x", "stdout", column="1", take="all"), text) == Series(("fast", "slow"))


def test_a_row_that_is_a_cell_short_has_no_value_in_the_last_column():
    text = "n,t\n1,2\n3\n4,5\n6\n"
    assert found(Metric("x", "stdout", column="t", take="all"), text) == Series((2, 5))
    assert found(Metric("x", "stdout", column="2", take="all"), text) == Series((2, 5))
    assert found(Metric("x", "stdout", column="t", take="last"), "n,t\n1,2\n3\n") == 2


def test_a_row_that_is_a_cell_short_has_no_value_there():
    for text, value in (("n,time\n1,0.5\n2\n", 0.5), ("n,time\n1\n2,0.7\n", 0.7)):
        assert found(Metric("x", "stdout", column="time"), text) == value
    count = Metric("x", "stdout", column="time", take="count")
    assert found(count, "n,time\n1,0.5\n2\n3,0.7\n") == 2


def test_of_rows_of_several_lengths_each_has_the_cells_that_it_has():
    assert found(Metric("x", "stdout", column="2", take="all"), "n,t\n1\n2,3\n") == Series((3,))
    assert found(Metric("x", "stdout", column="1"), "3,4\n") == 3


def test_without_a_row_there_is_no_column():
    for text in ("", " \n\n"):
        why = found(Metric("x", "stdout", column="1"), text).why
        assert why.startswith("there is no row in stdout")


def test_a_column_of_empty_cells_holds_nothing():
    why = "column t holds nothing in stdout (3 lines)"
    assert found(Metric("x", "stdout", column="t"), "t,u\n,1\n ,2\n") == Missing(why)


def test_of_a_wide_table_the_first_names_are_shown():
    for count, end in ((8, "c7"), (9, "c7, ...")):
        header = ",".join(f"c{n}" for n in range(count))
        for column, rows in (("t", None), ("c0", parse("t > 1"))):
            why = found(Metric("x", "stdout", column=column, rows=rows), f"{header}\n").why
            assert why.endswith(f"there is {', '.join(f'c{n}' for n in range(7))}, {end}")


def test_empty_cells_are_no_values():
    assert found(Metric("x", "stdout", column="t", take="count"), "t,u\n1,2\n,3\n4,5\n") == 2


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("speed", "no column is named speed in stdout (2 lines): there is n, time"),
        ("7", "there is no column 7 in stdout (2 lines)"),
        ("0", "no column is named 0 in stdout (2 lines): there is n, time"),
    ],
)
def test_a_column_that_is_not_there_is_missing(column, why):
    assert found(Metric("x", "stdout", column=column), "n,time\n1,2\n") == Missing(why)


def test_a_file_of_the_folder_is_a_source(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/r.csv").write_text("t\n7\n")
    assert found(Metric("x", "out/r.csv", column="t"), folder=tmp_path) == 7


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("r.txt", "r.txt is not there"),
        ("sub/r.txt", "sub/r.txt is not there"),
        ("../r.txt", "../r.txt is outside the experiment's folder"),
        ("link", "link leads through a symbolic link, which is not followed"),
        ("up/passwd", "up/passwd leads through a symbolic link, which is not followed"),
        ("pipe", "pipe is not a regular file"),
        ("folder", "folder is not a regular file"),
    ],
)
def test_a_file_that_may_not_be_read_says_why(tmp_path, path, why):
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to("/etc")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert found(regex(".", source=path), folder=tmp_path) == Missing(why)


def test_reading_leaves_no_descriptor_open(tmp_path):
    (tmp_path / "r").write_text("1")
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/r").write_text("1")
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for path in ("r", "a/b", "../r", "r/x", "folder", "folder/deep/r"):
        found(regex(".", source=path), folder=tmp_path)
    assert len(list(descriptors.iterdir())) == before


# What programs report


def reported(lines, *metrics, values=None):
    recipe, evidence = Recipe(metrics), Evidence(reported=lines.encode())
    return measure(recipe, values or {}, evidence)


def test_what_was_not_declared_becomes_a_metric_too():
    assert reported('{"a": 1}\n{"b": "t", "a": 2}') == {"a": 2, "b": "t"}


def test_a_declared_metric_may_be_reported():
    assert reported('{"a": 1}\n{"a": 2}', Metric("a", take="sum")) == {"a": 3}
    assert reported('{"a": 1}', regex("z", name="a")) == {"a": 1}


def test_what_is_not_reported_is_missing():
    assert reported('{"b": 1}', Metric("a"))["a"] == Missing("$ZEN_METRICS does not hold it")


def test_a_broken_line_is_named_where_something_is_missing():
    found = reported('{"b": 1}\nnot json\n{"c": 2', Metric("a"))
    assert found["a"] == Missing("$ZEN_METRICS does not hold it; its line 2 is not a JSON object")
    assert found["b"] == 1


def test_empty_lines_between_reports_say_nothing():
    assert reported('{"a": 1}\n \n\n{"a": 2}\n') == {"a": 2}
    assert reported("\n", Metric("a")) == {"a": Missing("$ZEN_METRICS does not hold it")}


def test_neither_parameters_nor_what_is_always_measured_can_be_reported():
    evidence = Evidence(reported=b'{"n": 5, "wtime": 6, "ok": 1}', usage={"wtime": 0.5})
    assert measure(Recipe(), {"n": 1}, evidence) == {"wtime": 0.5, "ok": 1}


def test_a_reported_null_is_missing_and_objects_are_left_out():
    assert reported('{"a": null, "b": {"c": 1}}', Metric("a")) == {
        "a": Missing("its value is null")
    }


# Formulas


def test_formulas_are_computed_behind_what_they_need():
    recipe = Recipe((formula("c", "b * 2"), formula("b", "a + n"), regex(r"a=(\d+)", name="a")))
    assert measure(recipe, {"n": 10}, Evidence(log("a=5")))["c"] == 30


def test_a_formula_may_use_what_is_always_measured():
    recipe = Recipe((formula("speed", "n / wtime"),))
    found = measure(recipe, {"n": 10}, Evidence(usage={"wtime": 2.0}))
    assert found["speed"] == 5.0


def test_a_formula_of_something_missing_says_what():
    recipe = Recipe((regex("y", name="a"), formula("b", "a * 2"), formula("c", "b * 2")))
    found = measure(recipe, {}, Evidence(log("x")))
    assert found["c"].why == "it needs b: it needs a: `y` matched nothing in stdout (1 line)"


def test_a_formula_does_without_what_coalesce_replaces():
    b, c = formula("b", "coalesce(a, 4) * n"), formula("c", "coalesce(a, n) + a")
    found = measure(Recipe((regex("y", name="a"), b, c)), {"n": 2}, Evidence(log("x")))
    assert found["b"] == 8
    assert found["c"].why.startswith("it needs a: ")


def test_a_formula_without_an_answer_says_why():
    found = measure(Recipe((formula("b", "1 / n"),)), {"n": 0}, Evidence())
    assert isinstance(found["b"], Missing)
    assert "zero" in found["b"].why


def test_a_formula_may_ask_where_a_value_stands():
    point = Space(n=[10, 20, 40]).point(2)
    assert measure(Recipe((formula("i", "index(n)"),)), point, Evidence())["i"] == 2


def test_formulas_in_a_circle_are_refused():
    places = {name: Place("m.c", line, 1) for line, name in enumerate("abc", 1)}
    metrics = [formula(a, b, place=places[a]) for a, b in (("a", "b"), ("b", "c"), ("c", "a"))]
    for order in (metrics, metrics[::-1]):
        with pytest.raises(InputError, match="computed from each other: ") as caught:
            MetricReader(Recipe(tuple(order)))
        (diagnostic,) = caught.value.diagnostics
        *cycle, first = diagnostic.message.rpartition(": ")[2].split(" -> ")
        assert (sorted(cycle), cycle[0]) == (["a", "b", "c"], first)
        assert diagnostic.place == places[first]


# What is lacking


def test_only_what_is_not_optional_lacks():
    recipe = Recipe((regex("y", name="a"), regex("z", name="b", optional=True)))
    meter = MetricReader(recipe)
    metrics = meter.measure({}, Evidence(log("x")))
    assert meter.lacking(metrics) == "metric missing: a"
    assert meter.lacking({"a": 1, "b": Missing("")}) == ""


def test_the_roots_of_what_lacks_are_named():
    meter = MetricReader(Recipe((regex("y", name="a"), formula("b", "a * 2"))))
    assert meter.lacking(meter.measure({}, Evidence(log("x")))) == "metric missing: a"
    meter = MetricReader(Recipe((formula("b", "1 / n"),)))
    assert meter.lacking(meter.measure({"n": 0}, Evidence())) == "metric missing: b"


# Lines, filters, rows, sizes, conditions


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_anchors_are_the_bounds_of_a_line(end):
    text = end.join(["start t=1", "t=2", "t=3 ms", ""])
    assert found(regex(r"^t=(\d+)$", take="all"), text) == Series((2,))
    assert found(regex(r"^t=(\d+)$", take="first"), text) == 2
    assert found(regex(r"\At=(\d+)"), text) == Missing(
        r"`\At=(\d+)` matched nothing in stdout (3 lines)"
    )


@pytest.mark.parametrize(("take", "value"), [("first", 1), ("last", 4)])
def test_a_line_that_was_cut_has_no_bound_where_it_was_cut(take, value):
    kept = Log(b"t=1\nt=2", b"t=3\nt=4\n", 100)
    metric = regex(r"^t=(\d+)$", take=take)
    assert measure(Recipe((metric,)), {}, Evidence(kept))["x"] == value
    cut = Evidence(Log(b"t=2", b"t=3", 100))
    assert isinstance(measure(Recipe((metric,)), {}, cut)["x"], Missing)


JOBS = json.dumps(
    {
        "jobs": [
            {"name": "read", "bw": 10, "opt": {"size": 4}},
            {"name": "write", "bw": 20, "ok": True},
            {"name": "7", "bw": 30.5, "ok": None},
        ]
    }
)


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("(@.name=='read')", (10,)),
        ('@.name == "write"', (20,)),
        ("(@['name'] != 'read')", (20, 30.5)),
        ("(@.bw >= 20)", (20, 30.5)),
        ("(@.bw > 20)", (30.5,)),
        ("(@.bw <= 2e1)", (10, 20)),
        ("(@.bw < 20)", (10,)),
        ("(@.opt.size == 4)", (10,)),
        ("(@.ok == true)", (20,)),
        ("(@.ok == null)", (30.5,)),
        ("(@.ok)", (20, 30.5)),
        ("(@.name != 7)", (10, 20, 30.5)),
        ("(@.name == '7')", (30.5,)),
    ],
)
def test_members_are_filtered_by_what_they_hold(condition, values):
    metric = Metric("x", "stdout", json=f"$.jobs[?{condition}].bw", take="all")
    assert found(metric, JOBS) == Series(values)


def test_a_filter_that_no_member_passes_leads_nowhere():
    path = "$.jobs[?(@.name < 3)].bw"
    assert found(Metric("x", "stdout", json=path), JOBS) == Missing(
        f"{path} leads nowhere in stdout (1 line)"
    )


TABLE = "name,n,time\nread,1,0.5\nread,8,1.5\nwrite,8,\nwrite,16,2.5\n"


@pytest.mark.parametrize(
    ("rows", "column", "values"),
    [
        ("n == 8", "time", (1.5,)),
        ("name == 'read' and n > 1", "time", (1.5,)),
        ("n >= 8", "3", (1.5, 2.5)),
        ("c2 >= 8", "c3", (1.5, 2.5)),
        ("name > 3 or n == 1", "time", (0.5,)),
    ],
)
def test_rows_of_a_table_are_chosen_by_their_cells(rows, column, values):
    metric = Metric("x", "stdout", column=column, rows=parse(rows), take="all")
    if rows.startswith("name > 3"):  # a text where a number is compared: the row does not count
        assert found(metric, TABLE) == Missing(
            "column time holds nothing where name > 3 or n == 1 in stdout (5 lines)"
        )
    else:
        assert found(metric, TABLE) == Series(values)


def test_rows_without_a_header_have_numbered_columns():
    metric = Metric("x", "stdout", column="3", rows=parse("c1 == 'WR' and c2 > 10"))
    assert found(metric, "WR 10 5.5\nWR 20 6.5\nXX 30 7.5\n") == 6.5


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (Metric("x", "stdout", column="c1", rows=parse("c1 == 'WR'"), take="count"), "XX 1\n"),
        (Metric("x", "stdout", column="1", take="count"), ""),
        (Metric("x", "stdout", json="$.hits[*]", take="count"), '{"hits": []}'),
        (Metric("x", "stdout", json="$.hits[?(@.e < 1)].e", take="count"), '{"hits": [{"e": 2}]}'),
    ],
)
def test_a_count_of_nothing_is_0(metric, text):
    assert found(metric, text) == 0
    assert isinstance(found(replace(metric, take="last"), text), Missing)
    if metric.json:
        wrong = replace(metric, json="$.hits.none")
        assert found(wrong, text) == Missing("$.hits.none leads nowhere in stdout (1 line)")


HITS = "# target score\n# ------ -----\na 12.5\n# [ok]\nb 30\n#\n# Program: hmmsearch\n"


def test_comments_of_a_table_between_blanks_are_no_rows():
    assert found(Metric("x", "stdout", column="score", take="all"), HITS) == Series((12.5, 30))
    assert found(Metric("x", "stdout", column="1", take="count"), HITS) == 2
    table = found(Metric("x", "stdout", column="2", take="all"), "a,1\n#b,2\n")
    assert table == Series((1, 2))


def test_a_text_in_a_column_of_numbers_leads_to_where():
    assert found(Metric("x", "stdout", column="2", take="max"), "a 1\nb 2\nc best\n") == Missing(
        "TAKE max needs numbers, but one of 3 is 'best'; select rows with WHERE"
    )


def test_an_empty_cell_is_no_reason_to_take_its_row():
    metric = Metric("x", "stdout", column="n", rows=parse("time != 1"), take="all")
    assert found(metric, TABLE) == Series((1, 8, 16))


def test_a_condition_on_a_column_that_is_not_there_is_missing():
    metric = Metric("x", "stdout", column="time", rows=parse("speed > 1"))
    why = "no column is named speed in stdout (5 lines): there is name, n, time"
    assert found(metric, TABLE) == Missing(why)


def test_what_stands_before_a_match_in_its_line_is_told_with_it():
    finder = RegexFinder(Metric("x", "stdout", regex=r"= (\d+)"))
    assert list(finder.matches_in_lines(b"a = 1, b = 2\nstep 3\nc = 4")) == [
        (b"a ", b"1"), (b"a = 1, b ", b"2"), (b"c ", b"4")
    ]  # fmt: skip


def test_the_size_of_a_source_is_its_bytes(tmp_path):
    (tmp_path / "out.bin").write_bytes(b"x" * 1234)
    assert found(Metric("x", "out.bin", size=True), folder=tmp_path) == 1234
    assert found(Metric("x", "stdout", size=True), "") == 0
    assert found(Metric("x", "gone.bin", size=True), folder=tmp_path) == Missing(
        "gone.bin is not there"
    )
    cut = Evidence(Log(b"ab", b"yz", 5000))
    assert measure(Recipe((Metric("x", "stdout", size=True),)), {}, cut)["x"] == 5000


def test_a_metric_is_measured_only_when_its_condition_holds():
    recipe = Recipe((
        regex(r"t=(\d+)", name="t", when=parse("n > 1")),
        formula("double", "t * 2"),
        formula("big", "n * 10", when=parse("n > 1")),
        Metric("told", when=parse("n > 1")),
    ))  # fmt: skip
    reader = MetricReader(recipe)
    evidence = Evidence(log("t=4\n"), reported=b'{"told": 1}\n')
    assert reader.measure({"n": 2}, evidence) == {"t": 4, "double": 8, "big": 20, "told": 1}
    metrics = reader.measure({"n": 1}, evidence)
    assert {name: value.why for name, value in metrics.items()} == {
        "t": "it is measured WHEN n > 1",
        "told": "it is measured WHEN n > 1",
        "double": "it needs t: it is measured WHEN n > 1",
        "big": "it is measured WHEN n > 1",
    }
    assert reader.lacking(metrics) == ""
    assert reader.lacking(reader.measure({"n": 2}, Evidence(log("")))) == (
        "metric missing: t, told"
    )


def test_where_a_condition_has_no_value_nothing_is_measured():
    reader = MetricReader(Recipe((regex(r"t=(\d+)", name="t", when=parse("1 / n > 1")),)))
    metrics = reader.measure({"n": 0}, Evidence(log("t=4\n")))
    assert metrics["t"].why == "it is measured WHEN 1 / n > 1"


def test_what_was_recorded_as_missing_is_told_from_what_was_not_to_be_measured():
    reader = MetricReader(Recipe((
        regex(r"t=(\d+)", name="t", when=parse("n > 1")), regex(r"u=(\d+)", name="u")
    )))  # fmt: skip
    stored = {"t": Missing("why"), "u": Missing("why")}

    def lacking(values, metrics):
        return reader.lacking(reader.restored(values, metrics))

    assert lacking({"n": 1}, stored) == "metric missing: u"
    assert lacking({"n": 2}, stored) == "metric missing: t, u"
    assert reader.restored({"n": 1}, {"t": 3, "u": 4}) == {"t": 3, "u": 4}


def test_what_the_place_cannot_observe_is_missing_and_regions_report_it_themselves():
    energy, flops = Metric("energy", observed="rapl"), Metric("flops", observed="region solve")
    reader = MetricReader(Recipe((energy, flops)))
    nothing = Missing("nothing observed it there")
    assert reader.measure({}, Evidence()) == {"energy": nothing, "flops": nothing}
    evidence = Evidence(reported=b'{"energy": 1, "flops": 2}\n', usage={"energy": 3.5})
    assert reader.measure({}, evidence) == {"energy": 3.5, "flops": 2}


def test_a_result_that_does_not_hold_is_named_with_what_is_not_known():
    reader = MetricReader(Recipe(verified=(parse("n > 0"), parse("error <= 0.5"))))
    assert reader.unverified({"n": 1}, {"error": 0.5}) == ""
    assert reader.unverified({"n": 0}, {"error": 0.5}) == "VERIFY n > 0"
    assert reader.unverified({"n": 1}, {"error": 0.6}) == "VERIFY error <= 0.5"
    cause = reader.unverified({"n": 1}, {"error": Missing("no match")})
    assert cause == "VERIFY error <= 0.5: it needs error: no match"
    assert missing_reasons(cause, {"error": Missing("no match"), "other": 1}) == ()
    shown = missing_reasons("VERIFY error <= 0.5", {"error": "0.6 s", "s": Series((1, 2))})
    assert shown == ("error is '0.6 s'; " + number_hint("0.6 s"),)


# Numbers that are written in another way, and texts where numbers are needed


@pytest.mark.parametrize(
    ("text", "signs", "value"),
    [
        ("1,560", {"thousands": ","}, 1560),
        ("-12,345,678.5", {"thousands": ","}, -12345678.5),
        ("12,34,567", {"thousands": ","}, 1234567),
        ("450", {"thousands": ","}, 450),
        ("1.5e3", {"thousands": ","}, 1500.0),
        ("2,5", {"decimal": ","}, 2.5),
        ("2,5E-3", {"decimal": ","}, 0.0025),
        ("1.234,5", {"thousands": ".", "decimal": ","}, 1234.5),
        ("1'234", {"thousands": "'"}, 1234),
        ("1,560d2", {"thousands": ","}, 156000.0),
        ("-inf", {"thousands": ","}, -math.inf),
        ("12.5", {"decimal": "."}, 12.5),
    ],
)
@pytest.mark.parametrize("where", ["regex", "json", "csv"])
def test_signs_of_numbers_are_read_wherever_a_text_stands(text, signs, value, where):
    if where == "regex":
        assert found(regex(r"x=(.+)", **signs), f"x={text}") == value
    elif where == "json":
        metric = Metric("x", "stdout", json="$.x", **signs)
        assert found(metric, json.dumps({"x": text})) == value
    else:
        metric = Metric("x", "stdout", column="2", **signs)
        assert found(metric, f'n;x\n1;"{text}"\n') == value
        assert found(replace(metric, take="count"), f'n;x\n1;"{text}"\n') == 1


@pytest.mark.parametrize(
    "text",
    [
        "1,56",
        "1.560",
        ",560",
        "abc",
        "1,,560",
        "1,2,345",
        "1,2345,678",
        "1,560x",
        "1,560e",
        "1,560ex",
        "1,560·x",
    ],
)
def test_what_is_not_written_with_the_declared_signs_is_missing(text):
    value = found(regex(r"x=(.+)", thousands=",", decimal="·"), f"x={text}")
    assert value == Missing(f"{text!r} is not a number with THOUSANDS ',' DECIMAL '·'")


def test_a_number_of_json_stays_what_it_is_whatever_the_signs():
    assert found(Metric("x", "stdout", json="$.x", decimal=","), '{"x": 2.5}') == 2.5
    assert found(Metric("x", "stdout", json="$.x"), '{"x": "2.5"}') == "2.5"  # a text on purpose


@pytest.mark.parametrize(
    ("goal", "cause"),
    [
        ("cut", "not a number: cut"),
        ("cut / n", "not a number: cut"),
        ("cut if state == 'ok' else 0", "not a number: cut"),
        ("cut + other", "not a number: cut, other"),
        ("n if state == 'ok' else cut", ""),
        ("n / (n - 2)", ""),
        ("(n if state == 'ok' else 0) / (n - 2)", ""),
        ("coalesce(none, 1)", ""),
    ],
)
def test_a_text_that_an_objective_takes_as_a_number_is_a_failure(goal, cause):
    metrics = (
        regex(r"cut: (\S+)", name="cut", optional=True),
        regex(r"cut: \S+ (\S+)", name="other"),
        regex(r"(ok)", name="state"),
        regex(r"nothing", name="none", optional=True),
    )
    reader = MetricReader(Recipe(metrics, numbers=(parse(goal),)))
    measured = reader.measure({"n": 2}, Evidence(log("cut: 603, 1,560 ok")))
    assert reader.lacking(measured) == cause
    reasons = {
        "cut": r"cut: the text '603,', not a number: capture the number alone, such as (\d+)",
        "other": "other: the text '1,560', not a number: add THOUSANDS \",\" to the METRIC, or "
        'DECIMAL "," if the comma is a decimal one',
    }
    named = cause.removeprefix("not a number: ").split(", ") if cause else []
    assert missing_reasons(cause, measured) == tuple(reasons[name] for name in named)
    assert measured["state"] == "ok"


def test_a_formula_that_needs_a_number_says_how_to_capture_one():
    metrics = (regex(r"x=(\S+)"), formula("twice", "x * 2"))
    assert measure(Recipe(metrics), {}, Evidence(log("x=603,")))["twice"] == Missing(
        r"'*' takes numbers, but this is str '603,'; x: capture the number alone, such as (\d+)"
    )


def test_texts_that_a_formula_joins_are_named_with_what_to_write_for_each():
    metrics = (
        regex(r"sent (\S+)", name="sent"),
        regex(r"got (\S+)", name="got"),
        formula("total", "sent + got"),
    )
    reader = MetricReader(Recipe(metrics, numbers=(parse("total * 2"),)))
    measured = reader.measure({}, Evidence(log("sent 358,771 got 0:00:05.9")))
    assert reader.lacking(measured) == "not a number: total"
    why = measured["total"].why
    assert why.startswith("the text '358,7710:00:05.9', made of texts: got is the text '0:00:05.9'")
    assert "sent is the text '358,771', not a number: add THOUSANDS \",\" to the METRIC" in why
    assert measured["sent"] == "358,771"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0:00:00.226", "this is a clock time; capture (\\d+):\\d+:[\\d.]+ for hours h, "),
        ("12:30", "this is a clock time; capture (\\d+):[\\d.]+ for minutes m and "),
        ("358,7715,909", "the pattern must capture one whole number, and nothing else"),
        ("none", "capture a number, such as (\\d+) or "),
    ],
)
def test_no_hint_leads_to_the_beginning_of_a_number(text, hint):
    assert describe_text(text).startswith(f"the text {text!r}, not a number: {hint}")


# Patterns that capture a part of a number


@pytest.mark.parametrize(
    ("pattern", "text", "told"),
    [
        (r"x: (\d+)", "x: 1,234,567", "1, a part of '1,234,567': write x: ([\\d,]*\\d), and add"),
        (r"x: (\d+)", "x: 82,659", "82, a part of '82,659': write x: ([\\d,]*\\d), and add THOU"),
        (r"x: (\d+)", "x: 3.5e4 s", "3, a part of '3.5e4': write x: ([-+.\\deE]*\\d)"),
        (r"x: (\d+\.\d)", "x: 1.5D+03", "1.5, a part of '1.5D+03': write x: ([-+.\\deEdD]*\\d)"),
        (r"x: (\d{3})", "x: 12345", "123, a part of '12345': write x: (\\d+)"),
        (r"x: (\d+)", "x: 0:00:00.226", "0, a part of '0:00:00.226': this is a clock time; "),
        (r"(\d+) ms", "1.25 ms", "25, a part of '1.25': write ([-+.\\deE]*\\d) ms"),
        # A sign that is not captured
        (r"(\d+) C", "x: -5 C", "5, a part of '-5': write (-?\\d+) C"),
        (r"x.*?(\d+)", "x: -5", "5, a part of '-5': write x.*?(-?\\d+)"),
        (r"x\D*([\d.]+)", "x:-5.5 C", "5.5, a part of '-5.5': write x\\D*:([-+.\\deE]*\\d)"),
        (r"x[^0-9]+(\d+)", "x = -12", "12, a part of '-12': write x[^0-9]+\\s(-?\\d+)"),
        (r"\D*(\d+)", "-12", "12, a part of '-12': write \\D*?(-?\\d+)"),
        (r"(\d+,\d+)", "x: -3,5", "3,5, a part of '-3,5': write (-?[\\d,]*\\d), and add DECIMAL"),
        # Digits that a wildcard took
        (r"x.*(\d+)", "x: 120", "0, a part of '120': write x.*\\s(\\d+)"),
        (r"x.*(\d+)", "x=1.5e-05 s", "5, a part of '05': write x.*-(\\d+)"),
        # A decimal comma
        (r"x: (\d+)", "x: 3,5", "3, a part of '3,5': write x: ([\\d,]*\\d), and add DECIMAL \",\""),
        (r"x: (\d+)", "x: 3,25 s, 4", "3, a part of '3,25': write x: ([\\d,]*\\d), and add DEC"),
        (r"(\d+)$", "x: -0,51", "51, a part of '-0,51': write (-?[\\d,]*\\d)$, and add DECIMAL"),
        (r"x: (\d+)", "x: 3,5e-3", "3, a part of '3,5e-3': write x: ([\\d,]*\\d(?:[eE]"),
        (r"(\d+)", "1 then 2.5 then 3", ""),  # the last one counts
        (r"(\d+)\.", "3.5", ""),
        (r"(\d+),\d+", "1,234", ""),
        (r"x: (\S+)", "x: 1,234", ""),
        (r"x: (\d+)", "x: 64, 128", ""),
        (r"x: (\d+)", "x: 2,4,8", ""),
        (r"x.*?(\d+)", "x (3,5) x [1,2]", ""),
        (r"x: -(\d+)", "x: -5", ""),
        (r"x.*?-?(\d+)", "x: -5", ""),
        (r"(\d+)", "x-5", ""),
        (r"(\d+)", "3-5", ""),
        (r"(\d+)$", "2026-11-20", ""),
        (r"(\d+)$", "--5", ""),
        (r"v(\d+)", "v5.1.0", ""),
        (r"from (\d+)", "from 10.0.0.123", ""),
        (r"x: (\d+)$", "x: 12\r\n", ""),
        (r"x(\d+)", "x12e5ab", ""),
        (r"x: ([a-z])", "x: a12", ""),
    ],
)
def test_a_number_of_which_a_part_is_captured_is_told_once(pattern, text, told):
    cuts = PartialNumberCheck([regex(pattern)])
    remark = cuts.see(Evidence(log(text))).get("x", "")
    assert bool(remark) == bool(told)
    assert remark.startswith(f"x is {told}" if told else "")
    assert not (told and cuts.see(Evidence(log(text))))
    if remark and "clock" not in remark:  # what it says to write captures the whole number
        whole = remark.partition("a part of '")[2].partition("'")[0]
        mended = remark.partition(": write ")[2].partition(", and add")[0]
        assert found(regex(mended), text) == parse_value(whole.encode())


def test_a_number_is_not_said_to_be_cut_where_the_log_itself_is():
    cuts, pattern = Evidence(Log(b"x 1,2", b"34\n", 9)), regex(r"x (\d+)")
    assert not list(PartialNumberCheck([pattern]).see(cuts))
    assert list(PartialNumberCheck([pattern]).see(replace(cuts, stdout=Log(b"x 1,2", b"34\n", 8))))


def test_a_pattern_that_takes_too_long_leaves_the_others_to_be_looked_at(monkeypatch):
    cut_number = RegexFinder.cut_number
    cuts, is_slow = (
        PartialNumberCheck([regex(r"y (\d+)", name="y"), regex(r"x (\d+)")]),
        iter((True, False)),
    )

    def first_is_slow(finder, content):
        if next(is_slow):
            raise SlowPatternError("too slow")
        return cut_number(finder, content)

    monkeypatch.setattr(RegexFinder, "cut_number", first_is_slow)
    assert len(list(cuts.see(Evidence(log("x 1,234\n"))))) == 1


@pytest.mark.parametrize(("take", "is_told"), [("first", True), ("min", True), ("count", False)])
def test_the_value_that_counts_may_be_a_part_of_a_number(take, is_told):
    cuts = PartialNumberCheck([regex(r"x (\d+)", take)])
    assert len(cuts.see(Evidence(log("x 1,234\nx 5\n")))) == is_told


def test_a_text_of_the_greatest_length_that_is_shown_is_shown_whole():
    assert describe_text("a" * LONGEST).startswith(f"the text '{'a' * LONGEST}', not")
    assert describe_text("a" * (LONGEST + 1)).startswith(
        f"the text '{'a' * (LONGEST - 3)}...', not"
    )


def test_a_number_in_quotes_is_told_from_one_with_something_around_it():
    assert number_hint("7").startswith("it is in quotes")
    assert clock_hint("0" * LONGEST + ":30") == ""


@pytest.mark.parametrize("number", ["5.1.0", "v12", "12:30", "2024-01-05", "3D", "ok", "1e999", ""])
def test_a_label_is_not_taken_for_a_number(number):
    assert number_hint(number) == ""


@pytest.mark.parametrize("text", ["603,", "950ms", "1.02 s", '"7"', "45%", "12 iterations", "4K"])
def test_a_number_with_something_around_it_can_be_captured_alone(text):
    hint = number_hint(text)
    assert hint.startswith("capture the number alone, such as ")
    pattern = hint.removeprefix("capture the number alone, such as ").partition(", ")[0]
    assert isinstance(found(regex(pattern), text), int | float)
