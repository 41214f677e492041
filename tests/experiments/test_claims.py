"""Each study of experiments/ at its small size: what comes out is as its expected.json says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
STUDIES = sorted(path.parent.name for path in EXPERIMENTS.glob("*/run.sh"))


BRIEF = ("online-workflows",)
"""The others take from 10 to 30 seconds of a processor each."""


@pytest.mark.parametrize(
    "study", [pytest.param(s, marks=[] if s in BRIEF else [pytest.mark.slow]) for s in STUDIES]
)
def test_a_study_finds_what_it_expects(study, tmp_path):
    command = [sys.executable, EXPERIMENTS / "claims.py", study, "--small", "--keep", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("study", STUDIES)
def test_its_page_tells_of_every_claim_and_shows_its_pictures(study):
    folder = EXPERIMENTS / study
    page = (folder / "README.md").read_text()
    for claim in json.loads((folder / "expected.json").read_text())["claims"]:
        assert claim["says"] in page
        assert claim["holds"] or claim["why"], claim["name"]
    pictures = {path.name for path in folder.iterdir() if path.suffix in {".svg", ".png"}}
    assert all(name in page for name in pictures)


def test_a_claim_outside_its_limits_is_told(tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    (study / "run.sh").write_text("echo '{\"a\": 3}' > measured.json\n")
    claim = {"name": "a", "says": "a is 2", "paper": "2", "holds": True, "small": [1, 2.5]}
    (study / "expected.json").write_text(json.dumps({"claims": [claim]}))
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        import claims
    finally:
        sys.path.remove(str(EXPERIMENTS))
    (found,) = claims.run(study, tmp_path / "run", small=True)
    assert found.measured == 3
    assert not found.as_expected
