"""Ten thousand calls of every entry point leave no memory behind."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

CALLS = 10_000


class Model:
    def __init__(self) -> None:
        self.w, self.b, self.calls, self.last = np.array([0.3, 0.7]), 0.1, 0, 0.0

    def __call__(self, x: Any) -> Any:
        return np.tanh(self.w @ x + self.b)


def f(x: Any) -> Any:
    total = 0.0
    for k in range(len(x)):
        if x[k] > 0.0:
            total += x[k] ** 3
    return total + np.sum(np.sin(x))


def scalar(x: float) -> float:
    while x < 10.0:
        x = x * x + 1.0
    return x


def loss(model: Model, x: Any) -> Any:
    return (model(x) - 1.0) ** 2


def step(model: Model, x: Any) -> Any:
    gradient = gs.grad(loss)(model, x)
    model.w = model.w - 0.01 * gradient.w
    model.b -= 0.01 * gradient.b
    model.calls += 1
    model.last = x[0]
    return model.b


@gs.custom_vjp
def ruled(x: Any) -> Any:
    return np.sum(x**2)


def ruled_forward(x: Any) -> Any:
    return np.sum(x**2), x


def ruled_backward(saved: Any, g: Any) -> Any:
    return (2.0 * g * saved,)


ruled.defvjp(ruled_forward, ruled_backward)


def handles(x: Any) -> Any:
    try:
        if x[0] > 0.0:
            raise ValueError
        return np.sum(x)
    except ValueError:
        return np.sum(x * x)


def fails(x: Any) -> Any:
    if x[0] > 0.0:
        raise ArithmeticError("positive")
    return np.sum(x)


X, MATRIX, MODEL = np.array([0.5, -0.2]), np.arange(6.0).reshape(3, 2), Model()
OUT = np.empty(2)


def entries(engine: str) -> dict[str, Callable[[], Any]]:
    """For every entry point a call of something that is compiled."""
    grad, value_and_grad, jit = (
        lambda f, make=make, **k: make(f, engine=engine, **k) for make in (gs.grad, gs.value_and_grad, gs.jit)
    )
    gradient, objects, both = grad(f), grad(loss), value_and_grad(f)
    jacobian = gs.jacobian(np.sin, engine=engine)
    hessian, hvp, second = (
        gs.hessian(f, engine=engine),
        gs.hvp(f, engine=engine),
        gs.value_grad_hessian(f, engine=engine),
    )
    derivative, compiled = gs.derivative(scalar, engine=engine), jit(f)
    rows = gs.vmap(grad(f), engine=engine)
    prepared = gs.prepare(grad(f), X)
    with_rule, handled, failing = grad(ruled), grad(handles), grad(fails)
    x = X.copy()
    captured = grad(lambda s: np.sum(x * s))

    def failing_call() -> None:
        with suppress(ArithmeticError):
            failing(X)

    def replaced() -> Any:
        x[:] = x[::-1].copy()
        return captured(2.0)

    found: dict[str, Callable[[], Any]] = {
        "grad": lambda: gradient(X),
        "value_and_grad": lambda: both(X),
        "objects": lambda: objects(MODEL, X),
        "jacobian": lambda: jacobian(X),
        "hessian": lambda: hessian(X),
        "hvp": lambda: hvp(X, X),
        "value_grad_hessian": lambda: second(X),
        "derivative": lambda: derivative(0.5),
        "jit": lambda: compiled(X),
        "vmap": lambda: rows(MATRIX),
        "out": lambda: gradient(X, out=OUT),
        "prepared": lambda: prepared(X),
        "a rule": lambda: with_rule(X),
        "handled errors": lambda: handled(X),
        "captured": replaced,
        "jvp": lambda: gs.jvp(f, (X,), (X,)),
        "vjp": lambda: gs.vjp(f, X)[1](1.0),
        "tree_map": lambda: gs.tree_map(lambda p: 2.0 * p, MODEL),
    }
    if engine == "source":
        trained, training, named = Model(), gs.jit(step), gs.grad(lambda: loss(MODEL, X), wrt=MODEL.w)
        found |= {"assigning": lambda: training(trained, X), "wrt": named}
        found |= {"errors": failing_call}  # a tape runs Python for each
    return found


TAPE = gs.record(f, X)
REPLAYS: dict[str, Callable[[], Any]] = {
    "value": lambda: TAPE.value(X),
    "gradient": lambda: TAPE.gradient(X),
    "jacobian": lambda: TAPE.jacobian(X),
    "hessian": lambda: TAPE.hessian(X),
}
CASES = {
    **{f"{name}-{engine}": call for engine in ("source", "tape") for name, call in entries(engine).items()},
    **{f"replayed {name}": call for name, call in REPLAYS.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_calls_leave_nothing(name: str) -> None:
    call = CASES[name]
    gc.collect()
    for _ in range(300):
        call()
    before = sys.getallocatedblocks()
    for _ in range(CALLS):
        call()
    grown = sys.getallocatedblocks() - before
    if grown > 100:  # cycles that wait for the collector
        gc.collect()
        grown = sys.getallocatedblocks() - before
    assert grown < 500, f"{grown} blocks after {CALLS} calls"
