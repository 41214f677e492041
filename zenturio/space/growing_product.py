"""The product of a space while its constraints come one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from zenturio.expression import Expression
from zenturio.space.component import Component, Product, component_of
from zenturio.space.definition import Definition, SpaceCondition, parted


def growing_products(definition: Definition) -> Iterator[Product]:
    """Yield the product under no constraint, under the first one, under the first two, ...

    Only the parts that a constraint touches are made anew, so that the others stay counted.
    """
    dimensions, constraints = definition.dimensions, definition.constraints
    conditions = iter(definition.conditions)
    order = {id(condition): at for at, condition in enumerate(definition.conditions)}
    components: dict[str, Component] = {}
    constants: list[Component] = []

    def take(made: Iterable[Component]) -> None:
        for component in made:
            if not component.part.names:
                constants.append(component)
            components.update(dict.fromkeys(component.part.names, component))

    def product() -> Product:
        distinct = {id(component): component for component in components.values()}
        return Product([*constants, *distinct.values()])

    take(map(component_of, parted(dimensions, (), ())))
    yield product()
    for number, constraint in enumerate(constraints, 1):
        new: list[SpaceCondition] = []
        if isinstance(constraint, Expression):
            new.append(next(conditions))
            names = new[0].names
        else:
            names = frozenset(constraint.names)
        touched = {id(components[name]): components[name] for name in names}
        for component in touched.values():
            new += component.part.conditions
        # In the order of declaration: a condition may be evaluable only where others hold.
        new.sort(key=lambda condition: order[id(condition)])
        if isinstance(constraint, Expression):
            zips = [group for component in touched.values() for group in component.part.zips]
        else:  # a constraint before may have tied some of these dimensions already
            groups = replace(definition, constraints=constraints[:number]).zips
            zips = [group for group in groups if id(components[group[0]]) in touched]
        inside = [p for p in dimensions if id(components[p.name]) in touched]
        take(map(component_of, parted(inside, new, zips)))
        yield product()
