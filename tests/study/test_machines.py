"""A study on several kinds of machine: what counts as cached, and what is measured anew."""

from dataclasses import replace

import pytest

from cli.conftest import zen
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.query import compare, results, study_frame
from zenturio.query.frames import group_frame
from zenturio.record.entities import RowChoice
from zenturio.record.open import open_repository
from zenturio.show.charts.chart_query import ChartQuery
from zenturio.show.charts.study_charts import draw_chart
from zenturio.study.best_points import best
from zenturio.study.driver.experiment_source import select_points
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.local_run import plan_locally, run_locally
from zenturio.study.overview import study_status
from zenturio.study.reprocess_experiments import extract
from zenturio.study.study_request import PlaceOptions

PROGRAM = """\
n = 1
#ZEN$ ASSIGN n = { 1:3 }
#ZEN$ RUN "python3 counted.py"
#ZEN$ METRIC total FROM stdout REGEX "total (\\d+)" EXACT
print("total", n * 10)
"""
EXACT = "EXACT\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Driven:
    """Runs of one program, remembered in one repository."""

    def __init__(self, folder, text=PROGRAM):
        self.path = folder / "counted.py"
        self.path.write_text(text)
        self.db = str(folder / "zenturio.db")

    def _application(self):
        application = scan([str(self.path)])
        return application, select_points(application.space)

    def run(self, **settings):
        """How many were cached, how many ran, and what was said before."""
        plans = []
        summary = run_locally(
            *self._application(),
            db=self.db,
            place=PlaceOptions(jobs=2),
            settings=DriverSettings(**settings),
            planned=plans.append,
        )
        return summary.cached, summary.ok, plans[-1].remarks

    def foresee(self, **settings):
        plan = plan_locally(*self._application(), db=self.db, settings=DriverSettings(**settings))
        return plan.cached, plan.remarks

    def machines(self):
        repository = open_repository(self.db)
        try:
            found = [r.outcome.machine.cpu for r in repository.records("counted") if r.outcome]
        finally:
            repository.close()
        return sorted(found)


def test_times_of_another_kind_of_machine_are_measured_anew_beside_the_earlier(project, on):
    study = Driven(project, PROGRAM.replace(EXACT, "\n"))
    on("Zen 5")
    assert study.run() == (0, 3, ())
    on("RISC-V")
    known, remarks = study.foresee()
    assert known == 0
    assert "3 have results of another kind of machine: Zen 5" in remarks[0]
    known, ran, remarks = study.run()
    assert (known, ran) == (0, 3)
    assert "3 have results of another kind of machine: Zen 5" in remarks[0]
    assert study.machines() == ["RISC-V"] * 3 + ["Zen 5"] * 3
    for cpu in ("RISC-V", "Zen 5"):
        on(cpu)
        assert study.run() == (3, 0, ()), "each machine has its own results by now"


def test_machine_any_takes_what_there_is(project, on):
    study = Driven(project, PROGRAM.replace(EXACT, "\n"))
    on("Zen 5")
    study.run()
    on("RISC-V")
    assert study.foresee(any_machine=True) == (3, ())
    assert study.run(any_machine=True) == (3, 0, ())


def test_results_of_exact_metrics_count_on_every_kind_of_machine(project, on):
    study = Driven(project)
    on("Zen 5")
    study.run()
    on("RISC-V")
    assert study.foresee() == (3, ())
    assert study.run() == (3, 0, ())


def test_what_is_computed_from_exact_metrics_is_exact(project, on):
    study = Driven(project, PROGRAM + "#ZEN$ METRIC twice := total * 2\n")
    on("Zen 5")
    study.run()
    on("RISC-V")
    assert study.foresee() == (3, ())


@pytest.mark.parametrize(
    "more",
    [
        "#ZEN$ OBJECTIVE MINIMIZE wtime\n",
        "#ZEN$ METRIC rate := total / wtime EXACT\n",
        '#ZEN$ METRIC more FROM stdout REGEX "total (\\d+)"\n',
    ],
)
def test_a_study_that_asks_for_times_is_not_exact(project, on, more):
    study = Driven(project, PROGRAM + more)
    on("Zen 5")
    study.run()
    on("RISC-V")
    assert study.foresee()[0] == 0


def test_a_study_without_a_metric_is_one_of_times(project, on):
    lines = [line for line in PROGRAM.splitlines(keepends=True) if "METRIC" not in line]
    study = Driven(project, "".join(lines))
    on("Zen 5")
    study.run()
    on("RISC-V")
    assert study.foresee()[0] == 0


def test_extracting_again_reads_what_each_kind_of_machine_said(project, on):
    study = Driven(project, PROGRAM.replace(EXACT, "\n"))
    on("Zen 5")
    study.run()
    on("RISC-V")
    study.run()
    study.path.write_text(
        study.path.read_text().replace(
            '(\\d+)"', '(\\d+)"\n#ZEN$ METRIC again FROM stdout REGEX "l (\\d+)"'
        )
    )
    repository = open_repository(study.db)
    try:
        done = extract(repository, "counted")
        assert done.experiments == 6
        values = [r.outcome.metrics["again"] for r in repository.records("counted") if r.outcome]
    finally:
        repository.close()
    assert sorted(values) == [10, 10, 20, 20, 30, 30]


@pytest.fixture
def mixed(project, on):
    """A study with results of two kinds of machine; the metric differs between them."""
    study = Driven(project, PROGRAM.replace(EXACT, "\n"))
    on("Zen 5")
    study.run()
    on("RISC-V")
    study.run()
    repository = open_repository(study.db)
    yield repository
    repository.close()


def test_an_answer_of_several_kinds_of_machine_says_so(mixed):
    listed = results(mixed, "counted")
    assert "results of 2 kinds of machine: RISC-V" in listed.notes[0]
    assert "--machine picks one" in listed.notes[0]
    assert listed.columns[:2] == ("n", "machine")
    assert "results of 2 kinds of machine" in results(mixed, "counted", by=["n"]).notes[0]


def test_results_are_grouped_and_chosen_by_kind_of_machine(mixed):
    grouped = results(mixed, "counted", by=["machine"])
    assert [row[:2] for row in grouped.rows] == [
        (label, 3) for label in sorted(row[0] for row in grouped.rows)
    ]
    assert grouped.notes == ()
    label = grouped.rows[0][0]
    chosen = results(mixed, "counted", where=f'machine == "{label}"')
    assert (len(chosen.rows), chosen.notes) == (3, ())


def test_the_best_point_is_that_of_one_kind_of_machine(mixed):
    ranking = best(mixed, "counted", 1, "MAXIMIZE total", rows=RowChoice("zen"))
    assert [each.machine.cpu for each in ranking.points] == ["Zen 5"]
    assert ranking.notes == ()
    ranking = best(mixed, "counted", 2, "MAXIMIZE total")
    assert [(each.values["n"], each.tried) for each in ranking.points] == [(3, 1), (3, 1)]
    assert len({each.machine for each in ranking.points}) == 2
    assert ranking.of == 3
    assert "results of 2 kinds of machine" in ranking.notes[0]


def test_a_comparison_and_a_frame_say_which_kinds_of_machine_they_are_of(mixed):
    table = study_frame(mixed, "counted")
    assert sorted(table.attrs["machines"].values()) == [3, 3]
    assert any("2 kinds of machine" in note for note in compare(table, table, "total").notes)
    assert (
        group_frame(mixed, "counted", ["n"], "total").attrs["machines"] == table.attrs["machines"]
    )


def test_an_answer_may_be_of_one_kind_of_machine(mixed):
    rows = RowChoice("zen 5")
    chosen = results(mixed, "counted", machine="zen 5", limit=2)
    assert (len(chosen.rows), chosen.found, chosen.total, chosen.notes) == (2, 3, 3, ())
    assert "machine" not in chosen.columns
    assert [row[1] for row in results(mixed, "counted", by=["n"], machine="RISC").rows] == [1, 1, 1]
    for table in (
        study_frame(mixed, "counted", rows=rows),
        group_frame(mixed, "counted", ["n"], "total", rows=rows),
    ):
        assert (len(table), table.attrs["machines"]) == (3, {})
    query = ChartQuery(("counted",), "scatter", x="n", y=("total",))
    assert draw_chart(mixed, replace(query, machine="zen 5")).rows == 3
    whole = draw_chart(mixed, query)
    assert "results of 2 kinds of machine" in whole.chart.note
    assert whole.chart.counts == "6 of 6 results"


def test_a_kind_of_machine_that_nobody_has_is_refused_with_those_there_are(mixed):
    with pytest.raises(InputError, match="Cray") as error:
        results(mixed, "counted", machine="Cray")
    assert "RISC-V" in str(error.value)
    with pytest.raises(InputError, match="several kinds of machine match"):
        best(mixed, "counted", 1, "MAXIMIZE total", rows=RowChoice("core"))


def test_a_status_counts_experiments_not_results(mixed, project):
    found = study_status(str(project / "zenturio.db"), "counted")
    assert (found.ok, found.total, found.missing, sum(found.machines.values())) == (3, 3, 0, 6)
    done = zen("status", "counted", "--db", "zenturio.db", cwd=project)
    assert "3 of 3 experiments, 6 results of 2 kinds of machine" in done.out
    facts = zen("status", "counted", "--db", "zenturio.db", "--json", cwd=project).facts
    assert (facts["ok"], facts["experiments"], facts["results"]) == (3, 3, 6)
    assert sorted(facts["machines"].values()) == [3, 3]


def test_the_verbs_of_answers_take_a_kind_of_machine(mixed, project):
    def ask(verb, *more, code=0):
        return zen(verb, "counted", *more, "--db", "zenturio.db", cwd=project, code=code)

    of_zen = ("--machine", "zen 5")
    assert len(ask("results", *of_zen, "--json").facts["rows"]) == 3
    (point,) = ask("best", *of_zen, "--objective", "MAXIMIZE total", "--json").facts
    assert point["machine"].startswith("Zen 5")
    compared = ask("compare", "counted", *of_zen, "--machine", "risc", "--metric", "total")
    assert "kinds of machine" not in compared.out
    assert ask("fit", *of_zen, "--y", "total", "--x", "n", "--json").facts[0]["rows"] == 3
    sketched = ask("plot", *of_zen, "--x", "n", "--y", "total", "-o", "-")
    assert "kinds of machine" not in sketched.out
    assert (
        "no kind of machine with results matches" in ask("results", "--machine", "Cray", code=2).err
    )
