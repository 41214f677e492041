"""A study: its failures, its parameters, and a table of which every view has an address."""

import csv
import html
import io
import json
import re
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet as pq
import pytest

from show.portal.example_project import EVIL, enter
from show.portal.running_portal import served
from zenturio.experiment.experiment import MachineKind
from zenturio.query.catalog import Form, StudyColumn
from zenturio.query.listing import ColumnRange
from zenturio.record import DriverProcess, Field, StudyDefinition, columnar_copy
from zenturio.record.open import open_repository
from zenturio.show.portal.pages.study import _as_declared
from zenturio.show.portal.state import PortalSettings
from zenturio.study.recorded_definition import PROGRAM
from zenturio.study.stages.stage_graph import AFTER
from zenturio.testing.experiments import experiment, outcome


def _rows(page):
    """The digests of the rows of a page, in their order."""
    return re.findall(r'data-row href="/experiment/([0-9a-f]{32})', page)


def _links(page):
    """The links to other pages of the table, by what they are."""
    found = re.findall(r'rel="(\w+)" href="([^"]+)"', page)
    return {rel: html.unescape(href) for rel, href in found}


def _walk(portal, path):
    page = portal.page(path)
    rows = _rows(page)
    while link := _links(page).get("next"):
        page = portal.page(link)
        rows += _rows(page)
    return rows


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ("", 72),
        ("&sort=-gflops", 72),
        ("&where=threads+>%3D+2", 54),
        ("&where=status+!%3D+'ok'&sort=wtime", 8),
        ("&state=ok&sort=solver&sort=-n", 64),
    ],
)
def test_pages_of_a_table_hold_every_row_once_and_lead_back(portal, asked, count):
    path = f"/study?name=matmul{asked}"
    rows = _walk(portal, path)
    assert len(rows) == len(set(rows)) == count
    first = portal.page(path)
    assert f"of {count}" in first
    last = portal.page(_links(first)["last"]) if count > 50 else first
    assert _rows(last) == rows[-len(_rows(last)) :]
    if count > 50:
        assert f"51–{count} of {count}" in portal.page(_links(first)["next"])
        back = portal.page(_links(last)["prev"])
        assert set(_rows(back)) <= set(rows)
        assert _rows(back)[-1] == rows[rows.index(_rows(last)[0]) - 1]


@pytest.mark.parametrize("asked", ["sort=-gflops", "where=threads+>%3D+2", "state=ok&sort=solver"])
def test_pages_by_the_columnar_copy_are_those_by_the_database(portal, asked, tmp_path, monkeypatch):
    def pages():
        portal.service.portal.results.clear()
        first = portal.page(f"/study?name=matmul&{asked}")
        last = portal.page(_links(first)["last"])
        shown = [first, portal.page(_links(first)["next"]), last, portal.page(_links(last)["prev"])]
        return [(_rows(page), re.findall(r"\d+–\d+ of \d+", page)) for page in shown]

    expected = pages()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(columnar_copy, "COPY_ROWS", 1)
    assert portal.service.portal.repository.columnar_copy("matmul") is not None
    monkeypatch.setattr(portal.service.portal, "row_order", None)  # nothing is sorted as a whole
    assert pages() == expected


def test_a_table_is_sorted_up_then_down_then_not(portal):
    page = portal.page("/study?name=matmul&column=gflops")
    for wanted in (("gflops",), ("-gflops",), ()):
        link = html.unescape(re.search(r'<a href="(/study[^"]+)">gflops', page)[1])
        assert tuple(parse_qs(urlsplit(link).query).get("sort", ())) == wanted
        page = portal.page(link)
        values = [float(v) for v in re.findall(r'<td class="number">([0-9.]+)</td>', page)]
        if wanted:
            assert values == sorted(values, reverse=wanted[0][0] == "-")


def test_a_filter_that_is_wrong_is_explained_in_its_place(portal):
    answer = portal.get("/study", params={"name": "matmul", "where": "n > and"})
    assert answer.status_code == 400
    assert "filter:1:5" in answer.text
    answer = portal.get("/study", params={"name": "matmul", "where": "treads > 1"})
    assert "did you mean &#39;threads&#39;" in answer.text
    assert 'value="treads &gt; 1"' in answer.text, "what was typed can be mended"


@pytest.mark.parametrize(
    "query",
    ["", "name=matmull", "name=matmul&state=dead", "name=matmul&sort=gflop", "name=matmul&column=x",
     "name=matmul&after=zz", "name=matmul&after=00000000000000000000000000000000"],
)  # fmt: skip
def test_an_address_that_names_what_is_not_there_is_answered_with_what_is(portal, query):
    answer = portal.get(f"/study?{query}")
    assert answer.status_code in (400, 404)
    assert "diagnostic" in answer.text


def test_the_sql_behind_a_table_is_shown_and_answers_the_same(portal):
    page = portal.page("/study", name="matmul", where="threads == 2", sort="-wtime", state="ok")
    told = html.unescape(re.search(r'<pre id="sql"[^>]*>(.*?)</pre>', page, re.DOTALL)[1])
    answer = portal.page("/sql", query=told)
    digests = re.findall(r"<td>([0-9a-f]{32})</td>", answer)
    assert digests == _rows(page)
    assert digests


def test_failures_come_first_by_cause_with_the_end_of_the_log_and_the_command(portal):
    page = portal.page("/study", name="matmul")
    assert page.index("Failures") < page.index("Experiments")
    assert page.index("exit 3") < page.index("timeout after 30 s")
    assert "<b>6</b> &times;" in page
    assert "out of memory in block 7" in page
    assert "zen run matmul.c --db" in page
    assert "--only failed" in page
    link = html.unescape(re.search(r'href="([^"]+)">Show all', page)[1])
    assert len(_rows(portal.page(link))) == 6
    evil = portal.page("/study", name=EVIL)
    link = html.unescape(re.search(r'href="([^"]+)">Show all', evil)[1])
    assert len(_rows(portal.page(link))) == 2


def test_parameters_tell_what_they_took(portal):
    page = portal.page("/study/parameters", name="matmul")
    for value in ("128", "512", "gmres"):
        assert f'<span class="value">{value}</span>' in page
    assert "(cells)" in page
    assert "from 0 to 15" in portal.page("/study/parameters", name="stencil")


def test_parameters_are_shown_as_their_sets_are_declared(tmp_path):
    source = b"""\
#ZEN$ PARAM size = { 1k, 2.2k, 10k, 500 }
#ZEN$ PARAM rate = { UNIFORM(0.5, 2.5) }
#ZEN$ PARAM n = { 3, 1, 2 }
"""
    repository = open_repository(str(tmp_path / "z.db"))
    fields = (Field("size", "str"), Field("rate", "real"), Field("n", "int"), Field("gone", "str"))
    definition = StudyDefinition(fields[:3], sources={"a.sh": source})
    repository.open("a", definition)
    columns = [StudyColumn(f.name, f.name, "parameter", f.type, Form(0)) for f in fields]
    taken = [
        ColumnRange(columns[0], ("10k", "1k", "2.2k", "former")),
        ColumnRange(columns[1], (1.0, 2.0)),
        ColumnRange(columns[2], (1, 2, 3)),
        ColumnRange(columns[3], ("b", "a")),
    ]
    size, rate, n, gone = _as_declared(taken, repository, "a")
    assert size.values == ("1k", "2.2k", "10k", "former")
    assert (rate.values, rate.low, rate.high) == (None, 0.5, 2.5)
    assert (n.values, gone.values) == ((1, 2, 3), ("b", "a"))
    repository.close()


def test_repeats_and_what_is_chosen_are_columns(portal):
    page = portal.page("/study", name="matmul")
    assert ">repeat<" in page.replace("\n", "")
    chosen = portal.page("/study?name=matmul&column=gflops&column=host")
    heads = re.findall(r'<th scope="col"[^>]*><a [^>]*>([^<]+)', chosen)
    assert [head.strip() for head in heads] == ["gflops", "host"]
    assert "kofel" in chosen
    assert 'title="no line matches gflops' in chosen


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_table_is_saved_whole(portal, kind):
    given = {"name": "matmul", "where": "threads <= 4", "sort": "-gflops", "format": kind}
    answer = portal.get("/download", params=given)
    assert "attachment" in answer.headers["Content-Disposition"]
    if kind == "csv":
        digests = [row["digest"] for row in csv.DictReader(io.StringIO(answer.text))]
    elif kind == "jsonl":
        digests = [json.loads(line)["digest"] for line in answer.text.splitlines()]
    else:
        digests = pq.read_table(io.BytesIO(answer.content)).column("digest").to_pylist()
    assert len(digests) == 54
    assert digests == _walk(portal, "/study?name=matmul&where=threads+<%3D+4&sort=-gflops")


def test_csv_is_exact_and_another_link_is_for_a_spreadsheet(portal):
    exact = portal.get("/download", params={"name": EVIL}).text
    assert "=1+1" in exact
    assert "'=1+1" not in exact
    links = re.findall(
        r'href="(/download[^"]*spreadsheet=yes[^"]*)"', portal.page("/study", name=EVIL)
    )
    assert "'=1+1" in portal.get(html.unescape(links[0])).text
    assert portal.get("/download", params={"name": "matmul", "format": "xls"}).status_code == 400
    answer = portal.get("/download", params={"query": "SELECT 'a' AS b, -1 AS c", "format": "csv"})
    assert answer.text == "b,c\na,-1\n"


def test_a_large_study_counts_when_its_page_is_there(portal, monkeypatch):
    monkeypatch.setattr("zenturio.show.portal.pages.study.SMALL_STUDY", 10)
    page = portal.page("/study?name=matmul&where=threads>1&sort=-gflops")
    assert "Counting" in page
    assert "<b>6</b> &times;" not in page
    later = re.findall(r'hx-get="([^"]+)"', page)
    assert [urlsplit(each).path for each in later] == [
        "/study/failures", "/study/parameters", "/study/found",
    ]  # fmt: skip
    assert "1–50 of 54" in portal.page(html.unescape(later[-1]))
    assert "exit 3" in portal.page(html.unescape(later[0]))
    second = portal.page(_links(page)["next"])
    assert len(_rows(second)) == 4
    middle = portal.page(_links(portal.page("/study?name=matmul"))["next"])
    assert "51–72 of 72" in portal.page(html.unescape(re.findall(r'hx-get="([^"]+)"', middle)[-1]))


def test_more_causes_than_are_shown_are_said(tmp_path):
    repository = open_repository(tmp_path / "zenturio.db")
    rows = [({"n": n}, {}, {"status": "failed", "cause": f"exit {n}"}) for n in range(1, 40)]
    enter(repository, "many", StudyDefinition((Field("n", "int"),), ()), rows)
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        page = portal.page("/study", name="many")
        assert page.count('class="cause"') == 30
        assert "there are more" in page


def test_what_a_study_is_about_comes_first(portal):
    """Its own metrics before those that are always measured; and a link to its best."""
    heads = re.findall(r'<th scope="col"[^>]*><a [^>]*>(\w+)', portal.page("/study?name=matmul"))
    assert heads == ["n", "threads", "solver", "repeat", "gflops", "wtime", "exit"]
    page = portal.page("/study?name=stencil")
    link = html.unescape(re.search(r'<code>loss</code> \(<a href="([^"]+)">best first', page)[1])
    losses = [row["loss"] for row in map(json.loads, portal.get(
        link.replace("/study?", "/download?format=jsonl&")).text.splitlines())]  # fmt: skip
    assert len(losses) == 60
    assert losses == sorted(losses)


def test_a_study_without_parameters_says_so(portal, tmp_path):
    repository = open_repository(tmp_path / "zenturio.db")
    enter(repository, "one", StudyDefinition((), (Field("m", "real"),)), [({}, {"m": 1.0}, {})])
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as small:
        page = small.page("/study?name=one")
    assert "This study has no parameters." in page
    assert "<dl" not in page


def test_the_sql_behind_failures_and_parameters_is_shown_and_answers_the_same(portal):
    page = portal.page("/study", name="matmul")
    told = html.unescape(re.search(r'<pre id="causes"[^>]*>(.*?)</pre>', page, re.DOTALL)[1])
    answer = portal.page("/sql", query=told)
    counts = re.findall(r"<b>(\d+)</b> &times;", page)
    assert re.findall(r'<td class="number">(\d+)</td>', answer) == counts
    assert counts
    each = html.unescape(re.search(r'<pre id="values"[^>]*>(.*?)</pre>', page, re.DOTALL)[1])
    first, *others = each.split(";\n")
    assert len(others) == 2
    answer = portal.page("/sql", query=first)
    assert set(re.findall(r'<td class="number">(\d+)</td>', answer)) == {"128", "256", "512"}


def test_a_stage_tells_what_it_waits_for_and_what_of_that_failed(tmp_path):
    repository = open_repository(tmp_path / "zenturio.db")
    fields = (Field("n", "int"),), (Field("m", "real"),)
    rows = [({"n": n}, {"m": 1.0}, {"status": "failed"} if n == 3 else {}) for n in range(1, 5)]
    enter(repository, "mesh", StudyDefinition(*fields), rows)
    notes = {"experiments": 4, PROGRAM: {"RUN": "x", f"{AFTER}mesh": "y"}}
    enter(repository, "solve", StudyDefinition(*fields, notes=notes), [({"n": 1}, {"m": 2.0}, {})])
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        page = " ".join(portal.page("/study?name=solve").split())
        assert "Runs after" not in portal.page("/study?name=mesh")
    assert 'Runs after <a href="/study?name=mesh">mesh</a>' in page
    assert "<b>1</b> failed; experiments that need them are not run" in page


MACHINES = (MachineKind("Zen 5", 16), MachineKind("RISC-V", 4))


@pytest.fixture
def mixed(tmp_path):
    """A portal of a study that two kinds of machine have measured."""
    repository = open_repository(tmp_path / "mixed.db")
    definition = StudyDefinition(parameters=(Field("n", "int"),), metrics=(Field("time", "real"),))
    points = [experiment(i) for i in range(1, 61)]
    for number, machine in enumerate(MACHINES):
        repository.open("mixed", definition)
        lease = repository.acquire_lease("mixed", DriverProcess.current())
        claims = repository.claim("mixed", lease.number, points, {machine})
        outcomes = [
            replace(outcome(e, attempt=claims[e.digest], time=number + 1.0), machine=machine)
            for e in points
        ]
        repository.record("mixed", lease.number, outcomes)
        repository.release_lease(lease)
    repository.close()
    with served(PortalSettings(str(tmp_path / "mixed.db"), tmp_path)) as found:
        yield found


def test_a_table_of_several_kinds_of_machine_is_cut_into_pages_without_a_gap(mixed):
    rows = _walk(mixed, "/study?name=mixed")
    assert len(rows) == 120
    assert sorted(rows) == sorted([*set(rows)] * 2)
    assert len(_walk(mixed, "/study?name=mixed&sort=-time")) == 120


def test_the_kinds_of_machine_of_a_study_can_be_chosen(mixed):
    page = html.unescape(mixed.page("/study?name=mixed"))
    assert "120 results of 2 kinds of machine" in page
    (link,) = re.findall(r'href="([^"]*machine=RISC[^"]*)"', page)
    assert len(_walk(mixed, link)) == 60
    assert "all kinds of machine" in mixed.page(link)
    chart = mixed.page("/chart?study=mixed&x=n&y=time&machine=RISC-V")
    assert "Kind of machine" in chart
    rows = mixed.page("/chart/rows?study=mixed&x=n&y=time&machine=RISC-V")
    assert "of 60" in rows
