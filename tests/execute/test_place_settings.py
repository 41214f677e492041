"""docs/place-settings.md has what can be set of each place; ZEN_UPDATE_GOLDENS=1 writes it anew."""

import os
from pathlib import Path

from zenturio import plugins
from zenturio.execute.places import INLINE
from zenturio.settings.schema import NoSettings, described

PAGE = Path(__file__).parents[2] / "docs" / "place-settings.md"
HEAD = """# Settings of places

The settings of a table `[places.NAME]` of `zenturio.toml`, by its `kind`. `zen places show NAME` lists the same settings, with their values in
the table. Every kind also has the setting `jobs`: how many experiments may run at once. [Places](places.md) explains what places are for. [Hosts](hosts.md)
describes the machines and options of a hosts file.
"""


def page():
    parts = [HEAD]
    for kind in plugins.names("places"):
        if kind == INLINE:  # runs functions in this process; not for tables
            continue
        settings = described(getattr(plugins.load("places", kind), "Options", NoSettings))
        rows = [f"| `{s.name}` | {shown(s)} | {s.help} |" for s in settings]
        table = "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])
        parts.append(f"## {kind}\n\n{table if rows else 'Only `jobs`.'}\n")
    return "\n".join(parts)


def shown(setting):
    default = setting.default
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(f"`{part}`" for part in default)
    if isinstance(default, int | float):
        return f"{default}".removesuffix(".0")
    return f"`{default}`" if default not in ("", None) else ""


def test_the_page_has_all_settings_of_all_places():
    if os.environ.get("ZEN_UPDATE_GOLDENS"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
