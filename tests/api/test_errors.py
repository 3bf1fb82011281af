"""Bad input: the right exception, with the user's file and line, saying what to do; and the next call is right."""

# ruff: noqa: B023  (the lambdas are called at once)
from __future__ import annotations

import dis
import inspect
import math
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.spatial.distance

import gradsmith as gs

X = np.array([1.0, 2.0, 3.0])
HERE = __file__


def line_of(f: Callable[..., Any], mark: str) -> int:
    """The number of the line of ``f`` that holds ``mark``."""
    lines, first = inspect.getsourcelines(f)
    return first + next(k for k, line in enumerate(lines) if mark in line)


def said(error: BaseException) -> str:
    """All that the user sees of an error: its message and notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def fails(
    call: Callable[[], Any], kind: type[BaseException], *patterns: str, at: tuple[Callable[..., Any], str] | None = None
) -> None:
    """``call()`` raises ``kind``; its text matches ``patterns`` and names the line ``at`` (function, mark)."""
    with pytest.raises(kind) as info:
        call()
    text = said(info.value)
    for pattern in patterns:
        assert re.search(pattern, text), f"{pattern!r} is not in:\n{text}"
    if at is not None:
        last = traceback.extract_tb(info.value.__traceback__)[-1]
        assert (last.filename, last.lineno) == (HERE, line_of(*at))
        assert HERE not in text, f"the location twice:\n{text}"


# ---- what cannot be differentiated -----------------------------------------------------------------------------------


def test_an_integer_argument(backend: str) -> None:
    g = gs.grad(lambda x: x * 2.0, backend=backend)
    fails(lambda: g(3), gs.NotDifferentiable, "argument 0", "int", r"3\.0|float")
    fails(lambda: g(np.arange(3)), gs.NotDifferentiable, "int64", "float")
    fails(lambda: g(np.int32(3)), gs.NotDifferentiable, "int32")
    fails(lambda: g(True), gs.NotDifferentiable)
    fails(lambda: g("text"), TypeError, "str")
    fails(lambda: g(None), gs.NotDifferentiable)
    fails(lambda: g({"k": 3, "name": "a"}), gs.NotDifferentiable, "argument 0")
    fails(lambda: g(np.array([True])), gs.NotDifferentiable, "bool")
    assert g(3.0) == 2.0
    for transform in (gs.value_and_grad, gs.jacobian, gs.hessian, gs.derivative):
        fails(lambda t=transform: t(lambda x: x * 2.0, backend=backend)(3), gs.NotDifferentiable, "int")
    fails(lambda: gs.jvp(lambda x: x * 2.0, (3,), (1,), backend=backend), gs.NotDifferentiable, "int")
    fails(lambda: gs.grad(lambda x, k: x * k, 1, backend=backend)(2.0, 3), gs.NotDifferentiable, "argument 1")
    assert issubclass(gs.NotDifferentiable, TypeError)


def test_a_result_that_is_not_one_real_number(backend: str) -> None:
    def f(x: Any) -> Any:
        return x * 2

    def nothing(x: Any) -> Any:
        x * 2  # noqa: B018

    cases: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
        (f, ("f returned an array", "jacobian")),
        (nothing, ("nothing returned None", "return")),
        (lambda x: np.sum(x, keepdims=True), ("array", r"\[0\]|keepdims|element")),
        (lambda x: (np.sum(x), 1.0), ("tuple", "has_aux")),
        (lambda x: [np.sum(x)], ("list",)),
        (lambda x: {"a": np.sum(x)}, ("dict",)),
        (lambda x: int(np.sum(x)), ("int",)),
        (lambda x: np.argmax(x), ("int",)),
        (lambda x: len(x), ("int",)),
        (lambda x: np.sum(x) > 0, ("bool",)),
        (lambda x: np.sum(x) * 1j, ("complex", "real")),
        (lambda x: "text", ("str",)),
    ]
    for function, patterns in cases:
        fails(lambda: gs.grad(function, backend=backend)(X), gs.NotDifferentiable, *patterns)
    fails(lambda: gs.jacobian(lambda x: np.argsort(x), backend=backend)(X), gs.NotDifferentiable, "int64")
    fails(lambda: gs.jacobian(lambda x: x > 0, backend=backend)(X), gs.NotDifferentiable, "bool")
    fails(lambda: gs.jacobian(nothing, backend=backend)(X), gs.NotDifferentiable, "None")
    fails(lambda: gs.derivative(lambda x: np.array([x, x]), backend=backend)(1.0), gs.NotDifferentiable, "jacobian")
    fails(lambda: gs.derivative(lambda x: x, backend=backend)(1j), gs.NotDifferentiable, "holomorphic")
    fails(lambda: gs.grad(lambda x: np.sum(x), has_aux=True, backend=backend)(X), gs.NotDifferentiable, "pair")
    fails(lambda: gs.hessian(f, backend=backend)(X), gs.NotDifferentiable, "array")


def test_a_result_that_does_not_depend_on_the_argument_is_zero(backend: str) -> None:
    """Zeros, not None and not an error; also for constant functions and unused arguments."""
    assert gs.grad(lambda x: 3.0, backend=backend)(1.0) == 0.0
    assert gs.derivative(lambda x: 3.0, backend=backend)(1.0) == 0.0
    np.testing.assert_array_equal(gs.grad(lambda x: np.sum(np.ones(2)), backend=backend)(X), [0, 0, 0])
    np.testing.assert_array_equal(gs.grad(lambda x, y: np.sum(x), 1, backend=backend)(X, X), [0, 0, 0])
    np.testing.assert_array_equal(gs.jacobian(lambda x: np.ones(2), backend=backend)(X), np.zeros((2, 3)))
    np.testing.assert_array_equal(gs.derivative(lambda x: 3.0, backend=backend)(X), [0, 0, 0])


# ---- source ----------------------------------------------------------------------------------------------------------


def test_a_function_without_source(backend: str) -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n    return x * x\n", scope)
    f = scope["f"]
    fails(
        lambda: gs.grad(f, backend=backend, engine="source")(1.0),
        gs.SourceUnavailable,
        "'f'",
        "<string>",
        "Define the function",
    )
    fails(lambda: gs.grad(eval("lambda x: x"), backend=backend, engine="source")(1.0), gs.SourceUnavailable, "<lambda>")

    def caller(x: Any) -> Any:
        return f(x) + 1.0  # the call

    fails(
        lambda: gs.grad(caller, backend=backend, engine="source")(1.0),
        gs.SourceUnavailable,
        "'f'",
        at=(caller, "# the call"),
    )


def test_not_a_function(backend: str) -> None:
    for transform in (gs.grad, gs.value_and_grad, gs.jacobian, gs.hessian, gs.derivative, gs.jit, gs.hvp):
        fails(lambda t=transform: t(3.0, backend=backend), TypeError, "function", "float")
    fails(lambda: gs.grad(lambda x: x, backend="gpu")(1.0), ValueError, "backend", "native")
    fails(lambda: gs.jacobian(lambda x: x, mode="sideways", backend=backend), ValueError, "mode", "forward")


# ---- unsupported code and missing rules ------------------------------------------------------------------------------


class Manager:
    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *error: Any) -> None:
        return None


def test_unsupported_statements_are_named(backend: str) -> None:
    async def coroutine(x: Any) -> Any:
        return x

    def with_await(x: Any) -> Any:
        async def inner() -> Any:  # the line
            return x

        return x

    fails(
        lambda: gs.grad(with_await, backend=backend, engine="source")(1.0),
        gs.UnsupportedCode,
        at=(with_await, "# the line"),
    )
    fails(lambda: gs.grad(coroutine, backend=backend, engine="source")(1.0), gs.GradsmithError)


SOME_GLOBAL: Any = 0.0


def test_assigning_a_global_is_right_or_refused(backend: str) -> None:
    """The global never holds anything but what Python would have put there."""

    def f(x: Any) -> Any:
        global SOME_GLOBAL
        SOME_GLOBAL = x * 2.0
        return x * SOME_GLOBAL

    try:
        assert gs.grad(f, backend=backend, engine="source")(3.0) == 12.0
    except gs.UnsupportedCode as error:
        assert "SOME_GLOBAL" in str(error)
    assert SOME_GLOBAL in (0.0, 6.0)


@pytest.mark.filterwarnings("ignore::gradsmith.errors.GradsmithWarning")
def test_generators_are_staged_or_named(backend: str) -> None:
    def squares(x: Any) -> Any:
        for v in x:
            yield v * v  # the line

    def f(x: Any) -> Any:
        return sum(squares(x))

    try:
        got = gs.grad(f, backend=backend)(X)
    except gs.UnsupportedCode as error:
        assert f"{HERE}:" in said(error)
    else:
        np.testing.assert_allclose(got, 2 * X)


def test_a_missing_rule_names_the_function_and_the_line(backend: str) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return scipy.spatial.distance.cosine(y, x)  # the call

    def g(x: Any) -> Any:
        return f(x) * 3.0

    for h in (f, g):
        fails(
            lambda: gs.grad(h, backend=backend, engine="source")(X),
            gs.MissingRule,
            "scipy.spatial.distance.*cosine",
            "no rule",
            "outside",
            at=(f, "# the call"),
        )
    fails(
        lambda: gs.grad(lambda x: np.busday_count(x, x), backend=backend, engine="source")(1.0),
        gs.MissingRule,
        "busday_count",
    )
    fails(
        lambda: gs.grad(lambda x: dis.stack_effect(x), backend=backend, engine="source")(1.0),
        gs.MissingRule,
        "stack_effect",
    )
    fails(lambda: gs.grad(lambda x: x.tobytes(), backend=backend, engine="source")(X), gs.MissingRule, "tobytes")
    assert issubclass(gs.MissingRule, NotImplementedError)
    # what does not depend on the argument is simply run
    assert (
        gs.grad(lambda x: scipy.spatial.distance.cosine([1.0, 0.0], [1.0, 1.0]) * x, backend=backend, engine="source")(
            1.0
        )
        > 0
    )


def test_options_without_a_meaning_here_are_refused(backend: str) -> None:
    """An option that the implementation does not know is an error, never ignored."""
    fails(lambda: gs.jit(lambda x: np.sum(x, nonsense=1), backend=backend)(X), TypeError, "nonsense")
    fails(lambda: gs.jit(lambda x: np.sin(x, nonsense=1), backend=backend)(X), TypeError, "nonsense")
    fails(lambda: gs.jit(lambda x: np.sum(x, 5), backend=backend)(X), (ValueError, IndexError))  # numpy: AxisError
    fails(lambda: gs.jit(lambda x: x.nonsense, backend=backend)(X), AttributeError, "nonsense")
    fails(lambda: gs.jit(lambda x: np.nonsense(x), backend=backend)(X), AttributeError, "nonsense")


# ---- Python's own errors ---------------------------------------------------------------------------------------------


def index_in_loop(x: Any, n: int) -> Any:
    total = 0.0
    for i in range(n):
        total += x[i] ** 2  # the index
    return total


def index_beyond(x: Any) -> Any:
    return x[3] * 2.0  # the index


def write_beyond(x: Any, k: int) -> Any:
    y = x * 2
    y[k] = 1.0  # the index
    return np.sum(y)


def fancy_beyond(x: Any, k: Any) -> Any:
    return np.sum(x[k])  # the index


def too_many(x: Any) -> Any:
    return x[0, 1]  # the index


def test_an_index_out_of_range(backend: str) -> None:
    for f, args in (
        (index_in_loop, (X, 4)),
        (index_beyond, (X,)),
        (write_beyond, (X, 3)),
        (write_beyond, (X, -4)),
        (fancy_beyond, (X, np.array([0, 3]))),
        (too_many, (X,)),
    ):
        for transform in (gs.grad, gs.jit, lambda f, backend: gs.jacobian(f, mode="forward", backend=backend)):
            fails(lambda: transform(f, backend=backend)(*args), IndexError, at=(f, "# the index"))
    g = gs.grad(index_in_loop, backend=backend)
    np.testing.assert_array_equal(g(X, 2), [2, 4, 0])
    fails(lambda: g(X, 4), IndexError, "out of bounds|out of range", at=(index_in_loop, "# the index"))
    np.testing.assert_array_equal(g(X, 3), 2 * X)


def test_shapes_that_do_not_fit(backend: str) -> None:
    def add(x: Any, y: Any) -> Any:
        z = x * 2
        return np.sum(z + y)  # the line

    def multiply(x: Any, y: Any) -> Any:
        return np.sum(x @ y)  # the line

    def reshaped(x: Any, y: Any) -> Any:
        return np.sum(x.reshape(2, 2))  # the line

    def assigned(x: Any, y: Any) -> Any:
        z = np.zeros(3)
        z[:2] = x  # the line
        return np.sum(z)

    def joined(x: Any, y: Any) -> Any:
        return np.sum(np.concatenate([x[None], y[None]]))  # the line

    y = np.ones(4)
    for f in (add, multiply, reshaped, assigned, joined):
        for transform in (gs.grad, gs.jit):
            fails(lambda: transform(f, backend=backend)(X, y), ValueError, at=(f, "# the line"))
    g = gs.grad(add, backend=backend)
    fails(lambda: g(X, y), ValueError, "3", "4")
    np.testing.assert_array_equal(g(X, X), [2, 2, 2])
    fails(lambda: g(X, y), ValueError)


def test_a_singular_matrix(backend: str) -> None:
    def solve(a: Any) -> Any:
        return np.sum(np.linalg.solve(a, np.ones(2)))  # the line

    def inverse(a: Any) -> Any:
        return np.sum(np.linalg.inv(a))  # the line

    def cholesky(a: Any) -> Any:
        return np.sum(np.linalg.cholesky(a))  # the line

    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    for f, a in ((solve, singular), (inverse, singular), (cholesky, indefinite)):
        g = gs.grad(f, backend=backend)
        for _ in range(2):
            fails(lambda: g(a), np.linalg.LinAlgError, at=(f, "# the line"))
            assert np.all(np.isfinite(g(3 * np.eye(2))))
        fails(lambda: gs.jit(f, backend=backend)(np.ones((2, 3))), np.linalg.LinAlgError, "square")


def test_division_by_zero_as_in_python_and_numpy(backend: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x / y  # the line

    g = gs.jit(f, backend=backend)
    fails(lambda: g(1.0, 0.0), ZeroDivisionError, "float division by zero", at=(f, "# the line"))
    fails(lambda: g(1, 0), ZeroDivisionError, "division")
    fails(lambda: gs.grad(f, backend=backend)(1.0, 0.0), ZeroDivisionError)
    with np.errstate(all="ignore"):
        assert g(np.float64(1.0), np.float64(0.0)) == np.inf
        assert g(1.0, np.array([0.0]))[0] == np.inf
    assert g(1.0, 4.0) == 0.25
    fails(lambda: gs.jit(lambda x, y: x // y, backend=backend)(1, 0), ZeroDivisionError)
    fails(lambda: gs.jit(lambda x, y: x % y, backend=backend)(1.0, 0.0), ZeroDivisionError)
    fails(lambda: gs.jit(lambda x: x**-1, backend=backend)(0.0), ZeroDivisionError)


def test_math_domain_errors_as_in_python(backend: str) -> None:
    def f(x: Any) -> Any:
        return math.sqrt(x)  # the line

    g = gs.jit(f, backend=backend)
    fails(lambda: g(-1.0), ValueError, "math domain error|nonnegative", at=(f, "# the line"))
    assert g(4.0) == 2.0
    fails(lambda: gs.jit(lambda x: math.log(x), backend=backend)(0.0), ValueError)
    fails(lambda: gs.jit(lambda x: math.acos(x), backend=backend)(2.0), ValueError)
    fails(lambda: gs.jit(lambda x: math.exp(x), backend=backend)(1000.0), OverflowError)
    with np.errstate(all="ignore"):
        assert np.isnan(gs.jit(lambda x: np.sqrt(x), backend=backend)(-1.0))


def test_raise_and_assert(backend: str) -> None:
    def f(x: Any) -> Any:
        if x < 0:
            raise ValueError(f"x must be positive, not {x}")  # the raise
        assert x < 10, "x is too large"  # the assert
        return x * x

    g = gs.grad(f, backend=backend)
    for _ in range(2):
        fails(lambda: g(-2.0), ValueError, "x must be positive, not -2.0", at=(f, "# the raise"))
        fails(lambda: g(20.0), AssertionError, "x is too large", at=(f, "# the assert"))
        assert g(3.0) == 6.0

    class Custom(Exception):
        pass

    def custom(x: Any) -> Any:
        if np.sum(x) > 100:
            raise Custom("sum")
        return np.sum(x)

    fails(lambda: gs.grad(custom, backend=backend)(100 * X), Custom, "sum")
    np.testing.assert_array_equal(gs.grad(custom, backend=backend)(X), [1, 1, 1])


def test_names_attributes_and_arguments(backend: str) -> None:
    def unbound(x: Any) -> Any:
        if x > 100:
            y = x
        return y * 2  # the line

    fails(lambda: gs.grad(unbound, backend=backend)(1.0), UnboundLocalError, "'y'", at=(unbound, "# the line"))
    assert gs.grad(unbound, backend=backend)(200.0) == 2.0

    def undefined(x: Any) -> Any:
        return nowhere_defined * x  # type: ignore[name-defined]  # noqa: F821  # the line

    fails(lambda: gs.grad(undefined, backend=backend)(1.0), NameError, "nowhere_defined", at=(undefined, "# the line"))
    g = gs.grad(lambda x, y: x * y, backend=backend)
    fails(lambda: g(1.0), TypeError, "missing 1 required positional argument: 'y'")
    fails(lambda: g(1.0, 2.0, 3.0), TypeError, "takes 2 positional arguments but 3 were given")
    fails(lambda: g(1.0, z=2.0), TypeError)
    fails(lambda: g(1.0, y=2.0, z=2.0), TypeError, "unexpected keyword argument 'z'")
    fails(lambda: g(1.0, x=2.0), TypeError, "multiple values")
    assert g(1.0, y=2.0) == 2.0
    fails(lambda: gs.jit(lambda d: d["b"], backend=backend)({"a": 1.0}), KeyError, "b")
    fails(lambda: gs.jit(lambda x: x[0], backend=backend)(1.0), TypeError, "subscript")
    fails(lambda: gs.jit(lambda x: x + "a", backend=backend)(1.0), TypeError, "str")
    fails(lambda: gs.jit(lambda x: [v for v in x], backend=backend)(1.0), TypeError, "iterable")
    fails(lambda: gs.jit(lambda x: len(x), backend=backend)(1.0), TypeError, "len")
    fails(lambda: gs.jit(lambda x: x(1), backend=backend)(1.0), TypeError, "callable")
    fails(lambda: gs.jit(lambda x: range(x), backend=backend)(1.0), TypeError, "integer")
    fails(lambda: gs.jit(lambda x: np.zeros(x), backend=backend)(2.5), TypeError, "integer")

    def unpack(x: Any) -> Any:
        a, b = x  # the line
        return a * b

    fails(
        lambda: gs.grad(unpack, backend=backend)(X),
        ValueError,
        "too many values|cannot unpack 3",
        at=(unpack, "# the line"),
    )
    fails(
        lambda: gs.grad(unpack, backend=backend)(X[:1]),
        ValueError,
        "not enough values|cannot unpack 1",
        at=(unpack, "# the line"),
    )


def test_the_truth_of_an_array_is_ambiguous(backend: str) -> None:
    def f(x: Any) -> Any:
        if x > 0:  # the line
            return np.sum(x)
        return np.sum(x * x)

    g = gs.grad(f, backend=backend)
    fails(lambda: g(X), ValueError, "ambiguous", at=(f, "# the line"))
    np.testing.assert_array_equal(g(np.array([2.0])), [1.0])
    np.testing.assert_array_equal(g(np.array([-2.0])), [-4.0])


def test_recursion_without_end(backend: str) -> None:
    def forever(x: Any) -> Any:
        return forever(x * 0.5) + 1.0

    def decided_at_run_time(x: Any) -> Any:
        return x if x < 1 else decided_at_run_time(x / 2)

    fails(lambda: gs.grad(forever, backend=backend)(1.0), RecursionError, "forever")
    try:
        got = gs.grad(decided_at_run_time, backend=backend)(5.0)
    except (RecursionError, gs.UnsupportedCode) as error:
        assert "decided_at_run_time" in said(error)
        assert "loop" in said(error)
    else:
        assert got == 0.125
    assert gs.grad(lambda x: x * x, backend=backend)(3.0) == 6.0

    def deep(x: Any, n: int) -> Any:
        return x if n == 0 else deep(x, n - 1) * 1.0

    assert gs.grad(deep, backend=backend)(1.0, 200) == 1.0


def test_a_loop_without_end_in_staging(backend: str) -> None:
    def f(x: Any) -> Any:
        n = 0
        while True:
            n += 1
            if n > 10**9:
                return x
            x = None if n == 5 else x

    fails(lambda: gs.grad(f, backend=backend, engine="source")(1.0), (gs.GradsmithError, TypeError))


def test_values_needed_while_staging(backend: str) -> None:
    """A choice of structure by data is an error that says so, or is right for both."""

    def f(x: Any, n: int) -> Any:
        total = x
        for i in range(n):
            part = {"a": x} if i == 2 else {"b": x}
            total = total * next(iter(part.values()))
        return total

    g = gs.grad(f, backend=backend)
    for n in (0, 3, 5):
        try:
            assert math.isclose(g(1.5, n), (n + 1) * 1.5**n)
        except gs.GradsmithError as error:
            assert HERE in said(error)


# ---- arguments of the transforms -------------------------------------------------------------------------------------


def test_argnums_that_name_nothing(backend: str) -> None:
    fails(lambda: gs.grad(lambda x: x, 1, backend=backend)(1.0), TypeError, "argnums=1", "1 positional")
    fails(lambda: gs.grad(lambda x: x, "y", backend=backend)(1.0), TypeError, "'y'")
    fails(lambda: gs.grad(lambda x: x, (0, 3), backend=backend)(1.0), TypeError, "argnums=3")
    fails(lambda: gs.grad(lambda x: x, backend=backend)(), TypeError)


def test_tangents_and_cotangents_that_do_not_fit(backend: str) -> None:
    f = lambda x: x * 2.0  # noqa: E731
    fails(lambda: gs.jvp(f, (X,), (np.ones(2),), backend=backend), ValueError, "tangent")
    fails(lambda: gs.jvp(f, (X,), (1.0,), backend=backend), ValueError, "tangent", "dimensions")
    fails(lambda: gs.jvp(f, (X,), (X * 1j,), backend=backend), TypeError, "tangent", "complex")
    fails(lambda: gs.jvp(f, (X,), (X, X), backend=backend), TypeError, "1 primals but 2 tangents")
    fails(lambda: gs.jvp(f, (X,), ((X, X),), backend=backend), (TypeError, ValueError), "tangent")
    fails(lambda: gs.jvp(lambda d: d["a"], ({"a": X},), ({"b": X},), backend=backend), TypeError, "structure")
    fails(lambda: gs.jvp(f, (X,), (None,), backend=backend), TypeError)
    _, pullback = gs.vjp(f, X, backend=backend)
    fails(lambda: pullback(np.ones(4)), ValueError, "cotangent")
    fails(lambda: pullback(1.0), ValueError, "cotangent")
    fails(lambda: pullback((X, X)), (TypeError, ValueError), "cotangent")
    np.testing.assert_array_equal(pullback(X)[0], 2 * X)
    fails(lambda: gs.hvp(lambda x: np.sum(x**2), backend=backend)(X, np.ones(2)), ValueError)
    fails(lambda: gs.hvp(lambda x: np.sum(x**2), backend=backend)(X), TypeError, "two arguments")
    fails(lambda: gs.derivative(f, backend=backend)(1.0, 2.0), TypeError, "one argument")


def test_no_warnings_from_numpy(backend: str) -> None:
    """Overflow, 0/0 and log(0) in a compiled function give inf and nan quietly, like the derivative of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = gs.value_and_grad(lambda x: np.sum(np.log(x) + np.exp(x * 1000) + x / x), backend=backend)
        value, gradient = g(np.array([0.0, 2.0]))
    assert np.isnan(value)
    assert np.isinf(gradient[1])


def test_scipy_functions_that_call_back_are_refused_inside(backend: str) -> None:
    """A solver that calls a function with run-time numbers has no rule yet: an error, never a frozen result."""

    def f(a: Any) -> Any:
        return scipy.optimize.brentq(lambda y: y**3 + y - a, 0.0, 2.0)  # the call

    try:
        got = gs.grad(f, backend=backend)(2.0)
    except gs.GradsmithError as error:
        assert "brentq" in said(error) or HERE in said(error)
    else:
        assert math.isclose(got, 0.25, rel_tol=1e-6)


@pytest.mark.parametrize("argnums", [(0, 0), (0, -2), (0, "a")])
def test_argnums_that_name_an_argument_twice(argnums: Any) -> None:
    with pytest.raises(gs.NotDifferentiable, match="twice"):
        gs.grad(lambda a, b: a * b, argnums)(1.0, 2.0)


@pytest.mark.parametrize("argnums", [None, 1.5, (0, None)])
def test_argnums_of_other_kinds(argnums: Any) -> None:
    with pytest.raises(TypeError, match="argnums"):
        gs.grad(lambda a, b: a * b, argnums)


def test_grad_takes_a_function() -> None:
    with pytest.raises(TypeError, match="grad takes a function, not float"):
        gs.grad(3.0)  # type: ignore[arg-type]
