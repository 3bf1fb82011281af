"""Loops as people write them: recurrences, in-place stencils, sums over pairs, and one vectorised sum."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.contest import GRADSMITH, Case, Contestant, Run, Target, contest
from benchmarks.libraries import (
    AUTOGRAD,
    JAX,
    NUMBA_PRIMAL,
    TORCH,
    autograd_gradient,
    gradients,
    gradsmith_gradient,
    jax_gradient,
    primals,
    torch_gradient,
)

LOOP_OF_CALLS = "a Python loop of {} library calls a gradient"


def iterate(a, steps):
    x = 0.5
    for _ in range(steps):
        x = a * x * (1 - x) + 0.01 * np.sin(x)
    return x


def fill(x):
    a = np.zeros(len(x))
    for i in range(1, len(x)):
        a[i] = 0.5 * a[i - 1] + np.sin(x[i])
    return np.sum(a**2)


def heat(u0, steps):
    u = u0.copy()
    for _ in range(steps):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


def nonlinear_heat(u0, steps):
    u = u0.copy()
    for _ in range(steps):
        u[1:-1] += 0.1 * u[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


def weighted_squares(a, b, x, y):
    return np.sum((a * x + b - y) ** 2 * np.exp(-x))


def pairs(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            total += np.sin(x[i] * x[j])
    return total


# --- the same for libraries that cannot take the loops above -----------------------------------


def jax_iterate(a, steps):
    jax = importlib.import_module("jax")
    step = lambda x, _: (a * x * (1 - x) + 0.01 * jax.numpy.sin(x), None)  # noqa: E731
    return jax.lax.scan(step, 0.5, None, length=steps)[0]


def jax_fill(x):
    jax = importlib.import_module("jax")

    def step(previous, forcing):
        a = 0.5 * previous + jax.numpy.sin(forcing)
        return a, a

    return jax.numpy.sum(jax.lax.scan(step, 0.0, x[1:])[1] ** 2)


def jax_heat(nonlinear):
    def heat(u0, steps):
        jax = importlib.import_module("jax")

        def step(u, _):
            curvature = 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
            return u.at[1:-1].add(u[1:-1] * curvature if nonlinear else curvature), None

        return jax.numpy.sum(jax.lax.scan(step, u0, None, length=steps)[0] ** 2)

    return heat


def rebuilt_heat(concatenate, nonlinear):
    """Without writes: each step builds a new array."""

    def heat(u0, steps):
        u = u0
        for _ in range(steps):
            curvature = 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
            inner = u[1:-1] + (u[1:-1] * curvature if nonlinear else curvature)
            u = concatenate((u[:1], inner, u[-1:]))
        return (u**2).sum()

    return heat


def torch_heat(nonlinear):
    return rebuilt_heat(lambda parts: importlib.import_module("torch").cat(parts), nonlinear)


def autograd_heat(nonlinear):
    return rebuilt_heat(lambda parts: importlib.import_module("autograd.numpy").concatenate(parts), nonlinear)


def pairs_at_once(x):
    """All pairs by an outer product: n² numbers in memory."""
    return np.sum(np.tril(np.sin(np.outer(x, x)), -1))


def torch_pairs_at_once(x):
    torch = importlib.import_module("torch")
    return torch.tril(torch.sin(torch.outer(x, x)), -1).sum()


# --- the cases ---------------------------------------------------------------------------------


def stencil(name: str, title: str, function: Any, limit: float) -> Case:
    u = np.sin(np.linspace(0, 3, 1000)) + 0.1 * np.random.default_rng(1).random(1000)
    nonlinear = name == "c2"
    return Case(
        name,
        f"{title}, 1000 steps of 1000 points, gradient wrt the initial state",
        contest(
            [
                gradsmith_gradient(function, (u, 1000)),
                autograd_gradient(autograd_heat(nonlinear), (u, 1000), same_source=False),
                jax_gradient(jax_heat(nonlinear), (u, 1000), static_argnums=(1,), same_source=False),
                torch_gradient(torch_heat(nonlinear), (u, 1000), same_source=False),
                *primals(function, (u, 1000)),
            ],
            notes=lambda: explanation(function, (u, 1000)),
        ),
        [Target(limit, NUMBA_PRIMAL)],
    )


def explanation(function: Any, args: tuple[Any, ...]) -> list[str]:
    """What gradsmith says it stores for the reverse pass."""
    import gradsmith as gs

    lines = str(gs.grad(function).explain(*args)).splitlines()
    return [line.strip() for line in lines if "stor" in line.lower() or "save" in line.lower()]


def shorter_fill(x: np.ndarray, parts: int) -> Contestant:
    """gradsmith on a part of x: the time for all parts should be that for the whole."""

    def make() -> Run:
        import gradsmith as gs

        gradient, part = gs.grad(fill), np.ascontiguousarray(x[: len(x) // parts])
        return lambda: gradient(part)

    return Contestant(f"{GRADSMITH}, {parts} × n/{parts}", "derivative", make, scale=parts, comparable=False)


def iteration() -> Case:
    steps = 1_000_000
    args = (2.9893, steps)  # where the fixed point loses stability: the adjoint neither vanishes nor explodes
    reason = LOOP_OF_CALLS.format("10⁶")
    return Case(
        "a",
        "10⁶ steps of x = a x (1 − x) + 0.01 sin(x), gradient wrt a",
        contest(
            [
                gradsmith_gradient(iterate, args),
                jax_gradient(jax_iterate, args, static_argnums=(1,), same_source=False),
                *primals(iterate, args),
            ],
            skipped={AUTOGRAD: reason, TORCH: reason},
        ),
        [Target(1.7, NUMBA_PRIMAL), Target(1, JAX)],
    )


def recurrence() -> Case:
    x = np.random.default_rng(2).random(100_000)
    reason = LOOP_OF_CALLS.format("10⁵") + ", and no writes into an array that is differentiated"
    return Case(
        "b",
        "a[i] = 0.5 a[i−1] + sin(x[i]), n = 10⁵, gradient of Σ a² wrt x",
        contest(
            [
                gradsmith_gradient(fill, (x,)),
                jax_gradient(jax_fill, (x,), same_source=False),
                *primals(fill, (x,)),
                shorter_fill(x, 4),
            ],
            skipped={AUTOGRAD: reason, TORCH: reason},
        ),
        [Target(1.2, NUMBA_PRIMAL), Target(1.3, f"{GRADSMITH}, 4 × n/4")],
    )


def vectorised_sum() -> Case:
    random = np.random.default_rng(3)
    args = (0.7, 0.2, random.random(1_000_000), random.random(1_000_000))
    return Case(
        "d",
        "Σ (a x + b − y)² e⁻ˣ, n = 10⁶, value and gradient wrt a, b, x",
        contest([*gradients(weighted_squares, args, (0, 1, 2), value=True), *primals(weighted_squares, args)]),
        [Target(0.5, NUMBA_PRIMAL)],
    )


def all_pairs() -> Case:
    x = np.random.default_rng(4).random(2000)
    return Case(
        "e",
        "Σ_{j<i} sin(xᵢ xⱼ), two Python loops, n = 2000, gradient",
        contest(
            [
                gradsmith_gradient(pairs, (x,)),
                autograd_gradient(pairs_at_once, (x,)),
                jax_gradient(pairs_at_once, (x,)),
                torch_gradient(torch_pairs_at_once, (x,), same_source=False),
                *primals(pairs, (x,)),
            ]
        ),
        [Target(0.5, NUMBA_PRIMAL)],
    )


def cases() -> list[Case]:
    return [
        iteration(),
        recurrence(),
        stencil("c", "heat equation, in-place stencil", heat, 0.5),
        stencil("c2", "heat equation with a factor u, in-place stencil", nonlinear_heat, 1.0),
        vectorised_sum(),
        all_pairs(),
    ]
