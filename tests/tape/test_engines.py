"""Which engine reads a function, and that both give the same: the tables of edge cases run through the tape as well."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import GradsmithError
from tests.edge_cases import test_control_flow, test_mutation
from tests.edge_cases.judge import judge

X = np.array([0.5, -1.5, 2.0])
CASES = [
    pytest.param(f, points, id=f"{module.__name__.rsplit('_', 1)[1]}-{f.__name__}")
    for module in (test_mutation, test_control_flow)
    for f, points in module.case.cases
]


@pytest.mark.parametrize(("f", "points"), CASES)
def test_edge_cases_on_the_tape(f: Callable[..., Any], points: Sequence[Sequence[Any]]) -> None:
    try:
        judge(f, points, "python", "tape")
    except GradsmithError as error:
        pytest.skip(f"refused: {error}")


def from_text(text: str, name: str = "f") -> Any:
    scope: dict[str, Any] = {}
    exec(compile(text, "<no file>", "exec"), {"np": np}, scope)
    return scope[name]


def test_a_function_without_source() -> None:
    f = from_text(
        "def f(x):\n    y = np.zeros(3)\n    y[:] = x * 2\n    return np.sum(y ** 2) if x[0] > 0 else np.sum(y)"
    )
    with pytest.raises(gs.SourceUnavailable):
        gs.grad(f, engine="source")(X)
    with pytest.warns(gs.GradsmithWarning, match=r"f is run by Python.*source"):
        g = gs.grad(f)
        np.testing.assert_allclose(g(X), 8 * X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(g(-X), [2, 2, 2])
        np.testing.assert_allclose(gs.value_and_grad(f)(X)[1], 8 * X)  # one warning for a function


def test_one_call_without_source_in_a_staged_function() -> None:
    inner = from_text("def inner(x):\n    return np.sin(x) if x > 0.0 else x * x", "inner")

    def f(x: Any, n: int) -> Any:
        y = inner(x)
        for _ in range(n):
            y = y * x
        return y

    with pytest.warns(gs.GradsmithWarning, match="inner"):
        g = gs.grad(f)
        assert math.isclose(g(2.0, 2), 2 * 2 * math.sin(2.0) + 4 * math.cos(2.0))
    assert g(-2.0, 2) == 4 * (-2.0) ** 3
    assert math.isclose(g(2.0, 5), 5 * 2**4 * math.sin(2.0) + 2**5 * math.cos(2.0))


def test_what_cannot_be_staged_is_recorded() -> None:
    def f(x: Any) -> Any:
        def accumulator() -> Any:
            total = 0.0
            while True:
                total = total + (yield total)

        a = accumulator()
        total = next(a)
        for v in x:
            total = a.send(v * v)
        return total

    with pytest.raises(gs.UnsupportedCode):
        gs.grad(f, engine="source")(X)
    with pytest.warns(gs.GradsmithWarning, match="generator|yield|NoneType|send"):
        np.testing.assert_allclose(gs.grad(f)(X), 2 * X)


def test_data_dependent_recursion_is_recorded() -> None:
    def halve(x: Any) -> Any:
        return x if x < 0.5 else halve(x * 0.5) * 1.5

    for engine in ("source", "tape"):
        g = gs.grad(halve, engine=engine)
        for x in (0.3, 0.7, 5.0):
            steps = max(0, math.floor(math.log2(x / 0.5)) + 1)
            assert math.isclose(g(x), 0.75**steps)


def test_an_error_of_the_source_engine_stays_when_the_tape_cannot_help() -> None:
    def f(x: Any) -> Any:
        return np.busday_count(x, x)

    with pytest.raises(gs.MissingRule, match="busday_count"):
        gs.grad(f)(1.0)
    with pytest.raises(ValueError, match="engine"):
        gs.grad(f, engine="fast")(1.0)


@pytest.mark.parametrize("engine", ["source", "tape"])
def test_every_transform_takes_an_engine(engine: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(x**3)

    np.testing.assert_allclose(gs.grad(f, engine=engine)(X), 3 * X**2)
    np.testing.assert_allclose(gs.value_and_grad(f, engine=engine)(X)[0], np.sum(X**3))
    np.testing.assert_allclose(gs.jacobian(lambda x: x**2, engine=engine)(X), np.diag(2 * X))
    np.testing.assert_allclose(gs.hessian(f, engine=engine)(X), np.diag(6 * X))
    np.testing.assert_allclose(gs.hvp(f, engine=engine)(X, X), 6 * X**2)
    np.testing.assert_allclose(gs.jvp(f, (X,), (X,), engine=engine)[1], 3 * np.sum(X**3))
    np.testing.assert_allclose(gs.vjp(f, X, engine=engine)[1](1.0)[0], 3 * X**2)
    np.testing.assert_allclose(gs.vmap(lambda x: x * x, engine=engine)(X), X**2)
    np.testing.assert_allclose(gs.jit(f, engine=engine)(X), np.sum(X**3))
    assert math.isclose(gs.derivative(lambda x: x**3, engine=engine)(2.0), 12.0)


def test_control_over_derivatives_on_the_tape() -> None:
    @gs.custom_vjp
    def clipped(x: Any) -> Any:
        return x * 1.0

    clipped.defvjp(lambda x: (clipped(x), None), lambda _, g: (np.clip(g, -1.0, 1.0),))

    def f(x: Any) -> Any:
        y = gs.hook(clipped(x) ** 2, lambda g: 2.0 * g)
        with gs.ignore_derivatives():
            scale = x * 3.0
        return y + gs.stop_gradient(x) * x + scale + gs.checkpoint(np.sin)(x)

    for engine in ("source", "tape"):
        assert math.isclose(gs.grad(f, engine=engine)(0.2), 0.8 + 0.2 + math.cos(0.2))


def test_output_and_host_calls_happen_at_every_replay(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []
    note = gs.host(seen.append)

    def f(x: Any) -> Any:
        print("x is", x)
        note(x)
        return x * x

    g = gs.grad(f, engine="tape")
    assert [g(1.0), g(2.0), g(3.0)] == [2.0, 4.0, 6.0]
    assert capsys.readouterr().out == "x is 1.0\nx is 2.0\nx is 3.0\n" and seen == [1.0, 2.0, 3.0]
