"""What Zygote's documentation lists as its design limitations and known bugs, each as a program that works here.

https://github.com/FluxML/Zygote.jl/blob/master/docs/src/limitations.md
"""

from __future__ import annotations

import ctypes.util
import time
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.known_limits.judge import assert_gradient, engines

X = np.array([0.5, -1.2, 2.0])


@engines
def test_array_mutation(engine: str) -> None:
    """ "Zygote does not handle array mutation for now": x .= 2 .* x."""

    def f(x: np.ndarray) -> Any:
        y = np.empty_like(x)
        y[:] = 2 * x  # fills an array that was allocated
        y[1:] += y[:-1] ** 2
        np.multiply(y, x, out=y)
        return np.sum(y)

    assert_gradient(f, X, engine)


@engines
def test_the_argument_itself_is_written(engine: str) -> None:
    def double(x: np.ndarray) -> np.ndarray:
        x[:] = 2 * x
        return x

    x = X.copy()
    np.testing.assert_allclose(gs.grad(lambda x: np.sum(double(x) ** 2), engine=engine)(x), 8 * X)
    np.testing.assert_array_equal(x, X)  # a derivative leaves its argument as it is


@engines
def test_push_and_pop(engine: str) -> None:
    def f(x: np.ndarray) -> Any:
        stack = []
        for v in x:
            stack.append(v * v)
        last = stack.pop()
        stack[0] = stack[0] * last
        return sum(stack)

    assert_gradient(f, X, engine)


@engines
def test_try_and_except(engine: str) -> None:
    """ "Any expressions involving try/catch statements is not supported"."""

    def tryme(x: np.ndarray) -> Any:
        try:
            return 2 * x
        except Exception as e:
            raise e

    assert_gradient(lambda x: np.sum(tryme(x) ** 2), X, engine)


@engines
def test_an_exception_that_is_raised_and_caught(engine: str) -> None:
    def f(x: np.ndarray) -> Any:
        table = {"a": x[0] * x[1]}
        try:
            y = table["b"]
        except KeyError:
            y = table["a"] ** 2
        finally:
            z = x[2]
        return y * z

    assert_gradient(f, X, engine)


def test_a_foreign_call_that_does_not_depend_on_the_input_runs() -> None:
    """ "Can't differentiate foreigncall expression": the clock of the C library."""
    libc = ctypes.CDLL(ctypes.util.find_library("c"))

    def f(x: np.ndarray) -> Any:
        assert libc.clock() != 0 and time.time() > 0
        return np.sum(x**2)

    np.testing.assert_allclose(gs.grad(f, engine="tape")(X), 2 * X)


def test_a_foreign_call_with_a_rule_is_differentiated() -> None:
    """ "This solution is the only solution available for foreign call expressions": so it is here."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    libm.erf.restype, libm.erf.argtypes = ctypes.c_double, [ctypes.c_double]

    erf = gs.custom_jvp(gs.host(lambda x: libm.erf(x), like=0.0))
    erf.defjvp(lambda x, dx: (erf(*x), 2 / np.sqrt(np.pi) * np.exp(-(x[0] ** 2)) * dx[0]))
    expected = libm.erf(0.3) + 0.3 * 2 / np.sqrt(np.pi) * np.exp(-0.09)
    assert gs.grad(lambda x: erf(x) * x)(0.3) == pytest.approx(expected)


@engines
def test_mutable_structs(engine: str) -> None:
    """ "limited support for mutation … x.a = val … However, this is buggy"."""

    class Particle:
        def __init__(self, q: Any, v: Any):
            self.q, self.v = q, v

        def kick(self, dt: float) -> None:
            self.v = self.v - dt * np.sin(self.q)
            self.q = self.q + dt * self.v

    def f(x: np.ndarray) -> Any:
        p = Particle(x[0], x[1])
        for _ in range(5):
            p.kick(0.1)
        return p.q * x[2] + p.v

    assert_gradient(f, X, engine)


@engines
def test_variable_names_are_used_again_with_another_type(engine: str) -> None:
    """ "such re-binding confuses Zygote, especially if the type of the value changes"."""

    def f(x: np.ndarray) -> Any:
        total: Any = 0
        for v in x:
            total += v**3

        def add() -> None:
            nonlocal total
            total = np.array([total, 1.0]) * x[0]

        add()
        total = total.sum()
        return total

    assert_gradient(f, X, engine)


@engines
def test_second_derivatives(engine: str) -> None:
    """ "The complexity of the code grows rapidly, as Zygote differentiates its own un-optimised output"."""

    def f(x: np.ndarray) -> Any:
        y = x.copy()
        for _ in range(3):
            y[1:] = y[1:] * np.sin(y[:-1])
        return np.sum(y**2)

    gradient = gs.grad(f, engine=engine)
    expected = np.stack([(gradient(X + h) - gradient(X - h)) / 2e-6 for h in 1e-6 * np.eye(3)])
    np.testing.assert_allclose(gs.hessian(f, engine=engine)(X), expected, rtol=1e-6, atol=1e-7)
    reverse_over_reverse = gs.jacobian(gs.grad(f), mode="reverse", engine=engine)(X)
    np.testing.assert_allclose(reverse_over_reverse, expected, rtol=1e-6, atol=1e-7)
