"""``gs.record``: replays for other arguments, never for another branch, shape or dtype than what was recorded."""

from __future__ import annotations

import gc
import math
import sys
import threading
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

X = np.array([0.5, -1.5, 2.0])


def branches(x: Any) -> Any:
    return np.sum(x**2) if x[0] > 0 else np.sum(np.sin(x))


def compiled(f: Any, *args: Any, **options: Any) -> gs.Tape:
    return gs.record(f, *args, **options).compile()


@pytest.fixture(params=["python", "native"])
def record(request: pytest.FixtureRequest) -> Any:
    return gs.record if request.param == "python" else compiled


def test_value_gradient_jacobian_hessian(record: Any) -> None:
    tape = record(lambda x, w: np.sum(np.tanh(w @ x) ** 2), X, np.eye(3))
    x, w = X + 0.1, np.arange(9.0).reshape(3, 3) / 9
    t = np.tanh(w @ x)
    inner = 2 * t * (1 - t**2)
    np.testing.assert_allclose(tape.value(x, w), np.sum(t**2))
    gx, gw = tape.gradient(x, w)
    np.testing.assert_allclose(gx, w.T @ inner)
    np.testing.assert_allclose(gw, np.outer(inner, x))
    np.testing.assert_allclose(tape.gradient(x, w, argnums=0), gx)
    np.testing.assert_allclose(tape.jacobian(x, w, argnums=1), gw)
    hessian = tape.hessian(x, w, argnums=0)
    second = (2 - 8 * t**2 + 6 * t**4)[:, None]
    np.testing.assert_allclose(hessian, w.T @ (second * w))


def test_jacobian_of_an_array_and_results_in_structures(record: Any) -> None:
    tape = record(lambda x: {"squares": x**2, "sum": np.sum(x)}, X)
    np.testing.assert_allclose(tape.value(2 * X)["squares"], 4 * X**2)
    jacobian = tape.jacobian(2 * X)
    np.testing.assert_allclose(jacobian["squares"], np.diag(4 * X))
    np.testing.assert_allclose(jacobian["sum"], np.ones(3))


def test_the_function_runs_once(record: Any) -> None:
    tape = record(lambda x: np.sum(x**3), X, strict=True)  # strict: it is an error to run it again
    tape.value(X), tape.gradient(X), tape.hessian(2 * X), tape.jacobian(np.ones(7))


def test_other_branch_records_again(record: Any) -> None:
    tape = record(branches, X)
    for x in (X, -X, 2 * X, -2 * X, X):
        np.testing.assert_allclose(tape.value(x), branches(x))
        np.testing.assert_allclose(tape.gradient(x), 2 * x if x[0] > 0 else np.cos(x))
    assert repr(tape).count(",") == 1  # two recordings


def test_strict_raises_on_the_other_branch(record: Any) -> None:
    tape = record(branches, X, strict=True)
    np.testing.assert_allclose(tape.gradient(3 * X), 6 * X)
    with pytest.raises(gs.TapeMismatch, match="other way"):
        tape.gradient(-X)
    with pytest.raises(gs.TapeMismatch):
        tape.value(-X)
    np.testing.assert_allclose(tape.gradient(X), 2 * X)


def test_shapes_matter_where_they_were_used(record: Any) -> None:
    free = record(lambda x: np.sum(x**2) / len(X), X, strict=True)
    np.testing.assert_allclose(free.gradient(np.ones(50)), 2 * np.ones(50) / 3)

    def loop(x: Any) -> Any:
        total = 0.0
        for k in range(len(x)):
            total += x[k] ** (k + 1)
        return total

    with pytest.raises(gs.TapeMismatch):
        record(loop, X, strict=True).gradient(np.ones(4))
    tape = record(loop, X)
    for n in (3, 5, 2, 3):
        np.testing.assert_allclose(tape.gradient(np.ones(n)), np.arange(1, n + 1))


def test_dtypes_kinds_and_structure_matter(record: Any) -> None:
    def f(x: Any) -> Any:
        return x * x

    tape = record(f, 2.0)
    assert tape.value(3.0) == 9.0 and type(tape.value(3.0)) is float
    assert type(tape.value(np.float32(3))) is np.float32
    assert tape.value(3) == 9 and type(tape.value(3)) is int
    assert tape.value(np.ones((2, 2), np.float32)).dtype == np.float32
    assert tape.value(2j) == -4
    strict = record(lambda p: p["a"] * 2.0, {"a": 1.0, "b": 2.0}, strict=True)
    assert strict.gradient({"a": 3.0, "b": 1.0}) == {"a": 2.0, "b": 0.0}
    for other in ({"a": 1.0}, {"a": 1.0, "b": X}, {"a": np.float32(1), "b": 2.0}):
        with pytest.raises(gs.TapeMismatch, match="structure"):
            strict.gradient(other)


def test_integers_decide_and_compute(record: Any) -> None:
    def power(x: Any, n: int) -> Any:
        y = x * n
        for _ in range(n):
            y = y * x
        return y

    tape = record(power, 1.5, 3)
    for n in (3, 2, 0, 3):
        assert math.isclose(tape.gradient(1.1, n, argnums=0), (n + 1) * n * 1.1**n)


def test_results_in_given_arrays(record: Any) -> None:
    tape = record(lambda x, y: np.sum(x**2 * y), X, X)
    buffers = (np.empty(3), np.empty(3))
    assert tape.gradient(X, X, out=buffers) is buffers
    np.testing.assert_allclose(buffers, (2 * X * X, X**2))
    for out in ((buffers[0],), (buffers[0], np.empty(4)), (buffers[0], "text"), buffers[0]):
        with pytest.raises((TypeError, ValueError)):
            tape.gradient(X, X, out=out)


def test_arguments_written_by_the_function(record: Any) -> None:
    def shift(x: Any) -> Any:
        x[1:] += x[:-1]
        return np.sum(x**2)

    tape = record(shift, X.copy())
    x = np.array([1.0, 2.0, 3.0])
    assert tape.value(x) == 1 + 9 + 25
    np.testing.assert_array_equal(x, [1, 3, 5])
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(tape.gradient(x), [2 * 1 + 2 * 3, 2 * 3 + 2 * 5, 2 * 5])
    np.testing.assert_array_equal(x, [1, 2, 3])


SCALE = 2.0
WEIGHTS = np.ones(3)


def test_what_is_read_from_outside_is_honoured(record: Any) -> None:
    global SCALE

    class Model:
        w = 3.0

    model, shift = Model(), [1.0]
    tape = record(lambda x: np.sum(WEIGHTS * x) * SCALE * model.w + shift[0], X)

    def expected() -> float:
        return np.sum(WEIGHTS * X) * SCALE * model.w + shift[0]

    assert tape.value(X) == expected()
    WEIGHTS[:] = [1.0, 2.0, 3.0]
    assert tape.value(X) == expected()
    SCALE = 5.0
    assert tape.value(X) == expected()
    model.w = 4.0
    assert tape.value(X) == expected()
    shift[0] = -1.0
    assert tape.value(X) == expected()
    Model.w, model.w = 1.0, 7.0
    assert tape.value(X) == expected()


def test_elements_that_python_reads_alone_are_honoured(record: Any) -> None:
    data = np.array([1.0, 2.0, 4.0])
    kept = {"data": data}

    def both(x: Any) -> Any:
        return np.sum((x - data) / data.std()) * (2.0 if kept["data"][0] > 2 else 1.0)

    tape = record(both, X)
    for _ in range(4):
        assert math.isclose(tape.value(X), both(X), rel_tol=1e-12)
        np.testing.assert_allclose(tape.gradient(X), np.full(3, 1 / data.std()) * (2.0 if data[0] > 2 else 1.0))
        data[0] += 1.0


def test_strict_and_a_changed_global() -> None:
    global SCALE
    tape = gs.record(lambda x: SCALE * x, 1.0, strict=True)
    assert tape.gradient(3.0) == SCALE
    SCALE += 1.0
    with pytest.raises(gs.TapeMismatch, match="outside"):
        tape.gradient(3.0)


def test_a_function_that_changes_what_it_reads_is_recorded_at_every_call(record: Any) -> None:
    state = {"calls": 0}

    def counted(x: Any) -> Any:
        state["calls"] += 1
        return x * state["calls"]

    tape = record(counted, 1.0)
    assert [tape.value(2.0) for _ in range(3)] == [4.0, 6.0, 8.0]
    assert state == {"calls": 4}


def test_random_numbers_are_drawn_at_every_call(record: Any) -> None:
    rng = np.random.default_rng(0)
    tape = record(lambda x: x * rng.normal(), 1.0)
    again = np.random.default_rng(0)
    again.normal()  # drawn while recording
    assert [tape.value(1.0) for _ in range(3)] == [again.normal() for _ in range(3)]


def test_errors_of_a_replay_are_those_of_the_function(record: Any) -> None:
    def reciprocal(x: Any, k: int) -> Any:
        return 1.0 / x[k]

    tape = record(lambda x: 1.0 / x, 2.0)
    with pytest.raises(ZeroDivisionError):
        tape.value(0.0)
    assert tape.gradient(2.0) == -0.25
    tape = record(reciprocal, X, 0)
    with pytest.raises(IndexError):
        tape.value(X, 3)
    np.testing.assert_allclose(tape.value(X, 1), 1 / X[1])

    def safe(a: Any) -> Any:
        try:
            return np.sum(np.linalg.cholesky(a))
        except np.linalg.LinAlgError:
            return np.sum(a)

    tape = record(safe, np.eye(2))
    for a in (np.eye(2), -np.eye(2), 4 * np.eye(2), -np.eye(2)):
        assert tape.value(a) == safe(a)


def test_a_long_tape() -> None:
    def steps(x: Any, n: int) -> Any:
        total = 0.0
        for _ in range(n):
            x = x - 0.01 * np.sin(x)
            total = total + x
        return total

    n = 1500
    tape = compiled(steps, 0.7, n)
    plain = gs.grad(steps, engine="source")
    assert math.isclose(tape.value(0.3, n), steps(0.3, n), rel_tol=1e-12)
    assert math.isclose(tape.gradient(0.3, n, argnums=0), plain(0.3, n), rel_tol=1e-12)


def test_replays_allocate_nothing_but_results() -> None:
    tape = compiled(branches, X)
    for run in (tape.value, tape.gradient):
        for _ in range(10):
            run(X)
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(1000):
            run(X)
        assert abs(sys.getallocatedblocks() - before) < 20


def test_threads_share_a_tape() -> None:
    tape = compiled(branches, X)
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.normal(size=3)
            g = tape.gradient(x)
            if not np.allclose(g, 2 * x if x[0] > 0 else np.cos(x)):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_tape_inside_a_differentiated_function() -> None:
    tape = gs.record(lambda x: x**3, 2.0)
    assert gs.grad(lambda x: tape.value(x) * x, engine="tape")(2.0) == 4 * 8.0
