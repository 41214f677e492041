"""Experiments behind their baselines, and what the comparison says: without running any."""

from hashlib import sha256

import pytest

from zenturio.annotate.scan import scan
from zenturio.experiment import Artifact, ExperimentGenerator
from zenturio.experiment.experiment import Log
from zenturio.study.driver.baselines import ComparedWithBaselines, _with_line, first_difference
from zenturio.testing.experiments import outcome

PROGRAM = """\
threads=1
#ZEN$ ASSIGN threads = { 1, 2, 4 }
#ZEN$ PARAM n = { 10, 20, 30 }
#ZEN$ VERIFY SAME "out.dat" WITHIN 1e-6 AS BASELINE
#ZEN$ RUN "sh s.sh {n}"
"""


class Listed:
    """A source of these experiments, which remembers what came of them."""

    expecting, ahead = False, 7

    def __init__(self, experiments):
        self.waiting, self.completed = list(experiments), []
        self.total = len(self.waiting)

    @property
    def over(self):
        return not self.waiting

    def __iter__(self):
        while self.waiting:
            yield self.waiting.pop(0)

    def complete(self, experiment, came):
        self.completed.append((at(experiment), came.status))


def at(experiment):
    return experiment and (experiment.values["threads"], experiment.values["n"])


class Setting:
    """The program at *path*, its experiments, and the files of its baselines."""

    def __init__(self, path, text=PROGRAM):
        path.write_text(text)
        self.application = scan(path)
        self.generator, self.files = ExperimentGenerator(self.application), {}

    def make(self, threads, n, repeat=1):
        point = self.application.space.find({"threads": threads, "n": n})
        return self.generator.experiment(point, repeat)

    def compared(self, *points):
        self.source = Listed(point and self.make(*point) for point in points)
        return ComparedWithBaselines(
            self.source, self.application, self.generator, lambda digest: self.files.get(digest, ())
        )


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path / "s.sh")


def test_experiments_wait_for_the_baseline_of_their_own_values(setting):
    points = [(4, 10), (2, 10), (4, 20), (1, 10), None, (2, 30), (4, 30), (1, 20)]
    source = setting.compared(*points)
    baselines = [(1, 10), (1, 20), None, (1, 30)]
    yielded = list(source)
    assert [at(e) for e in yielded] == baselines
    assert (source.total, source.ahead, source.expecting) == (8 + 3, 7, False)
    assert not source.over
    assert list(source) == []
    ten, twenty, _, thirty = yielded
    source.complete(twenty, outcome(twenty, "failed"))
    # The source had its own (1, 20) behind those that waited: it is complete by then.
    assert [at(e) for e in source] == [(4, 20)]
    assert setting.source.completed == [((1, 20), "failed")]
    assert (source.total, source.over) == (8 + 2, False)
    source.complete(ten, outcome(ten))
    released = list(source)
    assert [at(e) for e in released] == [(4, 10), (2, 10)]
    assert setting.source.completed == [((1, 20), "failed"), ((1, 10), "ok")]
    assert source.total == 8 + 1
    for experiment in released:
        source.complete(experiment, outcome(experiment))
    assert setting.source.completed[2:] == [((4, 10), "ok"), ((2, 10), "ok")]
    assert not source.over
    # The source never has (1, 30) itself: it hears nothing of it, and the others are released.
    source.complete(thirty, outcome(thirty))
    assert not source.over
    assert [at(e) for e in source] == [(2, 30), (4, 30)]
    assert (source.total, source.over) == (8 + 1, True)
    assert len(setting.source.completed) == 4


def test_a_baseline_that_comes_first_by_itself_is_complete_for_the_source(setting):
    source = setting.compared((1, 10), (4, 10), (2, 10), (1, 20))
    first, other = source
    assert [at(first), at(other)] == [(1, 10), (1, 20)]
    assert source.total == 4
    source.complete(first, outcome(first))
    assert setting.source.completed == [((1, 10), "ok")]
    assert [at(e) for e in source] == [(4, 10), (2, 10)]
    assert source.over


def put(folder, name, text):
    path = folder / name
    path.write_text(text)
    return Artifact("out.dat", len(text), sha256(text.encode()).hexdigest(), path)


def judged(source, experiment, *artifacts, status="ok", stderr=b""):
    came = outcome(experiment, status)
    log = Log(stderr, b"", len(stderr))
    return source.judge(
        experiment,
        type(came)(came.digest, status, came.cause, artifacts=artifacts, stderr=log),
    )


SAME = 'VERIFY SAME "out.dat" WITHIN 1e-06 AS BASELINE'


def test_a_file_is_judged_by_that_of_its_baseline(setting, tmp_path):
    other, base = (
        Artifact("log", 1, "0" * 64, tmp_path / "log"),
        put(tmp_path, "base", "x 1.5\ny\n"),
    )
    source = setting.compared((1, 10), (2, 10), (4, 10))
    (baseline,) = source
    one = setting.make(2, 10)
    assert judged(source, one, other, base).cause == f"{SAME}: the baseline did not succeed"
    source.complete(baseline, outcome(baseline))
    for artifacts in ((), (other,)):
        setting.files[baseline.digest] = artifacts
        assert judged(source, one, other, base).cause == f"{SAME}: the file is not there"
    setting.files[baseline.digest] = (other, base)
    assert judged(source, one, other).cause == f"{SAME}: the file is not there"
    assert judged(source, one, other).status == "failed"
    same = Artifact("out.dat", base.size, base.sha256, tmp_path / "nowhere")
    assert judged(source, one, other, same).status == "ok"
    near = put(tmp_path, "near", "x 1.5000001\ny\n")
    assert judged(source, one, other, near).status == "ok"
    far = put(tmp_path, "far", "x 1.75\ny\n")
    wrong = judged(source, one, other, far, stderr=b"warning\n")
    assert (wrong.status, wrong.cause) == ("wrong", SAME)
    line = b"warning\nout.dat: line 1, column 3: 1.75 instead of 1.5, 0.25 off\n"
    assert wrong.stderr == Log(line, b"", len(line))
    gone = Artifact("out.dat", 1, "1" * 64, tmp_path / "nowhere")
    failed = judged(source, one, gone)
    assert failed.status == "failed"
    assert failed.cause == f"{SAME}: {tmp_path / 'nowhere'}: No such file or directory"
    # What did not succeed stays as it is, and the baseline is not compared with itself.
    assert judged(source, one, status="timeout").status == "timeout"
    assert judged(source, baseline).status == "ok"


def test_a_baseline_that_is_no_point_fails_its_experiments_and_holds_up_none(tmp_path):
    text = PROGRAM.replace("#ZEN$ RUN", "#ZEN$ CONSTRAINT VALUE threads > 1 or n < 30\n#ZEN$ RUN")
    setting = Setting(tmp_path / "s.sh", text)
    source = setting.compared((2, 30), (4, 30), (2, 10))
    assert [at(e) for e in source] == [(2, 30), (4, 30), (1, 10)]
    failed = judged(source, setting.make(2, 30))
    assert failed.status == "failed"
    assert failed.cause == f"{SAME}: threads = 1, n = 30 is no point of the space"


def test_all_repeats_are_compared_with_the_first_or_with_those_of_their_seed(tmp_path):
    repeated = PROGRAM.replace('{n}"', '{n}"\n#ZEN$ REPEAT 3')
    source = Setting(tmp_path / "s.sh", repeated).compared((4, 10, 3), (4, 10, 2), (2, 10, 1))
    assert [(at(e), e.repeat) for e in source] == [((1, 10), 1)]
    seeded = PROGRAM.replace('{n}"', '{n} {s}"\n#ZEN$ REPEAT 3 SEED s')
    source = Setting(tmp_path / "s.sh", seeded).compared((4, 10, 3), (4, 10, 2), (2, 10, 1))
    assert [(at(e), e.repeat) for e in source] == [((1, 10), n) for n in (3, 2, 1)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (Log(b"ab", b"", 2), Log(b"abX\n", b"", 4)),
        (Log(b"ab", b"yz", 9), Log(b"ab", b"yzX\n", 11)),
        (Log(b"ab", b"", 3), Log(b"ab", b"X\n", 5)),
        (Log(), Log(b"X\n", b"", 2)),
    ],
)
def test_a_line_comes_to_the_end_of_a_log(log, expected):
    assert _with_line(log, b"X\n") == expected


def test_an_experiment_waits_for_each_of_its_baselines(tmp_path):
    named = '#ZEN$ VERIFY SAME "log" AS BASELINE WHERE threads == 2\n#ZEN$ RUN'
    text = PROGRAM.replace("#ZEN$ RUN", named)
    source = Setting(tmp_path / "s.sh", text).compared((4, 10))
    for expected in ((1, 10), (2, 10), (4, 10)):
        (experiment,) = source
        assert at(experiment) == expected
        source.complete(experiment, outcome(experiment))
    assert source.over
    # A baseline that is no point holds up nobody, and the next one is waited for all the same.
    bounded = text.replace("#ZEN$ RUN", "#ZEN$ CONSTRAINT VALUE threads > 1 or n < 30\n#ZEN$ RUN")
    source = Setting(tmp_path / "s.sh", bounded).compared((4, 30))
    for expected in ((2, 30), (4, 30)):
        (experiment,) = source
        assert at(experiment) == expected
        source.complete(experiment, outcome(experiment))


@pytest.mark.parametrize(
    ("text", "baseline", "within", "told"),
    [
        ("a  b\n", "a b\n", 0, None),
        ("a b\nc 2\n", "a b\nc 3\n", 0, "line 2, column 3: 2 instead of 3, 1 off"),
        ("a b\n", "a c\n", 0, "line 1, column 3: b instead of c"),
        ("a\n", "a b\n", 0, "line 1, column 3: the end instead of b"),
        ("a b\n", "a\n", 0, "line 1, column 3: b instead of the end"),
        ("a\n", "a\nb\n", 0, "line 2, column 1: the end instead of b"),
        ("a\n\n", "a\n", 0, None),
        ("1.0\n", "1d0\n", 0, None),
        ("nan\n", "NaN\n", 0, None),
        ("inf\n", "1\n", 0.5, "line 1, column 1: inf instead of 1, inf off"),
        ("100\n", "104\n", 0.04, None),  # a share of the greater one
        ("100\n", "105\n", 0.04, "line 1, column 1: 100 instead of 105, 5 off"),
        ("-0.5\n", "-0.25\n", 0.25, None),  # below 1 it is no share
        ("-0.5\n", "-0.25\n", 0.2, "line 1, column 1: -0.5 instead of -0.25, 0.25 off"),
        ("x\n", "3\n", 1, "line 1, column 1: x instead of 3"),
        (f"{'y' * 50}\n", "x\n", 0, f"line 1, column 1: {'y' * 40} instead of x"),
    ],
)
def test_the_first_difference_of_two_texts_is_told(tmp_path, text, baseline, within, told):
    for name, content in (("new", text), ("old", baseline)):
        (tmp_path / name).write_text(content)
    difference = first_difference(tmp_path / "new", tmp_path / "old", within)
    assert (difference if difference is None else str(difference)) == told
