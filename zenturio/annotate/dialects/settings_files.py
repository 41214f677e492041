"""The dialects of settings, markup, and inputs of simulation codes."""

from __future__ import annotations

from zenturio.annotate.dialects import dialect as v
from zenturio.annotate.dialects.dialect import Dialect

_NOT_ESCAPED = r"(?<!\\)"

DIALECTS: tuple[Dialect, ...] = (
    # No comments: their directives stand in NAME.zen beside them.
    Dialect("data", (".json", ".geojson", ".ipynb", ".csv", ".tsv"), form=None),
    # Settings
    Dialect(
        "yaml",
        (".yaml", ".yml", ".cff"),
        line=("#",),
        guard=r"(?<!\S)",
        verbatim=(v.YAML_BLOCK, v.YAML_SINGLE, v.YAML_DOUBLE),
        form="{target}: {text}",
    ),
    Dialect(
        "toml",
        (".toml",),
        names=("Cargo.lock", "Pipfile", "poetry.lock"),
        line=("#",),
        verbatim=(v.TRIPLE, v.DOUBLE, v.PLAIN_SINGLE),
    ),
    Dialect(
        "ini",
        (".ini", ".properties", ".desktop", ".service", ".editorconfig"),
        names=(".gitconfig", ".editorconfig", ".npmrc"),
        line=("#", ";", "!"),
    ),
    Dialect(
        "settings",
        (".cfg", ".conf", ".config", ".cnf", ".par", ".params", ".prm"),
        line=("#", ";", "//", "!", "%"),
    ),
    Dialect(
        "list",
        (".gitignore", ".dockerignore"),
        names=(
            "requirements*.txt",
            ".gitignore",
            ".gitattributes",
            ".dockerignore",
            "crontab",
            "hosts",
            "hostfile",
            "machinefile",
        ),
        line=("#",),
    ),
    Dialect(
        "jinja",
        (".j2", ".jinja", ".jinja2"),
        block=(("{#", "#}"),),
        form="{% set {target} = {text} %}",
    ),
    # Markup
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
    # Simulation codes
    Dialect(
        "lammps",
        (".lmp", ".lammps"),
        names=("in.*",),
        line=("#",),
        verbatim=(v.RAW_TRIPLE, v.PLAIN_DOUBLE, v.PLAIN_SINGLE),
        form="variable {target} equal {text}",
    ),
    Dialect("gromacs", (".mdp", ".top", ".itp"), line=(";",)),
    Dialect("gaussian", (".gjf", ".com", ".gau"), line=("!",), form="%{target}={text}"),
    Dialect("vasp", names=("INCAR", "INCAR.*"), line=("#", "!")),
    Dialect(
        "quantum espresso",
        (".pwi", ".phi", ".cpi"),
        line=("!", "#"),
        verbatim=(v.PLAIN_DOUBLE, v.PLAIN_SINGLE),
    ),
    Dialect("nwchem", (".nw",), line=("#",), form="set {target} {text}"),
    Dialect("nastran", (".bdf", ".nas"), line=("$",)),
    # Decks of Abaqus and CalculiX end in .inp, as those of other programs do.
    Dialect("abaqus", line=("**",), form=None),
    Dialect("geant4", (".mac",), line=("#",), form="/control/alias {target} {text}"),
)
