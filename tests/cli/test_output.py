"""How facts and tables are printed."""

import json

from zenturio.cli import output


def test_what_json_has_no_number_for_is_text_that_other_languages_read(capsys):
    output.facts({"nan": float("nan"), "infinite": [float("inf"), -float("inf")], "real": 1.5})
    told = json.loads(capsys.readouterr().out)
    assert told == {"nan": "NaN", "infinite": ["Infinity", "-Infinity"], "real": 1.5}


def test_a_sign_that_would_break_a_line_is_escaped_and_its_neighbours_are_not(capsys):
    output.table(("a",), [("ü\u2028\n\x1b[1m",)])
    assert capsys.readouterr().out == "a\nü\\u2028\\n\\x1b[1m\n"
