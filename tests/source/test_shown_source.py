"""What ``source()`` prints: it runs alone and is the derivative, and it reads as if a person had written it."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.backends import python
from gradsmith.ir import builder
from gradsmith.ir.program import Block, Input, Output, Program, Value
from gradsmith.ir.types import F64
from tests.source import functions as f

R = np.random.default_rng(0)
LAYERS = [
    {"W": R.normal(size=(3, 4)), "b": R.normal(size=4)},
    {"W": R.normal(size=(4, 2)), "b": R.normal(size=2)},
]
CASES: list[tuple[Any, tuple[Any, ...]]] = [
    (gs.grad(f.thermostat), (np.full(9, 0.2), np.linspace(5, 15, 11))),
    (gs.grad(f.smooth), (R.normal(size=5),)),
    (
        gs.value_and_grad(f.logistic_loss, (0, 1)),
        (R.normal(size=3), 0.1, R.normal(size=(7, 3)), R.integers(0, 2, 7) * 1.0),
    ),
    (gs.grad(f.newton_sqrt), (2.0,)),
    (gs.grad(f.pairs, (0, 1)), (R.normal(size=(4, 3)), R.normal(size=4))),
    (gs.grad(f.mlp), (LAYERS, R.normal(size=(6, 3)), R.normal(size=(6, 2)))),
    (gs.grad(f.euler), (np.array([1.1, 0.4, 0.1, 0.4]), 20, 0.01)),
    (gs.grad(f.huber, (0, 1)), (R.normal(size=6), 0.7)),
    (gs.grad(f.gp_nll, (0, 1)), (0.3, 0.1, R.normal(size=5), R.normal(size=5))),
    (gs.grad(f.laplace2d), (R.normal(size=(5, 5)), R.normal(size=(5, 5)))),
    (gs.grad(f.cumulative), (R.normal(size=6) * 0.1,)),
    (gs.grad(f.trace), ([f.Lens(1.0, 1.5, 0.1), f.Lens(2.0, 1.6, 0.2)], 0.3)),
    (gs.grad(f.softmax_attention, (0, 1, 2)), (R.normal(size=(4, 3)), R.normal(size=(5, 3)), R.normal(size=(5, 2)))),
    (gs.jacobian(f.polynomial, 1), (R.normal(size=4), 0.5)),
    (gs.hessian(f.smooth), (R.normal(size=5),)),
    (gs.grad(f.bubble), (R.normal(size=5),)),
    (gs.derivative(f.newton_sqrt), (2.0,)),
]
case = pytest.mark.parametrize(("derivative", "args"), CASES, ids=[d.__name__ for d, _ in CASES])


def function(source: str) -> ast.FunctionDef:
    """The last function of the source: the derivative."""
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]


@case
def test_it_runs_alone_and_gives_the_derivative(derivative: Any, args: tuple[Any, ...]) -> None:
    namespace: dict[str, Any] = {}
    exec(derivative.source(*args), namespace)
    found = namespace[derivative.__name__](*args)
    expected = gs.tree.flatten(derivative(*args))[0]
    for x, y in zip(gs.tree.flatten(found)[0], expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


@case
def test_every_assigned_variable_is_read(derivative: Any, args: tuple[Any, ...]) -> None:
    body = function(derivative.source(*args))
    names = [n for n in ast.walk(body) if isinstance(n, ast.Name)]
    stored = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    loops = {n.target.id for n in ast.walk(body) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
    read = {n.id for n in names if isinstance(n.ctx, ast.Load)}
    assert stored - read - loops == set()


@case
def test_names_say_what_they_are(derivative: Any, args: tuple[Any, ...]) -> None:
    names = {n.id for n in ast.walk(function(derivative.source(*args))) if isinstance(n, ast.Name)}
    assert not {n for n in names if re.fullmatch(r"[tcv]\d+|value(_\d+)?", n)}


@case
def test_lines_are_of_a_readable_length(derivative: Any, args: tuple[Any, ...]) -> None:
    assert max(map(len, derivative.source(*args).splitlines())) <= 120


def shown(derivative: Any, *args: Any) -> str:
    text = derivative.source(*args)
    return text[f"\n{text}".rindex("\ndef ") :]


def test_a_loop_backwards_has_the_users_index_and_lines() -> None:
    first = inspect.getsourcelines(f.smooth)[1]
    assert (
        shown(CASES[1][0], *CASES[1][1])
        == f"""\
def grad_smooth(x):
    \"""The gradient of smooth (functions.py:{first}) with respect to x.\"""
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + np.sin(x[i])

    # line {first + 5}: return np.sum(y**2)
    y_bar = 2.0 * y
    x_bar = np.zeros_like(x)
    # line {first + 3}: for i in range(1, len(x)):
    for i in reversed(range(1, len(x))):
        # line {first + 4}: y[i] = 0.5 * y[i - 1] + np.sin(x[i])
        x_i = x[i]
        y_bar_i = y_bar[i]
        y_bar[i] = 0.0
        x_bar[i] += y_bar_i * np.cos(x_i)
        y_bar[i - 1] += 0.5 * y_bar_i
    # line {first + 2}: y[0] = x[0]
    x_bar[0] += y_bar[0]
    return x_bar
"""
    )


def test_what_is_saved_is_named_after_the_variable() -> None:
    text = shown(gs.grad(f.newton_sqrt), 2.0)
    for line in (
        "x_saved = []",
        "x_saved.append(x)",
        "x = x_saved.pop()",
        "count += 1",
        "for _ in range(count):",
    ):
        assert line in text
    text = shown(CASES[6][0], *CASES[6][1])
    for line in ("prey_saved[k] = prey", "prey = prey_saved[k]", "path.append(prey)"):
        assert line in text


def test_arrays_written_in_place_keep_the_users_name() -> None:
    text = shown(CASES[0][0], *CASES[0][1])
    assert "u = u0.copy()" in text
    assert "u[1:-1] = u_inner + conductivity * (u[2:] - 2.0 * u_inner + u[:-2])" in text
    assert "for step in reversed(range(100)):" in text


def test_errors_of_the_users_stay_and_checks_of_numpy_go() -> None:
    def checked(x: np.ndarray, w: np.ndarray) -> Any:
        total = x @ w
        for k in range(len(x)):
            if x[k] < 0.0:
                raise ValueError("negative")
            total = total / x[k]
        return total

    text = shown(gs.grad(checked), np.ones(3), np.ones(3))
    assert 'raise ValueError("negative")' in text and text.count("raise") == 1


def test_code_nested_too_deeply_for_python_still_runs() -> None:
    def nested(x: Value, depth: int) -> Value:
        b = builder.current()
        with b.region() as then:
            then.results = [nested(x * 1.01, depth - 1) if depth else x]
        with b.region() as other:
            other.results = [x]
        return b.emit_control("if", [x > 0.5], [then, other]).result

    x = Value(F64, "x")
    b = builder.Builder(Block([x]))
    with b:
        b.block.results = [nested(x, 110)]
    run = python.compile(Program("f", b.block, [Input("py")], [Output("py")]))
    assert run(1.0) == pytest.approx(1.01**110)


def test_numbers_of_python_may_be_passed() -> None:
    """Shown source is called with plain floats, which have neither axes nor methods."""

    def mixed(t: float, n: int) -> Any:
        joined = np.concatenate([[t], np.ones(2) * t, [t * 2.0]])
        spread = np.reshape(t, (1, 1)) + np.array(t * n)[None]
        return np.sum(joined**2) + np.sum(spread) * int(t)

    derivative = gs.grad(mixed)
    namespace: dict[str, Any] = {}
    exec(derivative.source(1.5, 3), namespace)
    for args in ((1.5, 3), (-2.25, 2)):
        assert namespace["grad_mixed"](*args) == pytest.approx(derivative(*args))


def test_a_handled_error_leaves_no_trace_of_gradsmith() -> None:
    def solved(a: np.ndarray) -> Any:
        try:
            return np.sum(np.linalg.cholesky(a))
        except np.linalg.LinAlgError:
            return np.sum(a)

    derivative, a = gs.grad(solved), np.array([[2.0, 0.5], [0.5, 1.0]])
    text = derivative.source(a)
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    np.testing.assert_allclose(namespace["grad_solved"](a), derivative(a))
    assert "gradsmith" not in text and "succeeded" not in text


def test_a_sequence_chosen_twice_by_one_condition_is_used_once() -> None:
    """Branches on the same condition are joined; what the first leaves of a list is handed to the second."""

    def f(x: np.ndarray, t: float) -> Any:
        out = [t]
        for v in x:
            out.append(v * t)
        up = t > 0.5
        if up:
            out.append(t * 3.0)
        total = sum(out)
        if up:
            out.append(total)
        else:
            total = total * 2.0
        if up:
            total = total + out[-1] ** 2
        return total + len(out) * t

    derivative, x = gs.grad(f, (0, 1)), np.array([0.3, -0.2, 0.9])
    namespace: dict[str, Any] = {}
    exec(derivative.source(x, 0.7), namespace)
    for t in (0.7, 0.2):
        expected = derivative(x, t)
        for a, b in zip(namespace["grad_f"](x, t), expected, strict=True):
            np.testing.assert_allclose(a, b)
        h = 1e-6
        assert expected[1] == pytest.approx((f(x, t + h) - f(x, t - h)) / (2 * h), rel=1e-6)
