"""Reports: charts and words in one file."""

import re

import pytest

from show.portal.example_project import fill_project
from zenturio.errors import ConflictError, InputError, NotFoundError, SafetyError
from zenturio.record.open import open_repository
from zenturio.show.chart import Chart
from zenturio.show.markdown_report import (
    ChartBlock,
    TextBlock,
    chart_line,
    check_name,
    parse_report,
)
from zenturio.show.printed_report import print_report
from zenturio.show.report_store import ReportStore, export_report, version_of

TEXT = """\
# Solvers

Many *words* with `code`, <script>alert(1)</script> and ![a spy](http://spy.example/x.png).

![speed](/chart?study=matmul&kind=line&x=n&y=gflops&y=wtime)

- [a link](javascript:alert(1))

| a | b |
|---|---|
| 1 | 2 |

```
zen plot
```

![plan](</schedule?workflow=wien2k:kpoints=2&on=identical:2>)
![gone](/chart?study=nothing)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    fill_project(folder)
    return folder


@pytest.fixture
def repository(project):
    found = open_repository(project / ".zenturio" / "zenturio.db", create=False)
    yield found
    found.close()


def test_a_report_is_words_and_pictures_by_turns():
    report = parse_report(TEXT)
    assert report.title == "Solvers"
    kinds = [type(block) for block in report.blocks]
    assert kinds == [TextBlock, ChartBlock, TextBlock, ChartBlock, ChartBlock]
    assert report.blocks[1] == ChartBlock(
        "speed", "/chart?study=matmul&kind=line&x=n&y=gflops&y=wtime"
    )
    assert report.blocks[2].lines[-1] == ("code", "zen plot")
    assert parse_report("words alone", "its file").title == "its file"


def test_nothing_in_a_report_is_executed_or_fetched():
    html = "".join(
        block.html for block in parse_report(TEXT).blocks if isinstance(block, TextBlock)
    )
    assert "<script" not in html
    assert "spy.example" not in html
    assert not re.search("href=.javascript", html)


def test_a_picture_is_drawn_as_its_address_says(repository, project):
    speed, plan, gone = (b for b in parse_report(TEXT).blocks if isinstance(b, ChartBlock))
    charts = speed.draw(repository, project)
    assert all(isinstance(each, Chart) for each in charts)
    assert [each.y.name for each in charts] == ["gflops", "wtime"]
    (gantt,) = plan.draw(repository, project)
    assert gantt.rectangles
    with pytest.raises(NotFoundError, match="nothing"):
        gone.draw(repository, project)


def test_a_picture_of_a_report_reads_no_other_files(repository, project):
    for target in ("/schedule?workflow=/etc/passwd", "/schedule?workflow=recipe:file=../../x.json"):
        with pytest.raises(SafetyError, match="not in the project"):
            ChartBlock("", target).draw(repository, project)
    with pytest.raises(InputError, match="too large for a page"):
        ChartBlock("", "/schedule?workflow=wien2k:kpoints=999999").draw(repository, project)


@pytest.mark.parametrize(
    ("kind", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_report_is_printed_without_a_browser(repository, project, kind, begin):
    content = export_report(parse_report(TEXT), kind, repository, project)
    assert content.startswith(begin)


def test_a_report_is_one_page_that_needs_no_network(repository, project):
    page = export_report(parse_report(TEXT), "html", repository, project).decode()
    assert page.count("plotly-graph-div") == 3
    assert len(page) < 8_000_000, "plotly.js is in it once"
    assert "<title>Solvers</title>" in page
    assert "gone cannot be drawn" in page
    assert "<em>speed</em>" in page
    assert "no study is named 'nothing'" in page
    assert not re.search(r"<(?:img|script|link)[^>]*(?:src|href)=", page)


def test_long_words_go_on_in_the_next_page():
    lines = [("text", f"line {n} " + "word " * 30) for n in range(120)]
    pages = re.findall(rb"/Type /Page\b", print_report([lines], "pdf"))
    assert 4 <= len(pages) <= 6
    with pytest.raises(InputError, match="too tall"):
        print_report([lines * 5], "png")


@pytest.mark.slow
def test_a_paragraph_of_many_pages_is_parted_and_nothing_of_it_is_lost():
    words = [f"word{n}" for n in range(4_000)]
    pages = re.findall(rb"/Type /Page\b", print_report([[("text", " ".join(words))]], "pdf"))
    assert len(pages) >= 4
    (block,) = parse_report(" ".join(words)).blocks
    assert _parted(block.lines) == words


def _parted(lines):
    """All words of the parts, in their order."""
    from zenturio.show.printed_report import _split_block

    return [word for part in _split_block(lines) for _, text in part for word in text.split()]


def test_another_format_is_refused_with_the_nearest(repository, project):
    with pytest.raises(InputError, match="'pfd'") as told:
        export_report(parse_report(TEXT), "pfd", repository, project)
    assert "pdf" in str(told.value)


def test_a_report_is_kept_in_a_file_of_the_project(tmp_path):
    reports = ReportStore(tmp_path)
    assert reports.names() == []
    reports.add("First one", "speed [x]", "/chart?study=a b&where=n<3")
    text = (tmp_path / "reports" / "First one.md").read_text()
    assert text.startswith("# First one\n")
    (picture,) = (b for b in parse_report(text).blocks if isinstance(b, ChartBlock))
    assert picture.target.startswith("/chart?study=a")
    reports.add("First one", "again", "/chart?study=b")
    assert reports.names() == ["First one"]
    assert len(parse_report(reports.text("First one")).blocks) == 3


def test_what_somebody_else_wrote_meanwhile_is_not_lost(tmp_path):
    reports = ReportStore(tmp_path)
    reports.save("r", "one\n")
    known = version_of(reports.text("r"))
    reports.save("r", "two\n", known)
    with pytest.raises(ConflictError, match="in the meantime"):
        reports.save("r", "three\n", known)
    with pytest.raises(ConflictError, match="in the meantime"):
        reports.save("r", "new\n")
    assert reports.text("r") == "two\n"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "a\nb", "a.md"])
def test_a_name_that_is_no_name_of_a_file_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="cannot be the name of a report"):
        check_name(name)
    with pytest.raises(InputError):
        ReportStore(tmp_path).save(name, "x")


def test_files_that_no_report_can_be_called_are_not_offered(tmp_path):
    (tmp_path / "reports").mkdir()
    for name in ("good", "no & good", "v1.2"):
        (tmp_path / "reports" / f"{name}.md").write_text("x")
    assert ReportStore(tmp_path).names() == ["good"]


def test_a_link_out_of_the_project_is_not_followed(tmp_path):
    inside = tmp_path / "project"
    inside.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (inside / "reports").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SafetyError, match="outside of the project"):
        ReportStore(inside).save("x", "y")


def test_a_report_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(InputError, match="262,144 bytes"):
        ReportStore(tmp_path).save("long", "x" * 300_000)


def test_the_line_of_a_picture_is_read_as_that_picture():
    target = "/chart?study=%3Cscript%3E&where=n+%3E+3&x=a)b(c"
    (picture,) = parse_report(chart_line("a [b] \\ c\nd", target)).blocks
    assert picture.target == target
