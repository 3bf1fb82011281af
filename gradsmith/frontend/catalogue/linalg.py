"""Products of matrices, and the factorisations and solvers that stay in LAPACK (``host`` operations with rules)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsmith.errors import MissingRule
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import fold, operand
from gradsmith.frontend.catalogue import implements
from gradsmith.frontend.catalogue.operands import (
    axis_index,
    deliver,
    equal,
    holds,
    most,
    product,
    refuse,
    size,
)
from gradsmith.frontend.catalogue.shaping import diagonal_axes, diagonal_indices
from gradsmith.frontend.values import Scalar, fresh, number_or_array, result_dtype
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value
from gradsmith.ir.types import I64, ArrayType, real_dtype

# ---- products --------------------------------------------------------------------------------------------------------


def _pair(a: Any, b: Any) -> tuple[Value, Value]:
    a, b = operand(a), operand(b)
    common = result_dtype(a, b)
    return st.as_value(a, common), st.as_value(b, common)


def _check_equal(n: Value, m: Value, message: str) -> None:
    """Checked apart from the operation, which may turn out not to be needed when only a derivative is asked for."""
    st.current().check(holds(equal(n, m)), ValueError, message, n, m)


def _product(x: Value, y: Value) -> Value:
    message = "matmul: the last axis of the first operand and the rows of the second differ in length: {} and {}"
    _check_equal(ir.shape(x)[-1], ir.shape(y)[0 if y.ndim == 1 else -2], message)
    return ir.emit("matmul", x, y)


@implements(np.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, **options: Any) -> Any:
    x, y = _pair(x1, x2)
    for k, v in enumerate((x, y)):
        if v.ndim == 0:
            raise ValueError(f"matmul: Input operand {k} does not have enough dimensions (has 0)")
    if dtype is not None:
        x, y = ir.cast(x, st.static(dtype)), ir.cast(y, st.static(dtype))
    return deliver(_product(x, y), out, "matmul")


@implements(np.dot, method="dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    x, y = _pair(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return deliver(fold("mul", [x, y]), out, "dot")
    if y.ndim <= 2:
        return deliver(_product(x, y), out, "dot")
    return deliver(_contracted(x, y, [x.ndim - 1], [y.ndim - 2]), out, "dot")


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    x, y = _pair(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return deliver(fold("mul", [x, y]))
    return deliver(_contracted(x, y, [x.ndim - 1], [y.ndim - 1]))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = _pair(a, b)
    x, y = ir.reshape(x, [size(x)]), ir.reshape(y, [size(y)])
    return deliver(fold("mul", [ir.index(x, [":", "n"]), ir.index(y, ["n", ":"])]), out, "outer")


@implements(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any, /) -> Any:
    if st.as_value(x1).ndim != 1 or st.as_value(x2).ndim != 1:
        raise ValueError("Input arrays must be one-dimensional")
    return outer(x1, x2)


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    x, y = _pair(a, b)
    return deliver(ir.emit("matmul", _conjugate(ir.reshape(x, [size(x)])), ir.reshape(y, [size(y)])))


@implements(np.vecdot)
def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: Any = -1, **options: Any) -> Any:
    x, y = _pair(x1, x2)
    products = fold("mul", [_conjugate(x), y])
    return deliver(ir.sum_(products, [axis_index(axis, products.ndim)]), out, "vecdot")


@implements(np.linalg.vecdot)
def linalg_vecdot(x1: Any, x2: Any, /, *, axis: Any = -1) -> Any:
    return vecdot(x1, x2, axis=axis)


@implements(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any, /) -> Any:
    return matmul(x1, x2)


def _conjugate(x: Value) -> Value:
    return ir.conj(x) if x.dtype.kind == "c" else x


def _register_matrix_vector_products() -> None:
    """matvec and vecmat, which NumPy has since 2.2."""
    if hasattr(np, "matvec"):

        @implements(np.matvec)
        def matvec(x1: Any, x2: Any, /, out: Any = None, **options: Any) -> Any:
            x, y = _pair(x1, x2)
            return deliver(_dropped(ir.emit("matmul", x, ir.index(y, [":"] * y.ndim + ["n"])), -1), out)

        @implements(np.vecmat)
        def vecmat(x1: Any, x2: Any, /, out: Any = None, **options: Any) -> Any:
            x, y = _pair(x1, x2)
            row = ir.index(_conjugate(x), [":"] * (x.ndim - 1) + ["n", ":"])
            return deliver(_dropped(ir.emit("matmul", row, y), -2), out)


def _dropped(x: Value, axis: int) -> Value:
    spec = [":"] * x.ndim
    spec[axis] = "i"
    return ir.index(x, spec, [0])


_register_matrix_vector_products()


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = _pair(a, b)
    axes = st.static(axes)
    if isinstance(axes, tuple | list):
        left, right = (list(k) if isinstance(k, tuple | list) else [k] for k in axes)
    else:
        left, right = list(range(-axes, 0)), list(range(axes))
    if len(left) != len(right):
        raise ValueError("shape-mismatch for sum")
    return fresh(_contracted(x, y, [axis_index(k, x.ndim) for k in left], [axis_index(k, y.ndim) for k in right]))


def _contracted(x: Value, y: Value, axes_x: list[int], axes_y: list[int]) -> Value:
    """The sum over pairs of axes: the free axes of x, then those of y."""
    free_x = [k for k in range(x.ndim) if k not in axes_x]
    free_y = [k for k in range(y.ndim) if k not in axes_y]
    x, y = ir.transpose(x, [*free_x, *axes_x]), ir.transpose(y, [*axes_y, *free_y])
    dims_x, dims_y = ir.shape(x), ir.shape(y)
    n, m = len(free_x), len(axes_y)
    for a, b in zip(dims_x[n:], dims_y, strict=False):
        _check_equal(a, b, "shape-mismatch for sum: axes of lengths {} and {}")
    if (n, m, len(free_y)) != (1, 1, 1):
        x = ir.reshape(x, [product(dims_x[:n]), product(dims_x[n:])])
        y = ir.reshape(y, [product(dims_y[:m]), product(dims_y[m:])])
    found = ir.emit("matmul", x, y)
    return found if n == len(free_y) == 1 else ir.reshape(found, [*dims_x[:n], *dims_y[m:]])


@implements(np.trace, method="trace")
def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None) -> Any:
    from gradsmith.frontend.catalogue.reductions import accumulator_dtype

    value = st.as_value(a)
    value = ir.cast(value, st.static(dtype) or accumulator_dtype(value.dtype))
    if value.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    value = ir.transpose(value, diagonal_axes(value.ndim, axis1, axis2))
    n, m = ir.shape(value)[-2:]
    rows, columns = diagonal_indices(n, m, st.index_value(offset))
    picked = ir.index(value, [":"] * (value.ndim - 2) + ["a", "a"], [rows, columns])
    return deliver(ir.sum_(picked, [picked.ndim - 1]), out, "trace")


@implements(np.linalg.trace)
def linalg_trace(x: Any, /, *, offset: Any = 0, dtype: Any = None) -> Any:
    return trace(x, offset, -2, -1, dtype)


@implements(np.linalg.diagonal)
def linalg_diagonal(x: Any, /, *, offset: Any = 0) -> Any:
    from gradsmith.frontend.catalogue.shaping import diagonal

    return diagonal(x, offset, -2, -1)


# ---- solvers and factorisations --------------------------------------------------------------------------------------


def matrix(a: Any, square: bool = False, least_ndim: int = 2) -> Value:
    """The Value of a stack of matrices in a dtype LAPACK takes. LinAlgError as NumPy raises it."""
    value = st.as_value(a)
    if value.ndim < least_ndim:
        raise np.linalg.LinAlgError(f"{value.ndim}-dimensional array given. Array must be at least two-dimensional")
    if value.dtype == np.float16:
        raise TypeError("array type float16 is unsupported in linalg")
    if value.dtype.kind not in "fc":
        value = ir.cast(value, np.float64)
    if square:
        n, m = ir.shape(value)[-2:]
        st.current().check(fold("eq", [n, m]), np.linalg.LinAlgError, "Last 2 dimensions of the array must be square")
    return value


def _host(name: str, args: list[Value], *types: ArrayType, **kwargs: Any) -> Any:
    return ir.host(f"numpy.linalg.{name}", args, types, **kwargs)


def _named(function: Any, *results: Value) -> Any:
    """The results as the named tuple that the function returns."""
    kind = type(function(np.eye(1)))
    return kind(*map(number_or_array, results))


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    x, y = matrix(a, square=True), st.as_value(b)
    common = np.result_type(x.dtype, y.dtype)
    x, y = ir.cast(x, common), ir.cast(y, common)
    ndim = max(x.ndim - 1, 1) if y.ndim == 1 else max(x.ndim, y.ndim)
    if y.ndim == 0:
        raise np.linalg.LinAlgError("0-dimensional array given. Array must be at least one-dimensional")
    return deliver(_host("solve", [x, y], ArrayType(common, ndim)))


@implements(np.linalg.inv)
def inv(a: Any) -> Any:
    x = matrix(a, square=True)
    return deliver(_host("inv", [x], x.type))  # type: ignore[arg-type]


@implements(np.linalg.det)
def det(a: Any) -> Any:
    x = matrix(a, square=True)
    return deliver(_host("det", [x], ArrayType(x.dtype, x.ndim - 2)))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    x = matrix(a, square=True)
    sign, log = _host("slogdet", [x], ArrayType(x.dtype, x.ndim - 2), ArrayType(real_dtype(x.dtype), x.ndim - 2))
    return _named(np.linalg.slogdet, sign, log)


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: Any = False) -> Any:
    x = matrix(a, square=True)
    if st.static(upper):
        # NumPy reads the upper triangle then
        lower = _host("cholesky", [_adjoint(x)], x.type)  # type: ignore[arg-type]
        return fresh(_adjoint(lower))
    return fresh(_host("cholesky", [x], x.type))  # type: ignore[arg-type]


def _adjoint(x: Value) -> Value:
    perm = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    return _conjugate(ir.transpose(x, perm))


def _eigh(a: Any, uplo: Any) -> tuple[Value, Value]:
    x = matrix(a, square=True)
    if st.static(uplo).upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    if st.static(uplo).upper() == "U":
        x = _adjoint(x)
    return _host("eigh", [x], ArrayType(real_dtype(x.dtype), x.ndim - 1), x.type)  # type: ignore[arg-type]


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: Any = "L") -> Any:
    return _named(np.linalg.eigh, *_eigh(a, UPLO))


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: Any = "L") -> Any:
    x = matrix(a, square=True)
    x = _adjoint(x) if st.static(UPLO).upper() == "U" else x
    return fresh(_host("eigvalsh", [x], ArrayType(real_dtype(x.dtype), x.ndim - 1)))


def _eig(a: Any) -> tuple[Value, Value]:
    """Eigenvalues and vectors, always complex: whether they are real is known only at run time."""
    x = matrix(a, square=True)
    complex_dtype = np.result_type(x.dtype, np.complex64)
    x = ir.cast(x, complex_dtype)
    return _host("eig", [x], ArrayType(complex_dtype, x.ndim - 1), x.type)  # type: ignore[arg-type]


@implements(np.linalg.eig)
def eig(a: Any) -> Any:
    return _named(np.linalg.eig, *_eig(a))


@implements(np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    return fresh(_eig(a)[0])


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, hermitian: Any = False) -> Any:
    if st.static(hermitian):
        raise MissingRule("numpy.linalg.svd with hermitian=True cannot be staged; leave the option out")
    x = matrix(a)
    if not st.static(compute_uv):
        return fresh(singular_values(x))
    types = (x.type, ArrayType(real_dtype(x.dtype), x.ndim - 1), x.type)
    return _named(np.linalg.svd, *_host("svd", [x], *types, full_matrices=bool(st.static(full_matrices))))  # type: ignore[arg-type]


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    return fresh(singular_values(matrix(x)))


def singular_values(x: Value) -> Value:
    return _host("svdvals", [x], ArrayType(real_dtype(x.dtype), x.ndim - 1))


@implements(np.linalg.qr)
def qr(a: Any, mode: Any = "reduced") -> Any:
    mode = st.static(mode)
    if mode not in ("reduced", "complete", "r"):
        raise MissingRule(f"numpy.linalg.qr with mode={mode!r} cannot be staged; use 'reduced'")
    x = matrix(a)
    q, r = _host("qr", [x], x.type, x.type, mode="complete" if mode == "complete" else "reduced")  # type: ignore[arg-type]
    return fresh(r) if mode == "r" else _named(np.linalg.qr, q, r)


@implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: Any = False, *, rtol: Any = None) -> Any:
    x = matrix(a)
    options = {name: st.static(v) for name, v in (("rcond", rcond), ("rtol", rtol)) if v is not None}
    return fresh(_host("pinv", [x], x.type, **options))  # type: ignore[arg-type]


@implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: Any = False, *, rtol: Any = None) -> Any:
    value = st.as_value(A)
    refuse("linalg.matrix_rank", tol=tol, rtol=rtol)
    return deliver(_host("matrix_rank", [value], I64.with_ndim(max(value.ndim - 2, 0))))


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solution of least norm; residuals are empty where NumPy leaves them out."""
    x, y = matrix(a), st.as_value(b)
    common = np.result_type(x.dtype, y.dtype)
    x, y = ir.cast(x, common), ir.cast(y, common)
    n, m = ir.shape(x)
    real = real_dtype(common)
    epsilon = ir.Const(np.finfo(real).eps, ArrayType(real))
    cutoff = st.as_value(rcond, real) if rcond is not None else epsilon * ir.cast(most(n, m), real)
    cutoff = ir.where(cutoff < ir.const_like(0, cutoff), epsilon, cutoff)
    solution = ir.host("gradsmith.backends.hosted.least_squares", [x, y, cutoff], [y.type])
    singular = singular_values(x)
    largest = ir.reduce("max", singular, (0,))
    rank = ir.sum_(ir.cast(singular > cutoff * largest, np.int64), [0])
    gap = y - ir.emit("matmul", x, solution)
    squares = ir.real(gap * _conjugate(gap)) if common.kind == "c" else gap * gap
    sums = ir.sum_(squares, [0])
    sums = ir.index(sums, ["n"]) if sums.ndim == 0 else sums
    given = fold("and", [fold("eq", [rank, m]), fold("gt", [n, m])])
    kept = fold("mul", [ir.shape(sums)[0], ir.cast(given, np.int64)])
    residuals = ir.index(sums, [("s", False, True, False)], [kept])
    return fresh(solution), fresh(residuals), Scalar(ir.cast(rank, np.int32), weak=False), fresh(singular)
