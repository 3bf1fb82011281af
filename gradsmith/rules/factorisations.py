"""Cholesky, eigenvalues, QR, singular values, the pseudo-inverse and least squares.

Notation: ``ᴴ`` conjugate transpose, ``ā`` the adjoint of ``a``, ``da`` its tangent, ``∘`` the elementwise product.
Formulas: Giles, "Collected matrix derivative results for forward and reverse mode AD" (2008); Walter and Lehmann,
"Algorithmic differentiation of linear algebra functions" (2018); Wan and Zhang, "Automatic differentiation for complex
valued SVD" (2019).
"""

from __future__ import annotations

from collections.abc import Sequence

from gradsmith import errors
from gradsmith.ir.builder import (
    cast,
    conj,
    const_like,
    elementwise,
    emit,
    host,
    imag,
    index,
    real,
    shape,
    where,
)
from gradsmith.ir.program import Op, Value
from gradsmith.rules.matrices import (
    Rules,
    column,
    complexified,
    diagonal,
    half_lower,
    inverse_gaps,
    lower,
    mm,
    positions,
    reads_upper,
    row,
    solve,
    times_symmetric,
    to_triangle,
)
from gradsmith.rules.structural import Adjoints, conj_, h, plus


def _cholesky(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    upper = reads_upper(op)
    factor, gl = op.result, g[0]
    assert gl is not None
    if upper:
        factor, gl = h(factor), h(gl)
    lh = h(factor)
    inner = solve(lh, half_lower(mm(lh, gl)))
    return [to_triangle(h(solve(lh, h(inner))), upper)]


def _cholesky_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    upper = reads_upper(op)
    factor = h(results[0]) if upper else results[0]
    inner = solve(factor, times_symmetric(d[0], upper))  # type: ignore[arg-type]
    dl = mm(factor, half_lower(solve(factor, h(inner))))
    return [h(dl) if upper else dl]


def _eigh(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    (w, v), (gw, gv) = op.results, g
    return [to_triangle(_eigh_adjoint(w, v, gw, gv), reads_upper(op))]


def _eigh_adjoint(w: Value, v: Value, gw: Value | None, gv: Value | None) -> Value:
    """``v (diag(w̄) + F ∘ (vᴴ v̄)) vᴴ``"""
    out = None if gw is None else mm(v * row(complexified(gw, v)), h(v))
    if gv is not None:
        turned = mm(mm(v, complexified(inverse_gaps(w), v) * mm(h(v), gv)), h(v))
        out = turned if out is None else out + turned
    assert out is not None
    return out


def _eigh_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    w, v = results
    inner = mm(mm(h(v), times_symmetric(d[0], reads_upper(op))), v)  # type: ignore[arg-type]
    return [_real(diagonal(inner)), mm(v, complexified(inverse_gaps(w), v) * inner)]


def _real(x: Value) -> Value:
    return real(x) if x.dtype.kind == "c" else x


def _eigenvectors(op: Op, a: Value, w: Value) -> tuple[Value, Value]:
    values, vectors = host("numpy.linalg.eigh", [a], [w.type, a.type], **op.attrs["kwargs"])
    return values, vectors


def _eigvalsh(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    w, v = _eigenvectors(op, op.args[0], op.result)
    return [to_triangle(_eigh_adjoint(w, v, g[0], None), reads_upper(op))]


def _eigvalsh_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    _, v = _eigenvectors(op, args[0], results[0])
    inner = mm(mm(h(v), times_symmetric(d[0], reads_upper(op))), v)  # type: ignore[arg-type]
    return [_real(diagonal(inner))]


def _copy_lower(m: Value) -> Value:
    """The lower triangle copied to the upper one, Hermitian."""
    tri = half_lower(m)
    return tri + h(tri)


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
        turned = mm(behind, h(gbehind))
        gq = turned if gq is None else gq + turned
        parts = mm(q, gbehind)
        m = mm(first, h(gfirst)) - mm(h(gq), q)
    else:
        assert gq is not None
        m = -mm(h(gq), q)
    gx = h(solve(first, h(gq + mm(q, _copy_lower(m)))))
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
    moved = h(solve(h(first), h(dx)))  # dx r⁻¹
    c = mm(h(q), moved)
    strict = lower(c, -1)
    turn = strict - h(strict)
    if a.dtype.kind == "c":
        i, j = positions(c)
        turn = turn + where(elementwise("eq", i, j), elementwise("complex", 0, imag(c)), 0)
    dq = mm(q, turn - c) + moved
    dfirst = mm(c - turn, first)
    dr = emit("concatenate", dfirst, mm(h(dq), behind) + mm(h(q), dbehind), axis=a.ndim - 1)
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
    return x * complexified(where(zero, 0, 1 / where(zero, 1, s)), x)


def _svd(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    a = op.args[0]
    gu, gs, gvh = g if len(op.results) == 3 else (None, g[0], None)
    u, s, vh = _svd_factors(op, a, op.results, vectors=gu is not None or gvh is not None)
    v, srow = h(vh), complexified(row(s), a)
    inner = None
    outside: list[Value] = []
    gaps = complexified(inverse_gaps(s * s), a) if gu is not None or gvh is not None else None
    if gs is not None:
        inner = _diagonal_matrix(complexified(gs, a))
    if gu is not None:
        j = gaps * mm(h(u), gu)  # type: ignore[operator]
        inner = plus(inner, (j + h(j)) * srow)
        outside.append(mm(_over(gu - mm(u, mm(h(u), gu)), row(s)), vh))
    if gvh is not None:
        gv = h(gvh)
        projected = mm(vh, gv)
        k = gaps * projected  # type: ignore[operator]
        inner = plus(inner, complexified(column(s), a) * (k + h(k)))
        if a.dtype.kind == "c":
            phase = diagonal(projected)
            inner = plus(inner, _diagonal_matrix(_over(0.5 * (conj(phase) - phase), s)))
        outside.append(mm(u, h(_over(gv - mm(v, projected), row(s)))))
    assert inner is not None
    out = mm(mm(u, inner), vh)
    for part in outside:
        out = out + part
    return [out]


def _diagonal_matrix(x: Value) -> Value:
    """Square matrices with the diagonals ``x``."""
    i, j = positions(row(x) * column(x))
    return where(elementwise("eq", i, j), row(x), 0)


def svd_pushforward(
    op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints, vectors: bool = True
) -> Sequence[Value | None]:
    a, da = args[0], d[0]
    assert da is not None
    vectors = vectors and len(results) == 3
    u, s, vh = _svd_factors(op, a, results, vectors)
    v = h(vh)
    p = mm(mm(h(u), da), v)
    ds = _real(diagonal(p))
    if not vectors:
        return [ds]
    srow, scol, gaps = complexified(row(s), a), complexified(column(s), a), complexified(inverse_gaps(s * s), a)
    turn_u = gaps * (p * srow + scol * h(p))
    turn_v = gaps * (scol * p + h(p) * srow)
    if a.dtype.kind == "c":
        turn_u = turn_u + _diagonal_matrix(_over(elementwise("complex", 0, imag(diagonal(p))), s))
    du = mm(u, turn_u) + _over(mm(da, v) - mm(u, p), row(s))
    dv = mm(v, turn_v) + _over(mm(h(da), u) - mm(v, h(p)), row(s))
    return [du, ds, h(dv)]


def _pinv_adjoint(a: Value, p: Value, gp: Value) -> Value:
    ph, gh = h(p), h(gp)
    left, right = mm(gh, mm(p, ph)), mm(mm(ph, p), gh)
    return left - mm(a, mm(p, left)) + right - mm(mm(right, p), a) - mm(mm(ph, gp), ph)


def _pinv_tangent(a: Value, p: Value, da: Value) -> Value:
    ph, dh = h(p), h(da)
    left, right = mm(mm(p, ph), dh), mm(dh, mm(ph, p))
    return left - mm(mm(left, a), p) + right - mm(p, mm(a, right)) - mm(mm(p, da), p)


def _pinv(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    return [_pinv_adjoint(op.args[0], op.result, g[0])]  # type: ignore[arg-type]


def _pinv_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    return [_pinv_tangent(args[0], results[0], d[0])]  # type: ignore[arg-type]


def _eig_gaps(w: Value) -> Value:
    """``F[i, j] = 1 / (w[j] - w[i])`` for complex ``w``, zero on the diagonal and for equal values."""
    gap = row(w) - column(w)
    close = elementwise("eq", gap, 0)
    return where(close, 0, 1 / where(close, 1, gap))


def _eig(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    """For eigenvectors of unit length."""
    (w, v), (gw, gv) = op.results, g
    vh = h(v)
    inner = None if gw is None else _diagonal_matrix(gw)
    if gv is not None:
        along = real(diagonal(mm(vh, gv)))
        free = gv - v * row(cast(along, v.dtype))
        inner = plus(inner, conj(_eig_gaps(w)) * mm(vh, free))
    assert inner is not None
    return [solve(vh, mm(inner, vh))]


def _eig_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    w, v = results
    inner = solve(v, mm(d[0], v))  # type: ignore[arg-type]
    dv = mm(v, _eig_gaps(w) * inner)
    along = real(diagonal(mm(h(v), dv)))
    return [diagonal(inner), dv - v * row(cast(along, v.dtype))]


LEAST_SQUARES = "gradsmith.backends.hosted.least_squares"


def _pseudo_inverse(a: Value, cutoff: Value) -> Value:
    return host("numpy.linalg.pinv", [a, cutoff], [a.type])


def _least_squares(op: Op, g: Adjoints, wanted: Sequence[bool]) -> Sequence[Value | None]:
    """Of ``a⁺ b``."""
    (a, b, cutoff), gx = op.args, g[0]
    assert gx is not None
    p = _pseudo_inverse(a, cutoff)
    gb = mm(h(p), gx)
    if not wanted[0]:
        return [None, gb]
    gp = mm(column(gx), conj_(row(b))) if b.ndim == 1 else mm(gx, h(b))
    return [_pinv_adjoint(a, p, gp), gb]


def _least_squares_push(op: Op, args: Sequence[Value], results: Sequence[Value], d: Adjoints) -> Sequence[Value | None]:
    a, b, cutoff = args
    p = _pseudo_inverse(a, cutoff)
    total = None if d[1] is None else mm(p, d[1])
    if d[0] is not None:
        total = plus(total, mm(_pinv_tangent(a, p, d[0]), b))
    return [total]


PULLBACKS: Rules = {
    "numpy.linalg.cholesky": _cholesky,
    "numpy.linalg.eigh": _eigh,
    "numpy.linalg.eigvalsh": _eigvalsh,
    "numpy.linalg.qr": _qr,
    "numpy.linalg.svd": _svd,
    "numpy.linalg.svdvals": _svd,
    "numpy.linalg.pinv": _pinv,
    "numpy.linalg.eig": _eig,
    LEAST_SQUARES: _least_squares,
}

PUSHFORWARDS: Rules = {
    "numpy.linalg.cholesky": _cholesky_push,
    "numpy.linalg.eigh": _eigh_push,
    "numpy.linalg.eigvalsh": _eigvalsh_push,
    "numpy.linalg.qr": _qr_push,
    "numpy.linalg.svd": svd_pushforward,
    "numpy.linalg.svdvals": svd_pushforward,
    "numpy.linalg.pinv": _pinv_push,
    "numpy.linalg.eig": _eig_push,
    LEAST_SQUARES: _least_squares_push,
}
