"""How many threads the libraries of an experiment may start, and who says so."""

import pytest

from needs import needs
from zenturio.execute import local, worker
from zenturio.execute.experiment_codec import pack_experiment, unpack_outcome
from zenturio.execute.local import Local
from zenturio.execute.run_conditions import NAMES, thread_limits
from zenturio.experiment import Step
from zenturio.system.machine import usable_cores
from zenturio.testing.executor import PATIENCE, experiment, outcome

PRINT = 'echo "$OMP_NUM_THREADS:$OPENBLAS_NUM_THREADS:$VECLIB_MAXIMUM_THREADS"'


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def printed(place, *words, **more):
    return outcome(place, experiment(*words, **more)).stdout.head.decode().strip()


def test_an_experiment_may_start_as_many_threads_as_it_asks_for_cpus(tmp_path):
    with Local(tmp_path, 2) as place:
        assert printed(place, Step(PRINT, cpus=2)) == "2:2:2"
        assert printed(place, Step(PRINT, cpus=1)) == "1:1:1"
        assert printed(place, Step("true", cpus=3), PRINT) == "3:3:3"


@pytest.mark.parametrize(("slots", "pin", "threads"), [(1, False, 8), (3, False, 2), (16, False, 1),
                                                       (2, True, 1)])  # fmt: skip
def test_without_cpus_the_slots_share_the_cores(tmp_path, monkeypatch, slots, pin, threads):
    monkeypatch.setattr(local, "usable_cores", lambda: 8)
    with Local(tmp_path, slots, pin=pin) as place:
        assert printed(place, PRINT) == f"{threads}:{threads}:{threads}"


def test_what_the_file_or_the_user_says_counts_for_the_libraries_that_go_by_it(
    tmp_path, monkeypatch
):
    with Local(tmp_path, 1) as place:
        step = Step(PRINT, cpus=4)
        assert printed(place, step, environment={"OMP_NUM_THREADS": "3"}) == "3::4"
        assert printed(place, step, environment={"OPENBLAS_NUM_THREADS": "3"}) == "4:3:4"
    monkeypatch.setenv("OMP_NUM_THREADS", "7,2")
    with Local(tmp_path, 1) as place:
        assert printed(place, step) == "7,2::4"
        assert printed(place, step, environment={"OMP_NUM_THREADS": "3"}) == "3::4"


@pytest.mark.parametrize(
    ("command", "openmp", "mkl"),
    [
        ("./a", b"4", b"4"),
        ("./a --threads $OMP_NUM_THREADS", b"4", b"4"),
        ("OMP_NUM_THREADS=2 ./a", None, None),
        ("export OMP_NUM_THREADS=2; ./a", None, None),
        ("MKL_NUM_THREADS=2 ./a", b"4", None),
        ("mpiexec -genv OMP_NUM_THREADS 2 -n 2 ./a", None, None),
        ("mpirun -n 4 ./a", b"1", b"1"),
        ("/opt/bin/mpirun --bind-to none -np 2 ./a -n 9", b"2", b"2"),
        ("cd x && mpiexec.hydra -n2 ./a", b"2", b"2"),
        ("srun --ntasks=8 ./a", b"1", b"1"),
        ("mpirun ./a", b"1", b"1"),
        ("echo mpirun.txt; ./a -n 4", b"4", b"4"),
    ],
)
def test_assignments_in_commands_count_and_ranks_share_the_threads(command, openmp, mkl):
    limits = thread_limits(4, {}, ["true", command])
    assert (limits.get(b"OMP_NUM_THREADS"), limits.get(b"MKL_NUM_THREADS")) == (openmp, mkl)


def test_no_library_gets_more_threads_than_it_takes():
    limits = thread_limits(128, {}, ["./a"])
    assert (limits[b"OMP_NUM_THREADS"], limits[b"NUMEXPR_NUM_THREADS"]) == (b"128", b"64")


def test_a_worker_goes_by_its_job_and_not_by_the_machine(tmp_path, monkeypatch):
    def run(what, *words):
        (tmp_path / "parcel").write_bytes(pack_experiment(what))
        outcome = tmp_path / what.digest
        assert worker.main([f"{tmp_path}/parcel", str(outcome), "--stay", *words]) == 0
        back = unpack_outcome(outcome.read_bytes(), what.digest, tmp_path)
        return back.stdout.head.decode().strip()

    monkeypatch.setattr(local, "usable_cores", lambda: 64)
    assert run(experiment(PRINT)) == "1:1:1"
    assert run(experiment(Step(PRINT, cpus=3)), "--cpus", "") == "3:3:3"
    assert run(experiment(PRINT), "--cpus", "8") == "8:8:8"


def test_the_limits_are_conditions_of_the_attempt(tmp_path):
    with Local(tmp_path, 1) as place:
        said = outcome(place, experiment(Step("true", cpus=2)))
        assert said.conditions.other == {"OMP_NUM_THREADS": "2"}
        said = outcome(place, experiment("true", environment={"MKL_NUM_THREADS": "5"}))
        assert said.conditions.other["MKL_NUM_THREADS"] == "5"


@pytest.mark.parametrize(
    ("mpirun", "options"),
    [("mpirun.openmpi", "--allow-run-as-root --oversubscribe"), ("mpirun.mpich", "")],
)
def test_ranks_of_several_mpirun_stay_on_the_cores_of_their_slots(tmp_path, mpirun, options):
    needs(mpirun)
    if usable_cores() < 2:
        pytest.skip("one core alone")
    ranks = f"{mpirun} {options} -n 2 grep Cpus_allowed_list /proc/self/status"
    with Local(tmp_path, jobs=2, pin=True) as place:
        # Both slots are busy at the same time, so that each has its own core.
        meet = f"touch {tmp_path}/$1; while [ ! -e {tmp_path}/$2 ]; do sleep 0.01; done; " + ranks
        (tmp_path / "run").write_text(meet)
        runs = [place.submit(experiment(f"sh {tmp_path}/run {a} {b}")) for a, b in ("ab", "ba")]
        said = [set(run.result(PATIENCE).stdout.head.split(b"\n")) - {b""} for run in runs]
    assert [len(lines) for lines in said] == [1, 1], said
    assert said[0] != said[1]


@pytest.mark.parametrize(("jobs", "more", "policy"), [
    (2, {}, "none"), (1, {}, ""), (2, {"OMPI_MCA_hwloc_base_binding_policy": "core"}, "core"),
])  # fmt: skip
def test_open_mpi_binds_where_it_has_the_machine_or_the_user_says_so(tmp_path, jobs, more, policy):
    with Local(tmp_path, jobs) as place:
        command = 'echo "$OMPI_MCA_hwloc_base_binding_policy"'
        assert (
            outcome(place, experiment(command, environment=more)).stdout.head.decode().strip()
            == policy
        )
