"""The dialects of markup."""

from __future__ import annotations

from zenturio.annotate.dialects import dialect as v
from zenturio.annotate.dialects.dialect import Dialect

_NOT_ESCAPED = r"(?<!\\)"

DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "xml",
        (
            ".xml",
            ".xsd",
            ".xsl",
            ".xslt",
            ".svg",
            ".vtu",
            ".xdmf",
            ".sdf",
            ".urdf",
            ".launch",
            ".csproj",
            ".vcxproj",
            ".plist",
            ".kml",
            ".gpx",
            ".xhtml",
        ),
        block=(("<!--", "-->"),),
        verbatim=(v.CDATA,),
        form=None,
        fragile=("--",),
    ),
    Dialect(
        "html",
        (".html", ".htm", ".vue", ".svelte"),
        block=(("<!--", "-->"),),
        form=None,
        fragile=("--",),
        prose=True,
    ),
    Dialect(
        "markdown",
        (".md", ".markdown", ".mdx", ".qmd", ".rmd"),
        block=(("<!--", "-->"),),
        verbatim=(v.FENCE,),
        form=None,
        fragile=("--",),
        prose=True,
    ),
    Dialect("rst", (".rst",), line=("..",), form=None, prose=True),
    Dialect(
        "tex",
        (".tex", ".sty", ".cls", ".ltx", ".dtx", ".bib", ".tikz"),
        line=("%", "%%"),
        guard=_NOT_ESCAPED,
        verbatim=(v.TEX_VERBATIM,),
        form=r"\def{target}{{text}}",
        sigil="\\",
        prose=True,
    ),
)
