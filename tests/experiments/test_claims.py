"""Each study of experiments/ at its small size: what comes out is as its expected.json says."""

import json
import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
STUDIES = sorted(path.parent.name for path in EXPERIMENTS.glob("*/run.sh"))


OTHER_NAMES = {"maxdo", "pipealign", "gee"}
"""Names on the pages that are neither lines nor files."""
VERDICTS = {
    "agrees", "direction only", "does not hold", "cannot be tested here", "not in the paper",
}  # fmt: skip
AT_MOST = {"most_at_once", "rescheduling"}
"""Claims whose number in the paper is a limit."""


@pytest.mark.slow  # from 5 to 30 seconds of a processor each
@pytest.mark.parametrize("study", STUDIES)
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
        assert claim["verdict"] in VERDICTS
        has_reason = claim["verdict"] != "does not hold" or claim["why"]
        assert has_reason, claim["name"]
        assert (claim["verdict"], number_of(claim)) != ("agrees", False), claim["name"]
        names_nothing = claim["paper"] in {"", "none", "not said", "nothing is said"}
        assert not names_nothing or claim["verdict"] == "not in the paper", claim["name"]
    pictures = {path.name for path in folder.iterdir() if path.suffix in {".svg", ".png"}}
    assert all(name in page for name in pictures)


@pytest.mark.parametrize("study", STUDIES)
def test_its_page_ends_with_what_its_paper_has_and_names_lines_that_exist(study):
    folder = EXPERIMENTS / study
    last = (folder / "README.md").read_text().rpartition("\n## ")[2]
    assert last.startswith(
        ("Tables, figures and numbers of the paper", "Where its lines come from")
    )
    claims = json.loads((folder / "expected.json").read_text())["claims"]
    names = [claim["name"] for claim in claims] + [path.name for path in folder.iterdir()]
    for name in re.findall(r"`([a-z0-9_*.-]+)`", last):
        patterns = [fnmatch(known, name) for known in names]
        assert any(patterns) or name in OTHER_NAMES, (study, name)


def number_of(claim):
    """Return whether the paper's number is within the limits here; None if it has none."""
    text = claim["paper"].replace(",", "")
    number = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(?: to ([+-]?\d+(?:\.\d+)?))?", text)
    limits = claim.get("whole", claim.get("small"))
    # An upper limit of the paper, or a share, is kept by what is less.
    if not number or isinstance(limits, bool) or claim["name"] in AT_MOST:
        return None
    low, high = float(number[1]), float(number[2] or number[1])
    return low <= limits[1] and high >= limits[0]


def test_the_overview_counts_the_verdicts():
    text = (EXPERIMENTS / "README.md").read_text()
    told = re.findall(r"^\| \*([^*]+)\* \| .* \| (\d+) \|$", text, re.MULTILINE)
    pages = [json.loads(path.read_text()) for path in EXPERIMENTS.glob("*/expected.json")]
    found = Counter(claim["verdict"] for page in pages for claim in page["claims"])
    assert {verdict: int(number) for verdict, number in told} == found


def test_what_agrees_is_the_number_of_the_paper():
    claim = {"name": "a", "paper": "2 to 3", "whole": [2.5, 4]}
    assert number_of(claim) is True
    assert number_of({**claim, "whole": [3.1, 4]}) is False
    assert number_of({**claim, "paper": "more"}) is None


def test_a_claim_outside_its_limits_is_told(tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    (study / "run.sh").write_text("echo '{\"a\": 3}' > measured.json\n")
    claim = {"name": "a", "says": "a is 2", "paper": "2", "verdict": "agrees", "small": [1, 2.5]}
    (study / "expected.json").write_text(json.dumps({"claims": [claim]}))
    sys.path.insert(0, str(EXPERIMENTS))
    try:
        import claims
    finally:
        sys.path.remove(str(EXPERIMENTS))
    (found,) = claims.run(study, tmp_path / "run", small=True)
    assert found.measured == 3
    assert not found.as_expected
