"""Lists whose length is a shape: they are taken apart for that length, but the loop over the time stays a loop."""

from __future__ import annotations

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.testing import check_grads


def filled_by_a_comprehension(state, sequence):
    layers = state.shape[0]
    h = [state[i] for i in range(layers)]
    total = 0.0
    for t in range(sequence.shape[0] - 1):
        u = sequence[t]
        for i in range(layers):
            h[i] = np.tanh(h[i] + u)
            u = h[i]
        total += np.sum(u * sequence[t + 1])
    return total


def filled_by_a_loop(state, sequence):
    h = []
    for row in state:
        h.append(row * 2.0)
    total = 0.0
    for t in range(sequence.shape[0]):
        for i in range(len(h)):
            h[i] = np.sin(h[i]) * sequence[t]
        total += np.sum(h[0])
    return total


@pytest.mark.parametrize("f", [filled_by_a_comprehension, filled_by_a_loop])
def test_the_program_does_not_grow_with_the_trip_count(f):
    random = np.random.default_rng(0)
    sizes, state = [], random.standard_normal((2, 3))
    for steps in (5, 40):
        sequence = random.standard_normal((steps, 3))
        gradient = gs.grad(f)
        gradient(state, sequence)
        sizes.append(sum(1 for _ in gradient._cache.latest.program.block.walk()))
        assert gs.jit(f)(state, sequence) == pytest.approx(f(state, sequence), rel=1e-12)
    assert sizes[1] < 1.5 * sizes[0]  # unrolled, it would be eight times as long
    check_grads(f, (state, random.standard_normal((4, 3))))


def test_another_length_is_another_specialisation():
    gradient = gs.grad(filled_by_a_comprehension)
    for layers in (1, 3, 2):
        state, sequence = np.full((layers, 2), 0.3), np.full((4, 2), 0.2)
        assert gradient(state, sequence).shape == (layers, 2)
        assert gs.jit(filled_by_a_comprehension)(state, sequence) == pytest.approx(
            filled_by_a_comprehension(state, sequence)
        )
