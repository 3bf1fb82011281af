"""Tables of ordinary functions, each judged at several points by central differences of the plain Python function.

    case = Table()

    @case([1.0], [-1.0])
    def f(x): ...

    test_gradients = case.test()

One compiled object serves all points of a case, so a branch or trip count of the first point must not leak into the next.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import MissingRule, UnsupportedCode


class Table:
    """A decorator that collects functions with the points to judge them at, and makes the test of them."""

    def __init__(self) -> None:
        self.cases: list[tuple[Callable[..., Any], tuple[Sequence[Any], ...]]] = []

    def __call__(self, *points: Sequence[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(f: Callable[..., Any]) -> Callable[..., Any]:
            self.cases.append((f, points))
            return f

        return add

    def test(self, check: Callable[..., None] | None = None) -> Callable[..., None]:
        """The test function: every case on every back end."""

        @pytest.mark.parametrize(("f", "points"), [pytest.param(f, p, id=f.__name__) for f, p in self.cases])
        def test(f: Callable[..., Any], points: Sequence[Sequence[Any]], backend: str) -> None:
            (check or judge)(f, points, backend)

        return test


def judge(f: Callable[..., Any], points: Sequence[Sequence[Any]], backend: str, engine: str = "source") -> None:
    """Value and derivatives of ``f`` in both modes at ``points``, in order and then again, with the same objects."""
    options: dict[str, Any] = {"backend": backend, "engine": engine}
    moving = [k for k, x in enumerate(points[0]) if np.asarray(x).dtype.kind == "f"]
    compiled = gs.jit(f, **options)
    forward = gs.jacobian(f, moving, mode="forward", **options)
    if np.ndim(f(*copy.deepcopy(points[0]))) == 0:
        reverse = gs.grad(f, moving, **options)
    else:
        reverse = gs.jacobian(f, moving, mode="reverse", **options)
    seen = []
    for point in points:
        plain, own = copy.deepcopy(point), copy.deepcopy(point)
        value, expected = f(*plain), differences(f, point, moving)
        same(compiled(*own), value, 1e-12, "value")
        for k, (a, b) in enumerate(zip(own, plain, strict=True)):
            if isinstance(a, str):
                continue
            same(a, b, 1e-12, f"argument {k} after the call")
        seen.append((point, [leaves_alone(d, point) for d in (forward, reverse)]))
        for mode, found in zip(("forward", "reverse"), seen[-1][1], strict=True):
            for k, got, wanted in zip(moving, found, expected, strict=True):
                same(got, wanted, 2e-6, f"{mode}-mode derivative with respect to argument {k} at {point}")
    for point, before in seen:  # the same bits after other branches were taken
        for d, found in zip((forward, reverse), before, strict=True):
            for a, b in zip(d(*point), found, strict=True):
                np.testing.assert_array_equal(a, b)


def right_or_refused(f: Callable[..., Any], points: Sequence[Sequence[Any]], backend: str) -> None:
    """A construct that the source front end may refuse, but then clearly: never a wrong number. The tape may serve it."""
    for engine in ("source", "auto"):
        try:
            judge(f, points, backend, engine)
        except (UnsupportedCode, MissingRule) as error:
            assert str(error)


def leaves_alone(derivative: Callable[..., Any], point: Sequence[Any]) -> Any:
    """The derivative at a point, which must not be modified."""
    before = copy.deepcopy(point)
    found = derivative(*point)
    for x, y in zip(point, before, strict=True):
        np.testing.assert_array_equal(x, y)
    return found


def differences(
    f: Callable[..., Any], point: Sequence[Any], moving: Sequence[int], h: float = 1e-3
) -> list[np.ndarray]:
    """Jacobians by central differences of fourth order, extrapolated once more: error O(h⁶)."""
    return [_difference(f, point, k, h) for k in moving]


def _difference(f: Callable[..., Any], point: Sequence[Any], k: int, h: float) -> np.ndarray:
    x = np.asarray(point[k])

    def at(i: tuple[int, ...], step: float) -> np.ndarray:
        args = copy.deepcopy(list(point))
        moved = np.array(x, dtype=float)
        moved[i] += step
        args[k] = moved if isinstance(point[k], np.ndarray) else type(point[k])(moved)
        return np.asarray(f(*args), dtype=float)

    def central(i: tuple[int, ...], h: float) -> np.ndarray:
        return (8 * (at(i, h) - at(i, -h)) - (at(i, 2 * h) - at(i, -2 * h))) / (12 * h)

    shape = np.shape(f(*copy.deepcopy(list(point))))
    columns = [(16 * central(i, h / 2) - central(i, h)) / 15 for i in np.ndindex(x.shape)]
    return (
        np.moveaxis(np.reshape(columns, (*x.shape, *shape)), range(x.ndim), range(-x.ndim, 0)) if x.ndim else columns[0]
    )


def same(got: Any, expected: Any, tolerance: float, what: str) -> None:
    """Equal shapes, and numbers equal relative to the largest."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what} has shape {got.shape}, not {expected.shape}"
    scale = 1.0 + np.max(np.abs(expected), initial=0.0)
    assert np.all(np.abs(got - expected) <= tolerance * scale), f"{what} is {got}, expected {expected}"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers in (0.5, 1.5): away from zero."""
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


def signed(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers in (-1, 1), none near zero."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
