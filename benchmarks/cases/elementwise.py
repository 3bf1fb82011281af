"""Elementwise derivatives of two functions of one variable at 901 points."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contest import GRADSMITH, Case, Contestant, Run, Target, contest
from benchmarks.libraries import AUTOGRAD, JAX, NUMPY_PRIMAL, TORCH, as_tensor, primals, using


def complicated(x):
    return np.sin(x) ** 2 * np.exp(x) * x**-2 + np.cos(x) ** 3


def simple(x):
    return np.sin(x)


def points() -> np.ndarray:
    return np.arange(100, 1001) / 100


def elementwise_derivatives(function: Any, x: np.ndarray) -> list[Contestant]:
    def gradsmith() -> Run:
        import gradsmith as gs

        derivative = gs.derivative(function)
        return lambda: derivative(x)

    def autograd() -> Run:
        anp = importlib.import_module("autograd.numpy")
        derivative = importlib.import_module("autograd").elementwise_grad(using(function, anp))
        return lambda: derivative(x)

    def jax() -> Run:
        jax = importlib.import_module("jax")
        f = using(function, jax.numpy)
        derivative = jax.jit(jax.grad(lambda x: jax.numpy.sum(f(x))))
        placed = jax.numpy.asarray(x)
        return lambda: jax.block_until_ready(derivative(placed))

    def torch() -> Run:
        torch = importlib.import_module("torch")
        f, placed = using(function, torch), as_tensor(torch, x, requires_grad=True)
        return lambda: torch.autograd.grad(f(placed).sum(), placed)[0]

    makes: dict[str, Callable[[], Run]] = {GRADSMITH: gradsmith, AUTOGRAD: autograd, JAX: jax, TORCH: torch}
    return [Contestant(name, "derivative", make) for name, make in makes.items()]


def cases() -> list[Case]:
    x = points()
    rivals = [Target(0.1, name) for name in (JAX, AUTOGRAD, TORCH)]
    return [
        Case(
            "complicated",
            "derivative of sin(x)² eˣ x⁻² + cos(x)³ at 901 points",
            contest([*elementwise_derivatives(complicated, x), *primals(complicated, (x,))]),
            [Target(0.25, NUMPY_PRIMAL), *rivals],
        ),
        Case(
            "simple",
            "derivative of sin(x) at 901 points",
            contest([*elementwise_derivatives(simple, x), *primals(simple, (x,))]),
            [Target(0.35, NUMPY_PRIMAL)],
        ),
    ]
