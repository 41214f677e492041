"""Each directive becomes the statement that it makes, in whatever order and case it is written."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.grammar import KEYWORDS, LONGEST_COMMAND, LONGEST_DIRECTIVE, read
from zenturio.annotate.model import (
    AfterStatement,
    BuildStatement,
    ConstraintStatement,
    Declaration,
    EndStatement,
    MetricStatement,
    ObjectiveStatement,
    OutputStatement,
    RankStatement,
    RegionStatement,
    RepeatStatement,
    RequireStatement,
    RunStatement,
    ZipStatement,
)
from zenturio.annotate.patterns import EVERY, JsonFilterSelector, json_steps
from zenturio.errors import AnnotationError, InputError, Passage
from zenturio.expression import parse


def statement(text):
    return read(Passage.of(text, "prog.c"))


def diagnostics(text):
    with pytest.raises(InputError) as caught:
        statement(text)
    return caught.value.diagnostics


def test_a_declaration_has_a_target_and_a_set():
    found = statement("SUBSTITUTE lapw0_host = { machine{1:300} }")
    assert isinstance(found, Declaration)
    assert (found.way, found.target.text, found.name.text) == (
        "substitute",
        "lapw0_host",
        "lapw0_host",
    )
    assert found.elements.text == "{ machine{1:300} }"
    assert (found.match, found.optional, found.begins) == ("word", False, False)


CLAUSES = [
    "AS size",
    "TYPE real",
    'UNIT "MB"',
    "DEFAULT 0.5",
    "WHEN solver == 'cg'",
    'IN "*.c"',
    "MATCH TEXT",
]


@pytest.mark.parametrize("order", list(itertools.permutations(CLAUSES))[::97])
def test_clauses_stand_in_any_order(order):
    found = statement(f"SUBSTITUTE n = {{ 1, 2 }} {' '.join(order)} OPTIONAL")
    assert found.name.text == "size"
    assert found.type == "real"
    assert found.unit == "MB"
    assert found.default == "0.5"
    assert found.when == parse("solver == 'cg'")
    assert found.glob.text == "*.c"
    assert found.match == "text"
    assert found.optional


def test_keywords_are_read_in_any_case_and_names_as_written():
    found = statement('substitute N = { A } as Size type INT unit "s" match Regex optional Begin')
    assert (found.target.text, found.name.text, found.type, found.match) == (
        "N",
        "Size",
        "int",
        "regex",
    )
    assert found.optional
    assert found.begins
    assert isinstance(statement("constraint Value n AND m"), ConstraintStatement)


def test_a_target_with_blanks_or_punctuation_is_quoted():
    assert statement('SUBSTITUTE "block size" = { 1 }').target.text == "block size"
    assert statement("SUBSTITUTE 'a \"b\"' = { 1 }").target.text == 'a "b"'
    assert statement(r'SUBSTITUTE "n\d+" = { 1 } MATCH REGEX').target.text == r"n\d+"
    assert statement("SUBSTITUTE Größe = { 1 }").target.text == "Größe"
    assert statement("SUBSTITUTE `block-size` = { 1 }").target.text == "block-size"


def test_a_derived_parameter_has_an_expression_that_ends_where_a_clause_begins():
    found = statement('SUBSTITUTE m := n if match(s, "a") else 0 UNIT "MB" IN "*.c" BEGIN')
    assert found.expression == parse('n if match(s, "a") else 0')
    assert (found.unit, found.glob.text, found.begins) == ("MB", "*.c", True)


def test_the_test_in_and_the_clause_in_are_told_apart():
    assert statement("PARAM m := n in (1, 2)").expression == parse("n in (1, 2)")
    assert statement('PARAM m := (s in "abc")').expression == parse('s in "abc"')
    assert statement('SUBSTITUTE m := s IN "abc"').glob.text == "abc"
    assert statement('PARAM m := s in "abc"').expression == parse('s in "abc"')


def test_names_that_are_keywords_elsewhere_may_stand_in_expressions():
    assert statement("PARAM m := when * type + unit").expression == parse("when * type + unit")


def test_the_same_dimension_again():
    found = statement("ENV OMP_NUM_THREADS = @threads")
    assert found.same.text == "threads"
    assert statement('SUBSTITUTE x = @"block-size" OPTIONAL').same.text == "block-size"


def test_a_default_keeps_its_characters():
    assert statement('PARAM n = { 1 } DEFAULT ""').default == ""
    assert statement("PARAM n = { 1 } DEFAULT /tmp/ AS m").default == "/tmp/"
    assert statement(r'PARAM n = { 1 } DEFAULT "a\tb"').default == "a\tb"
    assert statement("PARAM n = { 1 } DEFAULT when").default == "when"


def test_the_length_of_a_command_is_limited():
    longest = "x" * LONGEST_COMMAND
    assert isinstance(statement(f'RUN "{longest}"'), RunStatement)
    (found,) = diagnostics(f'RUN "{longest}y"')
    assert found.message == "a command has at most 10,000 characters"


def test_ends():
    assert statement("END") == EndStatement(None, region=False, place=statement("END").place)
    assert statement("END n").name.text == "n"
    assert statement('END "a b"').name.text == "a b"
    assert statement("END CR").region
    for text, unexpected in (
        ("END a b", "b"),
        ("END CR a b", "b"),
        ("END a - b", "-"),
        ("END - a", "-"),
    ):
        (found,) = diagnostics(text)
        assert found.message == f"{unexpected} is not expected here"
        assert (found.place.column - 1, found.place.width) == (text.index(f" {unexpected}") + 1, 1)
    assert [statement(f"END {n}").name.text for n in ("0.8", "-1")] == ["0.8", "-1"]
    assert statement("end cr loop").name.text == "loop"


def test_constraints():
    assert statement("CONSTRAINT VALUE n * threads <= 2048") == ConstraintStatement(
        parse("n * threads <= 2048")
    )
    found = statement("CONSTRAINT INDEX a == `b c` == d")
    assert isinstance(found, ZipStatement)
    assert [name.text for name in found.names] == ["a", "b c", "d"]


def test_commands_keep_every_character_and_have_limits():
    found = statement(r'RUN "./a \"b\" \n {n} $HOME" TIMEOUT 10min RETRY 2 CPUS 2 * n MEMORY 512MB')
    assert isinstance(found, RunStatement)
    assert found.command.text.text == r'./a "b" \n {n} $HOME'
    assert (found.command.timeout, found.command.retry) == (600.0, 2)
    assert found.command.cpus == parse("2 * n")
    assert found.command.memory == 512_000_000
    assert isinstance(statement("BUILD 'make'"), BuildStatement)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30", 30.0),
        ("30s", 30.0),
        ("1.5h", 5400.0),
        ("10 min", 600.0),
        ("250ms", 0.25),
        ("2d", 172800.0),
    ],
)
def test_times_have_units(written, seconds):
    assert statement(f'RUN "./a" RETRY 1 TIMEOUT {written}').command.timeout == seconds
    assert statement(f'RUN "./a" TIMEOUT {written} RETRY 1').command.timeout == seconds


def test_sizes_have_units():
    assert statement('RUN "./a" MEMORY 4GiB').command.memory == 4 * 2**30
    assert statement('RUN "./a" MEMORY 1000').command.memory == 1000


def test_places_in_a_command_are_those_in_the_file():
    text = statement(r'RUN "./a \"b\" {n}"').command.text
    at = text.text.index("{n}")
    assert text.place(at).column == 16


def test_hosts():
    assert isinstance(
        statement('REQUIRE host.memory >= 512MB and host.arch == "x86_64"'), RequireStatement
    )
    assert isinstance(statement("RANK host.mhz / (1 + host.load)"), RankStatement)


def test_repeats():
    found = statement("REPEAT 30 SEED seed")
    assert isinstance(found, RepeatStatement)
    assert (found.repeat.count, found.seed.text) == (30, "seed")
    assert statement("REPEAT 1").seed is None


def test_repeats_as_often_as_needed():
    repeat = statement("REPEAT 8:50 UNTIL wtime / n WITHIN 2.5% WARMUP 1 SEED s").repeat
    assert (repeat.count, repeat.until.least, repeat.warmup, repeat.seed) == (50, 8, 1, "s")
    assert (repeat.until.metric.text, repeat.until.within) == ("wtime / n", 0.025)
    assert repeat.numbers == range(51)
    assert repeat.until.text == "UNTIL wtime / n WITHIN 2.5%"
    assert statement("REPEAT 50 UNTIL wtime WITHIN 0.02").repeat.until.least == 6


@pytest.mark.parametrize(
    ("written", "source", "way", "value"),
    [
        (r'stdout REGEX "GFLOPS=\s*(\S+)"', "stdout", "regex", r"GFLOPS=\s*(\S+)"),
        ('STDERR REGEX "x"', "stderr", "regex", "x"),
        ('"out/run.json" JSON "$.a.b[0]"', "out/run.json", "json", "$.a.b[0]"),
        ('"run.csv" CSV COLUMN time', "run.csv", "column", "time"),
        ('"run.csv" CSV COLUMN "wall time"', "run.csv", "column", "wall time"),
        ('"run.csv" CSV COLUMN 3 WHERE n == 100', "run.csv", "rows", parse("n == 100")),
        ('"out.bin" SIZE', "out.bin", "size", True),
        ("stdout SIZE WHEN n > 1", "stdout", "when", parse("n > 1")),
    ],
)
def test_metrics_say_where_and_how_they_are_found(written, source, way, value):
    found = statement(f'METRIC t FROM {written} TAKE max UNIT "s" OPTIONAL')
    assert isinstance(found, MetricStatement)
    metric = found.metric
    assert (metric.name, metric.source, getattr(metric, way)) == ("t", source, value)
    assert (metric.take, metric.unit, metric.optional) == ("max", "s", True)


def test_a_metric_may_be_computed_or_reported_by_the_program():
    computed = statement('METRIC speedup := base / wtime UNIT "x" OPTIONAL').metric
    assert (computed.formula, computed.unit) == (parse("base / wtime"), "x")
    reported = statement("METRIC loss TAKE min").metric
    assert (reported.source, reported.regex, reported.formula, reported.take) == (
        "",
        None,
        None,
        "min",
    )


def test_a_computed_metric_may_have_a_condition():
    metric = statement('METRIC speedup := base / wtime WHEN n > 1 UNIT "x"').metric
    assert (metric.formula, metric.when, metric.unit) == (
        parse("base / wtime"), parse("n > 1"), "x",
    )  # fmt: skip


def test_a_metric_may_be_declared_exact():
    assert statement('METRIC energy EXACT FROM "e.json" JSON "$.e" OPTIONAL').metric.exact
    assert statement("METRIC half := energy / 2 EXACT").metric.exact
    assert statement("METRIC energy exact").metric.exact
    assert not statement("METRIC energy OPTIONAL").metric.exact


def test_regions():
    found = statement("CR matmul PMETRIC WTIME,CTIME, maxrss BEGIN")
    assert isinstance(found, RegionStatement)
    assert (found.name.text, found.probes) == ("matmul", ("WTIME", "CTIME", "MAXRSS"))


def test_objectives_have_parts():
    found = statement("OBJECTIVE MINIMIZE max(a, b), MAXIMIZE gflops")
    assert isinstance(found, ObjectiveStatement)
    assert [(g.direction, g.expression) for g in found.goals] == [
        ("minimize", parse("max(a, b)")),
        ("maximize", parse("gflops")),
    ]


def test_a_verification_is_a_condition_or_a_command():
    found = statement("VERIFY error <= 1e-6 * n").verification
    assert (found.expression, found.command) == (parse("error <= 1e-6 * n"), None)
    found = statement('VERIFY "./compare {n} out.dat" TIMEOUT 10s MEMORY 1GB').verification
    assert (found.command.text.text, found.command.timeout) == ("./compare {n} out.dat", 10)
    assert found.text == 'VERIFY "./compare {n} out.dat"'
    found = statement("VERIFY 'done' in state").verification
    assert found.expression == parse("'done' in state")
    assert diagnostics("VERIFY")[0].message == "VERIFY needs an expression"


def test_a_file_that_has_to_be_that_of_the_baseline():
    same = statement('VERIFY SAME "out.dat" WITHIN 1e-9 AS BASELINE').verification
    assert (same.same.path.text, same.same.within, same.same.where) == ("out.dat", 1e-9, {})
    assert same.text == 'VERIFY SAME "out.dat" WITHIN 1e-09 AS BASELINE'
    named = statement("VERIFY SAME 'a' AS baseline WHERE `my n` == -1 and s == 'x y'").verification
    assert named.same.where == {"my n": -1, "s": "x y"}
    assert statement("VERIFY same <= 3").verification.expression.text == "same <= 3"
    for wrong, message in {
        'SAME "out.dat"': "AS BASELINE is missing",
        'SAME "out.dat" AS reference': "AS BASELINE is missing",
        'SAME "../out.dat" AS BASELINE': "../out.dat is outside",
        'SAME "o" WITHIN 2s AS BASELINE': "2s is not a tolerance for numbers",
        'SAME "o" AS BASELINE WHERE n < 3': "n < 3 does not name a value",
        'SAME "o" AS BASELINE WHERE n == m': "n == m does not name a value",
    }.items():
        assert diagnostics(f"VERIFY {wrong}")[0].message == message


def test_a_verify_that_is_no_condition():
    assert diagnostics('VERIFY "./compare" RETRY 2')


def test_a_region_counts_events_beside_its_times():
    found = statement('CR solve PMETRIC cycles, WTIME, "cache-misses", Cache_Misses BEGIN')
    assert (found.probes, found.counters) == (("WTIME",), ("cycles", "cache-misses"))


def test_what_is_observed_is_a_metric_each():
    found = statement("OBSERVE perf instructions, L1-dcache-load-misses, r01c2, task-clock")
    assert [(m.name, m.observed, m.unit, m.optional) for m in found.metrics] == [
        ("instructions", "perf instructions", "", True),
        ("l1_dcache_load_misses", "perf L1-dcache-load-misses", "", True),
        ("r01c2", "perf r01c2", "", True),
        ("task_clock", "perf task-clock", "s", True),
    ]
    found = statement("OBSERVE memory, ENERGY")
    assert [(m.name, m.observed, m.unit) for m in found.metrics] == [
        ("memory_peak", "memory", "B"),
        ("memory_mean", "memory", "B"),
        ("energy", "energy", "J"),
        ("energy_dram", "energy", "J"),
    ]


def test_outputs_and_stages():
    assert statement('OUTPUT "*.csv", "plots/*.png"') == OutputStatement(("*.csv", "plots/*.png"))
    assert statement('OUTPUT "a", "b" optional') == OutputStatement(("a", "b"), optional=True)
    assert diagnostics('OUTPUT "a" OPTIONAL, "b"')[0].message == ", is not expected here"
    found = statement('AFTER "mesh" ON n, threads')
    assert isinstance(found, AfterStatement)
    assert (found.stage.text, [name.text for name in found.on]) == ("mesh", ["n", "threads"])


def test_several_mistakes_in_one_directive_are_all_said():
    found = diagnostics('SUBSTITUTE n = { 1, 2 } TYPE integer MATCH WORDS UNIT s WHEN n > FOO "x"')
    assert [each.place.column for each in found] == [30, 44, 55, 70]


@pytest.mark.parametrize(
    "text", ["PARAM n ==", "PARAM n :", "PARAM n =", "PARAM n :=", "PARAM n", "PARAM"]
)
def test_a_declaration_that_ends_too_early_is_a_diagnostic(text):
    (found,) = diagnostics(text)
    assert found.hint


def test_a_directive_that_is_too_long_is_refused():
    (found,) = diagnostics("PARAM n = { " + "a" * LONGEST_DIRECTIVE + " }")
    assert "100,000" in found.message


def test_json_paths_are_steps():
    assert json_steps("$") == ()
    assert json_steps("$.a.b[0][-1]['c d'][*].*") == ("a", "b", 0, -1, "c d", EVERY, EVERY)
    with pytest.raises(AnnotationError):
        json_steps("$.a[")


WORDS = st.sampled_from(
    [
        *KEYWORDS,
        *[
            "VALUE",
            "INDEX",
            "AS",
            "TYPE",
            "int",
            "UNIT",
            "DEFAULT",
            "WHEN",
            "IN",
            "MATCH",
            "TEXT",
            "OPTIONAL",
            "BEGIN",
            "CR",
            "FROM",
            "stdout",
        ],
        *[
            "REGEX",
            "JSON",
            "CSV",
            "WHERE",
            "SIZE",
            "WORDS",
            "COLUMN",
            "TAKE",
            "last",
            "n",
            "MINIMIZE",
            "MAXIMIZE",
            "perf",
            "cycles",
            "memory",
            "PMETRIC",
            "WTIME",
            "SEED",
            "TIMEOUT",
            "RETRY",
        ],
        *[
            "CPUS",
            "MEMORY",
            "ON",
            "é",
            "=",
            ":=",
            "==",
            "@n",
            "{",
            "}",
            "'",
            '"',
            "`",
            "(",
            ")",
            ",",
            "\\",
            "30s",
            "0",
        ],
        "{ 1, 2 }",
        '"text"',
    ]
)


def complaints_of(text):
    """What is wrong with a directive; nothing if it can be read."""
    try:
        statement(text)
    except InputError as error:
        return error.diagnostics
    return None


@given(st.lists(WORDS, max_size=12))
def test_any_words_make_a_statement_or_complaints_with_places(words):
    found = complaints_of(" ".join(words))
    assert found is None or found
    for each in found or ():
        assert each.message
        assert each.place is not None
        assert 1 <= each.place.column <= len(" ".join(words)) + 1


@given(st.text(max_size=60))
def test_any_text_makes_a_statement_or_diagnostics(text):
    found = complaints_of(text)
    assert found is None or found


NAMES = st.text(st.sampled_from("abz_9é"), min_size=1, max_size=5).filter(lambda n: n != "_")


@given(
    way=st.sampled_from(["SUBSTITUTE", "ASSIGN", "ENV", "PARAM"]),
    target=NAMES,
    name=st.none() | NAMES,
    kind=st.sampled_from([None, "int", "real", "str", "bool"]),
    unit=st.none() | st.sampled_from(["s", "GFLOP/s", "µm", ""]),
    default=st.none() | st.sampled_from(["0", '"a b"', "-O3"]),
    order=st.randoms(),
)
def test_what_is_written_as_a_declaration_is_read_as_it(
    way, target, name, kind, unit, default, order
):
    clauses = [f"AS {name}"] * (name is not None) + [f"TYPE {kind}"] * (kind is not None)
    clauses += [f'UNIT "{unit}"'] * (unit is not None) + [f"DEFAULT {default}"] * (
        default is not None
    )
    order.shuffle(clauses)
    found = statement(f"{way} {target} = {{ 1, 2 }} {' '.join(clauses)}")
    assert (found.way, found.target.text, found.name.text) == (way.lower(), target, name or target)
    assert (found.type, found.unit) == (kind, unit)
    assert found.default == (default.strip('"') if default is not None else None)


VALUES = (1, 2, 2.0, 3, math.nan, "a", "b", "c", "2", True, False, None, [2], {"a": 2})


@pytest.mark.parametrize(
    ("literal", "less", "equal", "more"),
    [
        (2, [1], [2, 2.0], [3]),
        (2.0, [1], [2, 2.0], [3]),
        ("b", ["2", "a"], ["b"], ["c"]),
        (True, [], [True], []),
        (None, [], [None], []),
    ],
)
def test_members_of_json_compare_with_their_own_kind_alone(literal, less, equal, more):
    others = [value for value in VALUES if repr(value) not in map(repr, equal)]
    true = {"==": equal, "!=": others, "<": less, ">": more}
    true |= {"<=": [*less, *equal], ">=": [*equal, *more]}
    for operator, expected in true.items():
        accepts = JsonFilterSelector((), operator, literal).accepts
        found = [value for value in VALUES if accepts(value)]
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), operator
