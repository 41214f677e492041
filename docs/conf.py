"""The site: `make docs` builds the pages of this folder with Sphinx."""

import os
import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

_PROJECT = tomllib.loads(Path("../pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "zenturio"
version = release = _PROJECT["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["examples"]
html_theme = "furo"
html_title = f"zenturio {version}"
html_copy_source = False
# Links to headings are those that a reader of the repository follows, too.
myst_heading_anchors = 4
# `~/.pgpass` or a name of a view is no link.
myst_linkify_fuzzy_links = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
suppress_warnings = [
    "misc.highlighting_failure",  # zen and shell sessions with output
]
highlight_language = "none"
# Modules ask at import where databases are: not for a site.
os.environ.pop("ZENTURIO_DB", None)


def name_files_of_the_repository(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Show links out of this folder as the names of files: the site has the pages alone."""
    outside = re.compile(r"\[([^]]+)\]\((?:\.\./|(?=examples/))([^)#\s]+)(?:#[^)\s]*)?\)")
    source[0] = outside.sub(r"\1 (`\2`)", source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", name_files_of_the_repository)
