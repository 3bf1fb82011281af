"""Exceptions around numeric code: one compiled object serves calls that raise and calls that do not."""

from __future__ import annotations

import contextlib
import functools
import math
import traceback
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()

SPD = np.array([[2.0, 0.3], [0.3, 1.0]])
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


def chosen(x: Any) -> Any:
    if x > 0:
        raise ValueError(f"positive {x:.2f}")
    else:
        raise KeyError("negative")


def test_a_function_that_always_raises() -> None:
    for f in (gs.jit(chosen, engine="source"), gs.grad(chosen, engine="source")):
        with pytest.raises(ValueError, match="positive 2.00"):
            f(2.0)
        with pytest.raises(KeyError, match="negative"):
            f(-2.0)


@case([2.0], [-2.0], [3.0])
def every_path_raises(x: float) -> Any:
    class Deep(Exception):
        pass

    def doubled(y: Any) -> Any:
        if y > 10:
            raise Deep(y)
        return doubled(y * 1.7 + 0.1)

    try:
        chosen(x)
    except ValueError:
        total = x * x
    except KeyError:
        total = 3.0 * x
    try:
        doubled(abs(x))
    except Deep as deep:
        total += deep.args[0] ** 2
    return total


def test_an_error_that_is_not_handled_is_compiled_once() -> None:
    def f(x: float, y: float) -> Any:
        try:
            root = math.sqrt(x)
        except ValueError:
            root = -x
        if y > 2.0:
            raise ValueError("too large")
        return root * y

    g = gs.grad(f, engine="source")
    assert g(4.0, 1.0) == 0.25
    before = len(g._cache._found), [len(v) for v in g._cache._found.values()]
    for y in (3.0, 4.0):
        with pytest.raises(ValueError, match="too large"):
            g(4.0, y)
    assert before == (len(g._cache._found), [len(v) for v in g._cache._found.values()])
    assert g(-4.0, 1.0) == -1.0


class Diverged(Exception):
    pass


class Found(Exception):
    def __init__(self, value: Any, step: int):
        super().__init__(value)
        self.value = value
        self.step = step


@case([1.5], [-1.5], [0.3])
def square_root_of_a_negative_number(x: float) -> Any:
    try:
        y = math.sqrt(x) * 2.0
    except ValueError:
        y = -3.0 * x
    return y * x


@case([1.5, 2.0], [1.5, 0.0], [-2.0, 1.0], [-2.0, 0.0])
def division_by_zero_with_else_and_finally(x: float, y: float) -> Any:
    total = 1.0
    try:
        q = x / y if y != 0 else x / 0.0
    except ZeroDivisionError:
        total += 2.0 * x
    else:
        total += q * q
    finally:
        total = total * (x + 5.0)
    return total


@case([1.5], [-1.5], [25.0])
def raise_under_a_condition(x: float) -> Any:
    def checked(v: Any) -> Any:
        if v < 0:
            raise ValueError(f"negative: {v}")
        if v > 10:
            raise Diverged
        return v * v

    try:
        y = checked(x)
    except ValueError as error:
        y = -x * len(error.args)
    except (KeyError, Diverged):
        y = math.log(x)
    return y + x


@case([signed(6), 0.5], [signed(6), 5.0], [signed(6, seed=3), -0.9])
def raise_in_a_loop(x: np.ndarray, limit: float) -> Any:
    total = 0.0
    try:
        for k, v in enumerate(x):
            total = total + v * v
            if total > limit + 1.0:
                raise Found(total * v, k)
    except Found as found:
        return found.value + 0.1 * found.step * total
    return total * 3.0


@case([2.0], [0.4], [7.0])
def an_exception_carries_the_result(x: float) -> Any:
    def search(v: Any) -> None:
        y = v
        for k in range(60):
            y = 0.5 * (y + v / y)
            if abs(y * y - v) < 1e-10:
                raise Found(y, k)
        raise Diverged

    try:
        search(x)
    except Found as found:
        return found.value * x


@case([SPD], [INDEFINITE], [SPD * 3.0])
def cholesky_or_something_else(a: np.ndarray) -> Any:
    try:
        factor = np.linalg.cholesky(a)
        return np.sum(factor**2) + factor[1, 0]
    except np.linalg.LinAlgError:
        return np.sum(a**2) * a[0, 1]


@case([SPD], [INDEFINITE])
def only_whether_it_raises_matters(a: np.ndarray) -> Any:
    try:
        np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return np.sum(a**2)
    return np.sum(np.sin(a))


@case([SPD, 1.0], [INDEFINITE, 1.5], [-3.0 * SPD, 2.0])
def damping_until_positive_definite(a: np.ndarray, damping: float) -> Any:
    s = damping
    for _ in range(20):
        try:
            factor = np.linalg.cholesky(a + s * np.eye(2))
            break
        except np.linalg.LinAlgError:
            s = 2.0 * s
    return np.sum(factor) * s


@case([numbers(3), 1], [numbers(3), 7], [numbers(3), -9], [numbers(3), -2])
def index_out_of_range(x: np.ndarray, k: int) -> Any:
    try:
        return x[k] ** 3
    except IndexError:
        return np.sum(x) ** 2


@case([numbers(3), 2], [numbers(3), 5])
def index_that_nobody_uses(x: np.ndarray, k: int) -> Any:
    inside = True
    try:
        x[k]  # noqa: B018
    except IndexError:
        inside = False
    return np.sum(x**2) if inside else np.sum(x**3)


@case([numbers(3), numbers(3)], [numbers(3), numbers(4)])
def shapes_that_do_not_broadcast(x: np.ndarray, y: np.ndarray) -> Any:
    try:
        return np.sum(x * y)
    except ValueError:
        return np.sum(x) * np.sum(y)


@case([signed(5), 3], [signed(5), 9], [signed(5, seed=2), 2])
def index_error_after_changes(x: np.ndarray, n: int) -> Any:
    out = np.zeros(5)
    log = []
    try:
        for k in range(n):
            out[k] = x[k] ** 2
            log.append(x[k])
    except IndexError:
        out = out * 2.0
    return np.sum(out) + sum(log) * len(log)


@case([0.7, 0], [-1.1, 1], [0.4, 2])
def nested_try_and_reraise(x: float, n: int) -> Any:
    log = 1.0

    def risky(v: Any) -> Any:
        nonlocal log
        try:
            if v > 0.5:
                raise ValueError("large")
            if v < -1.0:
                raise KeyError("small")
            return v * 2.0
        except KeyError as error:
            log = log * 3.0
            raise Diverged from error
        finally:
            log = log + v

    try:
        y = risky(x)
    except ValueError:
        y = x**2
    except Diverged as error:
        y = x**3 if isinstance(error.__cause__, KeyError) else 0.0
    return y * log + n


@case([1.5], [-1.5])
def keys_and_attributes(x: float) -> Any:
    table = {"a": x}
    try:
        y = table["a"] if x > 0 else table["b"]
    except KeyError:
        y = 7.0 * x
    try:
        y = y + x.missing  # type: ignore[attr-defined]
    except AttributeError:
        y = y * x
    return y


@case([2.5], [0.5], [-0.6])
def return_in_finally_and_loops(x: float) -> Any:
    total = 0.0
    for k in range(4):
        try:
            if x * k > 2.0:
                continue
            if x * k < -1.0:
                break
            total += x * k
        finally:
            total += 1.0 * x
    return total


@case([0.3], [-0.3])
def assert_inside_a_try(x: float) -> Any:
    try:
        assert x > 0, "positive"
        return math.log(x)
    except AssertionError:
        return x * 4.0


@case([1.5], [-1.5])
def suppressed(x: float) -> Any:
    y = 2.0 * x
    with contextlib.suppress(ValueError):
        y = math.sqrt(x)
    return y * y + x


@case([1.5], [-1.5])
def derivative_inside_a_try(x: float) -> Any:
    def f(v: Any) -> Any:
        return math.sqrt(v) * v

    try:
        return gs.grad(f)(x)
    except ValueError:
        return x**3


@case([signed(4)], [np.array([0.5, 1.5, 0.25, 0.7])], [np.array([0.5, -1.5, 0.25, -0.7])])
def try_in_each_iteration(x: np.ndarray) -> Any:
    total = 0.0
    for v in x:
        try:
            total += math.log(v)
        except ValueError:
            total -= v * v
    return total


test_gradients = case.test(functools.partial(judge, engine="source"))


def test_an_error_that_no_handler_takes_is_raised_at_the_users_line() -> None:
    def f(x: float) -> Any:
        y = math.sqrt(x - 2.0)
        try:
            return y + math.log(x - 5.0)
        except KeyError:
            return y

    d = gs.grad(f, engine="source")
    assert d(7.0) == pytest.approx(0.5 / math.sqrt(5.0) + 0.5)
    for x in (4.0, 1.0, 4.0):
        with pytest.raises(ValueError) as raised:
            d(x)
        assert traceback.extract_tb(raised.value.__traceback__)[-1].filename == __file__


def test_an_error_before_the_try_is_not_handled() -> None:
    def f(x: float) -> Any:
        y = math.sqrt(x)
        try:
            return y + math.sqrt(x - 1.0)
        except ValueError:
            return y * 3.0

    d = gs.grad(f, engine="source")
    for _ in range(2):
        assert d(4.0) == pytest.approx(0.25 + 0.5 / math.sqrt(3.0))
        assert d(0.25) == pytest.approx(3.0)
        with pytest.raises(ValueError):
            d(-1.0)
