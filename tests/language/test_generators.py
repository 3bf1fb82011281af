"""Generators and iterators: lazily run, left early, endless, delegated to, asked for single items; itertools."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import UnsupportedCode
from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()


def powers(x: Any, n: int) -> Iterator[Any]:
    value = 1.0
    for _ in range(n):
        value = value * x
        yield value


def iterates(x: Any) -> Iterator[Any]:
    """Newton's method for the square root, without end."""
    y = x
    while True:
        yield y
        y = 0.5 * (y + x / y)


def walk(tree: Any) -> Iterator[Any]:
    value, children = tree
    yield value
    for child in children:
        yield from walk(child)


@case([0.7, 3], [-1.1, 5], [0.3, 0])
def loop_over_a_generator(x: float, n: int) -> Any:
    total = 0.0
    for k, p in enumerate(powers(x, n)):
        total += p / (k + 1)
    return total + sum(powers(x, n)) * len(list(powers(x, n)))


@case([2.0], [7.0], [0.1])
def endless_generator_left_by_break(x: float) -> Any:
    before = None
    for y in iterates(x):
        if before is not None and abs(y - before) < 1e-12:
            break
        before = y
    return y * y * x


@case([2.0], [150.0])
def endless_generator_left_by_return(x: float) -> Any:
    for k, y in enumerate(iterates(x)):
        if abs(y * y - x) < 1e-12:
            return y + 0.001 * k
    return 0.0


@case([signed(5)], [-signed(5)], [signed(7, seed=2)])
def conditions_in_the_generator_and_in_the_loop(x: np.ndarray) -> Any:
    def positive(v: np.ndarray) -> Iterator[Any]:
        for u in v:
            if u > 0:
                yield u
                yield u**2
            elif u < -0.5:
                continue

    total = 1.0
    for p in positive(x):
        if p > 0.8:
            continue
        total = total * (1.0 + p)
    return total + sum(positive(x))


@case([signed(6), 0.9], [signed(6), 0.2], [signed(6, seed=3), 2.0])
def the_generator_ends_in_a_finally(x: np.ndarray, limit: float) -> Any:
    log = []

    def items(v: np.ndarray) -> Iterator[Any]:
        try:
            for u in v:
                yield u * 2.0
        finally:
            log.append(3.0)

    total = 0.0
    for u in items(x):
        total = total + u * u
        if total > limit:
            break
    return total * sum(log)


@case([0.7, 1.3], [-0.7, 0.4])
def trees_by_yield_from(x: float, y: float) -> Any:
    tree = (x, [(y, []), (x * y, [(y**2, []), (3.0, [])])])
    total = 0.0
    for k, v in enumerate(walk(tree)):
        total += (k + 1) * v
    a, *rest = walk(tree)
    return total * a + rest[-1] * len(rest) + max(walk(tree))


def cubed(x: Any) -> Iterator[Any]:
    yield x
    yield x * x
    return x**3


def continued(x: Any) -> Iterator[Any]:
    third = yield from cubed(x)
    yield third
    return 2.0 * (yield from cubed(third))


@case([0.7], [-1.1])
def results_of_generators(x: float) -> Any:
    total = 0.0
    steps = continued(x)
    while True:
        try:
            total += next(steps)
        except StopIteration as end:
            return total * end.value + sum(continued(x))


@case([0.7], [-1.1])
def endless_generator_with_a_return(x: float) -> Any:
    def doubling(v: Any) -> Iterator[Any]:
        while True:
            try:
                v = v * 2.0
                yield v
            except ValueError:
                return

    steps = doubling(x)
    return next(steps) * next(steps)


@case([0.7, 4], [-1.1, 6])
def zip_of_generators(x: float, n: int) -> Any:
    total = 0.0
    for p, q in zip(powers(x, n), powers(x + 1.0, n)):  # noqa: B905
        total += p * q
    for y, p in zip(iterates(x * x), powers(x, 3)):  # noqa: B905
        total += y * p
    for w, y in zip(np.array([x, 2.0, 3.0]), iterates(x * x)):  # noqa: B905
        total += w * y
    return total


@case([0.7], [-1.1])
def single_items(x: float) -> Any:
    g = powers(x, 3)
    first = next(g)
    second = next(g)
    rest = list(g)
    h = iterates(x * x)
    a, b = next(h), next(h)
    return first * 2.0 + second * 3.0 + rest[0] + next(g, 5.0) + a * b + h.send(None)


@case([0.7], [-1.1])
def conversion_and_unpacking(x: float) -> Any:
    a, b, c = powers(x, 3)
    d = {k: v for k, v in zip("ab", powers(x, 2))}  # noqa: B905
    values = np.array(list(powers(x, 4)))
    spread = math.hypot(*powers(x, 2))
    return (
        a * b
        + c
        + d["b"]
        + values.sum()
        + spread
        + tuple(powers(x, 2))[1]
        + sum([*powers(x, 2), *[p * x for p in powers(x, 2)]])
    )


@case([0.7, 3], [-1.1, 5])
def generators_of_generators(x: float, n: int) -> Any:
    def scaled(items: Any, s: Any) -> Iterator[Any]:
        for i in items:
            yield s * i

    def pairs(items: Any) -> Iterator[Any]:
        before = None
        for i in items:
            if before is not None:
                yield before, i
            before = i

    return sum(a * b for a, b in pairs(scaled(powers(x, n), x + 2.0)))


class Countdown:
    """An iterator written as a class."""

    def __init__(self, n: int, x: Any):
        self.n = n
        self.x = x

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> Any:
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.x**self.n


class Mesh:
    def __init__(self, points: Any):
        self.points = points

    def __iter__(self) -> Iterator[Any]:
        for k in range(len(self.points) - 1):
            yield self.points[k], self.points[k + 1] - self.points[k]


class Squares:
    def __init__(self, x: Any):
        self.x = x

    def __getitem__(self, k: int) -> Any:
        if k >= 4:
            raise IndexError(k)
        return self.x * k * k


@case([1.7, 3], [-1.1, 5])
def iterators_written_as_classes(x: float, n: int) -> Any:
    total = 0.0
    for v in Countdown(4, x):
        total += v
    c = Countdown(3, x)
    return total * next(c) + sum(c) + sum(Countdown(3, x)) + sum(Squares(x)) + [*Squares(x)][2]


@case([numbers(5)], [numbers(7, seed=1)])
def iter_as_a_generator_method(x: np.ndarray) -> Any:
    return sum(np.sin(p) * h for p, h in Mesh(x)) + sum(h for _, h in Mesh(x)) ** 2


@case([0.7], [-1.1])
def iterators_are_used_once(x: float) -> Any:
    g = (v * x for v in (1.0, 2.0, 3.0))
    it = iter([x, x * x, 4.0])
    first = next(it)
    total = sum(g) + 10.0 * sum(g) + first
    for v in it:
        total = total * v
    return total + sum(1.0 for _ in it)


@case([numbers(6)], [numbers(8, seed=1)])
def itertools_on_arrays(x: np.ndarray) -> Any:
    total = 0.0
    for a, b in itertools.pairwise(x):
        total += a * b
    for s in itertools.accumulate(x):
        total += np.sin(s)
    for v in itertools.chain(x, x * 2.0):
        total += v**2
    for v in itertools.islice(x, 1, None, 2):
        total += v**3
    for v in itertools.takewhile(lambda u: u > 0.6, x):
        total += 5.0 * v
    return total + sum(itertools.islice(itertools.count(), 5)) + sum(itertools.accumulate(x, operator.mul))


@case([0.7, 1.3], [-0.7, 0.4])
def itertools_on_lists(x: float, y: float) -> Any:
    items = [x, y, x * y]
    total = sum(a * b for a, b in itertools.combinations(items, 2))
    total += sum(a - b for a, b in itertools.product(items, [1.0, x]))
    total += sum(p[0] * p[1] ** 2 for p in itertools.permutations(items, 2))
    total += functools.reduce(lambda a, b: a * b + 1.0, items) + functools.reduce(operator.add, items, x)
    total += sum(a * b for a, b in itertools.zip_longest(items, [2.0], fillvalue=x))
    total += sum(itertools.compress(items, [1, 0, 1])) + sum(itertools.repeat(x, 3))
    total += sum(itertools.starmap(operator.mul, [(x, y), (y, 2.0)]))
    total += sum(itertools.chain.from_iterable([items, [x]])) + sum(itertools.islice(itertools.cycle(items), 7))
    for k in itertools.count(2):
        total += x**k
        if k > 4:
            break
    return total + sum(a for a, _ in itertools.groupby([1.0, 1.0, x])) + list(itertools.accumulate(items, max))[-1]


@case([2.0], [30.0], [0.4])
def count_until_converged(x: float) -> Any:
    y = x
    for _ in itertools.count():
        new = 0.5 * (y + x / y)
        if abs(new - y) < 1e-13:
            break
        y = new
    return y * x


test_gradients = case.test(functools.partial(judge, engine="source"))


def test_a_generator_run_ahead_is_refused_where_that_would_be_noticed() -> None:
    class State:
        value = 1.0

    def steps(state: State) -> Iterator[Any]:
        while True:
            yield state.value * 2.0

    def f(x: float) -> Any:
        state = State()
        state.value = x
        g = steps(state)
        first = next(g)
        state.value = 5.0 * x
        return first + next(g)

    with pytest.raises(UnsupportedCode, match="for loop"):
        gs.grad(f, engine="source")(1.0)
    assert gs.grad(f)(1.0) == 12.0  # the tape


def test_a_loop_sees_what_the_generator_changes_and_the_other_way_round() -> None:
    def f(x: float) -> Any:
        state = [x]

        def steps() -> Iterator[Any]:
            for _ in range(3):
                yield state[0]
                state[0] = state[0] * x

        total = 0.0
        for v in steps():
            total = total + v
            state[0] = state[0] + 1.0
        return total

    h = 1e-6
    assert gs.grad(f, engine="source")(1.3) == pytest.approx((f(1.3 + h) - f(1.3 - h)) / (2 * h), rel=1e-8)


def test_an_endless_generator_that_fills_a_list_is_refused() -> None:
    def f(x: float) -> Any:
        return sum(list(iterates(x)))

    with pytest.raises(UnsupportedCode, match="without end|20000"):
        gs.grad(f, engine="source")(2.0)
