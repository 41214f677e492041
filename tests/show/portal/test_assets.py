"""The files that pages load: from the package, as they were looked at, and nothing else."""

import gzip
import re

from plotly.offline import get_plotlyjs_version

from zenturio.show.portal.page_templates import STATIC_FOLDER


def test_what_draws_is_of_the_version_that_figures_are_made_for_and_has_its_licence():
    head = gzip.decompress((STATIC_FOLDER / "plotly-strict.min.js.gz").read_bytes())[:400].decode()
    assert f"plotly.js (strict - minified) v{get_plotlyjs_version()}" in head
    assert "MIT" in (STATIC_FOLDER / "plotly.LICENSE").read_text()
    assert "Zero-Clause BSD" in (STATIC_FOLDER / "htmx.LICENSE").read_text()
    assert sum(path.stat().st_size for path in STATIC_FOLDER.iterdir()) < 2_000_000


def test_a_file_is_sent_packed_to_who_takes_it_and_plain_to_who_does_not(portal):
    path = re.search(r'src="(/static/htmx[^"]+)"', portal.page("/"))[1]
    packed = portal.get(path, headers={"Accept-Encoding": "gzip"})
    plain = portal.get(path, headers={"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.content == plain.content
    assert "immutable" in plain.headers["Cache-Control"]
    assert portal.get("/static/htmx.min.js").headers["Cache-Control"] == "no-cache"


def test_scripts_and_styles_ask_nobody_else(portal):
    for path in STATIC_FOLDER.iterdir():
        if path.suffix in (".js", ".css", ".svg"):
            text = path.read_text().replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://|url\(\s*['\"]?//", text), path.name
