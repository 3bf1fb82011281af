"""Dicts, sets and attributes whose keys, or the order of them, depend on the data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import gradsmith as gs
from tests.edge_cases.judge import Table, judge, signed

case = Table()


def maybe(x: Any) -> dict[str, Any]:
    d = {"a": x}
    if x > 1:
        d["b"] = x * x
    return d


@case([2.0], [-0.5], [2.0])
def membership_and_length(x: float) -> Any:
    d = maybe(x)
    more = x * 3.0 if "b" in d else x * x
    return more + x * len(d) + d.get("b", 7.0 * x) + (5.0 * x if d.get("c") is None else 0.0)


@case([2.0], [-0.5], [2.0])
def all_of_a_dict(x: float) -> Any:
    total = 0.0
    for key, value in maybe(x).items():
        total += value * len(key)
    d = maybe(x)
    copies = [dict(d), {**d}, d | {"c": 1.0}, d.copy()]
    return total + sum(d.values()) * sum(len(c) for c in copies) + sum(sum(c.values()) for c in copies)


@case([2.0], [-0.5], [2.0])
def changing_methods(x: float) -> Any:
    d = maybe(x)
    total = d.setdefault("b", 7.0 * x) * 2.0
    e = maybe(x)
    total += e.pop("b", 1.0) + len(e)
    f = maybe(x)
    f.update(c=x)
    return total + sum(f.values())


@case([2.0], [-0.5], [2.0])
def emptied(x: float) -> Any:
    d = {"a": x}
    if x > 1:
        del d["a"]
    return x * ("a" in d) + x * 3.0 * (not d) + x * 5.0 * bool(d) + 7.0 * x * (d == {})


@case([2.0], [-0.5], [2.0])
def order_after_a_branch(x: float) -> Any:
    d = {"a": x, "b": 2.0 * x, "c": 3.0 * x}
    if x > 100:
        del d["a"]
        d["a"] = 1.0
    e = dict(d)
    if x > 1:
        e["a"] = e.pop("a")
    f: dict[str, Any] = {}
    if x > 1:
        f["p"], f["q"] = x, 1.0
    else:
        f["q"], f["p"] = 2.0, x
    return sum((k + 1) * v for y in (d, e, f) for k, v in enumerate(y.values()))


@case([2.0], [-0.5], [3.0])
def order_after_a_loop(x: float) -> Any:
    d = {"a": x, "b": 2.0 * x, "c": 3.0 * x}
    for _ in range(12):
        value = d.pop("a")
        d["a"] = value * 1.1
    return sum((k + 1) * v for k, v in enumerate(d.values()))


class Plain:
    pass


@case([2.0], [-0.5], [2.0])
def attributes_that_may_be_set(x: float) -> Any:
    o: Any = Plain()
    if x > 1:
        o.a = x * 3.0
    return (x * 5.0 if hasattr(o, "a") else x * x) + getattr(o, "a", 7.0 * x) + len(vars(o)) * x


@case([2.0], [-0.5], [2.0])
def attributes_by_way_of_the_dict(x: float) -> Any:
    o: Any = Plain()
    o.__dict__.update(a=x, b=2.0)
    if x > 1:
        o.__dict__["a"] = 3.0 * x
    o.a *= x
    vars(o)["c"] = o.b * x
    return o.a * o.c + sum((k + 1) * v for k, v in enumerate(vars(o).values()))


@case([signed(4)], [signed(6, seed=1)])
def sets_made_in_long_comprehensions(x: np.ndarray) -> Any:
    odd = {n % 3 for n in range(10)}
    squares = {n: n * n for n in range(12)}
    fixed = {frozenset([1, 2]): x[0]}
    return np.sum(x) * len(odd) + x[1] * len(squares) + fixed[frozenset([2, 1])] * sum(odd)


test_gradients = case.test(functools.partial(judge, engine="source"))


def test_a_dict_is_returned_with_the_keys_of_this_call() -> None:
    f = gs.jit(maybe, engine="source")
    assert f(2.0) == {"a": 2.0, "b": 4.0}
    assert f(0.5) == {"a": 0.5}
    assert f(3.0) == {"a": 3.0, "b": 9.0}
