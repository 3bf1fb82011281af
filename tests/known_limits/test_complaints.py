"""The complaints most often reported against Zygote, ForwardDiff and ReverseDiff, each as a program that works here.

The first line of a test states the complaint; the link leads to a report of it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.known_limits.judge import assert_gradient, differences, engines

X = np.array([0.5, -1.2, 2.0])


@engines
def test_mutating_arrays_is_not_supported(engine: str) -> None:
    """ "Mutating arrays is not supported -- called setindex!"

    https://github.com/FluxML/Zygote.jl/issues/683
    """

    def upwind(u: np.ndarray) -> Any:
        u = u.copy()
        for _ in range(4):
            for i in range(len(u) - 1, 0, -1):
                u[i] -= 0.3 * u[i] * (u[i] - u[i - 1])
        return np.sum(u**2)

    assert_gradient(upwind, X, engine)


@engines
def test_try_catch_is_not_supported(engine: str) -> None:
    """ "Compiling Tuple{…}: try/catch is not supported", also for code that never raises, such as logging.

    https://github.com/FluxML/Zygote.jl/issues/386, https://github.com/FluxML/Zygote.jl/issues/1479
    """

    def f(x: np.ndarray) -> Any:
        y = 2 * x
        try:
            y = y * np.exp(x)
            if len(x) > 2:
                raise ArithmeticError
        except ArithmeticError:
            y = y * x
        finally:
            y = 3 * y
        return np.sum(y)

    assert_gradient(f, X, engine)


@engines
def test_nested_gradients_fail(engine: str) -> None:
    """The derivative of a derivative raises "Can't differentiate foreigncall expression" when a global is captured.

    https://github.com/FluxML/Zygote.jl/issues/1177, https://github.com/FluxML/Zygote.jl/issues/33
    """
    b = 5.0

    def f(x: float) -> float:
        return 4 * x**3 + b * x + 10

    second = gs.derivative(gs.derivative(f), engine=engine)
    assert second(2.0) == 48.0
    third = gs.grad(gs.grad(gs.grad(f)), engine=engine)
    assert third(2.0) == 24.0
    loss = gs.grad(lambda x: np.sum(gs.grad(lambda y: np.sum(np.sin(y) * b))(x) ** 2), engine=engine)
    np.testing.assert_allclose(loss(X), -2 * b**2 * np.cos(X) * np.sin(X))


def test_scalar_loops_are_slow() -> None:
    """The gradient of a loop over the elements of an array costs 40,000 times the loop: evalpoly of 10,000 numbers.

    https://github.com/FluxML/Zygote.jl/issues/644
    """

    def evalpoly(x: float, p: np.ndarray) -> float:
        total = p[-1]
        for i in range(len(p) - 2, -1, -1):
            total = x * total + p[i]
        return total

    p = np.random.default_rng(0).normal(size=10_000)
    gradient, primal = gs.grad(evalpoly, (0, 1)), gs.jit(evalpoly)
    by_x, by_p = gradient(0.9, p)
    np.testing.assert_allclose(by_p[:50], 0.9 ** np.arange(50), rtol=1e-12)
    assert by_x == pytest.approx(np.polyval(np.polyder(p[::-1]), 0.9))
    primal(0.9, p)

    def best(call: Any) -> float:
        times = []
        for _ in range(30):
            start = time.perf_counter()
            call(0.9, p)
            times.append(time.perf_counter() - start)
        return min(times)

    assert best(gradient) < 10 * best(primal)  # about 2


def test_the_first_gradient_is_slow() -> None:
    """The first gradient of a long program takes minutes: compile time grows faster than the program.

    https://github.com/FluxML/Zygote.jl/issues/1119, https://github.com/TuringLang/Turing.jl/issues/1754
    """

    def repeated(n: int) -> Any:
        def f(x: np.ndarray) -> Any:
            total = x[0]
            for k in range(n):  # the loop stays a loop, however often it runs
                total = np.sin(total) * x[k % 3] + 0.1
            return total

        return f

    start = time.perf_counter()
    gs.grad(repeated(10_000))(X)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("compiled", [False, True])
def test_a_compiled_tape_replays_the_wrong_branch(compiled: bool) -> None:
    """ "it will compile without complaining but silently return the wrong answer": x < 0 ? 0 : x.

    https://github.com/tpapp/LogDensityProblems.jl/pull/85, https://github.com/JuliaDiff/ReverseDiff.jl/issues/234
    """

    def relu(x: float) -> float:
        return 0.0 * x if x < 0 else x * x

    tape = gs.record(relu, -1.3)
    gradient = tape.compile().gradient if compiled and hasattr(tape.compile(), "gradient") else tape.gradient
    for x, expected in ((-1.3, 0.0), (1.34, 2.68), (-0.2, 0.0), (1.4, 2.8)):
        assert gradient(x) == pytest.approx(expected)
        assert gs.grad(relu, engine="tape")(x) == pytest.approx(expected)
        assert gs.grad(relu)(x) == pytest.approx(expected)


@engines
def test_type_annotated_code_is_refused(engine: str) -> None:
    """ "no method matching Float64(::ForwardDiff.Dual…)": annotated functions and preallocated float arrays.

    https://github.com/JuliaDiff/ForwardDiff.jl/issues/132, https://github.com/JuliaDiff/ForwardDiff.jl/issues/611
    """

    def f(mu: np.ndarray) -> float:
        n: int = len(mu)
        cache: np.ndarray = np.zeros(n, dtype=np.float64)
        for k in range(n):
            value: float = mu[k] ** 2 * float(k + 1)
            cache[k] = value
        if not isinstance(n, int) or not isinstance(mu, np.ndarray):
            raise TypeError
        return float(np.sum(cache))

    def g(mu: np.ndarray) -> Any:
        return np.sum(np.array([m * m for m in mu], dtype=float))

    if engine == "source":  # a recorded float() needs the number itself
        assert_gradient(f, X, engine)
    assert_gradient(g, X, engine)


@engines
def test_gradients_are_nothing(engine: str) -> None:
    """An argument without influence has the gradient `nothing`, of no use in arithmetic.

    https://github.com/FluxML/Zygote.jl/issues/275, https://github.com/FluxML/Zygote.jl/issues/1538
    """
    unused = gs.grad(lambda x, y: np.sum(y), (0, 1), engine=engine)
    by_x, by_y = unused(X, 2 * X)
    np.testing.assert_array_equal(by_x, np.zeros(3))
    np.testing.assert_array_equal(by_y, np.ones(3))
    assert gs.grad(lambda x: 20.0, engine=engine)(1.0) == 0.0
    by_model = gs.grad(lambda m: m["a"] ** 2, engine=engine)({"a": 3.0, "b": X})
    assert by_model["a"] == 6.0
    np.testing.assert_array_equal(by_model["b"], np.zeros(3))


@engines
def test_dictionaries(engine: str) -> None:
    """Gradients through dictionaries raise or are `nothing`.

    https://github.com/FluxML/Zygote.jl/issues/760, https://github.com/FluxML/Zygote.jl/issues/1309,
    https://github.com/FluxML/Zygote.jl/issues/717
    """

    def f(x: np.ndarray) -> Any:
        d = {}
        for i in range(1, 5):
            d[i] = i * x[i % 3] ** 2
        d.setdefault("rest", x[0])
        return sum(d.values()) + (lambda: d[2])()

    assert_gradient(f, X, engine)
    gradient = gs.grad(lambda d: (lambda: d["y"])() * d["x"], engine=engine)({"y": 0.4, "x": 2.0})
    assert gradient == {"y": 2.0, "x": 0.4}


class Boxed:
    def __init__(self, x: Any):
        self.x = x


@engines
def test_struct_mutation_gives_wrong_numbers(engine: str) -> None:
    """Mutable structs: silently wrong gradients for a reference inside a reference, and after a field was set.

    https://github.com/FluxML/Zygote.jl/issues/1111, https://github.com/FluxML/Zygote.jl/issues/93
    """

    def twice_boxed(b: Any) -> Any:
        return abs(b.x.x) ** 2 + 7 * b.x.x

    gradient = gs.grad(twice_boxed, engine=engine)(Boxed(Boxed(1.5)))
    assert type(gradient) is Boxed and type(gradient.x) is Boxed and gradient.x.x == 2 * 1.5 + 7

    def written(x: np.ndarray) -> Any:
        box = Boxed(x[0])
        other = box
        box.x = box.x * x[1]
        other.x += x[2]
        return box.x**2

    assert_gradient(written, X, engine)


@engines
def test_perturbation_confusion(engine: str) -> None:
    """A derivative inside a derivative that captures the outer variable: D(x -> x * D(y -> x + y, 1), 1) is 1, not 2.

    https://github.com/JuliaDiff/ForwardDiff.jl/issues/83, https://github.com/JuliaDiff/ForwardDiff.jl/issues/313,
    https://github.com/JuliaDiff/ReverseDiff.jl/issues/45
    """
    for outer in (gs.derivative, gs.grad):
        for inner in (gs.derivative, gs.grad):
            assert outer(lambda x, D=inner: x * D(lambda y: x + y)(1.0), engine=engine)(1.0) == 1.0
            assert outer(lambda x, D=inner: x * D(lambda y: x * y)(1.0), engine=engine)(4.0) == 8.0

    class Confuse:
        def __init__(self, whoami: bool, x: Any):
            self.whoami, self.x = whoami, x

        def __call__(self, xy: Any) -> Any:
            if self.whoami:
                return xy * gs.derivative(Confuse(False, xy))(1.0)
            return self.x + xy

    assert gs.derivative(Confuse(True, 0.0), engine=engine)(1.0) == 1.0


@pytest.mark.parametrize("transform", [gs.grad, gs.derivative])
def test_what_is_equal_on_an_interval_has_the_derivative_of_the_branch_taken(transform: Any) -> None:
    """``relu(x) == 0`` holds for every x < 0, not at a point: the branch taken is the one around."""

    def by_or(x: Any) -> Any:
        return (x > 0 and x * x) or -x

    def by_max(x: Any) -> Any:
        h = max(0.0, x)
        return -3.0 * x if h == 0 else h * h

    def by_where(x: Any) -> Any:
        h = np.where(x > 0, x, 0.0) * 2.0
        return x * x if h == 0 else h

    def by_mask(x: Any) -> Any:
        h = x * (x > 0)
        return 5.0 * x if h == 0 else h

    def in_a_loop(x: Any) -> Any:
        h = 0.0
        for k in range(12):
            h = h + max(0.0, x - k)
        return 7.0 * x if h == 0 else h

    for f, slope in ((by_or, -1.0), (by_max, -3.0), (by_where, -1.0), (by_mask, 5.0), (in_a_loop, 7.0)):
        assert transform(f)(-0.5) == pytest.approx(slope)


@pytest.mark.parametrize("transform", [gs.grad, gs.derivative])
def test_equality_branches_drop_derivatives(transform: Any) -> None:
    """A branch on equality, taken at one point only, has the derivative zero there: x == 1 ? one(x) : x^2 at 1.

    https://github.com/JuliaDiff/ForwardDiff.jl/issues/480
    """
    assert transform(lambda x: 1.0 if x == 1 else x**2)(1.0) == 2.0
    assert transform(lambda x: x**2 if x != 1 else 1.0)(1.0) == 2.0
    assert transform(lambda x: 0.0 if x == 0 else np.sin(3 * x))(0.0) == 3.0

    def guarded(x: float) -> float:
        if x == 0:
            return 0.0
        y = x * 2.0
        return y * np.cos(x)

    assert transform(guarded)(0.0) == 2.0
    assert transform(guarded)(0.5) == pytest.approx(differences(guarded, 0.5))


def test_guards_against_a_singular_point_keep_their_own_derivative() -> None:
    """… but a branch that keeps the other from dividing by zero, or from an infinite slope, is the one that counts."""
    assert gs.grad(lambda x: np.float64(1.0) if x == 0 else np.sin(x) / x)(np.float64(0.0)) == 0.0

    def norm(x: np.ndarray) -> Any:
        s = np.sum(x**2)
        return 0.0 if s == 0 else np.sqrt(s)

    np.testing.assert_array_equal(gs.grad(norm)(np.zeros(3)), np.zeros(3))
    np.testing.assert_allclose(gs.grad(norm)(X), X / np.linalg.norm(X))
