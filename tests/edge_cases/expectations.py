"""Judges of the edge cases: central differences for both modes, and the closed forms that each test states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradsmith as gs
from gradsmith.testing import check_grads


def check(f: Callable[..., Any], *args: Any, backend: str, order: int = 1, **tolerances: float) -> None:
    """Value, forward and reverse derivative of ``f`` at ``args`` against plain Python and central differences."""
    check_grads(f, args, order=order, backend=backend, **tolerances)


def gradients(f: Callable[..., Any], x: Any, *, backend: str) -> tuple[Any, Any]:
    """The gradient of a real ``f`` by reverse mode, and by forward mode as a Jacobian of one row."""
    return gs.jit(lambda x: (gs.grad(f)(x), gs.jacobian(f, mode="forward")(x)), backend=backend)(x)


def expect(f: Callable[..., Any], x: Any, gradient: Any, *, backend: str, rtol: float = 1e-12) -> None:
    """The gradient of ``f`` at ``x`` in both modes is ``gradient`` (inf and nan at their places)."""
    for mode, got in zip(("reverse", "forward"), gradients(f, x, backend=backend), strict=True):
        np.testing.assert_allclose(got, gradient, rtol=rtol, atol=1e-14, err_msg=f"{mode} mode")
