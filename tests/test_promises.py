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
