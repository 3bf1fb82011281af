"""``out=``: results in arrays of the caller's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gradsmith as gs


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


def loss(layer: Layer, x: np.ndarray) -> Any:
    return np.sum(np.tanh(x @ layer.w + layer.b) ** 2)


def cubes(x: np.ndarray) -> Any:
    return np.sum(x**3)


X = np.array([1.0, 2.0, -3.0])


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize(
    ("make", "shape"),
    [(gs.grad, (3,)), (gs.hessian, (3, 3)), (lambda f, **k: gs.jacobian(lambda x: x**3, **k), (3, 3))],
)
def test_array_results_are_written_and_returned(make: Any, shape: tuple[int, ...], backend: str) -> None:
    f = make(cubes, backend=backend)
    for point in (X, 2 * X):
        buffer = np.full(shape, np.nan)
        assert f(point, out=buffer) is buffer
        np.testing.assert_array_equal(buffer, f(point))


def test_elementwise_derivative_vmap_hvp_jit_and_keywords() -> None:
    buffer = np.empty(3)
    assert gs.derivative(lambda x: x**3)(X, out=buffer) is buffer and np.allclose(buffer, 3 * X**2)
    assert gs.vmap(lambda x: x**2)(X, out=buffer) is buffer and np.allclose(buffer, X**2)
    assert gs.hvp(cubes)(X, X, out=buffer) is buffer and np.allclose(buffer, 6 * X**2)
    assert gs.jit(lambda x: x + 1)(X, out=buffer) is buffer and np.allclose(buffer, X + 1)
    assert gs.grad(lambda *, x: np.sum(x**2), "x")(x=X, out=buffer) is buffer and np.allclose(buffer, 2 * X)


def test_numbers_stay_numbers() -> None:
    buffer = np.empty(3)
    value, gradient = gs.value_and_grad(cubes)(X, out=(None, buffer))
    assert value == cubes(X) and gradient is buffer and np.allclose(buffer, 3 * X**2)
    place = np.empty(())
    value, gradient = gs.value_and_grad(cubes)(X, out=(place, buffer))
    assert value is place and place == cubes(X)


def test_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    layer, x = Layer(rng.normal(size=(3, 4)), rng.normal(size=4)), rng.normal(size=(5, 3))
    gradient = gs.grad(loss)
    expected = gradient(layer, x)
    out = Layer(np.empty((3, 4)), np.empty(4))
    w = out.w
    assert gradient(layer, x, out=out) is out and out.w is w
    np.testing.assert_array_equal(out.w, expected.w)
    np.testing.assert_array_equal(out.b, expected.b)
    value, again = gs.value_and_grad(loss)(layer, x, out=(None, out))
    assert value == loss(layer, x) and again.w is w


@pytest.mark.parametrize("order", ["strided", "float32", "fortran"])
def test_unusual_buffers_are_converted_to(order: str) -> None:
    f = gs.jacobian(lambda x: x**3)
    buffer = {
        "strided": np.empty((3, 6))[:, ::2],
        "float32": np.empty((3, 3), np.float32),
        "fortran": np.empty((3, 3), order="F"),
    }[order]
    assert f(X, out=buffer) is buffer
    np.testing.assert_allclose(buffer, np.diag(3 * X**2))


def test_out_may_be_the_argument_itself() -> None:
    x = X.copy()
    assert gs.grad(cubes)(x, out=x) is x
    np.testing.assert_array_equal(x, 3 * X**2)
    y = np.arange(6.0)
    gs.grad(cubes)(y[:4], out=y[2:])
    np.testing.assert_array_equal(y, [0, 1, 0, 3, 12, 27])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty(4), r"out: an array of shape \(4,\) for a result of shape \(3,\)"),
        (np.empty((1, 3)), r"out: an array of shape \(1, 3\) for a result of shape \(3,\)"),
        (np.empty(3, int), "Cannot cast"),
        (np.broadcast_to(1.0, 3), "read-only"),
    ],
)
def test_errors(out: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        gs.grad(cubes)(X, out=out)


def test_wrong_structure() -> None:
    with pytest.raises(ValueError, match="out has not the structure of the result"):
        gs.value_and_grad(cubes)(X, out=[np.empty(3)])


def test_a_parameter_named_out_is_the_functions() -> None:
    def f(x: np.ndarray, out: float = 2.0) -> Any:
        return np.sum(x * out)

    np.testing.assert_array_equal(gs.grad(f)(X, out=5.0), np.full(3, 5.0))
    np.testing.assert_array_equal(gs.grad(f)(X), np.full(3, 2.0))


def test_out_inside_a_differentiated_function() -> None:
    gradient = gs.grad(cubes)

    def f(x: np.ndarray) -> Any:
        buffer = np.zeros(3)
        gradient(x, out=buffer)
        return np.sum(buffer)

    np.testing.assert_allclose(gs.grad(f)(X), 6 * X)
    np.testing.assert_allclose(gs.grad(f, engine="tape")(X), 6 * X)
    assert gs.jit(f)(X) == f(X)


def test_functions_that_write_arguments() -> None:
    def f(x: np.ndarray) -> Any:
        x *= 2.0
        return x + 1.0

    x, buffer = X.copy(), np.empty(3)
    assert gs.jit(f)(x, out=buffer) is buffer
    np.testing.assert_array_equal(x, 2 * X)
    np.testing.assert_array_equal(buffer, 2 * X + 1)


def test_which_arguments_are_one_array_is_honoured() -> None:
    def f(a: np.ndarray, b: np.ndarray) -> Any:
        return np.sum(a) if a is b else np.sum(a * b)

    for first in (True, False):
        g = gs.jit(f)
        y = X + 1
        calls = [(X, y), (X, X), (X, y), (X, X)]
        for a, b in calls if first else calls[::-1]:
            assert g(a, b) == f(a, b)


@pytest.mark.parametrize("out", [[1.0, 2.0, 3.0], "abc"])
def test_what_is_no_array_cannot_be_written(out: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="out"):
        gs.grad(lambda x: np.sum(x**2))(np.ones(3), out=out)


def test_out_of_a_ufunc() -> None:
    x, buffer = np.array([0.3, 0.4]), np.empty(2)
    assert gs.derivative(np.sin)(x, out=buffer) is buffer
    np.testing.assert_allclose(buffer, np.cos(x))
    assert gs.jit(np.sin)(x, out=buffer) is buffer
    np.testing.assert_allclose(buffer, np.sin(x))
