"""custom_vjp, custom_jvp and define_rule: the rule is used, in both modes, nested, in loops, branches and classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import NotDifferentiable, UnsupportedCode

both = pytest.mark.parametrize("backend", ["native", "python"])


@gs.custom_vjp
def tripled(x: Any) -> Any:
    """Square, whose rule claims three times its derivative, so that its use can be seen."""
    return x**2


def _tripled_forward(x: Any) -> Any:
    return tripled(x), x


def _tripled_backward(x: Any, g: Any) -> Any:
    return (6.0 * x * g,)


tripled.defvjp(_tripled_forward, _tripled_backward)


@gs.custom_jvp
def doubled(x: Any, y: Any) -> Any:
    """x sin y, whose rule claims twice its derivative."""
    return x * np.sin(y)


@doubled.defjvp
def _doubled_rule(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return doubled(x, y), 2.0 * (dx * np.sin(y) + x * np.cos(y) * dy)


@both
def test_reverse_rule_of_a_number_and_an_array(backend: str) -> None:
    assert gs.grad(tripled, backend=backend)(2.0) == 12.0
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(gs.grad(lambda x: np.sum(np.sin(tripled(x))), backend=backend)(x), np.cos(x**2) * 6 * x)


@both
def test_forward_mode_is_the_transpose_of_a_reverse_rule(backend: str) -> None:
    x = np.array([1.0, -2.0, 3.0])
    value, tangent = gs.jvp(tripled, (x,), (np.array([1.0, 2.0, 3.0]),), backend=backend)
    np.testing.assert_allclose(value, x**2)
    np.testing.assert_allclose(tangent, 6 * x * [1.0, 2.0, 3.0])


@both
def test_second_derivatives_go_through_the_rule(backend: str) -> None:
    # f' = 6 x, and the derivative of that is ordinary code: 6
    assert gs.grad(gs.grad(tripled, backend=backend), backend=backend)(2.0) == 6.0
    assert gs.derivative(gs.grad(tripled, backend=backend), backend=backend)(2.0) == 6.0
    assert gs.grad(gs.derivative(tripled, backend=backend), backend=backend)(2.0) == 6.0
    # the rule of `doubled` calls it: d/dx of 2 (sin y) is 0, d/dy of it is 2 cos y
    second = gs.grad(gs.grad(doubled, 0, backend=backend), 1, backend=backend)
    np.testing.assert_allclose(second(3.0, 0.5), 2 * np.cos(0.5))


@both
def test_forward_rule_in_both_modes(backend: str) -> None:
    gx, gy = gs.grad(doubled, (0, 1), backend=backend)(3.0, 0.5)
    np.testing.assert_allclose([gx, gy], [2 * np.sin(0.5), 6 * np.cos(0.5)])
    np.testing.assert_allclose(gs.jvp(doubled, (3.0, 0.5), (1.0, 2.0), backend=backend)[1], gx + 2 * gy)
    x, y = np.array([1.0, 2.0]), np.array([0.3, 0.4])
    got = gs.grad(lambda x, y: np.sum(doubled(x, y) ** 2), (0, 1), backend=backend)(x, y)
    np.testing.assert_allclose(got[0], 2 * doubled(x, y) * 2 * np.sin(y))
    np.testing.assert_allclose(got[1], 2 * doubled(x, y) * 2 * x * np.cos(y))


def loops(x: Any, n: int) -> Any:
    total = 0.0
    for k in range(n):
        if x > 0.5:
            x = tripled(x) * 0.4
        else:
            x = doubled(x, 1.0) + 0.3
        total = total + x * k
    return total


def loops_by_hand(x: float, n: int) -> float:
    slope, out = 1.0, 0.0
    for k in range(n):
        if x > 0.5:
            x, slope = 0.4 * x**2, slope * 0.4 * 6 * x
        else:
            x, slope = x * math.sin(1.0) + 0.3, slope * 2 * math.sin(1.0)
        out += slope * k
    return out


@both
@pytest.mark.parametrize("x", [0.2, 0.8, 1.5])
def test_rules_in_loops_and_branches(x: float, backend: str) -> None:
    np.testing.assert_allclose(gs.grad(loops, backend=backend)(x, 5), loops_by_hand(x, 5))
    np.testing.assert_allclose(gs.jvp(lambda x: loops(x, 5), (x,), (1.0,), backend=backend)[1], loops_by_hand(x, 5))


@both
def test_rules_in_loops_over_arrays(backend: str) -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(tripled(x)) + 0.1
        return np.sum(x)

    x = np.array([0.3, 0.7])
    slope, y = np.ones(2), x.copy()
    for _ in range(3):
        slope = slope * (1 - np.tanh(y**2) ** 2) * 6 * y
        y = np.tanh(y**2) + 0.1
    np.testing.assert_allclose(gs.grad(f, backend=backend)(x), slope)


@gs.custom_vjp
def squared(x: Any) -> Any:
    return x**2


squared.defvjp(lambda x: (squared(x), x), lambda x, g: (2.0 * x * g,))


@both
def test_second_order_in_loops_over_arrays(backend: str) -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(squared(x)) + 0.1
        return np.sum(x)

    x, h = np.array([0.3, 0.7]), 1e-5
    g = gs.grad(f, backend=backend)
    step = (g(x + [h, 0.0]) - g(x - [h, 0.0])) / (2 * h)
    np.testing.assert_allclose(gs.jacobian(g, mode="reverse", backend=backend)(x)[:, 0], step, rtol=1e-6)
    np.testing.assert_allclose(gs.jacobian(g, mode="forward", backend=backend)(x)[:, 0], step, rtol=1e-6)


@both
def test_jacobian_rows_share_a_forward_sweep(backend: str) -> None:
    """The pullback runs once for each row, inside a loop."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(2):
            y = tripled(y)
        return y

    x = np.array([0.5, 1.5])
    expected = np.diag(6 * x * 6 * x**2)
    np.testing.assert_allclose(gs.jacobian(f, mode="reverse", backend=backend)(x), expected)
    np.testing.assert_allclose(gs.jacobian(f, mode="forward", backend=backend)(x), expected)


class Layer:
    """A user's class with a method that has a rule."""

    def __init__(self, w: Any, scale: float):
        self.w = w
        self.scale = scale

    @gs.custom_vjp
    def squared(self, x: Any) -> Any:
        return (self.w * x) ** 2

    def __call__(self, x: Any) -> Any:
        return np.sum(self.squared(x)) * self.scale


def _squared_forward(layer: Layer, x: Any) -> Any:
    return layer.squared(x), (layer.w, x)


def _squared_backward(residuals: Any, g: Any) -> Any:
    w, x = residuals
    layer_bar = Layer(2 * w * x**2 * g, 0.0)
    return layer_bar, 20 * w**2 * x * g  # ten times the derivative


Layer.squared.defvjp(_squared_forward, _squared_backward)


@both
def test_rule_of_a_method_covers_the_object(backend: str) -> None:
    layer, x = Layer(np.array([1.0, 2.0]), 0.5), np.array([3.0, 4.0])
    g_layer, g_x = gs.grad(lambda m, x: m(x), (0, 1), backend=backend)(layer, x)
    np.testing.assert_allclose(g_layer.w, layer.w * x**2)
    np.testing.assert_allclose(g_layer.scale, np.sum((layer.w * x) ** 2))
    np.testing.assert_allclose(g_x, 10 * layer.w**2 * x)


@both
def test_structures_none_and_zero(backend: str) -> None:
    @gs.custom_vjp
    def f(params: Any, x: Any, n: int) -> Any:
        return {"y": params["a"] * x**n, "n": n}

    def fwd(params: Any, x: Any, n: int) -> Any:
        return f(params, x, n), (params, x, n)

    def bwd(residuals: Any, g: Any) -> Any:
        params, x, n = residuals
        return {"a": np.sum(g["y"] * x**n), "b": None}, gs.zero, None

    f.defvjp(fwd, bwd)

    def loss(params: Any, x: Any) -> Any:
        return np.sum(f(params, x, 2)["y"]) + params["b"]

    g, gx = gs.grad(loss, (0, 1), backend=backend)({"a": 2.0, "b": 3.0}, np.array([1.0, 2.0]))
    assert g == {"a": 5.0, "b": 1.0}
    np.testing.assert_array_equal(gx, [0.0, 0.0])


@both
def test_nondiff_argnums_take_functions_and_numbers(backend: str) -> None:
    def apply(f: Any, n: int, x: Any) -> Any:
        return f(x) * n

    g = gs.custom_vjp(apply, nondiff_argnums=(0, 1))
    g.defvjp(lambda f, n, x: (f(x) * n, x), lambda f, n, x, ct: (ct * n * 100.0,))
    assert gs.grad(lambda x: g(np.sin, 3, x), backend=backend)(1.0) == 300.0
    h = gs.custom_jvp(apply, nondiff_argnums=(0, 1))
    h.defjvp(lambda f, n, primals, tangents: (f(primals[0]) * n, tangents[0] * n * 10.0))
    assert gs.grad(lambda x: h(np.sin, 3, x), backend=backend)(1.0) == 30.0


def test_a_derivative_that_the_rule_does_not_cover_is_an_error() -> None:
    def loss(w: float, x: float) -> Any:
        @gs.custom_vjp
        def f(x: Any) -> Any:
            return w * x

        f.defvjp(lambda x: (w * x, x), lambda x, g: (g,))
        return f(x)

    assert gs.grad(loss, 1)(2.0, 3.0) == 1.0
    with pytest.raises(NotDifferentiable, match="does not cover"):
        gs.grad(loss, 0)(2.0, 3.0)


def test_errors_of_rules_say_what_is_wrong() -> None:
    @gs.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    with pytest.raises(TypeError, match="defvjp"):
        gs.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: x * y, lambda r, g: (g, g))
    with pytest.raises(TypeError, match="pair"):
        gs.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: (x * y, ()), lambda r, g: (g,))
    with pytest.raises(TypeError, match="2 cotangents"):
        gs.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: (x * y, ()), lambda r, g: (g, np.array([g, g])))
    with pytest.raises(ValueError, match="dimensions"):
        gs.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1], g * r[0]))
    assert gs.grad(f, (0, 1))(3.0, 2.0) == (2.0, 3.0)


def test_a_function_with_a_rule_may_not_write_its_arguments() -> None:
    @gs.custom_vjp
    def f(x: Any) -> Any:
        x[0] = 1.0
        return np.sum(x)

    f.defvjp(lambda x: (np.sum(x), ()), lambda r, g: (g,))
    with pytest.raises(UnsupportedCode, match="writes"):
        gs.grad(lambda x: f(x * 1.0))(np.ones(2))


def test_a_new_rule_is_honoured_at_the_next_call() -> None:
    @gs.custom_vjp
    def f(x: Any) -> Any:
        return x

    f.defvjp(lambda x: (x, None), lambda r, g: (g * 2.0,))
    gradient = gs.grad(f)
    assert gradient(1.0) == 2.0
    f.defvjp(lambda x: (x, None), lambda r, g: (g * 3.0,))
    assert gradient(1.0) == 3.0


def test_plain_calls_are_plain() -> None:
    assert tripled(3.0) == 9.0
    assert doubled(2.0, y=0.0) == 0.0
    assert Layer(np.array([2.0]), 1.0).squared(np.array([3.0])) == [36.0]


# define_rule ----------------------------------------------------------------------------------------------------------


@both
def test_rule_for_a_function_that_python_runs(backend: str) -> None:
    """math.nextafter stands for a C function: the result type is found by calling it once."""
    calls = []

    class Foreign:
        """A callable without Python source that could be staged."""

        __name__ = "foreign"

        def __init__(self) -> None:
            self.run = np.vectorize(self._scalar, otypes=[float])

        def _scalar(self, x: float) -> float:
            return math.sin(float(x))

    foreign = Foreign().run  # an np.vectorize object
    gs.define_rule(foreign, vjp=lambda x: (foreign(x), lambda g: g * np.cos(x)), like=np.zeros(1))
    x = np.array([0.3, 0.6])
    loss = lambda x: np.sum(foreign(x) ** 2)  # noqa: E731
    np.testing.assert_allclose(gs.grad(loss, backend=backend)(x), np.sin(2 * x))
    np.testing.assert_allclose(gs.jvp(foreign, (x,), (x,), backend=backend)[1], x * np.cos(x))
    hessian = gs.hessian(loss, backend=backend)(x)
    np.testing.assert_allclose(hessian, np.diag(2 * np.cos(2 * x)))
    assert not calls


@both
def test_rule_for_a_bound_builtin_in_a_loop(backend: str) -> None:
    scaled = (3.0).__mul__
    gs.define_rule(scaled, jvp=lambda p, t: (scaled(*p), 3.0 * t[0]), like=0.0)

    def f(x: Any) -> Any:
        for _ in range(4):
            x = scaled(x) * 0.5
        return x

    np.testing.assert_allclose(gs.grad(f, backend=backend)(1.0), 1.5**4)
    assert f(1.0) == gs.jit(f, backend=backend)(1.0)


@both
def test_rule_replaces_the_derivative_of_a_library_function(backend: str) -> None:
    def f(x: Any) -> Any:
        return np.cbrt(x) + 1.0

    gradient = gs.grad(f, backend=backend)
    np.testing.assert_allclose(gradient(8.0), 1 / 12)
    gs.define_rule(np.cbrt, vjp=lambda x: (np.cbrt(x), lambda g: g * 5.0))
    try:
        assert gradient(8.0) == 5.0
    finally:
        from gradsmith.frontend import rules

        del rules._RULES[np.cbrt]


@both
def test_rule_with_a_value_in_numpy(backend: str) -> None:
    def opaque(x: float) -> float:
        raise AssertionError("not run")

    gs.define_rule(opaque, value=lambda x: x**3, jvp=lambda p, t: (p[0] ** 3, 30.0 * t[0]))
    assert gs.value_and_grad(opaque, backend=backend)(2.0) == (8.0, 30.0)


def test_without_a_derivative() -> None:
    def weight(x: Any) -> Any:
        return x * 2.0

    gs.define_rule(weight, vjp=lambda x: (weight(x), lambda g: None))
    assert gs.grad(lambda x: weight(x) * x)(3.0) == 6.0


@both
def test_defaults_are_arguments_of_a_rule(backend: str) -> None:
    @gs.custom_vjp
    def power(x: Any, scale: float = 2.0, n: int = 2) -> Any:
        return scale * x**n

    power.defvjp(
        lambda x, scale, n: (power(x, scale, n), (x, scale, n)),
        lambda kept, g: (g * kept[1] * kept[2] * kept[0] ** (kept[2] - 1), None, None),
    )
    assert gs.grad(lambda x: power(x), backend=backend)(3.0) == 12.0
    assert gs.grad(lambda x: power(x, n=3), backend=backend)(2.0) == 24.0
    assert gs.grad(lambda x: power(scale=1.0, x=x), backend=backend)(3.0) == 6.0


def test_a_forgotten_return_is_an_error() -> None:
    def forgets(kept: Any, g: Any) -> None:
        pass

    f = gs.custom_vjp(lambda x: x**2)
    f.defvjp(lambda x: (x**2, x), forgets)
    with pytest.raises(TypeError, match="is a return missing"):
        gs.grad(f)(3.0)


def test_a_function_without_derivative_says_so() -> None:
    table = {1.0: 2.0}.__getitem__
    gs.define_rule(table, like=0.0)
    assert gs.jit(lambda x: table(x))(1.0) == 2.0
    with pytest.raises(NotDifferentiable, match="was given no derivative"):
        gs.grad(lambda x: table(x))(1.0)


def test_a_library_object_that_is_called() -> None:
    from scipy.interpolate import CubicSpline

    knots = np.linspace(0.0, 1.0, 11)
    spline = CubicSpline(knots, np.sin(3 * knots))
    slope = spline.derivative()
    gs.define_rule(slope)
    gs.define_rule(spline, vjp=lambda t: (spline(t), lambda g: g * slope(t)))
    x = np.array([0.33, 0.47])
    for engine in ("source", "tape"):
        np.testing.assert_allclose(
            gs.grad(lambda t: np.sum(spline(t) ** 2), engine=engine)(x), 2 * spline(x) * slope(x)
        )
