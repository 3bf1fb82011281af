"""Functions of ``math`` and NumPy, and those with rules, however recorded code reaches them; nothing stays replaced."""

from __future__ import annotations

import builtins
import functools
import math
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

X = 0.7
TABLE = {"tanh": math.tanh, "list": [math.exp]}
MODULE = types.ModuleType("some_module")
MODULE.sine = math.sin  # type: ignore[attr-defined]


class Activation:
    cube: Any = None
    sine = math.sin
    tangent = staticmethod(math.tan)
    __slots__ = ("function", "xp")

    def __init__(self) -> None:
        self.function = math.tanh
        self.xp = np


ACTIVATION = Activation()


def _default(x: Any, function: Any = math.cos, *, other: Any = math.sin) -> Any:
    return function(x) * other(x)


def _imported(x: Any) -> Any:
    import math as m
    from math import tanh

    import numpy as xp

    y = xp.zeros(2)
    y[0] = x
    return m.sin(y[0]) * tanh(x)


REACHED: dict[str, tuple[Callable[..., Any], Callable[[float], float]]] = {
    "dict": (lambda x: TABLE["tanh"](x), math.tanh),  # type: ignore[operator]
    "list in a dict": (lambda x: TABLE["list"][0](x), math.exp),  # type: ignore[index]
    "module": (lambda x: MODULE.sine(x), math.sin),
    "class": (lambda x: Activation.sine(x), math.sin),
    "class through an object": (lambda x: ACTIVATION.sine(x), math.sin),
    "static method": (lambda x: ACTIVATION.tangent(x), math.tan),
    "slot": (lambda x: ACTIVATION.function(x), math.tanh),
    "module in a slot": (lambda x: ACTIVATION.xp.array([x, 1.0])[0] * 1.0, lambda x: x),
    "defaults": (_default, lambda x: math.cos(x) * math.sin(x)),
    "import": (_imported, lambda x: math.sin(x) * math.tanh(x)),
    "map": (lambda x: sum(map(math.sin, [x, 2 * x])), lambda x: math.sin(x) + math.sin(2 * x)),
    "reduce": (lambda x: functools.reduce(math.hypot, [x, 1.0, x]), lambda x: math.hypot(x, 1.0, x)),
}


@pytest.mark.parametrize("how", REACHED)
def test_functions_of_math_are_recorded_wherever_they_are_found(how: str) -> None:
    f, expected = REACHED[how]
    h = 1e-6
    assert math.isclose(gs.jit(f, engine="tape", backend="python")(X), expected(X))
    slope = (expected(X + h) - expected(X - h)) / (2 * h)
    assert math.isclose(gs.grad(f, engine="tape", backend="python")(X), slope, rel_tol=1e-7)
    assert TABLE == {"tanh": math.tanh, "list": [math.exp]} and ACTIVATION.function is math.tanh and ACTIVATION.xp is np
    assert vars(Activation)["sine"] is math.sin and vars(Activation)["tangent"].__func__ is math.tan
    assert _default.__defaults__ == (math.cos,) and _default.__kwdefaults__ == {"other": math.sin}
    assert "max" not in globals() and "type" not in globals() and "sine" in vars(MODULE)
    assert builtins.__import__.__module__ != "gradsmith.frontend.replacements"


def test_functions_as_arguments_are_what_they_are() -> None:
    def f(x: Any, functions: Any) -> Any:
        first, second = functions
        return first(x) * (2.0 if second is math.sin else 3.0)

    assert math.isclose(gs.grad(f, engine="tape")(X, (math.tanh, math.sin)), 2 * (1 - math.tanh(X) ** 2))
    assert gs.jit(lambda x, g: (x, g), engine="tape")(1.0, math.sin) == (1.0, math.sin)


def test_classes_of_recorded_values() -> None:
    def scalar(x: Any) -> Any:
        class Meta(type):
            pass

        class Made(metaclass=Meta):
            pass

        by_class = {float: 2.0, int: 3.0}[type(x)]
        known = type(x) is float and type(x) == float and type(Made) is Meta and isinstance(Made, type)  # noqa: E721
        made = type("Local", (), {"y": x})
        return by_class * made().y if known and type(made) is type(int) else x

    def array(x: Any) -> Any:
        return x.sum() * 2 if type(x) is np.ndarray and type(x[0]) is np.float64 else x.sum()

    assert gs.grad(scalar, engine="tape")(X) == 2.0
    np.testing.assert_array_equal(gs.grad(array, engine="tape")(np.ones(2)), [2.0, 2.0])


cube = (3.0).__rpow__
gs.define_rule(cube, vjp=lambda x: (cube(x), lambda g: g * 5.0), like=0.0)


def squared(x: Any) -> Any:
    return x * x


gs.define_rule(squared, vjp=lambda x: (squared(x), lambda g: g * 7.0 * x))


def _by_default(x: Any, f: Any = squared) -> Any:
    return f(x)


class Owner:
    method = squared
    static = staticmethod(squared)

    def __init__(self) -> None:
        self.own = squared
        self.cube = cube


OWNER, FUNCTIONS = Owner(), [squared, {"f": squared}]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: squared(x),
        lambda x: OWNER.own(x),
        lambda x: Owner.method(x),
        lambda x: OWNER.static(x),
        lambda x: FUNCTIONS[0](x),  # type: ignore[operator]
        lambda x: FUNCTIONS[1]["f"](x),  # type: ignore[index]
        _by_default,
        lambda x: sum(map(squared, [x])),
    ],
)
def test_rules_count_however_the_function_is_reached(f: Any) -> None:
    for x in (2.0, 3.0):
        assert gs.grad(f, engine="tape", backend="python")(x) == 7.0 * x
    tape = gs.record(f, 1.0)
    assert [tape.gradient(x) for x in (1.0, 2.0)] == [7.0, 14.0] and tape.value(3.0) == 9.0
    assert FUNCTIONS[0] is squared and vars(Owner)["method"] is squared and OWNER.own is squared


def test_a_function_with_a_rule_that_cannot_be_replaced_is_refused() -> None:
    hidden = (squared,)  # a tuple cannot be written to
    with pytest.raises(gs.UnsupportedCode, match="squared has a rule"):
        gs.grad(lambda x: hidden[0](x), engine="tape")(2.0)


def test_threads_record_side_by_side() -> None:
    wrong: list[Any] = []
    barrier = threading.Barrier(4)

    def f(x: Any) -> Any:
        y = np.zeros(3)
        for k in range(3):
            y[k] = math.sin(x) * TABLE["tanh"](x) * k  # type: ignore[operator]
        return np.sum(y)

    def work(seed: int) -> None:
        barrier.wait()
        for k in range(6):
            x = 0.1 + 0.1 * seed + 0.01 * k
            expected = 3 * (math.cos(x) * math.tanh(x) + math.sin(x) * (1 - math.tanh(x) ** 2))
            try:
                if not math.isclose(gs.record(f, x).gradient(x), expected):
                    wrong.append(x)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and TABLE["tanh"] is math.tanh and "max" not in globals() and type(math) is type(np)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_nothing_stays_replaced_after_an_error(error: type[BaseException]) -> None:
    def inner(x: Any) -> Any:
        raise error

    def f(x: Any) -> Any:
        return gs.grad(inner)(x) + TABLE["tanh"](x)  # type: ignore[operator]

    with pytest.raises(error):
        gs.grad(f, engine="tape")(1.0)
    assert TABLE["tanh"] is math.tanh and isinstance(np, types.ModuleType) and np.zeros is np.__dict__["zeros"]
    assert "print" not in globals() and builtins.__import__.__module__ != "gradsmith.frontend.replacements"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_nothing_stays_after_an_interrupt_at_any_instruction() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = np.zeros(3)
        for k in range(10):
            y[k % 3] += math.sin(x) * TABLE["tanh"](x)  # type: ignore[operator]
        kept.append(x)
        return np.sum(y)

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    gs.record(f, X)
    begin = time.perf_counter()
    gs.record(f, X)
    duration = time.perf_counter() - begin
    limit, before = sys.getrecursionlimit(), signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + duration * k / 150)
                gs.record(f, X)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                assert TABLE["tanh"] is math.tanh and type(math) is type(np) is types.ModuleType
                assert "max" not in globals() and sys.getrecursionlimit() == limit
            assert all(type(x) is float for x in kept)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_recursion_and_recordings_inside_recordings() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else power(x, n - 1) * math.exp(x)

    def f(x: Any) -> Any:
        tape = gs.record(lambda y: math.sin(y) * power(y, 2), 0.3)
        return tape.value(0.5) * power(x, 3) + gs.record(math.cos, 0.1).gradient(0.2)

    value = math.sin(0.5) * 0.5 * math.exp(1.0)
    assert math.isclose(gs.grad(f, engine="tape")(X), value * math.exp(3 * X) * (1 + 3 * X))


def test_what_the_function_assigns_stays() -> None:
    holder: dict[str, Any] = {"f": math.sin}

    def f(x: Any) -> Any:
        y = holder["f"](x)
        holder["f"] = math.cos
        return y

    assert math.isclose(gs.grad(f, engine="tape", backend="python")(X), math.cos(X))
    assert holder["f"](0.0) == 1.0
    assert math.isclose(gs.grad(f, engine="tape", backend="python")(X), -math.sin(X))


def test_text_of_recorded_numbers_decides_for_one_call() -> None:
    def f(x: Any, n: int) -> Any:
        return x * {"1": 1.0, "2": 2.0}[f"{x:.0f}"] * len(str(n))

    tape = gs.record(f, 1.2, 5)
    assert [tape.gradient(x, n, argnums=0) for x, n in ((1.2, 5), (1.9, 5), (1.2, 10), (2.0, 7))] == [
        1.0,
        2.0,
        2.0,
        2.0,
    ]
    for g in (lambda x: float(str(x)), lambda x: float(f"{x:.17g}"), lambda x: float(repr(x))):
        with pytest.raises(gs.UnsupportedCode, match="text"):
            gs.grad(g, engine="tape")(1.5)
