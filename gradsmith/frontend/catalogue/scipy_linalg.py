"""scipy.linalg: the functions that differ from numpy.linalg's in their options, and structured matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from gradsmith.errors import MissingRule
from gradsmith.frontend import stage as st
from gradsmith.frontend.catalogue import defines, implements
from gradsmith.frontend.catalogue.linalg import matrix
from gradsmith.frontend.values import fresh
from gradsmith.ir import builder as ir

# Options that only say how SciPy computes (overwrite_a, check_finite, lapack_driver …) have no meaning here.


@implements(scipy.linalg.expm)
def expm(A: Any) -> Any:
    x = matrix(A, square=True)
    return fresh(ir.host("scipy.linalg.expm", [x], [x.type]))


@implements(scipy.linalg.solve_triangular)
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: Any = False, unit_diagonal: Any = False, **options: Any
) -> Any:
    x, y = matrix(a, square=True), st.as_value(b)
    if x.ndim != 2:
        raise MissingRule("scipy.linalg.solve_triangular of stacks of matrices cannot be staged")
    common = np.result_type(x.dtype, y.dtype)
    x, y = ir.cast(x, common), ir.cast(y, common)
    flags = {
        "trans": st.static(trans),
        "lower": bool(st.static(lower)),
        "unit_diagonal": bool(st.static(unit_diagonal)),
    }
    return fresh(ir.host("scipy.linalg.solve_triangular", [x, y], [y.type], **flags))


@defines(scipy.linalg.solve)
def solve(
    a: Any,
    b: Any,
    lower: Any = False,
    overwrite_a: Any = False,
    overwrite_b: Any = False,
    check_finite: Any = True,
    assume_a: Any = None,
    transposed: Any = False,
) -> Any:
    a = np.asarray(a)
    if assume_a in ("sym", "her", "pos", "symmetric", "hermitian", "positive definite"):
        # only one triangle is read
        half = np.tril(a) if lower else np.triu(a)
        rest = np.tril(a, -1) if lower else np.triu(a, 1)
        rest = np.swapaxes(rest, -1, -2)
        a = half + (np.conj(rest) if assume_a not in ("sym", "symmetric") and np.iscomplexobj(a) else rest)
    elif assume_a not in (None, "gen", "general"):
        raise MissingRule(f"scipy.linalg.solve with assume_a={assume_a!r} cannot be staged; leave the option out")
    return np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, b)


@defines(scipy.linalg.inv)
def inv(a: Any, overwrite_a: Any = False, check_finite: Any = True, **options: Any) -> Any:
    return np.linalg.inv(a)


@defines(scipy.linalg.det)
def det(a: Any, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    return np.linalg.det(a)


@defines(scipy.linalg.pinv)
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: Any = False, check_finite: Any = True) -> Any:
    if return_rank or atol is not None:
        raise MissingRule("scipy.linalg.pinv with atol or return_rank cannot be staged; leave the option out")
    return np.linalg.pinv(a, rtol=rtol)


@defines(scipy.linalg.norm)
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: Any = False, check_finite: Any = True) -> Any:
    return np.linalg.norm(a, ord, axis, keepdims)


@defines(scipy.linalg.cholesky)
def cholesky(a: Any, lower: Any = False, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    return np.linalg.cholesky(a, upper=not lower)


@defines(scipy.linalg.cho_factor)
def cho_factor(a: Any, lower: Any = False, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    return np.linalg.cholesky(a, upper=not lower), lower


@defines(scipy.linalg.cho_solve)
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: Any = False, check_finite: Any = True) -> Any:
    c, lower = c_and_lower
    first, second = (0, 2) if lower else (2, 0)
    half = scipy.linalg.solve_triangular(c, b, trans=first, lower=lower)
    return scipy.linalg.solve_triangular(c, half, trans=second, lower=lower)


@defines(scipy.linalg.eigh)
def eigh(
    a: Any, b: Any = None, *, lower: Any = True, eigvals_only: Any = False, subset_by_index: Any = None, **options: Any
) -> Any:
    if b is not None:
        # the generalised problem a v = w b v in the basis of the Cholesky factor of b
        factor = np.linalg.cholesky(b)
        left = scipy.linalg.solve_triangular(factor, a, lower=True)
        standard = np.conj(scipy.linalg.solve_triangular(factor, np.conj(left.T), lower=True)).T
        w, u = np.linalg.eigh(standard)
        v = scipy.linalg.solve_triangular(factor, u, trans=2, lower=True)
    else:
        w, v = np.linalg.eigh(a, "L" if lower else "U")
    if subset_by_index is not None:
        first, last = subset_by_index
        w, v = w[first : last + 1], v[:, first : last + 1]
    return w if eigvals_only else (w, v)


@defines(scipy.linalg.eigvalsh)
def eigvalsh(a: Any, b: Any = None, *, lower: Any = True, subset_by_index: Any = None, **options: Any) -> Any:
    if b is None and subset_by_index is None:
        return np.linalg.eigvalsh(a, "L" if lower else "U")
    return scipy.linalg.eigh(a, b, lower=lower, eigvals_only=True, subset_by_index=subset_by_index)


@defines(scipy.linalg.svd)
def svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, **options: Any) -> Any:
    if not compute_uv:
        return np.linalg.svdvals(a)
    u, s, vh = np.linalg.svd(a, full_matrices=full_matrices)
    return u, s, vh


@defines(scipy.linalg.svdvals)
def svdvals(a: Any, overwrite_a: Any = False, check_finite: Any = True) -> Any:
    return np.linalg.svdvals(a)


@defines(scipy.linalg.qr)
def qr(
    a: Any, overwrite_a: Any = False, lwork: Any = None, mode: Any = "full", pivoting: Any = False, **options: Any
) -> Any:
    if pivoting or mode == "raw":
        raise MissingRule("scipy.linalg.qr with pivoting or mode='raw' cannot be staged")
    q, r = np.linalg.qr(a, "complete" if mode in ("full", "r") else "reduced")
    return (r,) if mode == "r" else (q, r)


@defines(scipy.linalg.lstsq)
def lstsq(a: Any, b: Any, cond: Any = None, **options: Any) -> Any:
    x, residuals, rank, s = np.linalg.lstsq(a, b, np.finfo(np.asarray(a).dtype).eps if cond is None else cond)
    return x, residuals, rank, s


# ---- structured matrices ---------------------------------------------------------------------------------------------


@defines(scipy.linalg.block_diag)
def block_diag(*arrs: Any) -> Any:
    blocks = [np.atleast_2d(x) for x in arrs]
    rows = sum(x.shape[0] for x in blocks)
    columns = sum(x.shape[1] for x in blocks)
    out = np.zeros((rows, columns), np.result_type(*[x.dtype for x in blocks]))
    row, column = 0, 0
    for x in blocks:
        n, m = x.shape
        out[row : row + n, column : column + m] = x
        row, column = row + n, column + m
    return out


@defines(scipy.linalg.toeplitz)
def toeplitz(c: Any, r: Any = None) -> Any:
    c = np.ravel(c)
    r = np.conj(c) if r is None else np.ravel(r)
    values = np.concatenate((c[::-1], r[1:]))
    return values[np.arange(len(c) - 1, -1, -1)[:, None] + np.arange(len(r))[None, :]]


@defines(scipy.linalg.circulant)
def circulant(c: Any) -> Any:
    c = np.ravel(c)
    n = len(c)
    return c[np.mod(np.arange(n)[:, None] - np.arange(n)[None, :], n)]


@defines(scipy.linalg.hankel)
def hankel(c: Any, r: Any = None) -> Any:
    c = np.ravel(c)
    r = np.zeros_like(c) if r is None else np.ravel(r)
    values = np.concatenate((c, r[1:]))
    return values[np.arange(len(c))[:, None] + np.arange(len(r))[None, :]]
