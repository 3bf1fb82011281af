"""Recursion that concrete values end, and recursion that the data ends."""

from __future__ import annotations

import functools
import math
import traceback
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.frontend import aliases, calls
from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()


def halve(x: Any) -> Any:
    if abs(x) < 0.1:
        return x
    return 2.0 * halve(x / 2) + x


@case([0.7], [0.05], [-90.0], [0.7])
def until_small(x: float) -> Any:
    return halve(x) ** 2


def even(x: Any) -> Any:
    return x if x < 1 else odd(x - 1) * 2


def odd(x: Any) -> Any:
    return x * x if x < 1 else even(x - 1)


@case([3.3], [0.3], [6.7])
def mutual(x: float) -> Any:
    return even(x)


def adaptive(f: Any, a: Any, b: Any, tol: float) -> Any:
    """Adaptive Simpson quadrature: a tree."""
    m = (a + b) / 2
    whole = (b - a) / 6 * (f(a) + 4 * f(m) + f(b))
    left = (m - a) / 6 * (f(a) + 4 * f((a + m) / 2) + f(m))
    right = (b - m) / 6 * (f(m) + 4 * f((m + b) / 2) + f(b))
    if abs(left + right - whole) < tol:
        return left + right
    return adaptive(f, a, m, tol / 2) + adaptive(f, m, b, tol / 2)


@case([1.0, 2.0], [0.2, 9.0])
def adaptive_quadrature(a: float, w: float) -> Any:
    return adaptive(lambda t: math.sin(w * t) + t * t, 0.0, a, 1e-3)


@case([0.7], [1.9])
def integral_of_an_integral_of_an_integral(x: float) -> Any:
    def integral(f: Any, n: int) -> Any:
        total = 0.0
        for k in range(n):
            total += f((k + 0.5) / n) / n
        return total

    return integral(lambda u: integral(lambda v: integral(lambda w: (u + v * w) * x, 12), 11) ** 2, 10)


def fibonacci(n: int, x: Any) -> Any:
    if n < 2:
        return x
    return fibonacci(n - 1, x) + fibonacci(n - 2, x * 0.5)


@case([0.7, 6], [1.9, 3])
def tree_of_concrete_depth(x: float, n: int) -> Any:
    return fibonacci(n, x) ** 2


def tree(x: Any, depth: int) -> Any:
    if x < 0.2 or depth > 5:
        return x * x
    return tree(x * 0.4, depth + 1) + tree(x * 0.55, depth + 1) * x


@case([0.9], [0.1], [2.5])
def binary_recursion_on_data(x: float) -> Any:
    return tree(x, 0)


def merge_sort(xs: list[Any]) -> list[Any]:
    if len(xs) < 2:
        return xs
    m = len(xs) // 2
    left, right = merge_sort(xs[:m]), merge_sort(xs[m:])
    out = []
    while left and right:
        if left[0] < right[0]:
            out.append(left[0])
            left = left[1:]
        else:
            out.append(right[0])
            right = right[1:]
    return out + left + right


@case([signed(4)], [-signed(4)], [np.array([3.0, 1.0, 2.0, 0.5])])
def merge_sort_of_data(x: np.ndarray) -> Any:
    return sum((k + 1) * v**2 for k, v in enumerate(merge_sort(list(x))))


@case([numbers(4)], [numbers(7, seed=1)])
def recursion_on_slices(x: np.ndarray) -> Any:
    def total(v: np.ndarray) -> Any:
        if len(v) == 0:
            return 0.0
        return v[0] ** 2 + 0.5 * total(v[1:])

    return total(x)


def find(x: Any, lower: Any, upper: Any) -> Any:
    """Bisection for the cube root."""
    m = (lower + upper) / 2
    if upper - lower < 0.2 * x:
        return m * x
    if m**3 < x:
        return find(x, m, upper)
    return find(x, lower, m)


@case([2.0], [0.6], [7.5])
def bisection(x: float) -> Any:
    return find(x, 0.0, x + 1.0)


@case([0.7, 14], [0.3, 16])
def paths_in_a_grid_counted_once(x: float, n: int) -> Any:
    """Without the memory of lru_cache these are 10 million calls and more."""

    @functools.cache
    def path(i: int, j: int) -> Any:
        if i == 0 or j == 0:
            return 1.0 + x * (i + j)
        return x * path(i - 1, j) + (1.0 - x) * path(i, j - 1)

    return path(n, n)


@case([signed(10)], [-signed(12)])
def what_lru_cache_keeps_is_of_one_place(x: np.ndarray) -> Any:
    @functools.lru_cache
    def scale(k: int) -> Any:
        return x[k] ** 2 + 1.0

    total = 0.0
    for v in x:
        if v > 0:
            total += v * scale(0)
        else:
            total += v * scale(1) * scale(1)
    return total * scale(0) + scale(1)


class Node:
    def __init__(self, split: float, left: Any, right: Any):
        self.split, self.left, self.right = split, left, right

    def __call__(self, x: Any) -> Any:
        return (self.left if x < self.split else self.right)(x)


@case([0.1], [0.4], [0.8])
def decision_tree(x: float) -> Any:
    leaf = [lambda v, k=k: v**k for k in range(1, 4)]
    return Node(0.5, Node(0.25, leaf[0], leaf[1]), leaf[2])(x)


test_gradients = case.test(functools.partial(judge, engine="source"))


@pytest.mark.parametrize("engine", ["source", "auto"])
def test_recursion_without_end_is_an_error_with_the_users_line(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_DEPTH", 150)

    def endless(x: float) -> Any:
        return endless(x * 0.5) + 1.0

    def on_one_side(x: float) -> Any:
        if x > 1e-300:
            return x
        return on_one_side(x * 0.5) + on_one_side(x * 2.0)

    with pytest.raises(RecursionError) as raised:
        gs.grad(endless, engine=engine)(1.0)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].filename == __file__
    assert gs.grad(on_one_side, engine=engine)(1.0) == 1.0
    with pytest.raises(RecursionError):
        gs.grad(on_one_side, engine=engine)(-1.0)


def test_branches_of_numbers_do_not_look_at_every_running_call(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    variables = aliases.variables
    monkeypatch.setattr(aliases, "variables", lambda *args: looked.append(1) or variables(*args))

    def deep(x: Any) -> Any:
        if x < 1.0:
            return x
        return deep(x - 1.0) * 1.5

    assert gs.grad(deep, engine="source", backend="python")(60.5) == pytest.approx(1.5**60)
    assert not looked
