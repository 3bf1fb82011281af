"""Pullbacks and pushforwards of ``host`` operations: linear algebra, Fourier transforms, einsum, sort.

Keyed by the dotted name of the host function. Matrices are in the last two axes, axes before them are stacks. Notation:
``ᴴ`` conjugate transpose, ``ā`` the adjoint of ``a``, ``da`` its tangent, ``∘`` the elementwise product. The formulas are
those of Giles, "Collected matrix derivative results for forward and reverse mode AD" (2008), of Walter and Lehmann,
"Algorithmic differentiation of linear algebra functions" (2018), and of Wan and Zhang, "Automatic differentiation for
complex valued SVD" (2019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradsmith import errors
from gradsmith.ir.builder import (
    abs_,
    broadcast_to,
    cast,
    conj,
    const_like,
    elementwise,
    emit,
    host,
    i64,
    imag,
    index,
    real,
    reduce,
    shape,
    sum_,
    transpose,
    unbroadcast,
    where,
)
from gradsmith.ir.program import Const, Op, Value
from gradsmith.ir.types import ArrayType, real_dtype
from gradsmith.rules import einsum, fft
from gradsmith.rules.structural import Adjoints, Pullback, Pushforward, _h, conj_

Rules: TypeAlias = dict[str, Callable[..., Any]]


def pullback(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Any]:
    """One contribution per operand of a ``host`` operation."""
    return _rule(PULLBACKS, op)(op, g, wanted)


def pushforward(
    op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints, used: Sequence[bool]
) -> Sequence[Value | None]:
    """One tangent per result of a ``host`` operation; ``used`` says which results matter."""
    if op.attrs["fn"] == "numpy.linalg.svd" and len(used) == 3 and not (used[0] or used[2]):
        return [None, *_svd_push(op, args, results, d, vectors=False), None]
    return _rule(PUSHFORWARDS, op)(op, args, results, d)


def _rule(rules: Rules, op: Op) -> Callable[..., Any]:
    name = op.attrs["fn"]
    if name not in rules:
        raise errors.MissingRule(
            f"no derivative is known for {name} ({op.loc}): give it a rule, or keep the derivative away with stop_gradient"
        )
    return rules[name]


# Building blocks ------------------------------------------------------------------------------------------------------


def mm(x: Value, y: Value) -> Value:
    return emit("matmul", x, y)


def t(x: Value) -> Value:
    """The transpose of the last two axes."""
    return transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def column(x: Value) -> Value:
    """``x[..., :, None]``"""
    return index(x, [":"] * x.ndim + ["n"])


def row(x: Value) -> Value:
    """``x[..., None, :]``"""
    return index(x, [":"] * (x.ndim - 1) + ["n", ":"])


def matrixwise(x: Value) -> Value:
    """``x[..., None, None]``: one number for each matrix of a stack."""
    return index(x, [":"] * x.ndim + ["n", "n"]) if x.ndim else x


def solve(a: Value, b: Value) -> Value:
    return host("numpy.linalg.solve", [a, b], [ArrayType(a.dtype, max(a.ndim, b.ndim))])


def inverse(a: Value) -> Value:
    return host("numpy.linalg.inv", [a], [a.type])


def _positions(x: Value) -> tuple[Value, Value]:
    """Row and column numbers of the matrices of ``x``, to be broadcast against each other."""
    n, m = shape(x)[-2:]
    return column(emit("iota", n, dtype=n.dtype)), row(emit("iota", m, dtype=m.dtype))


def lower(x: Value, k: int = 0) -> Value:
    """``numpy.tril(x, k)``"""
    i, j = _positions(x)
    return where(j <= (i + k), x, 0)


def half_lower(x: Value) -> Value:
    """The lower triangle with the diagonal halved."""
    i, j = _positions(x)
    return where(j < i, x, where(elementwise("eq", i, j), 0.5 * x, 0))


def diagonal(x: Value) -> Value:
    """The diagonals of square matrices."""
    n = emit("dim", x, axis=x.ndim - 1)
    i = emit("iota", n, dtype=n.dtype)
    return index(x, [":"] * (x.ndim - 2) + ["a", "a"], [i, i])


def _times_symmetric(x: Value, upper: bool) -> Value:
    """The tangent of a matrix of which one triangle is read, made Hermitian."""
    tri = half_lower(t(x) if upper else x)
    full = tri + _h(tri)
    return t(full) if upper else full


def _to_triangle(g: Value, upper: bool) -> Value:
    """The transpose of :func:`_times_symmetric`."""
    both = half_lower(g + _h(g))
    return _h(both) if upper else both


def _reads_upper(op: Op) -> bool:
    kwargs = op.attrs["kwargs"]
    return bool(kwargs.get("upper")) or str(kwargs.get("UPLO", "L")).upper() == "U"


def _gaps(w: Value) -> Value:
    """``F[i, j] = 1 / (w[j] - w[i])``, zero where the two are equal up to rounding."""
    gap = row(w) - column(w)
    scale = reduce("max", abs_(w), [w.ndim - 1], keepdims=True)
    close = abs_(gap) <= 8 * float(np.finfo(w.dtype).eps) * row(scale)
    return where(close, 0, 1 / where(close, 1, gap))


def _complexified(x: Value, like: Value) -> Value:
    return cast(x, like.dtype)


# Solving, inverse, determinant ----------------------------------------------------------------------------------------


def _solve(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (a, b), z, gz = op.args, op.result, g[0]
    assert gz is not None
    vector = b.ndim == 1
    if vector:
        gz, z = column(gz), column(z)
    gb = solve(_h(a), gz)
    ga = -unbroadcast(mm(gb, _h(z)), a) if wanted[0] else None
    if vector:
        gb = index(gb, [":"] * (gb.ndim - 1) + ["i"], [0])
    return [ga, unbroadcast(gb, b) if gb.ndim > b.ndim or b.ndim > 2 else gb]


def _solve_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    (a, b), z = args, results[0]
    vector = b.ndim == 1
    right = None if d[1] is None else column(d[1]) if vector else d[1]
    if d[0] is not None:
        moved = mm(d[0], column(z) if vector else z)
        right = -moved if right is None else right - moved
    assert right is not None
    dz = solve(a, right)
    return [index(dz, [":"] * (dz.ndim - 1) + ["i"], [0]) if vector else broadcast_to(dz, shape(z))]


def _inv(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    zh = _h(op.result)
    return [-mm(mm(zh, g[0]), zh)]  # type: ignore[arg-type]


def _inv_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    return [-mm(mm(results[0], d[0]), results[0])]  # type: ignore[arg-type]


COFACTORS = "gradsmith.backends.hosted.cofactors"


def _cofactors(a: Value) -> Value:
    """``det(a) a⁻ᵀ``, finite for singular matrices too."""
    return host(COFACTORS, [a], [a.type])


def _det(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    return [matrixwise(g[0]) * conj_(_cofactors(op.args[0]))]  # type: ignore[arg-type]


def _det_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a = args[0]
    return [sum_(_cofactors(a) * d[0], [a.ndim - 2, a.ndim - 1])]


def _cofactors_pull(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a, c, gc = op.args[0], op.result, g[0]
    w = conj_(t(inverse(a)))
    c = conj_(c)
    return [matrixwise(sum_(gc * c, [a.ndim - 2, a.ndim - 1])) * w - mm(mm(w, t(gc)), c)]  # type: ignore[operator,arg-type]


def _cofactors_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a, c, da = args[0], results[0], d[0]
    assert da is not None
    w = t(inverse(a))
    return [matrixwise(sum_(w * da, [a.ndim - 2, a.ndim - 1])) * c - mm(mm(c, t(da)), w)]


def _slogdet(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a, (sign, _), (gsign, glog) = op.args[0], op.results, g
    total = None if glog is None else _complexified(glog, a)
    if gsign is not None and a.dtype.kind == "c":
        turn = elementwise("complex", 0, -imag(conj(gsign) * sign))
        total = turn if total is None else total + turn
    return [None if total is None else matrixwise(total) * _h(inverse(a))]


def _slogdet_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a, sign = args[0], results[0]
    trace = sum_(t(inverse(a)) * d[0], [a.ndim - 2, a.ndim - 1])
    if a.dtype.kind != "c":
        return [None, trace]
    return [sign * elementwise("complex", 0, imag(trace)), real(trace)]


# Factorisations -------------------------------------------------------------------------------------------------------


def _cholesky(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    upper = _reads_upper(op)
    factor, gl = op.result, g[0]
    assert gl is not None
    if upper:
        factor, gl = _h(factor), _h(gl)
    lh = _h(factor)
    inner = solve(lh, half_lower(mm(lh, gl)))
    return [_to_triangle(_h(solve(lh, _h(inner))), upper)]


def _cholesky_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    upper = _reads_upper(op)
    factor = _h(results[0]) if upper else results[0]
    inner = solve(factor, _times_symmetric(d[0], upper))  # type: ignore[arg-type]
    dl = mm(factor, half_lower(solve(factor, _h(inner))))
    return [_h(dl) if upper else dl]


def _eigh(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (w, v), (gw, gv) = op.results, g
    return [_to_triangle(_eigh_adjoint(w, v, gw, gv), _reads_upper(op))]


def _eigh_adjoint(w: Value, v: Value, gw: Value | None, gv: Value | None) -> Value:
    """``v (diag(w̄) + F ∘ (vᴴ v̄)) vᴴ``"""
    out = None if gw is None else mm(v * row(_complexified(gw, v)), _h(v))
    if gv is not None:
        turned = mm(mm(v, _complexified(_gaps(w), v) * mm(_h(v), gv)), _h(v))
        out = turned if out is None else out + turned
    assert out is not None
    return out


def _eigh_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    w, v = results
    inner = mm(mm(_h(v), _times_symmetric(d[0], _reads_upper(op))), v)  # type: ignore[arg-type]
    return [_real(diagonal(inner)), mm(v, _complexified(_gaps(w), v) * inner)]


def _real(x: Value) -> Value:
    return real(x) if x.dtype.kind == "c" else x


def _eigenvectors(op: Op, a: Value, w: Value) -> tuple[Value, Value]:
    values, vectors = host("numpy.linalg.eigh", [a], [w.type, a.type], **op.attrs["kwargs"])
    return values, vectors


def _eigvalsh(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    w, v = _eigenvectors(op, op.args[0], op.result)
    return [_to_triangle(_eigh_adjoint(w, v, g[0], None), _reads_upper(op))]


def _eigvalsh_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    _, v = _eigenvectors(op, args[0], results[0])
    inner = mm(mm(_h(v), _times_symmetric(d[0], _reads_upper(op))), v)  # type: ignore[arg-type]
    return [_real(diagonal(inner))]


def _copy_lower(m: Value) -> Value:
    """The lower triangle copied to the upper one, Hermitian."""
    tri = half_lower(m)
    return tri + _h(tri)


def _split(op: Op, a: Value, q: Value, r: Value) -> tuple[Value, Value, Value]:
    """The first k columns of R, and the columns of A and R behind them, for k columns of Q."""
    k = emit("dim", q, axis=q.ndim - 1)
    lead = [":"] * (a.ndim - 1)
    behind, first = ("s", True, False, False), ("s", False, True, False)
    return index(r, [*lead, first], [k]), index(a, [*lead, behind], [k]), index(r, [*lead, behind], [k])


def _qr_factors(op: Op, a: Value, results: Sequence[Value]) -> tuple[Value, Value]:
    """Q and R, also where only R has been asked for."""
    mode = op.attrs["kwargs"].get("mode", "reduced")
    if mode == "r":
        q, r = host("numpy.linalg.qr", [a], [a.type, a.type])
        return q, r
    if mode == "complete":
        square = elementwise("eq", *shape(a)[-2:])
        message = "qr with mode='complete' has a derivative for square matrices only"
        emit("check", square, error=errors.NotDifferentiable, message=message)
    elif mode != "reduced":
        raise errors.MissingRule(f"no derivative is known for numpy.linalg.qr with mode={mode!r} ({op.loc})")
    return results[0], results[1]


def _qr(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a = op.args[0]
    q, r = _qr_factors(op, a, op.results)
    gq, gr = g if len(op.results) == 2 else (None, g[0])
    first, behind, _ = _split(op, a, q, r)
    parts = None
    if gr is not None:
        gfirst, _, gbehind = _split(op, gr, q, gr)
        turned = mm(behind, _h(gbehind))
        gq = turned if gq is None else gq + turned
        parts = mm(q, gbehind)
        m = mm(first, _h(gfirst)) - mm(_h(gq), q)
    else:
        assert gq is not None
        m = -mm(_h(gq), q)
    gx = _h(solve(first, _h(gq + mm(q, _copy_lower(m)))))
    if parts is None:
        parts = behind * const_like(0, behind)
    return [emit("concatenate", gx, parts, axis=a.ndim - 1)]


def _qr_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a, da = args[0], d[0]
    assert da is not None
    q, r = _qr_factors(op, a, results)
    first, behind, _ = _split(op, a, q, r)
    k = emit("dim", q, axis=q.ndim - 1)
    lead = [":"] * (a.ndim - 1)
    dx = index(da, [*lead, ("s", False, True, False)], [k])
    dbehind = index(da, [*lead, ("s", True, False, False)], [k])
    moved = _h(solve(_h(first), _h(dx)))  # dx r⁻¹
    c = mm(_h(q), moved)
    strict = lower(c, -1)
    turn = strict - _h(strict)
    if a.dtype.kind == "c":
        i, j = _positions(c)
        turn = turn + where(elementwise("eq", i, j), elementwise("complex", 0, imag(c)), 0)
    dq = mm(q, turn - c) + moved
    dfirst = mm(c - turn, first)
    dr = emit("concatenate", dfirst, mm(_h(dq), behind) + mm(_h(q), dbehind), axis=a.ndim - 1)
    return [dq, dr] if len(results) == 2 else [dr]


def _svd_factors(op: Op, a: Value, results: Sequence[Value], vectors: bool) -> tuple[Value, Value, Value]:
    """The thin factors U, s, Vᴴ; ``vectors``: the adjoints of U and V are asked for."""
    kwargs = op.attrs["kwargs"]
    if len(results) == 1:
        u, s, vh = host("numpy.linalg.svd", [a], [a.type, results[0].type, a.type], full_matrices=False)
        return u, s, vh
    u, s, vh = results
    if kwargs.get("full_matrices", True):
        if vectors:
            message = "svd with full_matrices=True has derivatives of U and Vh for square matrices only"
            emit("check", elementwise("eq", *shape(a)[-2:]), error=errors.NotDifferentiable, message=message)
        k = emit("dim", s, axis=s.ndim - 1)
        lead, first = [":"] * (a.ndim - 2), ("s", False, True, False)
        u, vh = index(u, [*lead, ":", first], [k]), index(vh, [*lead, first, ":"], [k])
    return u, s, vh


def _over(x: Value, s: Value) -> Value:
    """``x / s``, zero where ``s`` is."""
    zero = elementwise("eq", s, 0)
    return x * _complexified(where(zero, 0, 1 / where(zero, 1, s)), x)


def _svd(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a = op.args[0]
    gu, gs, gvh = g if len(op.results) == 3 else (None, g[0], None)
    u, s, vh = _svd_factors(op, a, op.results, vectors=gu is not None or gvh is not None)
    v, srow = _h(vh), _complexified(row(s), a)
    inner = None
    outside: list[Value] = []
    gaps = _complexified(_gaps(s * s), a) if gu is not None or gvh is not None else None
    if gs is not None:
        inner = _diagonal_matrix(_complexified(gs, a))
    if gu is not None:
        j = gaps * mm(_h(u), gu)  # type: ignore[operator]
        inner = _sum(inner, (j + _h(j)) * srow)
        outside.append(mm(_over(gu - mm(u, mm(_h(u), gu)), row(s)), vh))
    if gvh is not None:
        gv = _h(gvh)
        projected = mm(vh, gv)
        k = gaps * projected  # type: ignore[operator]
        inner = _sum(inner, _complexified(column(s), a) * (k + _h(k)))
        if a.dtype.kind == "c":
            phase = diagonal(projected)
            inner = _sum(inner, _diagonal_matrix(_over(0.5 * (conj(phase) - phase), s)))
        outside.append(mm(u, _h(_over(gv - mm(v, projected), row(s)))))
    assert inner is not None
    out = mm(mm(u, inner), vh)
    for part in outside:
        out = out + part
    return [out]


def _sum(x: Value | None, y: Value) -> Value:
    return y if x is None else x + y


def _diagonal_matrix(x: Value) -> Value:
    """Square matrices with the diagonals ``x``."""
    i, j = _positions(row(x) * column(x))
    return where(elementwise("eq", i, j), row(x), 0)


def _svd_push(
    op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints, vectors: bool = True
) -> Sequence[Value | None]:
    a, da = args[0], d[0]
    assert da is not None
    vectors = vectors and len(results) == 3
    u, s, vh = _svd_factors(op, a, results, vectors)
    v = _h(vh)
    p = mm(mm(_h(u), da), v)
    ds = _real(diagonal(p))
    if not vectors:
        return [ds]
    srow, scol, gaps = _complexified(row(s), a), _complexified(column(s), a), _complexified(_gaps(s * s), a)
    turn_u = gaps * (p * srow + scol * _h(p))
    turn_v = gaps * (scol * p + _h(p) * srow)
    if a.dtype.kind == "c":
        turn_u = turn_u + _diagonal_matrix(_over(elementwise("complex", 0, imag(diagonal(p))), s))
    du = mm(u, turn_u) + _over(mm(da, v) - mm(u, p), row(s))
    dv = mm(v, turn_v) + _over(mm(_h(da), u) - mm(v, _h(p)), row(s))
    return [du, ds, _h(dv)]


def _pinv(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a, p, gp = op.args[0], op.result, g[0]
    assert gp is not None
    ph, gh = _h(p), _h(gp)
    left, right = mm(gh, mm(p, ph)), mm(mm(ph, p), gh)
    out = left - mm(a, mm(p, left)) + right - mm(mm(right, p), a) - mm(mm(ph, gp), ph)
    return [out, *[None] * (len(op.args) - 1)]


def _pinv_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a, p, da = args[0], results[0], d[0]
    assert da is not None
    ph, dh = _h(p), _h(da)
    left, right = mm(mm(p, ph), dh), mm(dh, mm(ph, p))
    return [left - mm(mm(left, a), p) + right - mm(p, mm(a, right)) - mm(mm(p, da), p)]


def _expm(op: Op, a: Value, direction: Value) -> Value:
    """The derivative of the matrix exponential at ``a`` in a direction: a block of the exponential of a block matrix."""
    zero = direction * const_like(0, direction)
    axis = a.ndim - 1
    top = emit("concatenate", a, direction, axis=axis)
    blocks = emit("concatenate", top, emit("concatenate", zero, a, axis=axis), axis=axis - 1)
    n = emit("dim", a, axis=axis)
    until, behind = ("s", False, True, False), ("s", True, False, False)
    return index(host("scipy.linalg.expm", [blocks], [a.type]), [*":" * (axis - 1), until, behind], [n, n])


# Triangular systems ---------------------------------------------------------------------------------------------------

_TRANS = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}


def _triangle(x: Value, kwargs: dict[str, Any]) -> Value:
    """The entries that ``solve_triangular`` reads."""
    k = -1 if kwargs.get("unit_diagonal") else 0
    return lower(x, k) if kwargs.get("lower") else t(lower(t(x), k))


def _operated(x: Value, trans: int) -> Value:
    return x if trans == 0 else t(x) if trans == 1 else _h(x)


def _solve_triangular(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (a, b), z, kwargs, gz = op.args, op.result, op.attrs["kwargs"], g[0]
    assert gz is not None
    trans = _TRANS[kwargs.get("trans", 0)]
    # the adjoint system has the matrix op(a)ᴴ
    matrix, adjoint = {0: (a, 2), 1: (conj_(a), 0), 2: (a, 0)}[trans]
    gb = host("scipy.linalg.solve_triangular", [matrix, gz], [gz.type], **{**kwargs, "trans": adjoint})
    if not wanted[0]:
        return [None, gb]
    outer = -mm(column(gb), conj_(row(z))) if b.ndim == 1 else -mm(gb, _h(z))
    return [_triangle(_operated(outer, trans), kwargs), gb]


def _solve_triangular_push(
    op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints
) -> Sequence[Value | None]:
    a, z, kwargs = args[0], results[0], op.attrs["kwargs"]
    right = d[1]
    if d[0] is not None:
        moved = mm(_operated(_triangle(d[0], kwargs), _TRANS[kwargs.get("trans", 0)]), z)
        right = -moved if right is None else right - moved
    return [host("scipy.linalg.solve_triangular", [a, right], [z.type], **kwargs)]  # type: ignore[list-item]


# Sorting --------------------------------------------------------------------------------------------------------------

SORTED_LIKE, UNSORTED_LIKE = "gradsmith.backends.hosted.sorted_like", "gradsmith.backends.hosted.unsorted_like"


def _order_by(fn: str, key: Value, x: Value, axis: int) -> Value:
    return host(fn, [key, x], [x.type], axis=axis)


def _sort(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    return [_order_by(UNSORTED_LIKE, op.args[0], g[0], op.attrs["kwargs"].get("axis", -1))]  # type: ignore[arg-type]


def _sort_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    return [_order_by(SORTED_LIKE, args[0], d[0], op.attrs["kwargs"].get("axis", -1))]  # type: ignore[arg-type]


def _moves(inverse_fn: str) -> tuple[Pullback, Pushforward]:
    """Rules of a permutation of the second operand that the first one gives (and that ties average)."""

    def pull(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
        return [None, _order_by(inverse_fn, op.args[0], g[0], op.attrs["kwargs"]["axis"])]  # type: ignore[arg-type]

    def push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
        return [None if d[1] is None else _order_by(op.attrs["fn"], args[0], d[1], op.attrs["kwargs"]["axis"])]

    return pull, push


PULLBACKS: Rules = {
    "numpy.linalg.solve": _solve,
    "numpy.linalg.inv": _inv,
    "numpy.linalg.det": _det,
    COFACTORS: _cofactors_pull,
    "numpy.linalg.slogdet": _slogdet,
    "numpy.linalg.cholesky": _cholesky,
    "numpy.linalg.eigh": _eigh,
    "numpy.linalg.eigvalsh": _eigvalsh,
    "numpy.linalg.qr": _qr,
    "numpy.linalg.svd": _svd,
    "numpy.linalg.svdvals": _svd,
    "numpy.linalg.pinv": _pinv,
    "scipy.linalg.expm": lambda op, g, wanted: [_expm(op, _h(op.args[0]), g[0])],
    "scipy.linalg.solve_triangular": _solve_triangular,
    "numpy.sort": _sort,
    SORTED_LIKE: _moves(UNSORTED_LIKE)[0],
    UNSORTED_LIKE: _moves(SORTED_LIKE)[0],
    **einsum.PULLBACKS,
    **fft.PULLBACKS,
}

PUSHFORWARDS: Rules = {
    "numpy.linalg.solve": _solve_push,
    "numpy.linalg.inv": _inv_push,
    "numpy.linalg.det": _det_push,
    COFACTORS: _cofactors_push,
    "numpy.linalg.slogdet": _slogdet_push,
    "numpy.linalg.cholesky": _cholesky_push,
    "numpy.linalg.eigh": _eigh_push,
    "numpy.linalg.eigvalsh": _eigvalsh_push,
    "numpy.linalg.qr": _qr_push,
    "numpy.linalg.svd": _svd_push,
    "numpy.linalg.svdvals": _svd_push,
    "numpy.linalg.pinv": _pinv_push,
    "scipy.linalg.expm": lambda op, args, results, d: [_expm(op, args[0], d[0])],
    "scipy.linalg.solve_triangular": _solve_triangular_push,
    "numpy.sort": _sort_push,
    SORTED_LIKE: _moves(UNSORTED_LIKE)[1],
    UNSORTED_LIKE: _moves(SORTED_LIKE)[1],
    **einsum.PUSHFORWARDS,
    **fft.PUSHFORWARDS,
}
