"""Control flow, sequences, updates in place, bounds and errors."""

import numpy as np
import pytest

from gradsmith.backends import native
from gradsmith.backends.native.program import NativeProgram, lower_program
from gradsmith.ir import builder as b
from gradsmith.ir.builder import current, emit, i64
from gradsmith.ir.program import Const, Location, Program, Value
from gradsmith.ir.types import F64, I64, SeqType
from tests.backends.native.native_programs import agrees, check_program, program

X = np.random.default_rng(0).normal(size=8)


def for_(start, stop, carried, body, step=1, **attrs):
    """Emit a loop; ``body(i, *carried)`` gives the next carried values."""
    params = [Value(I64, "i"), *(Value(v.type) for v in carried)]
    with current().region(params) as region:
        region.results = list(body(*params))
    op = current().emit_control(
        "for", [b.as_index(start), b.as_index(stop), b.as_index(step), *carried], [region], **attrs
    )
    return op.results


def while_(carried, condition, body):
    tests, params = ([Value(v.type) for v in carried] for _ in range(2))
    with current().region(tests) as cond:
        cond.results = [condition(*tests)]
    with current().region(params) as region:
        region.results = list(body(*params))
    return current().emit_control("while", list(carried), [cond, region]).results


def if_(c, then, otherwise):
    regions = []
    for branch in (then, otherwise):
        with current().region() as region:
            region.results = list(branch())
        regions.append(region)
    return current().emit_control("if", [c], regions).results


def at(x, *i):
    return b.index(x, ("i",) * len(i), i)


def put(x, v, *i):
    return b.set_at(x, v, ("i",) * len(i), i)


def length(x):
    return emit("dim", x, axis=0)


def copies(made: Program) -> int:
    return lower_program(made, 0, checked=False)[0].copies


# loops


def test_scalar_loops() -> None:
    def power(x, n):
        return for_(0, n, [x, Const(1.0)], lambda i, y, s: [y * 0.5, s + y])

    agrees([1.5, 7], power, [2.0, 0], [2.0, -3])

    def stepping(a, z, s):
        return for_(a, z, [i64(0)], lambda i, t: [emit("add", t, emit("mul", i, t + i))], step=s)

    agrees([9, 2, -2], stepping, [0, 9, 2], [0, 10, 3], [0, 5, 1], [5, 0, 1], [0, 5, 0])

    def ordered(a, z, step, reverse):
        return for_(a, z, [i64(1)], lambda i, t: [emit("sub", emit("mul", t, i64(3)), i)], step=step, reverse=reverse)

    for step in (1, 2, -1, -3):
        for reverse in (False, True):
            agrees([2, 9], lambda a, z, s=step, r=reverse: ordered(a, z, s, r), [9, 2], [3, 3])


def test_while_loops() -> None:
    def newton(a):
        def more(x):
            return emit("gt", b.abs_(x * x - a), a * 1e-12)

        return while_([a], more, lambda x: [(x + a / x) * 0.5])

    agrees([2.0], newton, [0.5], [1.0])

    def collatz(n):
        def step(n, count):
            even = emit("eq", emit("mod", n, i64(2)), i64(0))
            (m,) = if_(even, lambda: [emit("floordiv", n, i64(2))], lambda: [emit("mul", n, i64(3)) + 1])
            return [m, emit("add", count, i64(1))]

        return while_([n, i64(0)], lambda n, c: emit("gt", n, i64(1)), step)

    agrees([27], collatz, [1], [97])


def test_swapped_and_rotated_arrays() -> None:
    def swap(x, y, n):
        return for_(0, n, [x, y, b.sin(x)], lambda i, p, q, r: [q, r, p])

    for n in range(5):
        agrees([X, X * 2, n], swap)

    def swap_and_write(x, y, n):
        return for_(0, n, [x, y], lambda i, p, q: [put(q, Const(9.0), i), put(p, Const(7.0), i)])

    agrees([X, X * 2, 0], swap_and_write, [X, X * 2, 3], [X, X, 4])


def test_arrays_that_grow() -> None:
    def grow(x, n):
        return for_(0, n, [x], lambda i, p: [emit("concatenate", p, b.sin(p), axis=0)])

    agrees([X, 3], grow, [X, 0], [X, 1])

    def shrink(x):
        half = (("s", True, False, False),)
        return while_([x], lambda p: emit("gt", length(p), i64(2)), lambda p: [b.index(p, half, [1])])

    agrees([X], shrink, [X[:3]])


def test_branches_with_arrays() -> None:
    def choose(x, c):
        return if_(
            c,
            lambda: [b.sin(x), b.index(x, (("s", True, False, False),), [2]), x],
            lambda: [x, x, put(x, Const(1.0), 0)],
        )

    agrees([X, True], choose, [X, False])

    def nested(x, c, d):
        y = b.exp(x)
        return if_(c, lambda: if_(d, lambda: [put(y, Const(1.0), 1)], lambda: [y]), lambda: [b.cos(y)])

    for c in (True, False):
        for d in (True, False):
            agrees([X, c, d], nested)


# updates in place


def test_element_writes_in_a_loop_copy_nothing() -> None:
    def recurrence(x):
        n = length(x)
        zeros = b.full(0.0, [n], float)
        return for_(1, n, [zeros], lambda i, a: [put(a, at(a, emit("sub", i, i64(1))) * 0.5 + b.sin(at(x, i)), i)])

    made = program([X], recurrence)
    assert copies(made) == 0
    check_program(made, [[X], [X[:2]], [X[:0]]])


def test_argument_written_in_a_loop_is_copied_once() -> None:
    made = program([X], lambda x: for_(0, length(x), [x], lambda i, a: [put(a, at(a, i) * 2.0, i)]))
    assert copies(made) == 1
    check_program(made, [[X]])


def test_nested_loops_write_in_place() -> None:
    def fill(n, m):
        a = b.full(0.0, [n, m], float)
        return for_(
            0, n, [a], lambda i, a: for_(0, m, [a], lambda j, a: [put(a, b.cast(emit("mul", i, j), float), i, j)])
        )

    made = program([3, 4], fill)
    assert copies(made) == 0
    check_program(made, [[3, 4], [0, 4], [3, 0]])


def test_write_in_a_branch_is_in_place() -> None:
    def relu_(x):
        y = b.sin(x)

        def body(i, a):
            v = at(a, i)
            return if_(emit("lt", v, Const(0.0)), lambda: [put(a, Const(0.0), i)], lambda: [a])

        return for_(0, length(x), [y], body)

    made = program([X], relu_)
    assert copies(made) == 0
    check_program(made, [[X]])


def test_old_value_used_later_is_kept() -> None:
    def both(x):
        y = b.sin(x)
        z = put(y, Const(5.0), 0)
        return [y, z, put(z, Const(6.0), 1), z]

    agrees([X], both)

    def history(x):
        def body(i, a, total):
            total = total + b.sum_(a, [0])
            return [put(a, Const(0.0), i), total]

        return for_(0, length(x), [b.sin(x), Const(0.0)], body)

    made = program([X], history)
    assert copies(made) == 0  # the sum is taken before the write
    check_program(made, [[X]])


def test_stencil_in_a_loop() -> None:
    inner = (("s", True, True, False),)

    def diffuse(u, steps):
        def body(t, u):
            left = b.index(u, (("s", False, True, False),), [-2])
            middle = b.index(u, inner, [1, -1])
            right = b.index(u, (("s", True, False, False),), [2])
            return [b.set_at(u, middle + (left - middle * 2.0 + right) * 0.1, inner, [1, -1])]

        return for_(0, steps, [b.sin(u)], body)

    made = program([X, 5], diffuse)
    assert copies(made) == 1  # the second buffer
    check_program(made, [[X, 5], [X[:2], 3], [X[:1].repeat(3), 1]])


def test_region_written_through_a_view_of_itself() -> None:
    def rows(a):
        def body(i, a):
            above = b.index(a, ("i", ":"), [emit("sub", i, i64(1))])
            row = b.index(a, ("i", ":"), [i])
            return [b.set_at(a, above * 0.5 + row, ("i", ":"), [i])]

        return for_(1, length(a), [b.sin(a)], body)

    made = program([np.outer(X, X)], rows)
    assert copies(made) == 0
    check_program(made, [[np.outer(X, X)]])


def test_swap_of_elements() -> None:
    def reverse(x):
        def body(i, a):
            j = emit("sub", emit("sub", length(x), i64(1)), i)
            p, q = at(a, i), at(a, j)
            return [put(put(a, q, i), p, j)]

        return for_(0, emit("floordiv", length(x), i64(2)), [b.sin(x)], body)

    made = program([X], reverse)
    assert copies(made) == 0
    check_program(made, [[X], [X[:3]]])


# bounds and errors


def test_negative_indices_in_a_loop() -> None:
    """a[i - 1] at i = 0 is legal: the checked version takes over, and stays."""

    def wrapped(x):
        return for_(0, length(x), [Const(0.0)], lambda i, s: [s + at(x, emit("sub", i, i64(1))) * at(x, i)])

    f = agrees([X], wrapped)
    assert isinstance(f.__self__, NativeProgram) and f.__self__.checked is not None


@pytest.mark.parametrize("n", [7, 8, 9, 20])
def test_index_out_of_range_in_a_loop(n: int) -> None:
    agrees([X, n], lambda x, n: for_(0, n, [Const(0.0)], lambda i, s: [s + at(x, i)]))
    agrees([X, n], lambda x, n: for_(0, n, [b.sin(x)], lambda i, a: [put(a, Const(1.0), i)]))
    agrees(
        [X, n],
        lambda x, n: while_([i64(0)], lambda i: emit("lt", at(x, i), Const(9.0)), lambda i: [emit("add", i, i64(1))]),
    )


def test_index_errors() -> None:
    f = native.compile(located(program([X, 0], lambda x, i: at(x, i))))
    assert f(X, -8) == X[0]
    for i in (8, -9):
        with pytest.raises(IndexError, match=f"index {i} is out of bounds for axis 0 with size 8") as caught:
            f(X, i)
        assert caught.value.__notes__ == ["  at user.py:12 in f"]
    assert f(X, 7) == X[7]


def located(made: Program) -> Program:
    for op in made.block.walk():
        op.loc = Location("user.py", 12, "f")
    return made


def test_checks_and_guards() -> None:
    def define(x, n):
        emit("check", emit("gt", x, Const(0.0)), x, n, error=ZeroDivisionError, message="bad {} and {}")
        emit("guard", emit("lt", n, i64(10)))
        return x * 2.0

    f = native.compile(located(program([1.0, 1], define, ["py"])))
    assert f(1.0, 1) == 2.0
    assert f(1.0, 10) is NotImplemented
    with pytest.raises(ZeroDivisionError, match="bad -1.5 and 3") as caught:
        f(-1.5, 3)
    assert caught.value.__notes__ == ["  at user.py:12 in f"]
    assert f(3.0, 1) == 6.0


def test_errors_leave_the_next_call_right() -> None:
    def define(x, n):
        y = b.sin(x)
        z = b.host("numpy.linalg.inv", [b.reshape(y, [2, 2, 2])], [F64.with_ndim(3)])
        return [for_(0, n, [y], lambda i, a: [put(a, Const(1.0), i)])[0], z]

    f = agrees([X, 3], define, [np.zeros(8), 3], [X, 12], [X, 8])
    f(X, 3)


# sequences


def test_sequences_of_scalars() -> None:
    def define(x, n):
        s = emit("seq_new", elem=F64)
        s, y = for_(0, n, [s, x], lambda i, s, y: [emit("seq_push", s, y), y * 1.5])
        total = emit("seq_len", s)
        first = emit("seq_get", s, i64(0))
        stacked = emit("seq_stack", s)
        zeros = emit("seq_zeros", s)
        zeros = emit("seq_add", zeros, i64(1), Const(2.5))
        zeros = emit("seq_add", zeros, i64(1), x)

        def pop(i, s, acc):
            s, v = emit("seq_pop", s)
            return [s, acc * 0.5 + v]

        _, acc = for_(0, n, [s, Const(0.0)], pop)
        return [total, first, stacked, acc, emit("seq_stack", zeros)]

    agrees([2.0, 5], define, [1.0, 100], [1.0, 2])
    agrees([2.0, 0], define)  # there is no first element


def test_sequences_of_arrays() -> None:
    def define(x, n):
        s = emit("seq_new", elem=F64.with_ndim(1))

        def push(i, s, y):
            return [emit("seq_push", s, y), b.sin(y) * 1.1]

        s, y = for_(0, n, [s, x], push)
        third = emit("seq_get", s, i64(2))
        stacked = emit("seq_stack", s)
        zeros = emit("seq_add", emit("seq_zeros", s), i64(1), y)
        zeros = emit("seq_add", zeros, i64(1), y)

        def pop(i, s, g):
            s, v = emit("seq_pop", s)
            return [s, g * b.cos(v)]

        _, g = for_(0, n, [s, y], pop)
        return [third, put(third, Const(0.0), 0), stacked, g, emit("seq_stack", zeros)]

    agrees([X, 5], define, [X, 40], [X[:3], 3])
    agrees([X, 2], define)


def test_sequences_of_rows() -> None:
    def define(x):
        s = emit("seq_unstack", x)
        s = emit("seq_push", s, b.full(1.0, [8], float))
        s = emit("seq_add", s, i64(1), b.full(2.0, [8], float))
        return [emit("seq_stack", s), emit("seq_len", s)]

    agrees([np.outer(X, X)], define)
    agrees([np.outer(X, X)], lambda x: define(b.sin(x)))
    agrees([X], lambda x: emit("seq_stack", emit("seq_push", emit("seq_unstack", x), Const(1.0))))


def test_sequences_of_different_shapes_and_inside_loops() -> None:
    def define(x, n):
        def outer(i, total):
            s = emit("seq_new", elem=F64.with_ndim(1))
            first = (("s", False, True, False),)
            (s,) = for_(0, n, [s], lambda j, s: [emit("seq_push", s, b.index(x, first, [j]))])

            def pop(j, s, t):
                s, v = emit("seq_pop", s)
                return [s, t + b.sum_(v, [0])]

            _, t = for_(0, n, [s, total], pop)
            return [t]

        return for_(0, n, [Const(0.0)], outer)

    agrees([X, 6], define)


def test_sequences_of_sequences() -> None:
    def define(x, n):
        outer = emit("seq_new", elem=SeqType(F64))

        def fill(i, outer):
            inner = emit("seq_new", elem=F64)
            (inner,) = for_(0, i, [inner], lambda j, s: [emit("seq_push", s, x * b.cast(j, float))])
            return [emit("seq_push", outer, inner)]

        (outer,) = for_(0, n, [outer], fill)

        def drain(i, outer, total):
            outer, inner = emit("seq_pop", outer)

            def pop(s, t):
                s, v = emit("seq_pop", s)
                return [s, t * 0.5 + v]

            _, total = while_([inner, total], lambda s, t: emit("gt", emit("seq_len", s), i64(0)), pop)
            return [outer, total]

        return for_(0, n, [outer, Const(0.0)], drain)[1]

    agrees([1.5, 6], define)
