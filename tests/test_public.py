"""The package as a user imports it."""

import subprocess
import sys
from contextlib import closing

import pytest

import zenturio as zen
from zenturio.record.open import open_repository
from zenturio.study.last_options import recall_options
from zenturio.study.study_request import StudyRequest


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    (tmp_path / ".zenturio").mkdir()
    monkeypatch.chdir(tmp_path)


def test_the_public_names_are_the_namespace():
    assert sorted(zen.__all__) == zen.__all__
    for name in zen.__all__:
        assert getattr(zen, name) is not None
    assert set(zen.__all__) <= set(dir(zen))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        zen.nothing  # noqa: B018 - the access is what is tested


def test_importing_it_loads_nothing_heavy():
    heavy = ("numpy", "pandas", "plotly", "sqlalchemy", "numba", "typer", "matplotlib")
    probe = f"import sys, zenturio; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("first", ["", "import zenturio.experiment.experiment_generator\n"])
def test_the_decorator_is_there_whatever_was_imported_before(first):
    probe = f"{first}import zenturio as zen\nf = zen.experiment(lambda x: x)\nprint(f(3))\n"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3"


def test_a_function_is_run_and_remembered():
    calls = []

    @zen.experiment
    def speed(n, threads):
        calls.append((n, threads))
        if n == 4:
            raise ValueError("four")
        return {"gflops": n / threads}

    space = zen.Space(n=zen.span(1, 4), threads=[1, 2])
    study = zen.run(speed, space)
    assert (study.summary.ok, study.summary.failed) == (6, 2)
    assert [f.cause for f in study.summary.failures] == ["ValueError"]
    assert len(calls) == 8
    again = zen.run(speed, space)
    assert (again.summary.cached, again.summary.ok) == (8, 0)
    assert len(calls) == 8
    frame = study.frame()
    assert frame["gflops"].tolist() == [1.0, 0.5, 2.0, 1.0, 3.0, 1.5]
    by_threads = study.results(by=["threads"], aggregates=["max"], metrics=["gflops"])
    assert [row[-1] for row in by_threads.rows] == [3.0, 1.5]


def test_each_repeat_has_a_seed_of_its_own():
    @zen.experiment(repeat=3, seed="seed")
    def noisy(x, seed):
        return {"value": 10 * x + seed}

    frame = zen.run(noisy, zen.Space(x=[1, 2])).frame()
    assert frame["value"].tolist() == [11, 12, 13, 21, 22, 23]


def test_an_interrupted_function_loses_nothing_that_ended():
    calls = []

    @zen.experiment
    def slow(x):
        calls.append(x)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return {"y": x}

    space = zen.Space(x=zen.span(1, 9))
    with pytest.raises(KeyboardInterrupt):
        zen.run(slow, space, order="sorted")
    assert zen.Study("slow").frame()["y"].tolist() == [1, 2, 3, 4]
    assert zen.run(slow, space).summary.ok == 5
    assert sorted(calls) == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9]


def test_annotated_files_are_run(tmp_path):
    (tmp_path / "p.sh").write_text(
        '#ZEN$ PARAM n = { 1:3 }\n#ZEN$ RUN "echo y {n}"\n'
        '#ZEN$ METRIC y FROM stdout REGEX "y (\\d+)"\n'
    )
    study = zen.run("p.sh", jobs=1)
    assert study.frame()["y"].tolist() == [1, 2, 3]
    assert "study p" in study._repr_html_()
    chart = study.plot(x="n", y="y")
    assert "text/html" in chart._repr_mimebundle_()


def test_what_was_run_from_python_can_be_gone_on_with_by_its_name(tmp_path):
    (tmp_path / "p.sh").write_text('#ZEN$ PARAM n = { 1:3 }\n#ZEN$ RUN "echo {n}"\n')
    zen.run("p.sh", jobs=1, overrides=["n={1}"], only="failed,missing")
    with closing(open_repository()) as repository:
        options = recall_options("p", repository.definition("p").notes)
    request = StudyRequest.read(options)
    assert request.paths == (str(tmp_path / "p.sh"),)
    assert (request.jobs, request.param, request.only) == (1, ("n={1}",), "failed,missing")


def test_a_function_without_an_argument_for_a_parameter_is_refused():
    with pytest.raises(zen.ZenError, match="no argument m"):
        zen.run(lambda n: n, zen.Space(n=[1], m=[2]))
