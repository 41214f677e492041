r"""What may hold text that only looks like a directive: strings, heredocs, comment blocks.

Each pattern takes a whole construct, from its beginning to its end or, if it is never closed, to
the end of the file. Patterns see a text in which every line end is a single ``\n``. They are
heuristics by design: they find where constructs end, they do not judge programs. Known limits: of
two heredocs that begin in one line only the first is seen; the code inside ``${...}`` of a template
string counts as string; Perl's and Ruby's ``q{...}`` and ``%w(...)`` over several lines count as
code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A construct of a language: what messages call it, and a pattern.

    If *nested* (an opener and a closer as patterns) is given, *pattern* only begins the construct,
    which then ends where as many closers as openers have been seen.
    """

    what: str
    pattern: str
    nested: tuple[str, str] | None = None


def _quoted(quote: str, inside: str) -> str:
    r"""A string with ``\`` escapes."""
    return rf"{quote}[^{inside}]*(?:\\(?s:.)[^{inside}]*)*{quote}?"


# Strings that end with their line at the latest. They hide what begins constructs: "src/*".
SINGLE = Verbatim("a string", _quoted("'", r"'\\\n"))
DOUBLE = Verbatim("a string", _quoted('"', r'"\\\n'))
PLAIN_SINGLE = Verbatim("a string", r"'[^'\n]*'?")
PLAIN_DOUBLE = Verbatim("a string", r'"[^"\n]*"?')
CHARACTER = Verbatim("a character", r"(?<!\w)'(?:\\[^\n']+|\\'|[^'\\\n])'")

# Strings that go over lines.
LONG_SINGLE = Verbatim("a string", _quoted("'", r"'\\"))
LONG_DOUBLE = Verbatim("a string", _quoted('"', r'"\\'))
PLAIN_LONG_SINGLE = Verbatim("a string", r"'[^']*'?")
PLAIN_LONG_DOUBLE = Verbatim("a string", r'"[^"]*"?')
ANSI_SINGLE = Verbatim("a string", r"\$" + _quoted("'", r"'\\"))
BACKTICK = Verbatim("a string", _quoted("`", r"`\\"))
RAW_BACKTICK = Verbatim("a string", r"`[^`]*`?")
TRIPLE = Verbatim(
    "a string",
    r'(?:"""[^"\\]*(?:(?:\\(?s:.)|"(?!""))[^"\\]*)*(?:""")?'
    r"|'''[^'\\]*(?:(?:\\(?s:.)|'(?!''))[^'\\]*)*(?:''')?)",
)
RAW_TRIPLE = Verbatim("a string", r'"""(?s:.*?)(?:"{3,}|\Z)')
CPP_RAW = Verbatim("a string", r'R"(?P<cpp>[^()\\\s]{0,16})\((?s:.*?)(?:\)(?P=cpp)"|\Z)')
RUST_RAW = Verbatim("a string", r'\bb?r(?P<rust>#*)"(?s:.*?)(?:"(?P=rust)|\Z)')
CSHARP_VERBATIM = Verbatim("a string", r'@\$?"[^"]*(?:""[^"]*)*"?|\$@"[^"]*(?:""[^"]*)*"?')
R_RAW = Verbatim("a string", r"""\b[rR](?P<rq>["'])(?P<rd>-*)\((?s:.*?)(?:\)(?P=rd)(?P=rq)|\Z)""")
LUA_LONG = Verbatim("a string", r"(?<!--)\[(?P<lua>=*)\[(?s:.*?)(?:\](?P=lua)\]|\Z)")
CMAKE_BRACKET = Verbatim("a string", r"(?<!#)\[(?P<cm>=*)\[(?s:.*?)(?:\](?P=cm)\]|\Z)")
OCAML_QUOTED = Verbatim("a string", r"\{(?P<oc>[a-z_]*)\|(?s:.*?)(?:\|(?P=oc)\}|\Z)")
DOLLAR_QUOTED = Verbatim("a string", r"\$(?P<sql>\w*)\$(?s:.*?)(?:\$(?P=sql)\$|\Z)")
NIX_INDENTED = Verbatim("a string", r"''(?s:.*?)(?:''(?!['$\\])|\Z)")
HERE_STRING = Verbatim("a string", r"""@(?P<ps>["'])[ \t]*\n(?s:.*?)(?:\n(?P=ps)@|\Z)""")
YAML_SINGLE = Verbatim("a string", r"(?<![^\s\[{,:-])'[^']*'?")
YAML_DOUBLE = Verbatim("a string", r"(?<![^\s\[{,:-])" + _quoted('"', r'"\\'))

# An unclosed heredoc is none: ``1 << n`` is a shift.
_HEREDOC = (
    r"""(?P<hq>["'`\\]?)(?P<here>[A-Za-z_]\w*)(?P=hq)?.*\n"""
    r"(?:(?s:.*?)\n)??[ \t]*(?P=here)(?m:[ \t;,)]*$)"
)
HEREDOC = Verbatim("a heredoc", r"(?<!<)<<(?!<)[-~]?[ \t]*" + _HEREDOC)
TIGHT_HEREDOC = Verbatim("a heredoc", r"(?<!<)<<(?!<)[-~]?" + _HEREDOC)
PHP_HEREDOC = Verbatim("a heredoc", r"<<<[ \t]*" + _HEREDOC)
GNUPLOT_DATA = Verbatim("a data block", r"(?m:^)[ \t]*\$\w+[ \t]*<<[ \t]*" + _HEREDOC)

# Comments that go over lines and have no closer which could end a directive's line.
POD = Verbatim("a comment block", r"(?m:^)=[a-zA-Z](?s:.*?)(?:\n=cut\b.*|\Z)")
RUBY_BLOCK = Verbatim("a comment block", r"(?m:^)=begin\b(?s:.*?)(?:\n=end\b.*|\Z)")
# It closes at the first brace, so that no directive with a set can stand in one.
PASCAL_COMMENT = Verbatim("a comment block", r"\{[^}]*\}?")
_MATLAB = (r"(?m:^[ \t]*[%#]\{[ \t]*$)", r"(?m:^[ \t]*[%#]\}[ \t]*$)")
MATLAB_BLOCK = Verbatim("a comment block", _MATLAB[0], _MATLAB)
BEHIND_END = Verbatim("the text behind the program's end", r"(?m:^)__(?:END|DATA)__[ \t]*\n(?s:.*)")

# Blocks that are text in the eyes of their language.
YAML_BLOCK = Verbatim(
    "a block of text",
    r"(?m:^)(?P<yaml> *)(?:[^\n#]*[:-] +)?[|>][-+0-9]*[ \t]*(?:#.*)?\n"
    r"(?:(?:(?P=yaml) +\S.*|[ \t]*)(?:\n|\Z))*",
)
FENCE = Verbatim(
    "a fenced block", r"(?m:^) {0,3}(?P<fence>`{3,}|~{3,})(?s:.*?)(?:\n {0,3}(?P=fence)|\Z)"
)
TEX_VERBATIM = Verbatim(
    "a verbatim block",
    r"\\begin\{(?P<tex>verbatim\*?|lstlisting|minted|comment|Verbatim|filecontents\*?)\}"
    r"(?s:.*?)(?:\\end\{(?P=tex)\}|\Z)",
)
CDATA = Verbatim("a CDATA section", r"<!\[CDATA\[(?s:.*?)(?:\]\]>|\Z)")
MAKE_DEFINE = Verbatim("a define", r"(?m:^)[ ]*(?:override +)?define\b(?s:.*?)(?:\n[ ]*endef\b|\Z)")

# Tokens that are not what they seem.
ESCAPED = Verbatim("code", r"\\(?s:.)")
LISP_CHARACTER = Verbatim("a character", r"#?\\(?s:.)|\?\\?[\"';]")
JS_REGEX = Verbatim(
    "a regular expression",
    r"(?<=[=(,:;!&|?{}\[\n])[ \t]*/(?![*/ ])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/",
)
PERL_REGEX = Verbatim(
    "a regular expression",
    r"(?:(?:=~|!~|\bsplit|\()[ \t]*(?:m|qr|s|y|tr)?|\b(?:m|qr|s|y|tr))/(?:\\.|[^/\\\n])*/"
    r"(?:(?<=s/)(?:\\.|[^/\\\n])*/)?",
)
PERL_VARIABLE = Verbatim("code", r"\$[#\"'`&]|\\.")
