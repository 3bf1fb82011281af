"""grad(f, wrt=...): gradients with respect to what a function reads from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import NotDifferentiable

both = pytest.mark.parametrize("backend", ["native", "python"])

TABLE = np.array([1.0, 2.0, 3.0])


class Dense:
    def __init__(self, w: Any, b: Any):
        self.w = w
        self.b = b
        self.n = 3
        self.scale = 2.0

    def __call__(self, x: Any) -> Any:
        return np.tanh(self.w @ x + self.b) * self.scale


class Model:
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.layers = [Dense(rng.normal(size=(3, 3)), rng.normal(size=3)) for _ in range(2)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


X = np.array([0.3, -0.2, 0.9])


@both
def test_a_global_array(backend: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(TABLE) * x) + TABLE[0] ** 2

    expected = np.cos(TABLE) * X
    expected[0] += 2 * TABLE[0]
    np.testing.assert_allclose(gs.grad(f, wrt=TABLE, backend=backend)(X), expected)
    value, gradient = gs.value_and_grad(f, wrt=[TABLE], backend=backend)(X)
    assert value == f(X)
    np.testing.assert_allclose(gradient[0], expected)


@both
def test_a_model_in_a_closure(backend: str) -> None:
    model = Model()

    def loss(x: Any) -> Any:
        return np.sum(model(x) ** 2)

    g = gs.grad(loss, wrt=model, backend=backend)(X)
    expected = gs.grad(lambda m: np.sum(m(X) ** 2), backend=backend)(model)
    assert type(g) is Model
    for a, b in zip(g.layers, expected.layers, strict=True):
        np.testing.assert_allclose(a.w, b.w)
        np.testing.assert_allclose(a.b, b.b)
        np.testing.assert_allclose(a.scale, b.scale)
        assert a.n is None


@both
def test_each_call_reads_again(backend: str) -> None:
    model = Dense(np.eye(3), np.zeros(3))
    gradient = gs.grad(lambda x: np.sum(model(x) ** 2), wrt={"w": model.w, "b": [model.b]}, backend=backend)

    def expected() -> Any:
        h = np.tanh(model.w @ X + model.b)
        return 8 * h * (1 - h * h)

    for step in range(3):
        g = gradient(X)
        np.testing.assert_allclose(g["b"][0], expected())
        np.testing.assert_allclose(g["w"], np.outer(expected(), X))
        if step == 0:
            model.w -= 0.1 * g["w"]  # the same array
        else:
            model.b = model.b - 0.1 * g["b"][0]  # a new one in the same place
    model.b = np.zeros((3, 1))  # another number of dimensions: staged anew
    column = gs.grad(lambda: np.sum(np.tanh(model.w @ X[:, None] + model.b) ** 2) * 4, wrt=model.b, backend=backend)()
    assert column.shape == (3, 1)


@both
def test_training_decreases_the_loss(backend: str) -> None:
    model = Model()
    target = np.array([1.0, -1.0, 0.5])
    step = gs.value_and_grad(lambda x: np.sum((model(x) - target) ** 2), wrt=model, backend=backend)
    losses = []
    for _ in range(30):
        value, g = step(X)
        losses.append(value)
        for layer, gl in zip(model.layers, g.layers, strict=True):
            layer.w -= 0.02 * gl.w
            layer.b = layer.b - 0.02 * gl.b
    assert losses[-1] < 0.5 * losses[0]


@both
def test_branches_and_loops_on_captured_values(backend: str) -> None:
    w = np.array([0.5, -2.0])

    def f(n: int) -> Any:
        total = 0.0
        for _ in range(n):
            for v in w:
                total = total + (v**2 if v > 0 else -v)
        return total

    g = gs.grad(f, wrt=w, backend=backend)
    np.testing.assert_allclose(g(3), [3.0, -3.0])
    w[:] = [-1.0, 2.0]
    np.testing.assert_allclose(g(2), [-2.0, 8.0])


@both
def test_inside_a_differentiated_function(backend: str) -> None:
    """d/da of the gradient of sum(w^3) * a with respect to w, an array of the function itself."""

    def outer(a: Any) -> Any:
        w = np.array([1.0, 2.0]) * a
        copy = w.copy()
        g = gs.grad(lambda: np.sum(w**3) * a + np.sum(copy), wrt=w)()
        return np.sum(g)  # 3 a^2 [1, 4] * a

    np.testing.assert_allclose(gs.grad(outer, backend=backend)(1.5), 3 * 15 * 1.5**2)


def test_what_is_not_found_is_zero_or_an_error() -> None:
    w, v = np.ones(2), np.ones(3)
    g = gs.grad(lambda x: np.sum(w * x), wrt=[w, v])(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(g[0], [1.0, 2.0])
    np.testing.assert_array_equal(g[1], np.zeros(3))
    with pytest.raises(NotDifferentiable, match="reads none"):
        gs.grad(lambda x: np.sum(w * x), wrt=w.copy())(np.array([1.0, 2.0]))
    with pytest.raises(NotDifferentiable, match="names no float"):
        gs.grad(lambda x: x, wrt=[1])(1.0)


def test_one_array_in_two_places() -> None:
    w = np.ones(2)
    a, b = Dense(w, w), Dense(w, w)
    gradient = gs.grad(lambda: np.sum(a.w) + 2 * np.sum(b.b), wrt=w)
    np.testing.assert_array_equal(gradient(), [3.0, 3.0])
    b.b = np.ones(2)  # not that array any more
    np.testing.assert_array_equal(gradient(), [1.0, 1.0])


def test_functions_that_python_must_run_are_refused() -> None:
    """Python computes ``a**2`` on its own: a tape would miss that part of the derivative."""
    a = np.array([0.5, 0.7])
    scope: dict[str, Any] = {"a": a}
    exec("def f(x): return (a**2 * x).sum() + (a * x).sum()", scope)
    x = np.array([3.0, 4.0])
    for f in (scope["f"], lambda x: scope["f"](x)):
        with pytest.raises((gs.SourceUnavailable, gs.UnsupportedCode)):
            gs.grad(f, wrt=a)(x)


def test_a_number_is_named_by_what_holds_it() -> None:
    scale = 2.0
    with pytest.raises(NotDifferentiable, match="name the object or dict that holds it"):
        gs.grad(lambda x: scale * np.sum(x), wrt=scale)(np.ones(2))


def test_views_of_what_is_named() -> None:
    a = np.arange(6.0).reshape(2, 3)
    row, left, right = a[0], a[:, 0], a[:, 1:]
    with pytest.raises(gs.UnsupportedCode, match="shares memory"):
        gs.grad(lambda: np.sum(a**2) + np.sum(row), wrt=a)()
    np.testing.assert_allclose(gs.grad(lambda: np.sum(a**2) + np.sum(a[0]), wrt=a)(), 2 * a + [[1], [0]])
    of_a, of_row = gs.grad(lambda: np.sum(a**2) + np.sum(row), wrt=(a, row))()
    np.testing.assert_allclose(of_a, 2 * a)
    np.testing.assert_allclose(of_row, np.ones(3))
    np.testing.assert_allclose(gs.grad(lambda: np.sum(left) * a.shape[0], wrt=left)(), [2.0, 2.0])
    assert right.shape == (2, 2)
