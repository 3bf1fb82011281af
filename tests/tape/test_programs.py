"""Programs as people write them, recorded at one point and replayed at others, where branches and lengths may differ."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.tape.programs import PROGRAMS


def slopes(f: Callable[..., Any], args: tuple[Any, ...], h: float = 1e-6) -> np.ndarray:
    """The gradient with respect to the first argument by central differences."""
    x = np.asarray(args[0], dtype=float)
    found = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[k] = h
        above, below = ((x + s)[()] if x.ndim else float(x + s) for s in (step, -step))
        found[k] = (f(above, *copy.deepcopy(args[1:])) - f(below, *copy.deepcopy(args[1:]))) / (2 * h)
    return found


@pytest.mark.parametrize(("f", "points"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_values_and_gradients_at_every_point(f: Callable[..., Any], points: list[tuple[Any, ...]]) -> None:
    tape = gs.record(f, *copy.deepcopy(points[0]))
    for args in (*points, points[0]):
        np.testing.assert_allclose(tape.value(*copy.deepcopy(args)), f(*copy.deepcopy(args)), rtol=1e-12)
        gradient = tape.gradient(*copy.deepcopy(args), argnums=0)
        np.testing.assert_allclose(gradient, slopes(f, args), rtol=2e-5, atol=1e-6)
