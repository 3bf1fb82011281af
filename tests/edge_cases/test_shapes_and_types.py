"""Shapes, memory layouts, indices and dtypes of arguments and intermediates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.edge_cases.expectations import check, expect, gradients

R = np.random.default_rng(0).uniform
M = R(0.5, 1.5, (3, 4))
T = R(0.5, 1.5, (2, 3, 4))


def same(got: Any, expected: Any, rtol: float = 1e-13) -> None:
    """Equal values, dtype, shape and kind of object."""
    assert type(got) is type(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=rtol)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def loop_sum(x: Any) -> Any:
    total = 0.0
    for v in x:
        total = total + v * v
    return total


def fill(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] ** 2
    return np.sum(y)


EMPTY: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "sum": (lambda x: np.sum(x * x), (0,)),
    "sum of rows": (lambda x: np.sum(np.sum(x, axis=1) ** 2), (0, 3)),
    "sum of no columns": (lambda x: np.sum(np.sum(x, axis=1) ** 2), (3, 0)),
    "prod": (lambda x: np.prod(x), (0,)),
    "loop": (loop_sum, (0,)),
    "filled": (fill, (0,)),
    "matmul of nothing": (lambda x: np.sum(x @ x.T), (3, 0)),
    "matmul of no rows": (lambda x: np.sum(x @ x.T), (0, 3)),
    "dot": (lambda x: x @ x, (0,)),
    "concatenate": (lambda x: np.sum(np.concatenate([x, np.ones(2)]) * 2.0), (0,)),
    "reshape": (lambda x: np.sum(x.reshape(0, 2)), (2, 0)),
    "mask": (lambda x: np.sum(x[x > 0]), (0,)),
    "cumsum": (lambda x: np.sum(np.cumsum(x)), (0,)),
    "slice": (lambda x: np.sum(x[1:] * x[:-1]), (0,)),
    "diff": (lambda x: np.sum(np.diff(x) ** 2), (0,)),
    "sort": (lambda x: np.sum(np.sort(x)), (0,)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_arrays(name: str, backend: str) -> None:
    f, shape = EMPTY[name]
    expect(f, np.zeros(shape), np.zeros(shape), backend=backend)
    # compiled for an empty array, called with another, and the other way round
    value, gradient = gs.value_and_grad(f, backend=backend)(np.zeros(shape))
    assert value == f(np.zeros(shape))
    assert gradient.shape == shape


def test_one_compiled_function_serves_all_lengths(backend: str) -> None:
    gradient = gs.grad(lambda x: np.sum(x[1:] * x[:-1]) + np.sum(np.cumsum(x) ** 2) + np.prod(x), backend=backend)
    for n in (3, 0, 1, 2, 1, 5, 0):
        x = R(0.5, 1.5, n)
        got = gradient(x)
        step = 1e-6
        for k in range(n):
            e = np.eye(n)[k] * step

            def f(x: Any) -> Any:
                return np.sum(x[1:] * x[:-1]) + np.sum(np.cumsum(x) ** 2) + np.prod(x)

            assert math.isclose(got[k], (f(x + e) - f(x - e)) / (2 * step), rel_tol=1e-7)


def test_jacobians_of_empty_arrays(backend: str) -> None:
    for mode in ("forward", "reverse", "auto"):
        jacobian = gs.jacobian(lambda x: np.sin(x), mode=mode, backend=backend)
        assert jacobian(np.zeros(0)).shape == (0, 0)
        np.testing.assert_allclose(jacobian(np.zeros(2)), np.eye(2))
        assert gs.jacobian(lambda x: np.zeros((3, len(x))) * x, mode=mode, backend=backend)(np.zeros(0)).shape == (
            3,
            0,
            0,
        )
        assert gs.jacobian(lambda x: np.ones(3) * np.sum(x), mode=mode, backend=backend)(np.zeros(0)).shape == (3, 0)


def test_kinds_of_scalars(backend: str) -> None:
    """The gradient is the kind of object that the argument is."""
    gradient = gs.grad(lambda x: x * x * 1.5, backend=backend)
    same(gradient(2.0), 6.0)
    same(gradient(np.float64(2.0)), np.float64(6.0))
    same(gradient(np.array(2.0)), np.array(6.0))
    same(gradient(np.float32(2.0)), np.float32(6.0))
    same(gradient(np.array(2.0, np.float32)), np.array(6.0, np.float32))
    with_array = gs.grad(lambda a, x: np.sum(a * x), backend=backend)
    same(with_array(2.0, np.ones(3)), 3.0)
    same(with_array(np.array(2.0), np.ones(3)), np.array(3.0))
    same(with_array(np.array([2.0]), np.ones(3)), np.array([3.0]))
    same(with_array(np.array([[2.0]]), np.ones(3)), np.array([[3.0]]))
    same(with_array(np.array([[2.0], [3.0]]), np.ones(3)), np.array([[3.0], [3.0]]))


def test_derivative_and_jacobian_of_zero_dimensional_arrays(backend: str) -> None:
    same(gs.derivative(lambda x: x**3, backend=backend)(np.array(2.0)), np.array(12.0))
    same(gs.jacobian(lambda x: x**3, backend=backend)(np.array(2.0)), np.array(12.0))
    same(gs.jacobian(lambda x: x**3, backend=backend)(2.0), 12.0)
    same(gs.hessian(lambda x: x**3, backend=backend)(np.array(2.0)), np.array(12.0))
    same(gs.grad(lambda x: x[()] * x[...], backend=backend)(np.array(2.0)), np.array(4.0))
    same(gs.grad(lambda x: float(x) ** 2, backend=backend)(np.array(3.0)), np.array(6.0))
    same(gs.grad(lambda x: x.item() ** 2, backend=backend)(np.array([3.0])), np.array([6.0]))


BROADCASTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    *[((3,), ()), ((), (3,)), ((2, 3), (3,)), ((3, 1), (1, 4)), ((1,), (5,)), ((2, 1, 3), (4, 1)), ((1, 1), (1, 1))],
    *[((1,), ()), ((0, 3), (1, 3)), ((1, 0), (2, 1)), ((2, 3, 4), (2, 3, 4))],
]


def test_broadcasting_both_ways(backend: str) -> None:
    """One compiled function for each pair of dimensions; the gradient has the argument's shape."""

    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sin(x) * y + np.where(y > 1, x, y) + np.maximum(x, y) - x / y)

    both = gs.grad(f, (0, 1), backend=backend)
    for a, b in BROADCASTS:
        x, y = R(0.5, 1.5, a), R(0.5, 1.5, b)
        wide = np.broadcast_arrays(x, y)
        at = [np.cos(wide[0]) * wide[1] + (wide[1] > 1) + (wide[0] > wide[1]) - 1 / wide[1],
              np.sin(wide[0]) + (wide[1] <= 1) + (wide[0] <= wide[1]) + wide[0] / wide[1] ** 2]  # fmt: skip
        for got, full, arg in zip(both(np.asarray(x), np.asarray(y)), at, (x, y), strict=True):
            kept = (1,) * (full.ndim - np.ndim(arg)) + np.shape(arg)
            axes = tuple(k for k, n in enumerate(kept) if n == 1)
            expected = np.sum(full, axis=axes, keepdims=True).reshape(np.shape(arg))
            assert got.shape == np.shape(arg)
            np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_an_axis_of_length_one_may_grow(backend: str) -> None:
    """Compiled with length one, then called with another length and back: never a stale broadcast."""
    gradient = gs.grad(lambda x, y: np.sum(x * y), (0, 1), backend=backend)
    for n, m in [(1, 4), (4, 4), (4, 1), (1, 1), (1, 4)]:
        x, y = R(1, 2, n), R(1, 2, m)
        gx, gy = gradient(x, y)
        np.testing.assert_allclose(gx, np.full(n, y.sum()) if n == 1 else np.broadcast_to(y, n))
        np.testing.assert_allclose(gy, np.full(m, x.sum()) if m == 1 else np.broadcast_to(x, m))


# ---- indices ---------------------------------------------------------------------------------------------------------

I = np.array([0, 2, 0, 0])  # noqa: E741
J = np.array([[0, 1], [1, 1]])

INDEXED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "repeated": (lambda x: x[I], M),
    "repeated in two axes": (lambda x: x[[0, 0, 2], [1, 1, 3]], M),
    "array of indices": (lambda x: x[J], M),
    "array and slice": (lambda x: x[I, 1:3], M),
    "slice and array": (lambda x: x[1:, I], M),
    "array, slice, array": (lambda x: x[J, :, J], T),
    "integer, slice, array": (lambda x: x[1, :, [0, 3, 3]], T),
    "slice, array, array": (lambda x: x[:, [0, 1, 0], [0, 3, 0]], T),
    "broadcast arrays": (lambda x: x[np.arange(3)[:, None], I], M),
    "negative indices": (lambda x: x[[-1, -1, 0], -2], M),
    "mask": (lambda x: x[x > 1], M),
    "mask of rows": (lambda x: x[x[:, 0] > 1], M),
    "mask of columns": (lambda x: x[:, x[0] > 1], M),
    "mask that is a list": (lambda x: x[[True, False, True]], M),
    "negative step": (lambda x: x[::-1, ::-2], M),
    "negative start and stop": (lambda x: x[-1:-3:-1, -3:-1], M),
    "beyond the ends": (lambda x: x[-100:100, 2:100], M),
    "empty slice": (lambda x: x[2:1], M),
    "newaxis": (lambda x: x[:, None] * x[None, :], M[0]),
    "newaxis in the middle": (lambda x: x[:, np.newaxis, 1], M),
    "Ellipsis": (lambda x: x[..., 1], T),
    "Ellipsis in the middle": (lambda x: x[0, ..., 1:3], T),
    "Ellipsis of nothing": (lambda x: x[0, ..., 1], M),
    "Ellipsis and newaxis": (lambda x: x[..., None, 2], T),
    "one element": (lambda x: x[1, -1], M),
    "chain": (lambda x: x[1][::2][0], T),
    "ix_": (lambda x: x[np.ix_([0, 2], [1, 1, 3])], M),
    "take": (lambda x: np.take(x, I, axis=1), M),
    "index found at run time": (lambda x: x[np.argmax(x[:, 0])], M),
    "indices sorted at run time": (lambda x: x[:, 0][np.argsort(x[:, 0])] * np.arange(3), M),
    "numpy integer": (lambda x: x[np.int64(1), np.uint8(2)], M),
    "slice object": (lambda x: x[slice(0, 2), slice(None, None, 3)], M),
    "transposed": (lambda x: x.T[1:, 0], M),
}


@pytest.mark.parametrize("name", INDEXED)
def test_reading_with_an_index(name: str, backend: str) -> None:
    pick, x = INDEXED[name]
    # the adjoint of reading adds up: dy = read(dx), so the gradient of w·read(x) counts every reading
    value = np.asarray(pick(x))
    w = R(0.5, 1.5, value.shape)
    f = lambda x: np.sum(w * pick(x) ** 2)  # noqa: E731
    expected = np.array([(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(x.size).reshape(-1, *x.shape)])
    for got in gradients(f, x, backend=backend):
        np.testing.assert_allclose(np.ravel(got), expected, rtol=1e-7, atol=1e-8)


def write(key: Any) -> Callable[[Any], Any]:
    """A function that overwrites a part with values that depend on x, and adds to it."""

    def f(x: Any) -> Any:
        y = np.sin(x)
        y[key] = np.cos(y[key]) * y[key]
        y[key] += y[key] * 3.0
        return np.sum(y * y)

    return f


KEYS: dict[str, Any] = {
    "element": (1, 2),
    "row": 1,
    "column": (slice(None), 2),
    "block": (slice(1, 3), slice(0, 2)),
    "negative step": (slice(None, None, -1), slice(None, None, 2)),
    "Ellipsis": Ellipsis,
    "Ellipsis and integer": (Ellipsis, 1),
    "array": np.array([0, 2]),
    "array and slice": (np.array([0, 2]), slice(1, None)),
    "two arrays": (np.array([0, 2]), np.array([3, 3])),
    "mask": M > 1,
    "mask of rows": np.array([True, False, True]),
    "newaxis": (None, slice(None), 1),
    "empty": slice(2, 2),
}


@pytest.mark.parametrize("name", KEYS)
def test_writing_with_an_index(name: str, backend: str) -> None:
    check(write(KEYS[name]), M, backend=backend)


def test_writing_through_repeated_indices(backend: str) -> None:
    """``+=`` with repeated indices writes once, np.add.at adds up, as in NumPy."""

    def once(x: Any) -> Any:
        y = np.zeros(3)
        y[np.array([0, 0, 2])] += x
        return np.sum(y * np.array([1.0, 10.0, 100.0]))

    def all_of_them(x: Any) -> Any:
        y = np.zeros(3)
        np.add.at(y, np.array([0, 0, 2]), x)
        return np.sum(y * np.array([1.0, 10.0, 100.0]))

    x = np.array([1.0, 2.0, 3.0])
    expect(once, x, [0, 1, 100], backend=backend)
    expect(all_of_them, x, [1, 1, 100], backend=backend)


# ---- memory ----------------------------------------------------------------------------------------------------------


def read_only(x: Any) -> Any:
    y = x.copy()
    y.setflags(write=False)
    return y


def unaligned(x: Any) -> Any:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    y = raw[1:].view(x.dtype).reshape(x.shape)
    y[...] = x
    assert not y.flags.aligned
    return y


LAYOUTS: dict[str, Callable[[], Any]] = {
    "Fortran order": lambda: np.asfortranarray(M),
    "transposed": lambda: np.ascontiguousarray(M.T).T,
    "every other row": lambda: np.repeat(M, 2, axis=0)[::2],
    "every other column": lambda: np.repeat(M, 2, axis=1)[:, ::2],
    "reversed": lambda: np.ascontiguousarray(M[::-1, ::-1])[::-1, ::-1],
    "read-only": lambda: read_only(M),
    "unaligned": lambda: unaligned(M),
    "part of a record": lambda: np.array(list(zip(M.ravel(), M.ravel(), strict=True)), "f8,f8")["f0"].reshape(3, 4),
    "big endian": lambda: M.astype(">f8"),
    "zero strides": lambda: np.broadcast_to(M[:1], (3, 4)),
    "zero strides in all axes": lambda: np.broadcast_to(np.float64(0.7), (3, 4)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_memory_layouts(name: str, backend: str) -> None:
    """Equal numbers give equal bits however they lie in memory, and the argument is left as it is."""

    def f(x: Any) -> Any:
        y = np.sin(x) @ x.T
        y[0] += x[1, :3] * 2.0
        total = np.sum(y * y)
        for i in range(x.shape[0]):
            total += x[i, 0] * x[-1, i]
        return total + np.sum(x.ravel() * np.arange(12.0)) + np.sum(x.reshape(2, 6)[1])

    x = LAYOUTS[name]()
    plain = np.array(x, dtype=float, order="C")
    compiled = gs.value_and_grad(f, backend=backend)
    expected = compiled(plain.copy())
    for _ in range(2):
        value, gradient = compiled(x)
        assert value == expected[0]
        np.testing.assert_array_equal(gradient, expected[1])
    np.testing.assert_array_equal(x, plain)
    expect(f, plain, expected[1], backend=backend)
    check(f, plain, backend=backend)


def test_a_written_argument_is_not_modified(backend: str) -> None:
    def f(x: Any) -> Any:
        x[0] = x[1] * 2.0
        x *= x
        return np.sum(x)

    x = np.array([1.0, 2.0, 3.0])
    for argument in (x, read_only(x), np.broadcast_to(np.array([1.0, 2.0, 3.0]), (3,))):
        np.testing.assert_allclose(gs.grad(f, backend=backend)(argument), [0, 20, 6])
        np.testing.assert_allclose(gs.jacobian(f, mode="forward", backend=backend)(argument), [0, 20, 6])
        np.testing.assert_array_equal(argument, [1, 2, 3])


#: name: (array made from x, whether it is certainly in C order if x is)
MADE: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "itself": (lambda x: x, True),
    "operator": (lambda x: x * 2.0, True),
    "operator of a transpose": (lambda x: x.T + 0.0, False),
    "mixed orders": (lambda x: x + x.T, False),
    "ufunc": (lambda x: np.exp(x), True),
    "where": (lambda x: np.where(x > 1, x, 0.0), True),
    "zeros_like": (lambda x: np.zeros_like(x), True),
    "zeros_like of a transpose": (lambda x: np.zeros_like(x.T), False),
    "zeros": (lambda x: np.zeros(x.shape), True),
    "zeros in Fortran order": (lambda x: np.zeros(x.shape, order="F"), False),
    "copy": (lambda x: x.copy(), True),
    "copy of a transpose": (lambda x: x.T.copy(), True),
    "np.copy of a transpose": (lambda x: np.copy(x.T), False),
    "cumsum": (lambda x: np.cumsum(x, axis=0), True),
    "cumsum of a transpose": (lambda x: np.cumsum(x.T, axis=0), False),
    "sort of a transpose": (lambda x: np.sort(x.T, axis=0), False),
    "rows by index": (lambda x: x[[1, 0]], True),
    "columns by index": (lambda x: x[:, [1, 0]], False),
    "slice": (lambda x: x[:1], True),
    "columns": (lambda x: x[:, :1], False),
    "product": (lambda x: x @ x, True),
    "einsum": (lambda x: np.einsum("ij,jk->ki", x, x), False),
    "concatenate": (lambda x: np.concatenate([x, x]), True),
    "stack": (lambda x: np.stack([x, x]), True),
    "inverse": (lambda x: np.linalg.inv(x), True),
    "sum over an axis": (lambda x: np.sum(x[None] * np.ones((2, 1, 1)), axis=0), True),
    "filled in a loop": (lambda x: filled_rows(x), True),
}


def filled_rows(x: Any) -> Any:
    y = np.zeros((2, 2))
    for i in range(2):
        y[i] = x[i]
    return y


@pytest.mark.parametrize("name", MADE)
def test_writing_through_ravel_as_numpy_does(name: str) -> None:
    """``ravel`` gives a view or a copy, depending on how the array was made. What is not certain is refused."""
    make, certain = MADE[name]

    def written(x: Any) -> Any:
        y = make(x)
        z = y.ravel()
        z[0] = 10.0 * x[0, 1]
        return np.sum(y * y)

    def read(x: Any) -> Any:
        y = make(x * 1.0)
        z = np.reshape(y, -1)
        y[0, 0] = 10.0 * x[0, 1]
        return np.sum(z * z)

    c = np.array([[1.0, 2.0], [3.0, 5.0]])
    for f in (written, read):
        for x in (c, np.asfortranarray(c)):
            try:
                value, gradient = gs.value_and_grad(f, backend="python")(x)
            except gs.UnsupportedCode:
                assert not (certain and x.flags.c_contiguous)
                continue
            assert math.isclose(value, f(x.copy(order="K")))
            e = 1e-6 * np.array([[0.0, 1.0], [0.0, 0.0]])
            assert math.isclose(gradient[0, 1], (f(x + e) - f(x - e)) / 2e-6, rel_tol=1e-7)


def test_results_share_no_memory_with_arguments_or_earlier_results(backend: str) -> None:
    w = np.array([1.0, 2.0])
    gradient = gs.grad(lambda x: np.sum(w * x), backend=backend)
    x = np.ones(2)
    first = gradient(x)
    first[:] = 99.0
    np.testing.assert_array_equal(w, [1, 2])
    np.testing.assert_array_equal(gradient(x), [1, 2])
    both = gs.grad(lambda x, y: np.sum(x + y), (0, 1), backend=backend)(x, x.copy())
    assert not np.shares_memory(*both)
    value, pullback = gs.vjp(lambda x: x * 1.0, x, backend=backend)
    (back,) = pullback(value)
    back[:] = 99.0
    np.testing.assert_array_equal(value, [1, 1])
    np.testing.assert_array_equal(x, [1, 1])


# ---- dtypes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_keep_their_precision(dtype: Any, backend: str) -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        for i in range(len(x)):
            y[i] = 2 * np.sin(x[i]) + 0.5
        return np.mean(np.where(y > 1, y, y * 3.0) * np.exp(x) / 3) + np.linalg.norm(x)

    x = np.array([0.1, 0.9, 2.0], dtype)
    value, gradient = gs.value_and_grad(f, backend=backend)(x)
    same(value, f(x), rtol=1e-6)
    assert gradient.dtype == dtype
    scale = np.where(2 * np.sin(x) + 0.5 > 1, 1.0, 3.0)
    exact = scale * (2 * np.cos(x) + 2 * np.sin(x) + 0.5) * np.exp(x) / 9 + x / np.linalg.norm(x)
    np.testing.assert_allclose(gradient, exact, rtol=1e-5 if dtype == np.float32 else 1e-13)
    _, tangent = gs.jvp(f, (x,), (np.ones_like(x),), backend=backend)
    assert tangent.dtype == dtype
    np.testing.assert_allclose(tangent, exact.sum(), rtol=1e-5)
    assert gs.jacobian(lambda x: x * x, backend=backend)(x).dtype == dtype
    assert gs.hessian(lambda x: np.sum(x * x * x), backend=backend)(x).dtype == dtype
    assert gs.derivative(lambda x: x * x, backend=backend)(x).dtype == dtype


def test_mixed_precision(backend: str) -> None:
    """Every argument's gradient has its own dtype whatever it meets on the way."""

    def f(x: Any, y: Any, z: Any) -> Any:
        return np.sum(x * y) * z

    x, y, z = np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0]), 2.0
    gx, gy, gz = gs.grad(f, (0, 1, 2), backend=backend)(x, y, z)
    same(gx, np.array([6.0, 8.0], np.float32))
    same(gy, np.array([2.0, 4.0]))
    same(gz, 11.0)
    same(gs.grad(lambda x: np.sum(x.astype(np.float64) ** 2), backend=backend)(x), np.array([2.0, 4.0], np.float32))
    same(gs.grad(lambda y: np.sum(y.astype(np.float32) ** 2), backend=backend)(y), np.array([6.0, 8.0]))


def test_integers_take_part(backend: str) -> None:
    k = np.array([1, 2, 3])

    def f(x: Any, k: Any) -> Any:
        return np.sum(x**k) + np.sum(k / 2 * x) + np.sum(k // 2) * x[0] + k[1] % 2 * x[1] + np.mean(k) * x[2]

    x = np.array([2.0, -3.0, 0.5])
    gradient = gs.grad(f, backend=backend)(x, k)
    np.testing.assert_allclose(gradient, k * x ** (k - 1) + k / 2 + [2, 0, 2])
    same(gs.jit(lambda k: k / 2, backend=backend)(k), k / 2)
    same(gs.jit(lambda k: k * k - 7 // k, backend=backend)(k), k * k - 7 // k)
    same(gs.jit(lambda k: np.sum(k) / len(k), backend=backend)(k), np.float64(2.0))
    small = np.array([100, 100], np.uint8)
    with np.errstate(over="ignore"):
        same(gs.jit(lambda k: (k + k, k * 3, np.sum(k)), backend=backend)(small)[0], small + small)
    narrow = gs.jit(lambda k: k.astype(np.float32) / 3, backend=backend)(np.array([1, 2], np.int16))
    same(narrow, np.array([1, 2], np.float32) / 3)


def taylor(x: Any, n: int) -> Any:
    """sin with integer factorials, which need more than 64 bits from the tenth term on."""
    total, factorial, sign = 0.0, 1, 1
    for k in range(n):
        total += sign * x ** (2 * k + 1) / factorial
        factorial *= (2 * k + 2) * (2 * k + 3)
        sign = -sign
    return total


def halves(x: Any, n: int) -> Any:
    return sum([x / 2**k for k in range(n)])


def shifts(x: Any, n: int) -> Any:
    total = 0.0
    for k in range(n):
        total += x / (1 << k)
    return total


def fibonacci(x: Any, n: int) -> Any:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return x * a


@pytest.mark.parametrize(("f", "large"), [(taylor, 80), (halves, 120), (shifts, 120), (fibonacci, 120)])
def test_integers_that_outgrow_64_bits_are_right_or_refused(f: Callable[..., Any], large: int, backend: str) -> None:
    """Python's integers have no limit: a result that needs more than 64 bits is never wrapped silently."""
    gradient = gs.grad(f, backend=backend)
    for n in (5, large, 9):
        expected = (f(1.0 + 1e-6, n) - f(1.0 - 1e-6, n)) / 2e-6
        try:
            assert math.isclose(gradient(1.0, n), expected, rel_tol=1e-7)
        except OverflowError as error:
            assert n == large and "64 bits" in str(error)


def test_huge_integers_that_are_known(backend: str) -> None:
    big = math.factorial(25)
    assert math.isclose(gs.grad(lambda x: x / math.factorial(25), backend=backend)(1.0), 1 / big)
    assert gs.grad(lambda x: np.sin(x) * 2**70 / 2**70, backend=backend)(0.0) == 1.0
    assert gs.grad(lambda x: x if x < 2**70 else 0.0, backend=backend)(1.0) == 1.0
    assert gs.grad(lambda x: sum(x**k / math.factorial(k) for k in range(25)), backend=backend)(0.0) == 1.0
    gradient = gs.grad(lambda x, n: x * n, backend=backend)
    for n in (3, 2**70, -(2**63), 2**63, 5):
        assert gradient(1.0, n) == float(n)


def test_floor_division_and_remainder_as_in_python(backend: str) -> None:
    compiled = gs.jit(lambda a, b: (a // b, a % b), backend=backend)
    for a in (7, -7):
        for b in (3, -3):
            assert compiled(a, b) == (a // b, a % b)
            assert compiled(float(a), float(b)) == (float(a) // float(b), float(a) % float(b))
            got = compiled(np.array([a]), np.array([b]))
            np.testing.assert_array_equal(got, [[a // b], [a % b]])


def test_bools_take_part(backend: str) -> None:
    x = np.array([-1.0, 0.5, 2.0])

    def f(x: Any) -> Any:
        positive, small = x > 0, x < 1
        both = positive & small
        count = np.sum(positive) + both.sum() + True
        return np.sum(positive * x**2 + (positive + small) * x - ~both * 3.0 * x) * count + np.mean(small) * x[0]

    count = 2 + 1 + 1
    slope = [0 + 1 - 3, 1 + 1 - 0, 4 + 1 - 3]
    expect(f, x, np.array(slope) * count + [2 / 3, 0, 0], backend=backend)
    mask = np.array([True, False, True])
    np.testing.assert_allclose(gs.grad(lambda x, m: np.sum(x * m) + np.sum(x[m]), backend=backend)(x, mask), [2, 0, 2])
    with pytest.raises(TypeError):
        gs.jit(lambda m: m - m, backend=backend)(mask)


def test_integer_leaves_have_no_gradient(backend: str) -> None:
    def f(p: Any) -> Any:
        return p["w"] * p["n"] + np.sum(p["k"] * p["x"]) + (p["w"] if p["flag"] else 0.0)

    p = {"w": 2.0, "n": 3, "k": np.array([1, 2]), "x": np.ones(2), "flag": True, "none": None}
    got = gs.grad(f, backend=backend)(p)
    assert got["w"] == 4.0
    np.testing.assert_array_equal(got["x"], [1, 2])
    assert got["n"] is got["k"] is got["flag"] is got["none"] is None


# ---- complex numbers -------------------------------------------------------------------------------------------------

X = np.array([0.3, 0.8, -0.5])

REAL_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs2 of a wave": lambda x: np.sum(np.abs(np.exp(1j * x) + x) ** 2),
    "real part": lambda x: np.sum(np.real(np.exp((1 + 2j) * x))),
    "imaginary part": lambda x: np.sum(np.imag(np.sin(x + 1j * x**2))),
    "angle": lambda x: np.sum(np.angle(x + 1j * (x**2 + 1)) * x),
    "conjugate": lambda x: np.sum((np.conj(x + 2j) * (x + 1j * x)).real),
    "vdot": lambda x: np.vdot(x * 1j, x * (1 + 1j)).real,
    "complex matrix": lambda x: np.abs((np.outer(x, x) * (1 + 1j) @ x)[0]),
    "complex solve": lambda x: np.linalg.solve(np.diag(x + 2j) + 1, x)[0].real,
    "complex array filled": lambda x: filled(x),
    "attributes": lambda x: np.sum((x * 1j).imag * (x + 1j).real),
    "cast to real": lambda x: np.sum((x * (2 + 1j)).real.astype(np.float64)),
    "polar": lambda x: np.sum(np.real(x**2 * np.exp(1j * np.sqrt(x**2 + 1)))),
}


def filled(x: Any) -> Any:
    z = np.zeros(3, dtype=complex)
    for k in range(3):
        z[k] = x[k] * np.exp(1j * k * x[k])
    z *= 1j
    return np.sum(z.real**2 - z.imag)


@pytest.mark.parametrize("name", REAL_FUNCTIONS)
def test_complex_intermediates_of_a_real_function(name: str, backend: str) -> None:
    f = REAL_FUNCTIONS[name]
    for got in gradients(f, X, backend=backend):
        assert got.dtype == np.float64
    check(f, X, backend=backend)


def test_gradient_of_a_complex_argument_is_that_of_steepest_ascent(backend: str) -> None:
    """∂f/∂x + i ∂f/∂y; the conjugate of what JAX and autograd return."""
    z = np.array([1 + 2j, -0.5j, 3.0 + 0j])
    gradient = gs.grad(lambda z: np.sum(np.abs(z) ** 2), backend=backend)
    same(gradient(z), 2 * z)
    same(gs.grad(lambda z: np.sum(z.real * 3 + z.imag * 5), backend=backend)(z), np.full(3, 3 + 5j))
    same(gs.grad(lambda z: np.sum((z * z).real), backend=backend)(z), 2 * np.conj(z))
    same(gs.grad(lambda z: abs(z) ** 2, backend=backend)(3 + 4j), 6 + 8j)
    same(gs.grad(lambda z: z.imag, backend=backend)(3 + 0j), 0 + 1j)
    w = np.array([1 - 1j, 2j, 3.0])
    same(gs.grad(lambda z: np.sum(np.real(w * np.exp(z))), backend=backend)(z), np.conj(w * np.exp(z)), rtol=1e-12)
    step = 0.1
    assert np.sum(np.abs(z - step * gradient(z)) ** 2) < np.sum(np.abs(z) ** 2)
    single = z.astype(np.complex64)
    same(gradient(single), 2 * single)


def test_vjp_and_jvp_of_complex_functions_are_adjoint(backend: str) -> None:
    """Re⟨w, J v⟩ = Re⟨J* w, v⟩ for the real inner product, for a function that is not holomorphic."""
    rng = np.random.default_rng(1)
    z, v, w = (rng.normal(size=3) + 1j * rng.normal(size=3) for _ in range(3))

    def f(z: Any) -> Any:
        return np.conj(z) * z[::-1] + np.abs(z) * np.exp(z) + z.real * 1j

    y, dy = gs.jvp(f, (z,), (v,), backend=backend)
    np.testing.assert_allclose(y, f(z))
    np.testing.assert_allclose(dy, (f(z + 1e-6 * v) - f(z - 1e-6 * v)) / 2e-6, rtol=1e-7)
    _, pullback = gs.vjp(f, z, backend=backend)
    (back,) = pullback(w)
    np.testing.assert_allclose(np.vdot(w, dy).real, np.vdot(back, v).real)


def test_holomorphic_derivative(backend: str) -> None:
    derivative = gs.derivative(lambda z: np.exp(z) * z**2, holomorphic=True, backend=backend)
    z = np.array([0.5 + 1j, -1 + 0j, 2.0])
    same(derivative(z), np.exp(z) * (z**2 + 2 * z), rtol=1e-12)
    assert np.isclose(derivative(1 + 1j), np.exp(1 + 1j) * ((1 + 1j) ** 2 + 2 * (1 + 1j)))


def test_real_numbers_in_complex_clothes(backend: str) -> None:
    """A complex argument whose imaginary part is zero has a complex gradient; a real one meets complex numbers."""
    same(gs.grad(lambda z: np.sum(z.real**2), backend=backend)(np.array([1 + 0j, 2 + 0j])), np.array([2 + 0j, 4 + 0j]))
    same(gs.grad(lambda x: np.sum(np.real(x + 0j) ** 2), backend=backend)(np.array([1.0, 2.0])), np.array([2.0, 4.0]))
    same(
        gs.grad(lambda x, w: np.sum(np.real(x * w)), backend=backend)(X, np.array([1j, 2 + 0j, 3.0])),
        np.array([0.0, 2, 3]),
    )


# ---- what is not an ordinary number or array -------------------------------------------------------------------------


def test_unusual_dtypes_are_right_or_refused(backend: str) -> None:
    f = gs.grad(lambda x: np.sum(x * x), backend=backend)
    for x in (np.array([1.0, 2.0], object), np.array(["a"]), np.array([1], "M8[s]"), np.zeros(2, "f8,f8")):
        with pytest.raises(TypeError):
            f(x)
    for dtype in (np.float16, np.longdouble, np.clongdouble):
        x = np.array([1.0, 2.0], dtype)
        try:
            got = f(x)
        except TypeError:
            continue
        same(got, 2 * x)


def test_array_subclasses_are_refused_or_right(backend: str) -> None:
    """np.matrix multiplies otherwise and masked arrays skip elements: never treat them as plain arrays silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    for x in (matrix, masked):
        with pytest.raises(TypeError, match=type(x).__name__):
            gs.grad(lambda x: np.sum(x * x), backend=backend)(x)


# ---- arrays of known lengths that do not fit -------------------------------------------------------------------------

MISMATCHES = {
    "fills": lambda x: np.sum(np.ones(3) * np.ones(4) * x),
    "a number in each": lambda x: np.sum(np.full(3, x) + np.zeros(4)),
    "needed by nobody": lambda x: np.sum(np.array([x, x, x]) * np.ones(4)),
    "joined": lambda x: np.sum(np.concatenate([np.array([x, x]), np.ones(1)]) * np.ones(4)),
    "one of two axes": lambda x: np.sum(np.ones((2, 3)) * x * np.zeros((1, 4))),
    "not used at all": lambda x: x + 0.0 * np.sum(np.ones(2) + np.ones(3)),
}


@pytest.mark.parametrize("f", MISMATCHES.values(), ids=MISMATCHES)
def test_lengths_that_do_not_fit_are_an_error(f: Any, backend: str) -> None:
    with pytest.raises(ValueError, match="broadcast together"):
        f(0.5)
    for transform in (gs.jit, gs.grad, gs.derivative):
        with pytest.raises(ValueError, match=r"could not be broadcast together with shapes \("):
            transform(f, backend=backend)(0.5)


def test_lengths_that_do_not_fit_matter_only_where_they_meet(backend: str) -> None:
    def f(x: float, n: int) -> float:
        out = 0.0
        for _ in range(n):
            if x > 10.0:
                out += np.sum(np.ones(3) * np.zeros(4) * x)
            out += x
        return out

    gradient = gs.grad(f, backend=backend)
    assert gradient(1.0, 3) == 3.0
    with pytest.raises(ValueError, match="broadcast together"):
        gradient(11.0, 3)
    assert gradient(11.0, 0) == 0.0
