"""Names, last of all, the groups of tests that were skipped because programs are missing.

And the one command that installs these.
"""

from collections import Counter

import pytest

from needs import GROUPS, missing_programs


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    for line in summary(reporter.stats.get("skipped", [])):
        reporter.write_line(line)


def summary(reports):
    """A line for each group, with how many tests and programs it is about."""
    tests, programs = Counter(), {}
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        missing = missing_programs(reason)
        for group in {GROUPS.get(program, "other tests") for program in missing}:
            tests[group] += 1
        for program in missing:
            programs.setdefault(GROUPS.get(program, "other tests"), set()).add(program)
    if not tests:
        return
    yield "skipped, because programs are missing:"
    for group, count in sorted(tests.items()):
        unit = "test" if count == 1 else "tests"
        yield f"  {group}: {count} {unit} ({', '.join(sorted(programs[group]))})"
    yield "install them: make system"
