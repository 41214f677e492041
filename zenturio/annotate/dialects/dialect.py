"""Dialects: how a language writes comments and texts, and what may hide a directive."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

# Verbatim constructs: strings, heredocs and comment blocks, which may hold text that only looks
# like a directive
#
# Each pattern takes a whole construct, from its beginning to its end or, if it is never closed, to
# the end of the file. Patterns see a text in which every line end is a single ``\n``. They are
# heuristics by design: they find where constructs end, they do not judge programs. Known limits:
# of two heredocs that begin in one line only the first is seen; the code inside ``${...}`` of a
# template string counts as string; Perl's and Ruby's ``q{...}`` and ``%w(...)`` over several lines
# count as code.


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
    r"""Return a string with ``\`` escapes."""
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


_CMAKE_BARE = re.compile(r"[A-Za-z0-9_./+:@%=,-]+")


def shell(text: str) -> str:
    """Return *text* as one word for any POSIX shell."""
    return shlex.quote(text)


def make(text: str) -> str:
    """Return *text* for a makefile, in which ``$`` and ``#`` are escaped."""
    return text.replace("$", "$$").replace("#", r"\#")


def cmake(text: str) -> str:
    """Return *text* as one argument of a CMake command."""
    return text if _CMAKE_BARE.fullmatch(text) else _double(text)


def docker(text: str) -> str:
    """Return *text* as one word of an ENV instruction."""
    return text if _CMAKE_BARE.fullmatch(text) else _double(text)


def tcl(text: str) -> str:
    """Return *text* as one word of Tcl; braces would fail for texts with unbalanced braces."""
    if _CMAKE_BARE.fullmatch(text):
        return text
    return '"' + re.sub(r'([\\"$\[\]{}])', r"\\\1", text) + '"'


def batch(text: str) -> str:
    """Within ``set "n=..."`` only the percent sign keeps a meaning."""
    return text.replace("%", "%%")


def fish(text: str) -> str:
    """Return *text* as one word of fish, where a backslash is an escape within single quotes."""
    if _CMAKE_BARE.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _double(text: str) -> str:
    return '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"'


def to_the_letter(text: str) -> str:
    """Return the text itself: what follows ``=`` is an expression of the host language."""
    return text


# Dialects


@dataclass(frozen=True)
class Dialect:
    """A comment syntax and its assignments; plug-ins offer more in group ``zenturio.dialects``."""

    name: str
    endings: tuple[str, ...] = ()
    """Ends of file names with their dot; one with a capital letter is compared as written."""
    names: tuple[str, ...] = ()
    """Patterns of whole file names."""
    shebangs: tuple[str, ...] = ()
    """Names of interpreters, without their versions."""
    line: tuple[str, ...] = ()
    """Openers of comments that end with the line."""
    block: tuple[tuple[str, str], ...] = ()
    """Openers and closers of comments."""
    nested: bool = False
    """Whether a block comment may hold block comments."""
    column_one: tuple[str, ...] = ()
    """Openers that count in column 1 only."""
    guard: str = ""
    """A pattern in front of *line* openers within a line: in a shell, ``x#y`` is one word."""
    verbatim: tuple[Verbatim, ...] = ()
    """What may hold text that only looks like a directive."""
    form: str | None = "{target} = {text}"
    """An assignment; None if the language has none."""
    sigil: str = ""
    """What a variable's name begins with in an assignment, whether or not the target has it."""
    quote: Callable[[str], str] = to_the_letter
    """How a text is written in an assignment in languages whose values are words."""
    fragile: tuple[str, ...] = ()
    """What may not stand in a comment, besides the closers."""
    width: int | None = None
    """The last column that the language reads."""
    prose: bool = False
    """Whether ``ZEN$`` may well be part of the text, as in a manual about directives."""

    @cached_property
    def closers(self) -> Mapping[str, str]:
        """Every opener with its closer, which is empty for comments that end with the line."""
        return dict.fromkeys((*self.line, *self.column_one), "") | dict(self.block)

    @property
    def openers(self) -> tuple[str, ...]:
        """Every opener of a comment, longest first."""
        return tuple(sorted(self.closers, key=len, reverse=True))

    @property
    def opener(self) -> str:
        """The opener that a written directive gets; nothing if there are no comments."""
        return next(iter((*self.line, *self.column_one, *dict(self.block))), "")

    def assign(self, target: str, text: str) -> str:
        """Return ``target = text`` as a programmer writes it in this language."""
        before, behind = self.around(target)
        return f"{before}{self.quote(text)}{behind}"

    def around(self, target: str) -> tuple[str, str]:
        """Return the texts of an assignment to *target* before and after the quoted text."""
        assert self.form is not None, f"{self.name} has no assignment"
        bare = target.removeprefix(self.sigil)
        has_own = not self.sigil or bare[:1] in {"$", "@", "%", "\\"}
        # Not str.format: targets and texts hold braces.
        before, _, rest = self.form.partition("{target}")
        between, _, behind = rest.partition("{text}")
        return f"{before}{bare if has_own else self.sigil + bare}{between}", behind

    @cached_property
    def head(self) -> re.Pattern[str]:
        """Matches a line that begins with a comment: indent, opener, and what follows."""
        anywhere = "|".join(
            _opening(o) for o in sorted({*self.line, *dict(self.block)}, key=len, reverse=True)
        )
        first = "|".join(map(re.escape, self.column_one)) or "(?!)"
        return re.compile(
            rf"(?s)(?:(?P<indent>[ \t\f\v]*)(?P<opener>{anywhere or '(?!)'})"
            rf"|(?P<first>{first}))(?P<gap>[ \t]*)(?P<rest>.*)"
        )

    @cached_property
    def constructs(self) -> re.Pattern[str] | None:
        """Matches strings, comments and the like; None if none are known."""
        if not self.verbatim:
            return None
        parts = [f"(?P<v{i}>{v.pattern})" for i, v in enumerate(self.verbatim)]
        for i, (opener, closer) in enumerate(self.block):
            rest = "" if self.nested else rf"(?s:.*?)(?:{re.escape(closer)}|\Z)"
            parts.append(f"(?P<b{i}>{re.escape(opener)}{rest})")
        if self.line:
            openers = "|".join(map(_opening, sorted(self.line, key=len, reverse=True)))
            parts.append(rf"(?P<line>{self.guard}(?:{openers}).*)")
        if self.column_one:
            parts.append(rf"(?P<first>(?m:^)[{re.escape(''.join(self.column_one))}].*)")
        return re.compile("|".join(parts))


def _opening(opener: str) -> str:
    """A pattern for an opener; one that is a word, like REM, counts in any case and ends there."""
    if len(opener) > 1 and opener[-1].isalpha():
        return rf"(?i:{re.escape(opener)})(?!\w)"
    return re.escape(opener)
