"""What a file looks like by its beginning."""

from contextlib import chdir
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from show.portal.running_portal import served
from zenturio.annotate.scan import scan
from zenturio.record.open import FOLDER
from zenturio.show.portal.pages.experiment import (
    COLUMNS,
    PREVIEW_BYTES,
    ROWS,
    image_type,
    preview_of,
)
from zenturio.show.portal.state import PortalSettings
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.local_run import run_locally


def test_a_text_that_is_cut_within_a_sign_is_a_text():
    text = ("ä" * PREVIEW_BYTES).encode()
    found = preview_of("a.txt", text[: PREVIEW_BYTES - 1], len(text))
    assert (found.kind, found.more) == ("text", True)
    assert set(found.text) == {"ä"}


def test_a_table_is_cut_to_what_a_page_holds_and_says_so():
    lines = "\n".join(",".join(map(str, range(COLUMNS + 5))) for _ in range(ROWS + 5))
    found = preview_of("a.csv", lines.encode(), len(lines))
    assert (found.kind, found.more) == ("table", True)
    assert (len(found.rows), {len(row) for row in found.rows}) == (ROWS + 1, {COLUMNS})
    assert not preview_of("a.csv", b"a,b\n1,2", 7).more
    assert preview_of("a.csv", b"a,b\n1,2\n3", 900).rows == [["a", "b"], ["1", "2"]]


def test_only_what_begins_as_a_picture_is_one():
    assert image_type("a.svg", b"<!-- x --><!DOCTYPE svg>\n<svg>") == "image/svg+xml"
    assert not image_type("a.svg", b"<html><svg>")
    assert not image_type("a.txt", b"<svg>")
    assert image_type("a.txt", b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert image_type("a.svg", b"<?xml version='1.0'?>\n<svg\nx='1'>") == "image/svg+xml"
    assert not image_type("a.svg", b"<!-- <svg> ")
    assert not image_type("a.svg", b"<!DOCTYPE svg [<!ENTITY a 'a'>]><svg>")
    assert not image_type("a.svg", b"<svgx>")
    assert image_type("a.webp", b"RIFF\n\n\n\nWEBP") == "image/webp"


@given(
    st.sampled_from(["a.csv", "a.tsv", "a.svg", "a"]), st.binary(max_size=200), st.integers(0, 3)
)
def test_every_file_has_a_look(path, content, more):
    found = preview_of(path, content, len(content) + more)
    assert found.kind in ("image", "table", "text", "bytes", "empty")


def test_a_file_that_never_becomes_a_picture_is_looked_at_once():
    """With a pattern that goes back this takes longer than the machine will last."""
    for piece in (b"<!---->", b"<!-- -->", b"<!DOCTYPE svg>", b" "):
        content = (piece * PREVIEW_BYTES)[:PREVIEW_BYTES]
        assert preview_of("a.svg", content, len(content)).kind == "text"


def test_a_small_file_of_an_experiment_does_not_stop_the_portal(tmp_path):
    """238 bytes, and everybody waited for ever: pages, studies, even Ctrl-C."""
    (tmp_path / "left.sh").write_text(
        '#!/bin/sh\n#ZEN$ PARAM n = {1}\n#ZEN$ RUN "sh left.sh {n}"\n#ZEN$ OUTPUT "a.svg"\n'
        "for i in $(seq 34); do printf '<!---->'; done > a.svg\n"
    )
    with chdir(tmp_path):
        application = scan([Path("left.sh")])
        run_locally(application, select_points(application.space))
    settings = PortalSettings(str(tmp_path / FOLDER / "zenturio.db"), tmp_path)
    with served(settings) as portal:
        digest = next(portal.service.portal.repository.records("left")).digest
        assert "&lt;!----&gt;" in portal.page(f"/experiment/{digest}/file/0/preview")
        assert portal.get(f"/experiment/{digest}/file/0/image").status_code == 404
