"""stop_gradient, ignore_derivatives and hook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs

both = pytest.mark.parametrize("backend", ["native", "python"])


@both
def test_stop_gradient_in_both_modes_and_orders(backend: str) -> None:
    def f(x: Any) -> Any:
        return x**2 * gs.stop_gradient(x)

    assert gs.grad(f, backend=backend)(3.0) == 18.0
    assert gs.derivative(f, backend=backend)(3.0) == 18.0
    assert gs.grad(gs.grad(f, backend=backend), backend=backend)(3.0) == 6.0
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(gs.grad(lambda x: np.sum(f(x)), backend=backend)(x), 2 * x**2)


@both
def test_stop_gradient_of_structures(backend: str) -> None:
    def f(p: Any) -> Any:
        fixed = gs.stop_gradient({"a": p["a"], "n": 2})
        return p["a"] * fixed["a"] ** fixed["n"] + gs.stop_gradient([p["b"]])[0]

    assert gs.grad(f, backend=backend)({"a": 3.0, "b": 1.0}) == {"a": 9.0, "b": 0.0}
    assert f({"a": 3.0, "b": 1.0}) == 28.0


@both
def test_stop_gradient_in_a_loop(backend: str) -> None:
    """The derivative flows through the last iteration only: truncated backpropagation."""

    def f(x: Any, n: int) -> Any:
        y = 1.0
        for _ in range(n):
            y = np.sin(gs.stop_gradient(y) * x)
        return y

    y = 1.0
    for _ in range(3):
        y = np.sin(y * 0.7)
    np.testing.assert_allclose(gs.grad(f, backend=backend)(0.7, 4), y * np.cos(y * 0.7))


def test_stop_gradient_copies() -> None:
    """The constant does not change when the array is written afterwards."""

    def f(x: Any) -> Any:
        y = x * 1.0
        z = gs.stop_gradient(y)
        y[0] = 10.0
        return np.sum(z * x)

    np.testing.assert_allclose(gs.grad(f)(np.array([2.0, 3.0])), [2.0, 3.0])


class Normaliser:
    def __init__(self) -> None:
        self.scale = 1.0

    def __call__(self, x: Any) -> Any:
        with gs.ignore_derivatives():
            self.scale = np.max(np.abs(x))
        return x / self.scale


@both
def test_ignore_derivatives(backend: str) -> None:
    def f(x: Any) -> Any:
        with gs.ignore_derivatives():
            total = 0.0
            for v in x:
                total += v**2
            weights = x / total
            if total > 1.0:
                weights = weights * 2.0
        return np.sum(weights * x)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(gs.grad(f, backend=backend)(x), 2 * x / 5)
    np.testing.assert_allclose(gs.jacobian(f, mode="forward", backend=backend)(x), 2 * x / 5)
    np.testing.assert_allclose(gs.grad(lambda x: np.sum(Normaliser()(x)), backend=backend)(x), [0.5, 0.5])


@both
def test_ignore_derivatives_leaves_what_it_only_names(backend: str) -> None:
    def f(x: Any) -> Any:
        with gs.ignore_derivatives():
            y = x
            z = 2.0 * x
        return y * z

    assert gs.grad(f, backend=backend)(3.0) == 6.0


@both
def test_ignore_derivatives_in_a_loop_with_lists(backend: str) -> None:
    def f(x: Any, n: int) -> Any:
        rows = []
        y = x
        for _ in range(n):
            y = y * x
            rows.append(y)
            with gs.ignore_derivatives():
                rows.append(y * x)
        return np.sum(np.array(rows))

    # x^2 + const, x^3 + const, ...
    assert gs.grad(f, backend=backend)(2.0, 3) == 2 * 2 + 3 * 4 + 4 * 8


@both
def test_derivatives_inside_ignore_derivatives_are_values(backend: str) -> None:
    def f(x: Any) -> Any:
        with gs.ignore_derivatives():
            slope = gs.grad(lambda x: x**3)(x)
        return slope * x

    assert gs.grad(f, backend=backend)(2.0) == 12.0


@both
def test_hook_changes_the_adjoint(backend: str) -> None:
    def f(x: Any, limit: float) -> Any:
        for _ in range(3):
            x = gs.hook(x * 3.0, lambda g: np.clip(g, -limit, limit))
        return np.sum(x * x)

    x = np.array([1.0, -0.01])
    g = 2 * 27 * x
    for _ in range(3):
        g = np.clip(g, -1.0, 1.0) * 3.0
    np.testing.assert_allclose(gs.grad(f, backend=backend)(x, 1.0), g)
    np.testing.assert_allclose(gs.jvp(lambda x: f(x, 1.0), (x,), (x,), backend=backend)[1], 2 * 27**2 * np.sum(x * x))
    np.testing.assert_allclose(f(x, 1.0), 27**2 * np.sum(x * x))


@both
def test_hook_of_a_structure_and_second_order(backend: str) -> None:
    def f(p: Any) -> Any:
        q = gs.hook(p, lambda g: {"a": g["a"] * 2.0, "b": g["b"] ** 2})
        return q["a"] ** 2 * q["b"]

    assert gs.grad(f, backend=backend)({"a": 3.0, "b": 2.0}) == {"a": 24.0, "b": 81.0}
    second = gs.grad(lambda p: gs.grad(f)(p)["b"], backend=backend)({"a": 3.0, "b": 2.0})
    # the first reverse pass has used the hook up: its b component is a**4
    assert second["a"] == 4 * 27.0


@both
def test_hook_that_looks_on_prints(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any, n: int) -> Any:
        for k in range(n):
            x = gs.hook(x * 2.0, lambda g, k=k: print(f"adjoint {k}: {g}"))
        return x

    gradient = gs.grad(f, backend=backend)
    assert gradient(1.0, 3) == 8.0
    assert gradient(1.0, 2) == 4.0
    assert capfd.readouterr().out.split("\n")[:-1] == [
        *("adjoint 2: 1.0", "adjoint 1: 2.0", "adjoint 0: 4.0"),
        *("adjoint 1: 1.0", "adjoint 0: 2.0"),
    ]
    assert gs.jit(f, backend=backend)(1.0, 2) == 4.0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("engine", ["source", "tape"])
def test_functions_without_derivatives(engine: str) -> None:
    class Model:
        k = 2.0

        @gs.ignore_derivatives()
        def scale(self, x: Any) -> Any:
            return np.max(x) * self.k

    m = Model()
    m.k = 3.0
    g = gs.grad(lambda m, x: np.sum(x * m.scale(x)), (0, 1), engine=engine)(m, np.array([1.0, 4.0]))
    np.testing.assert_allclose(g[1], [12.0, 12.0])
    assert g[0].k == 0.0 and m.scale(np.array([2.0])) == 6.0
