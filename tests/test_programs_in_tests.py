"""Programs that tests start are texts, which no tool renames anything in: what they import is there."""

import importlib
import re
from pathlib import Path

FOLDER = Path(__file__).parent
IMPORT = re.compile(r"\bfrom (zenturio[\w.]*) import (\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)")


def test_what_programs_in_tests_import_of_the_package_is_there():
    missing = [
        f"{path.relative_to(FOLDER)}: from {module} import {name}"
        for path in sorted(FOLDER.rglob("*.py"))
        for module, names in set(IMPORT.findall(path.read_text(encoding="utf-8")))
        for name in re.findall(r"(\w+)(?: as \w+)?", names)
        if not _is_there(module, name)
    ]
    assert missing == []


def _is_there(module: str, name: str) -> bool:
    try:
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True
