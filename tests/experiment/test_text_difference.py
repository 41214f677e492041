"""Text files are the same if their words are, and their numbers are near each other."""

import pytest

from zenturio.study.driver.baselines import first_difference


def difference(tmp_path, text, expected, within=0.0):
    paths = tmp_path / "a", tmp_path / "b"
    for path, content in zip(paths, (text, expected), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return first_difference(*paths, within)


@pytest.mark.parametrize(
    ("text", "expected", "within"),
    [
        ("a 1.50\n", "a  1.5\r\n", 0),
        ("1.5D+00 1e3", "1.5 1000.0", 0),
        ("x=1.0000001;", "x=1;", 1e-6),
        ("1000000.1", "1000000", 1e-6),
        ("1e-12 0", "0 -1e-12", 1e-9),
        ("nan -inf", "NaN -Infinity", 0),
        ("+3", "3", 0),
        (b"\xff 1.0", b"\xff 1", 0),
        ("", "", 0),
    ],
)
def test_what_is_the_same(tmp_path, text, expected, within):
    assert difference(tmp_path, text, expected, within) is None


@pytest.mark.parametrize(
    ("text", "expected", "within", "answer"),
    [
        ("a\nb 1.75 c", "a\nb 1.5 c", 1e-6, "line 2, column 3: 1.75 instead of 1.5, 0.25 off"),
        ("1.1", "1.0", 0.05, "line 1, column 1: 1.1 instead of 1.0, 0.1 off"),
        ("cg 1", "lu 1", 1, "line 1, column 1: cg instead of lu"),
        ("1 2", "1 2 3", 0, "line 1, column 5: the end instead of 3"),
        ("1\n2\n", "1\n", 0, "line 2, column 1: 2 instead of the end"),
        ("inf", "1", 0.5, "line 1, column 1: inf instead of 1, inf off"),
        ("nan", "1", 0.5, "line 1, column 1: nan instead of 1, nan off"),
        ("v1.2.3", "v1.2.4", 0.5, "line 1, column 6: 3 instead of 4"),
        ("x1", "x2", 9, "line 1, column 1: x1 instead of x2"),
        (b"\xff", b"\xfe", 0, "line 1, column 2: xff instead of xfe"),
    ],
)
def test_the_first_difference_has_a_place_and_a_size(tmp_path, text, expected, within, answer):
    assert str(difference(tmp_path, text, expected, within)) == answer
