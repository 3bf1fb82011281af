"""Points where a derivative is special: kinks, poles, ties, zeros of products, saturated functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.edge_cases.expectations import check, expect

V = np.array
inf, nan = np.inf, np.nan


def only_positive(x: Any) -> Any:
    return np.sum(np.where(x > 0, np.log(x), 0.0))


def guarded_root(x: Any) -> Any:
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


def guarded_quotient(x: Any) -> Any:
    return np.sum(np.where(x != 0, np.sin(x) / x, 1.0))


def guarded_by_branch(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 0:
            total += np.log(v)
        else:
            total += 2 * v
    return total


def sinc(x: Any) -> Any:
    if x == 0:
        return 1.0
    return math.sin(x) / x


def unused(x: Any) -> Any:
    y = np.sqrt(x)
    z = np.log(x)  # noqa: F841
    return np.sum(x**2 + 0 * np.where(x > 0, y, 0.0))


def inactive_times_infinite(x: Any) -> Any:
    weights = np.array([0.0, 1.0])
    return np.sum(weights * np.sqrt(x))


def logsumexp(x: Any) -> Any:
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


def softplus(x: Any) -> Any:
    return np.sum(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def stable_sigmoid(x: Any) -> Any:
    return np.sum(np.where(x >= 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x))))


#: name: (function, point, gradient)
TABLE: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    # kinks and norms at 0 have the derivative 0
    "abs": (lambda x: np.sum(np.abs(x)), V([0.0, -2.0, 3.0]), [0, -1, 1]),
    "abs of a float": (lambda x: abs(x), 0.0, 0.0),
    "sign": (lambda x: np.sum(np.sign(x) * x), V([0.0, 2.0]), [0, 1]),
    "norm": (lambda x: np.linalg.norm(x), V([0.0, 0.0]), [0, 0]),
    "norm of a matrix": (lambda x: np.linalg.norm(x), np.zeros((2, 2)), np.zeros((2, 2))),
    "norm along an axis": (
        lambda x: np.sum(np.linalg.norm(x, axis=1)),
        V([[0.0, 0.0], [3.0, 4.0]]),
        [[0, 0], [0.6, 0.8]],
    ),
    "norm 1": (lambda x: np.linalg.norm(x, 1), V([0.0, -2.0]), [0, -1]),
    "norm inf": (lambda x: np.linalg.norm(x, np.inf), V([0.0, -2.0, 1.0]), [0, -1, 0]),
    "norm 3": (lambda x: np.linalg.norm(x, 3), V([0.0, 0.0]), [0, 0]),
    "std": (lambda x: np.std(x), V([2.0, 2.0, 2.0]), [0, 0, 0]),
    "var": (lambda x: np.var(x), V([2.0, 2.0, 2.0]), [0, 0, 0]),
    "hypot": (lambda x: np.hypot(x[0], x[1]), V([0.0, 0.0]), [0, 0]),
    "hypot with a large number": (lambda x: np.hypot(x[0], x[1]), V([3e200, 4e200]), [0.6, 0.8]),
    "hypot with infinity": (lambda x: np.hypot(x[0], 1.0), V([0.0]), [0]),
    "abs of a complex number": (lambda x: np.abs(x[0] + 1j * x[1]), V([0.0, 0.0]), [0, 0]),
    "arctan2": (lambda x: np.arctan2(x[0], x[1]), V([0.0, 2.0]), [0.5, 0]),
    "arctan2 on the cut": (lambda x: np.arctan2(x[0], x[1]), V([0.0, -2.0]), [-0.5, 0]),
    "arctan2 straight up": (lambda x: np.arctan2(x[0], x[1]), V([2.0, 0.0]), [0, -0.5]),
    "arctan2 of tiny numbers": (lambda x: np.arctan2(x[0], x[1]), V([3e-200, 4e-200]), [1.6e199, -1.2e199]),
    # poles
    "sqrt": (lambda x: np.sum(np.sqrt(x)), V([0.0, 4.0]), [inf, 0.25]),
    "sqrt with a zero adjoint": (lambda x: np.sum(0.0 * np.sqrt(x)), V([0.0, 4.0]), [0, 0]),
    "sqrt of a square that is not used": (lambda x: x[1] * 0.0 * np.sqrt(x[0]), V([0.0, 4.0]), [0, 0]),
    "x sqrt(x)": (lambda x: x * np.sqrt(x), 4.0, 3.0),
    "cbrt": (lambda x: np.sum(np.cbrt(x)), V([0.0, 8.0]), [inf, 1 / 12]),
    "log": (lambda x: np.sum(np.log(x)), V([0.0, 2.0]), [inf, 0.5]),
    "reciprocal": (lambda x: np.sum(1 / x), V([0.0, 2.0]), [-inf, -0.25]),
    # powers
    "x**0": (lambda x: np.sum(x**0), V([0.0, 2.0, -1.0]), [0, 0, 0]),
    "x**0.0 of a float": (lambda x: x**0.0, 0.0, 0.0),
    "x**1": (lambda x: np.sum(x**1), V([0.0, -2.0]), [1, 1]),
    "x**2": (lambda x: np.sum(x**2), V([0.0, -3.0]), [0, -6]),
    "x**3": (lambda x: np.sum(x**3), V([0.0, -3.0]), [0, 27]),
    "x**3.0": (lambda x: np.sum(x**3.0), V([0.0, -3.0]), [0, 27]),
    "x**-2": (lambda x: np.sum(x**-2.0), V([-2.0]), [0.25]),
    "x**1.5": (lambda x: np.sum(x**1.5), V([0.0, 4.0]), [0, 3]),
    "x**0.5": (lambda x: np.sum(x**0.5), V([0.0, 4.0]), [inf, 0.25]),
    "0**p": (lambda p: np.sum(0.0**p), V([2.0, 0.5]), [0, 0]),
    "0**p by base and exponent": (lambda x: x[0] ** x[1], V([0.0, 2.0]), [0, 0]),
    "0**1 by base and exponent": (lambda x: x[0] ** x[1], V([0.0, 1.0]), [1, 0]),
    "0**0 by base and exponent": (lambda x: x[0] ** x[1], V([0.0, 0.0]), [0, 0]),
    "whole exponents in an array": (
        lambda x: np.sum(x ** np.array([2.0, 3.0, 0.0, 1.0])),
        V([-2.0, -2.0, 0.0, 0.0]),
        [-4, 12, 0, 1],
    ),
    # x log y
    "x log x at a positive point": (lambda x: np.sum(x * np.log(x)), V([1.0, 2.0]), [1, 1 + math.log(2)]),
    "x log y at x = 0": (lambda x: x[0] * np.log(x[1]), V([0.0, 2.0]), [math.log(2), 0]),
    "x log y at x = y = 0": (lambda x: x[0] * np.log(x[1]), V([0.0, 0.0]), [-inf, 0]),
    "entropy with where": (
        lambda p: np.sum(np.where(p > 0, -p * np.log(p), 0.0)),
        V([0.0, 1.0, 0.5]),
        [0, -1, -1 - math.log(0.5)],
    ),
    # selections
    "where, log": (only_positive, V([-1.0, 0.0, 2.0]), [0, 0, 0.5]),
    "where, sqrt": (guarded_root, V([-1.0, 0.0, 4.0]), [0, 0, 0.25]),
    "where, quotient": (guarded_quotient, V([0.0, math.pi]), [0, -1 / math.pi]),
    "where, overflowing exp": (lambda x: np.sum(np.where(x < 10, np.exp(x), x)), V([0.0, 1e4]), [1, 1]),
    "branch, log": (guarded_by_branch, V([-1.0, 0.0, 2.0]), [2, 2, 0.5]),
    "select": (lambda x: np.sum(np.select([x > 0], [np.log(x)], 0.0)), V([0.0, 2.0]), [0, 0.5]),
    "mask": (lambda x: np.sum(np.log(x[x > 0])), V([0.0, 2.0]), [0, 0.5]),
    "sinc by hand": (sinc, 0.0, 0.0),
    "sinc": (lambda x: np.sum(np.sinc(x)), V([0.0, 0.5]), [0, -4 / math.pi]),
    "maximum(sqrt(x), 0)": (
        lambda x: np.sum(np.maximum(x, 0.0) * np.sqrt(np.where(x > 0, x, 1.0))),
        V([-1.0, 4.0]),
        [0, 3],
    ),
    "unused intermediate": (unused, V([0.0, 4.0]), [0, 8]),
    "inactive 0 * inf": (inactive_times_infinite, V([0.0, 4.0]), [0, 0.25]),
    "nan in an element that is not read": (lambda x: np.sum(np.sqrt(x)[1:]), V([-1.0, 4.0]), [0, 0.25]),
    "pole in an element that is not read": (lambda x: np.log(x)[1], V([0.0, 4.0]), [0, 0.25]),
    # products with zeros
    "prod with one zero": (lambda x: np.prod(x), V([2.0, 0.0, 3.0]), [0, 6, 0]),
    "prod with two zeros": (lambda x: np.prod(x), V([2.0, 0.0, 3.0, 0.0]), [0, 0, 0, 0]),
    "prod along an axis": (lambda x: np.sum(np.prod(x, axis=0)), V([[2.0, 0.0], [0.0, 0.0]]), [[0, 0], [2, 0]]),
    "prod of one": (lambda x: np.prod(x), V([0.0]), [1]),
    "cumprod with one zero": (lambda x: np.sum(np.cumprod(x)), V([2.0, 0.0, 3.0]), [1, 8, 0]),
    "cumprod with two zeros": (lambda x: np.sum(np.cumprod(x)), V([2.0, 0.0, 0.0, 5.0]), [1, 2, 0, 0]),
    "product in a loop": (lambda x: math.prod([x[0], x[1], x[2]]), V([2.0, 0.0, 3.0]), [0, 6, 0]),
    # ties share equally
    "max": (lambda x: np.max(x), V([1.0, 3.0, 3.0]), [0, 0.5, 0.5]),
    "min of three": (lambda x: np.min(x), V([1.0, 1.0, 1.0]), [1 / 3] * 3),
    "max along an axis": (lambda x: np.sum(np.max(x, axis=1)), V([[1.0, 1.0], [2.0, 3.0]]), [[0.5, 0.5], [0, 1]]),
    "maximum": (lambda x: np.maximum(x[0], x[1]), V([2.0, 2.0]), [0.5, 0.5]),
    "minimum with a number": (lambda x: np.sum(np.minimum(x, 2.0)), V([1.0, 2.0, 3.0]), [1, 0.5, 0]),
    "fmax": (lambda x: np.sum(np.fmax(x, nan)), V([1.0, 2.0]), [1, 1]),
    "Python's max": (lambda x: max(x[0], x[1]), V([2.0, 2.0]), [0.5, 0.5]),
    "relu": (lambda x: np.sum(np.maximum(0, x)), V([-1.0, 0.0, 1.0]), [0, 0.5, 1]),
    "sort": (lambda x: np.sort(x) @ V([1.0, 2.0, 6.0]), V([3.0, 1.0, 3.0]), [4, 1, 4]),
    "median of ties": (lambda x: np.median(x), V([1.0, 2.0, 2.0, 2.0, 9.0]), [0, 1 / 3, 1 / 3, 1 / 3, 0]),
    "median": (lambda x: np.median(x), V([3.0, 1.0, 2.0, 9.0]), [0.5, 0, 0.5, 0]),
    "ptp": (lambda x: np.ptp(x), V([1.0, 4.0, 4.0]), [-1, 0.5, 0.5]),
    # clip passes the gradient at a bound
    "clip": (lambda x: np.sum(np.clip(x, 0.0, 1.0)), V([-1.0, 0.0, 0.5, 1.0, 2.0]), [0, 1, 1, 1, 0]),
    # steps
    "floor": (lambda x: np.sum(np.floor(x) * x), V([2.0, 2.5]), [2, 2]),
    "mod": (lambda x: np.sum(x % 2.0), V([3.0, 4.5, -1.0]), [1, 1, 1]),
    "heaviside": (lambda x: np.sum(np.heaviside(x, 0.5) * x), V([0.0, 2.0]), [0.5, 1]),
    # saturated functions
    "logsumexp with -inf": (logsumexp, V([0.0, -inf, 0.0]), [0.5, 0, 0.5]),
    "logaddexp with -inf": (lambda x: np.logaddexp(x[0], x[1]), V([1.0, -inf]), [1, 0]),
    "logaddexp of large numbers": (lambda x: np.logaddexp(x[0], x[1]), V([1e4, 1e4]), [0.5, 0.5]),
    "softplus": (softplus, V([-1000.0, 0.0, 1000.0]), [0, 0.5, 1]),
    "softplus by logaddexp": (lambda x: np.sum(np.logaddexp(0, x)), V([-1000.0, 0.0, 1000.0]), [0, 0.5, 1]),
    "sigmoid": (lambda x: np.sum(1 / (1 + np.exp(-x))), V([-700.0, 0.0, 1000.0]), [math.exp(-700), 0.25, 0]),
    "stable sigmoid": (stable_sigmoid, V([-1000.0, 0.0, 1000.0]), [0, 0.25, 0]),
    "tanh": (lambda x: np.sum(np.tanh(x)), V([-1000.0, 0.0, 1000.0]), [0, 1, 0]),
    "expm1, log1p near 0": (lambda x: np.sum(np.expm1(x) + np.log1p(x)), V([1e-20, 0.0]), [2, 2]),
    "arcsin at 1": (lambda x: np.sum(np.arcsin(x)), V([1.0, 0.0]), [inf, 1]),
    "arccosh at 1": (lambda x: np.arccosh(x[0]), V([1.0]), [inf]),
    # invariant functions of matrices with equal eigenvalues
    "det of the identity": (lambda x: np.linalg.det(x), np.eye(3), np.eye(3)),
    "det of a singular matrix": (lambda x: np.linalg.det(x), V([[1.0, 2.0], [2.0, 4.0]]), [[4, -2], [-2, 1]]),
    "det of zeros": (lambda x: np.linalg.det(x), np.zeros((2, 2)), np.zeros((2, 2))),
    "slogdet of the identity": (lambda x: np.linalg.slogdet(x)[1], np.eye(3), np.eye(3)),
    "trace of an inverse": (lambda x: np.trace(np.linalg.inv(x)), np.eye(2), -np.eye(2)),
}


@pytest.mark.parametrize("name", TABLE)
def test_gradient_at_a_special_point(name: str, backend: str) -> None:
    f, x, gradient = TABLE[name]
    expect(f, x, gradient, backend=backend)


@pytest.mark.parametrize("x", [-3.0, -1.0, 0.0, 2.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_integer_powers_are_exact_for_every_base(x: float, n: int, backend: str) -> None:
    assert gs.grad(lambda x, n: x**n, backend=backend)(x, n) == n * x ** (n - 1)
    assert gs.derivative(lambda x: np.power(x, 1.0 * n), backend=backend)(x) == n * x ** (n - 1)


def test_cumprod_with_zeros_against_differences(backend: str) -> None:
    w = np.array([1.0, 2.0, -1.0, 3.0])

    def f(x: Any) -> Any:
        return np.sum(w * np.cumprod(x) ** 2) + np.prod(x)

    for zeros in ([], [0], [2], [0, 2], [1, 2, 3]):
        x = np.array([2.0, 3.0, 5.0, 7.0])
        x[zeros] = 0.0
        check(f, x, backend=backend)


def test_second_derivatives_at_special_points(backend: str) -> None:
    """The derivative of the rule itself is right too."""
    hessian = gs.hessian(lambda x: np.prod(x), backend=backend)(np.array([0.0, 0.0, 3.0]))
    np.testing.assert_allclose(hessian, [[0, 3, 0], [3, 0, 0], [0, 0, 0]])
    second = gs.derivative(gs.derivative(lambda x: x**2, backend=backend), backend=backend)
    assert second(0.0) == 2.0
    assert gs.derivative(gs.derivative(lambda x: x**1, backend=backend), backend=backend)(0.0) == 0.0
    third = gs.derivative(gs.derivative(gs.derivative(lambda x: x**3)), backend=backend)
    assert third(0.0) == 6.0
    assert third(-2.0) == 6.0
    np.testing.assert_allclose(
        gs.hessian(lambda x: np.sum(np.where(x > 0, x**2 * np.log(x), 0.0)), backend=backend)(np.array([0.0, 1.0])),
        [[0, 0], [0, 3]],
    )
    np.testing.assert_allclose(
        gs.hessian(lambda x: np.logaddexp(x[0], x[1]), backend=backend)(np.array([1.0, 1.0])),
        [[0.25, -0.25], [-0.25, 0.25]],
    )
    np.testing.assert_allclose(
        gs.hessian(lambda x: np.sum(x * x) ** 1.5, backend=backend)(np.array([3.0, 4.0])),
        3 * (5 * np.eye(2) + np.outer([3, 4], [3, 4]) / 5),
    )
    np.testing.assert_allclose(gs.hessian(lambda x: np.abs(x) * x, backend=backend)(-2.0), -2.0)


def test_gradient_of_a_ratio_of_norms_is_finite_at_zero(backend: str) -> None:
    """A sum over points one of which has distance 0 to another: the others' gradients are right."""

    def energy(p: Any) -> Any:
        total = 0.0
        for i in range(len(p)):
            for j in range(len(p)):
                total += np.linalg.norm(p[i] - p[j])
        return total

    p = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]])
    expect(energy, p, [[-1.2, -1.6], [-1.2, -1.6], [2.4, 3.2]], backend=backend)
