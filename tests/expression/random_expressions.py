"""Trees and columns for the laws: typed where they should compute, wild where they may fail."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import strategies as st

from zenturio.errors import Passage
from zenturio.expression import Expression
from zenturio.expression.nodes import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Index,
    Literal,
    Logic,
    Member,
    Name,
    Negative,
    Not,
    Positive,
    Power,
    Step,
    Within,
    walk,
)
from zenturio.expression.parser import read
from zenturio.expression.writer import write

INTEGERS = st.one_of(
    st.integers(-4, 12),
    st.sampled_from([2**31 - 1, -(2**31), 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1]),
    st.sampled_from([2**63 - 1, -(2**63), 2**62, 3 * 2**30, 46341]),
)
HUGE_INTEGERS = st.one_of(INTEGERS, st.sampled_from([2**63, -(2**63) - 1, 2**64 + 1, 10**30, 10**400]))
REALS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 2.5, 3.5, 0.1, 7.0, 64.0, 1e-9]),
    st.sampled_from([1e308, -1e308, 5e-324, 2.0**53, 2.0**63, float("inf"), float("-inf"), float("nan")]),
    st.floats(),
)
TEXTS = st.sampled_from(["", "a", "b", "ab", "node1-a", "x/y/", "/usr/bin/cc", "Größe", "12"])
BOOLS = st.booleans()

COLUMNS = {
    "i": INTEGERS,
    "j": st.integers(-3, 9),
    "p": st.integers(1, 64),
    "x": REALS,
    "y": st.sampled_from([0.5, 1.0, 2.0, 4.25, -1.0]),
    "s": TEXTS,
    "t": TEXTS,
    "b": BOOLS,
    "c": BOOLS,
    "ni": st.one_of(st.none(), st.integers(-3, 9)),
    "nx": st.one_of(st.none(), REALS),
    "ns": st.one_of(st.none(), TEXTS),
    "nb": st.one_of(st.none(), BOOLS),
    "nothing": st.none(),
    "huge": HUGE_INTEGERS,
    "number": st.one_of(INTEGERS, REALS),
    "wild": st.one_of(st.none(), INTEGERS, REALS, TEXTS, BOOLS),
}
NAMES = {
    "int": ["i", "j", "p", "ni", "huge"],
    "real": ["x", "y", "nx", "number"],
    "str": ["s", "t", "ns"],
    "bool": ["b", "c", "nb"],
}
CONSTANTS = {
    "int": st.one_of(st.integers(0, 9), st.integers(0, 9), HUGE_INTEGERS.map(abs)),
    "real": st.one_of(
        st.sampled_from([0.0, 0.5, 2.0, 3.25, 1e-3]),
        st.floats(min_value=0, allow_infinity=False, allow_nan=False),
    ),
    "str": TEXTS,
    "bool": BOOLS,
}


def leaves(kind):
    named = st.sampled_from(NAMES[kind]).map(Name)
    constants = CONSTANTS[kind].map(Literal)
    indexed = [st.sampled_from(["i", "p"]).map(Index)] if kind == "int" else []
    other = st.sampled_from(["wild", "nothing", "number", "x", "s", "b"]).map(Name)
    return st.one_of(*[named] * 6, *[constants] * 3, *indexed, other)


def chain(node, operators, kind, tree, most=3):
    steps = st.tuples(st.sampled_from(operators), tree(kind)).map(lambda pair: Step(*pair))
    several = st.lists(steps, min_size=1, max_size=most).map(tuple)
    return st.builds(node, tree(kind), several)


def called(tree, function, *kinds):
    return st.tuples(*map(tree, kinds)).map(lambda arguments: Call(function, arguments))


def numbers(kind, tree):
    found = [
        chain(Arithmetic, ["+", "-"], kind, tree),
        chain(Arithmetic, ["*", "//", "%"], kind, tree),
        st.builds(Power, tree(kind), st.integers(0, 5).map(Literal)),
        st.builds(Power, tree(kind), tree(kind)),
        st.builds(Negative, tree(kind)),
        st.builds(Positive, tree(kind)),
        called(tree, "abs", kind),
        called(tree, "min", kind, kind),
        called(tree, "max", kind, kind, kind),
    ]
    if kind == "int":
        found += [called(tree, name, "real") for name in ("floor", "ceil", "round")]
        found += [called(tree, "len", "str"), called(tree, "gcd", "int", "int")]
    else:
        found += [called(tree, name, "real") for name in ("sqrt", "log", "log2", "exp")]
        found += [chain(Arithmetic, ["/", "*"], "int", tree), called(tree, "min", "int", "real")]
        found += [tree("int")]
    return found


def conditions(tree):
    relations = ["==", "!=", "<", "<=", ">", ">="]
    found = [chain(Compare, relations, kind, tree) for kind in ("int", "real", "str")]
    found += [st.builds(Compare, tree("int"), st.tuples(st.builds(Step, st.sampled_from(relations), tree("real"))))]
    found += [chain(Compare, ["==", "!="], "bool", tree, 1)]
    for kind in ("int", "real", "str"):
        options = st.lists(tree(kind), min_size=1, max_size=5).map(tuple)
        found.append(st.builds(Member, tree(kind), options, BOOLS))
    operands = st.lists(tree("bool"), min_size=2, max_size=4).map(tuple)
    found += [st.builds(Logic, st.sampled_from(["and", "or"]), operands)] * 4
    found += [
        st.builds(Not, tree("bool")),
        st.builds(Within, tree("str"), tree("str"), BOOLS),
        called(tree, "ispow2", "int"),
        called(tree, "divides", "int", "int"),
        st.tuples(tree("str"), st.sampled_from(["^a", "[0-9]+", "b$"]).map(Literal)).map(
            lambda arguments: Call("match", arguments)
        ),
    ]
    return found


def texts(tree):
    return [
        chain(Arithmetic, ["+"], "str", tree),
        *[called(tree, "str", kind) for kind in ("int", "real", "bool")],
        called(tree, "basename", "str"),
        called(tree, "min", "str", "str"),
    ]


@cache
def trees(kind, depth):
    """Trees of *kind*, at most *depth* levels below the root; now and then of another kind."""
    if depth == 0:
        return leaves(kind)

    def tree(other):
        return trees(other, depth - 1)

    found = {"bool": conditions, "str": texts}.get(kind, lambda tree: numbers(kind, tree))(tree)
    conditional = st.builds(Conditional, tree(kind), tree("bool"), tree(kind))
    return st.one_of(*found, conditional, *([leaves(kind)] if depth < 3 else []))


KINDS = st.sampled_from(["int", "real", "str", "bool", "bool", "bool"])
TREES = KINDS.flatmap(lambda kind: trees(kind, 3))


def expression_of(tree):
    """The expression that says *tree*, without refusing constants that fail."""
    passage = Passage.of(write(tree))
    return Expression(passage, read(passage), passage.text)


@st.composite
def cases(draw, most=9):
    """A tree, the values of its names as lists, and the same as columns."""
    tree = draw(TREES)
    length = draw(st.integers(1, most))
    used = sorted({node.name for node in walk(tree) if isinstance(node, Name)})
    values = {name: st.lists(COLUMNS[name], min_size=length, max_size=length) for name in used}
    lists = {name: draw(column) for name, column in values.items()}
    return tree, length, lists, {name: column_of(column) for name, column in lists.items()}


def column_of(values):
    dtypes = {int: np.int64, float: np.float64, bool: np.bool_}
    kinds = set(map(type, values))
    if len(kinds) == 1 and (dtype := dtypes.get(kinds.pop())):
        try:
            return np.array(values, dtype=dtype)
        except OverflowError:
            pass
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
