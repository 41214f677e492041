"""Expressions: parsed text with its names, type check and evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zenturio.errors import ExpressionError, Passage
from zenturio.expression.checker import Checker, refuse_faulty_constants
from zenturio.expression.parser import read
from zenturio.expression.point_compiler import Run, compile_tree
from zenturio.expression.scalar_functions import Type, Value
from zenturio.expression.syntax_tree import Host, Index, Name, SyntaxNode, walk
from zenturio.expression.writer import replaced, write

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Expression:
    """A text of the language; two are equal if they say the same, wherever they stand."""

    passage: Passage = field(compare=False)
    node: SyntaxNode
    text: str = field(compare=False)
    """As written; for an expression whose names were replaced, as it would be written."""

    @cached_property
    def names(self) -> frozenset[str]:
        """Parameters and metrics whose values are used."""
        return frozenset(node.name for node in walk(self.node) if isinstance(node, Name))

    @cached_property
    def host_names(self) -> frozenset[str]:
        """``memory`` for ``host.memory``."""
        return frozenset(node.name for node in walk(self.node) if isinstance(node, Host))

    @cached_property
    def indexed(self) -> frozenset[str]:
        """Parameters whose positions are used."""
        return frozenset(node.name for node in walk(self.node) if isinstance(node, Index))

    @cached_property
    def _run(self) -> Run:
        return compile_tree(self.node, self.passage)

    @cached_property
    def _names_only(self) -> bool:
        return not self.indexed and not self.host_names

    def _scene(
        self,
        values: Mapping[str, Value],
        positions: Mapping[str, int],
        host: Mapping[str, Value],
    ) -> dict[Any, Any]:
        """What is looked up; all that there is if something is missing, to tell what is near."""
        scene: dict[Any, Any] = {name: values[name] for name in self.names if name in values}
        scene |= {("index", name): positions[name] for name in self.indexed if name in positions}
        scene |= {("host", name): host[name] for name in self.host_names if name in host}
        if len(scene) < len(self.names) + len(self.indexed) + len(self.host_names):
            scene |= dict(values)
            scene |= {("index", name): position for name, position in positions.items()}
            scene |= {("host", name): value for name, value in host.items()}
        return scene

    def check(self, types: Mapping[str, Type | None], *, host: bool = False) -> Type | None:
        """The type of the value, ``None`` if it is not known; raises for all that is wrong."""
        checker = Checker(self.passage, types, host)
        type_ = checker.type(self.node)
        if checker.diagnostics:
            raise ExpressionError.all(checker.diagnostics)
        return type_

    def value(
        self,
        values: Mapping[str, Value],
        positions: Mapping[str, int] | None = None,
        host: Mapping[str, Value] | None = None,
    ) -> Value:
        """The value at one point."""
        # The common case needs no scene: names are looked up in the caller's mapping.
        if self._names_only:
            return self._run(values)
        return self._run(self._scene(values, positions or {}, host or {}))

    def column(
        self,
        columns: Mapping[str, np.ndarray[Any, Any]],
        length: int,
        positions: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> np.ndarray[Any, Any]:
        """The values of *length* rows at once: in each row what `value` says of it."""
        from zenturio.expression.column_evaluator import evaluate  # noqa: PLC0415 - loads NumPy

        return evaluate(self, columns, length, positions or {})

    def replace(self, definitions: Mapping[str, Expression]) -> Expression:
        """The same with the names that are defined written out, down to what is not."""
        trees = {name: definition.node for name, definition in definitions.items()}
        node = replaced(self.node, trees, self.passage)
        # The same object if nothing is replaced: its compiled closure is kept.
        return self if node is self.node else Expression(self.passage, node, write(node))

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Expression], tuple[Passage, SyntaxNode, str]]:
        # Cached closures cannot be pickled, and are made again where they are needed.
        return Expression, (self.passage, self.node, self.text)


def parse(text: str | Passage) -> Expression:
    """The expression that *text* says; an ExpressionError that shows where it says none."""
    passage = Passage.of(text)
    node = read(passage)
    checker = Checker(passage, None, host=True)
    checker.type(node)
    if checker.diagnostics:
        raise ExpressionError.all(checker.diagnostics)
    refuse_faulty_constants(node, passage)
    return Expression(passage, node, passage.text)
