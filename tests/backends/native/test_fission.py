"""Loops in which functions of what an iteration reads run ahead of it: the numbers, errors and order of plain Python."""

from __future__ import annotations

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.backends.native import fission
from gradsmith.backends.native.program import lower_program
from gradsmith.testing import check_grads

LENGTHS = [0, 1, 2, 511, 512, 513, 1024, 1500]


def recurrence(x):
    a = np.zeros(x.shape[0])
    for i in range(1, x.shape[0]):
        a[i] = 0.5 * a[i - 1] + np.sin(x[i])
    return a


def backwards(x):
    s = 1.0
    for i in range(x.shape[0] - 1, -1, -2):
        s = 0.3 * s + np.exp(-(x[i] ** 2)) / (1 + s**2)
    return s


def branches(x):
    s, t = 0.0, 1.0
    for i in range(x.shape[0]):
        t = 0.9 * t + np.cos(x[i]) * 0.5
        if np.tanh(x[i]) > 0.2:
            s += t * np.log(2 + x[i])
        else:
            s -= t
    return s


def of_the_index(x):
    s = 0.0
    for i in range(x.shape[0]):
        s = 0.5 * s + np.sin(0.01 * i) * x[i] + np.exp(-0.001 * i)
    return s


def matrix_rows(x):
    m = np.reshape(x, (x.shape[0], 1)) * np.ones(3)
    s = 0.0
    for i in range(m.shape[0]):
        s = np.sin(s) + np.arctan2(m[i, 0], 1 + m[i, 2] ** 2) + np.cos(m[i, -1])
    return s


def nested(x):
    s = 0.0
    for k in range(3):
        t = 1.0
        for i in range(x.shape[0]):
            t = 0.5 * t + np.cos(x[i] * (k + 1))
        s = s + t**2
    return s


def whole_numbers(x):
    n, s = 0, 0.0
    for i in range(x.shape[0]):
        n = (3 * n + int(np.floor(4 * np.sin(x[i])))) % 7
        s = 0.5 * s + n * np.cos(x[i])
    return s


PROGRAMS = [recurrence, backwards, branches, of_the_index, matrix_rows, nested, whole_numbers]


@pytest.mark.parametrize("f", PROGRAMS)
def test_values(f):
    compiled = gs.jit(f)
    for n in LENGTHS:
        x = np.random.default_rng(n).standard_normal(n) * 0.5
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-11, atol=1e-12)
    x = np.random.default_rng(0).standard_normal(1200)[::2]
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradients(f):
    x = np.random.default_rng(1).standard_normal(7) * 0.5
    check_grads(lambda x: np.sum(f(x) ** 2), (x,), order=2 if f is not whole_numbers else 1)
    x = np.random.default_rng(2).standard_normal(1100) * 0.5
    direction = np.random.default_rng(3).standard_normal(1100)
    found = gs.grad(lambda x: np.sum(f(x) ** 2))(x) @ direction
    h = 1e-6
    expected = (np.sum(f(x + h * direction) ** 2) - np.sum(f(x - h * direction) ** 2)) / (2 * h)
    if f is not whole_numbers:
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precisions(dtype):
    x = np.random.default_rng(0).random(600).astype(dtype)
    found = gs.jit(recurrence)(x)
    np.testing.assert_allclose(found, recurrence(x), rtol=1e-5 if dtype == np.float32 else 1e-12)


def buffers(f, *args):
    """How many values run ahead in the compiled primal."""
    compiled = gs.jit(f)
    compiled(*args)
    return lower_program(compiled._cache.latest.program, 0, False)[0].buffers


def test_what_runs_ahead():
    x = np.ones(5)
    assert [buffers(f, x) for f in (recurrence, backwards, of_the_index)] == [1, 1, 2]

    def vectorised(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += np.sin(x[i])
        return s

    def depends(x):
        s = 0.1
        for i in range(x.shape[0]):
            s = np.sin(s + x[i])
        return s

    assert buffers(vectorised, x) == buffers(depends, x) == 0


def test_the_number_of_buffers_is_limited():
    def f(x):
        s = 0.0
        for i in range(x.shape[0]):
            s = 0.5 * s + np.sin(x[i])
        for i in range(x.shape[0]):
            s = 0.5 * s + np.cos(x[i])
        return s

    x = np.random.default_rng(0).random(700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fission, "BUFFERS", 1)
        assert buffers(f, x) == 1
        assert gs.jit(f)(x) == pytest.approx(f(x), rel=1e-12)


@pytest.mark.parametrize("n", [3, 700])
def test_an_index_out_of_range_is_an_error_where_python_has_it(n):
    def f(x, y):
        s = 0.0
        for i in range(x.shape[0]):
            s = 0.5 * s + np.sin(x[i]) * np.cos(y[i])
        return s

    for g in (gs.jit(f), gs.grad(f)):
        with pytest.raises(IndexError, match=f"index {n - 1} is out of bounds"):
            g(np.ones(n), np.ones(n - 1))
    assert gs.jit(f)(np.ones(n), np.ones(n)) == pytest.approx(f(np.ones(n), np.ones(n)))


def test_negative_indices_wrap():
    def f(x):
        s = 0.0
        for i in range(x.shape[0]):
            s = 0.5 * s + np.sin(x[i - 1])
        return s

    x = np.random.default_rng(0).random(600)
    assert gs.jit(f)(x) == pytest.approx(f(x), rel=1e-12)
    check_grads(f, (x[:4],))


def test_what_is_not_reached_does_not_matter():
    """A raise in an earlier iteration comes first, whatever the functions of later ones would be."""

    def f(x):
        s = 0.0
        for i in range(x.shape[0]):
            s = 0.5 * s + np.log(x[i])
            if s > 1:
                raise ValueError("too large")
        return s

    with np.errstate(all="ignore"), pytest.raises(ValueError, match="too large"):
        gs.jit(f)(np.array([100.0, -1.0]))


def test_an_array_that_the_loop_writes_is_read_in_its_turn():
    def f(x):
        y = x * 1.0
        for i in range(1, y.shape[0]):
            y[i] = np.sin(y[i - 1]) + np.cos(y[i]) + np.exp(-x[i])
        return y

    x = np.random.default_rng(0).random(1030)
    np.testing.assert_allclose(gs.jit(f)(x), f(x), rtol=1e-11)
    check_grads(lambda x: np.sum(f(x) ** 2), (x[:5],))
