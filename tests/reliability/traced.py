"""Functions in a file of their own, which functions of test_tracebacks.py call."""

from __future__ import annotations

from typing import Any


def pick(x: Any, k: Any) -> Any:
    return x[k]  # pick


def through(x: Any, k: Any) -> Any:
    return pick(x, k) ** 2  # through


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.scaled(x)  # Scaler call

    def scaled(self, x: Any) -> Any:
        if x > 3.0:
            raise ValueError(f"too large: {x}")  # scaled
        return self.factor * x * x
