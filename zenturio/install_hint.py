"""Commands that install what is missing, for error messages.

``pip install 'zenturio[images]'`` works only where zenturio came from a package index. What was
installed from a folder, an archive or a repository records where that is, and an extra is
installed from there.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

PACKAGE = "zenturio"


def extra_hint(extra: str) -> str:
    """Return the command that adds *extra* to this installation."""
    try:
        record = distribution(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    return package_hint(*_requirement(extra, json.loads(record) if record else {}))


def package_hint(*words: str) -> str:
    """Return the command that installs *words*, the arguments of pip, for this Python."""
    quoted = (f"'{word}'" if word.endswith("]") and "'" not in word else shlex.quote(word)
              for word in words)  # fmt: skip
    return f"{_installer()} {' '.join(quoted)}"


def _requirement(extra: str, source: dict[str, object]) -> tuple[str, ...]:
    """Return the arguments of pip for *extra*, by the record of PEP 610 where it came from."""
    url, vcs, folder = source.get("url"), source.get("vcs_info"), source.get("dir_info")
    if not isinstance(url, str):
        return (f"{PACKAGE}[{extra}]",)
    if isinstance(folder, dict):
        path = Path(unquote(urlsplit(url).path))
        if not (path / "pyproject.toml").is_file():
            return (f"{PACKAGE}[{extra}]",)
        named = f".[{extra}]" if path == Path.cwd() else f"{path}[{extra}]"
        return ("-e", named) if folder.get("editable") else (named,)
    if isinstance(vcs, dict):
        commit = vcs.get("commit_id")
        return (f"{PACKAGE}[{extra}] @ {vcs.get('vcs')}+{url}{f'@{commit}' if commit else ''}",)
    return (f"{PACKAGE}[{extra}] @ {url}",)


def _installer() -> str:
    """Return how packages are installed for this Python, as short as is unambiguous."""
    bin_folder = Path(sys.executable).parent
    if find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(sys.executable)}"
    first = next(
        (folder for folder in os.get_exec_path() if os.access(Path(folder, "pip"), os.X_OK)), ""
    )
    if first and Path(first) == bin_folder:
        return "pip install"
    return f"{shlex.quote(sys.executable)} -m pip install"
