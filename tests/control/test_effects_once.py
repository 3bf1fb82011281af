"""Effects run once in each call, however often a derivative evaluates the function: prints, and what is drawn at random."""

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


def noisy(x: Any, rng: Any) -> Any:
    print("noisy")
    return (x * rng.normal(size=3) + rng.normal()) ** 3


def noisy_steps(x: Any, rng: Any) -> Any:
    print("steps")
    y = np.zeros(3)
    for _ in range(3):
        y = y + np.sin(y * x) + x * rng.normal(size=3)
    return y


@gs.custom_vjp
def scaled(x: Any, rng: Any) -> Any:
    return x * rng.normal()


def scaled_forward(x: Any, rng: Any) -> Any:
    factor = rng.normal()
    return x * factor, factor


scaled.defvjp(scaled_forward, lambda factor, g: (g * factor, None))

EVALUATIONS = {
    "jacobian, forward": lambda f, **options: gs.jacobian(f, mode="forward", **options),
    "jacobian, chunks": lambda f, **options: gs.jacobian(f, mode="forward", chunk_size=2, **options),
    "jacobian, reverse": lambda f, **options: gs.jacobian(f, mode="reverse", **options),
    "forward mode": lambda f, **options: gs.jacobian(
        lambda x, rng: gs.forward_mode(f)(x, rng), mode="reverse", **options
    ),
    "reverse mode": lambda f, **options: gs.jacobian(
        lambda x, rng: gs.reverse_mode(f)(x, rng), mode="forward", **options
    ),
    "value, gradient, Hessian": lambda f, **options: gs.value_grad_hessian(
        lambda x, rng: np.sum(f(x, rng) ** 2), **options
    ),
}


@modes
@pytest.mark.parametrize("f", [noisy, noisy_steps, scaled])
@pytest.mark.parametrize("way", EVALUATIONS)
def test_a_function_draws_and_prints_once(
    way: str, f: Any, engine: str, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.array([0.3, 0.4, 0.9])

    def fixed(x: Any) -> Any:
        return f(x, np.random.default_rng(1))

    if way == "value, gradient, Hessian":
        loss = lambda x: np.sum(fixed(x) ** 2)  # noqa: E731
        expected = loss(x), gs.grad(loss)(x), gs.hessian(loss)(x)
    else:
        expected = gs.jacobian(fixed)(x)
    transformed = EVALUATIONS[way](f, engine=engine, backend=backend)
    for _ in range(2):
        rng, left = np.random.default_rng(1), np.random.default_rng(1)
        capsys.readouterr()
        got = transformed(x, rng)
        assert capsys.readouterr().out.count("\n") == (f is not scaled)
        f(x, left)
        assert rng.normal() == left.normal()
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
