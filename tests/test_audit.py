"""`make audit` calls the dependencies clean only where all of them could be looked up."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / ".ci" / "audit.py"
CLEAN = {"name": "a", "version": "1", "vulns": []}
FAULTY = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "not found on PyPI"}


@pytest.fixture
def audit():
    spec = importlib.util.spec_from_file_location("audit", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("dependencies", "code", "line"),
    [
        ([CLEAN], 0, "1 of 1 dependencies looked up: 0 known faults"),
        ([CLEAN, FAULTY], 1, "b 2: CVE-1, fixed in 3"),
        ([CLEAN, SKIPPED], 4, "such as c: not found on PyPI"),
        ([FAULTY, SKIPPED], 1, "b 2: CVE-1, fixed in 3"),
        ([], 4, "0 of 0 dependencies looked up: 0 known faults"),
    ],
)
def test_the_exit_code_says_whether_all_were_looked_up(audit, dependencies, code, line):
    found, lines = audit.report(dependencies)
    assert found == code
    assert line in lines
    assert any("not whole" in each for each in lines) == (
        SKIPPED in dependencies or not dependencies
    )


def test_what_is_no_report_of_pip_audit_is_no_audit(audit, tmp_path, capsys):
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    uv.chmod(0o755)
    assert audit.main(str(uv), "locked.txt") == 4
    assert "no network" in capsys.readouterr().err
