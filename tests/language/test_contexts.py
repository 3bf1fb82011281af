"""Context managers: own classes, generators under contextlib.contextmanager, those of contextlib and NumPy."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()


class Scaled:
    def __init__(self, state: dict[str, Any], factor: Any):
        self.state = state
        self.factor = factor

    def __enter__(self) -> Scaled:
        self.state["scale"] = self.state["scale"] * self.factor
        return self

    def __exit__(self, *error: Any) -> None:
        self.state["scale"] = self.state["scale"] + 1.0


class Ignoring:
    def __init__(self) -> None:
        self.seen = 0

    def __enter__(self) -> Ignoring:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is not None:
            self.seen += 1
        return kind is not None and issubclass(kind, ValueError)


@contextlib.contextmanager
def shifted(state: dict[str, Any], by: Any) -> Iterator[Any]:
    before = state["scale"]
    state["scale"] = before + by
    try:
        yield before * by
    except ValueError:
        state["scale"] = 7.0 * by
        return
    finally:
        state["seen"] = state.get("seen", 0.0) + state["scale"]
    state["scale"] = before


@contextlib.contextmanager
def nested(x: Any) -> Iterator[Any]:
    state = {"scale": x}
    with shifted(state, x) as inner:
        yield inner, state


@case([0.7, 1.3], [-0.7, 0.4])
def own_class(x: float, y: float) -> Any:
    state = {"scale": x}
    with Scaled(state, y) as outer, Scaled(state, outer.factor * 2.0):
        inside = state["scale"] ** 2
    return inside + state["scale"] * y


@case([1.5], [-1.5])
def own_class_that_swallows(x: float) -> Any:
    total = 1.0
    with Ignoring() as manager:
        total = math.sqrt(x) * 2.0
        total = total * x
    return total * x + manager.seen


@case([1.5, 2.0], [-1.5, 0.5])
def generator_manager(x: float, y: float) -> Any:
    state = {"scale": y}
    with shifted(state, x) as product:
        inside = math.sqrt(x) * state["scale"] + product
        state["inside"] = inside
    return state["scale"] * x + state["seen"] + state.get("inside", 0.0)


@case([0.7], [1.9])
def nested_managers_and_returns(x: float) -> Any:
    with nested(x) as (inner, state):
        if x > 1.0:
            return inner * state["scale"]
        y = inner * 2.0
    return y * state["scale"] + state["seen"]


@case([signed(5), 0.6], [signed(5, seed=1), 0.2])
def managers_in_loops(x: np.ndarray, limit: float) -> Any:
    state = {"scale": 1.0}
    total = 0.0
    for v in x:
        with shifted(state, v * 0.5):
            if v > limit:
                continue
            total += v * state["scale"]
    return total + state["seen"]


@shifted({"scale": 2.0}, 3.0)
def decorated(x: Any) -> Any:
    return x * x


@case([1.5], [-1.5])
def of_contextlib(x: float) -> Any:
    log: list[Any] = []
    with contextlib.ExitStack() as stack:
        state = {"scale": x}
        stack.enter_context(Scaled(state, 2.0))
        stack.callback(log.append, x * 3.0)
        y = state["scale"] ** 2
    with contextlib.nullcontext(x * y) as z:
        total = z + state["scale"]
    with contextlib.suppress(ValueError, KeyError):
        total = total + math.log(x)
    return total + sum(log) + decorated(x)


@case([numbers(3)], [-numbers(3)])
def of_numpy_and_warnings(x: np.ndarray) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = np.where(x > 0, np.log(np.abs(x)), x)
    return np.sum(y * x)


test_gradients = case.test(functools.partial(judge, engine="source"))
