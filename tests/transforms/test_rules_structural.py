"""Every structural operation's pullback and pushforward against finite differences, first and second order."""

from __future__ import annotations

import numpy as np
import pytest

from gradsmith.ir.builder import (
    add_at,
    broadcast_to,
    cast,
    current,
    emit,
    full,
    i64,
    index,
    real,
    reduce,
    reshape,
    set_at,
    shape,
    sin,
    sum_,
    transpose,
    unbroadcast,
)
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Const, Value
from gradsmith.ir.types import I64, SeqType
from tests.transforms.helpers import build, check_derivatives, grad_program, jvp_program

rng = np.random.default_rng(5)
SLICE = ("s", True, True, False)
STEP = ("s", True, True, True)
M, V, X3 = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=(2, 3, 4))


def weighted(z):
    """A scalar that depends nonlinearly and differently on every element."""
    if z.ndim == 0:
        return real(z * z) if z.dtype.kind == "c" else sin(z) * z
    z = z * z + z
    size = i64(1)
    for n in shape(z):
        size = size * n
    w = reshape(cast(emit("iota", size, dtype=np.dtype(np.int64)), z.dtype), shape(z)) + 1.0
    if z.dtype.kind == "c":
        z = real(z * (w + 1j))
        return sum_(z, range(z.ndim))
    return sum_(z * sin(w), range(z.ndim))


def judge(f, *args, **options):
    args = [np.asarray(a)[()] for a in args]
    check_derivatives(build(lambda *values: weighted(f(*values)), args), args, second=True, **options)


INDEXES = [
    (("i", ":"), [1]),
    (("i", "i"), [-1, 2]),
    ((":", SLICE), [1, -1]),
    ((STEP, ":"), [3, 0, -2]),
    (((("s", False, False, True)), "n", ":"), [-1]),
    (("a", ":"), [np.array([0, 2, 2])]),
    (("a", "a"), [np.array([0, 2, 2]), np.array([1, 1, 1])]),
    (("a", "a"), [np.array([[0], [2]]), np.array([1, 3])]),
    ((":", "a"), [np.array([4, 4])]),
    (("i", "a"), [1, np.array([0, 0, 3])]),
    (("m",), [rng.normal(size=(4, 5)) > 0]),
    (("m", ":"), [np.array([True, False, True, False])]),
]


def as_args(values):
    return [Const(v) if isinstance(v, np.ndarray) else v for v in values]


@pytest.mark.parametrize("spec, at", INDEXES)
def test_index(spec, at):
    judge(lambda x: index(x, spec, as_args(at)) * index(x, spec, as_args(at)), M)


@pytest.mark.parametrize("spec, at", INDEXES)
@pytest.mark.parametrize("update", [set_at, add_at])
def test_updates(spec, at, update):
    p = build(lambda x: index(x, spec, as_args(at)), [M])
    (region,) = run(p, [M])
    value = rng.normal(size=np.shape(region))
    judge(lambda x, v: update(x * x, v, spec, as_args(at)), M, value)
    judge(lambda x, v: update(x * x, v * v, spec, as_args(at)), M, np.float64(0.7))


def test_update_with_a_value_that_broadcasts():
    judge(lambda x, v: set_at(x, v, [":", SLICE], [1, 4]), M, rng.normal(size=3))
    judge(lambda x, v: add_at(x, v, [":", SLICE], [1, 4]), M, rng.normal(size=(4, 1)))
    judge(lambda x, v: set_at(x, v, ["i", SLICE], [1, 1, 4]), M, rng.normal(size=(1, 3)))


def test_a_repeated_index_in_set_keeps_the_last_value_only():
    x, v = np.zeros(3), np.array([1.0, 2.0, 3.0])
    p = build(lambda x, v: sum_(set_at(x, v * v, ["a"], [Const(np.array([0, 2, 0]))]), [0]), [x, v])
    np.testing.assert_array_equal(run(grad_program(p), [x, v])[1], [0, 4, 6])


def test_shapes():
    judge(lambda x: transpose(reshape(x * x, [2, 2, 5]), [2, 0, 1]), M)
    judge(lambda x: broadcast_to(x, [3, 4, 5]), M)
    judge(lambda x: broadcast_to(x, [4, 5]), rng.normal(size=(4, 1)))
    judge(lambda x: emit("unbroadcast", x, i64(1), i64(4)), X3)
    judge(lambda x, y: unbroadcast(x, y) * y, X3, rng.normal(size=(3, 1)))
    judge(lambda x: full(x * x, [2, 3]), np.float64(0.4))
    judge(lambda x, y: emit("concatenate", x, y, x * 2.0, axis=1), M, rng.normal(size=(4, 1)))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axes, keepdims):
    judge(lambda x: reduce(name, x, axes, keepdims), X3, tol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cumulative(axis):
    judge(lambda x: emit("cumsum", x, axis=axis), X3)
    judge(lambda x: emit("cumprod", x, axis=axis), X3, tol=1e-5)


@pytest.mark.parametrize("zeros", [[], [1], [0, 2], [0, 1, 2, 3]])
def test_products_with_zeros(zeros):
    x = rng.normal(size=4)
    x[zeros] = 0
    judge(lambda x: reduce("prod", x, [0]), x)
    judge(lambda x: emit("cumprod", x, axis=0), x)


def test_empty_reductions():
    empty = np.zeros((0, 3))
    p = build(lambda x: sum_(reduce("prod", x, [0]) + sum_(x, [0]), [0]), [empty])
    assert run(grad_program(p), [empty])[0].shape == (0, 3)


def test_ties_share():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    p = build(lambda x: sum_(reduce("max", x, [1]), [0]), [x])
    np.testing.assert_allclose(run(grad_program(p), [x])[0], [[0, 0.5, 0.5], [1 / 3] * 3])
    ones = np.ones_like(x)
    np.testing.assert_allclose(run(jvp_program(p), [x, ones]), [2])


MATMULS = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2))]
MATMULS += [((5, 2, 3), (5, 3, 2)), ((5, 2, 3), (3, 2)), ((2, 3), (5, 3, 2)), ((1, 2, 3), (5, 3, 2))]
MATMULS += [((4, 1, 2, 3), (5, 3, 1))]


@pytest.mark.parametrize("left, right", MATMULS)
@pytest.mark.parametrize("kind", [float, complex])
def test_matmul(left, right, kind):
    x, y = rng.normal(size=left).astype(kind), rng.normal(size=right).astype(kind)
    if kind is complex:
        x, y = x + 1j * rng.normal(size=left), y + 1j * rng.normal(size=right)
    judge(lambda x, y: emit("matmul", x, y), x, y)


def test_complex_structures():
    z = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    judge(lambda z: reduce("prod", z, [1]), z)
    judge(lambda z: emit("cumprod", z, axis=1), z)
    judge(lambda z: set_at(z, sum_(z, [0]), ["i", ":"], [1]), z)


def push_loop(x):
    """The sequence x[0]², x[1]², …"""
    b = current()
    s = emit("seq_new", elem=x.type.with_ndim(x.ndim - 1))
    k, t = Value(I64), Value(SeqType(x.type.with_ndim(x.ndim - 1)))
    spec = ["i", *":" * (x.ndim - 1)]
    with b.region([k, t]) as body:
        v = index(x, spec, [k])
        body.results = [emit("seq_push", t, v * v)]
    return b.emit_control("for", [i64(0), emit("dim", x, axis=0), i64(1), s], [body]).result


def test_sequences():
    judge(lambda x: emit("seq_stack", push_loop(x)), V)
    judge(lambda x: emit("seq_stack", push_loop(x)), M)
    judge(lambda x: emit("seq_get", push_loop(x), i64(2)), M)

    def popped(x):
        s, last = emit("seq_pop", push_loop(x))
        return emit("seq_stack", s) * last

    judge(popped, V)
    judge(popped, M)

    def added(x):
        s = emit("seq_add", push_loop(x), i64(1), sin(index(x, ["i"], [0])))
        return emit("seq_stack", emit("seq_push", s, index(x, ["i"], [3])))

    judge(added, V)

    def mixed(x):
        s = push_loop(x)
        first = emit("seq_get", s, i64(0))
        stacked = emit("seq_stack", s)
        s = emit("seq_push", s, first * first)
        return emit("concatenate", stacked, emit("seq_stack", s), axis=0) * emit("seq_get", s, i64(1))

    judge(mixed, V)
    judge(lambda x: emit("seq_stack", emit("seq_push", emit("seq_unstack", x * x), index(x, ["i"], [0]))), V)

    def read_before_a_push_that_nobody_uses(x):
        s = push_loop(x)
        first = emit("seq_get", s, i64(0))
        emit("seq_len", emit("seq_push", s, first))
        return first * first

    judge(read_before_a_push_that_nobody_uses, V)
