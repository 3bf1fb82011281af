"""Array operations against NumPy: shapes, views, updates, reductions, matrix products, every layout of inputs."""

import numpy as np
import pytest

from gradsmith.ir import builder as b
from gradsmith.ir.builder import emit, i64
from gradsmith.ir.program import Const
from gradsmith.ir.types import C128, F64, I64
from tests.backends.native.native_programs import agrees, check_program, program

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
CUBE = RNG.normal(size=(3, 4, 5))


def test_producers() -> None:
    agrees(
        [3, 4],
        lambda n, m: [emit("full", Const(2.5), n, m), emit("iota", n, dtype=np.dtype(float)), emit("full", n, m)],
    )
    agrees([0, 4], lambda n, m: [emit("full", Const(2.5), n, m), emit("iota", n, dtype=np.dtype(np.int32))])
    agrees([-1], lambda n: emit("full", Const(1.0), n))  # NumPy refuses negative lengths
    agrees([1 << 45], lambda n: emit("full", Const(1.0), n))  # no such memory


def test_views_and_shapes() -> None:
    agrees([CUBE], lambda x: [b.transpose(x, [2, 0, 1]), b.sin(b.transpose(x, [1, 0, 2])), b.reshape(x, [12, 5])])
    agrees([X], lambda x: [b.reshape(b.transpose(x, [1, 0]), [20]), b.reshape(x, [2, 2, 5]), b.reshape(x, [3, 5])])
    agrees([X], lambda x: b.reshape(x, [3, 5]))  # wrong size
    agrees([X, X[0]], lambda x, r: [b.broadcast_to(r, [4, 5]), b.broadcast_to(x, [2, 4, 5]) * 2.0])
    agrees([X], lambda x: [emit("dim", x, axis=0), emit("dim", x, axis=1)])
    agrees([X, 2.0], lambda x, s: [b.broadcast_to(s, [2, 3]), b.reshape(s, [1, 1])])


@pytest.mark.parametrize(
    "spec,args",
    [
        (("i", ":"), [1]),
        ((":", "i"), [-2]),
        (("i", "i"), [-1, 4]),
        ((("s", True, True, False), ":"), [1, 3]),
        ((":", ("s", False, False, True)), [-1]),
        ((("s", True, False, True), ("s", True, True, True)), [-1, -2, 4, 0, -2]),
        (("n", ":", "n", "i"), [2]),
        ((("s", True, True, False), ("s", False, True, False)), [-100, 100, -1]),
        (("i", ":"), [7]),
        (("i", "i"), [0, -6]),
        ((("s", True, True, False), ":"), [3, 1]),
        ((("s", True, True, True), ":"), [0, 4, 3]),
    ],
)
def test_basic_indexing(spec, args) -> None:
    """Indices given as constants and as numbers known only at run time, read, set and added to."""

    def read(x, *at):
        return [b.index(x, spec, at), emit("sin", b.index(x, spec, at))]

    agrees([X, *args], read)
    agrees([X], lambda x: read(x, *map(i64, args)))
    for name in ("set", "add_at"):
        agrees([X, 2.0, *args], lambda x, v, *at, name=name: emit(name, x, v, *at, spec=spec))
        agrees([X], lambda x, name=name: emit(name, x, Const(1.5), *map(i64, args), spec=spec))
        agrees([X, *args], lambda x, *at, name=name: emit(name, emit("mul", x, Const(2.0)), Const(1.0), *at, spec=spec))


def test_updates_of_regions() -> None:
    row, column = X[0] * 2, X[:, :1] * 3
    inner = (("s", True, True, False), ":")
    for name in ("set", "add_at"):
        agrees([X, row], lambda x, r, name=name: emit(name, x, r, spec=(":", ":")))
        agrees([X, column], lambda x, c, name=name: emit(name, x, c, spec=(":", ":")))
        agrees([X, X[1:3]], lambda x, v, name=name: emit(name, x, v, i64(1), i64(3), spec=inner))
        agrees([X, X[1:4]], lambda x, v, name=name: emit(name, x, v, i64(1), i64(3), spec=inner))  # does not fit
        agrees([X], lambda x, name=name: emit(name, x, b.index(x, ("i", ":"), [i64(0)]), i64(1), spec=("i", ":")))
    agrees([X], lambda x: _shift(b.sin(x)))
    agrees([X, 1], lambda x, k: _shift_by(b.sin(x), k), [X, 2])


def _shift(x):
    """x[1:] = x[:-1], which must read before it writes."""
    value = b.index(x, (("s", False, True, False), ":"), [i64(-1)])
    return emit("set", x, value, i64(1), spec=(("s", True, False, False), ":"))


def _shift_by(x, k):
    n = emit("dim", x, axis=0)
    value = b.index(x, (("s", False, True, False), ":"), [emit("sub", n, k)])
    return emit("set", x, value, k, spec=(("s", True, False, False), ":"))


def test_advanced_indexing() -> None:
    at = np.array([0, 2, -1, 2])
    mask = X[:, 0] > 0
    agrees([X, at], lambda x, a: [b.index(x, ("a", ":"), [a]), emit("add_at", x, Const(1.0), a, spec=("a", ":"))])
    agrees([X, mask], lambda x, m: [b.index(x, ("m", ":"), [m]), emit("set", x, Const(1.0), m, spec=("m", ":"))])
    agrees([X, at + 5], lambda x, a: b.index(x, ("a", ":"), [a]))  # out of range
    agrees([X[0], at], lambda x, a: b.sin(b.index(x, ("a",), [a])) * b.cast(a, float))
    agrees([CUBE, at[:2], 1], lambda x, a, i: b.index(x, ("a", ":", "i"), [a, i]))


REDUCTIONS = ["sum", "prod", "max", "min"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_reductions(name, axes) -> None:
    for data in (CUBE, CUBE.astype("f4"), np.arange(60).reshape(3, 4, 5)):
        agrees([data], lambda x: [emit(name, x, axes=axes, keepdims=k) for k in (False, True)], rtol=1e-12)
    agrees([CUBE], lambda x: [emit(name, b.sin(x) * x, axes=axes, keepdims=False), b.cos(x)], rtol=1e-12)


def test_other_reductions() -> None:
    flags = CUBE > 0.5
    for axes in [(0,), (1, 2), (0, 1, 2)]:
        agrees(
            [flags],
            lambda x, axes=axes: [emit("any", x, axes=axes, keepdims=False), emit("all", x, axes=axes, keepdims=True)],
        )
    z = CUBE + 1j * CUBE[::-1]
    agrees(
        [z], lambda x: [b.sum_(x, [1]), b.sum_(x, [0, 1, 2]), emit("prod", x, axes=(0,), keepdims=False)], rtol=1e-12
    )
    agrees([X.astype("f2")], lambda x: b.sum_(x, [0]))
    for axis in (0, 1, 2):
        agrees(
            [CUBE], lambda x, a=axis: [emit("argmax", x, axis=a), emit("argmin", x, axis=a), emit("cumsum", x, axis=a)]
        )
    ties = np.array([1.0, np.nan, 3.0, np.nan, 3.0])
    agrees(
        [ties],
        lambda x: [
            emit("argmax", x, axis=0),
            emit("argmin", x, axis=0),
            b.reduce("max", x, [0]),
            emit("cumprod", x, axis=0),
        ],
    )
    agrees([np.array([3, 1, 3, 1])], lambda x: [emit("argmax", x, axis=0), emit("argmin", x, axis=0)])


def test_reductions_of_nothing() -> None:
    empty = np.zeros((0, 3))
    agrees([empty], lambda x: [b.sum_(x, [0]), b.sum_(x, [0, 1]), emit("prod", x, axes=(1,), keepdims=False)])
    agrees([empty], lambda x: b.reduce("max", x, [0, 1]))  # NumPy refuses
    agrees([empty], lambda x: emit("argmax", x, axis=0))
    agrees([empty], lambda x: emit("cumsum", x, axis=0))


def test_sums_are_accurate() -> None:
    from fractions import Fraction

    from gradsmith.backends import native

    total = native.compile(program([np.zeros(2)], lambda x: b.sum_(x, [0])))
    x = RNG.random(10**6)
    exact = float(sum(map(Fraction, x[:100_000])))
    assert abs(total(x[:100_000]) - exact) <= 2e-16 * exact
    assert abs(total(x) - np.sum(x)) <= 1e-15 * np.sum(x)
    assert total(np.array([1.0, np.inf, 2.0])) == np.inf
    assert np.isnan(total(np.array([1.0, np.inf, -np.inf])))


def test_unbroadcast() -> None:
    def to(*dims):
        return lambda g: emit("unbroadcast", g, *map(i64, dims))

    for dims in [(5,), (1, 5), (4, 1), (3, 4, 5), (1, 1, 1), (1,)]:
        agrees([CUBE], to(*dims), rtol=1e-12)
    agrees([X, X[0]], lambda g, x: emit("unbroadcast", b.sin(g), emit("dim", x, axis=0)), [X, np.zeros(1)], units=False)


def test_concatenate() -> None:
    for axis in (0, 1):
        y = X[:2] if axis == 0 else X[:, :2]
        agrees(
            [X, y],
            lambda x, y, a=axis: [emit("concatenate", x, y, axis=a), emit("concatenate", b.sin(x), y, x, axis=a)],
        )
    agrees([X, X[:, :2]], lambda x, y: emit("concatenate", x, y, axis=0))  # does not fit
    agrees([X], lambda x: emit("concatenate", b.transpose(x, [1, 0]), b.full(1.0, [2, 4], float), axis=0))


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8", "i8"])
def test_matmul(dtype) -> None:
    def data(*shape):
        return (RNG.normal(size=shape) * 3 + (1j * RNG.normal(size=shape) if dtype[0] == "c" else 0)).astype(dtype)

    shapes = [((4, 5), (5, 3)), ((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,)), ((2, 4, 5), (5, 3)), ((4, 5), (2, 5, 3))]
    shapes += [
        ((2, 1, 4, 5), (3, 5, 2)),
        ((2, 4, 5), (5,)),
        ((0, 5), (5, 3)),
        ((4, 0), (0, 3)),
        ((1, 1), (1, 1)),
        ((40, 50), (50, 30)),
    ]
    for x, y in shapes:
        agrees([data(*x), data(*y)], lambda x, y: emit("matmul", x, y), rtol=1e-11)
    agrees([data(4, 5), data(3, 5)], lambda x, y: emit("matmul", x, b.transpose(y, [1, 0])), rtol=1e-11)
    agrees([data(5, 4), data(5, 3)], lambda x, y: emit("matmul", b.transpose(x, [1, 0]), y), rtol=1e-11)
    agrees([data(4, 5), data(4, 3)], lambda x, y: emit("matmul", x, y))  # does not fit
    half = (":", ("s", False, False, True))
    agrees([data(4, 10), data(5, 3)], lambda x, y: emit("matmul", b.index(x, half, [i64(2)]), y), rtol=1e-11)
    agrees([data(4, 4)], lambda x: emit("matmul", x, x), rtol=1e-11)


def test_host_functions() -> None:
    square = X[:, :4]
    agrees([square, X], lambda a, y: b.host("numpy.linalg.solve", [a, y], [F64.with_ndim(2)]), rtol=1e-10)
    agrees([np.zeros((4, 4)), X], lambda a, y: b.host("numpy.linalg.solve", [a, y], [F64.with_ndim(2)]))  # singular
    agrees([square], lambda a: b.host("numpy.linalg.eig", [a], [C128.with_ndim(1), C128.with_ndim(2)]), rtol=1e-10)
    agrees(
        [X], lambda a: [b.sin(x) for x in [b.host("numpy.sort", [b.transpose(a, [1, 0])], [F64.with_ndim(2)], axis=0)]]
    )
    agrees([X], lambda a: b.host("numpy.argsort", [a], [I64.with_ndim(2)], axis=1))


LAYOUTS = {
    "Fortran": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": X[::-1, ::-1],
    "transposed": X.T.copy().T,
    "zero strides": np.broadcast_to(X[0], (4, 5)),
    "misaligned": np.frombuffer(b"\0" + X.tobytes(), np.float64, 20, 1).reshape(4, 5),
    "swapped bytes": X.astype(">f8"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_arguments(layout) -> None:
    made = program([X], lambda x: [b.sin(x), b.sum_(x, [0]), b.set_at(x, Const(1.0), ("i", "i"), [0, 0])])
    data = LAYOUTS[layout]
    f = check_program(made, [[data]])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(data)[0], np.sin(np.array(data, float)))


def test_read_only_arguments() -> None:
    x = X.copy()
    x.flags.writeable = False
    agrees([x], lambda x: [b.set_at(x, Const(1.0), ("i", ":"), [0]), x])


def test_results_are_fresh() -> None:
    def define(x):
        y = b.sin(x)
        flat = b.reshape(y, [emit("mul", emit("dim", x, axis=0), emit("dim", x, axis=1))])
        return [x, x, b.transpose(x, [1, 0]), y, y, b.index(y, ("i", ":"), [i64(0)]), flat]

    for data in (X, RNG.normal(size=(200, 300))):
        f = agrees([data], define)
        results = f(data)
        for k, r in enumerate(results):
            assert r.flags.owndata and r.flags.writeable and r.flags.c_contiguous
            for other in [data, *results[:k]]:
                assert not np.shares_memory(r, other)
            r[...] = 0


def test_arguments_that_do_not_fit() -> None:
    f = agrees([X, 2.0], lambda x, s: x * s)
    for args in [
        (X, 2),
        (X, "2"),
        (X[0], 2.0),
        (X.astype("f4"), 2.0),
        (X.tolist(), 2.0),
        (X[:1], 2.0),
        (X,),
        (X, 2.0, 3.0, 4.0),
    ]:
        assert f(*args) is NotImplemented, args
    g = agrees([np.float32(2)], lambda x: x * x)
    assert g(2.0) is NotImplemented and g(np.float64(2)) is NotImplemented
    h = agrees([3], lambda x: emit("mul", x, x))
    assert h(True) is NotImplemented and h(3.0) is NotImplemented and h(1 << 70) is NotImplemented
    flag = agrees([True], lambda x: emit("not", x))
    assert flag(1) is NotImplemented


def test_kinds_of_results() -> None:
    made = program([1.5, 2, True, 1j], lambda *a: list(a), outputs=["py"] * 4)
    f = check_program(made, [[1.5, 2, True, 1j], [-0.0, -(2**63), False, 2 + 3j]])
    assert [type(v) for v in f(1.5, 2, True, 1j)] == [float, int, bool, complex]
    made = program([1.5, 2], lambda *a: list(a), outputs=["array", "np"])
    assert [type(v) for v in check_program(made, [[1.5, 2]])(1.5, 2)] == [np.ndarray, np.int64]


def test_constant_arrays() -> None:
    agrees(
        [2.0],
        lambda s: [Const(X) * s, b.index(Const(X), ("i", ":"), [i64(1)]), b.set_at(Const(X), s, ("i", "i"), [0, 0])],
    )


def test_gather_and_scatter_with_one_index_array() -> None:
    at = np.array([[0, 2], [-1, 2]])
    flat = np.array([3, 0, 3, -4], dtype=np.int32)
    for spec, k in [(("a", ":", ":"), 0), ((":", "a", ":"), 1), ((":", ":", "a"), 2)]:
        for index in (at, flat[:3] % 3):
            agrees([CUBE, index], lambda x, a, s=spec: [b.index(x, s, [a]), b.index(b.sin(x), s, [a]) * 2.0])
            values = np.take(CUBE, index, axis=k) * 2
            row = values[..., :1]
            for name in ("set", "add_at"):
                agrees(
                    [CUBE, values, row, index],
                    lambda x, v, r, a, s=spec, n=name: [
                        emit(n, x, v, a, spec=s),
                        emit(n, b.sin(x), r, a, spec=s),
                        emit(n, x, Const(1.5), a, spec=s),
                    ],
                )
    agrees([X[:, 0], flat], lambda x, a: emit("add_at", x, b.index(x, ("a",), [a]), a, spec=("a",)))
    agrees([X[:, 0], flat], lambda x, a: emit("set", b.sin(x), Const(1.0), a, spec=("a",)), [X[:, 0], flat + 2])
    agrees(
        [X[:, 0], flat], lambda x, a: emit("add_at", x, b.index(x, (("s", False, True, False),), [3]), a, spec=("a",))
    )
