"""Files are read to the byte: encodings, marks, line ends, mode bits, binaries."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.dialects.dialect_registry import dialect_of
from zenturio.annotate.source import Source, shown, split_lines, without_end

texts = st.text(
    st.one_of(
        st.sampled_from("\r\n\v\f\x1c\x85\u2028aé名😀"), st.characters(exclude_categories=["Cs"])
    )
)


@given(st.one_of(st.binary(), texts.map(str.encode)))
def test_any_bytes_come_back(content):
    source = Source.of(content)
    assert source.text is None or source.content == content
    assert (source.text is None) == (b"\0" in content and not _is_utf16_text(content))


def _is_utf16_text(content):
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if content.startswith(mark):
            try:
                return "\0" not in content[2:].decode(encoding)
            except UnicodeDecodeError:
                return False
    return False


@given(texts, st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]))
def test_each_encoding_is_recognized(text, encoding):
    text = text.replace("\0", "").lstrip("\ufeff")
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    if encoding == "latin-1":
        text += "é"
        content = text.encode("latin-1", "ignore")
        text = content.decode("latin-1")
    else:
        content = mark + text.encode(encoding)
    source = Source.of(content)
    if encoding == "latin-1" and source.encoding == "utf-8":
        assert content.decode() == source.text  # Ã followed by © is UTF-8 as well
        return
    assert source.text == text
    assert "".join(source.lines) == text
    assert source.content == content


@given(texts)
def test_lines_end_at_newlines_and_returns_and_nowhere_else(text):
    lines = split_lines(text)
    assert "".join(lines) == text
    ends = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [without_end(line) for line in lines] == (ends if ends[-1] else ends[:-1])


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"plain", "utf-8"),
        (codecs.BOM_UTF8 + b"marked", "utf-8"),
        (codecs.BOM_UTF8 + b"\xff", "latin-1"),
        (codecs.BOM_UTF16_LE + b"a\0", "utf-16-le"),
        (codecs.BOM_UTF16_LE + b"a", "latin-1"),
        (codecs.BOM_UTF16_BE + b"\0a", "utf-16-be"),
        (codecs.BOM_UTF32_LE + b"a\0\0\0", "binary"),
        (b"caf\xe9", "latin-1"),
        (b"\x7fELF\0", "binary"),
        (b"", "utf-8"),
    ],
)
def test_the_encoding_is_told_by_the_bytes(content, encoding):
    assert Source.of(content).encoding == encoding


def test_a_file_is_read_with_its_mode_and_a_binary_is_not_kept_in_memory(tmp_path):
    script, binary = tmp_path / "run.sh", tmp_path / "a.out"
    script.write_bytes(b"#!/bin/sh\r\n")
    script.chmod(0o750)
    binary.write_bytes(b"x" * (1 << 17) + b"\0")
    assert Source.read(script) == Source(script, "#!/bin/sh\r\n", mode=0o750)
    source = Source.read(binary)
    assert source.text is None
    assert source.lines == ()
    binary.write_bytes(b"\0new")
    assert source.content == b"\0new"


def test_what_would_end_or_open_a_comment_is_written_by_its_number():
    dialect = dialect_of("a.c")
    assert shown("a */ b /* c", dialect, "/*", "*/") == r"a *\x2f b /\x2a c"
    assert shown("a\nb", dialect, "//", "") == r"a\nb"
