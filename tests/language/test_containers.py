"""Deques, dicts of derived classes, and NumPy functions called with objects of the user's classes."""

from __future__ import annotations

import collections
import functools
from typing import Any

import numpy as np

from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()


@case([signed(6)], [numbers(8)])
def window(x: np.ndarray) -> Any:
    last: collections.deque[Any] = collections.deque(maxlen=3)
    total = 0.0
    for v in x:
        last.append(v)
        total += sum(last) / len(last) * v
    last.rotate(1)
    last.appendleft(x[0])
    last.extend([1.0, x[1]])
    last[1] = last[1] * 2.0
    return total + last[0] + sum(k * v for k, v in enumerate(last)) + last.popleft() * last.pop()


@case([signed(6), 0.2], [numbers(8), 0.9], [signed(6), -0.5])
def queue_on_conditions(x: np.ndarray, limit: float) -> Any:
    waiting: collections.deque[Any] = collections.deque([1.0])
    total = 0.0
    for v in x:
        if v > limit:
            waiting.append(v)
        elif len(waiting) > 1:
            total += waiting.popleft() * v
    while waiting and total < 3.0:
        total = total * 0.5 + waiting.popleft() ** 2
    return total + len(waiting) * x[0]


@case([2.0], [0.3], [-0.5])
def list_used_up_until_a_total_is_reached(x: float) -> Any:
    left = [1.0, 2.0, x]
    total = 0.0
    while left and total < 3.0:
        total = total * 0.5 + left.pop() ** 2
    return total + len(left) * x


@case([2.0, 1.0], [0.5, 1.0], [2.0, -1.0])
def what_a_branch_did_to_a_deque_is_taken_back(x: float, y: float) -> Any:
    items = collections.deque([x, y])
    if x > 1:
        items.append(x * y)
        items[0] = 5.0
    else:
        items.reverse()
    if y > 0:
        items.extendleft([x, 2.0])
    return sum((k + 1) * v for k, v in enumerate(items)) + np.sum(np.array(items))


@case([signed(6), 0.0], [numbers(7), 0.9], [signed(6), 0.5])
def dicts_that_fill_themselves(x: np.ndarray, limit: float) -> Any:
    sums: collections.defaultdict[Any, Any] = collections.defaultdict(float)
    groups: collections.defaultdict[Any, list[Any]] = collections.defaultdict(list)
    for k, v in enumerate(x):
        sums[k % 3] += v * v
        sums["high" if v > limit else "low"] += v
        groups[k % 2].append(v)
    order = collections.OrderedDict(a=x[0], b=x[1])
    order["c"] = order.pop("a") * 2.0
    counts = collections.Counter("abca")
    counts["a"] += 1
    del order["b"]
    return sum(sums.values()) * len(groups) + groups[1][0] + order["c"] * counts["a"] + sums["low"] * 3.0


class Default(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        self[key] = value = 2.0 * len(key)
        return value


class Row:
    def __init__(self, items: Any):
        self.items = list(items)

    def __setitem__(self, key: int, value: Any) -> None:
        self.items[key] = value

    def __delitem__(self, key: int) -> None:
        del self.items[key]


@case([numbers(3)], [signed(5)])
def own_item_methods(x: np.ndarray) -> Any:
    d = Default(a=1.0)
    row = Row(x)
    row[0] = d["bb"] * x[1]
    del row[-1]
    return sum(row.items) + d["a"] + len(d)


class Tangent:
    """A number with a tangent, for which NumPy's functions call its methods."""

    def __init__(self, x: Any, dx: Any):
        self.x = x
        self.dx = dx

    def sin(self) -> Tangent:
        return Tangent(np.sin(self.x), np.cos(self.x) * self.dx)

    def __mul__(self, other: Any) -> Tangent:
        return Tangent(self.x * other, self.dx * other)

    __rmul__ = __mul__


class Quantity:
    """An array with a power of a unit."""

    def __init__(self, x: Any, power: int):
        self.x = x
        self.power = power

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        if method != "__call__" or ufunc is np.exp:
            return NotImplemented
        plain = [a.x if isinstance(a, Quantity) else a for a in args]
        power = sum(a.power for a in args if isinstance(a, Quantity)) if ufunc is np.multiply else self.power
        return Quantity(ufunc(*plain, **options), power)

    def __array_function__(self, f: Any, kinds: Any, args: Any, options: Any) -> Any:
        return Quantity(f(*[a.x if isinstance(a, Quantity) else a for a in args], **options), self.power)

    def __mul__(self, other: Any) -> Any:
        return np.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return np.multiply(other, self)


@case([numbers(3)], [signed(4)])
def numpy_functions_of_own_objects(x: np.ndarray) -> Any:
    t = np.float64(3.0) * np.sin(Tangent(x[0], 1.0)) * np.float64(2.0)
    q = Quantity(x, 1)
    square = np.multiply(q, q)
    scaled = np.ones(len(x)) * (np.sin(square) * 2.0)
    try:
        power: Any = np.exp(q)
    except TypeError:
        power = square.power
    return t.x * t.dx + np.sum(scaled).x * power + np.mean(square, axis=0).x + np.dot(q, q).x


test_gradients = case.test(functools.partial(judge, engine="source"))
