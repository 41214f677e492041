"""The dialects of settings, and data that can hold no comments."""

from __future__ import annotations

from zenturio.annotate.dialects import dialect as v
from zenturio.annotate.dialects.dialect import Dialect

DIALECTS: tuple[Dialect, ...] = (
    # No comments: their directives stand in NAME.zen beside them.
    Dialect("data", (".json", ".geojson", ".ipynb", ".csv", ".tsv"), form=None),
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
)
