"""The parser: precedence climbing, with an explicit depth limit."""

from __future__ import annotations

from dataclasses import replace

from zenturio.errors import ExpressionError, Passage, did_you_mean
from zenturio.expression.scalar_functions import ELSEWHERE, FUNCTIONS, INDEX, SIGNATURES, clipped
from zenturio.expression.syntax_hints import missing, unexpected
from zenturio.expression.syntax_tree import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    Host,
    Index,
    Logic,
    Member,
    Name,
    Negative,
    Node,
    Not,
    Positive,
    Power,
    Step,
    Within,
    children,
)
from zenturio.expression.tokenizer import Token, tokens

DEEPEST = 100
"""How many levels a tree may have, and how many operands may be open while it is read."""

CONDITIONAL, OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, POWER, ATOM = range(1, 11)
"""Ranks of operators: the higher binds tighter."""

RANKS = {
    "if": CONDITIONAL,
    "or": OR,
    "and": AND,
    "**": POWER,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not"), COMPARE),
    **dict.fromkeys("+-", SUM),
    **dict.fromkeys(("*", "/", "//", "%"), PRODUCT),
}

CLOSING = {"(": ")", "[": "]"}
_SIMPLER = "give names to its parts: derived parameters (name := ...)"


def read(passage: Passage) -> Node:
    """The tree of *passage*; an ExpressionError at the first word that cannot stand there."""
    parser = _Parser(passage)
    node = parser.expression(CONDITIONAL)
    if parser.token.kind != "end":
        raise parser.rest_refused()
    deepest, depth = depth_of(node)
    if depth > DEEPEST:
        place = passage.place(deepest.start, deepest.end)
        raise ExpressionError(
            f"the expression is nested more than {DEEPEST} deep", place=place, hint=_SIMPLER
        )
    return node


def depth_of(node: Node) -> tuple[Node, int]:
    """A node of the lowest level, and how many levels there are; without recursion."""
    deepest, depth, rest = node, 1, [(node, 1)]
    while rest:
        node, level = rest.pop()
        if level > depth:
            deepest, depth = node, level
        rest.extend((child, level + 1) for child in children(node))
    return deepest, depth


class _Parser:
    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.words = tokens(passage)
        self.at = 0
        self.depth = 0
        self.open: list[Token] = []

    @property
    def token(self) -> Token:
        return self.words[self.at]

    def take(self) -> Token:
        self.at += 1
        return self.words[self.at - 1]

    def expression(self, rank: int) -> Node:
        """An operand, and every operator behind it that binds at least as tight as *rank*."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.refused(
                self.token, f"the expression is nested more than {DEEPEST} deep", _SIMPLER
            )
        node = self._operand(rank)
        while True:
            token = self.token
            found = RANKS.get(token.text, 0) if token.kind in ("sign", "word") else 0
            if found < rank or not found:
                break
            node = self._operation(node, token, found)
        self.depth -= 1
        return node

    def _operand(self, rank: int) -> Node:
        token = self.take()
        match token.kind, token.text:
            case "name", _:
                return self._named(token)
            case "number" | "string", _:
                return Constant(token.value, start=token.start, end=token.end)
            case "sign", "(":
                return self._parenthesised(token)
            case "sign", "-" | "+":
                operand = self.expression(SIGN)
                sign = Negative if token.text == "-" else Positive
                return sign(operand, start=token.start, end=operand.end)
            case "word", "true" | "false":
                return Constant(token.text == "true", start=token.start, end=token.end)
            case "word", "not" if rank <= NOT:
                operand = self.expression(NOT)
                return Not(operand, start=token.start, end=operand.end)
            case "word", "not":
                told = "'not' binds too loosely to stand here"
                raise self.refused(token, told, "write (not ...)")
        raise self._operand_refused(token)

    def _parenthesised(self, opener: Token) -> Node:
        self.open.append(opener)
        if self.token.text == ")" and self.token.kind == "sign":
            raise self.refused(
                self.token, "nothing stands between the parentheses", "write a value there"
            )
        node = self.expression(CONDITIONAL)
        if self.token.text == "," and self.token.kind == "sign":
            hint = "a list stands behind 'in': n in (1, 2, 4)"
            raise self.refused(self.token, "a list cannot stand here", hint)
        return replace(node, start=opener.start, end=self._close(opener))

    def _operation(self, left: Node, token: Token, rank: int) -> Node:
        match rank:
            case 1:
                return self._conditional(left)
            case 2 | 3:
                return self._logic(left, token.text, rank)
            case 5:
                return self._comparison(left)
            case 9:
                self.take()
                right = self.expression(SIGN)
                return Power(left, right, start=left.start, end=right.end)
            case _:
                steps = self._steps(rank)
                return Arithmetic(left, steps, start=left.start, end=steps[-1].end)

    def _conditional(self, then: Node) -> Node:
        word = self.take()
        condition = self.expression(OR)
        if (self.token.kind, self.token.text) != ("word", "else"):
            raise self.refused(word, "this 'if' has no 'else'", "write 'a if condition else b'")
        self.take()
        other = self.expression(CONDITIONAL)
        return Conditional(then, condition, other, start=then.start, end=other.end)

    def _logic(self, left: Node, operator: str, rank: int) -> Node:
        operands = [left]
        while (self.token.kind, self.token.text) == ("word", operator):
            self.take()
            operands.append(self.expression(rank + 1))
        return Logic(operator, tuple(operands), start=left.start, end=operands[-1].end)

    def _steps(self, rank: int) -> tuple[Step, ...]:
        """Every operator of this *rank* that follows, with its right side."""
        steps = []
        while self.token.kind == "sign" and RANKS.get(self.token.text) == rank:
            sign = self.take()
            operand = self.expression(rank + 1)
            steps.append(Step(sign.text, operand, start=sign.start, end=operand.end))
        return tuple(steps)

    def _comparison(self, left: Node) -> Node:
        if self.token.kind == "sign":
            steps = self._steps(COMPARE)
            self._refuse_mixed()
            return Compare(left, steps, start=left.start, end=steps[-1].end)
        negated = self.token.text == "not"
        word = self.take()
        if negated and (self.token.kind, self.token.text) != ("word", "in"):
            raise self.refused(
                word, "an operator is missing before 'not'", "write 'not in' or 'and not'"
            )
        if negated:
            self.take()
        opener = self.token
        if opener.kind == "sign" and opener.text in "([":
            self.take()
            options, end = self._items(opener)
            if not options:
                raise self.refused(opener, "the list is empty", "put at least one value into it")
            self._refuse_mixed()
            return Member(left, options, negated, start=left.start, end=end)
        whole = self.expression(COMPARE + 1)
        self._refuse_mixed()
        return Within(left, whole, negated, start=left.start, end=whole.end)

    def _refuse_mixed(self) -> None:
        """``a < b in c`` would be read as a chain in Python; nobody means it."""
        token = self.token
        if token.kind in ("sign", "word") and RANKS.get(token.text) == COMPARE:
            hint = "put parentheses around one of the comparisons"
            raise self.refused(token, f"{token.text!r} cannot follow a comparison here", hint)

    def _named(self, name: Token) -> Node:
        token = self.token
        if token.kind == "sign" and token.text == "(":
            return self._call(name)
        if name.text == "host" and not name.value and token.kind == "sign" and token.text == ".":
            self.take()
            attribute = self.take()
            if attribute.kind != "name":
                raise self.refused(
                    attribute,
                    "a name is missing behind 'host.'",
                    "such as host.memory or host.cpus",
                )
            return Host(attribute.text, start=name.start, end=attribute.end)
        return Name(name.text, start=name.start, end=name.end)

    def _call(self, name: Token) -> Node:
        if name.text not in FUNCTIONS:
            hint = ELSEWHERE.get(name.text) or did_you_mean(name.text, FUNCTIONS)
            if hint.startswith("there"):
                hint = "functions are " + " ".join(sorted(FUNCTIONS))
            raise self.refused(name, f"unknown function {clipped(name.text)!r}", hint)
        arguments, end = self._items(self.take())
        if name.text == "index":
            match arguments:
                case (Name(parameter),):
                    return Index(parameter, start=name.start, end=end)
            raise self.refused(name, "'index' takes the name of a parameter", INDEX)
        signature = SIGNATURES[name.text]
        too_many = signature.most is not None and len(arguments) > signature.most
        if too_many or len(arguments) < signature.fewest:
            count = f"{len(arguments)} argument{'s' * (len(arguments) != 1)}"
            raise self.refused(
                name, f"{name.text!r} cannot take {count}", f"write {signature.form}"
            )
        return Call(name.text, arguments, start=name.start, end=end)

    def _items(self, opener: Token) -> tuple[tuple[Node, ...], int]:
        """Values with commas between them, up to what closes *opener*; and where that ends."""
        self.open.append(opener)
        found: list[Node] = []
        closer = CLOSING[opener.text]
        while not (self.token.kind == "sign" and self.token.text == closer):
            found.append(self.expression(CONDITIONAL))
            if not (self.token.kind == "sign" and self.token.text == ","):
                break
            self.take()
        return tuple(found), self._close(opener)

    def _close(self, opener: Token) -> int:
        closer = CLOSING[opener.text]
        token = self.token
        if token.kind == "sign" and token.text == closer:
            self.open.pop()
            return self.take().end
        if token.kind != "end":
            raise self.rest_refused()
        raise self.refused(opener, f"this {opener.text!r} is never closed", f"add {closer!r}")

    def rest_refused(self) -> ExpressionError:
        """Something follows a complete value."""
        opener = self.open[-1].text if self.open else ""
        told = unexpected(self.token, self.words[self.at - 1], CLOSING.get(opener, ""))
        return self.refused(self.token, *told)

    def _operand_refused(self, token: Token) -> ExpressionError:
        """A value should stand at *token*, but does not."""
        if token.kind != "end" or len(self.words) == 1:
            return self.refused(token, *missing(token))
        last = self.words[-2]
        told = f"a value is missing behind {last.text}"
        return self.refused(last, told, "the expression ends too early")

    def refused(self, token: Token, message: str, hint: str) -> ExpressionError:
        place = self.passage.place(token.start, max(token.end, token.start + 1))
        return ExpressionError(message, place=place, hint=hint)
