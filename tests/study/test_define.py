"""What the repository is told of a study."""

import pytest

from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator
from zenturio.study.study_definition import define_study

PROGRAM = """\
# ZEN$ PARAM n = { 1, 2 }
# ZEN$ RUN "true {n}"
# ZEN$ METRIC energy EXACT
# ZEN$ METRIC loss
# ZEN$ METRIC atoms := 2 * n
# ZEN$ METRIC part := energy / atoms
# ZEN$ METRIC power := part / wtime
# ZEN$ METRIC gain := power + energy
# ZEN$ METRIC rounded := round(loss) EXACT
# ZEN$ METRIC twice := 2 * rounded
"""


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_declared_exact_or_computed_from_it_alone_is_exact(tmp_path, order):
    lines = PROGRAM.splitlines(keepends=True)
    (tmp_path / "a.py").write_text("".join([*lines[:2], *lines[2:][::order]]))
    application = scan([tmp_path / "a.py"])
    fields = define_study(application, 2, ExperimentGenerator(application).program).metrics
    assert {field.name for field in fields if field.exact} == {
        "energy",
        "atoms",
        "part",
        "rounded",
        "twice",
    }
