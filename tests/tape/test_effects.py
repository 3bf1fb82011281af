"""What a recorded function does besides computing happens once at each evaluation, in order."""

from __future__ import annotations

import io
import itertools
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from logging import getLogger
from time import perf_counter
from typing import Any
from warnings import warn

import numpy as np
import pytest

import gradsmith as gs

LOG = getLogger("tests.tape.effects")
FILE = io.StringIO()
SEEN: list[Any] = []
NUMBERS: Iterator[int] = iter(())


class Model:
    def __init__(self) -> None:
        self.log = logging.LoggerAdapter(LOG)

    def __call__(self, x: Any) -> Any:
        self.log.warning("x is %s", round(float(np.round(2.0)), 1))
        return x * x


MODEL = Model()


def prints(x: Any) -> Any:
    print(f"x is {x}")
    return x * x


def logs(x: Any) -> Any:
    LOG.warning("x is %r", x)
    return x * x


def logs_through_a_method(x: Any) -> Any:
    return MODEL(x)


def logs_with_its_own_import(x: Any) -> Any:
    import logging as l

    l.getLogger("tests.tape.effects").warning(f"x is {x}")
    return x * x


def writes_a_file(x: Any) -> Any:
    FILE.write("written")
    return x * x


def writes_output(x: Any) -> Any:
    sys.stdout.write("written")
    return x * x


def keeps(x: Any) -> Any:
    SEEN.append(x)
    return x * x


def warns(x: Any) -> Any:
    warn("careful", stacklevel=1)
    return x * x


@pytest.fixture
def effects(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[Any]]]:
    FILE.seek(0), FILE.truncate(), SEEN.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def seen() -> list[Any]:
            kept = [str(w.message) for w in caught if w.category is UserWarning]
            found = [capsys.readouterr().out, list(caplog.messages), FILE.getvalue(), list(SEEN), kept]
            FILE.seek(0), FILE.truncate(), SEEN.clear(), caplog.clear(), caught.clear()
            return found

        yield seen


@pytest.mark.parametrize(
    "f",
    [prints, logs, logs_through_a_method, logs_with_its_own_import, writes_a_file, writes_output, keeps, warns],
    ids=lambda f: f.__name__,
)
def test_once_at_each_evaluation(f: Any, effects: Any) -> None:
    points = [1.5, 2.5, 2.5, 1.5]
    expected = []
    for x in points:
        f(x)
        expected.append(effects())
    assert any(map(bool, expected[0]))
    g, tape = gs.grad(f, engine="tape", backend="python"), gs.record(f, 1.5)
    assert f is prints or effects() == expected[0]  # what is printed is part of the tape
    for run in (g, tape.gradient):
        for x, once in zip(points, expected, strict=True):
            assert run(x) == 2 * x
            assert effects() == once


def test_iterators_clocks_and_generators_of_random_numbers_go_on() -> None:
    numbers, generator, own = itertools.count(1), np.random.default_rng(0), random.Random(1)
    last = 0.0

    def f(x: Any) -> Any:
        return x * next(numbers), x * generator.normal(), x * own.random(), 0.0 * x + perf_counter() + time.time()

    g = gs.jit(f, engine="tape", backend="python")
    again, mine = np.random.default_rng(0), random.Random(1)
    for k in (1, 2, 3):
        counted, drawn, other, now = g(1.0)
        assert (counted, drawn, other) == (k, again.normal(), mine.random()) and now > last
        last = now
