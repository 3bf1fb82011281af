"""Recorded numbers and arrays: what they do as Python and NumPy objects while the function runs."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import threading
from math import exp
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

X = np.array([0.5, -1.5, 2.0])


def tape_grad(f: Any, *args: Any, **options: Any) -> Any:
    return gs.grad(f, engine="tape", backend="python", **options)(*args)


def tape_value(f: Any, *args: Any) -> Any:
    return gs.jit(f, engine="tape", backend="python")(*args)


def test_classes_and_texts() -> None:
    def f(x: float, n: int, v: np.ndarray, s: np.float32) -> Any:
        assert isinstance(x, float) and isinstance(n, int) and isinstance(v, np.ndarray) and isinstance(s, np.float32)
        assert not isinstance(x, np.ndarray) and not isinstance(v, float)
        assert (repr(x), f"{x:.2f}", str(n), repr(v)) == ("1.5", "1.50", "3", repr(X))
        assert hasattr(v, "shape") and not hasattr(x, "shape") and not hasattr(v, "no_such_attribute")
        return x * n + np.sum(v) * s

    assert tape_grad(f, 1.5, 3, X, np.float32(2)) == 3.0


def test_operators_of_numbers() -> None:
    def f(x: float, n: int) -> float:
        y = -x + 2 * x - x / 4 + x**2 + 2**x + abs(x) + x % 0.7 + (+x)
        y += divmod(x, 0.4)[1] + round(x) + round(x, 1) + math.floor(x) + math.ceil(x) + pow(x, 3) + 7 // x
        y += (n & 6) * x + (n << 1) + (n ^ 3) - (~n) + (n | 8) + bool(n) + int(x) + n // 2 + float(n)
        return max(y, x, 0.1) + min(x, 3.0)

    assert math.isclose(tape_value(f, 1.3, 5), f(1.3, 5), rel_tol=1e-14)
    h = 1e-6
    assert math.isclose(tape_grad(f, 1.3, 5), (f(1.3 + h, 5) - f(1.3 - h, 5)) / (2 * h), rel_tol=1e-6)


def test_operators_of_arrays() -> None:
    w = np.array([1.0, 2.0, 3.0])

    def f(x: np.ndarray) -> Any:
        y = w - x * w + w / (2 + x**2) + np.float64(2.0) * x + 3 * x @ w - w @ x
        mask = (x > 0) & ~(x == 2.0) | (x != x)
        y[mask] *= 2.0
        y += x
        y -= w
        y **= 2
        y /= 1.0 + w
        return np.sum(y) + np.add.reduce(x) + np.multiply.outer(x, w).sum() + np.sum(np.add.accumulate(x) ** 2)

    np.testing.assert_allclose(tape_value(f, X), f(X), rtol=1e-14)
    np.testing.assert_allclose(tape_grad(f, X), gs.grad(f, engine="source")(X), rtol=1e-12)


def test_views_aliases_and_writes() -> None:
    def f(x: np.ndarray) -> Any:
        y = np.zeros((2, 3))
        z = y
        row = y[0]
        y[1] = x
        row[:] = x * x
        z.T[2] += 1.0
        z.flat[0] = x[1]
        np.add.at(row, [0, 0, 2], x[0])
        out = np.empty(3)
        np.multiply(row, 2.0, out=out)
        np.add(out, x, out=y[1])
        first, *rest = y
        known = len(y) == 2 and y.shape == (2, 3) and x[1] in x
        return known * np.sum(first * rest[0]) + sum(v * k for k, v in enumerate(z.ravel()))

    np.testing.assert_allclose(tape_value(f, X), f(X), rtol=1e-14)
    np.testing.assert_allclose(tape_grad(f, X), gs.grad(f, engine="source")(X), rtol=1e-12)


def test_numpy_functions_and_methods() -> None:
    def f(x: np.ndarray) -> Any:
        a = np.stack([x, np.sin(x)]).reshape(3, 2)
        b = np.array([[x[0], 1.0], [x[1] * 2, x[2]]])
        c = np.concatenate([a, np.ones((1, 2)) * x[0]])
        d = np.where(c > 0, np.log1p(np.abs(c)), c.clip(-1, 1))
        e = np.einsum("ij,jk->ik", d, b) + np.linalg.norm(x) * np.eye(4, 2)
        return e.sum() + e.max() - np.sort(x)[1] + x.dot(x) + np.linalg.solve(b + 4 * np.eye(2), b[0]).mean()

    np.testing.assert_allclose(tape_value(f, X), f(X), rtol=1e-13)
    np.testing.assert_allclose(tape_grad(f, X), gs.grad(f, engine="source")(X), rtol=1e-10)


def test_math_by_any_name() -> None:
    def f(x: float) -> float:
        return math.sin(x) * exp(x) + math.hypot(x, 2.0) + math.log(x) ** 2

    h = 1e-6
    assert math.isclose(tape_grad(f, 1.2), (f(1.2 + h) - f(1.2 - h)) / (2 * h), rel_tol=1e-8)


def test_arbitrary_python() -> None:
    @dataclasses.dataclass
    class State:
        x: Any
        log: list[Any]

    def numbers(x: Any) -> Any:
        for k in range(3):
            yield x[k] * k

    def f(x: np.ndarray) -> Any:
        class Local:
            def __init__(self, x: Any):
                self.x = x

            def __add__(self, other: Any) -> Any:
                return Local(self.x + other * 2)

        state = State(x * 2, [])
        for value in numbers(state.x):
            state.log.append(value)
        best = sorted(state.log, key=lambda v: -v)[0]
        kept = copy.deepcopy(state)
        state.x[0] = 100.0
        table = {int(abs(x[1]) * 2): best}
        return (Local(best) + kept.x[0]).x + table[3] + sum(state.log)

    def by_hand(x: np.ndarray) -> Any:
        log = [0.0, 2 * x[1], 4 * x[2]]
        return max(log) * 2 + 4 * x[0] + sum(log)

    assert math.isclose(tape_value(f, X), by_hand(X))
    np.testing.assert_allclose(tape_grad(f, X), [4, 2, 12])


def test_objects_as_arguments() -> None:
    class Dense:
        def __init__(self, w: Any, b: Any):
            self.w, self.b = w, b

        def __call__(self, x: Any) -> Any:
            return np.tanh(self.w @ x + self.b)

    layers = [Dense(np.eye(3) * 0.3, np.zeros(3)), Dense(np.ones((2, 3)) * 0.1, 0.5)]

    def loss(layers: list[Dense], x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return np.sum(x**2)

    got, expected = tape_grad(loss, layers, X), gs.grad(loss, engine="source")(layers, X)
    for a, b in zip(got, expected, strict=True):
        assert isinstance(a, Dense)
        np.testing.assert_allclose(a.w, b.w)
        np.testing.assert_allclose(a.b, b.b)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: float(x[0]) * x[1],
        lambda x: x[0] * pickle.loads(pickle.dumps(x[1])),
        lambda x: {x[0]: 1}[x[0]] * x[1],
        lambda x: np.searchsorted([0.0, 1.0], complex(x[0])) * x[1],
    ],
)
def test_what_would_lose_the_dependence_is_refused(use: Any) -> None:
    with pytest.raises((gs.GradsmithError, TypeError)):
        tape_grad(use, X)

    def swallowed(x: Any) -> Any:
        try:
            return use(x)
        except Exception:
            return np.sum(x)

    with pytest.raises((gs.GradsmithError, TypeError)):
        tape_grad(swallowed, X)


OUTSIDE = np.zeros(3)


def test_writing_into_an_array_of_outside_is_refused() -> None:
    def write(x: Any) -> Any:
        OUTSIDE[0] = x[0]
        return OUTSIDE[0] * x[1]

    def update(x: Any) -> Any:
        y = OUTSIDE
        y += x
        return np.sum(y * x)

    for f in (write, update):
        with pytest.raises(gs.UnsupportedCode):
            tape_grad(f, X)
    np.testing.assert_array_equal(OUTSIDE, 0.0)


def test_values_of_an_inner_derivative_do_not_leave_it() -> None:
    def f(x: Any) -> Any:
        kept = []

        def inner(y: Any) -> Any:
            kept.append(y)
            return y * y * x

        return gs.grad(inner)(x) * kept[0]

    with pytest.raises(gs.UnsupportedCode, match="derivative that has ended"):
        tape_grad(f, 3.0)


def test_nested_derivatives() -> None:
    def f(x: Any) -> Any:
        return gs.grad(lambda y: x * y**3)(x) + gs.derivative(gs.derivative(math.sin))(x) * gs.hessian(np.sum)(X)[0, 0]

    assert math.isclose(tape_grad(f, 1.5), 9 * 1.5**2)
    assert math.isclose(gs.grad(gs.grad(lambda x: x**4 if x > 0 else x, engine="tape"))(2.0), 48.0)
    assert math.isclose(gs.grad(gs.grad(lambda x: x**4 if x > 0 else x), engine="tape")(2.0), 48.0)
    y, back = gs.vjp(lambda x: np.sin(x) if x[0] > 0 else x, X, engine="tape")
    np.testing.assert_allclose(back(np.ones(3))[0], np.cos(X))
    np.testing.assert_allclose(gs.jvp(lambda x: x * x[0], (X,), (X,), engine="tape")[1], 2 * X * X[0])


def test_elementwise_derivative_and_vmap_of_branches() -> None:
    def f(x: Any) -> Any:
        return x**2 if x > 0 else -x

    np.testing.assert_allclose(gs.derivative(f, engine="tape")(X), [1.0, -1.0, 4.0])
    np.testing.assert_allclose(gs.vmap(gs.grad(f), engine="tape")(X), [1.0, -1.0, 4.0])
    np.testing.assert_allclose(gs.vmap(lambda x: x * 2, engine="tape")(np.eye(3)), 2 * np.eye(3))


def test_modules_are_left_alone() -> None:
    originals = np.zeros, np.array, math.sin, np
    seen = []

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(np.zeros(2) + math.sin(1.0)))
        thread.start()
        thread.join()
        return np.sum(np.array([x, 1.0]))

    assert tape_grad(f, 1.0) == 1.0
    assert (np.zeros, np.array, math.sin, np) == originals and isinstance(np, type(math))
    np.testing.assert_array_equal(seen[0], np.full(2, math.sin(1.0)))
    assert "max" not in globals() and "print" not in globals()
