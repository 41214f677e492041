"""The pages of promises name tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["guarantees.md", "security.md"])
def test_each_promise_names_tests_that_exist(page):
    rows = [
        line.split("|")
        for line in (ROOT / "docs" / page).read_text().splitlines()
        if line.startswith("| ")
    ]
    for _, promise, tests, _ in rows:
        if promise.strip() not in {"promise", "they cannot", "it cannot"}:
            names = re.findall(r"`([\w/]+\.py)`", tests)
            assert names, promise
            for name in names:
                assert (ROOT / "tests" / name).is_file(), name
                text = (ROOT / "tests" / name).read_text()
                is_slow = re.search(r"^pytestmark = .*slow", text, re.MULTILINE)
                assert not is_slow or f"`{name}` (slow)" in tests, f"{name} runs in test-all alone"


def test_each_fault_names_tests_that_exist():
    text = (ROOT / "docs" / "faults.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[1].strip() not in {"what happens", "what the file contains"}]
    assert len(rows) > 70
    files = {path.name for path in (ROOT / "tests").rglob("*.py")}
    folders = {"tests/execute"}
    for _, fault, _, shown, _ in rows:
        names = re.findall(r"`([\w/]+\.py)`", shown)
        assert names or folders & set(re.findall(r"`([\w/]+)`", shown)), fault
        for name in names:
            path = ROOT / "tests" / name.removeprefix("tests/")
            assert path.is_file() or name in files, f"{fault}: {name}"
