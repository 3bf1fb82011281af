"""Every elementwise operation's derivative against finite differences and the complex step, and at singular points."""

from __future__ import annotations

import numpy as np
import pytest

from gradsmith.ir.builder import cast, elementwise, real, reshape, sum_
from gradsmith.ir.interpreter import run
from gradsmith.ir.ops import ELEMENTWISE
from gradsmith.rules.elementwise import PARTIALS, REAL_LINEAR
from tests.transforms.helpers import build, check_derivatives, count, grad_program, jvp_program

INTEGER = {"and", "or", "xor", "shl", "shr", "not"}
BOOLEAN = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "signbit"}
STEPS = {"floor", "ceil", "trunc", "rint", "sign", "floordiv"}
DOMAIN = {  # intervals where the function is smooth, away from its singular points
    **dict.fromkeys(["sqrt", "log", "log2", "log10", "gamma", "gammaln", "digamma", "cbrt"], (0.3, 3)),
    **dict.fromkeys(["arcsin", "arccos", "arctanh"], (-0.9, 0.9)),
    "log1p": (-0.7, 2),
    "arccosh": (1.2, 3),
}
OTHERS = INTEGER | BOOLEAN | {"cast", "conj", "imag", "detach"}
UNARY = sorted(name for name, (arity, _) in ELEMENTWISE.items() if arity == 1 and name not in OTHERS)
BINARY = ["add", "sub", "mul", "div", "pow", "mod", "fmod", "maximum", "minimum", "fmax", "fmin", "copysign"]
BINARY += ["arctan2", "hypot", "logaddexp", "strong_mul", "floordiv", "nextafter"]
HOLOMORPHIC = ["neg", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin"]
HOLOMORPHIC += ["arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"]
rng = np.random.default_rng(3)


def test_every_elementwise_operation_has_a_derivative_or_a_declared_zero():
    assert set(ELEMENTWISE) == set(PARTIALS) | set(REAL_LINEAR) | {"complex"}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    x = rng.uniform(*DOMAIN.get(name, (-2, 2)), size=4)
    p = build(lambda x: sum_(elementwise(name, x) * elementwise(name, x), [0]), [x])
    check_derivatives(p, [x], second=True)
    if name in STEPS:
        assert not np.any(run(grad_program(p), [x]))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((), (3,)), ((2, 1), (3,))])
def test_binary(name, shapes):
    x, y = (np.asarray(rng.uniform(0.3, 2.5, size=s))[()] for s in shapes)
    if name in ("floordiv", "mod", "fmod"):
        y = y + 0.01

    def f(x, y):
        z = elementwise(name, x, y)
        return sum_(z * z, range(z.ndim))

    check_derivatives(build(f, [x, y]), [x, y], tol=2e-6, second=True)


def test_where_and_polygamma():
    c, x, y = np.array([True, False, True]), rng.normal(size=3), rng.normal(size=(2, 3))

    def f(c, x, y):
        z = elementwise("where", c, x * x, y)
        return sum_(z * z, [0, 1])

    check_derivatives(build(f, [c, x, y]), [c, x, y], second=True)
    n, x = np.array([0.0, 1.0, 2.0]), rng.uniform(1, 3, size=3)
    p = build(lambda n, x: sum_(elementwise("polygamma", n, x), [0]), [n, x])
    from scipy.special import polygamma

    np.testing.assert_allclose(run(grad_program(p, wrt=[1]), [n, x])[0], polygamma(n + 1, x))


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_holomorphic(name):
    z = rng.uniform(0.2, 0.8, size=3) + 1j * rng.uniform(0.2, 0.8, size=3)

    def f(z):
        w = elementwise(name, z)
        return sum_(real(w * w * (1 + 2j)), [0])

    check_derivatives(build(f, [z]), [z], second=True)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_complex_arithmetic(name):
    z, w = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in [(2, 1), (3,)])

    def f(z, w):
        v = elementwise(name, z, w)
        return sum_(real(v * v * (1 - 1j)), [0, 1])

    check_derivatives(build(f, [z, w]), [z, w], second=True)


def test_complex_parts():
    z, x = rng.normal(size=3) + 1j * rng.normal(size=3), rng.normal(size=3)

    def f(z, x):
        a = elementwise("abs", z) * elementwise("real", z)
        a = a + elementwise("imag", z * elementwise("conj", cast(x, complex)))
        b = elementwise("complex", x, a) * elementwise("sign", z)
        c = cast(x * a, complex) + cast(cast(b, float), complex) * b
        return sum_(elementwise("abs", b + c) + elementwise("imag", c), [0])

    check_derivatives(build(f, [z, x]), [z, x], second=True)


def test_gradient_of_a_real_function_of_a_complex_number_is_the_direction_of_steepest_ascent():
    z = np.complex128(1.5 - 0.5j)
    p = build(lambda z: real(z * elementwise("conj", z)), [z])
    np.testing.assert_allclose(run(grad_program(p), [z])[0], 2 * z)


def gradient(f, *args):
    args = [np.asarray(a)[()] for a in args]
    p = build(f, args)
    g = run(grad_program(p), args)
    for k in range(len(g)):  # forward mode agrees at singular points too
        if np.ndim(args[k]) == 0:
            seeds = [np.asarray(float(j == k), a.dtype)[()] for j, a in enumerate(map(np.asarray, args))]
            np.testing.assert_array_equal(run(jvp_program(p), [*args, *seeds])[0], g[k])
    return [np.asarray(a).tolist() for a in g]


def op(name):
    return lambda *args: elementwise(name, *args)


def test_points_without_a_derivative():
    assert gradient(op("abs"), 0.0) == [0]
    assert gradient(op("sign"), 0.0) == [0]
    assert gradient(op("maximum"), 2.0, 2.0) == [0.5, 0.5]
    assert gradient(op("minimum"), 2.0, 2.0) == [0.5, 0.5]
    assert gradient(op("fmax"), 2.0, np.nan) == [1, 0]
    assert gradient(op("hypot"), 0.0, 0.0) == [0, 0]
    assert gradient(op("arctan2"), 0.0, 0.0) == [0, 0]
    assert gradient(op("sqrt"), 0.0) == [np.inf]
    assert gradient(lambda x: 0 * op("sqrt")(x), 0.0) == [0]
    assert gradient(op("abs"), 0j) == [0]
    assert gradient(op("logaddexp"), -np.inf, -np.inf) == [0.5, 0.5]
    assert gradient(op("logaddexp"), -np.inf, 1.0) == [0, 1]


def test_powers():
    for p, x, expected in [(2, -3, -6), (3, -2, 12), (1, 0, 1), (0, 0, 0), (2, 0, 0), (1.5, 0, 0), (-1, -2, -0.25)]:
        assert gradient(lambda x, p=p: x ** float(p), float(x)) == [expected]
        args = [np.float64(x), np.float64(p)]
        assert run(grad_program(build(op("pow"), args), wrt=[0]), args) == [expected]
    assert gradient(op("pow"), 0.0, 2.0) == [0, 0]
    np.testing.assert_allclose(gradient(op("pow"), 2.0, 3.0), [12, 8 * np.log(2)])


@pytest.mark.parametrize("name", ["log", "sqrt", "div", "arcsin", "gammaln", "exp", "log1p"])
def test_an_unselected_branch_brings_no_nan(name):
    bad = {"log": 0.0, "sqrt": -1.0, "div": 0.0, "arcsin": 1.0, "gammaln": 0.0, "exp": 1000.0, "log1p": -1.0}[name]

    def f(x):
        value = 1 / x if name == "div" else elementwise(name, x)
        good = elementwise("ne", x, bad)
        return sum_(elementwise("where", good, x * value, 0), [0])

    x = np.array([bad, 0.5])
    p = build(f, [x])
    for g in (run(grad_program(p), [x])[0], run(jvp_program(p), [x, np.array([1.0, 0.0])])[0]):
        assert np.isfinite(g).all()
    assert run(grad_program(p), [x])[0][0] == 0


def test_masked_data_brings_no_nan():
    x, w = np.array([np.nan, np.inf, 2.0]), np.array([1.0, 2.0, 3.0])

    def f(x, w):
        return sum_(elementwise("where", elementwise("isfinite", x), x * w, 0), [0])

    np.testing.assert_array_equal(run(grad_program(build(f, [x, w])), [x, w])[1], [0, 0, 2])


def test_an_infinite_partial_is_seen_through_a_reshape():
    x = np.array([0.0, 0.5])
    spread = build(lambda x: sum_(x * reshape(elementwise("log", x * x), [2]), [0]), [x])
    assert np.isneginf(run(grad_program(spread), [x])[0][0])
    weighted = build(lambda x, w: sum_(w * reshape(elementwise("log", x), [2]) * w, [0]), [x, x])
    np.testing.assert_array_equal(run(grad_program(weighted), [x, x])[0], [0, 0.5])


def test_strong_zero_only_where_needed():
    x = np.ones(2)
    plain = build(lambda x: sum_(elementwise("sin", x * x + 3.0) / 2.0 * x**3.0, [0]), [x])
    assert count(grad_program(plain), "strong_mul") == 0
    singular = build(lambda x: sum_(elementwise("log", x), [0]), [x])
    assert count(grad_program(singular), "strong_mul") == 1


def test_float32_stays_float32():
    x = np.linspace(0.2, 0.9, 4, dtype=np.float32)
    p = build(lambda x: sum_(elementwise("sin", x) * cast(cast(x, float) ** 2.0, np.float32), [0]), [x])
    (g,) = run(grad_program(p), [x])
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, np.cos(x) * x**2 + 2 * x * np.sin(x), rtol=1e-5)


def test_integers_and_truth_values_carry_no_derivative():
    x = np.array([1.5, -2.5])

    def f(x):
        return sum_(cast(cast(x, np.int64), float) * x + cast(elementwise("gt", x, 0), float), [0])

    np.testing.assert_array_equal(run(grad_program(build(f, [x])), [x])[0], np.trunc(x))
