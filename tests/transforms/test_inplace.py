"""In-place updates: how many copies are made where user code makes none. Results are judged in tests/backends."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradsmith.backends import python
from gradsmith.ir import builder as b
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Program, Value
from gradsmith.ir.types import BOOL, I64
from gradsmith.transforms import inplace
from gradsmith.transforms.simplify import simplify
from tests.transforms.test_simplify import MATRIX, VECTOR, branch, loop, make


def copies(program: Program, *args: Any) -> int:
    """Copies in the plan; the Python back end, which follows it, agrees with the interpreter and keeps the inputs."""
    want = run(program, args)
    kept = [np.copy(a) for a in args]
    got = python.compile(program)(*map(np.asarray, args))
    for x, y in zip(want, got if isinstance(got, tuple) else (got,), strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(args, kept, strict=True):
        np.testing.assert_array_equal(x, y)
    plan = inplace.plan(program.block)
    updates = {op for op in program.block.walk() if op.name in inplace.UPDATES and op.results[0].ndim}
    return len(updates - plan.in_place) + len(plan.entry_copies) + len(plan.exit_copies) + len(plan.copied_views)


def write(x: Value, v: Any, i: Any) -> Value:
    return b.set_at(x, v if isinstance(v, Value) else b.const_like(v, x), ["i"], [i])


X = np.array([1.0, 2.0, 3.0, 4.0])


def test_an_argument_is_copied_once() -> None:
    assert copies(make(lambda x: write(write(x, 7.0, 0), 8.0, 1), VECTOR), X) == 1


def test_own_memory_is_not_copied() -> None:
    assert copies(make(lambda x: write(write(b.sin(x), 7.0, 0), 8.0, 1), VECTOR), X) == 0


def test_filling_zeros_in_a_loop() -> None:
    def body(x: Value) -> list[Value]:
        return loop(4, [b.zeros_like(x)], lambda i, out: [write(out, b.index(x, ["i"], [i]), i)])

    assert copies(make(body, VECTOR), X) == 0


def test_nested_loops_over_a_matrix() -> None:
    def body(x: Value) -> list[Value]:
        def row(i: Value, out: Value) -> list[Value]:
            return loop(2, [out], lambda j, o: [b.add_at(o, b.index(x, "ii", [i, j]), "ii", [j, i])])

        return loop(2, [b.zeros_like(x)], row)

    assert copies(make(body, MATRIX), X.reshape(2, 2)) == 0


def test_an_argument_updated_in_a_loop_is_copied_once_before_it() -> None:
    program = make(lambda x: loop(4, [x], lambda i, a: [b.add_at(a, b.const_like(1.0, a), ["i"], [i])]), VECTOR)
    assert copies(program, X) == 1
    assert inplace.plan(program.block).entry_copies


def test_the_old_value_is_kept_when_it_is_read_later() -> None:
    def body(x: Value) -> list[Value]:
        y = b.sin(x)
        return [write(y, 7.0, 0), b.sum_(y, [0])]

    assert copies(make(body, VECTOR), X) == 1


def test_a_view_keeps_its_base() -> None:
    def body(x: Value) -> Value:
        y = b.sin(x)
        view = b.index(y, [("s", True, False, False)], [1])
        return b.sum_(write(y, 7.0, 1), [0]) + b.sum_(view, [0])

    assert copies(make(body, VECTOR), X) == 1


def test_rows_are_copied_not_the_matrix() -> None:
    """``a[i], a[j] = a[j], a[i]`` and a row that is cleared and used afterwards."""

    def body(x: Value) -> list[Value]:
        def swap(i: Value, a: Value, total: Value) -> list[Value]:
            row, first = b.index(a, ["i", ":"], [i]), b.index(a, ["i", ":"], [0])
            a = b.set_at(b.set_at(a, first, ["i", ":"], [i]), row, ["i", ":"], [0])
            last = b.index(a, ["i", ":"], [1])
            a = b.set_at(a, b.const_like(0.0, x), ["i", ":"], [1])
            return [a, total + b.sum_(last, [0])]

        return loop(2, [b.sin(x), b.const_like(0.0, x)], swap)

    program = make(body, MATRIX)
    assert copies(program, X.reshape(2, 2)) == 3
    plan = inplace.plan(program.block)
    assert {op.name for op in plan.copied_views} == {"index"} and not plan.exit_copies and not plan.entry_copies


def test_a_saved_view_is_copied_not_its_base() -> None:
    def body(x: Value) -> Value:
        def step(i: Value, s: Value, a: Value) -> list[Value]:
            row = b.index(a, ["i", ":"], [i])
            return [b.emit("seq_push", s, row), b.set_at(a, b.const_like(9.0, a), ["i", ":"], [i])]

        s, _ = loop(2, [b.emit("seq_new", elem=VECTOR), b.sin(x)], step)
        return b.emit("seq_stack", s)

    program = make(body, MATRIX)
    assert copies(program, X.reshape(2, 2)) == 1
    assert len(inplace.plan(program.block).copied_views) == 1


def test_a_view_that_is_dead_does_not() -> None:
    def body(x: Value) -> Value:
        y = b.sin(x)
        total = b.sum_(b.index(y, [("s", True, False, False)], [1]), [0])
        return write(y, total, 1)

    assert copies(make(body, VECTOR), X) == 0


def test_overlapping_read_and_write() -> None:
    def body(x: Value) -> Value:
        y = b.sin(x)
        return b.set_at(y, b.index(y, [("s", False, True, False)], [-1]), [("s", True, False, False)], [1])

    assert copies(make(body, VECTOR), X) == 1


def test_a_stencil_in_time() -> None:
    inner = [("s", True, True, False)]

    def step(i: Value, u: Value) -> list[Value]:
        left = b.index(u, [("s", False, True, False)], [-2])
        right = b.index(u, [("s", True, False, False)], [2])
        return [b.add_at(u, (left + right) * 0.1, inner, [1, -1])]

    assert copies(make(lambda x: loop(3, [b.sin(x)], step), VECTOR), X) == 0


def test_swapped_buffers_are_not_copied() -> None:
    def step(i: Value, u: Value, v: Value) -> list[Value]:
        return [b.set_at(v, b.sum_(u, [0]), [("s", True, False, False)], [1]), u]

    assert copies(make(lambda x: loop(3, [b.sin(x), b.cos(x)], step), VECTOR), X) == 0


def test_one_array_carried_twice() -> None:
    def step(i: Value, u: Value, v: Value) -> list[Value]:
        return [write(u, 7.0, i), v]

    def body(x: Value) -> list[Value]:
        y = b.sin(x)
        return loop(3, [y, y], step)

    assert copies(make(body, VECTOR), X) == 1


def test_the_last_iterations_array_is_kept() -> None:
    """Both results are one array at the end of the body: the next iteration may not write into it for one of them."""

    def step(i: Value, u: Value, last: Value) -> list[Value]:
        new = write(u, b.cast(i, float), i)
        return [new, new]

    program = make(lambda x: loop(3, [b.sin(x), b.cos(x)], step), VECTOR)
    assert copies(program, X) == 1


def test_an_outer_array_written_in_a_loop_is_copied_every_time() -> None:
    def body(x: Value) -> list[Value]:
        y = b.sin(x)
        return loop(3, [b.sum_(x, [0])], lambda i, s: [s + b.sum_(write(y, 5.0, i), [0])])

    assert copies(make(body, VECTOR), X) == 1


def test_a_branch_that_writes() -> None:
    def body(c: Value, x: Value) -> list[Value]:
        y = b.sin(x)
        return branch(c, lambda: [write(y, 5.0, 0)], lambda: [y])

    program = make(body, BOOL, VECTOR)
    assert copies(program, np.bool(True), X) == 0 and copies(program, np.bool(False), X) == 0
    assert "else" not in python.source(program)


def test_a_branch_inside_a_loop() -> None:
    def body(x: Value) -> list[Value]:
        def step(i: Value, y: Value) -> list[Value]:
            c = b.index(x, ["i"], [i]) > 2.0
            return branch(c, lambda: [write(y, 5.0, i)], lambda: [write(y, 6.0, i)])

        return loop(4, [b.zeros_like(x)], step)

    assert copies(make(body, VECTOR), X) == 0


def test_saved_arrays_are_not_overwritten() -> None:
    def body(x: Value) -> Value:
        s = b.emit("seq_new", elem=VECTOR)
        s, _ = loop(3, [s, b.sin(x)], lambda i, s, u: [b.emit("seq_push", s, u), write(u, 9.0, i)])
        return b.emit("seq_stack", s)

    assert copies(make(body, VECTOR), X) >= 1


def test_a_saved_array_does_not_change_in_the_next_iteration() -> None:
    """The new value is saved, and carried on to where the next iteration writes."""

    def body(x: Value) -> Value:
        def step(i: Value, s: Value, u: Value) -> list[Value]:
            new = write(u, 9.0, i)
            return [b.emit("seq_push", s, new), new]

        s, _ = loop(3, [b.emit("seq_new", elem=VECTOR), b.sin(x)], step)
        return b.emit("seq_stack", s)

    assert copies(make(body, VECTOR), X) >= 1


def test_while_with_an_accumulator() -> None:
    def body(x: Value) -> list[Value]:
        builder = b.current()
        initial = [b.i64(0), b.zeros_like(x)]
        tests, params = ([Value(v.type) for v in initial] for _ in range(2))
        with builder.region(tests) as condition:
            condition.results = [tests[0] < 4]  # type: ignore[operator]
        with builder.region(params) as region:
            region.results = [params[0] + 1, b.add_at(params[1], b.const_like(1.0, x), ["i"], [params[0]])]
        return [builder.emit_control("while", initial, [condition, region]).results[1]]

    assert copies(make(body, VECTOR), X) == 0


def test_an_adjoint_buffer_in_a_reverse_loop() -> None:
    def body(x: Value) -> list[Value]:
        def step(i: Value, g: Value) -> list[Value]:
            return [b.add_at(g, b.cos(b.index(x, ["i"], [i])), ["i"], [i])]

        return loop(b.shape(x)[0], [b.zeros_like(x)], step)

    assert copies(simplify(make(body, VECTOR)), X) == 0


def test_reusable_operands() -> None:
    def body(x: Value) -> Value:
        y = b.sin(x)
        return b.cos(y) * x

    program = make(body, VECTOR)
    plan = inplace.plan(program.block, reuse=True)
    assert {op.name: k for op, k in plan.reusable.items()} == {"cos": [0], "mul": [0]}


def test_long_chains_are_planned_in_linear_time() -> None:
    def body(x: Value) -> Value:
        for _ in range(4000):
            x = write(x, 1.0, 0)
        return x

    plan = inplace.plan(make(body, VECTOR).block)
    assert len(plan.in_place) == 3999


@pytest.mark.parametrize("results", [lambda x: [x], lambda x: [x, x], lambda x: [b.transpose(x, (1, 0)), b.sin(x)]])
def test_results_are_the_callers_alone(results: Callable[[Value], list[Value]]) -> None:
    x = np.ones((2, 2))
    got = python.compile(make(results, MATRIX))(x)
    arrays = [x, *(got if isinstance(got, tuple) else (got,))]
    for k, array in enumerate(arrays):
        assert array.flags.writeable
        assert not any(np.shares_memory(array, other) for other in arrays[:k])


def test_source_shows_the_updates() -> None:
    def body(x: Value, n: Value) -> list[Value]:
        return loop(n, [b.zeros_like(x)], lambda i, out: [b.add_at(out, b.index(x, ["i"], [i]), ["i"], [i])])

    source = python.source(make(body, VECTOR, I64))
    assert re.search(r"(\w+)\[i\] \+= x0\[i\]", source) and ".copy()" not in source
