"""The cost of one call: derivatives of functions of one number."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.contest import Case, Contestant, Run, Target, contest
from benchmarks.libraries import JAX, autograd_gradient, gradients, gradsmith_gradient, primals, torch_gradient


def square(x):
    return x * x


def newton_sqrt(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def jax_newton(a: float) -> Contestant:
    """JAX has no reverse mode for a while loop: forward mode stands in."""

    def make() -> Run:
        jax = importlib.import_module("jax")

        def newton(a: Any) -> Any:
            return jax.lax.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)

        derivative = jax.jit(lambda a: jax.jvp(newton, (a,), (1.0,))[1])
        placed = jax.numpy.asarray(a)
        return lambda: jax.block_until_ready(derivative(placed))

    return Contestant(JAX, "derivative", make)


def cases() -> list[Case]:
    return [
        Case(
            "call",
            "grad(x*x)(3.0), one call",
            contest([*gradients(square, (3.0,)), *primals(square, (3.0,))]),
            [Target(1e-6)],
        ),
        Case(
            "f",
            "Newton's square root in a while loop, gradient, one call",
            contest(
                [
                    gradsmith_gradient(newton_sqrt, (2.0,)),
                    autograd_gradient(newton_sqrt, (2.0,)),
                    jax_newton(2.0),
                    torch_gradient(newton_sqrt, (2.0,)),
                    *primals(newton_sqrt, (2.0,)),
                ]
            ),
            [Target(1e-6)],
        ),
    ]
