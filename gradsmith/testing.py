"""Checks that judge derivatives by mathematics: central differences against forward and reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradsmith as gs
from gradsmith import tree


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("forward", "reverse"),
    *,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    eps: float = 1e-5,
    backend: str = "native",
) -> None:
    """Compare derivatives of ``f`` at ``args`` with central differences along random directions.

    Args:
        f: a function from float or complex numbers, arrays or containers of them to the same. It is evaluated by plain
            Python for the differences. Integer leaves of the arguments are held fixed.
        args: the point, a sequence of positional arguments.
        order: how often to differentiate; the derivative of order k is differenced to check that of order k + 1.
        modes: "forward" (jvp), "reverse" (vjp) or both; orders mix them.
        atol, rtol: tolerances of the comparison, relative to the largest entry.
        eps: step of the differences, for values of size one.
        backend: "native" or "python".

    Raises:
        AssertionError: a derivative differs from the differences, or a value from plain Python's.

    >>> import numpy as np
    >>> from gradsmith.testing import check_grads
    >>> check_grads(lambda x: np.sum(np.sin(x) * x), (np.array([0.5, 2.0]),))
    """
    rng = np.random.default_rng(0)
    g, point = _floating(f, args)
    _compare(gs.jit(g, backend=backend)(*point), g(*point), atol, rtol, "the value")
    _check(g, point, order, modes, (atol, rtol, eps, backend), rng, "")


def check_rule(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    *,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    eps: float = 1e-5,
    backend: str = "native",
) -> None:
    """Check the derivative rule of a function by finite differences, in forward and reverse mode.

    Args:
        f: a function with a rule (``custom_vjp``, ``custom_jvp``, ``define_rule``), or one that calls such a function.
        args: a point. Arguments without floats are held fixed.
        order: how often to differentiate; order 2 checks that the rule itself is differentiated rightly.
        atol, rtol, eps, backend: as for :func:`check_grads`.

    Raises:
        AssertionError: a derivative differs from the differences, or the rule's value from that of ``f``.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> from gradsmith.testing import check_rule
    >>> @gs.custom_vjp
    ... def cube(x):
    ...     return x**3
    >>> cube.defvjp(lambda x: (cube(x), x), lambda x, g: (3 * x**2 * g,))
    >>> check_rule(cube, (np.array([0.5, 2.0]),), order=2)
    """
    rng = np.random.default_rng(0)
    g, point = _floating(f, args)
    value, _ = gs.jvp(g, point, [_direction(x, rng) for x in point], backend=backend)
    _compare(value, f(*args), atol, rtol, "the value that the rule computes")
    check_grads(f, args, order, atol=atol, rtol=rtol, eps=eps, backend=backend)


def _floating(f: Callable[..., Any], args: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """``f`` as a function of its float and complex leaves, and those leaves."""
    leaves, structure = tree.flatten(tuple(args))
    moving = [k for k, x in enumerate(leaves) if np.asarray(x).dtype.kind in "fc"]

    def g(*values: Any) -> Any:
        new = list(leaves)
        for k, value in zip(moving, values, strict=True):
            new[k] = value
        return f(*tree.unflatten(structure, new))

    return (f, list(args)) if len(moving) == len(leaves) == len(args) else (g, [leaves[k] for k in moving])


def _check(
    f: Callable[..., Any],
    point: list[Any],
    order: int,
    modes: Sequence[str],
    options: tuple[float, float, float, str],
    rng: np.random.Generator,
    what: str,
) -> None:
    if order == 0:
        return
    atol, rtol, eps, backend = options
    tangents = [_direction(x, rng) for x in point]
    expected = _difference(f, point, tangents, eps)
    for mode in modes:
        name = f"{mode}-mode derivative{what}"
        if mode == "forward":
            _, out = gs.jvp(f, point, tangents, backend=backend)
            _compare(out, expected, atol, rtol, name)
            _check(_forward(f, tangents, backend), point, order - 1, modes, options, rng, f" of {name}")
        elif mode == "reverse":
            value, pullback = gs.vjp(f, *point, backend=backend)
            leaves, structure = tree.flatten(value)
            cotangent = tree.unflatten(structure, [_direction(y, rng) for y in leaves])
            got = pullback(cotangent)
            _compare(_dot(got, tangents), _dot(cotangent, expected), atol, rtol, name)
            _check(_reverse(f, cotangent, backend), point, order - 1, modes, options, rng, f" of {name}")
        else:
            raise ValueError(f"modes are 'forward' and 'reverse', not {mode!r}")


def _forward(f: Callable[..., Any], tangents: list[Any], backend: str) -> Callable[..., Any]:
    return lambda *point: gs.jvp(f, point, tangents, backend=backend)[1]


def _reverse(f: Callable[..., Any], cotangent: Any, backend: str) -> Callable[..., Any]:
    return lambda *point: gs.vjp(f, *point, backend=backend)[1](cotangent)


def _direction(x: Any, rng: np.random.Generator) -> Any:
    """A random direction of the kind of ``x``; zeros for what is not floating."""
    a = np.asarray(x)
    d = rng.uniform(0.5, 1.5, a.shape) * rng.choice([-1.0, 1.0], a.shape)
    if a.dtype.kind == "c":
        d = d + 1j * rng.uniform(0.5, 1.5, a.shape)
    d = np.asarray(d if a.dtype.kind in "fc" else 0 * d, a.dtype if a.dtype.kind in "fc" else float)
    if isinstance(x, np.ndarray):
        return d
    return d[()] if isinstance(x, np.generic) else d.item()


def _difference(f: Callable[..., Any], point: list[Any], tangents: list[Any], eps: float) -> Any:
    """The central difference of fourth order of ``f`` along ``tangents``."""

    def at(step: float) -> list[Any]:
        moved = [x + step * t for x, t in zip(point, tangents, strict=True)]
        return tree.flatten(
            f(*(type(x)(m) if isinstance(x, float | complex) else m for x, m in zip(point, moved, strict=True)))
        )[0]

    h = eps * 64  # fourth order: error h⁴, rounding 1e-16 / h
    rows = [at(s * h) for s in (1, -1, 2, -2)]
    _, structure = tree.flatten(f(*point))
    out = []
    for a, b, c, d in zip(*rows, strict=True):
        a, b, c, d = (np.asarray(v) for v in (a, b, c, d))
        inexact = a.dtype.kind in "fc"
        out.append((8 * (a - b) - (c - d)) / (12 * h) if inexact else np.zeros(a.shape))
    return tree.unflatten(structure, out)


def _dot(x: Any, y: Any) -> float:
    """Real inner product of two trees."""
    xs, ys = tree.flatten(x)[0], tree.flatten(y)[0]
    return float(sum(np.sum((np.conj(a) * b).real) for a, b in zip(xs, ys, strict=True)))


def _compare(got: Any, expected: Any, atol: float, rtol: float, what: str) -> None:
    for a, b in zip(tree.flatten(got)[0], tree.flatten(expected)[0], strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            raise AssertionError(f"{what} has shape {a.shape}, expected {b.shape}")
        scale = np.max(np.abs(b), initial=0.0)
        if not np.allclose(a, b, rtol=rtol, atol=atol + rtol * scale, equal_nan=True):
            raise AssertionError(f"{what} is {a}, expected {b} (largest difference {np.max(np.abs(a - b))})")
