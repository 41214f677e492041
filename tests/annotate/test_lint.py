"""What is likely a mistake is said, and what is right is left in peace."""

from __future__ import annotations

from pathlib import Path

import pytest

from annotated_cases import Case, check, titles
from zenturio.annotate.lint import LARGE_FILE_BYTES, lint
from zenturio.annotate.scan import scan
from zenturio.execute.folder_files import COPY_LIMIT_BYTES

LIKELY = Path(__file__).parent / "likely.txt"


def answer(case: Case) -> str:
    application = scan(case.paths, overrides=case.overrides)
    return "\n".join(map(str, dict.fromkeys((*application.warnings, *lint(application)))))


@pytest.mark.parametrize("title", titles(LIKELY))
def test_a_likely_mistake_is_warned_of_to_the_letter(title, tmp_path):
    check(LIKELY, title, answer, tmp_path)


def test_every_warning_is_a_warning(tmp_path):
    file = tmp_path / "prog.c"
    file.write_text("//ZEN$ PARAM n = { 1, 2 }\n")
    found = lint(scan(file))
    assert len(found) == 2
    assert {each.severity for each in found} == {"warning"}


def test_a_constraint_too_large_to_try_is_left_in_peace(tmp_path):
    file = tmp_path / "prog.c"
    file.write_text(
        "//ZEN$ PARAM a = { 1:100000 }\n//ZEN$ PARAM b = { 1:100000 }\n"
        "//ZEN$ CONSTRAINT VALUE a * b > 0\n//ZEN$ OBJECTIVE MAXIMIZE wtime\n"
        '//ZEN$ RUN "./prog {a} {b}"\n'
    )
    assert lint(scan(file)) == ()


def test_a_comment_that_a_batch_system_reads_is_code(tmp_path):
    file = tmp_path / "job.sh"
    file.write_text(
        '# ZEN$ SUBSTITUTE 512M = { 1G, 2G }\n# ZEN$ RUN "sbatch job.sh"\n#SBATCH --mem=512M\n'
    )
    assert lint(scan(file)) == ()


def test_an_objective_that_is_a_time_asks_what_is_right(tmp_path):
    file = tmp_path / "prog.sh"
    text = '# ZEN$ PARAM a = { 1, 2 }\n# ZEN$ RUN "./prog {a}"\n# ZEN$ OBJECTIVE MINIMIZE wtime\n'
    file.write_text(text)
    (warning,) = lint(scan(file))
    assert "no VERIFY checks them" in warning.message
    assert str(warning).startswith(f"{file}:3:27")
    file.write_text(text + '# ZEN$ VERIFY "./compare"\n')
    assert lint(scan(file)) == ()


THREADS = '# ZEN$ ENV OMP_NUM_THREADS = { 1, 2, 4 } AS threads\n# ZEN$ RUN "./solve"'


def test_threads_without_cpus_are_warned_of(tmp_path):
    file = tmp_path / "a.sh"
    file.write_text(THREADS + "\n")
    (found,) = [w for w in lint(scan(file)) if "slot" in w.message]
    assert found.message == "each experiment takes one slot, and OMP_NUM_THREADS is up to 4"
    assert "CPUS threads" in found.hint
    file.write_text(THREADS + " CPUS 2\n")
    (found,) = [w for w in lint(scan(file)) if "slot" in w.message]
    assert found.message == "each experiment takes 2 slots, and OMP_NUM_THREADS is up to 4"
    enough = THREADS + " CPUS 4\n"
    for text in (
        enough,
        THREADS + " CPUS threads\n",
        THREADS.replace("{ 1, 2, 4 }", "{ 1 }") + "\n",
    ):
        file.write_text(text)
        assert not [w for w in lint(scan(file)) if "slot" in w.message]


@pytest.mark.parametrize(
    ("run", "most"),
    [
        ('"OMP_NUM_THREADS={t} ./solve" CPUS 1', 4),
        ('"env MKL_NUM_THREADS=8 ./solve"', 8),
        ('"OMP_NUM_THREADS={t} ./solve" CPUS t', None),
        ('"OMP_NUM_THREADS=1 ./solve {t}"', None),
        ('"OMP_NUM_THREADS={t}0 ./solve"', None),  # no number that could be read here
    ],
)
def test_threads_that_a_command_sets_are_warned_of(tmp_path, run, most):
    file = tmp_path / "a.sh"
    file.write_text(f"# ZEN$ PARAM t = {{ 1, 4 }}\n# ZEN$ RUN {run}\n")
    found = [w.message for w in lint(scan(file)) if "slot" in w.message]
    assert [message.rpartition(" ")[2] for message in found] == (
        [] if most is None else [str(most)]
    )


LARGE = [
    "rsync -a big.bin new/",
    "tar cf x.tar big.bin",
    "cp -a big.bin b",
    "find . -type f",
    "true; du -b *",
]
FOLLOWED = [
    "rsync -aL big.bin new/",
    "tar chf x.tar big.bin",
    "cp big.bin b",
    "cp -aL big.bin b",
    "tar xf x.tar",
]


@pytest.mark.parametrize("command", [*LARGE, *FOLLOWED])
def test_programs_that_would_find_links_in_place_of_large_files_are_named(command, tmp_path):
    (tmp_path / "big.bin").write_bytes(bytes(2**20 + 1))
    (tmp_path / "study.zen").write_text(
        f'ZEN$ PARAM a = {{ 1, 2 }}\nZEN$ RUN "{command}; echo {{a}}"\n'
    )
    warned = [each for each in lint(scan(tmp_path)) if "big.bin" in each.message]
    assert len(warned) == (command in LARGE)
    (tmp_path / "big.bin").write_bytes(bytes(2**20))
    assert not [each for each in lint(scan(tmp_path)) if "big.bin" in each.message]


def test_a_large_file_is_one_that_work_folders_link_to():
    assert LARGE_FILE_BYTES == COPY_LIMIT_BYTES


def test_files_beside_a_program_are_taken_for_inputs_only_if_nothing_writes_them(tmp_path):
    script = tmp_path / "cluster.sh"
    script.write_text(
        '# ZEN$ ASSIGN id = { 1 }\n# ZEN$ RUN "sh cluster.sh > all.log; x -o best.out --log=x.log"\n'
        "make > reads.fa 2>>err.txt; tee copied.txt < in.fa\nx reads.fa --centroids c.fa\n"
    )
    for name in ("all.log", "best.out", "x.log", "reads.fa", "err.txt", "copied.txt"):
        (tmp_path / name).write_text("x")
    assert lint(scan(script)) == ()
    for name in ("in.fa", "c.fa"):
        (tmp_path / name).write_text("x")
    (doubt,) = lint(scan(script))
    assert doubt.message.startswith("the program names c.fa, in.fa, but a study of a single file")
    assert doubt.hint.startswith("if the program reads c.fa, run the whole folder: zen run ")
    assert doubt.hint.endswith("\nif the program writes it, the file there is not needed")
