"""Effects in checkpoints: they run once, and what was drawn at random is kept for the backward sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs

modes = pytest.mark.parametrize(
    ("engine", "backend"), [("source", "native"), ("source", "python"), ("tape", "native"), ("tape", "python")]
)


def once(x: Any, rng: Any) -> Any:
    print("once")
    return np.tanh(x * rng.normal(size=3)) + rng.uniform()


def twice(x: Any, rng: Any) -> Any:
    return gs.checkpoint(once)(np.sin(x) * rng.normal(), rng) * rng.normal()


def looped(x: Any, rng: Any) -> Any:
    for _ in range(4):
        x = np.sin(x) + 0.3 * rng.normal(size=3)
    return x


def branched(x: Any, rng: Any) -> Any:
    if np.sum(x) > 0.0:
        x = x * rng.normal()
    else:
        x = x + rng.normal() ** 2
    return x**2


@modes
@pytest.mark.parametrize("block", [once, twice, looped, branched])
def test_the_backward_sweep_uses_the_numbers_that_were_drawn(
    block: Any, engine: str, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def loss(x: Any, rng: Any, wrap: Any) -> Any:
        for _ in range(3):
            x = wrap(block)(x, rng)
        return np.sum(x**2)

    x = np.array([0.3, 0.4, 0.9])
    kept = gs.grad(lambda x, rng: loss(x, rng, gs.checkpoint), engine=engine, backend=backend)
    stored = gs.grad(lambda x, rng: loss(x, rng, lambda f: f))
    expected = stored(x, np.random.default_rng(1))
    capsys.readouterr()
    for _ in range(2):
        rng, left = np.random.default_rng(1), np.random.default_rng(1)
        np.testing.assert_allclose(kept(x, rng), expected, rtol=1e-12)
        out = capsys.readouterr().out
        loss(x, left, lambda f: f)
        assert out == capsys.readouterr().out
        assert rng.normal() == left.normal()  # no more was drawn than Python draws


@modes
def test_checkpoints_that_draw_in_loops_and_derivatives_of_higher_order(engine: str, backend: str) -> None:
    def loss(x: Any, rng: Any, n: int, wrap: Any) -> Any:
        for _ in range(n):
            x = wrap(once)(x, rng)
        return np.sum(x**2)

    x = np.array([0.3, 0.4, 0.9])
    for transform in (gs.grad, gs.hessian):
        kept = transform(lambda x, rng, n: loss(x, rng, n, gs.checkpoint), engine=engine, backend=backend)
        stored = transform(lambda x, rng, n: loss(x, rng, n, lambda f: f))
        got, expected = kept(x, np.random.default_rng(1), 4), stored(x, np.random.default_rng(1), 4)
        np.testing.assert_allclose(got, expected, rtol=1e-11)


def test_what_is_drawn_is_all_that_is_kept() -> None:
    def layer(x: Any, rng: Any) -> Any:
        return np.tanh(np.sin(x) ** 2 * rng.normal(size=3))

    def loss(x: Any, rng: Any) -> Any:
        for _ in range(10):
            x = gs.checkpoint(layer)(x, rng)
        return np.sum(x)

    report = gs.grad(loss).explain(np.ones(3), np.random.default_rng(0))
    assert "checkpoint layer" in report
