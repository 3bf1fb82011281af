"""Every function that users call, with every option, on both back ends. Judges: closed forms and identities."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.testing import check_grads

X = np.array([0.3, 0.8, -0.5])
A = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]])
close = np.testing.assert_allclose
equal = np.testing.assert_array_equal


def f(x: Any, y: Any, z: Any = 2.0) -> Any:
    return np.sum(x * y**2) * z


Y = np.array([1.0, -2.0, 3.0])


# ---- grad and value_and_grad -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argnums", "which"),
    [
        (0, 0),
        (1, 1),
        (-1, 1),
        ((0,), [0]),
        ((1, 0), [1, 0]),
        ([0, 1], [0, 1]),
        ("x", 0),
        (("x", "y"), [0, 1]),
        (("y", 0), [1, 0]),
    ],
)
def test_argnums(argnums: Any, which: Any, backend: str) -> None:
    gradients = [Y**2 * 2.0, 2 * X * Y * 2.0]
    for transform in (gs.grad, lambda f, a, backend: lambda *args: gs.value_and_grad(f, a, backend=backend)(*args)[1]):
        got = transform(f, argnums, backend=backend)(X, Y)
        if isinstance(which, list):
            assert isinstance(got, tuple)
            for g, k in zip(got, which, strict=True):
                close(g, gradients[k])
        else:
            close(got, gradients[which])


def test_keyword_arguments(backend: str) -> None:
    close(gs.grad(f, backend=backend)(X, y=Y, z=3.0), Y**2 * 3)
    close(gs.grad(f, "z", backend=backend)(X, Y, z=3.0), np.sum(X * Y**2))
    close(gs.grad(f, "y", backend=backend)(x=X, y=Y), 4 * X * Y)
    gx, gz = gs.grad(f, (0, "z"), backend=backend)(X, Y, z=1.0)
    close(gx, Y**2)
    close(gz, np.sum(X * Y**2))
    close(gs.jacobian(lambda x, *, w: x * w, "w", backend=backend)(X, w=Y), np.diag(X))
    close(gs.hessian(lambda x, *, w: np.sum(x * w**3), "w", backend=backend)(X, w=Y), np.diag(6 * X * Y))


def test_value_and_grad_agrees_with_both(backend: str) -> None:
    value, gradient = gs.value_and_grad(f, backend=backend)(X, Y)
    assert isinstance(value, np.float64)
    assert math.isclose(value, f(X, Y))
    equal(gradient, gs.grad(f, backend=backend)(X, Y))
    assert gs.value_and_grad(lambda x: x * x, backend=backend)(3.0) == (9.0, 6.0)


def test_has_aux(backend: str) -> None:
    def with_aux(x: Any, y: Any) -> Any:
        r = x * y
        return np.sum(r**2), {"residual": r, "count": len(x), "note": "text", "none": None}

    gradient, aux = gs.grad(with_aux, has_aux=True, backend=backend)(X, Y)
    close(gradient, 2 * X * Y**2)
    close(aux["residual"], X * Y)
    assert (aux["count"], aux["note"], aux["none"]) == (3, "text", None)
    (value, aux), gradient = gs.value_and_grad(with_aux, has_aux=True, backend=backend)(X, Y)
    close(value, np.sum((X * Y) ** 2))
    close(aux["residual"], X * Y)
    gradients, aux = gs.grad(with_aux, (0, 1), has_aux=True, backend=backend)(X, Y)
    close(gradients[1], 2 * Y * X**2)
    # aux that is the value, an argument, or constant
    gradient, aux = gs.grad(lambda x: (np.sum(x), (x, 1.5)), has_aux=True, backend=backend)(X)
    equal(aux[0], X)
    assert aux[1] == 1.5

    def same(x: Any) -> Any:
        y = np.sum(x**2)
        return y, y

    gradient, aux = gs.grad(same, has_aux=True, backend=backend)(X)
    close(gradient, 2 * X)
    close(aux, np.sum(X**2))


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Params:
    w: Any
    b: Any = 0.0


def test_containers(backend: str) -> None:
    def loss(p: Any, data: Any) -> Any:
        return np.sum((p["net"][0].w @ data.a + p["net"][0].b - data.b) ** 2) + p["scale"] ** 2

    p = {"net": [Params(A, np.array([1.0, 2.0]))], "scale": 3.0}
    data = Pair(X, np.array([0.5, 0.5]))
    gp, gd = gs.grad(loss, (0, 1), backend=backend)(p, data)
    r = 2 * (A @ X + p["net"][0].b - data.b)
    close(gp["net"][0].w, np.outer(r, X))
    close(gp["net"][0].b, r)
    assert gp["scale"] == 6.0
    assert isinstance(gp["net"][0], Params) and isinstance(gd, Pair)
    close(gd.a, A.T @ r)
    close(gd.b, -r)


# ---- derivative ------------------------------------------------------------------------------------------------------


def branchy(x: Any) -> Any:
    if x > 0.5:
        return x**3
    if x < 0:
        return math.exp(x) if x > -1 else 2.0 * x
    return x


def loopy(x: Any) -> Any:
    y = 1.0
    for _ in range(4):
        y = y * x + 1.0
    while y > 10:
        y = y / 2
    return y


def early(x: Any) -> Any:
    total = 0.0
    for k in range(10):
        total += x**k
        if total > 3:
            return total * x
    return total


def with_array(x: Any) -> Any:
    y = np.zeros(3)
    y[0] = x
    y[1:] = [x**2, x**3]
    return np.sum(y * np.array([1.0, 2.0, 3.0]))


ELEMENTWISE: list[Callable[[Any], Any]] = [
    lambda x: x**3 - 2 * x,
    lambda x: np.sin(x) * np.exp(-x),
    lambda x: math.sin(x) / (1 + x * x),
    lambda x: np.where(x > 0, x**2, -x),
    lambda x: abs(x) + max(x, 0.5),
    lambda x: 3.0,
    lambda x: x,
    branchy,
    loopy,
    early,
    with_array,
    lambda x: np.linalg.norm(np.array([x, 1.0])),
    lambda x: sum(x**k for k in range(5)),
]


@pytest.mark.parametrize("k", range(len(ELEMENTWISE)))
def test_derivative_of_an_array_is_that_of_every_element(k: int, backend: str) -> None:
    g = ELEMENTWISE[k]
    points = np.array([[-1.5, -0.7, 0.3], [0.6, 0.9, 2.2]])
    h = 1e-5
    expected = np.vectorize(lambda x: (g(x + h) - g(x - h)) / (2 * h))(points)
    derivative = gs.derivative(g, backend=backend)
    for x, e in zip(points.ravel(), expected.ravel(), strict=True):
        got = derivative(float(x))
        assert type(got) is float
        close(got, e, rtol=1e-7, atol=1e-9)
    got = derivative(points)
    assert got.shape == points.shape and got.dtype == points.dtype
    close(got, expected, rtol=1e-7, atol=1e-9)
    close(derivative(points[:, ::2].T), expected[:, ::2].T, rtol=1e-7, atol=1e-9)
    assert derivative(np.zeros((0, 2))).shape == (0, 2)
    assert type(derivative(np.float64(0.3))) is np.float64
    second = gs.derivative(derivative, backend=backend)
    h = 1e-4
    close(
        second(points),
        (derivative(points + h) - derivative(points - h)) / (2 * h),
        rtol=1e-5,
        atol=1e-6,
    )


def test_derivative_of_a_large_array(backend: str) -> None:
    x = np.linspace(1, 10, 901)
    got = gs.derivative(lambda x: np.sin(x) ** 2 * np.exp(x) * x**-2 + np.cos(x) ** 3, backend=backend)(x)
    s, c = np.sin(x), np.cos(x)
    expected = np.exp(x) * x**-2 * (2 * s * c + s**2 - 2 * s**2 / x) - 3 * c**2 * s
    close(got, expected, rtol=1e-11, atol=1e-12)


# ---- jvp and vjp -----------------------------------------------------------------------------------------------------


def test_jvp_and_vjp_are_adjoint(backend: str) -> None:
    """⟨w, J v⟩ = ⟨Jᵀ w, v⟩ over all arguments and results."""

    def g(p: Any, x: Any) -> Any:
        return {"out": np.tanh(p["w"] @ x) * p["s"], "parts": [np.sum(x), (x[0] * p["s"], np.outer(x, x))]}

    rng = np.random.default_rng(0)
    p, dp = {"w": A, "s": 2.0}, {"w": rng.normal(size=(2, 3)), "s": -0.7}
    v = rng.normal(size=3)
    y, dy = gs.jvp(g, (p, X), (dp, v), backend=backend)
    h = 1e-6
    moved = [g({"w": A + s * h * dp["w"], "s": 2.0 + s * h * dp["s"]}, X + s * h * v) for s in (1, -1)]
    close(y["out"], g(p, X)["out"])
    close(dy["out"], (moved[0]["out"] - moved[1]["out"]) / (2 * h), rtol=1e-7)
    close(dy["parts"][1][1], (moved[0]["parts"][1][1] - moved[1]["parts"][1][1]) / (2 * h), rtol=1e-7)
    assert isinstance(dy["parts"], list) and isinstance(dy["parts"][1], tuple)
    y2, pullback = gs.vjp(g, p, X, backend=backend)
    close(y2["out"], y["out"])
    w = {"out": rng.normal(size=2), "parts": [0.3, (-1.2, rng.normal(size=(3, 3)))]}
    gp, gx = pullback(w)
    left = np.sum(w["out"] * dy["out"]) + 0.3 * dy["parts"][0] - 1.2 * dy["parts"][1][0]
    left += np.sum(w["parts"][1][1] * dy["parts"][1][1])
    right = np.sum(gp["w"] * dp["w"]) + gp["s"] * dp["s"] + gx @ v
    assert math.isclose(left, right, rel_tol=1e-12)
    assert list(gp) == ["w", "s"] and type(gp["s"]) is float


def test_jvp_and_vjp_of_structures(backend: str) -> None:
    assert gs.jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 10.0), backend=backend) == (12.0, 34.0)
    y, pullback = gs.vjp(lambda x, y: (x * y, x + y), 3.0, 4.0, backend=backend)
    assert y == (12.0, 7.0)
    assert pullback((1.0, 10.0)) == (14.0, 13.0)
    assert pullback((1, 0)) == (4.0, 3.0)  # integers are cast
    # keys of dicts in another order
    _, tangent = gs.jvp(lambda d: d["a"] * d["b"], ({"a": 2.0, "b": 3.0},), ({"b": 1.0, "a": 10.0},), backend=backend)
    assert tangent == 32.0
    # integer arguments are constants
    y, tangent = gs.jvp(lambda p: p["x"] * p["n"], ({"x": 2.0, "n": 3},), ({"x": 1.0, "n": 0},), backend=backend)
    assert (y, tangent) == (6.0, 3.0)
    # the pullback keeps the primals of its own call
    x = X.copy()
    _, first = gs.vjp(lambda x: x * x, x, backend=backend)
    _, other = gs.vjp(lambda x: x * x, 2 * x, backend=backend)
    equal(first(np.ones(3))[0], 2 * X)
    equal(other(np.ones(3))[0], 4 * X)


def test_cotangents_of_integer_and_constant_results(backend: str) -> None:
    y, pullback = gs.vjp(lambda x: {"y": x * 2, "n": len(x), "s": 1.0}, X, backend=backend)
    assert (y["n"], y["s"]) == (3, 1.0)
    equal(pullback({"y": np.ones(3), "n": None, "s": 1.0})[0], [2, 2, 2])


# ---- jacobian, hessian, hvp ------------------------------------------------------------------------------------------

MODES = ["auto", "forward", "reverse"]


@pytest.mark.parametrize("mode", MODES)
def test_jacobian_shapes_and_values(mode: str, backend: str) -> None:
    """Shape of the result, then shape of the argument; every entry by central differences."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (2, 3))
    cases: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda x: np.sin(x), x),
        (lambda x: np.sum(x, axis=0) * x[0, 0], x),
        (lambda x: x @ x.T, x),
        (lambda x: np.sum(x * x), x),
        (lambda x: np.array([x, x**2, x**3]), 0.7),
        (lambda x: x * X, np.array([0.7])),
        (lambda x: np.stack([x, x * x]), X),
        (lambda x: x**2, 0.7),
        (lambda x: np.cumsum(x)[::2], X),
    ]
    for g, point in cases:
        got = gs.jacobian(g, mode=mode, backend=backend)(point)
        shape = np.shape(g(point)) + np.shape(point)
        assert np.shape(got) == shape
        h = 1e-6
        basis = np.eye(np.size(point)).reshape(-1, *np.shape(point))
        columns = [(g(point + h * e) - g(point - h * e)) / (2 * h) for e in basis]
        expected = np.moveaxis(np.array(columns), 0, -1).reshape(shape)
        close(got, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_jacobian_of_containers(mode: str, backend: str) -> None:
    """The result's structure outside, the arguments' inside, as in JAX."""
    got = gs.jacobian(lambda p: {"a": p["x"] * p["s"], "b": np.sum(p["x"])}, mode=mode, backend=backend)(
        {"x": X, "s": 2.0}
    )
    close(got["a"]["x"], 2 * np.eye(3))
    close(got["a"]["s"], X)
    close(got["b"]["x"], np.ones(3))
    assert np.shape(got["b"]["s"]) == () and got["b"]["s"] == 0
    both = gs.jacobian(lambda x, y: x * y, (0, 1), mode=mode, backend=backend)(X, Y)
    close(both[0], np.diag(Y))
    close(both[1], np.diag(X))
    pair = gs.jacobian(lambda x: (x, x[0] * x), mode=mode, backend=backend)(X)
    close(pair[1], X[0] * np.eye(3) + np.outer(X, [1, 0, 0]))


def test_jacobian_auto_picks_by_size(backend: str) -> None:
    """Both choices give the same; a wide and a tall one, also when the sizes change between calls."""
    jacobian = gs.jacobian(lambda x: np.concatenate([x[:1], x * x, x]), backend=backend)
    wide = gs.jacobian(lambda x: x[:2] * x[2], backend=backend)
    for n in (3, 1, 6) if backend == "python" else (3, 6):
        x = np.arange(1.0, n + 1)
        eye = np.eye(n)
        close(jacobian(x), np.concatenate([eye[:1], 2 * np.diag(x), eye]))
    for n in (3, 50):
        x = np.arange(1.0, n + 1)
        expected = np.zeros((2, n))
        expected[0, 0] = expected[1, 1] = x[2]
        expected[:, 2] = x[:2]
        close(wide(x), expected)


def test_hessian_is_symmetric_and_equals_hvp_and_differences(backend: str) -> None:
    def g(x: Any) -> Any:
        return np.sum(np.exp(x) * x[::-1] ** 3) + np.prod(x) + np.log1p(x @ x)

    x = np.array([0.3, 0.8, -0.5, 1.1])
    h = gs.hessian(g, backend=backend)(x)
    assert h.shape == (4, 4)
    close(h, h.T, rtol=1e-13, atol=1e-14)
    gradient = gs.grad(g, backend=backend)
    e = 1e-5
    close(h, [(gradient(x + e * d) - gradient(x - e * d)) / (2 * e) for d in np.eye(4)], rtol=1e-8, atol=1e-9)
    product = gs.hvp(g, backend=backend)
    for v in np.random.default_rng(0).normal(size=(3, 4)):
        close(product(x, v), h @ v, rtol=1e-12, atol=1e-13)
    matrix = np.arange(6.0).reshape(2, 3)
    full = gs.hessian(lambda m: np.sum(m**3), backend=backend)(matrix)
    assert full.shape == (2, 3, 2, 3)
    close(full.reshape(6, 6), np.diag(6 * matrix.ravel()))
    assert gs.hessian(lambda x: x**3, backend=backend)(2.0) == 12.0


def test_hessian_of_several_arguments_and_containers(backend: str) -> None:
    blocks = gs.hessian(lambda x, y: np.sum(x * y**2), (0, 1), backend=backend)(X, Y)
    close(blocks[0][0], np.zeros((3, 3)))
    close(blocks[0][1], np.diag(2 * Y))
    close(blocks[1][0], np.diag(2 * Y))
    close(blocks[1][1], np.diag(2 * X))
    h = gs.hessian(lambda p: np.sum(p["x"] ** 2) * p["s"] ** 2, backend=backend)({"x": X, "s": 3.0})
    close(h["x"]["x"], 18 * np.eye(3))
    close(h["x"]["s"], 12 * X)
    close(h["s"]["x"], 12 * X)
    close(h["s"]["s"], 2 * np.sum(X**2))
    hv = gs.hvp(lambda p: np.sum(p["x"] ** 2) * p["s"] ** 2, backend=backend)({"x": X, "s": 3.0}, {"x": Y, "s": 1.0})
    close(hv["x"], 18 * Y + 12 * X)
    close(hv["s"], 12 * X @ Y + 2 * np.sum(X**2))


# ---- vmap -----------------------------------------------------------------------------------------------------------


def test_vmap_equals_a_loop(backend: str) -> None:
    def g(w: Any, x: Any, k: Any = 2.0) -> Any:
        return np.sin(w @ x) * k, w * x[0]

    w, xs = X, np.arange(12.0).reshape(4, 3) / 7
    first, second = gs.vmap(g, (None, 0), backend=backend)(w, xs)
    close(first, [g(w, x)[0] for x in xs])
    close(second, [g(w, x)[1] for x in xs])
    first, second = gs.vmap(g, (None, 1), out_axes=-1, backend=backend)(w, xs.T)
    close(first, [g(w, x)[0] for x in xs])
    close(second, np.array([g(w, x)[1] for x in xs]).T)
    close(gs.vmap(g, (0, 0, 0), backend=backend)(xs, xs, xs[:, 0])[0], [g(x, x, x[0])[0] for x in xs])
    # numbers, containers, branches and loops
    close(gs.vmap(branchy, backend=backend)(np.linspace(-2, 2, 9)), [branchy(t) for t in np.linspace(-2, 2, 9)])
    close(gs.vmap(loopy, backend=backend)(np.linspace(0, 2, 5)), [loopy(t) for t in np.linspace(0, 2, 5)])
    got = gs.vmap(lambda p: {"y": p["a"] * p["b"][0]}, backend=backend)({"a": w, "b": xs[:3]})
    close(got["y"], w * xs[:3, 0])
    assert gs.vmap(lambda x: x * 2, backend=backend)(np.zeros((0, 3))).shape == (0, 3)


def test_vmap_of_derivatives_and_derivatives_of_vmap(backend: str) -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return (np.tanh(w @ x) - y) ** 2

    xs, ys = np.arange(12.0).reshape(4, 3) / 7, np.array([0.1, 0.2, 0.3, 0.4])
    per_example = gs.vmap(gs.grad(loss), (None, 0, 0), backend=backend)(X, xs, ys)
    single = gs.grad(loss, backend=backend)
    close(per_example, [single(X, x, y) for x, y in zip(xs, ys, strict=True)])
    total = gs.grad(lambda w: np.sum(gs.vmap(loss, (None, 0, 0))(w, xs, ys)), backend=backend)(X)
    close(total, np.sum(per_example, axis=0))
    hessians = gs.vmap(gs.hessian(loss), (None, 0, 0), backend=backend)(X, xs, ys)
    close(np.sum(hessians, axis=0), gs.hessian(lambda w: np.sum(gs.vmap(loss, (None, 0, 0))(w, xs, ys)))(X))


def test_vmap_says_what_does_not_fit(backend: str) -> None:
    with pytest.raises(ValueError, match="different lengths 3 and 2"):
        gs.vmap(lambda x, y: x * y, backend=backend)(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="axis 1 of an argument with 1 dimensions"):
        gs.vmap(lambda x: x, 1, backend=backend)(np.ones(3))
    with pytest.raises(ValueError, match="at least one"):
        gs.vmap(lambda x: x, None, backend=backend)(np.ones(3))
    with pytest.raises(TypeError, match="2 entries, but the call has 1"):
        gs.vmap(lambda x: x, (0, 0), backend=backend)(np.ones(3))


# ---- jit -------------------------------------------------------------------------------------------------------------


def test_jit_gives_what_the_function_gives(backend: str) -> None:
    def g(x: Any, n: int, *, scale: Any = 1.0) -> Any:
        y = x.copy()
        for k in range(n):
            y[k % len(y)] += scale * k
        return y, np.sum(y), {"n": n, "mean": float(np.mean(y))}

    compiled = gs.jit(g, backend=backend)
    for n in (0, 2, 7):
        got, expected = compiled(X, n, scale=0.5), g(X, n, scale=0.5)
        equal(got[0], expected[0])
        assert got[1] == expected[1] and type(got[1]) is type(expected[1])
        assert got[2] == expected[2]
    assert compiled.__name__ == "jit_g"
    equal(X, [0.3, 0.8, -0.5])


def test_jit_writes_arguments_as_python_does(backend: str) -> None:
    def double(x: Any) -> None:
        x *= 2

    x = X.copy()
    assert gs.jit(double, backend=backend)(x) is None
    equal(x, 2 * X)


def test_jit_of_functions_of_no_arrays_and_no_arguments(backend: str) -> None:
    def fibonacci(n: int) -> int:
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        return a

    compiled = gs.jit(fibonacci, backend=backend)
    assert [compiled(k) for k in range(10)] == [fibonacci(k) for k in range(10)]
    assert type(compiled(10)) is int
    assert gs.jit(lambda: 3, backend=backend)() == 3
    assert gs.jit(lambda x: None, backend=backend)(1.0) is None
    assert gs.jit(lambda x: (), backend=backend)(1.0) == ()
    assert gs.jit(lambda x: "text", backend=backend)(1.0) == "text"
    assert gs.jit(lambda x, s: s + "b", backend=backend)(1.0, "a") == "ab"


def test_jit_returns_its_arguments_untouched(backend: str) -> None:
    """A returned argument or captured array is a copy or the object itself, never a buffer that is used again."""
    captured = np.ones(3)
    compiled = gs.jit(lambda x: (x, x, captured, x[1:]), backend=backend)
    got = compiled(X)
    again = compiled(2 * X)
    for a, b, e in zip(got, again, (X, X, captured, X[1:]), strict=True):
        equal(a, e)
        assert np.shape(b) == np.shape(e)
    equal(got[0], X)


# ---- what a returned callable offers ---------------------------------------------------------------------------------


def described(x: Any, steps: int) -> Any:
    speed = x * 0.5
    for _ in range(steps):
        speed = np.sin(speed) * x
    return np.sum(speed)


@pytest.mark.parametrize("transform", [gs.grad, gs.value_and_grad, gs.jacobian, gs.hessian, gs.jit])
def test_source_program_and_explain(transform: Callable[..., Any]) -> None:
    compiled = transform(described)
    expected = compiled(X, 3)
    text = compiled.source(X, 3)
    assert compiled.__name__ in text and "speed" in text and "import numpy as np" in text
    scope: dict[str, Any] = {}
    exec(text, scope)
    got = scope[compiled.__name__](X, 3)
    pairs = [(got, expected)] if transform is not gs.value_and_grad else zip(got, expected, strict=True)
    for a, b in pairs:
        close(a, b, rtol=1e-12)
    program = compiled.program(X, 3)
    assert program.startswith(f"program {compiled.__name__}(x: float64[:]")
    explanation = compiled.explain(X, 3)
    for word in ("x: float64[:]", "native", "stored", "compilation"):
        assert word in explanation
    assert repr(compiled) == f"<gradsmith {compiled.__name__}>"


def test_docstrings_signatures_and_types() -> None:
    """Every public function has a docstring with an example, and type hints."""
    for name in gs.__all__:
        thing = getattr(gs, name)
        assert thing.__doc__, name
        if inspect.isfunction(thing):
            assert ">>>" in thing.__doc__, name
            hints = [p.annotation for p in inspect.signature(thing).parameters.values()]
            assert inspect.Parameter.empty not in hints, name
    wrapped = gs.grad(described)
    assert wrapped.__wrapped__ is described
    assert "described" in wrapped.__doc__


# ---- check_grads -----------------------------------------------------------------------------------------------------


def test_check_grads_accepts_what_is_right(backend: str) -> None:
    check_grads(lambda x, p: np.sin(x) * p["w"], (X, {"w": 2.0, "n": 3}), order=2, backend=backend)
    check_grads(lambda x: x**3, (1.5,), order=3, backend=backend)
    check_grads(lambda x: np.sum(x), (X,), modes=("forward",), backend=backend)
    check_grads(lambda z: np.sum(np.abs(z) ** 2), (X + 1j,), order=1, backend=backend)


def test_check_grads_finds_what_is_wrong() -> None:
    calls = []

    def kink(x: Any) -> Any:
        return abs(x)

    def not_what_python_does(x: Any) -> Any:
        calls.append(1)
        return x * (2.0 if len(calls) > 3 else 1.0)

    check_grads(kink, (1.0,), order=1)
    with pytest.raises(AssertionError, match="derivative"):
        check_grads(lambda x: np.floor(x * 1e3) / 1e3, (X,), order=1)
    with pytest.raises(ValueError, match="modes"):
        check_grads(kink, (1.0,), modes=("sideways",))


def test_one_array_for_two_arguments_and_then_two_arrays(backend: str) -> None:
    def flat(x: Any, y: Any) -> Any:
        return np.sum((2 * x + y) ** 2)

    def nested(x: Any, d: Any) -> Any:
        return flat(x, d["y"])

    x, y = np.arange(3.0), np.ones(3)
    for gradient, put in (
        (gs.grad(flat, backend=backend), lambda a: a),
        (gs.grad(nested, backend=backend), lambda a: {"y": a}),
    ):
        for second in (x, y, x, y):  # what was compiled for one array must not serve two
            np.testing.assert_allclose(gradient(x, put(second)), 4 * (2 * x + second))
        with pytest.raises(ValueError):
            gradient(x, put(np.ones(4)))
