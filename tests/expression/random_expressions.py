"""Random trees and columns: mostly well typed, small numbers, now and then anything at all."""

from __future__ import annotations

from random import Random

import numpy as np

from zenturio.errors import Passage
from zenturio.expression import Expression
from zenturio.expression.parser import read
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    Index,
    Logic,
    Member,
    Name,
    Negative,
    Not,
    OperatorStep,
    Positive,
    Power,
    SyntaxNode,
    Within,
)
from zenturio.expression.writer import write

EDGES = [2**31 - 1, -(2**31), 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1]
EDGES += [2**63 - 1, -(2**63), 2**62, -(2**62), 3 * 2**30, 46341]
BEYOND = [2**63, -(2**63) - 1, 2**64 + 1, 10**30, 10**400]
REALS = [0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 2.5, 3.5, 0.1, 7.0, 64.0, 1e-9, -2.0]
FAR = [1e308, -1e308, 5e-324, 2.0**53, 2.0**63, float("inf"), float("-inf"), float("nan")]
TEXTS = ["", "a", "b", "ab", "node1-a", "x/y/", "/usr/bin/cc", "Größe", "12"]
RELATIONS = ["==", "!=", "<", "<=", ">", ">="]

NAMES = {
    "int": ["i", "j", "j", "p", "p", "ni", "huge"],
    "real": ["x", "y", "y", "nx", "number"],
    "str": ["s", "t", "ns"],
    "bool": ["b", "c", "nb"],
}
ANY_NAME = ["i", "x", "s", "b", "nothing", "wild", "number"]


class Chance:
    """One random generator, and everything that is made of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def one(self, *choices):
        return self.random.choice(choices)()

    def small(self):
        return self.random.randint(-3, 9)

    def integer(self):
        return self.random.randint(-4, 12) if self.often(0.7) else self.random.choice(EDGES)

    def huge(self):
        return self.integer() if self.often(0.6) else self.random.choice(BEYOND)

    def real(self):
        if self.often(0.6):
            return self.random.choice(REALS)
        return self.random.choice(FAR) if self.often(0.4) else self.random.uniform(-100, 100)

    def text(self):
        return self.random.choice(TEXTS)

    def truth(self):
        return self.often(0.5)

    def null(self):
        return None

    def cell(self, name: str):
        """A value for the column *name*; those that begin with n may be NULL."""
        if name[0] == "n" and len(name) == 2:
            return None if self.often(0.3) else self.cell({"i": "j"}.get(name[1], name[1]))
        makers = {
            "i": self.integer,
            "j": self.small,
            "p": lambda: self.random.randint(1, 64),
            "x": self.real,
            "y": lambda: self.random.choice([0.5, 1.0, 2.0, 4.25, -1.0]),
            "s": self.text,
            "t": self.text,
            "b": self.truth,
            "c": self.truth,
            "nothing": self.null,
            "huge": self.huge,
            "number": lambda: self.one(self.integer, self.real),
            "wild": lambda: self.one(self.integer, self.real, self.text, self.truth, self.null),
        }
        return makers[name]()

    def column(self, name: str, length: int) -> list:
        tame = {"i": "j", "x": "y", "huge": "j", "number": "y"}
        source = tame.get(name, name) if self.often(0.5) else name
        return [self.cell(source) for _ in range(length)]

    def leaf(self, kind: str) -> SyntaxNode:
        if self.often(0.65):
            return Name(self.random.choice(NAMES[kind]))
        if kind == "int" and self.often(0.15):
            return Index(self.random.choice(["i", "p"]))
        if self.often(0.08):
            return Name(self.random.choice(ANY_NAME))
        constants = {
            "int": lambda: self.random.randint(0, 6) if self.often(0.8) else abs(self.huge()),
            "real": lambda: self.random.choice([0.0, 0.5, 2.0, 3.25, 1e300]),
            "str": self.text,
            "bool": self.truth,
        }
        return Constant(constants[kind]())

    def tree(self, kind: str, depth: int) -> SyntaxNode:
        """A tree that gives *kind*, at most *depth* levels below its root."""
        if depth == 0 or self.often(0.12):
            return self.leaf(kind)
        if self.often(0.08):
            other = kind if self.often(0.8) else self.random.choice(["int", "real"])
            return Conditional(
                self.tree(kind, depth - 1),
                self.tree("bool", depth - 1),
                self.tree(other, depth - 1),
            )
        maker = {"str": self.texts, "bool": self.conditions}.get(kind, self.numbers)
        return maker(kind, depth - 1)

    def chain(self, node, operators, kind: str, depth: int, most: int = 3) -> SyntaxNode:
        count = self.random.randint(1, most) if self.often(0.4) else 1
        choose = self.random.choice
        steps = (OperatorStep(choose(operators), self.tree(kind, depth)) for _ in range(count))
        return node(self.tree(kind, depth), tuple(steps))

    def call(self, functions: str, depth: int, *kinds: str) -> SyntaxNode:
        function = self.random.choice(functions.split())
        return Call(function, tuple(self.tree(kind, depth) for kind in kinds))

    def numbers(self, kind: str, depth: int) -> SyntaxNode:
        makers = [
            lambda: self.chain(Arithmetic, ["+", "-"], kind, depth),
            lambda: self.chain(Arithmetic, ["*", "//", "%"], kind, depth),
            lambda: self.chain(Arithmetic, ["*"], kind, depth),
            lambda: Power(self.tree(kind, depth), Constant(self.random.randint(0, 5))),
            lambda: Power(self.tree(kind, depth), self.tree(kind, depth)),
            lambda: Negative(self.tree(kind, depth)),
            lambda: Positive(self.tree(kind, depth)),
            lambda: self.call("abs", depth, kind),
            lambda: self.call("min max coalesce", depth, *[kind] * self.random.randint(2, 3)),
        ]
        if kind == "int":
            makers += [
                lambda: self.call("floor ceil round", depth, "real"),
                lambda: self.call("len", depth, "str"),
                lambda: self.call("gcd", depth, "int", "int"),
            ]
        else:
            makers += [
                lambda: self.call("sqrt log log2 exp", depth, self.random.choice(["int", "real"])),
                lambda: self.chain(Arithmetic, ["/", "*"], "int", depth),
                lambda: self.call("min max coalesce", depth, "int", "real"),
                lambda: self.mixed(Arithmetic, ["+", "-"], depth),
                lambda: self.mixed(Arithmetic, ["*", "/", "//", "%"], depth),
            ]
        return self.one(*makers)

    def mixed(self, node, operators, depth: int) -> SyntaxNode:
        step = OperatorStep(self.random.choice(operators), self.tree("real", depth))
        return node(self.tree("int", depth), (step,))

    def conditions(self, _: str, depth: int) -> SyntaxNode:
        kind = self.random.choice(["int", "int", "real", "str"])

        def connected():
            operands = [self.tree("bool", depth) for _ in range(self.random.randint(2, 4))]
            return Logic(self.random.choice(["and", "or"]), tuple(operands))

        def listed():
            options = [self.tree(kind, depth) for _ in range(self.random.randint(1, 5))]
            return Member(self.tree(kind, depth), tuple(options), self.truth())

        compared = [lambda: self.chain(Compare, RELATIONS, kind, depth)] * 4
        return self.one(
            *compared,
            *[connected] * 4,
            *[listed] * 2,
            lambda: self.mixed(Compare, RELATIONS, depth),
            lambda: self.chain(Compare, ["==", "!=", "==", *RELATIONS[:3]], "bool", depth, 1),
            lambda: Not(self.tree("bool", depth)),
            lambda: Within(self.tree("str", depth), self.whole(depth), self.truth()),
            lambda: self.call("ispow2", depth, "int"),
            lambda: self.call("divides", depth, "int", "int"),
            lambda: Call("match", (self.tree("str", depth), Constant("^[ax0-9]"))),
        )

    def whole(self, depth: int) -> SyntaxNode:
        """What may stand behind 'in': a parenthesis would open a list there."""
        choices = (lambda: self.leaf("str"), lambda: self.call("basename str", depth, "str"))
        return self.one(*choices)

    def texts(self, _: str, depth: int) -> SyntaxNode:
        return self.one(
            lambda: self.chain(Arithmetic, ["+"], "str", depth),
            lambda: self.call("str", depth, self.random.choice(["int", "real", "bool"])),
            lambda: self.call("basename", depth, "str"),
            lambda: self.call("min", depth, "str", "str"),
        )


def expression_of(tree: SyntaxNode) -> Expression:
    """The expression that says *tree*; constants that fail are not refused."""
    passage = Passage.of(write(tree))
    return Expression(passage, read(passage), passage.text)


def column_of(values: list) -> np.ndarray:
    """*values* in the machine's dtype if they are of one type that fits, else as objects."""
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
