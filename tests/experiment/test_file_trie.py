"""The digest of many files is that of the set, whichever of them are filled."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.experiment.identity import LEAF, FileTrie, file_record, path_hash


def naive(records):
    """The same by its definition, from all records at once."""

    def digest(parts):
        return blake2b(b"".join(parts), digest_size=16).digest()

    def node(below, depth):
        if len(below) <= LEAF:
            return digest([b"leaf", *sorted(below)])
        children = [[r for r in below if r.hex()[depth] == digit] for digit in "0123456789abcdef"]
        return digest([b"node", *(node(c, depth + 1) if c else bytes(16) for c in children)])

    return node(records, 0)


def files(count, salt=""):
    return {f"{salt}{i}.txt": file_record(f"{salt}{i}.txt", "file", bytes([i % 256] * 16)) for i in range(count)}  # fmt: skip


paths = st.lists(st.text(alphabet="ab/.", min_size=1, max_size=6), unique=True, max_size=80)


@given(paths, st.data())
def test_it_is_that_of_the_set_whatever_the_order_and_whatever_is_filled(names, data):
    content = st.binary(min_size=16, max_size=16)
    kinds = st.sampled_from(["file", "executable", "link"])
    records = {name: file_record(name, data.draw(kinds), data.draw(content)) for name in names}
    order = data.draw(st.permutations(names))
    filled = [name for name in order if data.draw(st.booleans())]
    constants = [records[name] for name in order if name not in filled]
    trie = FileTrie(constants, filled)
    assert trie.root([records[name] for name in filled]) == naive(list(records.values()))


@pytest.mark.parametrize("count", [0, 1, 16, 17, 300, 5000])
def test_one_filled_file_counts_as_a_constant_one(count):
    every = files(count)
    trie = FileTrie(every.values(), ["filled.c"])
    roots = set()
    for content in (b"1" * 16, b"2" * 16):
        mine = file_record("filled.c", "file", content)
        root = trie.root([mine])
        assert root == naive([*every.values(), mine]) == FileTrie([*every.values(), mine]).root()
        roots.add(root)
    assert len(roots) == 2


def test_files_that_no_digit_tells_apart_share_a_leaf():
    records = [file_record("a", "file", bytes([n]) * 16) for n in range(40)]
    assert (
        FileTrie(records).root() == FileTrie(records[::-1]).root() != FileTrie(records[1:]).root()
    )


def test_what_a_file_is_counts():
    kinds = ["file", "executable", "link"]
    roots = {FileTrie([file_record("a", kind, bytes(16))]).root() for kind in kinds}
    assert len(roots) == len(kinds)


def test_a_point_hashes_only_the_way_from_its_file_to_the_root(monkeypatch):
    from zenturio.experiment import identity

    trie = FileTrie(files(20_000).values(), ["filled.c"])
    path_hash("filled.c")
    hashed = []
    real = identity._hash
    monkeypatch.setattr(identity, "_hash", lambda content: hashed.append(1) or real(content))
    trie.root([file_record("filled.c", "file", bytes(16))])
    assert len(hashed) <= 6
