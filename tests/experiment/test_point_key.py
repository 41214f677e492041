"""The key of a point: other texts, another key, whatever the order of the names."""

import json
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.scan import scan
from zenturio.experiment import ExperimentGenerator, experiment_generator
from zenturio.experiment.identity import PointKeys

names = st.text(min_size=1, max_size=3)
texts = st.dictionaries(names, st.none() | st.text(max_size=3), max_size=4)


def naive(texts, repeat, seeds):
    """The sum modulo 2**64, twice, of hashes of names and texts."""
    first = second = 0
    for name, text in [*texts.items(), ("", str(repeat)), *seeds.items()]:
        parts = [
            part.encode("utf-8", "surrogateescape") for part in (name, text) if part is not None
        ]
        framed = b"".join(str(len(part)).encode() + b":" + part for part in parts)
        term = int.from_bytes(blake2b(framed, digest_size=16).digest(), "big")
        first, second = first + (term >> 64), second + term % 2**64
    return (first % 2**64).to_bytes(8, "big") + (second % 2**64).to_bytes(8, "big")


def key(texts, repeat=1, seeds=None):
    keys = PointKeys()
    return keys.key(keys.sum(texts), repeat, seeds or {})


@given(texts, st.integers(1, 100), st.dictionaries(st.just("seed"), st.text(max_size=3)))
def test_it_is_the_sum_of_the_hashes_of_names_and_texts(point, repeat, seeds):
    found = key(point, repeat, seeds)
    assert found == naive(point, repeat, seeds)
    assert found == key(dict(reversed(point.items())), repeat, seeds)


@given(texts, texts)
def test_other_texts_have_another_key(one, other):
    assert (key(one) == key(other)) == (one == other)


def experiments(folder, text):
    (folder / "a.sh").write_text(text)
    generator = ExperimentGenerator(scan(folder / "a.sh"))
    space = generator._space
    points = (space.point(number) for number in range(space.size))
    return [each for point in points for each in generator.experiments(point)]


STUDY = '# ZEN$ RUN "sh a.sh"\n# ZEN$ REPEAT 2 SEED s\n# ZEN$ SUBSTITUTE N = { 1, 2, 3 }\necho N\n'


def test_every_experiment_of_a_study_has_a_key_of_its_own_and_one_program(tmp_path):
    found = experiments(tmp_path, STUDY)
    assert len({each.key for each in found}) == len({each.digest for each in found}) == 6
    assert len({each.program.digest for each in found}) == 1


def test_more_values_leave_program_and_keys_and_another_text_is_another_program(tmp_path):
    before = {each.key: each for each in experiments(tmp_path, STUDY)}
    wider = experiments(tmp_path, STUDY.replace("2, 3", "2, 3, 7"))
    known = [each for each in wider if each.key in before]
    assert len(known) == len(before)
    for each in known:
        assert each.digest == before[each.key].digest
        assert each.program.digest == before[each.key].program.digest
    edited = experiments(tmp_path, STUDY.replace("echo", "echo 2"))
    assert {each.key for each in edited} == before.keys()
    assert {each.program.digest for each in edited}.isdisjoint(
        {each.program.digest for each in before.values()}
    )


@pytest.mark.parametrize("largest_table", [2**17, 1])
def test_the_keys_of_a_block_are_those_of_its_experiments(tmp_path, monkeypatch, largest_table):
    monkeypatch.setattr(experiment_generator, "_LARGEST_TABLE", largest_table)
    conditional = (
        f"{STUDY}# ZEN$ PARAM m = {{ 4, 5 }} WHEN N > 1\n# ZEN$ PARAM k = {{ 6 }} WHEN N > 2\n"
    )
    for text in (STUDY, conditional):
        (tmp_path / "a.sh").write_text(text)
        generator = ExperimentGenerator(scan(tmp_path / "a.sh"))
        for block in generator._space.blocks(2):
            for repeat in (1, 2):
                first, second = generator.keys(block, repeat)
                found = [
                    a.tobytes()[::-1] + b.tobytes()[::-1]
                    for a, b in zip(first, second, strict=True)
                ]
                assert found == [generator.experiment(p, repeat).key for p in block.points]
        assert generator._texts_of(generator._space.point(1), ["N"]) == {"N": "2"}
    texts = [generator._texts_of(generator._space.point(n), ["m"])["m"] for n in range(5)]
    assert texts == [None, "4", "5", "4", "5"]  # of the one that is not always there


def test_recorded_parts_of_a_program_stand_in_the_order_of_their_names(tmp_path):
    text = '# ZEN$ RUN "sh a.sh"\n# ZEN$ ENV Z = { 1 }\n# ZEN$ ENV A = { 2 }\n'
    (each,) = experiments(tmp_path, text)
    document = json.loads(each.program.document())
    assert list(document) == sorted(document)
    assert list(document["environment"]) == ["A", "Z"]


def test_two_parameters_that_change_places_are_another_program(tmp_path):
    text = (
        '# ZEN$ RUN "sh a.sh"\n# ZEN$ SUBSTITUTE A = { 1, 2 }\n'
        "# ZEN$ SUBSTITUTE B = { 1, 2 }\necho A B\n"
    )
    (one, *_), (other, *_) = (
        experiments(tmp_path, each) for each in (text, text.replace("echo A B", "echo B A"))
    )
    assert one.digest == other.digest  # both print 1 1
    assert one.program.digest != other.program.digest
