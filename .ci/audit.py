"""Look for known faults of what is locked: python .ci/audit.py UV LOCKED_REQUIREMENTS.

Ends with 0 if nothing is known of any dependency, 1 if something is, and 4 if one could not be
looked up: pip-audit passes over these, and calls the rest clean.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def report(dependencies: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Return the exit code and the lines that say what was found."""
    unknown = [each for each in dependencies if "skip_reason" in each]
    lines = [
        f"{each['name']} {each['version']}: {fault['id']}, fixed in"
        f" {', '.join(fault['fix_versions']) or 'no version yet'}"
        for each in dependencies
        for fault in each.get("vulns", ())
    ]
    faults = len(lines)
    known = len(dependencies) - len(unknown)
    lines.append(f"{known} of {len(dependencies)} dependencies looked up: {faults} known faults")
    if unknown or not dependencies:
        if unknown:
            lines.append(f"such as {unknown[0]['name']}: {unknown[0]['skip_reason']}")
        lines.append("the audit is not whole: PyPI's data could not be had; repeat it where"
                     " https://pypi.org/pypi/NAME/VERSION/json can be reached")  # fmt: skip
    return 1 if faults else 4 if unknown or not dependencies else 0, lines


def main(uv: str, requirements: str) -> int:
    command = [uv, "tool", "run", "pip-audit", "-r", requirements, "--disable-pip",
               "--require-hashes", "--format", "json", "--progress-spinner", "off"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        dependencies = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        sys.stderr.write(f"{done.stderr[-2000:]}\nthe audit was not made: pip-audit ended with"
                         f" exit code {done.returncode}\n")  # fmt: skip
        return 4
    code, lines = report(dependencies)
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
