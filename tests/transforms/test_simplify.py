"""Simplification: the same results, the expected operations gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from gradsmith.backends import host
from gradsmith.ir import builder as b
from gradsmith.ir.checker import check
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Input, Output, Program, Value
from gradsmith.ir.types import BOOL, C128, F32, F64, I64, ArrayType, SeqType
from gradsmith.transforms.simplify import simplify
from tests.programs import Case, programs, random_case

VECTOR, MATRIX = F64.with_ndim(1), F64.with_ndim(2)


def make(body: Callable[..., Any], *types: ArrayType, units: Sequence[tuple[bool, ...]] | None = None) -> Program:
    """A Program whose parameters are passed to ``body``, which emits operations and returns one or more results."""
    builder = b.Builder()
    builder.block.params = [Value(t, f"x{k}") for k, t in enumerate(types)]
    with builder:
        results = body(*builder.block.params)
    builder.block.results = list(results) if isinstance(results, list | tuple) else [results]
    units = units or [(False,) * t.ndim for t in types]
    inputs = [Input("array", u) for u in units]
    return check(Program("f", builder.block, inputs, [Output() for _ in builder.block.results]))


def loop(count: Any, initial: Sequence[Value], body: Callable[..., Any], start: int = 0) -> list[Value]:
    """``for i in range(start, count)`` with carried values; ``body(i, *carried)`` returns the new ones."""
    builder = b.current()
    params = [Value(I64, "i"), *(Value(v.type, f"c{k}") for k, v in enumerate(initial))]
    with builder.region(params) as region:
        region.results = list(body(*params))
    return builder.emit_control("for", [b.i64(start), b.as_index(count), b.i64(1), *initial], [region]).results


def branch(c: Value, then: Callable[[], list[Value]], other: Callable[[], list[Value]]) -> list[Value]:
    builder = b.current()
    regions = []
    for side in (then, other):
        with builder.region() as region:
            region.results = side()
        regions.append(region)
    return builder.emit_control("if", [c], regions).results


def names(program: Program) -> list[str]:
    return [op.name for op in program.block.walk()]


def simplified(body: Callable[..., Any], *types: ArrayType, **kw: Any) -> Program:
    return check(simplify(make(body, *types, **kw)))


def assert_same(program: Program, *args: Any) -> None:
    """The simplified program gives what the program gives, to the bit."""
    want = run(program, args)
    got = run(check(simplify(program)), args)
    for x, y in zip(want, got, strict=True):
        np.testing.assert_array_equal(x, y)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_results_are_unchanged(case: Case) -> None:
    program, args = case
    check(program)
    want = run(program, args)
    got = run(check(simplify(program)), args)
    for x, y in zip(want, got, strict=True):
        assert np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=1e-6 if np.asarray(x).dtype.itemsize <= 4 else 1e-11, atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_larger_programs_and_a_second_time(seed: int) -> None:
    program, args = random_case(seed)
    want = run(program, args)
    check(simplify(program))
    count = len(names(program))
    check(simplify(program))
    assert len(names(program)) <= count
    for x, y in zip(want, run(program, args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-12)


# --- dead code


def test_dead_operations_and_loops_disappear() -> None:
    def body(x: Value) -> Value:
        b.sin(x)
        loop(10, [b.sum_(x, [0])], lambda i, a: [a * 2.0])
        return b.cos(x)

    assert names(simplified(body, VECTOR)) == ["cos"]


def test_carried_values_that_only_feed_themselves_disappear() -> None:
    program = simplified(
        lambda x: loop(10, [x, x], lambda i, a, dead: [b.sin(a), b.cos(dead)])[0],
        F64,
    )
    assert names(program) == ["for", "sin"]
    assert len(program.block.ops[0].results) == 1


def test_unused_results_of_a_branch_disappear() -> None:
    program = simplified(
        lambda c, x: branch(c, lambda: [b.sin(x), b.exp(x)], lambda: [b.cos(x), b.log(x)])[1],
        BOOL,
        F64,
    )
    assert sorted(names(program)) == ["exp", "if", "log"]


def test_effects_are_kept_with_what_they_need() -> None:
    def body(x: Value) -> Value:
        loop(
            b.shape(x)[0],
            [b.i64(0)],
            lambda i, k: [b.emit("check", k < 5, error=ValueError, message="no") or k + 1],  # type: ignore[operator]
        )
        return b.sin(x)

    assert "check" in names(simplified(body, VECTOR))


def test_dead_sequences_disappear() -> None:
    def body(x: Value) -> Value:
        s = b.emit("seq_new", elem=F64)
        s, y = loop(5, [s, x], lambda i, s, y: [b.emit("seq_push", s, y), b.sin(y)])
        return y

    assert names(simplified(body, F64)) == ["for", "sin"]


# --- common subexpressions and invariants


def test_common_subexpressions_are_computed_once() -> None:
    program = simplified(lambda x, y: b.sin(x) * y + y * b.sin(x), F64, F64)
    assert names(program) == ["sin", "mul", "add"]


def test_regions_reuse_outer_values_but_not_the_reverse() -> None:
    def body(c: Value, x: Value) -> list[Value]:
        outer = b.sin(x)
        (inner,) = branch(c, lambda: [b.sin(x) * b.cos(x)], lambda: [x])
        return [outer, inner, b.cos(x)]

    program = simplified(body, BOOL, F64)
    assert names(program).count("sin") == 1
    assert names(program).count("cos") == 2


def test_invariants_move_out_of_nested_loops() -> None:
    def body(x: Value, y: Value) -> Value:
        def inner(i: Value, a: Value) -> list[Value]:
            return [loop(5, [a], lambda j, c: [c + b.sin(x) * b.cos(y)])[0]]

        return loop(5, [x], inner)[0]

    program = simplified(body, F64, F64)
    assert [op.name for op in program.block.ops] == ["sin", "cos", "mul", "for"]


def test_what_may_raise_stays_in_a_loop_that_may_not_run() -> None:
    program = make(
        lambda x, n: loop(n, [b.const_like(0.0, x)], lambda i, a: [a + b.index(x, ["i"], [7])])[0], VECTOR, I64
    )
    assert_same(program, np.zeros(3), 0)
    with pytest.raises(IndexError):
        run(program, [np.zeros(3), 1])


def test_an_element_proven_in_range_moves_out_of_the_inner_loop() -> None:
    def body(x: Value) -> Value:
        def row(i: Value, a: Value) -> list[Value]:
            return loop(i, [a], lambda j, c: [c + b.sin(b.index(x, ["i"], [i]) * b.index(x, ["i"], [j]))])

        return loop(b.shape(x)[0], [b.const_like(0.0, x)], row)[0]

    program = simplified(body, VECTOR)
    outer = program.block.ops[-1].regions[0]
    assert [op.name for op in outer.ops] == ["index", "for"]
    assert all(op.attrs.get("checked") for op in program.block.walk() if op.name == "index")
    x = np.linspace(0, 2, 5)
    want = sum(np.sin(x[i] * x[j]) for i in range(5) for j in range(i))
    np.testing.assert_allclose(run(program, [x])[0], want)


@pytest.mark.parametrize(("start", "shift", "proven"), [(1, -1, True), (0, -1, False), (0, 1, False), (0, 0, True)])
def test_bounds_of_shifted_indices(start: int, shift: int, proven: bool) -> None:
    def body(x: Value) -> Value:
        def step(i: Value, a: Value) -> list[Value]:
            return [a + b.index(x, ["i"], [i + shift])]

        return loop(b.shape(x)[0], [b.const_like(0.0, x)], step, start)[0]

    program = simplified(body, VECTOR)
    (read,) = (op for op in program.block.walk() if op.name == "index")
    assert bool(read.attrs.get("checked")) is proven


def test_arrays_that_may_not_broadcast_stay_in_the_loop() -> None:
    program = make(lambda x, y, n: loop(n, [x], lambda i, a: [b.sin(a) * b.sum_(x * y, [0])])[0], VECTOR, VECTOR, I64)
    assert_same(program, np.ones(3), np.ones(4), 0)
    with pytest.raises(ValueError, match="broadcast"):
        run(program, [np.ones(3), np.ones(4), 1])


# --- constants and algebra


def test_constants_fold_like_the_interpreter_computes() -> None:
    program = simplified(lambda x: x * (b.sin(b.const_like(0.3, x)) / b.const_like(3.0, x)), F32)
    (op,) = program.block.ops
    assert op.args[1].data == np.sin(np.float32(0.3)) / np.float32(3) and op.args[1].data.dtype == np.float32


@pytest.mark.parametrize(
    ("type", "rule", "left"),
    [
        (F64, lambda x: x * 1.0, []),
        (F64, lambda x: x / 1.0, []),
        (F64, lambda x: x - 0.0, []),
        (F64, lambda x: x + 0.0, ["add"]),
        (F64, lambda x: x + -0.0, []),
        (F64, lambda x: x * 0.0, ["mul"]),
        (F64, lambda x: b.elementwise("neg", -x), []),
        (F64, lambda x: x * -1.0, ["neg"]),
        (F64, lambda x: x**1.0, []),
        (VECTOR, lambda x: x * 1.0, []),
        (I64, lambda x: x + 0, []),
        (I64, lambda x: (x + 3) - 1, ["add"]),
        (C128, lambda x: b.conj(b.conj(x)), []),
        (F64, lambda x: b.conj(x), []),
        (F32, lambda x: b.cast(b.cast(x, float), np.float32), []),
        (F64, lambda x: b.cast(b.cast(x, np.float32), float), ["cast", "cast"]),
        (I64, lambda x: b.cast(b.cast(x, float), int), ["cast", "cast"]),
        (MATRIX, lambda x: b.transpose(b.transpose(x, (1, 0)), (1, 0)), []),
        (MATRIX, lambda x: b.reshape(x, b.shape(x)), []),
        (MATRIX, lambda x: b.broadcast_to(x, b.shape(x)), []),
        (MATRIX, lambda x: b.unbroadcast(b.sin(x), x), ["sin"]),
        (VECTOR, lambda x: b.where(b.Const(True), x, b.zeros_like(x)), []),
        (VECTOR, lambda x: b.index(x, [":"]), []),
    ],
)
def test_exact_algebra(type: ArrayType, rule: Callable[[Value], Value], left: list[str]) -> None:
    assert names(simplified(rule, type)) == left


def test_special_values_are_kept() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-320])
    program = make(
        lambda x: [x + 0.0, x * 1.0, x - 0.0, x * 0.0, b.elementwise("neg", -x), x * -1.0, -(2.0 * x), x + (-x)], VECTOR
    )
    want = run(program, [special])
    for x, y in zip(want, run(simplify(program), [special]), strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(np.signbit(x) & ~np.isnan(x), np.signbit(y) & ~np.isnan(y))


def test_a_broadcast_operand_is_left_to_the_operation() -> None:
    program = simplified(lambda x, g: b.broadcast_to(g, b.shape(b.sin(x))) * b.cos(x), VECTOR, F64)
    assert names(program) == ["cos", "mul"]
    only = simplified(lambda x, g: b.broadcast_to(g, b.shape(x)) * g, VECTOR, F64)
    assert "broadcast_to" in names(only)
    assert run(only, [np.zeros(3), 2.0])[0].shape == (3,)


def test_lengths_come_from_operands() -> None:
    def body(x: Value) -> list[Value]:
        y = b.sin(b.set_at(x * 2.0, b.const_like(1.0, x), ["i"], [0]))
        z = b.full(0.0, [*b.shape(y), b.i64(3)], float)
        return [*b.shape(b.transpose(z, (1, 0)))]

    program = simplified(body, VECTOR)
    assert names(program) == ["dim"] and program.block.ops[0].args == program.block.params
    assert run(program, [np.zeros(5)]) == [3, 5]


def test_equally_long_slices_need_no_unbroadcast() -> None:
    def stencil(u: Value) -> Value:
        left = b.index(u, [("s", False, True, False)], [-2])
        right = b.index(u, [("s", True, False, False)], [2])
        middle = b.index(u, [("s", True, True, False)], [1, -1])
        return b.unbroadcast(left * right, middle)

    assert "unbroadcast" not in names(simplified(stencil, VECTOR))


def test_unbroadcast_becomes_a_sum_where_axes_are_known() -> None:
    program = simplified(lambda x, y: b.unbroadcast(x * y, y), MATRIX, VECTOR)
    assert names(program)[-1] == "sum" and "unbroadcast" not in names(program)
    row = simplified(lambda x, y: b.unbroadcast(x * y, y), MATRIX, MATRIX, units=[(False, False), (True, False)])
    assert names(row)[-1] == "sum" and "unbroadcast" not in names(row)
    got = run(row, [np.ones((3, 2)), np.full((1, 2), 2.0)])[0]
    np.testing.assert_array_equal(got, [[6.0, 6.0]])


def test_arrays_that_do_not_broadcast_are_refused_though_the_operation_is_dead() -> None:
    """The gradient of ``sum(x + y)`` needs no sum, but lengths that differ are the user's error."""

    def body(x: Value, y: Value) -> Value:
        total = x + y
        return b.unbroadcast(b.broadcast_to(b.const_like(1.0, x), b.shape(total)), y)

    program = simplified(body, VECTOR, VECTOR)
    assert "add" not in names(program)
    np.testing.assert_array_equal(run(program, [np.zeros(3), np.zeros(3)])[0], np.ones(3))
    with pytest.raises(ValueError, match=r"operands could not be broadcast together with shapes \(3,\) \(4,\)"):
        run(program, [np.zeros(3), np.zeros(4)])
    assert names(simplify(program)) == names(program)


def test_updates_merge() -> None:
    piece = ("s", True, True, False)

    def adjoint(x: Value, g: Value) -> Value:
        return b.add_at(b.zeros_like(x), g, [piece], [1, 3])

    assert names(simplified(adjoint, VECTOR, VECTOR)) == ["dim", "full", "set"]
    cleared = simplified(
        lambda x, g: b.add_at(b.set_at(x, b.const_like(0.0, x), [piece], [1, 3]), g, [piece], [1, 3]), VECTOR, VECTOR
    )
    assert names(cleared) == ["set"]
    assert names(simplified(lambda x, v: b.index(b.set_at(x, v, ["i"], [2]), ["i"], [2]), VECTOR, F64)) == []
    repeated = simplified(
        lambda x: b.add_at(b.zeros_like(x), b.const_like(1.0, x), ["a"], [b.Const(np.array([0, 0]))]), VECTOR
    )
    assert "add_at" in names(repeated)


def test_strong_zero_is_kept_where_the_partial_may_be_infinite() -> None:
    program = simplified(lambda g, d: b.emit("strong_mul", g, d), F64, F64)
    assert names(program) == ["strong_mul"]
    assert names(
        simplified(lambda g, c: b.emit("strong_mul", g, b.where(c, 1.0, b.const_like(0.5, g))), F64, BOOL)
    ) == [
        "where",
        "mul",
    ]


# --- known control flow


def test_a_carried_value_that_does_not_change_is_its_initial_value() -> None:
    program = simplified(lambda x, y: loop(10, [x, y], lambda i, a, c: [b.sin(a) * c, c])[0], F64, F64)
    assert len(program.block.ops[-1].results) == 1


@pytest.mark.parametrize(
    ("comparison", "step", "start", "stop"),
    [
        ("lt", 1, 0, 5), ("lt", 1, 5, 5), ("lt", 1, 7, 5), ("le", 1, 0, 5), ("lt", 3, 0, 7), ("le", 3, 1, 7),
        ("gt", -1, 5, 0), ("ge", -1, 5, 0), ("gt", -3, 5, -2), ("ge", -3, 5, -1), ("gt", -2, 0, 5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_while_that_counts_is_a_for(comparison: str, step: int, start: int, stop: int, mirrored: bool) -> None:
    def body(first: Value, bound: Value) -> list[Value]:
        builder = b.current()
        initial = [first, b.i64(0)]
        tests, params = ([Value(I64), Value(I64)] for _ in range(2))
        with builder.region(tests) as condition:
            limit = b.emit("add", bound, b.i64(0))
            name = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[comparison] if mirrored else comparison
            condition.results = [b.emit(name, *((limit, tests[0]) if mirrored else (tests[0], limit)))]
        with builder.region(params) as region:
            region.results = [params[0] + step, params[1] * 3 + params[0]]
        return builder.emit_control("while", initial, [condition, region]).results

    program = make(body, I64, I64)
    assert_same(program, start, stop)
    assert "for" in names(program) and "while" not in names(program)


def test_bounds_are_known_in_a_while_that_counts() -> None:
    def body(x: Value) -> Value:
        builder = b.current()
        initial = [b.i64(0), b.const_like(0.0, x)]
        tests, params = ([Value(I64), Value(F64)] for _ in range(2))
        with builder.region(tests) as condition:
            condition.results = [b.emit("lt", tests[0], b.shape(x)[0])]
        with builder.region(params) as region:
            region.results = [params[0] + 1, params[1] + b.index(x, "i", [params[0]])]
        return builder.emit_control("while", initial, [condition, region]).results[1]

    program = make(body, VECTOR)
    assert_same(program, np.arange(4.0))
    assert [op.attrs.get("checked") for op in program.block.walk() if op.name == "index"] == [True]


def test_branches_on_constants_and_loops_that_do_not_run() -> None:
    def body(x: Value) -> Value:
        (y,) = branch(b.Const(True), lambda: [b.sin(x)], lambda: [b.cos(x)])
        (z,) = loop(0, [y], lambda i, a: [a * 2.0])
        (w,) = loop(1, [z], lambda i, a: [a * b.cast(i + 3, float)])
        return w

    program = simplified(body, F64)
    assert names(program) == ["sin", "mul"]
    np.testing.assert_allclose(run(program, [0.5])[0], 3 * np.sin(0.5))


def test_a_condition_is_known_in_its_branches() -> None:
    def body(c: Value, x: Value) -> Value:
        inner = branch(c, lambda: [branch(c, lambda: [b.sin(x)], lambda: [b.cos(x)])[0]], lambda: [b.exp(x)])
        return inner[0]

    program = simplified(body, BOOL, F64)
    assert sorted(names(program)) == ["exp", "if", "sin"]


def test_checks_that_hold_or_repeat_disappear() -> None:
    def body(x: Value) -> Value:
        n = b.shape(x)[0]
        for condition in (b.emit("ge", n, b.i64(0)), b.emit("gt", n, b.i64(2)), b.emit("gt", n, b.i64(2))):
            b.emit("check", condition, error=ValueError, message="short")
        return x

    program = simplified(body, VECTOR)
    assert names(program).count("check") == 1
    with pytest.raises(ValueError, match="short"):
        run(program, [np.zeros(2)])


def test_user_names_and_places_are_kept() -> None:
    def body(x: Value) -> Value:
        y = b.sin(x) * 1.0
        y.name = "y"
        return y * y

    program = simplified(body, F64)
    assert program.block.ops[0].result.name == "y"


def test_sequences_pass_through() -> None:
    def body(x: Value) -> Value:
        s = b.emit("seq_new", elem=F64)
        s, y = loop(4, [s, x], lambda i, s, a: [b.emit("seq_push", s, a), b.sin(a)])
        builder = b.current()
        params = [Value(I64), Value(SeqType(F64)), Value(F64)]
        with builder.region(params) as region:
            rest, saved = b.emit("seq_pop", params[1])
            region.results = [rest, params[2] * b.cos(saved)]
        args = [b.i64(0), b.i64(4), b.i64(1), s, b.const_like(1.0, x)]
        return builder.emit_control("for", args, [region], reverse=True).results[1]

    assert_same(make(body, F64), 0.7)


def test_folding_knows_every_elementwise_operation() -> None:
    """No operation folds to a constant of another type than its result."""
    from gradsmith.ir.ops import ELEMENTWISE
    from gradsmith.transforms.simplify.folding import fold

    for name, (arity, _) in ELEMENTWISE.items():
        if name in ("cast", "where", "complex", "and", "or", "xor", "shl", "shr", "not"):
            continue
        builder = b.Builder()
        with builder:
            value = b.emit(name, *[b.Const(0.5)] * arity)
        constant = fold(value.op)
        assert constant is not None and constant.type == value.type, name
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(constant.data, host.evaluate(value.op, [np.float64(0.5)] * arity)[0])


def test_time_is_linear() -> None:
    def chain(count: int) -> Program:
        def body(x: Value, s: Value) -> Value:
            for _ in range(count):
                x, s = b.sin(x) * s, s + b.sum_(x, [0])
            return x

        return make(body, VECTOR, F64)

    def seconds(count: int) -> float:
        program = chain(count)
        start = time.perf_counter()
        simplify(program)
        return time.perf_counter() - start

    seconds(50)
    small, large = min(seconds(125) for _ in range(3)), min(seconds(1000) for _ in range(2))
    assert large < 24 * small  # 8 times the size


def test_a_number_chosen_for_an_array_is_not_the_array_where_it_is_chosen() -> None:
    """``where(c, number, array)`` broadcasts, so inside ``if c`` its result is still an array."""
    import gradsmith as gs

    def f(x: Any) -> Any:
        c = x[0] > 1.0
        y = np.where(c, np.sum(x), x)
        if c:
            z = y * 1.0
        else:
            z = x + 1.0
        return np.sum(z**2)

    for x in (np.array([2.0, 3.0]), np.array([0.5, 3.0])):
        expected = [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(2)]
        for backend in ("python", "native"):
            assert gs.jit(f, backend=backend)(x) == pytest.approx(f(x))
            assert gs.grad(f, backend=backend)(x) == pytest.approx(expected, rel=1e-6)
