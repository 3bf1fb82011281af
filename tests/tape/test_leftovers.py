"""What a recorded function keeps outside of it holds ordinary numbers and arrays afterwards, as if Python had run it."""

from __future__ import annotations

import collections
import copy
import functools
import gc
import json
import math
import pickle
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

X = np.array([0.5, -1.5, 2.0])


def tape_grad(f: Any, *args: Any) -> Any:
    return gs.grad(f, engine="tape", backend="python")(*args)


class Plain:
    shared: Any = None


class Slotted:
    __slots__ = ("value", "__hidden")

    def keep(self, x: Any) -> None:
        self.__hidden = x

    def kept(self) -> Any:
        return self.__hidden


class Stubborn(list[Any]):
    """A list that cannot be written to by the usual way."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("no")


def _is_ordinary(x: Any) -> bool:
    if isinstance(x, list | tuple | set | collections.deque):
        return all(map(_is_ordinary, x))
    if isinstance(x, dict):
        return all(map(_is_ordinary, [*x.keys(), *x.values()]))
    return type(x) in (float, int, str, np.ndarray, np.float64)


class World:
    """Every kind of place that a function may write to."""

    def __init__(self) -> None:
        self.plain, self.slotted, self.stubborn = Plain(), Slotted(), Stubborn()
        self.containers: dict[str, Any] = {
            "list": [],
            "dict": {},
            "deque": collections.deque(maxlen=8),
            "ordered": collections.OrderedDict(),
            "default": collections.defaultdict(list),
            "set": set(),
            "nested": [],
        }
        self.queue: queue.Queue[Any] = queue.Queue()

    def write(self, x: Any) -> None:
        self.plain.x, self.slotted.value = x, x * 2
        self.slotted.keep(x * 3)
        Plain.shared = x * 4
        list.append(self.stubborn, x * 5)
        c = self.containers
        c["list"].append(x)
        c["dict"][int(x)] = x * 6
        c["deque"].appendleft(x)
        c["ordered"]["x"] = x
        c["default"]["x"].append(x)
        c["set"].add(int(x))
        c["nested"].append((x, {"deep": [x * 7, (x, "text")]}))
        self.queue.put(x * 8)

    def seen(self) -> list[Any]:
        return [
            self.plain.x,
            self.slotted.value,
            self.slotted.kept(),
            Plain.shared,
            list(self.stubborn),
            self.containers,
            list(self.queue.queue),
        ]


def test_the_world_is_what_python_would_have_left() -> None:
    def f(x: Any, world: Any) -> Any:
        worlds[world].write(x)
        return x * x

    worlds = World(), World()
    g = gs.grad(f, engine="tape", backend="python")
    for x in (1.5, 2.5, 1.5):
        assert g(x, 0) == 2 * x
        f(x, 1)
    assert worlds[0].seen() == worlds[1].seen()
    assert _is_ordinary(worlds[0].seen())
    json.dumps(worlds[0].containers["list"]), pickle.dumps(worlds[0].containers)


def test_kept_arrays_are_ordinary_and_share_nothing_with_the_recording() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        kept.append(y)
        kept.append(y[1:])
        y[0] = 100.0
        return np.sum(y * x)

    g = gs.grad(f, engine="tape", backend="python")
    for _ in range(2):
        np.testing.assert_allclose(g(X), [100, *(4 * X[1:])])
    for y, tail in (kept[:2], kept[2:]):
        assert type(y) is np.ndarray and type(tail) is np.ndarray and y.flags.writeable
        np.testing.assert_array_equal(y, [100.0, *(2 * X[1:])])
        np.testing.assert_array_equal(tail, 2 * X[1:])


def test_values_kept_from_one_call_are_constants_of_the_next() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x * sum(kept)
        kept.append(x)
        return y

    g = gs.grad(f, engine="tape", backend="python")
    assert [g(2.0), g(3.0), g(4.0)] == [0.0, 2.0, 5.0]
    tape = gs.record(f, 1.0)
    assert tape.value(1.0) == 10.0 and kept == [2.0, 3.0, 4.0, 1.0, 1.0]


def test_exceptions_carry_ordinary_numbers() -> None:
    class Failure(Exception):
        def __init__(self, message: str, **details: Any):
            super().__init__(message, details["x"])
            self.details = details

    def f(x: Any) -> Any:
        raise Failure("failed", x=x, more=[x * 2])

    with pytest.raises(Failure) as caught:
        tape_grad(f, 3.0)
    assert caught.value.args == ("failed", 3.0) and caught.value.details == {"x": 3.0, "more": [6.0]}
    assert _is_ordinary(caught.value.args) and _is_ordinary(caught.value.details)
    innermost = caught.traceback[-1]._rawentry.tb_frame.f_back or caught.traceback[-1]._rawentry.tb_frame
    assert "recorded" not in repr(innermost.f_locals)


def test_what_cannot_be_replaced_behaves_as_the_number_or_array() -> None:
    waiting: list[Iterator[Any]] = []
    bound: list[Any] = []

    @functools.lru_cache
    def cached() -> Any:
        return held[0]

    held: list[Any] = [0]

    def f(x: Any, v: Any) -> Any:
        def drawn() -> Iterator[Any]:
            yield x
            yield v

        waiting.append(drawn())
        next(waiting[-1])
        bound.append(functools.partial(pow, x))
        held[0] = x
        return x * cached() + np.sum(v)

    assert tape_grad(f, 3.0, X) == 6.0
    v = next(waiting[0])
    assert isinstance(v, np.ndarray) and v.shape == (3,) and len(v) == 3
    np.testing.assert_array_equal(v + 1, X + 1)
    np.testing.assert_array_equal(np.asarray(v), X)
    np.testing.assert_array_equal(np.sin(v), np.sin(X))
    np.testing.assert_array_equal(copy.deepcopy(v)[1:], X[1:])
    x = cached()
    assert isinstance(x, float) and (x, 2 * x, x**2, -x, x > 2, float(x), f"{x:.1f}", repr(x), hash(x)) == (
        *(3.0, 6.0, 9.0, -3.0, True, 3.0, "3.0", "3.0", hash(3.0)),
    )
    x += 1
    assert x == 4.0 and math.sin(cached()) == math.sin(3.0) and round(cached()) == 3 and bound[0](2) == 9.0
    assert pickle.loads(pickle.dumps(cached())) == 3.0 and {3.0: "found"}[cached()] == "found"
    assert tape_grad(lambda y: y * cached(), 1.0) == 3.0 and gs.grad(lambda y: y * cached())(1.0) == 3.0
    with pytest.raises(TypeError):
        len(cached())


def test_garbage_is_not_kept() -> None:
    def f(x: Any) -> Any:
        def fibonacci(n: int) -> Any:  # refers to itself, so only the garbage collector removes it
            return x if n < 2 else fibonacci(n - 1) + fibonacci(n - 2) * x

        return fibonacci(6)

    tape = gs.record(f, 1.5, strict=True)
    assert tape.value(2.0) == f(2.0)  # strict: it need not run again


def test_an_interrupt_leaves_ordinary_numbers() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tape_grad(f, 3.0)
    assert kept == [3.0] and type(kept[0]) is float


def test_recorded_values_in_other_threads_are_refused() -> None:
    def f(x: Any) -> Any:
        out: list[Any] = [0.0]

        def work() -> None:
            try:
                out[0] = x * 2
            except gs.GradsmithError:
                out[0] = 1.0

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return out[0] + x

    with pytest.raises(gs.UnsupportedCode, match="another thread"):
        tape_grad(f, 3.0)


def test_the_source_engine_leaves_the_world_alone_and_recordings_are_freed() -> None:
    world = World()
    assert gs.grad(lambda x: (world.containers["list"].append(x), x * x)[1], engine="source")(2.0) == 4.0
    assert world.containers["list"] == []
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept[:] = [x * k for k in range(5)]
        return x * x

    tape_grad(f, 1.0)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(5):
        gs.jit(f, engine="tape", backend="python")(1.0)
    gc.collect()
    assert sys.getallocatedblocks() - before < 2000
