"""Each wrong input is answered with all that is wrong, where, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from annotated_cases import Case, check, read_cases, titles
from zenturio.annotate.scan import scan
from zenturio.errors import InputError

WRONG = Path(__file__).parent / "wrong.txt"


def answer(case: Case) -> str:
    try:
        scan(case.paths, overrides=case.overrides)
    except InputError as error:
        return str(error)
    return "nothing is wrong"


@pytest.mark.parametrize("title", titles(WRONG))
def test_a_wrong_input_is_answered_to_the_letter(title, tmp_path):
    check(WRONG, title, answer, tmp_path)


def test_there_are_many_wrong_inputs_and_each_has_its_own_title():
    cases = read_cases(WRONG)
    assert len({case.title for case in cases}) == len(cases) >= 40


def test_every_answer_says_what_would_be_right():
    for case in read_cases(WRONG):
        assert case.printed != "nothing is wrong", case.title
        for line, following in zip(
            case.printed.splitlines(), case.printed.splitlines()[1:], strict=False
        ):
            if "^" in line and not line.strip("^ \t"):
                assert following.startswith("  "), f"{case.title}: no hint behind {line!r}"
