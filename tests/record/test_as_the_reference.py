"""Whatever is said, in whatever order: SQL answers as the reference does."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from record.reference import ReferenceRepository
from zenturio.errors import ZenError
from zenturio.experiment.experiment import Log, MachineKind, Missing, Series
from zenturio.record import DriverProcess, Field, StudyDefinition, maintenance
from zenturio.record.open import open_repository
from zenturio.testing.experiments import experiment, outcome, same

STUDIES = ("s", "t", "u")
NAMES = (*STUDIES, "s@1", "t@1")
EXPERIMENTS = [experiment(i, {"n": v}) for i, v in enumerate([1, 2.5, "x", None, 2**70, -0.0])]
DIGESTS = [e.digest for e in EXPERIMENTS]
HOWS = {"s": "stdout", "t": "stderr", "u": "stdout"}

studies = st.sampled_from(STUDIES)
names = st.sampled_from(NAMES)
ZEN5, RISCV = MachineKind("Zen 5", 16), MachineKind("RISC-V", 4)
machines = st.sampled_from([None, ZEN5, RISCV])
kinds = st.sampled_from([None, {ZEN5}, {RISCV}, {ZEN5, RISCV}])
rounds = st.sampled_from([None, None, 1, 2, 3])
drivers = st.integers(0, 3)
some = st.lists(st.sampled_from(EXPERIMENTS), max_size=4)
statuses = st.sampled_from(["ok", "failed", "wrong", "timeout", "cancelled"])
measures = st.sampled_from(
    [1, 2.5, True, "a\0", 2**80, float("nan"), Missing("why"), Series((1, None)), -0.0]
)
metrics = st.dictionaries(st.sampled_from(["m", "k", "free"]), measures)
attempts = st.integers(1, 3)


class Together(RuleBasedStateMachine):
    """Says everything to both, and compares what they answer."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.file = self.folder / "a.db"
        self.both = (ReferenceRepository(), open_repository(self.file))
        self.people = [DriverProcess("elsewhere", i, str(i), str(i)) for i in range(4)]
        self.leases = {}

    def said(self, ask):
        """The answer of both; errors count as answers."""
        answers = []
        for repository in self.both:
            try:
                answers.append(ask(repository))
            except ZenError as error:
                answers.append((type(error), str(error).split(" since ")[0]))
        return answers

    def alike(self, ask):
        reference, sql = self.said(ask)
        assert same(reference, sql) or reference == sql, (reference, sql)
        return reference

    @initialize()
    def begin(self):
        for study in STUDIES:
            self.open(study)

    @rule(study=studies)
    def open(self, study):
        fields = (Field("m", how=HOWS[study]), Field("k", how="file"))
        definition = StudyDefinition((Field("n"),), fields)
        self.alike(lambda repository: replace(repository.open(study, definition), created=0))

    @rule(study=names, driver=drivers, join=st.booleans(), seconds=st.sampled_from([0, 1000]))
    def lease(self, study, driver, join, seconds):
        person = self.people[driver]
        found = self.alike(
            lambda r: (
                (lease := r.acquire_lease(study, person, join=join, seconds=seconds)).number,
                lease.study,
            )
        )
        if isinstance(found[0], int):
            self.leases[found[0]] = study

    @rule(number=st.integers(1, 6))
    def leave(self, number):
        study = self.leases.get(number)
        if study:
            for repository in self.both:
                for lease in repository.leases(study) if self.exists(study) else ():
                    if lease.number == number:
                        repository.release_lease(lease)

    def begun(self, study, round_):
        """The round, if the study has it."""
        numbers = [each.number for each in self.both[0].rounds(study)] if self.exists(study) else []
        return round_ if round_ in numbers else None

    def exists(self, study):
        return study in [s.name for s in self.both[0].studies()]

    @rule(study=studies)
    def archive(self, study):
        if self.exists(study):
            archived = self.said(lambda repository: repository.archive(repository.study(study)))
            plain = [a if a is None or isinstance(a, tuple) else a.name for a in archived]
            assert plain[0] == plain[1]

    @rule(study=names)
    def begin_round(self, study):
        self.alike(lambda repository: repository.begin_round(study))

    @rule(study=names, number=st.integers(2, 3))
    def end_round(self, study, number):
        self.alike(lambda repository: repository.end_round(study, number))

    @rule(study=names, given=some, kinds=kinds, round_=rounds)
    def cached(self, study, given, kinds, round_):
        self.alike(
            lambda repository: repository.look_up(study, given, kinds, self.begun(study, round_))
        )

    @rule(study=names, number=st.integers(1, 6), given=some, kinds=kinds, round_=rounds)
    def claim(self, study, number, given, kinds, round_):
        self.alike(lambda r: r.claim(study, number, given, kinds, self.begun(study, round_)))

    @rule(
        study=names, number=st.integers(1, 6), given=some, status=statuses, measured=metrics,
        attempt=attempts, final=st.booleans(), machine=machines,
    )  # fmt: skip
    def record(self, study, number, given, status, measured, attempt, final, machine):
        outcomes = self.outcomes(given, status, measured, attempt, machine)
        self.alike(lambda r: r.record(study, number, outcomes, final=final))

    def outcomes(self, given, status, measured, attempt, machine=None):
        said = Log(b"\0%d" % attempt, b"", 2)
        made = [outcome(e, status, measured, attempt=attempt) for e in given]
        return [replace(each, stdout=said, machine=machine) for each in made]

    @rule(
        study=names, number=st.integers(1, 6), given=some, status=statuses, measured=metrics,
        round_=rounds,
    )  # fmt: skip
    def enter(self, study, number, given, status, measured, round_):
        pairs = list(zip(given, self.outcomes(given, status, measured, 1), strict=True))
        self.alike(
            lambda repository: repository.add_results(
                study, number, pairs, None, self.begun(study, round_)
            )
        )

    @rule(study=names, given=some, status=statuses, measured=metrics)
    def remeasure(self, study, given, status, measured):
        unique = {e.digest: e for e in given}.values()
        outcomes = self.outcomes(unique, status, measured, 1)
        self.alike(lambda repository: repository.remeasure(study, outcomes))

    @rule(study=names, given=some, kinds=kinds)
    def reopen(self, study, given, kinds):
        digests = list({e.digest for e in given})
        self.alike(lambda repository: repository.reopen(study, digests, kinds))

    @rule(study=names, source=names, given=some, moved=st.integers(1, len(DIGESTS) - 1))
    def equate(self, study, source, given, moved):
        names = {e.digest: EXPERIMENTS[(e.index + moved) % len(EXPERIMENTS)] for e in given}
        self.alike(lambda repository: repository.equate(study, source, names, "ann"))

    @rule(study=names, source=names)
    def undo_equate(self, study, source):
        self.alike(lambda repository: repository.undo_equate(study, source))

    @rule(study=names)
    def delete(self, study):
        self.alike(lambda repository: repository.preview_deletion(study))
        self.alike(lambda repository: repository.delete(study))

    @invariant()
    def they_agree(self):
        self.alike(lambda r: {d: _image(o) for d, o in sorted(r.find_outcomes(DIGESTS).items())})
        for study in NAMES:
            self.alike(lambda r: r.count_states(study))  # noqa: B023
            self.alike(lambda r: set(r.count_results(study)))  # noqa: B023
            self.alike(lambda r: [(e.number, e.is_open) for e in r.rounds(study)])  # noqa: B023
            self.alike(lambda r: [_row(each) for each in r.records(study)])  # noqa: B023
            self.alike(lambda r: [_row(e) for e in r.records(study, states=["missing"])])  # noqa: B023
            self.alike(lambda r: [(e.kind, e.digest) for e in r.events(study)])  # noqa: B023
            for digest in DIGESTS:
                self.alike(lambda r: _accepted(r.equated_result(study, digest)))  # noqa: B023
        for digest in DIGESTS:
            self.alike(lambda r: [_try(each) for each in r.attempts(digest)])  # noqa: B023
            self.alike(lambda r: r.logs(digest))  # noqa: B023

    def teardown(self):
        for repository in self.both:
            repository.close()
        try:
            assert maintenance.check_repository(self.file) == ()
        finally:
            shutil.rmtree(self.folder)


def _image(found):
    return (replace(found, metrics={}), dict(sorted(found.metrics.items())))


def _accepted(equality):
    return equality and replace(equality, at=0)


def _row(record):
    found = None if record.outcome is None else _image(record.outcome)
    key = (record.index, record.repeat, record.digest, record.round, record.newest)
    return (*key, record.state, dict(record.values), found)


def _try(attempt):
    times = (attempt.started, attempt.ended) if attempt.state in {"ok", "failed"} else None
    measured = dict(sorted(attempt.metrics.items()))
    return (replace(attempt, started=0, ended=None, metrics={}), times, measured)


TestTogether = Together.TestCase
TestTogether.settings = settings(
    max_examples=max(1, settings.default.max_examples // 4), stateful_step_count=25, deadline=None
)


def test_a_repository_without_files_is_pruned_and_has_no_garbage():
    repository = ReferenceRepository()
    for name in STUDIES:
        repository.open(name, StudyDefinition((), ()))
    assert maintenance.preview_pruning(repository, "s").study == "s"
    assert maintenance.prune_study(repository, "s").study == "s"
    assert {study.name for study in repository.studies()} == {"t", "u"}
    assert maintenance.collect_garbage(repository, really=True) == maintenance.Garbage((), (), 0)
