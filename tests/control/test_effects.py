"""Printing, logging, warnings, clocks and host functions: once per call, in order, whatever else is compiled."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import MissingRule

both = pytest.mark.parametrize("backend", ["native", "python"])
LOGGER = logging.getLogger("tests.control")


class Point:
    def __init__(self, x: Any):
        self.x = x

    def __repr__(self) -> str:
        return f"Point({self.x})"


def talkative(x: Any, n: int) -> Any:
    print("start")
    items = [x, 2]
    for k in range(n):
        x = np.sin(x) + x
        if x > 1.0:
            print(f"step {k}: {x:.3f}", x, sep=" | ")
        else:
            print("small", {"x": x, "k": k}, (items, Point(x)))
        items = [x, k]
    print("end", "of %d steps" % n, end=".\n")  # noqa: UP031
    return x * x


@both
@pytest.mark.parametrize("transform", [gs.jit, gs.grad, gs.derivative, gs.hessian])
def test_prints_as_python_does(transform: Any, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = transform(lambda x: talkative(x, 3), backend=backend)
    for x in (0.2, 0.9, 0.2):
        compiled(x)
        found = capsys.readouterr().out
        talkative(x, 3)
        assert found == capsys.readouterr().out


@both
def test_prints_that_need_no_result_stay_in_order(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        for k in range(3):
            print("outer", k)
            for j in range(2):
                print("inner", j, x[j])
        y = np.exp(x)  # not needed by the result
        print(y)
        return np.sum(x)

    x = np.array([1.0, 2.0])
    gs.grad(f, backend=backend)(x)
    found = capsys.readouterr().out
    f(x)
    assert found == capsys.readouterr().out


@both
def test_printed_arrays_are_what_they_were(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An effect that keeps its argument is not affected by later writes."""
    kept: list[Any] = []
    keep = gs.host(kept.append)

    def f(x: Any) -> Any:
        y = x * 2.0
        keep(y)
        y[0] = 100.0
        keep(y)
        return np.sum(y)

    gs.grad(f, backend=backend)(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(kept[0], [2.0, 4.0])
    np.testing.assert_array_equal(kept[1], [100.0, 4.0])


@both
def test_logging(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        LOGGER.info("x is %s and %.2f", x, x)
        logging.warning("careful")
        LOGGER.debug("hidden %s", x)
        return x**2

    g = gs.grad(f, backend=backend)
    with caplog.at_level(logging.INFO):
        g(3.0)
        g(4.0)
    assert caplog.messages == ["x is 3.0 and 3.00", "careful", "x is 4.0 and 4.00", "careful"]


@both
def test_warnings_name_the_users_line(backend: str) -> None:
    def f(x: Any) -> Any:
        if x > 1.0:
            warnings.warn(f"large: {x}", RuntimeWarning, stacklevel=1)
        return x**2

    g = gs.grad(f, backend=backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x in (0.5, 2.0, 3.0):
            g(x)
    assert [str(w.message) for w in caught] == ["large: 2.0", "large: 3.0"]
    assert all(w.category is RuntimeWarning and w.filename == __file__ for w in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match=r"large: 5\.0"):
            g(5.0)


@both
def test_host_functions_with_a_result(backend: str) -> None:
    served: Iterator[float] = iter([1.0, 2.0, 3.0, 4.0])
    read = gs.host(
        lambda scale: {"value": next(served) * scale, "row": np.arange(2.0)}, like={"value": 0.0, "row": np.zeros(0)}
    )

    def f(x: Any) -> Any:
        total = 0.0
        for _ in range(2):
            got = read(2.0)
            total = total + got["value"] * x + np.sum(got["row"])
        return total

    g = gs.value_and_grad(f, backend=backend)
    assert g(1.0) == (8.0, 6.0)
    assert g(1.0) == (16.0, 14.0)
    with pytest.raises(StopIteration):
        g(1.0)


@both
def test_a_host_result_has_no_derivative(backend: str) -> None:
    square = gs.host(lambda x: x * x, like=0.0)
    with pytest.raises(MissingRule, match="no derivative"):
        gs.grad(lambda x: square(x), backend=backend, engine="source")(2.0)
    assert gs.grad(lambda x: gs.stop_gradient(square(gs.stop_gradient(x))) * x, backend=backend)(2.0) == 4.0


@both
def test_clocks_run(backend: str) -> None:
    def f(x: Any) -> Any:
        begin = time.perf_counter()
        y = np.sin(x)
        return y * 0.0 + time.perf_counter() - begin

    g = gs.jit(f, backend=backend)
    assert 0.0 <= g(1.0) < 10.0
    assert gs.jit(lambda: time.time(), backend=backend)() == pytest.approx(time.time(), abs=5.0)


@both
def test_a_call_that_fails_half_way_starts_afresh(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any, k: int) -> Any:
        print("before")
        return x[k] ** 2

    g = gs.grad(f, backend=backend)
    x = np.array([1.0, 2.0])
    g(x, 0)
    with pytest.raises(IndexError):
        g(x, 5)
    g(x, -1)
    assert capsys.readouterr().out == "before\n" * 3


def test_a_specialisation_that_does_not_fit_prints_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A guard fails after the first print; the function is staged anew, and the print is not repeated."""

    def f(x: Any, n: int) -> Any:
        print("n =", n)
        if n > 2:
            return x**2
        return {"small": x}["small"]

    g = gs.jit(f)
    for n in (1, 3, 1, 5):
        g(2.0, n)
    assert capsys.readouterr().out == "n = 1\nn = 3\nn = 1\nn = 5\n"


def test_source_shows_the_calls() -> None:
    text = gs.grad(talkative).source(0.2, 2)
    assert "print('start')" in text and "print('step {}: {:.3f}'.format(" in text
