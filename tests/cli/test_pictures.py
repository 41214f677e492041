"""Pictures of searches, as somebody types them."""

import re

import pytest

from tests.cli.conftest import zen

PROGRAM = """\
x = 0
y = 0
#ZEN$ ASSIGN x = { 0:40 } UNIT "m"
#ZEN$ ASSIGN y = { 0:40 } UNIT "m"
#ZEN$ RUN "python3 hill.py"
#ZEN$ METRIC height FROM stdout REGEX "height (\\S+)" UNIT "m"
#ZEN$ OBJECTIVE MAXIMIZE height, MINIMIZE x
if x == y == 0: raise SystemExit(1)
print("height", 1000 - (x - 31) ** 2 - (y - 7) ** 2)
"""


@pytest.fixture(scope="module")
def hill(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hill")
    (folder / "hill.py").write_text(PROGRAM)
    for name, seed in (("one", 1), ("two", 2)):
        options = ("--search", "random", "--budget", 20, "--seed", seed, "--name", name)
        zen("run", "hill.py", *options, cwd=folder, code=None)
    return folder


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("convergence", "one: greatest height so far"),
        pytest.param("dependence", "one: height by each parameter", marks=pytest.mark.slow),
        pytest.param("slice", "one: height by each parameter", marks=pytest.mark.slow),
        pytest.param(
            "pareto", "one: Pareto front of greatest height and least x", marks=pytest.mark.slow
        ),
        pytest.param("parallel", "one: height across the parameters", marks=pytest.mark.slow),
    ],
)
def test_a_search_is_drawn_by_its_objective(hill, kind, title):
    told = zen("plot", "one", "--kind", kind, "-o", f"{kind}.html", cwd=hill)
    assert told.out.startswith(f"{kind}.html: 20 of 20 ")
    assert title in (hill / f"{kind}.html").read_text()


@pytest.mark.parametrize("kind", ["convergence", "pareto"])
def test_a_search_is_drawn_in_the_terminal(hill, kind):
    told = zen("plot", "one", "--kind", kind, "-o", "-", cwd=hill)
    assert "height" in told.out.splitlines()[0]
    assert told.out.rstrip().endswith("20 of 20 points")
    assert not list(hill.glob("-*"))
    facts = zen("plot", "one", "--kind", kind, "-o", "-", "--json", cwd=hill).facts
    assert facts["lines"] == told.out.splitlines()


def test_several_studies_are_several_lines_or_a_median(hill):
    told = zen("plot", "one", "two", "--kind", "convergence", "-o", "-", cwd=hill).out
    assert "study: ● one  ○ two" in told
    options = ("--kind", "convergence", "--agg", "median", "-o", "-")
    assert "median of 2 runs" in zen("plot", "one", "two", *options, cwd=hill).out


def test_another_objective_can_be_given(hill):
    options = ("--kind", "convergence", "--objective", "MINIMIZE x + y", "-o", "-")
    assert "one: least x + y so far" in zen("plot", "one", *options, cwd=hill).out
    zen("plot", "one", "--kind", "slice", "--y", "wtime", "-o", "s.svg", cwd=hill)
    assert b"<svg" in (hill / "s.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kind", "slice", "-o", "-"), "cannot be drawn in a terminal"),
        (("--kind", "convergence", "--y", "wtime"), "'MINIMIZE wtime'"),
        (("--kind", "convergence", "--objective", "MINIMIZE heigt"), "did you mean 'height'"),
        (("--kind", "pareto", "--y", "height"), "two or three objectives"),
        (("--kind", "line", "--objective", "MINIMIZE x"), "name its y or its z"),
        (("two", "--kind", "importance", "--color", "x"), "has no colour to choose"),
        (("--kind", "importance"), "not enough data to tell which parameters matter for height"),
        (("--kind", "convergnce"), "did you mean 'convergence'"),
        (("--kind", "slice", "--y", "x", "--objective", "MINIMIZE x"), "name one of them"),
    ],
)
def test_what_cannot_be_drawn_says_what_would_be_right(hill, options, words):
    assert words in zen("plot", "one", *options, cwd=hill, code=2).err


def test_the_answer_to_a_query_is_drawn(hill):
    query = "SELECT x % 2 AS odd, height / 1000 AS share FROM study_one WHERE x > 0"
    told = zen("plot", "--query", query, "--x", "odd", "--y", "share", "-o", "-", cwd=hill).out
    assert told.startswith("mean share over odd")
    assert re.search(r"mean of \d+ to \d+ rows;", told)
    assert "repeats" not in told
    count = zen("sql", f"SELECT count(*) AS n FROM ({query})", "--json", cwd=hill).facts["rows"]
    assert told.rstrip().endswith("{0} of {0} rows".format(*count[0]))
    (hill / "share.sql").write_text(query)
    parts = ("--x", "odd", "--y", "share", "-o", "-")
    assert zen("plot", "--query", "share.sql", *parts, cwd=hill).out == told
    assert zen("plot", "--query", "share.sql", "-o", "-", cwd=hill).out == told


def test_a_query_is_drawn_into_a_file_of_any_kind(hill):
    query = "SELECT 'low' AS level, height FROM study_one"
    parts = ("--kind", "box", "--x", "level", "--y", "height")
    zen("plot", "--query", query, *parts, "--title", "Heights", cwd=hill)
    assert "Heights" in (hill / "plot.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "nothing to draw"),
        (("one", "--query", "SELECT 1"), "one and --query"),
        (("--query", "SELECT 1 AS a", "--where", "a > 0"), "put it into the SELECT"),
        (("--query", "SELECT 1 AS a", "--kind", "pareto"), "name the study"),
        (("--query", "SELECT 1 AS a", "--x", "a", "--y", "b"), "there is no column 'b'"),
        (("--query", "DELETE FROM studies", "--x", "a", "--y", "b"), "refused"),
    ],
)
def test_a_query_that_cannot_be_drawn_is_refused(hill, options, words):
    told = zen("plot", *options, "-o", "-", cwd=hill, code=None)
    assert told.code in (2, 6)
    assert words in told.err


def test_a_report_becomes_one_file(hill):
    words = "# Hills\n\nWords.\n\n![height](/chart?study=one&x=x&y=height)\n"
    (hill / "hills.md").write_text(words)
    told = zen("report", "hills.md", "-o", "hills.pdf", cwd=hill)
    assert told.out == "hills.pdf: Hills, charts: 1\n"
    assert (hill / "hills.pdf").read_bytes().startswith(b"%PDF")
    assert zen("report", "hills.md", "--json", cwd=hill).facts["file"] == "hills.html"
    assert "one: mean height over x" in (hill / "hills.html").read_text()
    (hill / "flat.md").write_text(words.replace("y=height", "y=depth"))
    told = zen("report", "flat.md", cwd=hill, code=2)
    assert told.out == "flat.html: Hills, charts: 1, 1 of them cannot be drawn\n"
    assert "height: " in told.err
    assert "no column 'depth'" in told.err
    assert "no column 'depth'" in (hill / "flat.html").read_text().replace("&#39;", "'")
    assert "did you mean 'pdf'" in zen("report", "hills.md", "-o", "h.pfd", cwd=hill, code=2).err
    assert "cannot read" in zen("report", "nothing.md", cwd=hill, code=2).err
