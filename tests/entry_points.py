"""Entry points of an editable install, refreshed from pyproject.toml.

An editable install keeps the entry points of the day when it was installed: a newly added or moved
plug-in is not found until the next ``uv sync``. The tests write the present ones instead.
"""

import json
import os
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent


def refresh_entry_points() -> bool:
    """Write pyproject's entry points into this checkout's editable install; True if they changed."""
    try:
        installed = distribution("zenturio")
    except PackageNotFoundError:
        return False
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if origin.get("url") != ROOT.as_uri() or not origin.get("dir_info", {}).get("editable"):
        return False
    text = entry_points_text(ROOT / "pyproject.toml")
    if installed.read_text("entry_points.txt") == text:
        return False
    path = Path(str(installed.locate_file(f"zenturio-{installed.version}.dist-info")))
    # A new file, not the old one with other content: uv links it to the one in its cache.
    descriptor, name = tempfile.mkstemp(dir=path)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(descriptor, 0o644)  # tests run the program as other users, too
    Path(name).replace(path / "entry_points.txt")
    return True


def entry_points_text(pyproject: Path, without: str = "zenturio.nothing") -> str:
    """Return the entry points of *pyproject* as installers write them, but those into *without*."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = []
    for group, points in sorted(groups.items()):
        lines.append(f"[{group}]")
        lines += [
            f"{name} = {value}"
            for name, value in sorted(points.items())
            if not value.startswith((f"{without}:", f"{without}."))
        ]
        lines.append("")
    return "\n".join(lines)
