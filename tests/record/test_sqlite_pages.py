"""The pages of a file hold the rows that SQLite reads there, whatever their size and the damage."""

import contextlib
import shutil
import sqlite3
import struct

import pytest

from zenturio.record.sqlite_pages import DamageError, SQLitePages, _pointers, _values, _varint

EDGES = [1 << bits for bits in (0, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62)]
INTEGERS = sorted({sign * edge + step for edge in EDGES for sign in (1, -1) for step in (-1, 0, 1)})
VALUES = [
    None, *INTEGERS, 2**63 - 1, -(2**63), 0.5, -1e300, "", "a", "größer", b"", b"\0\xff", "x" * 57, "x" * 58,
]  # fmt: skip
"""A value of each type, and of each length of a type's code."""


def create(path, size=4096, journal="delete"):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {size}")
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, value, second)")
    return connection


def fill(connection, values, begin=1):
    rows = [(begin + at, value, at) for at, value in enumerate(values)]
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        cursor.execute("COMMIT")


def expected(connection):
    return connection.execute("SELECT id, value, second FROM t ORDER BY id").fetchall()


def rows_of(pages):
    """The rows of the one table, in the order of their numbers."""
    rows = [row for top in pages.tops for page in pages.tree(top) for row in pages.rows(page)]
    assert None not in rows
    # The row of the schema has five columns; a row's own number stands for its key.
    return sorted((row.number, *row.values[1:]) for row in rows if len(row.values) == 3)


def typed(rows):
    return [(number, value, type(value), second) for number, value, second in rows]


@pytest.mark.parametrize("size", [512, 1024, 4096, 65536])
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_values_of_every_type_are_read(tmp_path, size, journal):
    with contextlib.closing(create(tmp_path / "a.db", size, journal)) as connection:
        fill(connection, VALUES, begin=-5)
        fill(connection, VALUES, begin=2**62)
        pages = SQLitePages(tmp_path / "a.db")
        assert pages.size == size
        assert typed(rows_of(pages)) == typed(expected(connection))


def test_a_file_that_ends_in_an_inner_page_is_read_whole(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(create(path, 512)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        count = 200
        fill(connection, ["x" * 100] * count)
        while path.read_bytes()[-512] != 5:  # until the root is full and is divided
            count += 1
            fill(connection, ["x" * 100], begin=count)
        pages = SQLitePages(path)
        assert pages.tops == [1, 2]  # the schema and the one table
        assert rows_of(pages) == expected(connection)
        assert len(expected(connection)) == count < 400


@pytest.mark.parametrize("size", [512, 1024, 4096, 8192, 65536])
def test_a_file_without_rows_has_the_pages_that_its_header_says(tmp_path, size):
    create(tmp_path / "a.db", size).close()
    pages = SQLitePages(tmp_path / "a.db")
    assert (pages.size, pages.count) == (size, 2)


@pytest.mark.parametrize(
    ("start", "stop", "wrong"), [(16, 18, b"\xff\xff"), (0, 18, b"x" * 16 + b"\2\0")]
)
def test_a_header_that_is_wrong_in_part_says_nothing_of_the_size(tmp_path, start, stop, wrong):
    path = tmp_path / "a.db"
    with contextlib.closing(create(path)) as connection:
        fill(connection, [f"{n}" * 40 for n in range(400)])
        rows = expected(connection)
    content = bytearray(path.read_bytes())
    content[start:stop] = wrong
    path.write_bytes(content)
    pages = SQLitePages(path)
    assert (pages.size, rows_of(pages)) == (4096, rows)


@pytest.mark.parametrize(("cell", "is_page"), [(256, True), (255, False)])
def test_a_page_without_a_cell_in_its_second_half_is_a_smaller_one(tmp_path, cell, is_page):
    page = struct.pack(">BHHHBH", 13, 0, 1, cell, 0, cell).ljust(512, b"\0")
    (tmp_path / "a.db").write_bytes(bytes(512) + page + page)
    assert SQLitePages(tmp_path / "a.db")._sense(512) == (2 * 512 if is_page else 0)


def test_the_last_page_may_be_a_part_of_the_list_of_free_ones(tmp_path):
    first = struct.pack(">III", 4, 1, 3)
    parts = b"\0", first, b"\xa5", struct.pack(">II", 0, 0)
    (tmp_path / "a.db").write_bytes(b"".join(part.ljust(4096, b"\0") for part in parts))
    pages = SQLitePages(tmp_path / "a.db")
    assert pages._trunk(2) == (4, [3])
    assert pages._trunk(4) == (0, [])
    for wrong in ((5, 1, 3), (4, 1, 5), (4, 1, 1), (4, 2, 3, 3), (0, 1023)):
        packed = struct.pack(f">{len(wrong)}I", *wrong).ljust(4096, b"\0")
        (tmp_path / "a.db").write_bytes(bytes(4096) + packed + bytes(2 * 4096))
        assert SQLitePages(tmp_path / "a.db")._trunk(2) == (0, [])


def test_a_part_of_the_list_of_free_pages_may_be_full(tmp_path):
    most = 512 // 4 - 2
    first = b"SQLite format 3\0" + (512).to_bytes(2, "big")
    for count, leaves in ((most, [*range(3, most + 3)]), (most + 1, [])):
        trunk = struct.pack(">II", 0, count) + struct.pack(f">{most}I", *range(3, most + 3))
        (tmp_path / "a.db").write_bytes(first.ljust(512, b"\0") + trunk + bytes(512 * count))
        assert SQLitePages(tmp_path / "a.db")._trunk(2) == (0, leaves)


@pytest.mark.parametrize("size", [512, 1024])
def test_rows_of_any_length_are_read_from_as_many_pages_as_they_need(tmp_path, size):
    lengths = [*range(size - 60, size + 10), *range(2 * size - 60, 2 * size + 20), 20 * size]
    with contextlib.closing(create(tmp_path / "a.db", size)) as connection:
        fill(connection, [bytes([length % 251]) * length for length in lengths])
        pages = SQLitePages(tmp_path / "a.db")
        assert rows_of(pages) == expected(connection)
        assert len(pages.children) > 0


def without_header(path):
    """The same file, the first page of which was overwritten."""
    content = bytearray(path.read_bytes())
    size = SQLitePages(path).size
    content[:size] = bytes(size)
    path.write_bytes(content)
    return SQLitePages(path)


@pytest.mark.parametrize("size", [512, 1024, 4096, 8192])
def test_without_its_first_page_a_file_is_read_as_before(tmp_path, size):
    with contextlib.closing(create(tmp_path / "a.db", size)) as connection:
        fill(connection, [f"{n}" * 40 for n in range(400)])
        rows = expected(connection)
    pages = without_header(tmp_path / "a.db")
    assert (pages.size, rows_of(pages)) == (size, rows)


@pytest.mark.parametrize("has_header", [True, False])
def test_rows_that_were_deleted_do_not_come_back(tmp_path, has_header):
    with contextlib.closing(create(tmp_path / "a.db", 512)) as connection:
        fill(connection, [b"a" * 400 for _ in range(600)])
        connection.execute("DELETE FROM t WHERE id > 20")
        rows = expected(connection)
    pages = SQLitePages(tmp_path / "a.db") if has_header else without_header(tmp_path / "a.db")
    assert rows_of(pages) == rows


def copies(folder, connection):
    """The database and its log as they are now, as a crash leaves them."""
    for path in list(folder.glob("a.db*")):
        shutil.copy(path, folder / path.name.replace("a.db", "copy.db"))
    return folder / "copy.db"


def test_of_a_log_the_pages_up_to_its_last_whole_commit_count(tmp_path):
    with contextlib.closing(create(tmp_path / "a.db", 512, "wal")) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        states = [expected(connection)]
        for begin in (1, 101, 201):
            fill(connection, [f"{begin}-{n}" for n in range(30)], begin)
            states.append(expected(connection))
        copy = copies(tmp_path, connection)
        log = copy.with_name("copy.db-wal")
        content = log.read_bytes()
        assert rows_of(SQLitePages(copy)) == states[-1]
        seen = []
        for end in range(len(content), 31, -(512 + 24)):
            log.write_bytes(content[:end])
            pages = SQLitePages(copy)
            rows = rows_of(pages) if pages.count else []
            assert rows in states
            seen += [rows] if rows not in seen else []
        assert seen == states[::-1]
        broken = bytearray(content)
        broken[-100] ^= 1
        log.write_bytes(broken)
        assert rows_of(SQLitePages(copy)) == states[-2]
        for at in (0, 10, 20, 26):  # a header that is not one: nothing of the log counts
            header = bytearray(content)
            header[at] ^= 0xFF
            log.write_bytes(header)
            assert SQLitePages(copy)._newer == {}


def test_a_tree_that_lacks_a_page_or_leads_back_is_broken(tmp_path):
    with contextlib.closing(create(tmp_path / "a.db", 512)) as connection:
        fill(connection, ["x" * 100 for _ in range(200)])
    pages = SQLitePages(tmp_path / "a.db")
    (top,) = [top for top in pages.tops if top in pages.children]
    assert not pages.is_broken(top)
    content = (tmp_path / "a.db").read_bytes()
    leaf = max(pages.leaves)
    start = (leaf - 1) * 512
    (tmp_path / "a.db").write_bytes(content[:start] + bytes(512) + content[start + 512 :])
    damaged = SQLitePages(tmp_path / "a.db")
    assert damaged.is_broken(top)
    assert len(rows_of(damaged)) == 200 - len(pages.pointers(leaf)[1])
    inner = content[(top - 1) * 512 : top * 512]
    looped = inner[:8] + struct.pack(">I", top) + inner[12:]
    (tmp_path / "a.db").write_bytes(content[: (top - 1) * 512] + looped + content[top * 512 :])
    circular = SQLitePages(tmp_path / "a.db")
    assert circular.is_broken(top)
    assert len(list(circular.tree(top))) == len(set(circular.tree(top)))


def test_a_page_that_is_not_there_is_damage(tmp_path):
    with contextlib.closing(create(tmp_path / "a.db", 512)) as connection:
        fill(connection, [1])
    pages = SQLitePages(tmp_path / "a.db")
    assert len(pages[pages.count]) == 512
    for number in (0, -1, pages.count + 1):
        with pytest.raises(DamageError):
            pages[number]


def test_a_row_that_cannot_be_read_is_counted_and_the_others_are_read(tmp_path):
    with contextlib.closing(create(tmp_path / "a.db", 512)) as connection:
        fill(connection, [b"a" * 2000, 7])
    pages = SQLitePages(tmp_path / "a.db")
    content = bytearray((tmp_path / "a.db").read_bytes())
    overflow = content.index(b"\0\0\0", 512 * 2) // 512
    content[overflow * 512 : (overflow + 1) * 512] = bytes(512)
    (tmp_path / "a.db").write_bytes(content)
    (leaf,) = [leaf for leaf in pages.leaves if leaf > 1]
    rows = list(SQLitePages(tmp_path / "a.db").rows(leaf))
    assert [row and row.values[1:] for row in rows] == [None, (7, 1)]


def test_numbers_of_several_bytes_end_where_their_bytes_say():
    for value in (0, 127, 128, 16383, 16384, 2**56 - 1):
        data, left = [value & 0x7F], value >> 7
        while left:
            data.insert(0, left & 0x7F | 0x80)
            left >>= 7
        assert _varint(bytes([0xAA, *data, 0x55]), 1) == (value, 1 + len(data))
    assert _varint(b"\xff" * 10, 0) == (2**64 - 1, 9)
    with pytest.raises(IndexError):
        _varint(b"\x80", 0)


@pytest.mark.parametrize(
    "payload",
    [b"\x02\x0a", b"\x02\x0b", b"\x02\x01", b"\x02\x01\x05\x06", b"\x03\x01", b"\x02\x81\x00\x00", b"\x02\x10a"],
)  # fmt: skip
def test_a_payload_that_is_not_what_its_types_say_is_damage(payload):
    assert _values(b"\x02\x01\x05") == (5,)
    with pytest.raises((DamageError, IndexError)):
        _values(payload)


def test_a_page_whose_cells_lie_in_each_other_or_outside_of_it_is_none():
    def page(kind, *cells, count=None):
        number = len(cells) if count is None else count
        head = bytes([kind, 0, 0]) + number.to_bytes(2, "big") + bytes(3 + 4 * (kind in (2, 5)))
        return (head + b"".join(cell.to_bytes(2, "big") for cell in cells)).ljust(100, b"\0")

    for kind, first in ((13, 8), (10, 8), (5, 12), (2, 12)):
        end = first + 4  # two cells
        assert _pointers(page(kind, end, 99), 0) == (kind, [end, 99])
        assert _pointers(b"x" * 7 + page(kind, end + 7, 99), 7) == (kind, [end + 7, 99])
        for cells in ((end - 1, 99), (end, 100), (end, end), (0, 50)):
            assert _pointers(page(kind, *cells), 0) is None
        assert _pointers(page(kind, count=(100 - first) // 2 + 1), 0) is None
        assert _pointers(page(kind), 0) == (kind, [])
    for kind in (0, 1, 3, 11):
        assert _pointers(page(kind), 0) is None
    assert _pointers(b"", 0) is None
