"""No test gives up because the machine is busy: those that wait have no patience of their own.

A hang is what the time limit of each test is for (``time_limit.py``).
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WAITS = {"result", "join", "wait", "communicate", "run", "check_output", "get", "post", "request"}
"""Calls that wait for a thread, a process, a future or an answer."""
SHORT_SECONDS = 60.0
PAUSE_SECONDS = 1.0
"""A shorter wait for an event is a pause between two looks."""


def numbers(call):
    """How long a call waits, where that is a number: the only argument, or ``timeout=``."""
    positional = call.args if len(call.args) == 1 and not call.keywords else []
    named = [each.value for each in call.keywords if each.arg == "timeout"]
    for node in (*(positional if call.func.attr in {"result", "join", "wait"} else ()), *named):
        is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
        if is_number and (call.func.attr != "wait" or node.value >= PAUSE_SECONDS):
            yield node.value


def impatient(tree):
    """Lines that wait for a short time, but for those that expect that time to pass."""
    expected = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and "raises" in ast.unparse(block.items[0])
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not is_method or node.func.attr not in WAITS or id(node) in expected:
            continue
        if any(0 < number < SHORT_SECONDS for number in numbers(node)):
            yield node.lineno


@pytest.mark.parametrize(
    ("line", "is_impatient"),
    [
        ("future.result(10)", True), ("process.communicate(timeout=5)", True), ("thread.join(0.5)", True),
        ("requests.get(link, timeout=20)", True), ("future.result()", False), ("future.result(0)", False),
        ("thread.join(240)", False), ("over.wait(0.02)", False), ("over.wait(20)", True), ('", ".join(names)', False),
        ("with pytest.raises(Expired):\n    process.wait(1.5)", False),
    ],
)  # fmt: skip
def test_a_short_patience_is_seen(line, is_impatient):
    assert bool(list(impatient(ast.parse(line)))) == is_impatient


def test_no_test_has_a_patience_of_its_own():
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in impatient(ast.parse(path.read_text()))
    ]
    assert not found, "wait without a number: the time limit of each test finds what hangs"
