"""Prepared calls: results in arrays that are allocated once; value, gradient and Hessian in one call."""

import gc
import sys
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


def rosenbrock(x: np.ndarray) -> Any:
    total = 0.0
    for i in range(len(x) - 1):
        total += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


def test_results_are_the_same_arrays_at_every_call() -> None:
    call = gs.prepare(gs.grad(rosenbrock), np.zeros(4))
    expected = gs.grad(rosenbrock)
    buffer = call(np.ones(4))
    for k in range(3):
        x = np.linspace(0.0, 1.0 + k, 4)
        assert call(x) is buffer
        np.testing.assert_array_equal(buffer, expected(x))
    assert call.result == (buffer,)


@pytest.mark.parametrize("backend", ["native", "python"])
def test_structures_and_numbers(backend: str) -> None:
    rng = np.random.default_rng(0)
    layer, x = Layer(rng.normal(size=(3, 2)), rng.normal(size=2)), rng.normal(size=(5, 3))
    call = gs.prepare(gs.value_and_grad(loss, backend=backend), layer, x)
    value, gradient = call(layer, x)
    other, same = call(Layer(2 * layer.w, layer.b), x=x)
    assert value == pytest.approx(loss(layer, x), rel=1e-14) and same.w is gradient.w
    assert other == pytest.approx(loss(Layer(2 * layer.w, layer.b), x), rel=1e-14)
    expected = gs.grad(loss)(Layer(2 * layer.w, layer.b), x)
    np.testing.assert_allclose(gradient.w, expected.w, rtol=1e-13)
    np.testing.assert_allclose(gradient.b, expected.b, rtol=1e-13)


def test_plain_functions_are_compiled() -> None:
    call = gs.prepare(lambda x, scale: x * scale, np.zeros(3), 1.0)
    out = call(np.arange(3.0), 2.0)
    np.testing.assert_array_equal(out, [0.0, 2.0, 4.0])
    assert call(np.arange(3.0), 3.0) is out


def test_arguments_are_left_alone_by_preparing() -> None:
    def f(x: np.ndarray) -> Any:
        x += 1.0
        return x * 2.0

    x = np.zeros(2)
    call = gs.prepare(f, x)
    assert not x.any()
    np.testing.assert_array_equal(call(x), [2.0, 2.0])
    np.testing.assert_array_equal(x, [1.0, 1.0])


def test_other_shapes_are_an_error() -> None:
    call = gs.prepare(gs.grad(rosenbrock), np.zeros(4))
    with pytest.raises(ValueError, match=r"out: an array of shape \(4,\) for a result of shape \(5,\)"):
        call(np.zeros(5))


def test_outside_values_are_read_at_every_call() -> None:
    scale = 2.0

    def f(x: np.ndarray) -> Any:
        return np.sum(scale * x)

    call = gs.prepare(gs.grad(f), np.zeros(2))
    assert call(np.zeros(2)).tolist() == [2.0, 2.0]
    scale = 3.0
    assert call(np.zeros(2)).tolist() == [3.0, 3.0]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="counts CPython's blocks")
def test_calls_allocate_nothing() -> None:
    rng = np.random.default_rng(0)
    layer, x = Layer(rng.normal(size=(30, 20)), rng.normal(size=20)), rng.normal(size=(50, 30))
    flat, nested = gs.prepare(gs.grad(rosenbrock), np.zeros(100)), gs.prepare(gs.grad(loss), layer, x)
    point = rng.normal(size=100)
    for run in (lambda: flat(point), lambda: nested(layer, x)):
        for _ in range(10):
            run()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(1000):
            run()
        assert abs(sys.getallocatedblocks() - before) < 20


@pytest.mark.parametrize("n", [1, 2, 5, 8, 11])
def test_value_gradient_and_hessian_in_one_call(n: int) -> None:
    x = np.linspace(-0.5, 1.5, n)
    value, gradient, hessian = gs.value_grad_hessian(rosenbrock)(x)
    assert value == pytest.approx(rosenbrock(x), rel=1e-14)
    np.testing.assert_allclose(gradient, gs.grad(rosenbrock)(x), rtol=1e-13)
    np.testing.assert_allclose(hessian, gs.hessian(rosenbrock)(x), rtol=1e-13, atol=1e-13)


def test_value_gradient_and_hessian_of_other_arguments() -> None:
    def f(a: float, p: dict[str, Any]) -> Any:
        total = a
        for k in range(3):
            total = total * np.sum(p["w"] ** 2) + k * p["b"] ** 3
        return total

    p = {"w": np.array([0.3, -0.2]), "b": 0.5}
    both = gs.value_grad_hessian(f, (0, 1))
    for call in (both, gs.value_grad_hessian(f, (0, 1), backend="python")):
        value, gradient, hessian = call(0.7, p)
        assert value == pytest.approx(f(0.7, p), rel=1e-14)
        for found, expected in (
            (gradient, gs.grad(f, (0, 1))(0.7, p)),
            (hessian, gs.hessian(f, (0, 1))(0.7, p)),
        ):
            assert gs.tree.flatten(found)[1] == gs.tree.flatten(expected)[1]
            for a, b in zip(gs.tree.flatten(found)[0], gs.tree.flatten(expected)[0], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
    assert gs.value_grad_hessian(lambda x: x**3)(2.0) == (8.0, 12.0, 12.0)
    value, gradient, hessian = gs.value_grad_hessian(rosenbrock)(np.zeros(0))
    assert value == 0.0 and gradient.shape == (0,) and hessian.shape == (0, 0)


def test_value_gradient_and_hessian_inside_a_function() -> None:
    def newton_step(x: np.ndarray) -> Any:
        _, gradient, hessian = gs.value_grad_hessian(rosenbrock)(x)
        return x - np.linalg.solve(hessian, gradient)

    x = np.array([0.9, 0.7, 0.6])
    expected = x - np.linalg.solve(gs.hessian(rosenbrock)(x), gs.grad(rosenbrock)(x))
    np.testing.assert_allclose(gs.jit(newton_step)(x), expected, rtol=1e-12)
