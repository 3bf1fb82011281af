"""checkpoint, forward_mode and reverse_mode: the same derivatives, other costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.testing import check_grads

both = pytest.mark.parametrize("backend", ["native", "python"])


def layer(w: Any, x: Any) -> Any:
    h = np.tanh(w @ x)
    return np.sin(h * h) + x


def network(wrap: Any) -> Any:
    step = wrap(layer)

    def loss(w: Any, x: Any, n: int) -> Any:
        for _ in range(n):
            x = step(w, x)
        return np.sum(x**2)

    return loss


W = np.random.default_rng(0).normal(size=(3, 3))
X = np.array([0.1, -0.4, 0.8])


@both
@pytest.mark.parametrize("wrap", [gs.checkpoint, gs.forward_mode, gs.reverse_mode])
def test_derivatives_are_those_of_the_function(wrap: Any, backend: str) -> None:
    plain, wrapped = network(lambda f: f), network(wrap)
    for a, b in zip(gs.grad(wrapped, (0, 1), backend=backend)(W, X, 3), gs.grad(plain, (0, 1))(W, X, 3), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    direction = (np.ones((3, 3)), np.ones(3))
    got = gs.jvp(lambda w, x: wrapped(w, x, 3), (W, X), direction, backend=backend)[1]
    np.testing.assert_allclose(got, gs.jvp(lambda w, x: plain(w, x, 3), (W, X), direction)[1], rtol=1e-12)
    second = gs.hessian(lambda x: wrapped(W, x, 2), backend=backend)(X)
    np.testing.assert_allclose(second, gs.hessian(lambda x: plain(W, x, 2))(X), rtol=1e-10)


@pytest.mark.parametrize("wrap", [gs.checkpoint, gs.forward_mode, gs.reverse_mode])
def test_checked_by_differences_in_all_orders(wrap: Any) -> None:
    f = wrap(lambda x, y: {"a": np.outer(np.sin(x), x) * y, "b": y**3, "n": 2})
    check_grads(lambda x, y: (f(x, y)["a"], f(x, y)["b"]), (np.array([0.3, 0.7]), 1.2), atol=1e-4)


def test_a_checkpoint_in_a_loop_stores_its_arguments_only() -> None:
    plain = gs.grad(network(lambda f: f)).explain(W, X, 3)
    report = gs.grad(network(gs.checkpoint)).explain(W, X, 3)
    lines = [next(line for line in text.splitlines() if line.startswith("stored")) for text in (plain, report)]
    stored = [[x for x in line.split(": ")[1].split(", ") if not x.startswith("int64")] for line in lines]
    assert len(stored[0]) > 1 and len(stored[1]) == 1 and stored[1][0].startswith("x once per iteration")
    assert "checkpoint layer" in report and "computed again instead of stored: " in report


def test_the_backward_sweep_runs_a_checkpoint_again() -> None:
    """No value inside is kept: the gradient's program computes tanh twice."""

    def f(x: Any) -> Any:
        return np.sum(np.exp(np.tanh(x)))

    def count(g: Any) -> int:
        return gs.value_and_grad(g).program(X).count("tanh(")

    assert count(f) == 1
    assert count(gs.checkpoint(f)) == 2


@both
def test_a_checkpointed_function_may_write_and_grow(backend: str) -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0.0

    def loss(x: Any) -> Any:
        counter, seen, buffer = Counter(), [], np.zeros(2)

        @gs.checkpoint
        def step(y: Any, k: int) -> Any:
            counter.total = counter.total + y**2
            seen.append(y)
            buffer[k] = y * 3.0
            return {"y": y * x, "pair": (buffer[k], [y])}

        out = step(x, 0)
        out = step(out["y"], 1)
        return out["y"] + counter.total + seen[1] + np.sum(buffer) + out["pair"][0] + out["pair"][1][0]

    def by_hand(x: float) -> float:  # x^3 + x^2 + x^4 + x^2 + 3x + 3x^2 + 3x^2 + x^2
        return 3 * x**2 + 2 * x + 4 * x**3 + 2 * x + 3 + 12 * x + 2 * x

    np.testing.assert_allclose(gs.grad(loss, backend=backend)(1.3), by_hand(1.3))
    np.testing.assert_allclose(gs.derivative(loss, backend=backend)(1.3), by_hand(1.3))


@both
def test_checkpoints_nest_and_print_once_per_run(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    @gs.checkpoint
    def inner(x: Any) -> Any:
        return np.sin(x) ** 2

    @gs.checkpoint
    def outer(x: Any) -> Any:
        return inner(inner(x)) * x

    f = lambda x: np.sin(np.sin(x) ** 2) ** 2 * x  # noqa: E731
    np.testing.assert_allclose(gs.grad(outer, backend=backend)(0.8), gs.grad(f)(0.8), rtol=1e-13)
    np.testing.assert_allclose(gs.grad(gs.grad(outer), backend=backend)(0.8), gs.grad(gs.grad(f))(0.8), rtol=1e-12)


@both
def test_forward_mode_of_a_long_loop_stores_nothing(backend: str) -> None:
    def decay(x: Any, n: int) -> Any:
        for _ in range(n):
            x = x - 0.001 * np.sin(x) * x
        return x

    g = gs.grad(lambda x, n: gs.forward_mode(decay)(x, n) ** 2, backend=backend)
    np.testing.assert_allclose(g(1.0, 100), gs.grad(lambda x, n: decay(x, n) ** 2)(1.0, 100), rtol=1e-12)
    assert "stored for the reverse pass: nothing" in g.explain(1.0, 100)
    assert (
        "nothing"
        not in gs.grad(lambda x, n: decay(x, n) ** 2)
        .explain(1.0, 100)
        .split("stored for the reverse pass:")[1]
        .split("\n")[0]
    )


def test_in_a_class() -> None:
    class Model:
        def __init__(self, w: Any):
            self.w = w

        @gs.checkpoint
        def features(self, x: Any) -> Any:
            return np.tanh(self.w @ x)

        def loss(self, x: Any) -> Any:
            return np.sum(self.features(x) ** 2)

    model = Model(W)
    g = gs.grad(lambda m, x: m.loss(x))(model, X)
    h = np.tanh(W @ X)
    np.testing.assert_allclose(g.w, np.outer(2 * h * (1 - h * h), X))
