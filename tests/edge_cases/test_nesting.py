"""Derivatives inside functions that are differentiated: perturbation confusion, mixed modes, nested solvers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.edge_cases.expectations import expect

X = np.array([0.3, 0.8, -0.5])


def forward(f: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a function of one number by forward mode."""
    return lambda x: gs.jvp(f, (x,), (1.0,))[1]


def reverse(f: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a function of one number by reverse mode."""
    return lambda x: gs.vjp(f, x)[1](1.0)[0]


def reverse_by_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    return gs.grad(f)


MODES = {"forward": forward, "reverse": reverse, "grad": reverse_by_grad, "derivative": gs.derivative}


def with_loop(x: Any) -> Any:
    y = x
    for _ in range(3):
        y = math.sin(y) * x + 0.5 * y
    return y


def with_branch(x: Any) -> Any:
    if x > 0.5:
        return x**4 * math.exp(-x)
    return math.cos(x) * x**3


def with_while(x: Any) -> Any:
    """Newton's square root."""
    y = 1.0 + 0.5 * (x - 1.0)
    while abs(y * y - x) > 1e-15 * x:
        y = 0.5 * (y + x / y)
    return y


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=2)), ids="-".join)
def test_second_derivative_in_every_pair_of_modes(modes: tuple[str, str], backend: str) -> None:
    outer, inner = (MODES[m] for m in modes)
    second = gs.jit(lambda x: (outer(inner(with_loop))(x), outer(inner(with_branch))(x)), backend=backend)
    h = 1e-5
    for x in (0.7, 0.3):
        for got, f in zip(second(x), (with_loop, with_branch), strict=True):
            first = gs.grad(f, backend="python")
            assert math.isclose(got, (first(x + h) - first(x - h)) / (2 * h), rel_tol=1e-8)


@pytest.mark.parametrize("modes", list(itertools.product(["forward", "reverse"], repeat=3)), ids="-".join)
def test_third_derivative_in_every_triple_of_modes(modes: tuple[str, str, str], backend: str) -> None:
    a, b, c = (MODES[m] for m in modes)
    third = gs.jit(lambda x: a(b(c(lambda t: t**5 + math.exp(2 * t))))(x), backend=backend)
    assert math.isclose(third(0.7), 60 * 0.7**2 + 8 * math.exp(1.4), rel_tol=1e-13)


def test_fourth_derivative(backend: str) -> None:
    f: Any = lambda x: np.sin(x) * x  # noqa: E731
    for _ in range(4):
        f = gs.derivative(f, backend=backend)
    assert math.isclose(f(0.3), -4 * math.cos(0.3) + 0.3 * math.sin(0.3), rel_tol=1e-13)
    np.testing.assert_allclose(f(X), -4 * np.cos(X) + X * np.sin(X), rtol=1e-12)


def test_derivatives_of_a_while_loop(backend: str) -> None:
    """Second derivatives of a converged iteration, whose count depends on the data."""
    for x in (2.0, 9.0):
        assert math.isclose(gs.grad(with_while, backend=backend)(x), 0.5 * x**-0.5, rel_tol=1e-12)
    second = gs.grad(gs.grad(with_while), backend=backend)(2.0)
    mixed = gs.derivative(gs.grad(with_while), backend=backend)(2.0)
    assert math.isclose(second, mixed, rel_tol=1e-10)


# ---- perturbation confusion ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_a_captured_outer_variable_is_constant_for_the_inner_derivative(outer: str, inner: str, backend: str) -> None:
    """d/dx (x · d/dy (x + y)) = 1, not 2; d/dx (x · d/dy (x y)) = 2x (Siskind and Pearlmutter, 2005)."""
    d, e = MODES[outer], MODES[inner]
    run = gs.jit(
        lambda x: (
            d(lambda x: x * e(lambda y: x + y)(1.0))(x),
            d(lambda x: x * e(lambda y: x * y)(2.0))(x),
            d(lambda x: x * e(lambda y: x * y * y)(x))(x),
            d(lambda x: e(lambda y: x**2 * y**3)(x) * x)(x),
        ),
        backend=backend,
    )
    np.testing.assert_allclose(run(3.0), [1, 2 * 3.0, 2 * 3 * 9.0, 15 * 3.0**4])


def test_confusion_through_a_function_that_returns_a_function(backend: str) -> None:
    """The closure that leaks an outer variable (Manzyuk et al., 2019)."""

    def curried(x: Any) -> Any:
        return lambda y: x * y + math.sin(x)

    def f(x: Any) -> Any:
        g = curried(x)
        return gs.derivative(lambda t: g(t) * t)(x)  # 2xt + sin x at t = x

    x = 0.7
    assert math.isclose(gs.derivative(f, backend=backend)(x), 4 * x + math.cos(x), rel_tol=1e-13)
    assert math.isclose(gs.grad(f, backend=backend)(x), 4 * x + math.cos(x), rel_tol=1e-13)


def test_the_same_function_differentiated_at_two_levels(backend: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x**2 * y**3

    def g(x: Any) -> Any:
        return gs.grad(f, 1)(x, x) * gs.grad(f, 0)(x, 2.0)  # 3 x⁴ · 16 x

    assert math.isclose(gs.grad(g, backend=backend)(1.5), 240 * 1.5**4, rel_tol=1e-13)


def test_captured_array_of_the_outer_function(backend: str) -> None:
    """Σ_i x_i · ∂/∂y_i Σ_j x_j y_j² at y = x is 2 Σ x³."""

    def f(x: Any) -> Any:
        return np.sum(x * gs.grad(lambda y: np.sum(x * y * y))(x))

    expect(f, X, 6 * X**2, backend=backend)


# ---- transforms of transforms ----------------------------------------------------------------------------------------


def energy(x: Any) -> Any:
    return np.sum(np.sin(x) * x[::-1] ** 2) + np.prod(x)


def test_jacobian_of_the_gradient_is_the_symmetric_hessian(backend: str) -> None:
    hessians = gs.jit(
        lambda x: (
            gs.hessian(energy)(x),
            gs.jacobian(gs.grad(energy), mode="forward")(x),
            gs.jacobian(gs.grad(energy), mode="reverse")(x),
            gs.jacobian(gs.jacobian(energy, mode="forward"), mode="reverse")(x),
            gs.jacobian(gs.jacobian(energy, mode="forward"), mode="forward")(x),
            np.array([gs.hvp(energy)(x, np.eye(3)[i]) for i in range(3)]),
        ),
        backend=backend,
    )(X)
    g = gs.grad(energy, backend=backend)
    h = 1e-5
    expected = np.array([(g(X + h * e) - g(X - h * e)) / (2 * h) for e in np.eye(3)])
    for found in hessians:
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-15)


def test_gradient_of_functions_that_call_every_transform(backend: str) -> None:
    """With f(x) = Σ x⁴: ∇f = 4x³, H = diag 12x²."""

    def f(x: Any) -> Any:
        return np.sum(x**4)

    v = np.array([1.0, 2.0, 3.0])
    cases: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda x: np.sum(gs.grad(f)(x) ** 2), 96 * X**5),
        (lambda x: gs.value_and_grad(f)(x)[0] * 2.0, 8 * X**3),
        (lambda x: np.sum(gs.value_and_grad(f)(x)[1]), 12 * X**2),
        (lambda x: np.sum(gs.jacobian(lambda y: y**2 * y[0])(x)), 2 * X.sum() * np.eye(3)[0] + 2 * X[0] + 2 * X),
        (lambda x: np.trace(gs.hessian(f)(x)), 24 * X),
        (lambda x: np.sum(gs.hvp(f)(x, v)), 24 * X * v),
        (lambda x: np.sum(gs.hvp(f)(x, x)), 36 * X**2),
        (lambda x: gs.jvp(f, (x,), (v,))[1], 12 * X**2 * v),
        (lambda x: gs.jvp(f, (x,), (x,))[1] + gs.jvp(f, (x,), (x,))[0], 20 * X**3),
        (lambda x: np.sum(gs.vjp(lambda y: y**3, x)[1](x)[0]), 9 * X**2),
        (lambda x: np.sum(gs.vjp(lambda y: y**3, x)[0]), 3 * X**2),
        (lambda x: np.sum(gs.derivative(lambda t: t**3)(x)), 6 * X),
        (lambda x: gs.derivative(lambda t: np.sum(x * t**2))(x[0]), 2 * X[0] + 2 * X.sum() * np.eye(3)[0]),
        (lambda x: gs.jit(f)(x) ** 2, 8 * np.sum(X**4) * X**3),
    ]
    everything = gs.jit(lambda x: tuple([gs.grad(g)(x) for g, _ in cases]), backend="python")
    assert len(everything(X)) == len(cases)
    for g, gradient in cases:
        expect(g, X, gradient, backend=backend)


def test_transforms_inside_loops_and_branches(backend: str) -> None:
    """A gradient computed in a loop over run-time counts, on a run-time condition."""

    def descend(x: Any, steps: int) -> Any:
        for _ in range(steps):
            if np.sum(x * x) > 1e-3:
                x = x - 0.1 * gs.grad(lambda y: np.sum(y**2) + 0.5 * y[0] ** 2)(x)
        return np.sum(x)

    for steps in (0, 1, 10):
        got = gs.grad(descend, backend=backend)(X, steps)
        np.testing.assert_allclose(got, [0.7**steps, 0.8**steps, 0.8**steps], rtol=1e-12)


def test_gradient_of_a_solver_that_uses_a_gradient(backend: str) -> None:
    """argmin_y of y⁴/4 + (y − a)²/2 by Newton's method: y³ + y = a, so dy/da = 1 / (3y² + 1)."""

    def argmin(a: Any) -> Any:
        def objective(y: Any) -> Any:
            return y**4 / 4 + (y - a) ** 2 / 2

        y = 1.0
        slope, curvature = gs.grad(objective), gs.grad(gs.grad(objective))
        for _ in range(30):
            y = y - slope(y) / curvature(y)
        return y

    a = 2.0
    y = gs.jit(argmin, backend=backend)(a)
    assert math.isclose(y, 1.0, rel_tol=1e-12)
    assert math.isclose(gs.grad(argmin, backend=backend)(a), 0.25, rel_tol=1e-12)
    assert math.isclose(gs.derivative(argmin, backend=backend)(a), 0.25, rel_tol=1e-12)


def test_gradient_through_inner_training(backend: str) -> None:
    """The derivative with respect to a step size (learning to learn), against central differences."""

    data = np.array([[1.0, 0.5], [0.2, 2.0], [1.5, -1.0]])
    target = np.array([1.0, 2.0, -0.5])

    def loss(w: Any) -> Any:
        return np.mean((np.tanh(data @ w) - target) ** 2)

    def after_training(step: Any) -> Any:
        w = np.array([0.1, -0.2])
        for _ in range(5):
            w -= step * gs.grad(loss)(w)
        return loss(w)

    value = gs.jit(after_training, backend=backend)
    difference = (value(0.3 + 1e-6) - value(0.3 - 1e-6)) / 2e-6
    assert math.isclose(gs.grad(after_training, backend=backend)(0.3), difference, rel_tol=1e-7)
    assert math.isclose(gs.derivative(after_training, backend=backend)(0.3), difference, rel_tol=1e-7)


def test_third_order_of_an_array_function(backend: str) -> None:
    """The third derivative tensor of Σ_i x_i³ + x_0 x_1 x_2 is symmetric: 6 on the diagonal, 1 off it."""

    def f(x: Any) -> Any:
        return np.sum(x**3) + x[0] * x[1] * x[2]

    tensor = gs.jacobian(gs.hessian(f), backend=backend)(X)
    expected = np.zeros((3, 3, 3))
    for i, j, k in itertools.permutations(range(3)):
        expected[i, j, k] = 1.0
    for i in range(3):
        expected[i, i, i] = 6.0
    np.testing.assert_allclose(tensor, expected, atol=1e-13)
    np.testing.assert_allclose(gs.jacobian(gs.hessian(f), mode="reverse", backend=backend)(X), expected, atol=1e-13)
    np.testing.assert_allclose(gs.grad(lambda x: np.sum(gs.hessian(f)(x)), backend=backend)(X), 6 + 2 * np.ones(3))


def test_derivatives_of_in_place_code_nest(backend: str) -> None:
    def f(x: Any) -> Any:
        y = np.zeros(len(x))
        for i in range(len(x)):
            y[i] = x[i] ** 3 + (y[i - 1] if i > 0 else 0.0)
        y[1:] *= y[:-1]
        return np.sum(y)

    def plain(x: Any) -> Any:
        c = np.cumsum(x**3)
        return c[0] + np.sum(c[1:] * c[:-1])

    found = gs.hessian(f, backend=backend)(X)
    np.testing.assert_allclose(found, gs.hessian(plain, backend=backend)(X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        gs.jacobian(gs.grad(f), mode="reverse", backend=backend)(X), found, rtol=1e-12, atol=1e-13
    )
