"""Which lines are directives, what they say and where, and which only look like it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenturio.annotate.dialects import BUILT_IN, SIDE, UNKNOWN, dialect_of, named
from zenturio.annotate.directive_lines import KEYWORDS, find, hidden
from zenturio.annotate.source import Source, split_lines


def found(text, name="a.py"):
    source = Source.of(text.encode(), Path(name))
    return find(source, dialect_of(name, (source.lines or ("",))[0]))


def bodies(text, name="a.py"):
    return [line.body.text for line in found(text, name).lines]


def messages(text, name="a.py"):
    return [
        f"{c.place.line}:{c.place.column} {c.severity}: {c.message}; {c.hint}"
        for c in found(text, name).diagnostics
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.c", "//ZEN$ A"),
        ("a.c", "  \t// ZEN$ A"),
        ("a.c", "/*ZEN$ A*/"),
        ("a.c", "/* ZEN$ A */  "),
        ("a.py", "# ZEN$ A"),
        ("a.f", "CZEN$ A"),
        ("a.f", "c ZEN$ A"),
        ("a.f", "*  ZEN$ A"),
        ("a.f", "      ! ZEN$ A"),
        ("a.f90", "!ZEN$A"),
        ("a.lua", "-- ZEN$ A"),
        ("a.lua", "--[[ ZEN$ A ]]"),
        ("a.xml", "<!-- ZEN$ A -->"),
        ("a.ml", "(* ZEN$ A *)"),
        ("a.hs", "{- ZEN$ A -}"),
        ("a.hs", "-- ZEN$ A"),
        ("a.lisp", ";;; ZEN$ A"),
        ("a.tex", "%% ZEN$ A"),
        ("a.bat", "rem ZEN$ A"),
        ("a.bat", "@REM ZEN$ A"),
        ("a.bat", ":: ZEN$ A"),
        ("a.m4", "dnl ZEN$ A"),
        ("a.vb", "' ZEN$ A"),
        ("a.vim", '" ZEN$ A'),
        ("a.ini", "; ZEN$ A"),
        ("a.txt", "* ZEN$ A"),
        ("a.txt", "<!-- ZEN$ A -->"),
        ("a.json.zen", "ZEN$ A"),
        ("study.zen", "# ZEN$ A"),
    ],
)
def test_a_directive_is_a_comment_of_its_own(name, line):
    assert bodies(f"first\n{line}\nlast\n", name) == ["A"]
    assert not found(f"first\n{line}\nlast\n", name).diagnostics


@pytest.mark.parametrize(
    ("name", "text", "line", "what"),
    [
        ("a.py", 's = """\n# ZEN$ A\n"""', 2, "a string that begins in line 1"),
        ("a.py", "s = r'''\n\\'''\n# ZEN$ A\n'''", 3, "a string that begins in line 1"),
        ("a.py", 's = "# ZEN$ A"', 1, "in a string"),
        ("a.c", "/*\n // ZEN$ A\n*/", 2, "a comment block that begins in line 1"),
        ("a.c", "/*\n * ZEN$ A\n */", 2, "a comment block that begins in line 1"),
        ("a.c", 'puts("\\\n// ZEN$ A");', 2, "a string that begins in line 1"),
        ("a.cpp", 'auto s = R"x(\n// ZEN$ A\n)" )x";', 2, "a string that begins"),
        ("a.js", "let s = `\n// ZEN$ A\n`", 2, "a string that begins"),
        ("a.go", "s := `\n// ZEN$ A\n`", 2, "a string that begins"),
        ("a.rs", 'let s = r#"\n// ZEN$ A\n"#;', 2, "a string that begins"),
        ("a.rs", "/* /* */\n// ZEN$ A\n*/", 2, "a comment block"),
        ("a.lua", "s = [[\n-- ZEN$ A\n]]", 2, "a string that begins"),
        ("a.java", 's = """\n// ZEN$ A\n""";', 2, "a string that begins"),
        ("a.sh", "cat <<'EOF' >x\n# ZEN$ A\nEOF", 2, "a heredoc that begins in line 1"),
        ("a.sh", "cat <<-EOF\n\t# ZEN$ A\n\tEOF", 2, "a heredoc that begins in line 1"),
        ("a.sh", "awk '\n# ZEN$ A\n'", 2, "a string that begins"),
        ("a.pl", 'print <<"X";\n# ZEN$ A\nX', 2, "a heredoc"),
        ("a.pl", "=pod\n\n# ZEN$ A\n\n=cut", 3, "a comment block"),
        ("a.pl", "__END__\n# ZEN$ A", 2, "the text behind the program's end"),
        ("a.rb", "x = <<~X\n  # ZEN$ A\nX", 2, "a heredoc"),
        ("a.rb", "=begin\n# ZEN$ A\n=end", 2, "a comment block"),
        ("a.jl", "#=\n# ZEN$ A\n=#", 2, "a comment block"),
        ("a.m", "x = 1;\n%{\n% ZEN$ A\n%}", 3, "a comment block that begins in line 2"),
        ("a.yaml", "run: |\n  # ZEN$ A\n", 2, "a block of text"),
        ("a.toml", 'x = """\n# ZEN$ A\n"""', 2, "a string"),
        ("a.cmake", "set(x [=[\n# ZEN$ A\n]=])", 2, "a string"),
        ("a.tex", "\\begin{verbatim}\n% ZEN$ A\n\\end{verbatim}", 2, "a verbatim block"),
        ("a.md", "```c\n<!-- ZEN$ A -->\n```", 2, "a fenced block"),
        ("a.ml", 'let s = "\n(* ZEN$ A *)\n"', 2, "a string"),
        ("a.sql", "SELECT '\n-- ZEN$ A\n'", 2, "a string"),
        ("a.ps1", "$s = @'\n# ZEN$ A\n'@", 2, "a string"),
        ("a.pas", "{\n// ZEN$ A\n}", 2, "a comment block"),
        ("a.php", "$s = <<<X\n# ZEN$ A\nX;", 2, "a heredoc"),
        ("a.nix", "x = ''\n# ZEN$ A\n'';", 2, "a string"),
        ("a.xml", "<![CDATA[\n<!-- ZEN$ A -->\n]]>", 2, "a CDATA section"),
        ("a.gp", "$d << E\n# ZEN$ A\nE", 2, "a data block"),
        ("a.c", "int n; // ZEN$ A", 1, "after code"),
        ("a.txt", "\\ ZEN$ A", 1, "\\ does not begin a comment"),
        ("a.f90", "n = 1 ! ZEN$ A", 1, "after code"),
        ("a.c", "n = ZEN$;", 1, "after code"),
        ("a.ini", "n = 1 ; ZEN$ A", 1, "after code"),
        ("a.pov", "#declare n = 5; //ZEN$ A", 1, "after code"),
        (
            "a.nec",
            "CM ZEN$ RUN x",
            1,
            "after CM is not a directive: CM is not a known comment sign",
        ),
        ("a.nec", "COM ZEN$ PARAM n = { 1 }", 1, "COM is not a known comment sign"),
        ("a.txt", "10 SC ZEN$RUN x", 1, "after other text is not a directive"),
        ("a.txt", 'C 001 ZEN$ RUN "x"', 1, "after other text is not a directive"),
        ("a.py", "// ZEN$ A", 1, "// does not begin a comment"),
        ("a.py", "## ZEN$ A", 1, "does not come directly after"),
        ("a.json", "// ZEN$ A", 1, "data files have no comments"),
    ],
)
def test_what_stands_in_a_string_or_behind_code_is_a_warning_that_says_so(name, text, line, what):
    for end in ("\n", "\r\n"):
        result = found(text.replace("\n", end), name)
        assert result.lines == ()
        (diagnostic,) = result.diagnostics
        assert diagnostic.severity == "warning"
        assert diagnostic.place.line == line
        assert diagnostic.place.text[diagnostic.place.column - 1 :].startswith("ZEN$")
        assert what in diagnostic.message
        assert diagnostic.hint


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("a.c", 'f("/*");'),
        ("a.c", "c = '\"';"),
        ("a.c", "// it's \"open"),
        ("a.c", "n = 1'000'000;"),
        ("a.py", '# don\'t """'),
        ("a.py", 's = \'"""\''),
        ("a.py", 's = "\\"" \'"\''),
        ("a.js", "x = /[`'\"]/.test(s)"),
        ("a.js", "y = a / b / `c`"),
        ("a.rs", "fn f<'a>(x: &'a str) -> char { '\"' }"),
        ("a.hs", "f' x = '\"'"),
        ("a.lua", "x = a[b[1]] -- [["),
        ("a.sh", "echo it\\'s $# ${#x} x#y # don't"),
        ("a.sh", "x=$((1 << n)); cat <<< word"),
        ("a.pl", "$x =~ m/'/; $n = $#list; # it's"),
        ("a.rb", "class << self; end # don't"),
        ("a.m", "y = x'; z = [y' x'];"),
        ("a.yaml", "a: it's # don't"),
        ("a.yaml", "a: 1 > 0\nb: c|d"),
        ("a.tex", "100\\% it's \"a"),
        ("a.lisp", '#\\" ?\\"'),
        ("a.f90", "s = 'it''s' ! don't"),
        ("a.sql", "SELECT 'it''s'"),
        ("a.md", "Some `ZEN` text, don't"),
        ("a.txt", "src/* don't \"open"),
        ("a.json.zen", "ZEN$ A /* ' \""),
        ("a.bat", "echo it's"),
        ("a.jl", 'y = x\' * "a"'),
        ("a.r", "x <- '\"'"),
    ],
)
def test_what_only_seems_to_begin_a_string_hides_no_directive(name, before):
    opener = dialect_of(name).opener
    closer = dialect_of(name).closers[opener]
    result = found(f"{before}\n{opener} ZEN$ B {closer}\n", name)
    assert [line.body.text for line in result.lines][-1:] == ["B"]
    assert not result.diagnostics


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        ("# zen$ PARAM n", "1:3 warning: zen$ does not begin a directive; did you mean ZEN$?"),
        ("# ZEN $ PARAM n", "1:3 warning: ZEN $ does not begin a directive; did you mean ZEN$?"),
        ("#ZEN SUBSTITUTE n", "1:2 warning: ZEN does not begin a directive; did you mean ZEN$?"),
        ("#$ZEN SUBSTITUTE n", "1:2 warning: $ZEN does not begin a directive; did you mean ZEN$?"),
        ("# Zen ASSIGN n", "1:3 warning: Zen does not begin a directive; did you mean ZEN$?"),
        ("#zen$& ASSIGN n", "1:2 warning: zen$& does not begin a directive; did you mean ZEN$&?"),
        ("#ZEN& x", "1:2 warning: ZEN& does not begin a directive; did you mean ZEN$&?"),
    ],
)
def test_a_misspelt_mark_is_a_warning(text, diagnostic):
    assert messages(text) == [diagnostic]
    assert bodies(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "# the zen of Python",
        "# ZEN",
        "# ZEN: run = 5",
        "# ZEN: n = RUN",
        "# Zen Param is a name",
        "# here ZEN$ SUBSTITUTE is explained",
        "# zenturio",
        "s = 'zen $'",
        "x = zen",
    ],
)
def test_prose_is_left_in_peace(text):
    assert messages(text) == []
    assert not text.startswith("#") or not found(text, "notes").diagnostics
    assert bodies(text) == []


def test_the_keywords_are_those_of_the_grammar():
    from zenturio.annotate import grammar

    assert set(grammar.KEYWORDS) | {"OFF", "ON"} == KEYWORDS


def test_a_directive_goes_on_in_several_lines_and_places_stay_right():
    text = "x\n  // ZEN$ PARAM n = { 1,  \n  // ZEN$&   2,\n// ZEN$& 3 }\n// ZEN$ B\n"
    first, second = found(text, "a.c").lines
    assert (first.first, first.last, first.indent, first.opener) == (1, 3, "  ", "//")
    assert first.body.text == "PARAM n = { 1, 2, 3 }"
    for text_, line, column in (("PARAM", 2, 11), ("1", 2, 23), ("2", 3, 14), ("3", 4, 10)):
        place = first.body.place(first.body.text.index(text_))
        assert (place.line, place.column) == (line, column)
        assert place.text[column - 1 :].startswith(text_)
    assert second.body.text == "B"


@pytest.mark.parametrize(
    "text",
    [
        "# ZEN$& lost",
        "# ZEN$ A\n\n# ZEN$& lost",
        "# ZEN$ A\nx\n# ZEN$& lost",
        "#ZEN$ OFF\n#ZEN$ ON\nx\n#ZEN$& x",
    ],
)
def test_what_goes_on_from_nothing_is_an_error(text):
    (diagnostic,) = found(text).diagnostics
    assert diagnostic.severity == "error"
    assert "goes on from the line before" in diagnostic.message


def test_behind_another_opener_nothing_goes_on():
    assert "behind '#'" in messages("// ZEN$ A\n# ZEN$& b\n", "a.txt")[0]
    assert bodies("// ZEN$ A\n# ZEN$& b\n", "a.txt") == ["A"]
    assert bodies("C ZEN$ A\nc ZEN$& b\n", "a.f") == ["A b"]


def test_off_hides_lines_until_on():
    text = "# ZEN$ A\n# ZEN$ OFF\n# ZEN$ B\nx # ZEN$\n# ZEN$ on\n# ZEN$ C\n"
    result = found(text)
    assert [line.body.text for line in result.lines] == ["A", "OFF", "on", "C"]
    assert [line.body.text for line in result.directives] == ["A", "C"]
    assert hidden(result.lines, 6) == (range(2, 4),)
    assert result.diagnostics == ()


def test_on_is_found_even_where_hidden_lines_open_a_string():
    assert bodies("# ZEN$ OFF\nx = '''\n# ZEN$ ON\n") == ["OFF", "ON"]


def test_off_without_on_and_on_without_off_are_warnings():
    assert messages("# ZEN$ OFF\nx\n") == [
        "1:8 warning: OFF without ON: zenturio ignores all directives that follow; "
    ]
    assert messages("# ZEN$ ON\n") == ["1:8 warning: ON without OFF: no directives were hidden; "]
    assert hidden(found("# ZEN$ OFF\nx\n").lines, 2) == (range(1, 2),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/* ZEN$ A\n*/", "the comment is not closed on this line: */"),
        ("/* ZEN$ A */ int n;", "the comment ends before the end of the line: */"),
        ("/* ZEN$ A */ /* B */", "the comment ends before the end of the line: */"),
    ],
)
def test_a_comment_that_does_not_fill_its_line_is_an_error(text, message):
    (diagnostic,) = found(text, "a.c").diagnostics
    assert (diagnostic.message, diagnostic.severity) == (message, "error")
    assert bodies(text, "a.c") == []


def test_a_binary_has_no_directives():
    assert find(Source.of(b"# ZEN$ A\n\0"), UNKNOWN).lines == ()


LANGUAGES = [d for d in (*BUILT_IN, UNKNOWN) if d.openers]
words = st.text("abcXYZ_019 ={},:", max_size=20)


@given(
    st.sampled_from(LANGUAGES),
    st.data(),
    st.lists(words, min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", " ", "\t  "]),
)
def test_any_body_is_found_behind_any_opener_with_any_line_end(dialect, data, parts, end, indent):
    opener = data.draw(st.sampled_from(dialect.openers))
    closer = dialect.closers[opener]
    indent = "" if opener in dialect.column_one else indent
    parts = [part.replace(closer, "") if closer else part for part in parts]
    marks = ["ZEN$ P", *["ZEN$&"] * (len(parts) - 1)]
    lines = [f"{indent}{opener} {m} {p} {closer}" for m, p in zip(marks, parts, strict=True)]
    source = Source(Path("x"), end.join(["", *lines, ""]))
    (line,) = find(source, dialect).lines
    wanted = " ".join(["P " + parts[0].strip(), *(part.strip() for part in parts[1:])])
    assert line.body.text.split() == wanted.split()
    assert (line.first, line.last) == (1, len(parts))
    assert (line.opener, line.closer, line.indent) == (opener, closer, indent)
    for i, character in enumerate(line.body.text):
        place = line.body.place(i)
        if not character.isspace():
            assert place.text[place.column - 1] == character
            assert split_lines(source.text)[place.line - 1].startswith(place.text)


@given(
    st.sampled_from(LANGUAGES),
    st.lists(  # so that most examples have directives, anywhere
        st.sampled_from("'\"`\\/*#-{}()[]<>=!|%;$@:~_ aCZEN\n\r")
        | st.sampled_from(("\n# ZEN$ A", "\n// ZEN$ A")),
        max_size=60,
    ),
)
def test_any_text_is_read_without_harm(dialect, pieces):
    text = "".join(pieces)
    result = find(Source(Path("x"), text), dialect)
    lines = split_lines(text)
    for line in result.lines:
        assert "ZEN$" in lines[line.first]
    for diagnostic in result.diagnostics:
        assert diagnostic.place.text in lines[diagnostic.place.line - 1]


def test_a_side_file_needs_no_opener():
    assert named("zen") is SIDE
    assert bodies("ZEN$ A\n  ZEN$& b\n# ZEN$ C", "x.csv.zen") == ["A b", "C"]
