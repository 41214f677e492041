"""Test zenturio on each Python that it supports, with its newest and lowest dependencies.

    python .ci/versions.py [VERSION ...] [--lowest] [--tests PATH ...]

Needs Python and pip alone. Interpreters are looked for on the PATH and in pyenv's folder; one that
is not there is named, and is no failure. Each combination has an environment of its own below
build/versions, which is kept: a second call is quick.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / "build" / "versions"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = (
    "tests/space",
    "tests/annotate",
    "tests/expression",
    "tests/experiment",
    "tests/show/test_chart_files.py",
)
TOOLS = (
    "pytest",
    "pytest-cov",
    "pytest-xdist",
    "hypothesis",
    "plotly",
    "pyyaml",
    "ipython",
    "scipy",
)
STUDY = (
    ("zen", "init", "python"),
    ("zen", "run", "first.py"),
    ("zen", "run", "first.py", "--search", "ga", "--again"),
    ("zen", "results", "first", "--sort", "error"),
    ("zen", "plot", "first", "--x", "n", "--y", "error", "-o", "error.svg"),
    ("zen", "schedule", "wien2k", "--on", "identical:2"),
)
"""What a new user does, in an empty folder."""


def interpreter(version: str) -> str | None:
    """Return a Python of this version that starts, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python3"))]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in filter(None, found):
        # A shim of pyenv is on the PATH for interpreters that it does not start.
        done = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return path
    return None


def lowest() -> list[str]:
    """Return the lowest allowed version of each dependency, as constraints for pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["schedule"]]
    pairs = [re.match(r"([\w-]+)>=([\w.]+)", text) for text in named]
    return [f"{pair[1]}=={pair[2]}" for pair in pairs if pair]


def environment(python: str, name: str, constraints: list[str]) -> Path:
    """Return the folder of programs of an environment that has zenturio and the tools of tests."""
    folder = ENVIRONMENTS / name
    programs = folder / "bin"
    if not (programs / "python").exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    listed = folder / "constraints.txt"
    listed.write_text("\n".join(constraints), encoding="utf-8")
    command = [str(programs / "python"), "-m", "pip", "install", "--quiet", "-c", str(listed)]
    # Editable: the tests of the folder test the folder.
    subprocess.run([*command, "-e", f"{ROOT}[schedule]", *TOOLS], check=True)
    return programs


def failures(programs: Path, tests: list[str]) -> list[str]:
    """Run a study as a new user would, then *tests*; return what failed."""
    paths = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    own = {**os.environ, **paths, "ZENTURIO_TRUST": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for words in STUDY:
            done = subprocess.run(
                words, cwd=folder, env=own, capture_output=True, text=True, check=False
            )
            if done.returncode:
                return [f"{' '.join(words)}: {(done.stderr or done.stdout)[-1500:]}"]
    if not tests:
        return []
    command = [str(programs / "python"), "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *tests]
    code = subprocess.run(command, cwd=ROOT, env=own, check=False).returncode
    return [f"pytest ends with {code}"] if code else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--lowest", action="store_true", help="only with the lowest versions")
    parser.add_argument("--newest", action="store_true", help="only with the newest versions")
    parser.add_argument("--tests", nargs="*", default=list(TESTS))
    options = parser.parse_args()
    broken = []
    for version in options.versions:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not on this machine, not tested")
            continue
        for kind in ("newest", "lowest"):
            if getattr(options, {"newest": "lowest", "lowest": "newest"}[kind]):
                continue
            if kind == "lowest" and version != VERSIONS[0]:
                continue  # older versions have no wheels for newer Pythons
            print(f"Python {version}, {kind} versions: {python}", flush=True)
            constraints = lowest() if kind == "lowest" else []
            try:
                programs = environment(python, f"{version}-{kind}", constraints)
            except subprocess.CalledProcessError:
                found = ["cannot be installed"]
            else:
                found = failures(programs, options.tests)
            broken += [f"Python {version}, {kind} versions: {text}" for text in found]
    sys.exit("\n".join(broken) or 0)


if __name__ == "__main__":
    main()
