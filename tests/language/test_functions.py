"""Decorators, partials, dispatch, outer names that are written, comprehensions, unpacking, text, sorting by keys."""

from __future__ import annotations

import copy
import functools
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.edge_cases.judge import Table, judge, signed

case = Table()


def traced(f: Any) -> Any:
    @functools.wraps(f)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs) * 2.0

    return inner


def scaled_by(s: float) -> Any:
    def decorate(f: Any) -> Any:
        return functools.wraps(f)(lambda *args: s * f(*args))

    return decorate


@functools.cache
def cached(x: Any) -> Any:
    return x**3


@traced
@scaled_by(3.0)
def decorated(x: Any) -> Any:
    return x * x


@functools.singledispatch
def describe(x: Any) -> Any:
    return x * 2.0


@describe.register
def _(x: list) -> Any:
    return sum(describe(v) for v in x)


@describe.register
def _(x: float) -> Any:
    return x * x


class Tool:
    def __init__(self, x: Any):
        self.x = x

    def power(self, n: int, scale: Any = 1.0) -> Any:
        return scale * self.x**n

    square = functools.partialmethod(power, 2)

    @functools.singledispatchmethod
    def apply(self, v: Any) -> Any:
        return v * self.x

    @apply.register
    def _(self, v: int) -> Any:
        return v + self.x


@case([0.7, 1.3], [-0.7, 0.4])
def decorators_partials_and_dispatch(x: float, y: float) -> Any:
    @traced
    def local(v: Any) -> Any:
        return v + y

    p = functools.partial(Tool(x).power, 3, scale=y)
    t = Tool(y)
    total = decorated(x) + cached(x) + local(x) + p() + t.square(scale=x) + t.apply(x) + t.apply(3)
    return total + describe([x, [y, 2.0]]) + operator.attrgetter("x")(t) * operator.itemgetter(1)([x, y])


COUNT = 0
TOTAL = 1.5


def accumulate(x: Any) -> Any:
    global COUNT, TOTAL
    COUNT += 1
    TOTAL = TOTAL * x
    return TOTAL


def make_counter() -> Any:
    count = 0.5

    def step(x: Any) -> Any:
        nonlocal count
        count = count + x
        return count

    def both(x: float) -> Any:
        for _ in range(3):
            step(x)
        return step(x) * count

    return both


written_cell = make_counter()


@case([signed(4)], [-signed(4)])
def comprehensions_and_unpacking(x: np.ndarray) -> Any:
    first, *middle, last = x
    table = {k: v * v for k, v in enumerate(x)}
    keys = {len(str(k)) for k in table}
    (a, b), [c, *d] = (first, last), [*middle, first]
    merged = {**table, "extra": a * b, **{0: c}}
    nested = [[u * v for u in middle] for v in (first, last)]
    return sum(merged.values()) * len(keys) + sum(map(sum, nested)) + sum(d) + sum(v for v in x if v > 0)


@case([0.7, 1.3, 0.9], [-0.7, 0.4, -2.0], [1.0, 0.9, 0.8])
def sorting_by_keys(x: float, y: float, z: float) -> Any:
    items = [("a", x), ("b", y), ("c", z)]
    by_value = sorted(items, key=lambda p: p[1])
    backwards = sorted(items, key=lambda p: p[1] ** 2, reverse=True)
    low, high = min(items, key=lambda p: p[1]), max(items, key=operator.itemgetter(1))
    total = sum((k + 1) * v for k, (_, v) in enumerate(by_value)) + backwards[0][1] * 2.0
    pairs = sorted([(x, 1.0), (y, 2.0), (z, 3.0)])
    items.sort(key=lambda p: -p[1])
    return total + low[1] * high[1] + pairs[1][0] * pairs[1][1] + items[0][1] * (5.0 if items[0][0] == "a" else 7.0)


@dataclass
class Body:
    mass: Any
    position: Any


@case([signed(3), 0.4], [-signed(3), 1.1])
def deepcopy_and_sorting_of_objects(x: np.ndarray, m: float) -> Any:
    bodies = [Body(m * (k + 1), v) for k, v in enumerate(x)]
    copies = copy.deepcopy(bodies)
    for b in copies:
        b.position = b.position * 2.0
    ordered = sorted(bodies, key=lambda b: b.position)
    nearest = min(copies, key=lambda b: abs(b.position))
    return sum((k + 1) * b.mass * b.position for k, b in enumerate(ordered)) + nearest.position * nearest.mass


@case([0.7, 2], [-1.3, 3])
def match_on_classes(x: float, n: int) -> Any:
    def weight(shape: Any) -> Any:
        match shape:
            case Body(mass=m, position=float(p)) if p > 0:
                return m * p
            case Body(mass, p):
                return mass - p
            case [a, *rest]:
                return a * len(rest)
            case {"x": v, **others}:
                return v + len(others)
            case int() | None:
                return 3.0
            case str(name):
                return len(name) * x
        return 0.0

    shapes: list[Any] = [Body(2.0, x), [x, 1, 2], {"x": x * x, "y": 1}, None, "abc", n]
    return sum(weight(s) * (k + 1) for k, s in enumerate(shapes))


@case([0.7], [-1.3])
def text_does_not_matter(x: float) -> Any:
    name = f"{x:.3f} and {x!r:>10}"
    other = "value %s" % x  # noqa: UP031
    third = "{} {key}".format(1, key="k") + str(x)
    return x * len("abc".upper()) + (1.0 if isinstance(name + other + third, str) else 0.0)


@case([signed(6), 3.0], [signed(6, seed=4), 0.2])
def lists_and_dicts_change_in_loops_on_conditions(x: np.ndarray, limit: float) -> Any:
    groups: dict[str, list[Any]] = {"low": [], "high": []}
    best = {"value": x[0], "count": 0}
    kept = []
    for v in x:
        if v > 0.3:
            groups["high"].append(v)
            best["count"] += 1
        else:
            groups["low"].append(v * 2.0)
        if v > best["value"]:
            best["value"] = v
        if abs(v) * 2 < limit:
            kept.append(v)
    return sum(groups["low"]) + sum(groups["high"]) * best["value"] + best["count"] + sum(kept)


test_gradients = case.test(functools.partial(judge, engine="source"))


def test_a_derivative_leaves_globals_and_cells_as_they_are() -> None:
    def twice(x: float) -> Any:
        if x > 0:
            accumulate(x)
        return accumulate(x) * x + TOTAL

    before = COUNT, TOTAL, written_cell(0.0)
    for _ in range(2):
        # TOTAL * x**2 * x + TOTAL * x**2 for positive x, else TOTAL * x * x + TOTAL * x
        assert gs.grad(twice, engine="source")(2.0) == pytest.approx(TOTAL * (3 * 2.0**2 + 2 * 2.0))
        assert gs.grad(twice, engine="source")(-2.0) == pytest.approx(TOTAL * (2 * -2.0 + 1))
        cell = written_cell(0.0) ** 0.5
        assert gs.grad(written_cell, engine="source")(1.0) == pytest.approx(2 * 4 * (cell + 4.0))
    assert (COUNT, TOTAL, written_cell(0.0)) == before


def test_numba_functions_are_read_from_their_python_source() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def power(x: float, n: int) -> float:
        total = 0.0
        for k in range(n):
            total += math.sin(x) ** k
        return total

    def f(x: float) -> Any:
        return power(x, 4) * x

    h = 1e-6
    assert gs.grad(f, engine="source")(0.7) == pytest.approx((f(0.7 + h) - f(0.7 - h)) / (2 * h), rel=1e-7)
