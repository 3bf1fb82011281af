"""vmap: axes for the parts of structures, what is passed whole, arguments by name, and clear errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs

modes = pytest.mark.parametrize(
    "options", [{}, {"backend": "python"}, {"engine": "tape"}], ids=["native", "python", "tape"]
)

ONE = np.array([0.3, 0.4, 0.9])
ROWS = np.arange(12.0).reshape(4, 3) / 10
B = np.arange(4.0)


class Model:
    def __init__(self, w: Any, b: Any, activation: Any = None):
        self.w = w
        self.b = b
        self.activation = activation


@modes
def test_axes_of_parts(options: Any) -> None:
    expected = ROWS * ONE + B[:, None]
    close = np.testing.assert_allclose
    close(
        gs.vmap(lambda p, x: p["w"] * x + p["b"], ({"w": None, "b": 0}, 0), **options)({"w": ONE, "b": B}, ROWS),
        expected,
    )
    close(gs.vmap(lambda p, x: p[0] * x + p[1], ((None, 0), 0), **options)((ONE, B), ROWS), expected)
    close(gs.vmap(lambda p, x: p[0]["k"] * x + p[1], ([None, 0], 0), **options)([{"k": ONE}, B], ROWS), expected)
    by_attribute = gs.vmap(lambda m, x: m.activation(m.w * x + m.b), (Model(None, 0), 0), **options)
    close(by_attribute(Model(ONE, B, np.sin), ROWS), np.sin(expected))


@modes
def test_names_and_functions_in_a_model_are_passed_whole(options: Any) -> None:
    stacked = Model(ROWS, B, np.sin)
    f = lambda m: np.sum(m.activation(m.w * m.b))  # noqa: E731
    np.testing.assert_allclose(gs.vmap(f, **options)(stacked), np.sum(np.sin(ROWS * B[:, None]), axis=1))
    g = gs.vmap(gs.grad(f), **options)(stacked)
    np.testing.assert_allclose(g.w, np.cos(ROWS * B[:, None]) * B[:, None])
    assert g.b.shape == (4,) and g.activation is np.sin


@modes
def test_axes_of_results(options: Any) -> None:
    first, second = gs.vmap(lambda x: (x, np.sum(x)), 0, (1, 0), **options)(ROWS)
    np.testing.assert_allclose(first, ROWS.T)
    np.testing.assert_allclose(second, ROWS.sum(axis=1))
    r = gs.vmap(lambda x: {"a": x, "b": x}, 0, {"a": -1, "b": 0}, **options)(ROWS)
    np.testing.assert_allclose(r["a"], ROWS.T)
    np.testing.assert_allclose(r["b"], ROWS)


@modes
def test_arguments_by_name(options: Any) -> None:
    f = lambda x, scale: x * scale  # noqa: E731
    np.testing.assert_allclose(gs.vmap(f, **options)(ROWS, scale=B), ROWS * B[:, None])


@pytest.mark.parametrize(
    ("in_axes", "out_axes", "message"),
    [
        (0, 5, "out_axes 5 for results that have 2 dimensions"),
        (0, None, "out_axes None"),
        (0, (0, 1), "out_axes is an axis"),
        (({"u": 0},), 0, "in_axes is an axis"),
        (("a",), 0, "in_axes is an axis"),
        (2, 0, "axis 2 of an argument with 2 dimensions"),
    ],
)
def test_axes_that_do_not_fit(in_axes: Any, out_axes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gs.vmap(lambda x: x, in_axes, out_axes)(ROWS)


@pytest.mark.filterwarnings("ignore:.*recorded on a tape")
@pytest.mark.parametrize("engine", ("auto", "tape"))
def test_errors_that_the_function_handles(engine: str) -> None:
    """Whether nobody needs what raises, and whether it raises in all rows, in some or in none."""

    def unused(x: Any, s: Any, n: int) -> Any:
        try:
            x[n]
            s = 0.3 * s
        except IndexError:
            s = s + x[0]
        return s * s

    def in_some(x: Any, s: Any, n: int) -> Any:
        try:
            x[int(s > 2.0) + n]
            return s * x[0]
        except IndexError:
            return s * s

    x, rows = np.arange(1.0, 5.0), np.array([1.0, 2.5, 3.0])
    for f in (unused, in_some):
        gradient = gs.grad(f, 1, engine=engine)
        every = gs.vmap(gradient, (None, 0, None), engine=engine)
        for n in (1, 3, 4, 2, 3):
            expected = [(f(x, s + 1e-6, n) - f(x, s - 1e-6, n)) / 2e-6 for s in rows]
            np.testing.assert_allclose(every(x, rows, n), expected, rtol=1e-8)

    def never_handled(x: Any, s: Any) -> Any:
        return x[5] * s

    with pytest.raises(IndexError):
        gs.vmap(gs.grad(never_handled, 1), (None, 0), engine=engine)(x, rows)
