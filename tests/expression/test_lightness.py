"""What is imported when: reading an expression loads neither NumPy nor RE2."""

import subprocess
import sys


def loaded_by(program):
    script = f"import sys\n{program}\nprint(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(found.stdout.split())


def test_reading_checking_and_evaluating_a_point_loads_no_numpy():
    program = (
        "from zenturio.expression import parse\n"
        "e = parse('n * 2 <= 2048 and ispow2(n)')\n"
        "e.check({'n': 'int'})\n"
        "e.value({'n': 4})"
    )
    assert not {"numpy", "pandas", "re2"} & loaded_by(program)


def test_a_pattern_loads_re2_and_a_column_loads_numpy():
    program = "from zenturio.expression import parse\nparse('match(s, \"a\")')"
    assert "re2" in loaded_by(program)
    program = "from zenturio.expression import parse\nparse('1 + 1').column({}, 2)"
    assert "numpy" in loaded_by(program)
