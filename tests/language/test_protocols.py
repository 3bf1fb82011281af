"""What a user's classes decide for themselves: metaclasses, attribute access, operators of classes made from builtins."""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from collections import namedtuple
from typing import Any

import numpy as np

from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()


class Fields(type):
    """Notes the fields of its classes, and marks their instances."""

    def __new__(mcs, name: str, bases: Any, namespace: Any) -> Any:
        cls: Any = super().__new__(mcs, name, bases, namespace)
        cls.names = [k for k, v in namespace.items() if not k.startswith("__") and not callable(v)]
        return cls

    def __call__(cls, *args: Any, **options: Any) -> Any:
        made = super().__call__(*args, **options)
        made.doubled = 2.0 * made.rate
        return made

    @property
    def count(cls: Any) -> int:
        return len(cls.names)


class Config(metaclass=Fields):
    rate = 0.5
    steps = 3

    def __init__(self, **options: Any):
        for name, value in options.items():
            setattr(self, name, value)


@case([0.3], [0.9])
def metaclasses(x: float) -> Any:
    c = Config(rate=x)
    for _ in range(c.steps):
        x = x - c.rate * math.sin(x)
    return x * Config.count + Config().doubled + c.doubled


class Celsius:
    def __init__(self, degrees: Any):
        self.degrees = degrees

    def __getattribute__(self, name: str) -> Any:
        if name == "kelvin":
            return object.__getattribute__(self, "degrees") + 273.15
        return super().__getattribute__(name)


@case([0.7], [1.9])
def every_attribute_by_way_of_a_method(x: float) -> Any:
    t = Celsius(x)
    t.degrees *= x
    return t.kelvin * t.degrees


class Point(namedtuple("Point", "x y", defaults=[2.0])):
    __slots__ = ()

    @property
    def r(self) -> Any:
        return math.hypot(self.x, self.y)

    def __add__(self, other: Any) -> Any:
        return Point(self.x + other.x, self.y + other.y)

    def __mul__(self, factor: Any) -> Any:
        return Point(self.x * factor, self.y * factor)

    __rmul__ = __mul__

    def __lt__(self, other: Any) -> Any:
        return self.r < other.r


@case([0.7, 1.3], [-0.7, 0.3])
def operators_of_tuples(x: float, y: float) -> Any:
    p = Point(x)._replace(y=y)
    q = y * (p + Point(y=x, x=1.0)) * 2.0
    a, b = q
    return a * p.r + b + (x if p < q else y) + q._asdict()["x"] + sorted([q, p])[0].x


class Grid:
    def __init__(self, rows: Any):
        self.rows = rows

    def __contains__(self, x: Any) -> bool:
        return any(x is y for row in self.rows for y in row)

    def __divmod__(self, n: Any) -> Any:
        return self.rows[0][0] / n, self.rows[0][1]

    def __delitem__(self, k: int) -> None:
        del self.rows[k]


@case([0.7, 1.3], [-0.7, 0.3])
def membership_and_division(x: float, y: float) -> Any:
    g = Grid([[x, y], [x * y, 1.0]])
    first, second = divmod(g, 4.0)
    del g[0]
    return first * second + (5.0 * x if y in g else x * x) + g.rows[0][0]


class Node:
    __slots__ = ("value", "children", "parent", "__weakref__")

    def __init__(self, value: Any, *children: Any):
        self.value = value
        self.children = children
        self.parent: Any = None
        for child in children:
            child.parent = weakref.ref(self)

    def depth(self) -> int:
        return 0 if self.parent is None else 1 + self.parent().depth()

    def walk(self) -> Any:
        yield self
        for child in self.children:
            yield from child.walk()


@case([0.7, 1.3], [-0.7, 0.3])
def trees_that_know_their_parents(x: float, y: float) -> Any:
    tree = Node(x, Node(y, Node(x * y)), Node(2.0))
    for node in tree.walk():
        if node.value > 1.0:
            node.value = node.value * 0.5
    return sum(node.value * (node.depth() + 1) for node in tree.walk())


@case([numbers(6)], [signed(8)])
def items_in_groups(x: np.ndarray) -> Any:
    values = iter([*x, 5.0])
    total = sum(a * b for a, b in zip(values, values, strict=False))
    thrice = itertools.chain(x, x)
    return total + sum(a * b - c for a, b, c in zip(*[thrice] * 3, strict=False))


test_gradients = case.test(functools.partial(judge, engine="source"))
