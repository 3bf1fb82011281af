"""What the backward sweep saves: the cases of the design, counted in the generated Programs."""

from __future__ import annotations

import numpy as np

from gradsmith.ir.builder import (
    Builder,
    abs_,
    add_at,
    cast,
    current,
    full,
    i64,
    index,
    log,
    set_at,
    shape,
    sin,
    sum_,
    zeros_like,
)
from gradsmith.ir.builder import exp as exp_
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Block, Const, Op, Program, Value
from gradsmith.ir.types import F64, I64, ArrayType
from gradsmith.transforms import reverse
from gradsmith.transforms.simplify import simplify
from tests.transforms.helpers import build, check_derivatives, count, grad_program, ops_named, program

VECTOR = ArrayType(np.dtype(float), 1)
rng = np.random.default_rng(1)


def for_loop(stop, inits, body, start=0, step=1, reverse=False):
    """``body(i, *carried)`` gives the carried values; returns the loop's results."""
    b = current()
    start, stop, step = (v if isinstance(v, Value) else i64(v) for v in (start, stop, step))
    i, carried = Value(I64, "i"), [Value(v.type) for v in inits]
    with b.region([i, *carried]) as block:
        block.results = list(body(i, *carried))
    return b.emit_control("for", [start, stop, step, *inits], [block], reverse=reverse).results


def loops(p: Program | Block) -> list[Op]:
    return ops_named(p.block if isinstance(p, Program) else p, "for")


def saved(p: Program) -> list[str]:
    """Types of the arrays of saved rows and of the pushed values of the forward loops."""
    rows = [str(op.args[1].type) for op in p.block.walk() if op.name == "set" and op.attrs.get("checked")]
    return rows + [str(op.args[1].type) for op in p.block.walk() if op.name == "seq_push"]


def logistic(x, a):
    return for_loop(7, [x], lambda i, x: [a * x * (1 - x) + 0.01 * sin(x)])[0]


def recurrence(x):
    n = shape(x)[0]
    a = full(0.0, [n], float)

    def fill(i, a):
        return [set_at(a, 0.5 * index(a, ["i"], [i - i64(1)]) + sin(index(x, ["i"], [i])), ["i"], [i])]

    a = for_loop(n, [a], fill, start=1)[0]
    return sum_(a * a, [0])


def stencil(nonlinear):
    def f(u, c):
        inside, up, down = [("s", True, True, False)], [("s", True, False, False)], [("s", False, True, False)]

        def step(i, u):
            mid = index(u, inside, [1, -1])
            d = c * (index(u, up, [2]) - 2 * mid + index(u, down, [-2]))
            return [set_at(u, mid + (d * mid if nonlinear else d), inside, [1, -1])]

        u = for_loop(5, [u], step)[0]
        return sum_(u * u, [0])

    return f


def fused(a, x, b, y):
    r = a * x + b - y
    return sum_(r**2 * exp_(-x), [0])


def pairs(x):
    n = shape(x)[0]

    def outer(i, s):
        return for_loop(i, [s], lambda j, s: [s + sin(index(x, ["i"], [i]) * index(x, ["i"], [j]))])

    return for_loop(n, [Const(0.0)], outer)[0]


def test_scalar_recurrence_saves_only_the_state():
    args = [np.float64(0.3), np.float64(3.1)]
    p = build(logistic, args)
    g = grad_program(p)
    assert saved(g) == ["float64"] and count(g, "seq_push") == 0
    assert len(loops(g)) == 2
    check_derivatives(p, args, second=True)


def test_filling_an_array_saves_nothing():
    args = [rng.normal(size=6)]
    p = build(recurrence, args)
    g = grad_program(p)
    assert saved(g) == []
    backward = loops(g)[-1]
    assert count(backward.regions[0], "full") == 0 and count(backward.regions[0], "add_at") >= 1
    check_derivatives(p, args, second=True)


def test_linear_stencil_saves_nothing():
    args = [rng.normal(size=6), np.float64(0.1)]
    p = build(stencil(False), args)
    assert saved(grad_program(p, wrt=[0])) == []
    check_derivatives(p, args, second=True)


def test_nonlinear_stencil_saves_the_state_once_per_step():
    args = [rng.normal(size=6), np.float64(0.1)]
    p = build(stencil(True), args)
    g = grad_program(p, wrt=[0])
    assert saved(g) == ["float64[:]"]
    check_derivatives(p, args, second=True)


def test_fused_sum_saves_nothing():
    args = [np.float64(1.2), rng.normal(size=5), np.float64(0.2), rng.normal(size=5)]
    p = build(fused, args)
    assert not loops(grad_program(p))
    check_derivatives(p, args, second=True)


def test_double_sum_only_accumulates():
    args = [rng.normal(size=5)]
    p = build(pairs, args)
    g = simplify(grad_program(p))
    assert saved(g) == []
    outer = [op for op in g.block.ops if op.name == "for"]
    assert len(outer) == 1, "the forward loop is dead"
    assert not outer[0].attrs.get("reverse"), "accumulators may run forwards"
    check_derivatives(p, args, second=True)


def test_nested_recurrence_uses_a_stack():
    def f(x):
        return for_loop(3, [x], lambda i, x: for_loop(i + i64(1), [x], lambda j, x: [sin(x * x) + x]))[0]

    args = [np.float64(0.7)]
    p = build(f, args)
    g = grad_program(p)
    assert saved(g) == ["float64"] and count(g, "seq_push") == count(g, "seq_pop") == 1
    check_derivatives(p, args, second=True)


def test_elimination_in_place_saves_rows_in_its_vectorisable_loop():
    def lu(a):
        n = shape(a)[0]

        def at(a, i, j):
            return index(a, ["i", "i"], [i, j])

        def column(k, a):
            def row(i, a):
                a = set_at(a, at(a, i, k) / at(a, k, k), ["i", "i"], [i, k])

                def element(j, a):
                    return [set_at(a, at(a, i, j) - at(a, i, k) * at(a, k, j), ["i", "i"], [i, j])]

                return for_loop(n, [a], element, start=k + i64(1))

            return for_loop(n, [a], row, start=k + i64(1))

        a = for_loop(n, [a], column)[0]
        return for_loop(n, [Const(0.0)], lambda k, s: [s + log(abs_(at(a, k, k)))])[0]

    a = rng.normal(size=(4, 4)) + 3 * np.eye(4)
    p = build(lu, [a])
    g = grad_program(p)
    innermost = [op for op in loops(g) if not any(inner.regions for inner in op.regions[0].ops)]
    assert not any(count(op.regions[0], name) for op in innermost for name in ("seq_push", "seq_pop"))
    assert count(g, "seq_push") == 4
    np.testing.assert_allclose(run(g, [a])[0], np.linalg.inv(a).T, rtol=1e-8)
    check_derivatives(p, [a], second=True)


def test_pullback_in_a_loop_over_seeds_does_not_use_the_stack_up():
    def f(x, y):
        def outer(i, x, y):
            return for_loop(2, [x, y], lambda j, x, y: [sin(x * y), x + y * x])

        return for_loop(3, [x, y], outer)

    args = [np.float64(0.7), np.float64(1.1)]
    p = build(lambda x, y: tuple(f(x, y)), args)
    params = [Value(F64), Value(F64)]
    b = Builder(Block(params))
    _, pullback = reverse.vjp(b, p.block, params, [0, 1])
    with b:

        def seed(k, rows):
            g0 = cast(k, float)
            gx, gy = pullback([1 - g0, g0])
            return [set_at(set_at(rows, gx, ["i", "i"], [k, 0]), gy, ["i", "i"], [k, 1])]

        b.block.results = for_loop(2, [full(0.0, [2, 2], float)], seed)
    (jacobian,) = run(program(b.block), args)
    for k in range(2):
        one = build(lambda x, y, k=k: f(x, y)[k], args)
        np.testing.assert_allclose(jacobian[k], run(grad_program(one), args))


def test_captured_array_has_one_accumulator():
    def f(x):
        n = shape(x)[0]
        return for_loop(n, [Const(0.0)], lambda i, s: [s + sin(index(x, ["i"], [i])) * index(x, ["i"], [i])])[0]

    args = [rng.normal(size=4)]
    p = build(f, args)
    g = grad_program(p)
    backward = loops(g)[-1].regions[0]
    assert count(backward, "full") == 0 and count(backward, "add_at") == 2
    check_derivatives(p, args, second=True)


def test_scattered_histogram_saves_nothing():
    def f(x):
        n = shape(x)[0]
        h = for_loop(n, [zeros_like(x)], lambda i, h: [add_at(h, index(x, ["i"], [i]), ["i"], [i64(0)])])[0]
        return sum_(h * h, [0])

    args = [rng.normal(size=4)]
    p = build(f, args)
    assert saved(grad_program(p)) == []
    check_derivatives(p, args, second=True)
