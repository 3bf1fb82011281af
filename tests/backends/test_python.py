"""The Python back end: the interpreter's results, readable source that runs alone, errors at the user's line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from gradsmith.backends import host, python
from gradsmith.ir import builder as b
from gradsmith.ir.interpreter import run
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.ir.program import Const, Input, Location, Output, Program, Value
from gradsmith.ir.types import BOOL, C128, F32, F64, I64, ArrayType
from tests.programs import Case, programs, random_case
from tests.transforms.test_simplify import MATRIX, VECTOR, branch, loop, make

TYPES = [BOOL, I64, ArrayType(np.dtype(np.int32)), F32, F64, ArrayType(np.dtype(np.complex64)), C128]


def results(program: Program, args: Any) -> list[Any]:
    got = python.compile(program)(*args)
    assert got is not NotImplemented
    got = got if isinstance(got, tuple) else (got,)
    return [host.exact(v, r.type) for v, r in zip(got, program.block.results, strict=True)]


def assert_agrees(program: Program, args: Any) -> None:
    for x, y in zip(run(program, args), results(program, args), strict=True):
        assert np.shape(x) == np.shape(y) and x.dtype == y.dtype
        tolerance = 2e-6 if x.dtype in (np.float32, np.complex64) else 1e-12
        np.testing.assert_allclose(y, x, rtol=tolerance, atol=1e-12)


def standalone(program: Program) -> Callable[..., Any]:
    """The function in the source, run with nothing but what the source imports."""
    namespace: dict[str, Any] = {}
    exec(python.source(program), namespace)
    return namespace[program.name]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_agrees_with_the_interpreter(case: Case) -> None:
    program, args = case
    kept = [np.copy(a) for a in args]
    assert_agrees(program, args)
    for x, y in zip(args, kept, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", range(100, 140))
def test_agrees_on_larger_programs(seed: int) -> None:
    assert_agrees(*random_case(seed))


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_every_elementwise_operation_on_every_dtype(name: str) -> None:
    """On scalars and arrays, and with a constant for each operand."""
    arity = ELEMENTWISE[name][0]
    for type in TYPES:
        data = [np.array([1, 0, 3, 2]).astype(type.dtype), np.array([2, 1, 0, 3]).astype(type.dtype)][: max(arity, 1)]
        for ndim in (0, 1):
            for constant in (None, *range(arity)):
                builder = b.Builder()
                args: list[Any] = []
                operands: list[Value] = []
                for k in range(arity):
                    t = BOOL if name == "where" and k == 0 else type
                    value = np.array([True, False, True, False]) if t is BOOL and k == 0 else data[k % 2]
                    if k == constant:
                        operands.append(Const(value[2], t))
                    else:
                        operands.append(Value(t.with_ndim(ndim), f"x{k}"))
                        builder.block.params.append(operands[-1])
                        args.append(value if ndim else np.asarray(value[2]))
                attrs = {"dtype": np.dtype(np.float32)} if name == "cast" else {}
                try:
                    with builder:
                        builder.block.results = [b.emit(name, *operands, **attrs)]
                    kinds = [Input("array") for _ in args]
                    program = Program("f", builder.block, kinds, [Output()])
                    run(program, args)
                except (TypeError, ValueError, KeyError):
                    continue  # NumPy has no such operation, or refuses the numbers
                assert_agrees(program, args)


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("origin", TYPES)
def test_every_cast(origin: ArrayType, target: ArrayType) -> None:
    data = np.array([0, 1, -2, 3]).astype(origin.dtype)
    assert_agrees(make(lambda x: b.emit("cast", x, dtype=target.dtype), origin.with_ndim(1)), [data])
    assert_agrees(make(lambda x: b.emit("cast", x, dtype=target.dtype), origin), [data[2:3].reshape(())])


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod"])
def test_every_reduction(name: str, type: ArrayType) -> None:
    x = np.array([[1, 2, 0], [3, 1, 1]]).astype(type.dtype)
    if name[:3] in ("arg", "cum"):
        assert_agrees(make(lambda v: b.emit(name, v, axis=1), type.with_ndim(2)), [x])
    else:
        for axes in ((0,), (1,), (0, 1)):
            program = make(lambda v, a=axes: [b.reduce(name, v, a), b.reduce(name, v, a, True)], type.with_ndim(2))
            assert_agrees(program, [x])


def test_not_a_number_and_infinite_constants() -> None:
    values = [np.nan, np.inf, -np.inf, -0.0, np.pi, 1e300, 5e-324, -2.5]
    program = make(lambda x: [x * v for v in values] + [x * complex(v, -v) if False else x - v for v in values], F64)
    assert_agrees(program, [np.asarray(1.5)])
    z = make(lambda x: [x * complex(-0.0, np.inf), x + complex(1, -0.0), x * complex(np.nan, 2)], C128)
    assert_agrees(z, [np.asarray(1 + 2j)])


# --- Python's numbers are not NumPy's


def test_division_by_zero_of_indices_and_literals() -> None:
    def body(x: Value) -> list[Value]:
        def step(i: Value, a: Value, c: Value) -> list[Value]:
            k = b.cast(i, float)
            return [a + k / k, (c - c) / (c - c)]

        a, c = loop(3, [b.const_like(0.0, x), b.const_like(1.0, x)], step)
        n = b.shape(b.full(0.0, [b.i64(0)], float))[0]
        return [a, c, b.emit("floordiv", n, n), b.emit("mod", b.i64(3), n), c**-1.0]

    assert_agrees(make(body, F64), [np.asarray(1.0)])


def test_powers_of_literals_overflow_to_infinity() -> None:
    program = make(lambda x: loop(2, [b.const_like(10.0, x)], lambda i, a: [a**300.0])[0] * x, F64)
    assert results(program, [np.asarray(1.0)]) == [np.inf]


def test_float32_stays_float32() -> None:
    def body(x: Value) -> list[Value]:
        total = loop(2, [b.const_like(0.1, x)], lambda i, a: [a + x * 0.3])[0]
        return [total, b.where(x > 0.0, b.const_like(0.1, x), b.const_like(0.2, x)), b.sin(b.const_like(0.1, x))]

    assert_agrees(make(body, F32), [np.asarray(0.7, np.float32)])


def test_bool_operators_on_scalars_and_arrays() -> None:
    for type, data in [
        (BOOL, [np.asarray(True), np.asarray(False)]),
        (BOOL.with_ndim(1), [np.array([True, False])] * 2),
    ]:
        program = make(
            lambda x, y: [
                b.emit("and", b.not_(x), y),
                b.emit("or", x, b.not_(b.emit("xor", x, y))),
                b.not_(b.emit("lt", x, y)),
            ],
            type,
            type,
        )
        assert_agrees(program, data)


# --- readable source


def named(value: Value, name: str) -> Value:
    value.name = name
    return value


def test_expressions_nest_and_names_are_the_users() -> None:
    def body(x: Value) -> Value:
        y = named(b.sin(x) * 2.0 + x**2.0, "y")
        return y * y - 1.0

    source = python.source(make(body, VECTOR))
    assert "    y = 2.0 * np.sin(x0) + x0 ** 2\n    return y * y - 1.0\n" in source


def test_operators_bind_as_written() -> None:
    def body(x: Value, y: Value) -> list[Value]:
        return [
            -(((x - y) - (y - x)) ** 2.0),
            (-x) ** 2.0,
            x / (y * x),
            (x / y) * x,
            (x**y) ** x,
            x ** (y**x),
            -(x + y),
        ]

    program = make(body, F64, F64)
    assert_agrees(program, [np.asarray(1.3), np.asarray(0.7)])
    assert "x0 / (x1 * x0)" in python.source(program)


def test_loops_and_branches() -> None:
    def body(x: Value) -> Value:
        total = named(b.const_like(0.0, x), "")

        def step(i: Value, a: Value) -> list[Value]:
            c = b.index(x, "i", [i]) > 0.0
            return branch(c, lambda: [a + b.index(x, "i", [i])], lambda: [a])

        (result,) = loop(b.shape(x)[0], [total], step)
        return result

    program = make(body, VECTOR)
    source = python.source(program)
    assert source.endswith(
        "def f(x0):\n    c0 = 0.0\n    for i in range(len(x0)):\n"
        "        if x0[i] > 0.0:\n            c0 += x0[i]\n    return c0\n"
    )
    assert_agrees(program, [np.array([1.0, -2.0, 3.0])])


def test_while_with_its_condition() -> None:
    def body(x: Value) -> Value:
        builder = b.current()
        tests, params = [Value(F64)], [Value(F64, "r")]
        with builder.region(tests) as condition:
            condition.results = [b.abs_(tests[0] * tests[0] - x) > 1e-9]
        with builder.region(params) as region:
            region.results = [(params[0] + x / params[0]) * 0.5]
        return builder.emit_control("while", [x], [condition, region]).result

    program = make(body, F64)
    assert "    while np.abs(r * r - x0) > 1e-09:\n        r = 0.5 * (r + x0 / r)\n" in python.source(program)
    np.testing.assert_allclose(standalone(program)(2.0), np.sqrt(2.0))


def test_while_with_a_condition_of_several_statements() -> None:
    def body(x: Value) -> Value:
        builder = b.current()
        tests, params = [Value(F64)], [Value(F64, "r")]
        with builder.region(tests) as condition:
            square = named(tests[0] * tests[0], "r")
            condition.results = [(square + b.sin(square)) < 50.0]
        with builder.region(params) as region:
            region.results = [params[0] + 1.0]
        return builder.emit_control("while", [x], [condition, region]).result

    program = make(body, F64)
    assert "while True:" in python.source(program)
    assert_agrees(program, [np.asarray(0.5)])


def test_parallel_assignment() -> None:
    program = make(lambda x, y: loop(5, [x, y], lambda i, u, v: [v, u + v]), F64, F64)
    assert "c0, c1 = c1, c0 + c1" in python.source(program)
    assert_agrees(program, [np.asarray(0.0), np.asarray(1.0)])


def test_reversed_loop_and_sequence() -> None:
    def body(x: Value) -> Value:
        builder = b.current()
        s = b.emit("seq_new", elem=F64)
        s, _ = loop(3, [s, x], lambda i, s, a: [b.emit("seq_push", s, a), b.sin(a)])
        params = [Value(I64, "i"), Value(s.type, "saved"), Value(F64, "g_x")]
        with builder.region(params) as region:
            rest, old = b.emit("seq_pop", params[1])
            region.results = [rest, params[2] * b.cos(old)]
        args = [b.i64(0), b.i64(3), b.i64(1), s, b.const_like(1.0, x)]
        return builder.emit_control("for", args, [region], reverse=True).results[1]

    program = make(body, F64)
    source = python.source(program)
    for text in ("for _ in range(3):", ".append(", ".pop()", "g_x *= np.cos("):
        assert text in source
    assert_agrees(program, [np.asarray(0.6)])


def test_helpers_stand_in_front_only_when_used() -> None:
    program = make(lambda g, d: b.emit("strong_mul", g, d), VECTOR, VECTOR)
    assert "def strong_mul" in python.source(program)
    np.testing.assert_array_equal(standalone(program)(np.array([0.0, 2.0]), np.array([np.inf, 3.0])), [0.0, 6.0])
    assert "strong_mul" not in python.source(make(lambda g, d: g * d, VECTOR, VECTOR))
    summed = make(lambda x, y: b.unbroadcast(x, y), MATRIX, MATRIX)
    np.testing.assert_array_equal(standalone(summed)(np.ones((3, 2)), np.ones((1, 2))), [[3.0, 3.0]])


def test_keywords_and_clashing_names() -> None:
    def body(x: Value) -> list[Value]:
        return [named(b.sin(x), name) for name in ("lambda", "np", "x0", "sum", "3d", "a b", "f", "strong_mul")]

    program = make(body, F64)
    assert_agrees(program, [np.asarray(0.3)])


def test_a_name_is_used_again_when_its_value_is_dead() -> None:
    def body(x: Value) -> Value:
        for _ in range(3):
            x = named(b.sin(x) * x, "x0")
        return x

    source = python.source(make(body, VECTOR))
    assert source.count("x0 = np.sin(x0) * x0") == 3 - source.count("x0_1")


def test_a_read_is_not_moved_behind_a_write() -> None:
    def body(x: Value) -> Value:
        y = b.sin(x)
        first = b.index(y, "i", [0])
        y = b.set_at(y, b.const_like(9.0, x), "i", [0])
        return b.sum_(y, [0]) * first

    assert_agrees(make(body, VECTOR), [np.array([1.0, 2.0])])


def test_mixed_indexing() -> None:
    rows, mask = Const(np.array([[0, 1], [2, 0]])), Const(np.array([True, False, True]))
    cube = F64.with_ndim(3)

    def body(x: Value) -> list[Value]:
        return [
            b.index(x, ["a", ":", "i"], [rows, 1]),
            b.index(x, ["i", ("s", True, False, True), "a"], [1, 0, 2, rows]),
            b.index(x, ["m", "n", ":", ":"], [mask]),
            b.index(x, [":", "a", "a"], [rows, rows]),
            b.add_at(x, b.const_like(1.0, x), ["a", ":", "i"], [rows, 1]),
            b.set_at(x, b.const_like(1.0, x), [("s", False, False, True), "i", ":"], [-1, -1]),
            b.add_at(x, b.const_like(1.0, x), ["m", ":", ":"], [mask]),
        ]

    assert_agrees(make(body, cube), [np.arange(27.0).reshape(3, 3, 3)])


def test_host_functions() -> None:
    def body(a: Value, y: Value) -> list[Value]:
        solution = b.host("numpy.linalg.solve", [a, y], [VECTOR])
        q, r = b.host("numpy.linalg.qr", [a], [MATRIX, MATRIX])
        w = b.host("numpy.linalg.eigvals", [a], [C128.with_ndim(1)])
        return [
            solution,
            q,
            r,
            b.real(w),
            b.host("scipy.linalg.expm", [a], [MATRIX]),
            b.host("numpy.linalg.det", [a], [F64]),
        ]

    assert_agrees(make(body, MATRIX, VECTOR), [np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])])


def test_einsum() -> None:
    program = make(lambda x, y: b.host("numpy.einsum", [x, y], [MATRIX], subscripts="ij,kj->ki"), MATRIX, MATRIX)
    assert "np.einsum('ij,kj->ki', x0, x1)" in python.source(program)
    assert_agrees(program, [np.arange(6.0).reshape(2, 3), np.ones((4, 3))])


# --- arguments, results, errors


def test_kinds_of_arguments_and_results() -> None:
    for kind, good, bad in [
        ("py", 1.5, np.float64(1.5)),
        ("np", np.float64(1.5), 1.5),
        ("array", np.array(1.5), np.float64(1.5)),
    ]:
        program = make(lambda x: x * 2.0, F64)
        program.inputs, program.outputs = [Input(kind)], [Output(kind)]
        call = python.compile(program)
        result = call(good)
        assert result == 3.0 and type(result) is type(good)
        assert call(bad) is NotImplemented
        assert call(1) is NotImplemented and call("x") is NotImplemented and call() is NotImplemented


@pytest.mark.parametrize("type", [BOOL, I64, F64, C128])
def test_python_numbers(type: ArrayType) -> None:
    program = make(lambda x: [x, x], type)
    program.inputs, program.outputs = [Input("py")], [Output("py"), Output("np")]
    value = {"b": True, "i": 3, "f": 2.5, "c": 1 + 2j}[type.dtype.kind]
    out, scalar = python.compile(program)(value)
    assert out == value and out.__class__ is value.__class__ and scalar.dtype == type.dtype
    if type is I64:
        assert python.compile(program)(2**70) is NotImplemented


def test_arrays_must_fit() -> None:
    call = python.compile(make(lambda x: b.sin(x), MATRIX, units=[(True, False)]))
    assert call(np.ones((1, 3))).shape == (1, 3)
    for bad in (np.ones((3, 3)), np.ones((1, 1)), np.ones(3), np.ones((1, 3), np.float32), [[1.0]], np.ma.ones((1, 3))):
        assert call(bad) is NotImplemented


def test_a_failed_guard_gives_up() -> None:
    def body(x: Value) -> Value:
        b.emit("guard", x > 0.0)
        return x

    call = python.compile(make(body, F64))
    assert call(np.array(1.0)) == 1.0 and call(np.array(-1.0)) is NotImplemented


def test_errors_are_pythons_and_name_the_users_line() -> None:
    builder = b.Builder()
    x = Value(VECTOR, "x")
    builder.block.params = [x]
    with builder:
        builder.loc = Location("user.py", 7, "g")
        y = b.sin(x) * 2.0
        builder.loc = Location("user.py", 8, "g")
        b.emit("check", b.shape(x)[0] < 9, b.shape(x)[0], error=ValueError, message="{} is too long")
        builder.loc = Location("user.py", 9, "g")
        builder.block.results = [b.index(y, "i", [5])]
    call = python.compile(Program("f", builder.block, [Input()], [Output()]))
    with pytest.raises(IndexError) as caught:
        call(np.ones(3))
    assert caught.value.__notes__ == ["  at user.py:9 in g"]
    assert "[5]" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ValueError, match="^12 is too long") as checked:
        call(np.ones(12))
    assert checked.value.__notes__ == ["  at user.py:8 in g"]
    assert call(np.ones(6)) == np.sin(1.0) * 2  # an error leaves the next call right


def test_numpy_errors_and_no_warnings(recwarn: pytest.WarningsRecorder) -> None:
    def singular(x: Value) -> Value:
        b.emit(
            "check",
            b.sum_(x, [0, 1]) > 0.0,
            error=np.linalg.LinAlgError,
            message="Singular {matrix}".replace("{matrix}", "m"),
        )
        return b.log(-x) / 0.0

    call = python.compile(make(singular, MATRIX))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        call(-np.ones((2, 2)))
    call(np.ones((2, 2)))
    assert not recwarn.list


def test_results_do_not_share_memory_with_inputs() -> None:
    x = np.arange(4.0)
    call = python.compile(
        make(lambda v: [v, b.index(v, [("s", True, False, False)], [1]), b.reshape(v, [2, 2])], VECTOR)
    )
    assert not any(np.shares_memory(x, out) for out in call(x))
