"""What a call leaves behind outside of it: jit does as Python does, a derivative leaves everything as it was."""

from __future__ import annotations

import collections
import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.frontend.values import attribute_names

BACKENDS = ("native", "python")


def same_state(found: Any, expected: Any, seen: set[int] | None = None) -> None:
    """Whether two objects hold the same, in objects of the same classes."""
    seen = set() if seen is None else seen
    if id(found) in seen:
        return
    seen.add(id(found))
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert list(found) == list(expected)
        for k in found:
            same_state(found[k], expected[k], seen)
    elif isinstance(found, list | tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same_state(a, b, seen)
    elif isinstance(found, np.ndarray | float):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    elif names := sorted(attribute_names(found)):
        assert names == sorted(attribute_names(expected))
        for name in names:
            same_state(getattr(found, name), getattr(expected, name), seen)
    else:
        assert found == expected


POINTS = (0.7, 2.5, 3.2, -1.3)


class Counter:
    def __init__(self) -> None:
        self.calls = 0
        self.total = 0.0
        self.active = False
        self.last: Any = None
        self.items: list[Any] = [1.0]
        self.table = {"a": 1.0, "b": np.ones(2)}
        self.child: Any = None


class Node:
    def __init__(self, value: Any, parent: Any):
        self.value = value
        self.parent = parent
        self.children: list[Any] = []


@dataclasses.dataclass(slots=True)
class Pair:
    first: float
    second: np.ndarray


def numbers(c: Counter, x: float) -> float:
    c.calls += 1
    c.total = c.total + x
    c.active = True
    c.last = x if c.active else None
    return x * c.calls + c.total


def under_a_condition(c: Counter, x: float) -> float:
    if x > 1.0:
        c.total = x
        c.extra = 2.0 * x
        c.table["c"] = x
    else:
        c.total -= 1.0
    return c.total * x


def in_a_loop(c: Counter, x: float) -> float:
    while c.total < 5.3:
        c.total += abs(x)
    for k in range(3):
        c.items[0] = c.items[0] * k + x
    return c.total * c.items[0]


def containers(c: Counter, x: float) -> float:
    c.items.append(x)
    c.items.insert(0, [x, {"k": 2.0 * x}])
    c.table["b"] = c.table["b"] * x
    c.table["d"] = c.items
    del c.table["a"]
    c.table["a"] = 3.0
    return c.items[-1] * c.table["b"][0]


def new_objects(c: Counter, x: float) -> float:
    node = Node(2.0 * x, c)
    node.children = [Node(k * x, node) for k in range(2)]
    c.child = node
    c.last = c.pair = Pair(x, np.full(2, x))
    return node.children[1].value * node.parent.total


def deleted(c: Counter, x: float) -> float:
    c.scratch = x * x
    y = c.scratch
    del c.scratch
    del c.active
    return y


def arrays_in_place_and_anew(c: Counter, x: float) -> float:
    b = c.table["b"]
    b += x
    c.last = b
    c.table["b"] = np.array([x, x])
    b *= 2.0
    return float(np.sum(c.last))


def met_first_under_a_condition(c: Counter, x: float) -> float:
    if x > 1.0:
        c.table["b"][0] = 2.0 * x
        c.table["a"] = x * x
        c.items[0] = 3.0 * x
    return c.table["b"][0] * c.table["a"] * c.items[0] * x


def met_first_in_a_loop(c: Counter, x: float) -> float:
    k = 0
    while k < 2 + abs(x):
        c.table["b"][1] *= x
        c.table["a"] = c.table["a"] + x
        if c.table["a"] > 2.0:
            c.items[0] = c.items[0] * x
        k += 1
    return c.table["b"][1] * c.items[0] + c.table["a"]


FUNCTIONS = (
    met_first_under_a_condition,
    met_first_in_a_loop,
    numbers,
    under_a_condition,
    in_a_loop,
    containers,
    new_objects,
    deleted,
    arrays_in_place_and_anew,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("as_argument", (True, False), ids=("argument", "captured"))
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_jit_leaves_behind_what_python_does(f: Callable[..., float], as_argument: bool, backend: str) -> None:
    c, expected = Counter(), Counter()
    compiled = gs.jit(f if as_argument else lambda x: f(c, x), backend=backend, engine="source")
    for x in POINTS:
        c.active = expected.active = False
        c.table.setdefault("a", 1.0)
        expected.table.setdefault("a", 1.0)
        for held in (c, expected):
            held.table.pop("d", None)  # the list that the object holds itself
        result = compiled(c, x) if as_argument else compiled(x)
        assert result == pytest.approx(f(expected, x), rel=1e-14)
        same_state(c, expected)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_derivative_leaves_everything_as_it_was(f: Callable[..., float]) -> None:
    c = Counter()
    before = copy.deepcopy(c)
    derivative = gs.grad(lambda x: f(c, x), engine="source")
    for x in POINTS:
        found = derivative(x)
        same_state(c, before)

        def at(x: float) -> float:
            return f(copy.deepcopy(c), x)

        assert found == pytest.approx((at(x + 1e-6) - at(x - 1e-6)) / 2e-6, rel=1e-6, abs=1e-8)


def test_new_objects_are_the_same_wherever_they_are_kept() -> None:
    c = Counter()
    gs.jit(lambda x: new_objects(c, x), engine="source")(2.0)
    assert c.child.parent is c and c.last is c.pair
    assert all(child.parent is c.child for child in c.child.children)
    gs.jit(lambda x: containers(c, x), engine="source")(2.0)
    assert c.table["d"] is c.items


TOTAL = 0.0
CALLS = 0
LOG: list[Any] = []


def test_globals_and_closure_variables() -> None:
    global TOTAL, CALLS
    TOTAL, CALLS = 0.0, 0
    LOG.clear()
    best = None

    def f(x: float) -> float:
        global TOTAL, CALLS
        nonlocal best
        TOTAL += x
        CALLS += 1
        LOG.append((x, TOTAL))
        best = x if best is None else max(best, x)
        return x * TOTAL * CALLS

    compiled = gs.jit(f, engine="source")
    total = 0.0
    for k, x in enumerate(POINTS):
        total += x
        assert compiled(x) == pytest.approx(x * total * (k + 1))
        assert (TOTAL, CALLS, len(LOG), best) == (pytest.approx(total), k + 1, k + 1, max(POINTS[: k + 1]))
    gs.grad(f, engine="source")(1.0)
    assert (CALLS, len(LOG), best) == (len(POINTS), len(POINTS), 3.2)


def test_a_training_step_that_assigns() -> None:
    class Layer:
        def __init__(self, rng: np.random.Generator):
            self.W, self.b, self.steps = rng.normal(size=(3, 3)), np.zeros(3), 0

    def loss(layers: list[Layer], x: np.ndarray) -> float:
        for layer in layers:
            x = np.tanh(layer.W @ x + layer.b)
        return np.sum((x - 0.5) ** 2)

    def step(layers: list[Layer], x: np.ndarray) -> float:
        value, gradient = gs.value_and_grad(loss)(layers, x)
        for layer, g in zip(layers, gradient, strict=True):
            layer.W -= 0.1 * g.W
            layer.b = layer.b - 0.1 * g.b
            layer.steps += 1
        return value

    rng = np.random.default_rng(0)
    layers = [Layer(rng) for _ in range(2)]
    own = copy.deepcopy(layers)
    compiled, x = gs.jit(step, engine="source"), np.array([0.3, -0.2, 0.9])
    for _ in range(5):
        assert compiled(layers, x) == pytest.approx(step(own, x), rel=1e-12)
        same_state(layers, own)


def test_showing_source_or_preparing_leaves_everything_as_it_was() -> None:
    c = Counter()
    before = copy.deepcopy(c)
    compiled = gs.jit(numbers, engine="source")
    compiled.source(c, 1.0)
    compiled.explain(c, 1.0)
    same_state(c, before)


def test_an_int_that_changes_is_read_at_each_call() -> None:
    c = Counter()
    compiled = gs.jit(lambda x: numbers(c, x), engine="source")
    seen = set()
    for _ in range(20):
        compiled(1.0)
        seen.add(id(compiled._cache.latest))
    assert c.calls == 20 and len(seen) <= 3


def test_what_cannot_be_kept_is_refused() -> None:
    c = Counter()

    def f(x: float) -> float:
        c.last = lambda y: x * y
        return c.last(x)

    with pytest.raises(gs.UnsupportedCode, match="keeping a function"):
        gs.jit(f, engine="source")(2.0)
    assert c.last is None
    assert gs.grad(f, engine="source")(2.0) == pytest.approx(4.0)


@pytest.mark.parametrize("f", [f for f in FUNCTIONS if "float(" not in inspect.getsource(f)], ids=lambda f: f.__name__)
def test_a_tape_changes_the_arguments_as_python_does(f: Callable[..., float]) -> None:
    c, expected = Counter(), Counter()
    compiled, derivative = gs.jit(f, engine="tape"), gs.grad(f, 1, engine="tape")
    for x in POINTS:
        c.active = expected.active = False
        for held in (c, expected):
            held.table.setdefault("a", 1.0)
            held.table.pop("d", None)
        before = copy.deepcopy(c)
        derivative(c, x)
        same_state(c, before)
        assert compiled(c, x) == pytest.approx(f(expected, x), rel=1e-14)
        same_state(c, expected)


def test_two_places_outside_that_come_to_hold_one_array() -> None:
    holder = {"a": np.zeros(2), "b": np.ones(2)}

    def f(x: float) -> float:
        holder["a"][0] += x
        return x * holder["b"][0] + holder["a"][1]

    for pattern in ((False, True, False), (True, False, True)):
        compiled, derivative = gs.jit(f, engine="source"), gs.grad(f, engine="source")
        for one in pattern:

            def reset(one: bool = one) -> None:
                holder["a"] = np.zeros(2)
                holder["b"] = holder["a"] if one else np.ones(2)

            reset()
            assert derivative(3.0) == (6.0 if one else 1.0)
            assert (compiled(3.0), holder["a"][0]) == (9.0 if one else 3.0, 3.0)
            reset()
            assert f(3.0) == (9.0 if one else 3.0)


def test_an_array_that_is_an_argument_and_read_from_outside() -> None:
    held = np.ones(2)

    def f(a: np.ndarray, x: float) -> float:
        a[0] += x
        return held[0] * x

    compiled = gs.jit(f, engine="source")
    assert compiled(np.zeros(2), 3.0) == 3.0
    with pytest.raises(gs.UnsupportedCode, match="also read from outside"):
        compiled(held, 3.0)
    assert held[0] == 1.0


@dataclasses.dataclass(slots=True)
class Kept:
    pair: Any
    values: np.ndarray


def test_deep_copies_of_named_tuples_slots_and_cycles() -> None:
    Named = collections.namedtuple("Named", "a b")

    def f(model: dict[str, Any], x: float) -> float:
        own = copy.deepcopy(model)
        own["kept"].values *= x
        own["named"].b[0] = x
        return np.sum(own["kept"].values * model["kept"].values) + np.sum(own["kept"].pair.b) + own["named"].a * x

    named = Named(2.0, np.ones(3))
    model = {"named": named, "kept": Kept(named, np.array([1.0, 2.0]))}
    for engine in ("source", "tape"):
        assert gs.jit(f, engine=engine)(model, 3.0) == f(model, 3.0) == 26.0
        assert gs.grad(f, 1, engine=engine)(model, 3.0) == 8.0


def test_an_array_from_outside_that_is_kept_on_some_paths_is_itself() -> None:
    bank, bias = Counter(), np.array([5.0, 6.0])

    def f(x: Any) -> Any:
        if x[1] > 0.0:
            bank.last = bias
        return np.sum(x)

    def in_a_loop(x: Any, n: int) -> Any:
        for k in range(n):
            if x[k] > 0.0:
                bank.last = bias
            bank.child = x
        return np.sum(x)

    for function, args in ((f, ()), (in_a_loop, (2,))):
        compiled = gs.jit(function, engine="source")
        for x in (np.array([-1.0, 1.0]), np.array([-1.0, -1.0]), np.array([1.0, 1.0])):
            bank.last = own = np.ones(2)
            compiled(x, *args)
            assert bank.last is (bias if x[1] > 0.0 else own)
            assert not args or bank.child is x


@pytest.mark.parametrize("slots", (False, True))
def test_a_recorded_function_keeps_an_object_of_a_class_that_is_met_for_the_first_time(slots: bool) -> None:
    @dataclasses.dataclass(slots=slots)
    class Fresh:
        first: Any
        second: Any

    def f(c: Counter, x: Any) -> Any:
        c.last = c.child = Fresh(x, [np.full(2, x)])
        return x * c.last.first

    c = Counter()
    assert gs.grad(f, 1, engine="tape")(c, 3.0) == 6.0
    assert c.last is None
    assert gs.jit(f, engine="tape")(c, 3.0) == 9.0
    assert c.last is c.child and c.last.first == 3.0
    np.testing.assert_array_equal(c.last.second[0], [3.0, 3.0])
