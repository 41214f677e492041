"""Islands of a genetic search at a place: the same plan as in threads."""

import io
import zipfile
from concurrent.futures import Future

import numpy as np
import pytest

from needs import needs
from sshd import SSHD, Testbed
from zenturio.errors import InputError, PlaceError
from zenturio.execute.hosts.executor import Hosts, HostsSettings
from zenturio.execute.island_runner import PlaceRunner
from zenturio.execute.places import open_place
from zenturio.experiment import Artifact, Outcome
from zenturio.schedule.commands import PlanRequest
from zenturio.schedule.generators.generator import instance_of
from zenturio.schedule.model.problem import Problem
from zenturio.schedule.static.genetic import decoding_problem_of
from zenturio.schedule.static.islands import EvolutionSettings, Island

FLOW = "layered:tasks=20,machines=3,ccr=2,seed=1"


def request(**settings):
    texts = {name: str(value) for name, value in settings.items()}
    return PlanRequest(FLOW, algorithm="ga", settings=texts, seed=3)


def assert_same_plan(one, other):
    assert one.start.tolist() == other.start.tolist()
    assert one.processor.tolist() == other.processor.tolist()
    for name in ("evaluations", "children", "found", "ended"):
        assert one.notes[name] == other.notes[name]


def files_below(folder):
    return [path for path in (folder / "store").rglob("*") if path.is_file()]


def test_islands_at_a_place_find_the_same_plan_as_on_cores(tmp_path):
    asked = request(evaluations=600, islands=2, exchanges=2)
    with open_place("local", tmp_path / ".zenturio", 2) as place:
        plan = asked.plan(islands=PlaceRunner(place, "local"))
    assert_same_plan(plan, asked.plan())
    assert plan.notes["found"]  # something evolved
    assert not files_below(tmp_path / ".zenturio")


@pytest.mark.slow
def test_islands_on_hosts_find_the_same_plan_as_on_cores(tmp_path):
    needs("ssh", SSHD)
    asked = request(evaluations=600, islands=2, exchanges=2)
    with Testbed(tmp_path, ["one", "two"], has_zenturio=True) as bed:
        machines = {name: {"slots": 1, "speed": 1.0} for name in bed.servers}
        path = bed.write(tmp_path / "hosts.toml", {"connect": 60}, **machines)
        with Hosts(tmp_path / "zen", options=HostsSettings(str(path))) as place:
            plan = asked.plan(islands=PlaceRunner(place, "hosts.toml"))
    assert_same_plan(plan, asked.plan())


@pytest.mark.slow
def test_a_limit_of_time_counts_the_start_of_each_step(tmp_path):
    with open_place("local", tmp_path / ".zenturio", 2) as place:
        plan = request(seconds=4, exchanges=3).plan(islands=PlaceRunner(place, "local"))
    assert plan.notes["ended"] in {"seconds", "bound"}
    assert plan.notes["evaluations"] > 2 * 40


class Returns:
    """A place where each experiment ends as it is told."""

    slots = 2

    def __init__(self, folder, status, content):
        self._folder, self._status, self._content = folder, status, content

    def submit(self, experiment):
        future = Future()
        sent = {file.path: file.content for file in experiment.files}
        artifacts = ()
        if (content := self._content(sent["island.npz"])) is not None:
            file = self._folder / experiment.digest / "0"
            file.parent.mkdir()
            file.write_bytes(content)
            artifacts = (Artifact("evolved.npz", 1, "", file),)
        future.set_result(
            Outcome(experiment.digest, self._status, "exit 1", host="far", artifacts=artifacts)
        )
        return future


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def changed(change=lambda arrays: None, save=np.savez, **more):
    """The island that was sent, with *more* arrays, as *change* leaves them."""

    def content(sent):
        arrays = {**np.load(io.BytesIO(sent)), "processor_seconds": np.array(0.1)}
        arrays |= {name: np.asarray(value) for name, value in more.items()}
        change(arrays)
        file = io.BytesIO()
        save(file, **arrays)
        return file.getvalue()

    return content


def refusal(tmp_path, status, content):
    with pytest.raises(PlaceError) as raised:
        request(evaluations=600).plan(
            islands=PlaceRunner(Returns(tmp_path, status, content), "lab")
        )
    assert not list(tmp_path.iterdir())
    return str(raised.value).splitlines()[0]


def test_an_island_that_fails_is_told_with_its_host(tmp_path):
    assert "an island failed at lab (far): exit 1" in refusal(tmp_path, "failed", lambda sent: sent)


@pytest.mark.parametrize(
    ("name", "number", "reason"),
    [
        ("genes", 3, "a gene names no processor"),
        ("genes", -2, "a gene names no processor"),
        ("orders", 20, "an order of tasks is not a permutation"),
        ("orders", 1, "an order of tasks is not a permutation"),
        ("scores", np.nan, "a score is not a finite number from 0 up"),
        ("scores", np.inf, "a score is not a finite number from 0 up"),
        ("scores", -1, "a score is not a finite number from 0 up"),
        ("evaluations", -5, "evaluations went from 0 to -5"),
        ("evaluations", 2**62, f"evaluations went from 0 to {2**62}"),
        ("evaluations", 0, "it was not evaluated"),
        ("children", -1, "children went from 0 to -1"),
        ("found", 2**62, f"found went from 0 to {2**62}"),
        ("processor_seconds", np.nan, "it took nan processor seconds"),
        ("processor_seconds", np.inf, "it took inf processor seconds"),
        ("processor_seconds", -0.5, "it took -0.5 processor seconds"),
    ],
)
def test_what_comes_back_is_checked_before_compiled_code_follows_it(tmp_path, name, number, reason):
    def change(arrays):
        arrays["scores"].fill(1.0)
        arrays[name][...] = number

    returned = changed(change, evaluations=np.int64(200))
    assert refusal(tmp_path, "ok", returned) == f"lab (far) returned an invalid island: {reason}"


def test_other_arrays_than_those_of_the_island_are_refused(tmp_path):
    wrong = "lab (far) returned an invalid island: "
    assert wrong in refusal(tmp_path, "ok", lambda _sent: b"nothing")
    seconds = refusal(tmp_path, "ok", lambda sent: sent)
    assert seconds == wrong + "its processor seconds are missing"
    for change in (
        changed(genes=np.zeros((1, 1), np.int32)),
        changed(evaluations=200.0),
        changed(lambda arrays: arrays.pop("found")),
    ):
        assert refusal(tmp_path, "ok", change) == wrong + "its arrays are not those of this island"


def test_a_file_that_is_missing_or_too_large_is_refused(tmp_path):
    wrong = "lab (far) returned an invalid island: "
    assert refusal(tmp_path, "ok", lambda _sent: None) == wrong + "0 files instead of one"
    compressed = changed(save=np.savez_compressed)
    assert refusal(tmp_path, "ok", compressed) == wrong + "it is compressed"
    padded = refusal(tmp_path, "ok", changed(padding=np.zeros(2**20)))
    assert padded.startswith(wrong + "8,")


def test_an_order_against_the_dependencies_is_refused(tmp_path):
    def reverse(arrays):
        arrays["orders"][-1] = arrays["orders"][-1][::-1].copy()

    assert "an order has a task before one that it depends on" in refusal(
        tmp_path, "ok", changed(reverse)
    )


def test_an_island_that_does_not_go_on_is_refused(tmp_path):
    """The search waits for its evaluations: it would send the island again without end."""

    def change(arrays):
        arrays["scores"].fill(1e9)

    message = refusal(tmp_path, "ok", changed(change, evaluations=np.int64(200)))
    assert message.endswith("it stopped after 200 of 215 evaluations")


def test_a_gene_of_a_processor_that_cannot_run_its_task_is_refused():
    problem = instance_of(FLOW)
    case = decoding_problem_of(Problem.of(problem.workflow, problem.platform))
    fits = case.fits.copy()
    fits[case.forth.row[7], 1] = False
    orders = np.tile(np.arange(20, dtype=np.uint32), (2, 1))
    genes = np.zeros((2, 20), np.int32)
    island = Island(case._replace(fits=fits), orders, genes, EvolutionSettings(0, 0.0, 0.0), 0)
    allowed, wrong = genes.copy(), genes.copy()
    allowed[0, 7], allowed[1, 7], wrong[1, 7] = -1, 2, 1
    island.restore({**island.state(), "genes": allowed})
    with pytest.raises(ValueError, match="a gene names a processor that cannot run its task"):
        island.restore({**island.state(), "genes": wrong})


def test_counts_of_an_island_do_not_fall():
    problem = instance_of(FLOW)
    case = decoding_problem_of(Problem.of(problem.workflow, problem.platform))
    orders, genes = np.tile(np.arange(20, dtype=np.uint32), (2, 1)), np.zeros((2, 20), np.int32)
    island = Island(case, orders, genes, EvolutionSettings(0, 0.0, 0.0), 0)
    island._scores.fill(1.0)
    island.evaluations = 200
    with pytest.raises(ValueError, match="evaluations went from 200 to 199"):
        island.restore({**island.state(), "evaluations": np.int64(199)})
    island.restore(island.state())


def test_a_damaged_file_is_no_island(tmp_path):
    whole = changed()
    header = io.BytesIO()
    large = {"descr": "<f8", "fortran_order": False, "shape": (2**50,)}
    np.lib.format.write_array_header_1_0(header, large)
    for content in (
        lambda sent: whole(sent).replace(b"\x93NUMPY", b"\x93DUMMY"),
        lambda _sent: zipped({"genes.npy": header.getvalue()}),
        lambda _sent: zipped({"genes": b"no array"}),
    ):
        assert "lab (far) returned an invalid island" in refusal(tmp_path, "ok", content)


def test_only_islands_can_evolve_elsewhere(tmp_path):
    runner = PlaceRunner(Returns(tmp_path, "ok", bytes), "lab")
    with pytest.raises(InputError, match="heft has no islands"):
        PlanRequest(FLOW).plan(islands=runner)
    with pytest.raises(InputError, match="islands only optimise the makespan, not cost"):
        PlanRequest(FLOW, algorithm="ga", objective="cost").plan(islands=runner)
