"""What is packed is what comes out: experiments, outcomes, and why there is none."""

import json
import math
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.model import Metric
from zenturio.annotate.scan import scan
from zenturio.errors import ConflictError, PlaceError, SafetyError, ZenError
from zenturio.execute.experiment_codec import (
    pack_experiment,
    pack_experiments,
    pack_failure,
    pack_outcome,
    unpack_experiment,
    unpack_experiments,
    unpack_outcome,
)
from zenturio.execute.file_staging import attempt_folder, belongs_to_attempt
from zenturio.experiment import (
    Artifact,
    Evidence,
    Experiment,
    ExperimentFile,
    ExperimentGenerator,
    Log,
    MetricReader,
    Missing,
    Outcome,
    Recipe,
    Series,
    Step,
)
from zenturio.experiment.experiment import empty_folder, link_to
from zenturio.experiment.identity import checked_digest, content_digest
from zenturio.expression import parse
from zenturio.testing.executor import experiment

DIGEST = "ab" * 16
TEXT = st.text(st.characters(codec=None), max_size=12)
VALUE = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
MEASURE = (
    st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.builds(Missing, TEXT)
    | st.builds(Series, st.lists(VALUE, max_size=4).map(tuple))
)
FILED = (
    st.builds(
        ExperimentFile, TEXT, st.integers(0, 0o777), st.binary(max_size=30),
        digest=st.sampled_from(["", DIGEST]),
    )
    | st.builds(link_to, TEXT, st.text(max_size=12))
    | st.builds(empty_folder, TEXT)
)  # fmt: skip
STEP = st.builds(
    Step,
    TEXT,
    st.none() | st.floats(0, 1e9),
    st.integers(0, 9),
    st.integers(1, 99),
    st.none() | st.integers(0, 2**50),
)
EXPERIMENT = st.builds(
    lambda values, files, steps, environment, index, repeat: replace(
        experiment(files={}),
        index=index,
        repeat=repeat,
        values=values,
        files=tuple(files),
        steps=tuple(steps),
        environment=environment,
    ),
    st.dictionaries(TEXT, VALUE, max_size=4),
    st.lists(FILED, max_size=3),
    st.lists(STEP, max_size=3),
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.integers(-1, 300**100),
    st.integers(1, 100),
)


def back(data, outputs=Path("outputs"), digest=DIGEST):
    return unpack_outcome(data, digest, outputs)


def same(one, other):
    """Equality to which NaN is NaN, and 1 neither 1.0 nor true."""
    return repr(one) == repr(other)


def plain(each: Experiment):
    return replace(each, values=dict(each.values))


@given(EXPERIMENT)
def test_an_experiment_comes_out_as_it_went_in(each):
    found = unpack_experiment(pack_experiment(each))
    assert same(plain(found), plain(each))


@given(st.lists(EXPERIMENT, max_size=4))
def test_several_that_travel_together_come_out_in_their_order(several):
    found = unpack_experiments(pack_experiments(several))
    assert [repr(plain(each)) for each in found] == [repr(plain(each)) for each in several]


@given(
    st.dictionaries(TEXT, MEASURE, max_size=5),
    st.binary(max_size=20),
    st.sampled_from(["ok", "failed", "wrong", "timeout", "cancelled"]),
)
def test_an_outcome_comes_out_as_it_went_in(metrics, said, status):
    log = Log(said, said[::-1], 10**12)
    gone = Outcome(
        DIGEST, status, "exit 3", metrics, 2, "node", 1.5, 2.5, None, log, Log(said, b"", 3),
        remark="idle", metric_remarks={"x": "x is 1, a part of '12'"},
    )  # fmt: skip
    assert same(back(pack_outcome(gone)), gone)


def test_what_several_share_travels_once():
    big = b"x" * 100_000
    each = [experiment(f"cat f; echo {i}", files={"f": big}, builds=("true",)) for i in range(9)]
    assert len(pack_experiments(each)) < 2 * len(big)


def test_a_build_is_the_same_object_for_those_that_share_it():
    each = [experiment(f"./p {i}", files={"p": b"1"}, builds=("true",)) for i in range(2)]
    first, second = unpack_experiments(pack_experiments(each))
    assert first.build is second.build
    assert first.build == each[0].build
    assert first.recipe is second.recipe


STUDY = """\
n = 1
#ZEN$ ASSIGN n = { 1, 2, 4, 8 }
#ZEN$ PARAM twice := n * 2
#ZEN$ RUN "python3 study.py" TIMEOUT 30s RETRY 2 MEMORY 1GB CPUS n
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)" UNIT "J" TAKE first
#ZEN$ METRIC rank := total + index(n) + twice
#ZEN$ REQUIRE host.cores >= 1
#ZEN$ OUTPUT "*.dat"
#ZEN$ REPEAT 2 SEED run
print("total", n)
"""


def test_a_study_measures_there_what_it_measures_here(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    application = scan([tmp_path / "study.py"])
    point = application.space[2]
    for made in ExperimentGenerator(application).experiments(point):
        gone = unpack_experiment(pack_experiment(made))
        assert gone.recipe == made.recipe
        evidence = Evidence(Log(b"total 7", b"", 7))
        here = MetricReader(made.recipe).measure(made.values, evidence)
        there = MetricReader(gone.recipe).measure(gone.values, evidence)
        assert here == there
        assert there["rank"] == 7 + 2 + 8
        places = [(m.formula and m.formula.passage.place(0), m.place) for m in made.recipe.metrics]
        assert places == [
            (m.formula and m.formula.passage.place(0), m.place) for m in gone.recipe.metrics
        ]


def test_an_expression_whose_names_were_written_out_says_the_same():
    formula = parse("a + b").replace({"b": parse("n * 2")})
    (gone,) = unpack_experiment(
        pack_experiment(replace(experiment("true"), recipe=Recipe((Metric("m", formula=formula),))))
    ).recipe.metrics
    assert gone.formula == formula
    assert gone.formula.value({"a": 1, "n": 4}) == 9


def test_a_large_file_travels_or_is_named(tmp_path):
    content = b"z" * 2_000_000
    (tmp_path / "big").write_bytes(content)
    digest = content_digest(content).hex()
    big = ExperimentFile("big", 0o644, None, tmp_path / "big", digest)
    whole = replace(experiment("true"), files=(big,))
    (there,) = unpack_experiment(pack_experiment(whole)).files
    assert there == ExperimentFile("big", 0o644, content, None, digest)
    named = pack_experiment(whole, shared=True)
    assert len(named) < 10_000
    assert unpack_experiment(named).files == (big,)


def kept(incoming: Path, content: bytes = b"1\n") -> Outcome:
    path = attempt_folder(incoming, DIGEST) / "sub" / "a"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    artifact = Artifact("sub/a", 2, sha256(content).hexdigest(), path, 0o750)
    return Outcome(DIGEST, "ok", artifacts=(artifact,))


def test_artifacts_come_back_with_the_outcome(tmp_path):
    gone = kept(tmp_path / "there")
    data = pack_outcome(gone)
    (found,), (again,) = (back(data, tmp_path / "here").artifacts for _ in range(2))
    assert found.kept != again.kept
    for each in (found, again):
        assert belongs_to_attempt(each.kept, "sub/a", tmp_path / "here", DIGEST)
        assert (each.kept.read_bytes(), each.mode) == (b"1\n", 0o750)


def test_artifacts_on_a_shared_disk_stay_where_they_are(tmp_path):
    gone = kept(tmp_path / "there")
    assert back(pack_outcome(gone, shared=True), tmp_path / "there") == gone


def test_artifacts_that_are_said_to_lie_elsewhere_are_refused(tmp_path):
    gone = kept(tmp_path / "there")
    with pytest.raises(PlaceError, match="names artifacts that are not in"):
        back(pack_outcome(gone, shared=True), tmp_path / "here")


def test_what_is_no_outcome_is_refused_with_the_name_of_its_sender(tmp_path):
    def refusal(data):
        with pytest.raises(PlaceError) as refused:
            unpack_outcome(data, DIGEST, tmp_path, "a worker of tcp://lab:8786")
        return str(refused.value).splitlines()[0]

    invalid = "a worker of tcp://lab:8786 returned an invalid outcome: "
    data = pack_outcome(kept(tmp_path / "there"))
    assert refusal(b"nothing").startswith(invalid + "this is not a zen-outcome of this version")
    assert refusal(data[:-1]).startswith(invalid + "the message is incomplete")
    assert refusal(data.replace(b'"status":"ok"', b'"status":"no"')).startswith(
        invalid + "the message was damaged on its way: the manifest.status is 'no'"
    )
    assert refusal(data.replace(DIGEST.encode(), b"0" * len(DIGEST))) == (
        invalid + f"an outcome of 000000000000 came for experiment {DIGEST[:12]}"
    )
    # What a worker could not do is said in its own words.
    assert refusal(pack_failure(PlaceError("its disk is full"))) == "its disk is full"


def test_an_outcome_that_is_not_of_the_experiment_is_refused_and_touches_nothing(tmp_path):
    victim = tmp_path / "outputs" / ("cd" * 16)
    gone = kept(tmp_path / "there")
    victim.mkdir(parents=True)
    with pytest.raises(PlaceError, match="came for experiment"):
        back(pack_outcome(replace(gone, digest=victim.name)), tmp_path / "outputs")
    for digest in ("../victim", "", "AB" * 16, f"{DIGEST}/..", DIGEST + "\n"):
        with pytest.raises(PlaceError, match="not a digest"):
            back(pack_outcome(replace(gone, digest=digest)), tmp_path / "outputs")
        with pytest.raises(SafetyError, match="is not a digest"):
            checked_digest(digest)
    assert victim.is_dir()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)
GOOD = pack_outcome(
    Outcome(
        DIGEST, "ok", "", {"m": 1, "s": Series((1, 2.5)), "n": Missing("x")}, 1, "node", 1.0, 2.0, 0
    )
)


def read_or_refused(read, message):
    """What *read* makes of a message, or the error with which it refuses it."""
    try:
        return read(message)
    except ZenError as error:
        return error


@given(st.data())
def test_whatever_is_changed_in_an_outcome_it_is_read_or_refused(data):
    head = len(b"zen-outcome 3\n") + 4
    manifest = json.loads(GOOD[head : head + int.from_bytes(GOOD[head - 4 : head], "big")])
    name = data.draw(st.sampled_from(sorted(manifest)) | st.text(max_size=5))
    manifest[name] = data.draw(JSON)
    text = json.dumps(manifest).encode()
    found = read_or_refused(back, b"zen-outcome 3\n" + len(text).to_bytes(4, "big") + text)
    assert isinstance(found, Outcome | ZenError)


@given(st.data())
def test_whatever_is_changed_in_a_parcel_it_is_read_or_refused(data):
    parcel = pack_experiment(experiment("true", files={"a": b"1"}, builds=("true",)))
    head = len(b"zen-parcel 2\n") + 4
    manifest = json.loads(parcel[head : head + int.from_bytes(parcel[head - 4 : head], "big")])
    target = data.draw(
        st.sampled_from([manifest, manifest["experiments"][0], manifest["builds"][0]])
    )
    at = data.draw(st.sampled_from(sorted(target) if target is manifest else range(len(target))))
    target[at] = data.draw(JSON)
    text = json.dumps(manifest).encode()
    message = b"zen-parcel 2\n" + len(text).to_bytes(4, "big") + text
    assert isinstance(read_or_refused(unpack_experiment, message), Experiment | ZenError)


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_any_bytes_behind_the_head_are_read_or_refused(noise, length):
    for magic, read in ((b"zen-outcome 3\n", back), (b"zen-parcel 2\n", unpack_experiment)):
        found = read_or_refused(read, magic + length.to_bytes(4, "big") + noise)
        assert isinstance(found, Outcome | Experiment | ZenError)


def test_an_artifact_that_would_leave_its_folder_is_refused(tmp_path):
    (one,) = kept(tmp_path / "there").artifacts
    evil = Outcome(DIGEST, "ok", artifacts=(replace(one, path="../../evil"),))
    with pytest.raises(PlaceError, match="not a path inside a folder"):
        back(pack_outcome(evil), tmp_path / "here")


def test_an_artifact_that_changed_on_the_way_is_refused(tmp_path):
    (one,) = kept(tmp_path / "there").artifacts
    torn = Outcome(DIGEST, "ok", artifacts=(replace(one, sha256="0" * 64),))
    with pytest.raises(PlaceError, match="changed on its way back"):
        back(pack_outcome(torn), tmp_path / "here")


def test_what_a_place_could_not_do_is_raised_where_it_is_read():
    cause = parse("host.memory > 1TB").passage.place(5)
    gone = ConflictError("no room", place=cause, hint="make some")
    with pytest.raises(ConflictError) as caught:
        back(pack_failure(gone))
    assert caught.value.diagnostics == gone.diagnostics


@pytest.mark.parametrize("read", [unpack_experiment, back])
@pytest.mark.parametrize(
    "torn",
    [
        b"",
        b"zen",
        b"\x80\x04pickle",
        pack_experiment(experiment("true"))[:-40],
        pack_experiment(experiment("x")) + b"1",
    ],
)
def test_what_is_not_whole_or_nothing_of_ours_is_refused(read, torn):
    with pytest.raises(PlaceError):
        read(torn)


def test_no_number_is_too_long():
    huge = 7**20_000
    gone = replace(experiment("true"), values={"n": huge}, index=huge)
    assert (
        unpack_experiment(pack_experiment(gone)).values["n"]
        == unpack_experiment(pack_experiment(gone)).index
        == huge
    )
    metrics = back(pack_outcome(Outcome(DIGEST, "ok", metrics={"m": -huge}))).metrics
    assert metrics["m"] == -huge
    assert math.isnan(
        back(pack_outcome(Outcome(DIGEST, "ok", metrics={"m": math.nan}))).metrics["m"]
    )
