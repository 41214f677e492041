"""What only one operating system has is named in one package."""

import re
from pathlib import Path

import zenturio

WORDS = ("/proc", "prctl", "flock", "fcntl", "affinity", "sysctl", "/sys/", "SO_PEERCRED", "O_PATH")
ROOT = Path(zenturio.__file__).parent
ONE_SYSTEM = re.compile(
    r"""(?<![\w}])/proc\b | \bprctl\b | \bflock\b | \bfcntl\b | \bsched_[gs]etaffinity\b | \bsysctl\w*\(
    | ["']/sys/ | \bSO_PEERCRED\b(?!``) | \bO_PATH\b""",
    re.VERBOSE,
)


def test_nothing_else_names_what_one_operating_system_has():
    named = {
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in ROOT.rglob("*.py")
        if path.parent != ROOT / "system"
        for text in [path.read_text()]
        if any(word in text for word in WORDS)  # quicker than the expression
        for number, line in enumerate(text.splitlines(), 1)
        if ONE_SYSTEM.search(line)
    }
    assert named == set()
