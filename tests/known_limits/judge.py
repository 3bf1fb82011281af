"""Gradients judged by central differences, in both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

#: who reads the function: its source is staged, or Python runs it once and what its arguments meet is recorded
engines = pytest.mark.parametrize("engine", ["source", "tape"])


def differences(f: Callable[..., Any], x: Any) -> Any:
    """The gradient of ``f`` at an array or a float by central differences."""
    at = np.asarray(x, float)
    out = np.zeros(at.shape)
    for k in np.ndindex(at.shape):
        h = np.zeros(at.shape)
        h[k] = 1e-5
        ends = [f(float(at + s * h) if at.ndim == 0 else at + s * h) for s in (1, -1)]
        out[k] = (ends[0] - ends[1]) / 2e-5
    return out


def assert_gradient(f: Callable[..., Any], x: Any, engine: str, **options: Any) -> None:
    """Reverse mode, forward mode and a second derivative agree with differences."""
    expected = differences(f, x)
    gradient = gs.grad(f, engine=engine, **options)
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-6, atol=1e-7)
    tangent = gs.jvp(f, (x,), (np.ones_like(x) if np.ndim(x) else 1.0,), engine=engine)[1]
    np.testing.assert_allclose(tangent, expected.sum(), rtol=1e-6, atol=1e-7)
