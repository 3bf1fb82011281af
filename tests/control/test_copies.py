"""What stop_gradient, hook and functions with a rule return shares no arrays with what they took, in Python and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs

engines = pytest.mark.parametrize("engine", ["source", "tape"])


@gs.custom_vjp
def same(x: Any) -> Any:
    return x


same.defvjp(lambda x: (x, None), lambda _, g: (g,))


@gs.custom_jvp
def tail(x: Any) -> Any:
    return x[1:]


tail.defjvp(lambda primals, tangents: (primals[0][1:], tangents[0][1:]))

WAYS = {
    "stop_gradient": gs.stop_gradient,
    "hook": lambda x: gs.hook(x, lambda g: g),
    "custom_vjp": same,
    "custom_jvp": tail,
    "forward_mode": gs.forward_mode(lambda x: x),
    "reverse_mode": gs.reverse_mode(lambda x: x[:2]),
}


@engines
@pytest.mark.parametrize("way", WAYS)
def test_writes_are_not_seen_in_copies(way: str, engine: str) -> None:
    make = WAYS[way]

    def into_the_original(x: Any) -> Any:
        y = 2 * x
        z = make(y)
        y[1] = 10.0
        return np.sum(y) + 3 * np.sum(z)

    def into_the_copy(x: Any) -> Any:
        y = 2 * x
        z = make(y)
        z[0] = 10.0
        return np.sum(y) + 3 * np.sum(z)

    x = np.array([1.0, 2.0, 3.0])
    for f in (into_the_original, into_the_copy):
        np.testing.assert_allclose(gs.jit(f, engine=engine)(x), f(x))


@engines
@pytest.mark.parametrize("make", [gs.stop_gradient, lambda x: gs.hook(x, lambda g: g)])
def test_copies_of_structures(make: Any, engine: str) -> None:
    def f(x: Any) -> Any:
        parts = [2 * x, 1.0, {"k": 3.0, "int": np.arange(3)}]
        copy = make(parts)
        parts[0][0] = 10.0
        parts[1] = 5.0
        parts[2]["int"][0] = 2
        return np.sum(copy[0]) * copy[1] * copy[2]["k"] + x[copy[2]["int"][0]]

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(gs.jit(f, engine=engine)(x), f(x))


@engines
def test_hooks_that_branch_and_keep_what_they_see(engine: str) -> None:
    def shortened(g: Any) -> Any:
        n = np.linalg.norm(g)
        return g if n < 1 else g / n

    def refuses(g: Any) -> None:
        if np.any(g > 5):
            raise ValueError("too large")

    x, seen = np.array([3.0, 4.0]), []  # type: ignore[var-annotated]
    pulled = gs.grad(lambda x, s: s * np.sum(gs.hook(x, shortened)), engine=engine)
    np.testing.assert_allclose(pulled(x, 5.0), np.sqrt([0.5, 0.5]))
    np.testing.assert_allclose(pulled(x, 0.1), [0.1, 0.1])
    checked = gs.grad(lambda x, s: s * np.sum(gs.hook(x, refuses)), engine=engine)
    np.testing.assert_allclose(checked(x, 5.0), [5.0, 5.0])
    with pytest.raises(ValueError, match="too large"):
        checked(x, 6.0)
    for _ in range(2):
        gs.grad(lambda x: np.sum(gs.hook(x, seen.append) ** 2), engine=engine)(x)
    np.testing.assert_allclose(seen, [2 * x, 2 * x])


@engines
def test_host_functions_made_where_they_are_called(engine: str) -> None:
    def double(v: Any) -> Any:
        return 2 * np.asarray(v)

    f = lambda x: np.sum(gs.host(double, like=np.zeros(1))(gs.stop_gradient(x)) * x)  # noqa: E731
    np.testing.assert_allclose(gs.grad(f, engine=engine)(np.array([1.0, 2.0])), [2.0, 4.0])
