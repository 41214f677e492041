"""Runs a study of this folder and holds what came out against what its paper claims.

    python experiments/claims.py STUDY... [--small] [--write] [--keep FOLDER]

A study is a folder with ``run.sh``, which uses the tool as anybody would and leaves
``measured.json``: a number, or true or false, for each claim. ``expected.json`` says of each claim
what the paper says, what is expected here for the whole and for the small size, its verdict, and
why they differ. --small runs with SIZE=small. --write puts the table into the study's README.md and
the pictures that it names beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VERDICTS = (
    "agrees",  # a number of the paper within the limits that are expected here; or a plain yes
    "direction only",  # the paper has no number, or another one, but the same sign
    "does not hold",
    "cannot be tested here",
    "not in the paper",  # never counted as agreement
)
BEGIN, END = "<!-- claims -->", "<!-- end of claims -->"


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and what is found here."""

    name: str
    says: str
    paper: str
    verdict: str
    """One of VERDICTS: said by hand, with the reason beside it."""
    why: str
    measured: Any
    low: Any
    high: Any

    @property
    def as_expected(self) -> bool:
        if isinstance(self.low, bool):
            return self.measured is self.low
        number = isinstance(self.measured, int | float) and not isinstance(self.measured, bool)
        return number and self.low <= self.measured <= self.high


def run(study: Path, folder: Path, *, small: bool) -> list[Claim]:
    """Run *study* in a copy of it at *folder*; its claims with what was measured."""
    shutil.copytree(study, folder, dirs_exist_ok=True)
    size = "small" if small else "whole"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "SIZE": size, "PATH": path}
    environment.pop("ZENTURIO_DB", None)
    done = subprocess.run(["sh", "run.sh"], cwd=folder, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{study.name}: run.sh ended with {done.returncode}")
    measured = json.loads((folder / "measured.json").read_text())
    expected = json.loads((study / "expected.json").read_text())
    return [_claim(each, measured, size) for each in expected["claims"] if size in each]


def _claim(each: dict[str, Any], measured: dict[str, Any], size: str) -> Claim:
    low, high = each[size] if isinstance(each[size], list) else (each[size], each[size])
    return Claim(
        each["name"], each["says"], each["paper"], each["verdict"], each.get("why", ""),
        measured.get(each["name"]), low, high,
    )  # fmt: skip


def table(claims: list[Claim]) -> str:
    lines = ["| claim | paper | here | expected here | verdict |", "|---|---|---|---|---|"]
    for each in claims:
        reason = f": {each.why}" if each.why else ""
        lines.append(
            f"| {each.says} | {each.paper} | {_shown(each.measured)} | {_limits(each)} "
            f"| *{each.verdict}*{reason} |"
        )
    return "\n".join(lines)


def _limits(claim: Claim) -> str:
    if isinstance(claim.low, bool):
        return _shown(claim.low)
    if claim.low == claim.high:
        return f"{claim.low:,g}"
    return f"{claim.low:,g} to {claim.high:,g}"


def _shown(value: Any) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"


def write(study: Path, folder: Path, claims: list[Claim]) -> None:
    """The table into the README, the pictures that it names beside it."""
    readme = study / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{table(claims)}\n{END}{after}")
    for picture in sorted({*folder.glob("*.svg"), *folder.glob("*.png")}):
        if picture.name in text:
            shutil.copy(picture, study / picture.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = sorted(path.parent.name for path in HERE.glob("*/run.sh"))
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(known)}")
    parser.add_argument("--small", action="store_true", help="the size that the tests check")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--keep", type=Path, help="a folder for what the studies write")
    options = parser.parse_args()
    wrong = []
    for name in options.studies or known:
        study = HERE / Path(name).name
        if not (study / "run.sh").exists():
            parser.error(f"no study {name!r}: there is {', '.join(known)}")
        with tempfile.TemporaryDirectory() as scratch:
            folder = options.keep / study.name if options.keep else Path(scratch) / study.name
            claims = run(study, folder, small=options.small)
            print(f"\n{study.name}\n\n{table(claims)}\n")
            if options.write:
                write(study, folder, claims)
        wrong += [f"{study.name}: {c.name} is {c.measured}, not {c.low} to {c.high}"
                  for c in claims if not c.as_expected]  # fmt: skip
    if wrong:
        raise SystemExit("\n".join(["not as expected:", *wrong]))


if __name__ == "__main__":
    main()
