"""The interface of vjp and jvp: constants, aliases, zero cotangents, seeds, captured values, shapes."""

from __future__ import annotations

import numpy as np
import pytest

from gradsmith.ir.builder import Builder, add_at, current, elementwise, i64, index, set_at, sin, sum_
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Block, Const, Input, Location, Value
from gradsmith.ir.types import F64, I64, ArrayType
from gradsmith.transforms import forward, reverse
from gradsmith.transforms.simplify import simplify
from tests.transforms.helpers import build, count, grad_program, program

VECTOR = ArrayType(np.dtype(float), 1)


def block_of(f, *types):
    params = [Value(t) for t in types]
    b = Builder(Block(params))
    with b:
        out = f(*params)
    b.block.results = out if isinstance(out, list) else [out]
    return b.block


def test_the_same_value_for_two_arguments_has_two_adjoints():
    block = block_of(lambda x, y: x * x * y, F64, F64)
    v = Value(F64)
    b = Builder(Block([v]))
    _, pullback = reverse.vjp(b, block, [v, v], [0, 1])
    b.block.results = pullback([Const(1.0)])
    assert run(program(b.block), [3.0]) == [18.0, 9.0]


def test_a_captured_value_is_a_constant_even_if_it_is_an_argument_too():
    v = Value(F64)
    block = block_of(lambda x: x * v, F64)  # captures v
    b = Builder(Block([v]))
    _, pullback = reverse.vjp(b, block, [v], [0])
    b.block.results = pullback([Const(1.0)])
    assert run(program(b.block), [3.0]) == [3.0]


def test_a_constant_argument_has_an_adjoint():
    block = block_of(lambda x: sin(x), F64)
    b = Builder(Block())
    _, pullback = reverse.vjp(b, block, [Const(0.0)], [0])
    b.block.results = pullback([Const(1.0)])
    assert run(program(b.block), []) == [1.0]


def test_structural_zeros_are_none():
    block = block_of(lambda x, y: [x * 2.0, elementwise("floor", y)], F64, F64)
    x, y = Value(F64), Value(F64)
    b = Builder(Block([x, y]))
    _, pullback = reverse.vjp(b, block, [x, y], [0, 1])
    assert pullback([None, Const(1.0)]) == [None, None]
    gx, gy = pullback([Const(1.0), None])
    assert gx is not None and gy is None
    tangents = forward.jvp(b, block, [x, y], [None, Const(1.0)])[1]
    assert tangents == [None, None]


def test_nothing_is_emitted_for_what_is_not_asked():
    block = block_of(lambda x, y: sin(x) * y, F64, F64)
    x, y = Value(F64), Value(F64)
    b = Builder(Block([x, y]))
    _, pullback = reverse.vjp(b, block, [x, y], [1])
    before = len(b.block.ops)
    pullback([Const(1.0)])
    assert len(b.block.ops) - before <= 1


def test_two_pullbacks_of_one_forward_sweep():
    def f(x):
        b = current()
        i, s = Value(I64), Value(F64)
        with b.region([i, s]) as body:
            body.results = [sin(s * s)]
        return b.emit_control("for", [i64(0), i64(3), i64(1), x], [body]).result

    block = block_of(f, F64)
    x = Value(F64)
    b = Builder(Block([x]))
    _, pullback = reverse.vjp(b, block, [x], [0])
    (one,), (two,) = pullback([Const(1.0)]), pullback([Const(2.0)])
    b.block.results = [one, two]
    first, second = run(program(b.block), [0.7])
    assert second == 2 * first


def test_zero_trip_loops():
    def f(x, n):
        b = current()
        i, a = Value(I64), Value(VECTOR)
        with b.region([i, a]) as body:
            body.results = [set_at(a, sin(index(a, ["i"], [i])), ["i"], [i])]
        return sum_(b.emit_control("for", [i64(0), n, i64(1), x], [body]).result, [0])

    p = build(f, [np.ones(3), np.int64(0)])
    g = grad_program(p)
    np.testing.assert_array_equal(run(g, [np.ones(3), np.int64(0)])[0], np.ones(3))
    np.testing.assert_allclose(run(g, [np.ones(3), np.int64(2)])[0], [np.cos(1), np.cos(1), 1])


def test_an_index_out_of_range_is_still_an_error_when_the_forward_loop_is_not_needed():
    def f(x, n):
        b = current()
        i, s = Value(I64), Value(F64)
        with b.region([i, s]) as body:
            body.results = [s + index(x, ["i"], [i])]
        return b.emit_control("for", [i64(0), n, i64(1), Const(0.0)], [body]).result

    g = simplify(grad_program(build(f, [np.ones(3), np.int64(0)])))
    with pytest.raises(IndexError):
        run(g, [np.ones(3), np.int64(4)])


def test_known_unit_axes_need_no_sums_over_broadcast_axes():
    whole = ("s", True, False, False)
    block = block_of(lambda x, y, z: sum_(x * y + z * add_at(x, y, [whole], [0]), [0]), VECTOR, VECTOR, VECTOR)
    args = [Value(VECTOR) for _ in range(3)]
    b = Builder(Block(args))
    units = [Input(unit_axes=(False,)), Input(unit_axes=(False,)), Input(unit_axes=(True,))]
    _, pullback = reverse.vjp(b, block, args, [0, 1, 2], units)
    b.block.results = pullback([Const(1.0)])
    assert count(b.block, "unbroadcast") == 1
    x, y, z = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0])
    gx, gy, gz = run(program(b.block), [x, y, z])
    np.testing.assert_allclose(gx, y + z)
    np.testing.assert_allclose(gy, x + z)
    np.testing.assert_allclose(gz, [np.sum(x + y)])


def test_operations_carry_the_users_location_and_names():
    def f(x):
        current().loc = Location("model.py", 3, "f")
        y = sin(x)
        y.name = "y"
        return y * y * y

    p = build(f, [np.float64(0.3)])
    g = grad_program(p)
    assert all(op.loc is not None and op.loc.line == 3 for op in g.block.ops)
    assert any(r.name == "y_bar" for op in g.block.ops for r in op.results)
