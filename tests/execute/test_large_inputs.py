"""Inputs that are too large to be copied, beside a BUILD."""

from dataclasses import replace

import pytest

from zenturio.execute.folder_files import COPY_LIMIT_BYTES
from zenturio.execute.local import Local
from zenturio.experiment import Build, ExperimentFile, Step
from zenturio.experiment.identity import content_digest
from zenturio.testing.executor import experiment, outcome


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.bin"
    path.write_bytes(b"a" * (COPY_LIMIT_BYTES + 1))
    digest = content_digest(path.read_bytes()).hex()
    return ExperimentFile("large.bin", 0o644, None, path, digest, size=COPY_LIMIT_BYTES + 1)


@pytest.mark.parametrize(
    ("build", "first"),
    [
        ("head -c 1 large.bin > built", "aa"),
        ("rm large.bin; printf b > large.bin; printf b > built", "bb"),
    ],
)
def test_each_experiment_gets_a_large_input_or_what_the_build_made_of_it(
    tmp_path, large, build, first
):
    made = Build("0" * 31 + "1", (large,), (Step(build),))
    one, two = (
        replace(experiment(f"cat built; head -c 1 large.bin; : {n}"), files=(large,), build=made)
        for n in range(2)
    )
    for again in range(2):  # the second place finds the build on the disk
        with Local(tmp_path / "zen", 2) as place:
            for each in (one, two):
                assert outcome(place, each).stdout.head.decode() == first, again
    assert (tmp_path / "large.bin").read_bytes().startswith(b"aaa")
