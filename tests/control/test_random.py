"""Random generators in differentiated functions: the user's stream, fresh at every call, with their derivatives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import MissingRule, UnsupportedCode

both = pytest.mark.parametrize("backend", ["native", "python"])

SHAPES = np.array([0.7, 1.5, 3.0])
#: draws from a Generator, each a function of the generator
GENERATOR: list[Callable[[Any], Any]] = [
    lambda r: r.random(),
    lambda r: r.random((2, 3)),
    lambda r: r.random(3, dtype=np.float32),
    lambda r: r.normal(),
    lambda r: r.normal(size=4),
    lambda r: r.normal(1.5, 0.3, (2, 2)),
    lambda r: r.normal(SHAPES),
    lambda r: r.normal([1.0, 2.0], 0.5, size=(3, 2)),
    lambda r: r.standard_normal(5),
    lambda r: r.uniform(-1.0, 3.0, 4),
    lambda r: r.uniform(),
    lambda r: r.uniform(SHAPES, SHAPES + 1),
    lambda r: r.exponential(2.0, size=3),
    lambda r: r.exponential(SHAPES),
    lambda r: r.laplace(1.0, SHAPES),
    lambda r: r.gumbel(0.5, 2.0),
    lambda r: r.logistic(0.5, 2.0, 3),
    lambda r: r.lognormal(0.1, 0.2, 3),
    lambda r: r.rayleigh(2.0, 3),
    lambda r: r.gamma(2.0, 3.0),
    lambda r: r.gamma(SHAPES, 2.0),
    lambda r: r.beta(1.0, 2.0, 3),
    lambda r: r.beta(SHAPES, 2.0),
    lambda r: r.standard_t(3.0, size=2),
    lambda r: r.poisson(3.0),
    lambda r: r.poisson(SHAPES),
    lambda r: r.binomial(10, 0.3, size=3),
    lambda r: r.geometric(0.3),
    lambda r: r.integers(10),
    lambda r: r.integers(2, 9, size=(2, 3)),
    lambda r: r.integers(5, size=3, endpoint=True, dtype=np.int32),
    lambda r: r.choice(7),
    lambda r: r.choice(7, 3, replace=False),
    lambda r: r.choice(SHAPES, (2, 2)),
    lambda r: r.choice(SHAPES, p=[0.2, 0.3, 0.5]),
    lambda r: r.choice(np.arange(12.0).reshape(3, 4), 2),
    lambda r: r.permutation(6),
    lambda r: r.permutation(SHAPES),
    lambda r: r.permutation(np.arange(8.0).reshape(4, 2)),
    lambda r: r.permuted(np.arange(6.0)),
    lambda r: r.dirichlet([1.0, 2.0, 3.0]),
    lambda r: r.dirichlet([1.0, 2.0], 3),
    lambda r: r.multivariate_normal([1.0, 2.0], [[2.0, 0.3], [0.3, 1.0]]),
    lambda r: r.multinomial(10, [0.2, 0.8], size=2),
]
LEGACY: list[Callable[[Any], Any]] = [
    *(lambda r: r.rand(), lambda r: r.rand(2, 3), lambda r: r.randn(4), lambda r: r.random_sample(3)),
    *(lambda r: r.normal(1.0, SHAPES), lambda r: r.uniform(2.0, 3.0), lambda r: r.exponential(2.0, 2)),
    *(lambda r: r.randint(5), lambda r: r.randint(2, 9, 4), lambda r: r.choice(5), lambda r: r.choice(SHAPES, 2)),
    *(lambda r: r.permutation(5), lambda r: r.permutation(SHAPES), lambda r: r.poisson(2.0, 3), lambda r: r.gamma(2.0)),
]
PYTHON: list[Callable[[Any], Any]] = [
    *(
        lambda r: r.random(),
        lambda r: r.uniform(1.0, 3.0),
        lambda r: r.gauss(1.0, 2.0),
        lambda r: r.normalvariate(0.5, 2.0),
    ),
    *(lambda r: r.expovariate(2.0), lambda r: r.lognormvariate(0.1, 0.2), lambda r: r.betavariate(1.0, 2.0)),
    *(lambda r: r.randint(1, 6), lambda r: r.randrange(10), lambda r: r.choice([1.0, 2.0, 5.0])),
    *(lambda r: r.sample([1.0, 2.0, 5.0], 2), lambda r: r.choices([1.0, 2.0, 5.0], k=3)),
]


def same(got: Any, expected: Any) -> None:
    """Equal numbers in objects of one kind."""
    if isinstance(expected, list):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
        return
    assert type(got) is type(expected), (type(got), type(expected))
    assert np.shape(got) == np.shape(expected) and np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got, expected, rtol=1e-14)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, random.Random])
def test_the_same_stream_as_numpy(make: Any) -> None:
    """All distributions in one function, so that each leaves the generator where the next begins."""
    draws = {np.random.default_rng: GENERATOR, np.random.RandomState: LEGACY, random.Random: PYTHON}[make]
    compiled = gs.jit(lambda r: [f(r) for f in draws], backend="python")
    mine, theirs = make(5), make(5)
    for _ in range(2):  # fresh at the second call
        for k, (a, b) in enumerate(zip(compiled(mine), [f(theirs) for f in draws], strict=True)):
            try:
                same(a, b)
            except AssertionError as error:
                raise AssertionError(f"draw {k}") from error
    assert mine.random() == theirs.random()


@both
def test_derivatives_with_respect_to_location_and_scale(backend: str) -> None:
    def f(mu: Any, sigma: Any, rng: Any) -> Any:
        return (
            rng.normal(mu, sigma) + np.sum(rng.uniform(mu, sigma, 3)) + rng.exponential(sigma) + rng.gamma(2.0, sigma)
        )

    rng = np.random.default_rng(3)
    z, u, e, g = rng.standard_normal(), rng.random(3), rng.standard_exponential(), rng.standard_gamma(2.0)
    expected = 1 + np.sum(1 - u), z + np.sum(u) + e + g
    np.testing.assert_allclose(gs.grad(f, (0, 1), backend=backend)(0.3, 2.0, np.random.default_rng(3)), expected)
    forward = gs.jacobian(f, (0, 1), mode="forward", backend=backend)
    np.testing.assert_allclose(forward(0.3, 2.0, np.random.default_rng(3)), expected)


@both
def test_one_draw_for_the_value_and_all_derivatives(backend: str) -> None:
    """A gradient, a Jacobian and a Hessian each draw once, as the function does."""

    def f(x: Any, rng: Any) -> Any:
        noise = rng.normal(size=2)
        return np.sum((x * noise) ** 2) * rng.random()

    x = np.array([1.0, 2.0])
    rng = np.random.default_rng(0)
    noise, u = rng.normal(size=2), rng.random()
    position = rng.bit_generator.state
    for derivative, expected in (
        (gs.grad(f, backend=backend), 2 * x * noise**2 * u),
        (gs.jacobian(f, mode="forward", backend=backend), 2 * x * noise**2 * u),
        (gs.hessian(f, backend=backend), np.diag(2 * noise**2 * u)),
    ):
        own = np.random.default_rng(0)
        np.testing.assert_allclose(derivative(x, own), expected)
        assert own.bit_generator.state == position


@both
def test_draws_in_loops_and_branches(backend: str) -> None:
    def walk(x: Any, n: int, rng: Any) -> Any:
        total = 0.0
        for _ in range(n):
            if rng.random() < 0.5:
                x = x * rng.normal(1.0, 0.1)
            else:
                x = x + rng.normal()
            total = total + x**2
            while rng.random() < 0.3:
                total = total * 0.9
        return total

    h = 1e-6
    gradient = gs.grad(walk, backend=backend)
    for seed in range(3):
        high, low = (walk(1.0 + s, 20, np.random.default_rng(seed)) for s in (h, -h))
        np.testing.assert_allclose(gradient(1.0, 20, np.random.default_rng(seed)), (high - low) / (2 * h), rtol=1e-5)


RNG = np.random.default_rng(11)


class Noisy:
    def __init__(self, rng: Any, w: Any):
        self.rng = rng
        self.w = w

    def loss(self, x: Any) -> Any:
        keep = self.rng.random(x.shape) < 0.5
        return np.sum(np.where(keep, self.w * x, 0.0))


@both
def test_captured_generators_are_read_at_every_call(backend: str) -> None:
    global RNG
    x = np.array([1.0, 2.0, 3.0, 4.0])
    f = gs.grad(lambda x: np.sum(x * RNG.normal(size=4)), backend=backend)
    for seed in (11, 12):
        RNG = np.random.default_rng(seed)
        np.testing.assert_array_equal(f(x), np.random.default_rng(seed).normal(size=4))
    model = Noisy(np.random.default_rng(1), np.array([1.0, 2.0, 3.0, 4.0]))
    dropout = gs.grad(lambda m, x: m.loss(x), backend=backend)
    check = np.random.default_rng(1)
    for _ in range(3):
        np.testing.assert_array_equal(dropout(model, x).w, np.where(check.random(4) < 0.5, x, 0.0))


@both
def test_a_generator_made_by_the_function(backend: str) -> None:
    def f(x: Any, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        total = 0.0
        for _ in range(3):
            total = total + x * rng.normal()
        return total

    for seed in (1, 2, 1):
        np.testing.assert_allclose(
            gs.grad(f, backend=backend)(2.0, seed), np.sum(np.random.default_rng(seed).normal(size=3))
        )


@both
def test_global_generators(backend: str) -> None:
    def f(x: Any) -> Any:
        return x * np.random.normal() + x * random.random()

    g = gs.grad(f, backend=backend)
    for _ in range(2):
        np.random.seed(4)
        random.seed(4)
        a, b = np.random.normal(), random.random()
        np.random.seed(4)
        random.seed(4)
        np.testing.assert_allclose(g(1.0), a + b)

    def seeded(x: Any) -> Any:
        np.random.seed(7)
        return x * np.random.rand()

    assert (
        gs.grad(seeded, backend=backend)(1.0)
        == gs.grad(seeded, backend=backend)(2.0)
        == np.random.RandomState(7).rand()
    )


@both
def test_elements_are_chosen_and_permuted_with_their_derivatives(backend: str) -> None:
    def f(x: Any, rng: Any) -> Any:
        y = x * 1.0
        rng.shuffle(y)
        return np.sum(rng.choice(x, 5) ** 2) + np.sum(rng.permutation(x) * np.arange(4.0)) + np.sum(y * np.arange(4.0))

    x, h = np.array([1.0, 2.0, 3.0, 4.0]), 1e-6
    expected = [
        (f(x + h * e, np.random.default_rng(2)) - f(x - h * e, np.random.default_rng(2))) / (2 * h) for e in np.eye(4)
    ]
    np.testing.assert_allclose(gs.grad(f, backend=backend)(x, np.random.default_rng(2)), expected, rtol=1e-6)


def test_a_parameter_without_a_derivative_is_an_error() -> None:
    with pytest.raises(MissingRule, match="beta"):
        gs.grad(lambda a, rng: rng.beta(a, 2.0))(1.0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="scale < 0"):
        gs.grad(lambda s, rng: rng.normal(0.0, s))(-1.0, np.random.default_rng(0))
    with pytest.raises(UnsupportedCode, match="bytes"):
        gs.jit(lambda rng: rng.bytes(3), engine="source")(np.random.default_rng(0))


@both
def test_a_call_that_starts_again_draws_once(backend: str) -> None:
    """The second shape of x makes the compiled call give up after the draw and start again."""

    def f(x: Any, rng: Any) -> Any:
        noise = rng.normal()
        if len(x) == 3:
            return np.sum(x) * noise
        return np.sum(x**2) * noise

    g = gs.grad(f, backend=backend)
    rng, check = np.random.default_rng(0), np.random.default_rng(0)
    for n in (3, 4, 3, 5):
        x = np.ones(n) * 2
        np.testing.assert_allclose(g(x, rng), (1.0 if n == 3 else 4.0) * check.normal() * np.ones(n))


def test_source_reads_as_the_users_program() -> None:
    text = gs.grad(lambda x, rng: x * rng.normal(2.0, 3.0)).source(1.0, np.random.default_rng(0))
    assert "rng.standard_normal()" in text


@both
def test_vmap_draws_once_for_every_entry(backend: str) -> None:
    x = np.array([1.0, 2.0, 3.0])
    scaled = gs.vmap(lambda x, rng: x * rng.normal(size=2), (0, None), backend=backend)
    np.testing.assert_allclose(
        scaled(x, np.random.default_rng(0)), x[:, None] * np.random.default_rng(0).normal(size=(3, 2))
    )
    gradients = gs.vmap(gs.grad(lambda x, rng: x**2 * rng.normal()), (0, None), backend=backend)
    np.testing.assert_allclose(gradients(x, np.random.default_rng(0)), 2 * x * np.random.default_rng(0).normal(size=3))
