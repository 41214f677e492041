"""Whatever runs a study uses results of this kind of machine alone: functions, tuning, a service."""

import threading

import pytest

import zenturio as zen
from zenturio.annotate.scan import scan
from zenturio.errors import InputError
from zenturio.execute.local import Local
from zenturio.search import parse_budget
from zenturio.space import Space
from zenturio.study.driver.experiment_source import PointSelection, select_points
from zenturio.study.driver.search_source import SearchSpec
from zenturio.study.driver.study_driver import DriverSettings
from zenturio.study.local_run import run_locally
from zenturio.study.service.study_service import StudyService
from zenturio.study.service.submission_client import submit_study
from zenturio.study.study_request import PlaceOptions, StudyRequest

SEARCHED = """\
n = 1
#ZEN$ ASSIGN n = { 1:4 }
#ZEN$ RUN "python3 searched.py"
#ZEN$ OBJECTIVE MINIMIZE speed
#ZEN$ METRIC speed FROM stdout REGEX "speed (\\d+)"
print("speed", n * 10)
"""
MESH = """\
#!/bin/sh
#ZEN$ PARAM n = { 1, 2 }
#ZEN$ RUN "sh mesh.sh"
#ZEN$ OUTPUT "out/grid.dat"
mkdir out; date +%N > out/grid.dat
"""
SOLVE = """\
#!/bin/sh
#ZEN$ PARAM n = { 1, 2 }
#ZEN$ RUN "sh solve.sh"
#ZEN$ AFTER "mesh" ON n
#ZEN$ METRIC got FROM stdout REGEX "got (.*)"
echo "got x$(cat mesh/out/grid.dat)"
"""


def square(n):
    return {"square": n * n}


def bowl(point):
    return (point["x"] - 3) ** 2 + 1


def processors(repository, study):
    found = (record.outcome for record in repository.records(study))
    return sorted(outcome.machine.cpu for outcome in found if outcome)


def run_function(repository, function=square, **options):
    remarks = []
    study = zen.run(
        function,
        Space(n=[1, 2, 3]),
        db=repository,
        listener=lambda progress: remarks.extend(progress.remarks),
        **options,
    )
    assert study.summary.notes == tuple(remarks)
    return study.summary.cached, study.summary.ok, remarks


def test_a_function_is_measured_anew_on_another_kind_of_machine(repository, on):
    on("Zen 5")
    assert run_function(repository) == (0, 3, [])
    on("RISC-V")
    known, ran, remarks = run_function(repository)
    assert (known, ran) == (0, 3)
    assert "3 have results of another kind of machine: Zen 5" in remarks[0]
    assert processors(repository, "square") == ["RISC-V"] * 3 + ["Zen 5"] * 3
    for cpu in ("Zen 5", "RISC-V"):
        on(cpu)
        assert run_function(repository) == (3, 0, [])


def test_results_of_an_exact_function_count_everywhere(repository, on):
    on("Zen 5")
    run_function(repository)
    on("RISC-V")
    assert run_function(repository, machine="any") == (3, 0, [])
    assert run_function(repository, zen.experiment(exact=True)(square)) == (3, 0, [])
    with pytest.raises(InputError, match="neither same nor any"):
        run_function(repository, machine="all")


def tuned(repository, **options):
    found = zen.tune(
        Space(x=range(10)), bowl, settings="population=4", repeats=2, budget=20, db=repository,
        **options,
    )  # fmt: skip
    return found.tuned.summary


def test_searches_of_a_tuning_are_made_anew_on_another_kind_of_machine(repository, on):
    on("Zen 5")
    assert tuned(repository).ok == 2
    on("RISC-V")
    assert tuned(repository, machine="any").cached == 2
    summary = tuned(repository)
    assert (summary.cached, summary.ok) == (0, 2)
    assert "2 have results of another kind of machine: Zen 5" in summary.notes[0]
    assert processors(repository, summary.study) == ["RISC-V"] * 2 + ["Zen 5"] * 2


def test_a_search_recalls_only_what_its_own_kind_of_machine_measured(repository, tmp_path, on):
    (tmp_path / "searched.py").write_text(SEARCHED)

    def search(**settings):
        application = scan([str(tmp_path / "searched.py")])
        return run_locally(
            application, PointSelection.none(application.space), db=repository, place=PlaceOptions(2),
            search=SearchSpec("random", budget=parse_budget("4")), settings=DriverSettings(**settings),
        )  # fmt: skip

    on("Zen 5")
    assert (search().cached, search().cached) == (0, 4)
    on("RISC-V")
    summary = search(any_machine=True)
    assert (summary.cached, summary.ok) == (4, 0)
    summary = search()
    assert (summary.cached, summary.ok) == (0, 4)
    assert processors(repository, "searched") == ["RISC-V"] * 4 + ["Zen 5"] * 4


def test_a_stage_gets_the_files_that_its_own_kind_of_machine_made(repository, tmp_path, on):
    (tmp_path / "mesh.sh").write_text(MESH)
    (tmp_path / "solve.sh").write_text(SOLVE)

    def run():
        application = scan([str(tmp_path / "solve.sh")])
        return run_locally(
            application, select_points(application.space), db=repository, place=PlaceOptions(2)
        )

    for cpu in ("Zen 5", "RISC-V"):
        on(cpu)
        assert run().ok == 2
    for record in list(repository.records("solve")):
        attempts = {each.machine.cpu: each.number for each in repository.attempts(record.digest)}
        assert set(attempts) == {"Zen 5", "RISC-V"}
    got = [record.outcome.metrics["got"] for record in repository.records("solve")]
    files = [
        f"x{artifact.kept.read_text().strip()}"
        for record in repository.records("mesh")
        for artifact in repository.artifacts(record.digest, record.outcome.attempt)
    ]
    assert sorted(got) == sorted(files)
    on("Zen 5")
    assert run().cached == 2


def test_a_submitted_study_is_measured_anew_on_another_kind_of_machine(repository, tmp_path, on):
    (tmp_path / "searched.py").write_text(SEARCHED)

    def serve(**options):
        request = StudyRequest((str(tmp_path / "searched.py"),), **options)
        number = submit_study(repository, request, "alice").number
        over, told = threading.Event(), []
        with Local(tmp_path / ".zenturio", 2) as place:
            serving = StudyService(repository, {"local": place}, "fcfs", told.append)
            thread = threading.Thread(target=serving.run, args=(over,))
            thread.start()
            while repository.submissions()[-1].turn not in ("done", "failed"):
                over.wait(0.02)
            over.set()
            thread.join()
        assert repository.submissions()[-1].number == number
        return [line for line in told if "kind of machine" in line]

    on("Zen 5")
    serve()
    on("RISC-V")
    assert serve(machine="any") == []
    assert processors(repository, "searched") == ["Zen 5"] * 4
    (line,) = serve()
    assert line.startswith("searched: 4 have results of another kind of machine: Zen 5")
    assert processors(repository, "searched") == ["RISC-V"] * 4 + ["Zen 5"] * 4
