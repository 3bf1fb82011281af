"""Linear algebra, einsum, Fourier transforms and sorting against finite differences, first and second order."""

from __future__ import annotations

import numpy as np
import pytest

from gradsmith.errors import MissingRule, NotDifferentiable
from gradsmith.ir.builder import abs_, cast, conj, current, host, index, log, real, sum_, transpose
from gradsmith.ir.interpreter import run
from gradsmith.ir.program import Const, Location
from gradsmith.ir.types import ArrayType, real_dtype
from gradsmith.rules import special
from gradsmith.rules.matrices import column, mm, row
from tests.transforms.helpers import build, check_derivatives, grad_program
from tests.transforms.test_rules_structural import judge, weighted

rng = np.random.default_rng(7)
KINDS = [float, complex]
STACKS = [(), (2,)]


def random(*shape, kind=float):
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if kind is complex else x


def call(fn, *args, types=None, **kwargs):
    return host(fn, args, types or [args[0].type], **kwargs)


def r(x):
    return x.type.with_dtype(real_dtype(x.dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "stack, right",
    [((), (3,)), ((), (3, 2)), ((2,), (2, 3, 2)), ((2,), (3,)), ((), (2, 3, 1)), ((2,), (1, 3, 2))],
)
def test_solve(kind, stack, right):
    a, b = random(*stack, 3, 3, kind=kind) + 3 * np.eye(3), random(*right, kind=kind)
    ndim = a.ndim - 1 if b.ndim == 1 else max(a.ndim, b.ndim)
    judge(lambda a, b: call("numpy.linalg.solve", a, b, types=[ArrayType(a.dtype, ndim)]), a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stack", STACKS)
def test_inverse_and_determinants(kind, stack):
    a = random(*stack, 3, 3, kind=kind) + 2 * np.eye(3)
    judge(lambda a: call("numpy.linalg.inv", a), a)
    judge(lambda a: call("numpy.linalg.det", a, types=[a.type.with_ndim(a.ndim - 2)]), a)

    def slogdet(a):
        t = a.type.with_ndim(a.ndim - 2)
        sign, logdet = call("numpy.linalg.slogdet", a, types=[t, t.with_dtype(real_dtype(a.dtype))])
        return sign * cast(logdet * logdet, a.dtype)

    judge(slogdet, a)


def test_determinant_of_a_singular_matrix():
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    p = build(lambda a: call("numpy.linalg.det", a, types=[a.type.with_ndim(0)]), [a])
    check_derivatives(p, [a])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("kwargs", [{}, {"upper": True}])
def test_cholesky(kind, stack, kwargs):
    x = random(*stack, 3, 3, kind=kind)
    a = x @ np.swapaxes(x.conj(), -1, -2) + np.eye(3)
    judge(lambda a: call("numpy.linalg.cholesky", a, **kwargs), a)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(kind, stack, uplo):
    x = random(*stack, 3, 3, kind=kind)
    a = x + np.swapaxes(x.conj(), -1, -2) + np.diag([0, 3, 7])

    def eigh(a):
        w, v = call("numpy.linalg.eigh", a, types=[r(a).with_ndim(a.ndim - 1), a.type], UPLO=uplo)
        if kind is float:
            return v * row(w)
        return real(v * conj(v)) * row(w)  # does not depend on the phases

    judge(eigh, a, tol=1e-5)
    judge(lambda a: call("numpy.linalg.eigvalsh", a, types=[r(a).with_ndim(a.ndim - 1)], UPLO=uplo), a)


def test_repeated_eigenvalues():
    a = np.diag([1.0, 1.0, 2.0])

    def trace_of_square(a):
        w, v = call("numpy.linalg.eigh", a, types=[a.type.with_ndim(1), a.type])
        m = mm(v * row(w), transpose(v, [1, 0]))
        return sum_(m * m, [0, 1]) + sum_(w * w * w, [0])

    check_derivatives(build(trace_of_square, [a]), [a])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4), (2, 4, 3)])
def test_qr(kind, shape):
    a = random(*shape, kind=kind)

    def qr(a):
        q, r = call("numpy.linalg.qr", a, types=[a.type, a.type])
        return mm(q * q, r * r)

    judge(qr, a, tol=1e-5)
    judge(lambda a: call("numpy.linalg.qr", a, mode="r"), a, tol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4), (2, 4, 3)])
def test_svd(kind, shape):
    a = random(*shape, kind=kind)

    def left(a):
        u, s, vh = call("numpy.linalg.svd", a, types=[a.type, r(a).with_ndim(a.ndim - 1), a.type], full_matrices=False)
        return real(u * conj(u)) * row(s)

    def right(a):
        u, s, vh = call("numpy.linalg.svd", a, types=[a.type, r(a).with_ndim(a.ndim - 1), a.type], full_matrices=False)
        return real(vh * conj(vh)) * column(s)

    def both(a):  # a function of the matrix: does not depend on the phases
        u, s, vh = call("numpy.linalg.svd", a, types=[a.type, r(a).with_ndim(a.ndim - 1), a.type], full_matrices=False)
        return mm(u * row(cast(s * s * s, a.dtype)), vh)

    for f in (left, right, both):
        judge(f, a, tol=1e-5)
    judge(lambda a: call("numpy.linalg.svd", a, types=[r(a).with_ndim(a.ndim - 1)], compute_uv=False), a, tol=1e-5)


def test_full_svd_of_a_rectangular_matrix():
    a = random(4, 3)

    def values(a):
        return call("numpy.linalg.svd", a, types=[a.type, a.type.with_ndim(1), a.type])

    check_derivatives(build(lambda a: sum_(values(a)[1] * values(a)[1], [0]), [a]), [a])
    with pytest.raises(NotDifferentiable, match="full_matrices"):
        run(grad_program(build(lambda a: sum_(values(a)[0], [0, 1]), [a])), [a])


@pytest.mark.parametrize("kind", KINDS)
def test_pinv_and_expm(kind):
    judge(lambda a: call("numpy.linalg.pinv", a), random(4, 3, kind=kind), tol=1e-5)
    judge(lambda a: call("scipy.linalg.expm", a), random(3, 3, kind=kind), tol=1e-5)


def test_eig():
    a = random(3, 3)

    def eig(a):
        z = cast(a, complex)
        w, v = call("numpy.linalg.eig", z, types=[z.type.with_ndim(1), z.type])
        return real(v * conj(v)) * row(real(w * conj(w)))

    judge(eig, a, tol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_least_squares(kind):
    for b in (random(4, kind=kind), random(4, 2, kind=kind)):
        for shape in ((4, 3), (4, 5)):

            def solution(a, b):
                return call("gradsmith.backends.hosted.least_squares", a, b, Const(1e-15), types=[b.type])

            judge(solution, random(*shape, kind=kind), b, tol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_convolution_and_exact_sum(kind):
    for n, m in ((4, 3), (2, 5)):
        judge(lambda x, y: call("numpy.convolve", x, y), random(n, kind=kind), random(m, kind=kind))
    judge(lambda x: call("gradsmith.backends.hosted.fsum", x * x, types=[ArrayType(np.dtype(float))]), random(3))


@pytest.mark.parametrize("name", sorted(special.PARTIALS))
def test_special_functions(name):
    arity = len(special.PARTIALS[name])
    x = rng.uniform(0.2, 0.8, size=(2, 3))
    fixed = [c for c, p in zip((2.0, 1.5, 2.5), special.PARTIALS[name], strict=False) if p is None]
    args = [x] if fixed or arity == 1 else [x, rng.uniform(0.5, 2, size=3)]
    judge(lambda *x: special.special(name, *fixed, *x), *args, tol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("lower", [False, True])
def test_solve_triangular(kind, trans, lower):
    a = random(3, 3, kind=kind) + 3 * np.eye(3)
    for unit in (False, True):
        kwargs = {"trans": trans, "lower": lower, "unit_diagonal": unit}
        for b in (random(3, kind=kind), random(3, 2, kind=kind)):
            judge(lambda a, b, k=kwargs: call("scipy.linalg.solve_triangular", a, b, types=[b.type], **k), a, b)


EINSUMS = ["ij,jk->ik", "ij,jk", "ij,ij->", "ij,kl->il", "ij,jk->", "ii->i", "ii"]
EINSUMS += ["ij->ji", "ijj->i", "...i,ij->...j", "ij,jk,kl->il"]


@pytest.mark.parametrize("subscripts", EINSUMS)
@pytest.mark.parametrize("kind", KINDS)
def test_einsum(subscripts, kind):
    terms = subscripts.split("->")[0].split(",")
    shapes = [(2, 3, 3) if t == "...i" else (3,) * len(t) for t in terms]
    args = [random(*s, kind=kind) for s in shapes]
    ndim = np.einsum(subscripts, *args).ndim
    judge(lambda *a: call("numpy.einsum", *a, types=[ArrayType(a[0].dtype, ndim)], subscripts=subscripts), *args)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_fourier(norm):
    for name in ("fft", "ifft"):
        judge(lambda z, n=name: call(f"numpy.fft.{n}", z, norm=norm), random(2, 5, kind=complex))
        judge(lambda z, n=name: call(f"numpy.fft.{n}", z, norm=norm, n=3, axis=0), random(5, 2, kind=complex))
        judge(lambda z, n=name: call(f"numpy.fft.{n}", z, norm=norm, n=7), random(2, 5, kind=complex))
    for name in ("fft2", "ifftn"):
        judge(lambda z, n=name: call(f"numpy.fft.{n}", z, norm=norm), random(2, 3, 4, kind=complex))
    c, f = ArrayType(np.dtype(complex), 2), ArrayType(np.dtype(float), 2)
    for n in (5, 6):
        judge(lambda x: call("numpy.fft.rfft", x, types=[c], norm=norm), random(2, n))
        judge(lambda x: call("numpy.fft.rfft", x, types=[c], norm=norm, n=4, axis=0), random(n, 2))
        judge(lambda z, n=n: call("numpy.fft.irfft", z, types=[f], norm=norm, n=n), random(2, n // 2 + 1, kind=complex))
        judge(lambda z, n=n: call("numpy.fft.irfft", z, types=[f], norm=norm, n=n), random(2, 6, kind=complex))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort(axis):
    judge(lambda x: call("numpy.sort", x, axis=axis), random(4, 3))


def test_sorted_ties_share():
    x = np.array([3.0, 1.0, 3.0, 2.0])
    p = build(lambda x: index(call("numpy.sort", x), ["i"], [-1]), [x])
    np.testing.assert_array_equal(run(grad_program(p), [x])[0], [0.5, 0, 0.5, 0])


def test_a_missing_rule_names_function_and_place():
    def f(x):
        current().loc = Location("model.py", 12, "loss")
        return call("numpy.unwrap", x)

    with pytest.raises(MissingRule, match=r"numpy\.unwrap.*model\.py:12"):
        grad_program(build(lambda x: weighted(f(x)), [random(3)]))


def test_gradient_of_log_determinant():
    a = random(3, 3) @ np.eye(3) + 4 * np.eye(3)
    p = build(lambda a: log(abs_(call("numpy.linalg.det", a, types=[a.type.with_ndim(0)]))), [a])
    np.testing.assert_allclose(run(grad_program(p), [a])[0], np.linalg.inv(a).T, rtol=1e-10)
