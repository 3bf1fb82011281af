"""``tree_map`` where functions are staged or recorded, not only outside: in ``jit``, under derivatives, on the tape."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

Pair = namedtuple("Pair", "first second")


@dataclass
class Layer:
    weights: Any
    bias: Any
    name: str = "layer"


class Model:
    def __init__(self, width: int):
        random = np.random.default_rng(width)
        self.layers = [Layer(random.standard_normal((width, width)), np.zeros(width)) for _ in range(2)]
        self.scale = 1.5

    def __call__(self, x):
        for layer in self.layers:
            x = np.tanh(x @ layer.weights + layer.bias)
        return self.scale * x


def loss(model, x):
    return np.mean((model(x) - 1) ** 2)


def step(model, x):
    slope = gs.grad(loss)(model, x)
    return gs.tree_map(lambda p, g: p - 0.1 * g, model, slope)


engines = pytest.mark.parametrize("engine", ["source", "tape"])


@engines
def test_a_whole_training_step_is_compiled(engine):
    x = np.random.default_rng(0).standard_normal((5, 3))
    mine, plain = Model(3), Model(3)
    compiled = gs.jit(step, engine=engine)
    for _ in range(3):
        mine, plain = compiled(mine, x), step(plain, x)
    assert type(mine) is Model and mine.layers[1].name == "layer"
    for a, b in zip(mine.layers, plain.layers, strict=True):
        np.testing.assert_allclose(a.weights, b.weights, rtol=1e-12)
        np.testing.assert_allclose(a.bias, b.bias, rtol=1e-12)
    assert mine.scale == pytest.approx(plain.scale)


@engines
@pytest.mark.parametrize(
    "x",
    [2.0, [1.0, (2.0, 3.0)], {"a": np.arange(3.0), "n": 4.0, "none": None}, Pair(np.ones(2), 2.0), []],
    ids=["number", "list", "dict", "named tuple", "empty"],
)
def test_structures(engine, x):
    def doubled(x):
        return gs.tree_map(lambda p: 2 * p, x)

    found, expected = gs.jit(doubled, engine=engine)(x), doubled(x)
    assert type(found) is type(x)
    np.testing.assert_equal(found, expected)


@engines
def test_leaves_without_a_gradient_stay(engine):
    def update(p, g):
        return gs.tree_map(lambda a, b: a - b, p, g)

    p, g = {"w": np.ones(2), "n": 3, "s": "text"}, {"w": np.full(2, 0.5), "n": None, "s": None}
    found = gs.jit(update, engine=engine)(p, g)
    np.testing.assert_equal(found, {"w": np.full(2, 0.5), "n": 3, "s": "text"})


@engines
def test_it_is_differentiated(engine):
    def norm(p):
        squared = gs.tree_map(lambda a, b: a * np.sin(b), p, p)
        return np.sum(squared["u"]) + squared["v"][0]

    p = {"u": np.array([0.3, 0.7]), "v": [1.1, 5.0]}
    found = gs.grad(norm, engine=engine)(p)
    np.testing.assert_allclose(found["u"], np.sin(p["u"]) + p["u"] * np.cos(p["u"]))
    np.testing.assert_allclose(found["v"], [np.sin(1.1) + 1.1 * np.cos(1.1), 0])


def test_a_model_from_outside_is_read_at_every_call():
    model = Model(3)

    def f(x):
        return np.sum(gs.tree_map(lambda p: 2 * p, model)(x))

    x, compiled = np.ones((1, 3)), gs.jit(f)
    for _ in range(2):
        assert compiled(x) == pytest.approx(f(x))
        model.layers[0].weights = model.layers[0].weights * 1.5
        model.layers[1].bias += 1.0


@engines
def test_structures_that_differ_are_an_error(engine):
    with pytest.raises(ValueError):
        gs.jit(lambda a, b: gs.tree_map(lambda x, y: x + y, a, b), engine=engine)([1.0, 2.0], [1.0])


def test_a_mapped_leaf_that_is_kept_is_the_same_array():
    """Writing to a leaf that the function handed through is seen under both names, as in Python."""

    def f(x):
        p = {"a": x * 1.0}
        q = gs.tree_map(lambda a: a, p)
        q["a"][0] = 10.0
        return np.sum(p["a"] ** 2)

    x = np.array([1.0, 2.0])
    assert gs.jit(f)(x) == f(x) == 104.0
    np.testing.assert_array_equal(gs.grad(f)(x), [0.0, 4.0])
