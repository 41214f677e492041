"""What makes an experiment the same, and what makes it another one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.experiment import ExperimentFile, Step
from zenturio.experiment.identity import content_digest, experiment_digest

FILES = (ExperimentFile("a.c", 0o644, b"int a;"), ExperimentFile("run.sh", 0o755, b"./a"))
STEPS = (Step("make"), Step("./run.sh 3"))
ENVIRONMENT = {"THREADS": "4", "MODE": "fast"}


def named(files=FILES, steps=STEPS, environment=ENVIRONMENT, repeat=1):
    return experiment_digest(files, steps, environment, repeat)


def test_a_digest_has_32_hexadecimal_digits_and_stays():
    assert named() == "0959a7ae4e915562df17127e01ed2e62"


@pytest.mark.parametrize(
    "other",
    [
        {"files": FILES[:1]},
        {"files": (replace(FILES[0], content=b"int b;"), FILES[1])},
        {"files": (replace(FILES[0], path="b.c"), FILES[1])},
        {"files": (replace(FILES[0], mode=0o755), FILES[1])},
        {"steps": STEPS[:1]},
        {"steps": STEPS[::-1]},
        {"steps": (Step("make ./run.sh 3"),)},
        {"environment": {**ENVIRONMENT, "MODE": "slow"}},
        {"environment": {"THREADS": "4"}},
        {"environment": {"THREADS": "4", "MODEfast": ""}},
        {"repeat": 2},
    ],
)
def test_what_changes_the_run_changes_the_digest(other):
    assert named(**other) != named()


@pytest.mark.parametrize(
    "same",
    [
        {"files": FILES[::-1]},
        {"files": (replace(FILES[0], mode=0o600), FILES[1])},
        {"environment": dict(reversed(ENVIRONMENT.items()))},
        {"steps": (Step("make", 3.0, 2, 8, 1000), STEPS[1])},
    ],
)
def test_order_limits_and_who_may_read_do_not_change_it(same):
    assert named(**same) == named()


def test_an_original_counts_as_its_content(tmp_path):
    original = ExperimentFile("a.c", 0o644, None, tmp_path, content_digest(b"int a;").hex())
    assert named(files=(original, FILES[1])) == named()


texts = st.text(alphabet="ab:1\0", max_size=4)
filed = st.builds(ExperimentFile, texts, st.sampled_from([0o644, 0o755]), st.binary(max_size=3))
whole = st.tuples(
    st.lists(filed, max_size=3, unique_by=lambda f: f.path),
    st.lists(st.builds(Step, texts), max_size=3),
    st.dictionaries(texts, texts, max_size=3),
    st.integers(1, 12),
)


@given(whole, whole)
def test_no_two_experiments_can_be_read_from_the_same_bytes(one, other):
    def canonical(each):
        files, steps, environment, repeat = each
        return sorted((f.path, f.mode, f.content) for f in files), steps, environment, repeat

    assert (experiment_digest(*one) == experiment_digest(*other)) == (
        canonical(one) == canonical(other)
    )
