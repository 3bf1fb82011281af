"""vmap on several cores: the same bits as on one, errors in order, the choice of when it pays."""

import os
import threading
import time
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith import parallel


def walk(x: np.ndarray) -> Any:
    s = 0.0
    for k in range(len(x)):
        s = np.sin(s * x[k]) + x[k] * x[k]
    return s


ROWS = np.random.default_rng(0).normal(size=(400, 6))


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two cores whatever the machine has; the names of the threads that worked."""
    workers: list[str] = []
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    block = parallel._Rows.block

    def noted(self: Any, start: int, stop: int) -> Any:
        workers.append(threading.current_thread().name)
        return block(self, start, stop)

    monkeypatch.setattr(parallel._Rows, "block", noted)
    return workers


def shared(f: Any, *args: Any) -> Any:
    """The result of the third call, which is shared: the first compiles, the second shows what the results are."""
    for _ in range(2):
        f(*args)
    return f(*args)


def test_rows_are_shared_and_give_the_same_bits(two: list[str]) -> None:
    f = gs.vmap(gs.value_and_grad(walk), parallel=True)
    value, gradient = shared(f, ROWS)
    assert len(two) == 2 and len(set(two)) == 2
    expected = gs.vmap(gs.value_and_grad(walk), parallel=False)(ROWS)
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(gradient, expected[1])


def test_containers_and_whole_arguments(two: list[str]) -> None:
    def loss(p: dict[str, Any], x: np.ndarray, y: float) -> Any:
        return (p["w"] @ x + p["b"] - y) ** 2

    p, y = {"w": np.arange(6.0), "b": 0.5}, np.arange(400.0)
    axes = (None, 0, 0)
    found = shared(gs.vmap(gs.grad(loss), axes, parallel=True), p, ROWS, y)
    expected = gs.vmap(gs.grad(loss), axes, parallel=False)(p, ROWS, y)
    assert len(two) == 2
    for key in p:
        np.testing.assert_array_equal(found[key], expected[key])


def test_small_work_stays_with_one_thread(two: list[str]) -> None:
    f = gs.vmap(gs.grad(walk))
    for _ in range(5):
        f(ROWS[:8])
    assert not two


def test_large_work_is_shared_by_itself(two: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried by one thread first, then by all; what is not faster by it is shared no more."""
    monkeypatch.setattr(parallel, "WORTH", 1e-6)
    f = gs.vmap(gs.grad(walk))
    for _ in range(1 + parallel._TRIALS):
        f(ROWS)
    assert not two
    expected = gs.vmap(gs.grad(walk), parallel=False)(ROWS)
    for _ in range(parallel._TRIALS):
        np.testing.assert_array_equal(f(ROWS), expected)
    assert len(two) == 2 * parallel._TRIALS and len(set(two)) == 2
    (outcome,) = f._splitter._known.values()
    for seconds, pays in ((1e3, True), (0.0, False)):
        outcome.alone[:] = [seconds] * parallel._TRIALS
        two.clear()
        f(ROWS)
        assert bool(two) == pays


def test_what_cannot_be_shared_is_done_by_one_thread(two: list[str]) -> None:
    by_columns = shared(gs.vmap(walk, in_axes=1, parallel=True), ROWS.T)
    np.testing.assert_array_equal(by_columns, shared(gs.vmap(walk, parallel=False), ROWS))
    shared(gs.vmap(lambda x: 2 * x, out_axes=1, parallel=True), ROWS)
    shared(gs.vmap(walk, parallel=True, backend="python"), ROWS[:6])
    assert not two


def test_other_shapes_and_too_few_rows(two: list[str]) -> None:
    f = gs.vmap(walk, parallel=True)
    shared(f, ROWS)
    two.clear()
    np.testing.assert_array_equal(f(ROWS[:3]), gs.vmap(walk, parallel=False)(ROWS[:3]))
    np.testing.assert_array_equal(f(ROWS[:, :4]), gs.vmap(walk, parallel=False)(ROWS[:, :4]))
    assert not two
    with pytest.raises(ValueError, match="different lengths"):
        shared(gs.vmap(lambda x, y: x * y, parallel=True), ROWS[:, 0], ROWS[:5, 0])


def test_an_error_in_any_row_is_raised(two: list[str]) -> None:
    def checked(x: np.ndarray) -> Any:
        total = 0.0
        for k in range(len(x)):
            if x[k] > 100.0:
                raise ValueError("too large")
            total = total + x[k]
        return total

    f = gs.vmap(checked, parallel=True)
    shared(f, ROWS)
    for row in (3, 399):
        bad = ROWS.copy()
        bad[row, 2] = 1e3
        with pytest.raises(ValueError, match="too large"):
            f(bad)
    np.testing.assert_array_equal(f(ROWS), gs.vmap(checked, parallel=False)(ROWS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork_there_are_new_threads(two: list[str]) -> None:
    f = gs.vmap(walk, parallel=True)
    expected = shared(f, ROWS)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(f(ROWS), expected) else 1)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    pytest.fail("the forked process hangs")
