"""What a program uses outside of its folder: what is recorded of a version."""

from hashlib import blake2b

from zenturio.annotate.scan import scan
from zenturio.experiment.used_inputs import ask_versions

LIMIT = 2**16


def answer(tmp_path, count, end):
    path = tmp_path / "p.sh"
    path.write_text(
        f'#ZEN$ RUN "sh p.sh"\n#ZEN$ USE VERSION "yes x | head -c {count}; echo {end}"\n'
    )
    (found,) = ask_versions(scan([str(path)])).versions.values()
    return found


def test_of_a_long_answer_the_beginning_is_recorded_and_all_of_it_counts(tmp_path):
    said = "x\n" * LIMIT
    assert answer(tmp_path, LIMIT - 1, "y") == said[: LIMIT - 1] + "y"
    for end in ("y", "z"):
        output = f"{said[: LIMIT + 1]}{end}\n".encode()
        whole = blake2b(output, digest_size=16).hexdigest()
        assert answer(tmp_path, LIMIT + 1, end) == f"{said[:LIMIT]}\n... {whole}"
