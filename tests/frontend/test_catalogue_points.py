"""Points without a derivative, or where a careless formula gives NaN; errors; aliases; memory layouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import gradsmith as gs

ZERO = np.zeros(3)
TIES = np.array([1.0, 2.0, 2.0, 0.5])

#: name: function, point, its gradient
GRADIENTS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "norm at 0": (lambda x: np.linalg.norm(x), ZERO, ZERO),
    "norm of order 3 at 0": (lambda x: np.linalg.norm(x, 3), ZERO, ZERO),
    "Frobenius norm at 0": (lambda x: np.linalg.norm(x), np.zeros((2, 2)), np.zeros((2, 2))),
    "norm along an axis with a zero row": (
        lambda x: np.sum(np.linalg.norm(x, axis=1)),
        np.array([[0.0, 0.0], [3.0, 4.0]]),
        np.array([[0.0, 0.0], [0.6, 0.8]]),
    ),
    "std of equal numbers": (lambda x: np.std(x), np.ones(4), np.zeros(4)),
    "std of rows": (lambda x: np.sum(np.std(x, axis=1)), np.ones((2, 3)), np.zeros((2, 3))),
    "hypot at 0": (lambda x: math.hypot(x, 0.0), 0.0, 0.0),
    "dist at 0": (lambda x: math.dist((x, 1.0), (2.0, 1.0)), 2.0, 0.0),
    "clip at its bounds": (
        lambda x: np.sum(np.clip(x, 0.0, 1.0)),
        np.array([0.0, 1.0, 2.0]),
        np.array([1.0, 1.0, 0.0]),
    ),
    "max with ties": (lambda x: np.max(x), TIES, np.array([0.0, 0.5, 0.5, 0.0])),
    "median with ties": (lambda x: np.median(x), TIES, np.array([0.5, 0.25, 0.25, 0.0])),
    "sort with ties": (lambda x: np.sort(x) @ np.arange(4.0), TIES, np.array([1.0, 2.5, 2.5, 0.0])),
    "ptp": (lambda x: np.ptp(x), TIES, np.array([0.0, 0.5, 0.5, -1.0])),
    "sinc at 0": (lambda x: np.sinc(x), 0.0, 0.0),
    "sinc near 0": (lambda x: np.sinc(x), 1e-5, -(math.pi**2) / 3 * 1e-5),
    "logsumexp with -inf": (
        lambda x: scipy.special.logsumexp(x),
        np.array([0.0, -np.inf, 0.0]),
        np.array([0.5, 0.0, 0.5]),
    ),
    "logsumexp of large numbers": (lambda x: scipy.special.logsumexp(x), np.array([1e4, 1e4]), np.array([0.5, 0.5])),
    "log_softmax of large numbers": (lambda x: scipy.special.log_softmax(x)[0], np.array([1e4, 0.0]), np.zeros(2)),
    "logaddexp with -inf": (lambda x: np.logaddexp(x[0], x[1]), np.array([-np.inf, 1.0]), np.array([0.0, 1.0])),
    "softplus": (lambda x: np.sum(np.logaddexp(0, x)), np.array([-1000.0, 1000.0]), np.array([0.0, 1.0])),
    "logaddexp2 of equal numbers": (lambda x: np.logaddexp2(x[0], x[1]), np.array([3.0, 3.0]), np.array([0.5, 0.5])),
    "expit far out": (lambda x: np.sum(scipy.special.expit(x)), np.array([-1000.0, 1000.0]), np.zeros(2)),
    "xlogy at (0, 0)": (lambda y: scipy.special.xlogy(0.0, y), 0.0, 0.0),
    "prod with a zero": (lambda x: np.prod(x), np.array([2.0, 0.0, 3.0]), np.array([0.0, 6.0, 0.0])),
    "prod with two zeros": (lambda x: np.prod(x), np.array([2.0, 0.0, 0.0]), ZERO),
    "nanmean": (lambda x: np.nanmean(x), np.array([1.0, np.nan, 3.0]), np.array([0.5, 0.0, 0.5])),
    "nanvar": (lambda x: np.nanvar(x), np.array([1.0, np.nan, 3.0]), np.array([-1.0, 0.0, 1.0])),
    "nanmax": (lambda x: np.nanmax(x), np.array([1.0, np.nan, 3.0]), np.array([0.0, 0.0, 1.0])),
    "nansum": (lambda x: np.nansum(x * x), np.array([1.0, np.nan, 3.0]), np.array([2.0, 0.0, 6.0])),
    "nan_to_num": (lambda x: np.sum(np.nan_to_num(x)), np.array([1.0, np.nan, np.inf]), np.array([1.0, 0.0, 0.0])),
    "log under where": (
        lambda x: np.sum(np.log(x, out=np.zeros_like(x), where=x > 0)),
        np.array([0.0, 2.0]),
        np.array([0.0, 0.5]),
    ),
    "interp inside and outside": (
        lambda x: np.sum(np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 3.0])),
        np.array([-1.0, 0.5, 1.5, 3.0]),
        np.array([0.0, 1.0, 2.0, 0.0]),
    ),
    "corrcoef of a line": (lambda x: np.corrcoef(x, 2 * x)[0, 1], np.arange(4.0), np.zeros(4)),
    "heaviside": (lambda x: np.heaviside(x, 0.5), 0.0, 0.0),
    "vander at 0": (lambda x: np.sum(np.vander(x, 3)), np.zeros(2), np.ones(2)),
    "angle at 0": (lambda x: np.angle(x), 0.0, 0.0),
    "unique": (lambda x: np.sum(np.unique(x)), np.array([2.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.0])),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name: str) -> None:
    function, point, expected = GRADIENTS[name]
    with np.errstate(all="ignore"):
        got = gs.grad(function, backend="python")(point)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_second_derivative_of_sinc() -> None:
    second = gs.derivative(gs.derivative(lambda x: np.sinc(x), backend="python"), backend="python")
    np.testing.assert_allclose(second(0.0), -(math.pi**2) / 3)


def test_second_derivative_of_logsumexp_with_ties() -> None:
    hessian = gs.hessian(lambda x: scipy.special.logsumexp(x), backend="python")(np.zeros(2))
    np.testing.assert_allclose(hessian, [[0.25, -0.25], [-0.25, 0.25]])


#: name: function, arguments, the exception that NumPy raises
ERRORS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "axis": (lambda x: np.sum(x, axis=2), (ZERO,)),
    "repeated axis": (lambda x: np.sum(x, axis=(0, 0)), (np.ones((2, 2)),)),
    "max of nothing": (lambda x: np.max(x), (np.zeros(0),)),
    "argmax of nothing": (lambda x: np.argmax(x), (np.zeros(0),)),
    "reshape": (lambda x: x.reshape(2, 2), (ZERO,)),
    "reshape with -1": (lambda x: x.reshape(2, -1), (ZERO,)),
    "two unknown lengths": (lambda x: x.reshape(-1, -1), (ZERO,)),
    "squeeze": (lambda x: np.squeeze(x, 0), (ZERO,)),
    "transpose": (lambda x: np.transpose(x, (0, 1)), (ZERO,)),
    "concatenate numbers": (lambda x: np.concatenate([x, 1.0]), (ZERO,)),
    "concatenate shapes": (lambda x: np.concatenate([x, np.zeros((2, 2))], axis=1), (np.ones((3, 2)),)),
    "split": (lambda x: np.split(x, 2), (ZERO,)),
    "broadcast": (lambda x: x + np.ones(2), (ZERO,)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, 2)), (ZERO,)),
    "take": (lambda x: np.take(x, 5), (ZERO,)),
    "dot": (lambda x: np.dot(x, np.ones(2)), (ZERO,)),
    "matmul of numbers": (lambda x: np.matmul(x, 2.0), (ZERO,)),
    "inv of a singular matrix": (lambda x: np.linalg.inv(x), (np.zeros((2, 2)),)),
    "inv of no square": (lambda x: np.linalg.inv(x), (np.zeros((2, 3)),)),
    "cholesky of an indefinite matrix": (lambda x: np.linalg.cholesky(x), (-np.eye(2),)),
    "read-only diagonal": (lambda x: np.diagonal(x).fill(1.0), (np.eye(2),)),
    "read-only broadcast": (lambda x: np.broadcast_to(x, (2, 3)).fill(1.0), (ZERO,)),
    "out of the wrong type": (lambda x: np.add(x, 1.5, out=np.zeros(3, int)), (ZERO,)),
    "integer to a negative power": (lambda i: np.power(i, -1), (np.array([1, 2]),)),
    "quantile": (lambda x: np.quantile(x, 1.5), (ZERO,)),
    "average": (lambda x: np.average(x, weights=x), (ZERO,)),
    "math.sqrt": (lambda x: math.sqrt(x), (-1.0,)),
    "math.log": (lambda x: math.log(x), (0.0,)),
    "math.exp": (lambda x: math.exp(x), (1000.0,)),
    "math.acos": (lambda x: math.acos(x), (2.0,)),
    "math.pow": (lambda x: math.pow(x, 0.5), (-1.0,)),
    "math.pow of 0": (lambda x: math.pow(x, -1), (0.0,)),
    "math.fmod": (lambda x: math.fmod(x, 0.0), (1.0,)),
    "math.gamma": (lambda x: math.gamma(x), (-1.0,)),
    "math.floor": (lambda x: math.floor(x), (math.inf,)),
    "math.sqrt of complex": (lambda x: math.sqrt(x), (1j,)),
    "item": (lambda x: x.item(), (ZERO,)),
    "arange": (lambda k: np.arange(0, 1, k), (0,)),
    "negative length": (lambda k: np.zeros(k), (-1,)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str) -> None:
    """The exception of the library, raised while staging or when run."""
    function, args = ERRORS[name]
    with pytest.raises(Exception) as expected, np.errstate(all="ignore"):  # noqa: B017, PT011
        function(*args)
    # NumPy has subclasses of its own for the errors of casts
    with pytest.raises(TypeError if issubclass(expected.type, TypeError) else expected.type):
        gs.jit(function, backend="python")(*args)


REFUSED: dict[str, Callable[..., Any]] = {
    "numpy.ufunc with a signature": lambda x: np.add(x, x, signature="dd->d"),
    "quantile with weights": lambda x: np.quantile(x, 0.5, weights=x),
    "multiply.at with indices": lambda x: np.multiply.at(x, [0, 0], 2.0),
    "a function without a rule": lambda x: np.roots(x),
    "view as another dtype": lambda x: x.view(np.int64),
    "the order of a Bessel function": lambda x: gs.grad(lambda v: scipy.special.jv(v, 1.0), backend="python")(x[0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_rule(name: str) -> None:
    """What has no rule says so."""
    with pytest.raises(gs.MissingRule):
        gs.jit(REFUSED[name], backend="python")(np.ones(3))


def _aliased(x: Any) -> Any:
    y = x * 1.0
    z = np.asarray(y)
    z += 1
    w = y.ravel()
    w[0] = 5.0
    v = np.atleast_2d(y)
    v[0, 1] = 7.0
    c = y.copy()
    c[:] = 0
    return y, z, np.array(y)


def _real_parts(x: Any) -> Any:
    z = x + 0j
    z.imag = 2.0
    z.real[0] = 9.0
    return z


def _masked_out(x: Any) -> Any:
    y = np.zeros_like(x)
    np.sqrt(x, where=x > 0, out=y)
    np.maximum(y, 0.5, out=y)
    np.cumsum(y, out=y)
    return y


@pytest.mark.parametrize("function", [_aliased, _real_parts, _masked_out])
def test_aliases(function: Callable[..., Any]) -> None:
    """Views share elements with their base, copies do not."""
    x = np.array([0.5, -1.0, 2.0])
    got, expected = gs.jit(function, backend="python")(x), function(x)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g, e)


@pytest.mark.parametrize("order", ["F", "strided", "reversed", "read-only"])
def test_layout(order: str) -> None:
    """Arguments that are not C-contiguous, and read-only ones."""
    base = np.arange(24.0).reshape(4, 6)
    x = {
        "F": np.asfortranarray(base),
        "strided": base[::2, ::3],
        "reversed": base[::-1, ::-1],
        "read-only": base.copy(),
    }[order]
    if order == "read-only":
        x.flags.writeable = False

    def f(x: Any) -> Any:
        return x.reshape(-1) * 2, x.ravel(), x.T @ x, np.sort(x, axis=0), x.copy().reshape(-1)

    for g, e in zip(gs.jit(f, backend="python")(x), f(x), strict=True):
        np.testing.assert_array_equal(g, e)
