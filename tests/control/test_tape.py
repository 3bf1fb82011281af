"""Control over derivatives in functions that Python runs for the tape."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

pytestmark = pytest.mark.filterwarnings("ignore::gradsmith.errors.GradsmithWarning")
LOGGER = logging.getLogger("tests.control.tape")


@gs.custom_vjp
def tripled(x: Any) -> Any:
    return x**2


tripled.defvjp(lambda x: (tripled(x), x), lambda x, g: (6.0 * x * g,))


@gs.custom_jvp
def doubled(x: Any) -> Any:
    return np.sin(x)


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2.0 * np.cos(primals[0]) * tangents[0]))

cube = (3.0).__rpow__
gs.define_rule(cube, vjp=lambda x: (cube(x), lambda g: g * 5.0), like=0.0)


class Scale:
    def __init__(self, by: Any):
        self.by = by

    @gs.checkpoint
    def __call__(self, x: Any) -> Any:
        return np.tanh(x * self.by)


def everything(x: Any) -> Any:
    with gs.ignore_derivatives():
        total = 0.0
        for k in range(3):
            total = total + x * k
    y = tripled(x) * total + doubled(x) + cube(x)
    y = gs.hook(y, lambda g: g * 2.0)
    return y + Scale(x)(x) + gs.stop_gradient({"x": x})["x"] * x


@pytest.mark.parametrize("x", [0.4, 1.1])
def test_the_tape_gives_the_same_as_the_source(x: float) -> None:
    expected = 2.0 * (6 * x * 3 * x + 2 * np.cos(x) + 5.0) + (1 - np.tanh(x * x) ** 2) * 2 * x + x
    for engine in ("source", "tape"):
        np.testing.assert_allclose(gs.grad(everything, engine=engine)(x), expected)
    np.testing.assert_allclose(gs.record(everything, x).gradient(x), expected)


def test_arrays() -> None:
    x = np.array([0.4, 1.1])
    for engine in ("source", "tape"):
        got = gs.grad(lambda x: np.sum(tripled(x) * gs.stop_gradient(x)), engine=engine)(x)
        np.testing.assert_allclose(got, 6 * x * x)


def test_prints_logs_draws_and_clocks_at_every_call(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def f(x: Any, rng: Any) -> Any:
        print("value", float(np.round(gs.stop_gradient(2.0), 1)))
        LOGGER.warning("seen")
        return x * rng.normal() + 0.0 * time.perf_counter()

    g = gs.grad(f, engine="tape")
    mine, theirs = np.random.default_rng(0), np.random.default_rng(0)
    for _ in range(3):
        assert g(1.0, mine) == theirs.normal()
    assert capsys.readouterr().out == "value 2.0\n" * 3
    assert caplog.messages == ["seen"] * 3


def test_with_respect_to_what_is_read_from_outside_needs_the_source() -> None:
    scale = Scale(np.array([1.0, 2.0]))
    g = gs.grad(lambda x: np.sum(scale(x)), wrt=scale)(0.5)
    np.testing.assert_allclose(g.by, 0.5 * (1 - np.tanh(0.5 * scale.by) ** 2))
    with pytest.raises(gs.UnsupportedCode, match="wrt on a tape"):
        gs.grad(lambda x: np.sum(scale(x)), wrt=scale, engine="tape")(0.5)


class Vector:
    """Operators with rules."""

    def __init__(self, x: Any):
        self.x = x

    @gs.custom_vjp
    def __mul__(self, other: Vector) -> Vector:
        return Vector(self.x * other.x)


Vector.__mul__.defvjp(
    lambda a, b: (a * b, (a, b)), lambda r, g: (Vector(2.0 * g.x * r[1].x), Vector(3.0 * g.x * r[0].x))
)


@pytest.mark.parametrize("engine", ["source", "tape"])
def test_operators_may_have_rules(engine: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return (Vector(x) * Vector(y)).x

    assert gs.grad(f, (0, 1), engine=engine)(2.0, 5.0) == (10.0, 6.0)
