"""One experiment, two side by side, and what somebody asks in SQL."""

import html
import re
import threading
from contextlib import closing
from hashlib import sha256

import pytest

from show.portal.example_project import EVIL, enter
from show.portal.running_portal import served
from zenturio.experiment.experiment import Artifact, Log
from zenturio.experiment.signed_ranks import BlockPlan
from zenturio.record import Field, StudyDefinition
from zenturio.record.open import open_repository
from zenturio.show.portal.pages.experiment import MOST_ARTIFACTS, _flatten
from zenturio.show.portal.state import PortalSettings
from zenturio.study.paired.compare_and_gate import PairedOptions, compared_versions, run_comparison
from zenturio.testing.executor import until


def _digests(portal, study):
    return [record.digest for record in portal.service.portal.repository.records(study)]


def test_an_experiment_shows_all_that_is_known_of_it(portal):
    page = portal.page(f"/experiment/{_digests(portal, 'hello')[0]}")
    for text in ("letters", "wtime", "to stderr", "said.txt", "sh hello.sh {word}", "zenturio"):
        assert text in page
    files = portal.page(f"/experiment/{_digests(portal, 'hello')[0]}/files")
    assert "hello.sh" in files
    assert "count=1" in files
    failed = portal.page(f"/experiment/{portal.failed('matmul')}")
    assert "missing: no line matches gflops" in failed
    assert "The files cannot be shown" in portal.page(
        f"/experiment/{portal.failed('matmul')}/files"
    )


def test_a_few_digits_are_enough_and_none_are_said(portal):
    digest = _digests(portal, "hello")[1]
    assert digest in portal.page(f"/experiment/{digest[:10]}")
    assert portal.get("/experiment/ffffffffffffffff").status_code == 404
    assert portal.get("/experiment/xyz").status_code == 400
    assert portal.get(f"/experiment/{digest}?study=matmul").status_code == 404
    assert portal.get(f"/experiment/{digest}?attempt=x").status_code == 404


def test_what_was_said_is_saved_to_the_byte_and_shown_without_loss(portal):
    digest = portal.failed(EVIL)
    answer = portal.get(f"/experiment/{digest}/log/stdout")
    assert answer.content == f"{EVIL}\n\0\xff\x1b[31m".encode("latin-1")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert "attachment" in answer.headers["Content-Disposition"]
    assert b"not kept" in portal.get(f"/experiment/{digest}/log/stderr").content
    page = portal.page(f"/experiment/{digest}")
    # Colours of a terminal are left out; the download has them.
    assert r"\x00\xff" in page
    assert "[31m" not in page
    assert "bytes are not shown" in page


def test_memory_in_the_provenance_has_a_unit():
    host = {"cores": 2, "memory": 25_300_000_000, "load": None}
    assert dict(_flatten({"host": host})) == {"host cores": "2", "host memory": "25.3 GB"}


def test_a_file_that_was_left_is_served_by_its_number_while_it_is_the_same(tmp_path):
    kept = tmp_path / "kept"
    kept.write_bytes(b"it\0left this")
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    link = tmp_path / "link"
    link.symlink_to(secret)
    other, another = tmp_path / "other", tmp_path / "another"
    other.write_bytes(b"left that")
    another.write_bytes(b"it left it")
    facts = [(kept, kept), (secret, other), (link, secret), (tmp_path / "gone", another)]
    artifacts = tuple(
        Artifact(f"a{n}", len(told.read_bytes()), sha256(told.read_bytes()).hexdigest(), lies)
        for n, (lies, told) in enumerate(facts)
    )
    repository = open_repository(tmp_path / "zenturio.db")
    definition = StudyDefinition((Field("n", "int"),), ())
    (digest,) = enter(repository, "left", definition, [({"n": 1}, {}, {"artifacts": artifacts})])
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        good = portal.get(f"/experiment/{digest}/file/0")
        assert good.content == b"it\0left this"
        assert good.headers["Content-Type"] == "application/octet-stream"
        codes = [portal.get(f"/experiment/{digest}/file/{n}").status_code for n in (1, 2, 3, 4)]
        assert codes == [409, 404, 404, 404]
        kept.write_bytes(b"it\0left that")
        assert portal.get(f"/experiment/{digest}/file/0").status_code == 409


def test_a_page_lists_a_part_of_very_many_files_and_leads_to_the_others(tmp_path):
    (tmp_path / "kept").write_bytes(b"")
    kept = (0, sha256(b"").hexdigest(), tmp_path / "kept")
    artifacts = tuple(Artifact(f"a{n:04}", *kept) for n in range(MOST_ARTIFACTS + 1234))
    repository = open_repository(tmp_path / "zenturio.db")
    definition = StudyDefinition((Field("n", "int"),), ())
    (digest,) = enter(repository, "left", definition, [({"n": 1}, {}, {"artifacts": artifacts})])
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        here = f"/experiment/{digest}"
        first, second = portal.page(here), portal.page(f"{here}?page=2")
        last, beyond = portal.page(f"{here}?page=8"), portal.page(f"{here}?page=999999")
        assert portal.get(f"{here}/file/{10**25}").status_code == 404
    assert first.count("Preview a0") == MOST_ARTIFACTS
    assert "1 to 200 of 1,434" in first
    assert re.search(f'rel="next" href="{here}[?][^"]*page=2#artifacts"', first)
    assert 'rel="prev"' not in first
    assert f'<a href="{here}/file/200" download>a0200</a>' in second
    assert 'rel="prev"' in second
    assert 'rel="next"' in second
    assert last.count("Preview a1") == 34
    assert 'rel="next"' not in last
    assert "1,401 to 1,434 of 1,434" in beyond


PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
LEFT = {
    "a.png": PNG,
    "b.svg": SVG,
    "c.csv": b"n;time\n1;<b>2</b>\n3;4\n",
    "d.txt": b"<script>alert(1)</script>\x1b[31m\n" + b"x" * 30_000,
    "e.bin": b"\0\1",
    "f.png": b"<script>alert(1)</script>",
    "g.txt": b"",
}


def test_what_is_in_a_file_is_shown_by_what_it_is_and_runs_no_script(tmp_path):
    artifacts = []
    for name, content in LEFT.items():
        (tmp_path / name).write_bytes(content)
        told = (name, len(content), sha256(content).hexdigest(), tmp_path / name)
        artifacts.append(Artifact(*told))
    repository = open_repository(tmp_path / "zenturio.db")
    definition = StudyDefinition((Field("n", "int"),), ())
    rows = [({"n": 1}, {}, {"artifacts": tuple(artifacts)})]
    (digest,) = enter(repository, "left", definition, rows)
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as portal:
        here = f"/experiment/{digest}/file"
        shown = [portal.page(f"{here}/{n}/preview") for n in range(len(LEFT))]
        for n, kind in enumerate(("image/png", "image/svg+xml")):
            assert f'src="{here}/{n}/image"' in shown[n]
            answer = portal.get(f"{here}/{n}/image")
            assert answer.content == LEFT["ab"[n] + (".png", ".svg")[n]]
            assert answer.headers["Content-Type"] == kind
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Content-Security-Policy"].endswith("sandbox")
        assert "<td>&lt;b&gt;2&lt;/b&gt;</td>" in shown[2]
        assert shown[2].count("<tr>") == 3
        assert r"&lt;script&gt;alert(1)&lt;/script&gt;\x1b[31m" in shown[3]
        assert "Only the beginning is shown" in shown[3]
        assert len(shown[3]) < 30_000
        assert "neither text nor an image" in shown[4]
        assert "&lt;script&gt;" in shown[5]
        assert "The file is empty" in shown[6]
        for n in range(2, len(LEFT)):
            assert portal.get(f"{here}/{n}/image").status_code == 404
        assert portal.get(f"{here}/7/preview").status_code == 404
        assert portal.page(f"/experiment/{digest}").count("<summary>Preview ") == len(LEFT)
        (tmp_path / "a.png").write_bytes(PNG[::-1])
        assert portal.get(f"{here}/0/preview").status_code == 409


def test_a_long_stream_is_shown_by_its_ends(portal, tmp_path):
    repository = open_repository(tmp_path / "zenturio.db")
    size = 90_000
    log = Log(b"begin\n" + b"a" * 50_000, b"b" * 20_000 + b"\nend", size)
    whole = b"".join(f"line {n}\n".encode() for n in range(5000))
    more = {"stdout": log, "stderr": Log(whole, b"", len(whole))}
    definition = StudyDefinition((Field("n", "int"),), ())
    (digest,) = enter(repository, "long", definition, [({"n": 1}, {}, more)])
    repository.close()
    with served(PortalSettings(str(tmp_path / "zenturio.db"), tmp_path)) as found:
        page = found.page(f"/experiment/{digest}")
        assert "begin" in page
        assert "\nend</pre>" in page
        assert "line 4999" in page
        assert len(page) < 60_000
        kept = found.get(f"/experiment/{digest}/log/stdout").content
        assert b"bytes were not kept" in kept
        assert found.get(f"/experiment/{digest}/log/stderr").content == whole


def test_two_experiments_stand_side_by_side(portal):
    one, other = _digests(portal, "hello")[:2]
    page = portal.page(f"/compare?of={one}&of={other}")
    assert re.search(r'class="differs"><th scope="row">count', page)
    assert re.search(r'<span class="removed">-count=1</span><span class="added">\+count=2', page)
    assert re.search(r'<span class="added">\+letters 10', page)
    assert portal.page(f"/compare?of={one}").count(one) == 1
    assert "3 were chosen; these are the first 2" in portal.page(
        f"/compare?of={one}&of={other}&of={one}"
    )
    across = portal.page(f"/compare?of={one}&of={portal.failed('matmul')}")
    assert "their files cannot be shown" in across
    assert portal.get(f"/compare?of={one}&of=ffffffffff").status_code == 404


def test_two_versions_stand_side_by_side_with_their_verdict(portal, tmp_path, monkeypatch):
    page = portal.page("/compare?study=matmul&study=matmul&metric=wtime")
    assert "unclear (not interleaved)" in page
    assert portal.get("/compare?study=matmul").status_code == 400
    assert portal.get("/compare?study=nothing").status_code == 404
    monkeypatch.chdir(tmp_path)
    (tmp_path / "timed.sh").write_text(TIMED)
    with closing(open_repository(None, create=True)) as repository:
        options = PairedOptions(plan=BlockPlan(8, 8))
        versions = compared_versions(repository, ["timed.sh", "timed.sh"], (), options)
        run_comparison(repository, versions, options, 0.02)
        database = repository.location
    with served(PortalSettings(db=database, folder=tmp_path)) as found:
        page = found.page("/compare?study=timed-compare")
        assert "time: same (within 2%); ratio 1 (1 to 1 at 95%), 8 blocks" in page
        assert "version=timed again (s)" in page


TIMED = """\
#ZEN$ PARAM n = { 3 }
#ZEN$ RUN "echo time {n}"
#ZEN$ METRIC time FROM stdout REGEX "time (\\S+)" UNIT "s"
#ZEN$ OBJECTIVE MINIMIZE time
"""


def test_sql_is_answered(portal):
    query = "SELECT threads, count(*) AS n FROM study_matmul GROUP BY threads ORDER BY threads"
    page = portal.page("/sql", query=query)
    assert "4 rows" in page
    assert html.escape(query) in page
    assert '<td class="number">18</td>' in page
    assert "cut after 500 rows" in portal.page(
        "/sql",
        query="WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT n FROM a",
    )
    assert "study_matmul" in portal.page("/sql")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("DELETE FROM results", 403),
        ("ATTACH 'x.db' AS x", 403),
        ("PRAGMA user_version = 3", 403),
        ("SELECT 1; DROP TABLE studies", 403),
        ("SELECT load_extension('x')", 403),
        ("SELECT writefile('x', 'y')", 400),
        ("CREATE TABLE x (n)", 403),
        ("SELECT nonsense", 400),
        ("SELECT hex(randomblob(100000000))", 403),
        (f"SELECT 1 {'-' * 20_000}", 400),
    ],
)
def test_sql_that_does_more_than_read_is_denied(portal, query, code):
    for path in ("/sql", "/download"):
        answer = portal.get(path, params={"query": query})
        assert answer.status_code == code, answer.text
        assert "diagnostic" in answer.text


def test_sql_that_never_ends_is_stopped(portal, monkeypatch):
    from zenturio.query import QueryLimits
    from zenturio.show.portal.pages import chart as asking

    monkeypatch.setattr(asking, "PAGE_LIMITS", QueryLimits(rows=10, seconds=0.2))
    endless = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM a) SELECT max(n) FROM a"
    assert portal.get("/sql", params={"query": endless}).status_code == 403


def test_two_queries_are_answered_at_a_time_and_pages_wait_for_none(portal, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    from zenturio.show.portal.pages import chart as asking

    over, raw = threading.Event(), asking.raw
    monkeypatch.setattr(asking, "QUEUE_SECONDS", 0.1)
    monkeypatch.setattr(asking, "raw", lambda *words: over.wait() and raw(*words))
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(portal.get, "/sql?query=SELECT+1") for _ in range(5)]
        try:
            until(lambda: sum(each.done() for each in asked) == 3)
            assert portal.get("/").status_code == 200
            assert portal.get("/study?name=matmul").status_code == 200
        finally:
            over.set()
        codes = sorted(each.result().status_code for each in asked)
    assert codes == [200, 200, 429, 429, 429]
