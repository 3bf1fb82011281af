"""check_rule finds wrong rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.testing import check_rule


def make(value: Any, slope: Any) -> Any:
    @gs.custom_vjp
    def f(x: Any, n: int) -> Any:
        return x**n

    f.defvjp(lambda x, n: (value(x, n), (x, n)), lambda r, g: (slope(*r) * g, None))
    return f


X = np.array([0.5, 2.0, -1.0])


def test_a_right_rule_passes() -> None:
    check_rule(make(lambda x, n: x**n, lambda x, n: n * x ** (n - 1)), (X, 3), order=2)


def test_a_wrong_derivative_is_found() -> None:
    with pytest.raises(AssertionError, match="derivative"):
        check_rule(make(lambda x, n: x**n, lambda x, n: x ** (n - 1)), (X, 3))


def test_a_wrong_value_is_found() -> None:
    with pytest.raises(AssertionError, match="value"):
        check_rule(make(lambda x, n: x**n + 1.0, lambda x, n: n * x ** (n - 1)), (X, 3))


def test_a_rule_that_is_wrong_when_differentiated_again_is_found() -> None:
    f = make(lambda x, n: x**n, lambda x, n: gs.stop_gradient(n * x ** (n - 1)))
    check_rule(f, (X, 3))
    with pytest.raises(AssertionError, match="derivative of"):
        check_rule(f, (X, 3), order=2)
