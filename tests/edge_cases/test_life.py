"""The life of a compiled derivative: many calls, threads, errors in between, redefinition, what is kept in memory."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import linecache
import math
import random
import sys
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance

import gradsmith as gs

X = np.array([1.0, 2.0, 3.0])


def loop(x: Any, n: int) -> Any:
    y = x * 1.0
    total = 0.0
    for k in range(n):
        y[1:] = np.sin(y[:-1]) * y[1:] + 0.1 * k
        if y[0] > 0:
            total += np.sum(y * y)
    return total


# ---- memory ----------------------------------------------------------------------------------------------------------


def resident() -> int:
    """Resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")


def growth(call: Callable[[int], Any], count: int) -> int:
    """By how many bytes ``count`` calls make the process grow, after a warm-up."""
    for k in range(count // 10):
        call(k)
    gc.collect()
    before = resident()
    for k in range(count):
        call(k)
    gc.collect()
    return resident() - before


@needs_proc
def test_ten_thousand_calls_do_not_grow_memory(backend: str) -> None:
    scalar = gs.grad(lambda x: math.sin(x) * x, backend=backend)
    array = gs.value_and_grad(lambda x: np.sum(np.sin(x) * x), backend=backend)
    x = np.ones(1000)
    assert growth(lambda k: (scalar(0.5 + k), array(x)), 10_000) < 1_000_000


@needs_proc
def test_calls_with_saved_values_results_and_errors_do_not_grow_memory(backend: str) -> None:
    gradient = gs.grad(loop, backend=backend)
    tree = gs.grad(lambda p: p["a"] * np.sum(p["b"][0]), backend=backend)
    fails = gs.jit(lambda x, k: x[k], backend=backend)
    x = np.ones(100)

    def call(k: int) -> None:
        gradient(x, k % 7)
        tree({"a": float(k), "b": [x]})
        try:
            fails(x, 100 + k)
        except IndexError:
            pass

    assert growth(call, 400 if backend == "python" else 2000) < 1_000_000


@needs_proc
def test_jvp_and_vjp_of_the_same_function_do_not_grow_memory(backend: str) -> None:
    f = lambda x: x * x  # noqa: E731

    def call(k: int) -> None:
        gs.jvp(f, (X,), (X,), backend=backend)
        gs.vjp(f, X, backend=backend)[1](X)

    assert growth(call, 1000) < 500_000


@pytest.mark.slow
@needs_proc
def test_a_hundred_thousand_calls_do_not_grow_memory(backend: str) -> None:
    scalar = gs.grad(lambda x: math.sin(x) * x, backend=backend)
    assert growth(lambda k: scalar(0.5 + k), 100_000) < 500_000


def test_python_objects_are_not_kept_by_calls(backend: str) -> None:
    """Arguments, results and captured arrays are let go."""
    gradient = gs.grad(lambda x, y: np.sum(x * y), backend=backend)
    x, y = np.ones(10), np.ones(10)
    gradient(x, y)
    gc.collect()  # what staging left behind
    tracemalloc.start()
    counts = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(100):
        gradient(x, y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == counts
    gc.collect()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 100_000
    result = gradient(x, y)
    watch = weakref.ref(result)
    del result
    gc.collect()
    assert watch() is None
    watch = weakref.ref(x)
    del x
    gc.collect()
    assert watch() is None


def test_a_derivative_that_is_dropped_frees_its_function(backend: str) -> None:
    class Owner:
        def __init__(self) -> None:
            self.w = 2.0

        def f(self, x: Any) -> Any:
            return self.w * x

    owner = Owner()
    gradient = gs.grad(owner.f, backend=backend)
    assert gradient(1.0) == 2.0
    watch = weakref.ref(owner)
    del owner, gradient
    gc.collect()
    assert watch() is None


# ---- threads ---------------------------------------------------------------------------------------------------------


def in_threads(work: Callable[[int], Any], count: int = 8) -> list[Any]:
    """``work(k)`` in as many threads, all started together; errors are raised here."""
    gate = threading.Barrier(count)

    def run(k: int) -> Any:
        gate.wait()
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_threads_share_one_compiled_derivative(backend: str) -> None:
    gradient = gs.grad(loop, backend=backend)
    points = [np.linspace(0.1, 1.0 + k, 50) for k in range(8)]
    expected = [gradient(x, 5) for x in points]

    def work(k: int) -> None:
        for _ in range(20 if backend == "python" else 200):
            np.testing.assert_array_equal(gradient(points[k], 5), expected[k])

    in_threads(work)


def test_threads_compile_at_once(backend: str) -> None:
    """First calls from several threads, with the same and with different types, of one and of several functions."""
    shared = gs.value_and_grad(lambda x: np.sum(np.sin(x) * x), backend=backend)
    kinds: list[Any] = [X, X.astype(np.float32), np.ones((2, 2)), np.array(2.0), 2.0, np.float64(3.0), X, X]

    def work(k: int) -> None:
        x = kinds[k]
        own = gs.grad(lambda x: np.sum(x * x) * float(k), backend=backend)
        for _ in range(3):
            value, gradient = shared(x)
            np.testing.assert_allclose(value, np.sum(np.sin(x) * x), rtol=1e-6)
            np.testing.assert_allclose(gradient, np.cos(x) * x + np.sin(x), rtol=1e-6)
            np.testing.assert_allclose(own(x), 2 * np.asarray(x) * k, rtol=1e-6)

    in_threads(work)


def test_threads_with_different_captured_values(backend: str) -> None:
    """What one thread changes is seen by it at once; captured values of other derivatives stay their own."""

    def work(k: int) -> None:
        scale = np.full(3, float(k))
        gradient = gs.grad(lambda x: np.sum(scale * x), backend=backend)
        for step in range(50):
            scale[:] = k + step
            np.testing.assert_array_equal(gradient(X), np.full(3, k + step))

    in_threads(work, 4)


def test_an_error_in_one_thread_leaves_the_others_alone(backend: str) -> None:
    pick = gs.grad(lambda x, k: x[k] * x[0], backend=backend)

    def work(k: int) -> None:
        for _ in range(50):
            if k % 2:
                with pytest.raises(IndexError):
                    pick(X, 10)
            else:
                np.testing.assert_array_equal(pick(X, 1), [2, 1, 0])

    in_threads(work)


# ---- errors in between -----------------------------------------------------------------------------------------------


def test_an_error_leaves_the_next_call_right(backend: str) -> None:
    def f(x: Any, k: Any) -> Any:
        total = 0.0
        for i in range(3):
            total += x[i + k] ** 2
        return total

    gradient = gs.grad(f, backend=backend)
    for _ in range(2):
        with pytest.raises(IndexError):
            gradient(X, 1)
        np.testing.assert_array_equal(gradient(X, 0), 2 * X)
        with pytest.raises(IndexError):
            gradient(np.ones(2), 0)
        with pytest.raises(TypeError):
            gradient("text", 0)
        np.testing.assert_array_equal(gradient(np.ones(5), 2), [0, 0, 2, 2, 2])


def test_an_error_while_staging_leaves_objects_and_cache_as_they_were(backend: str) -> None:
    class State:
        value = 1.0

    state, log, table = State(), [0.0], {"a": 1.0}

    def f(x: Any, fail: Any) -> Any:
        state.value = x * 2
        log.append(x)
        table["b"] = x
        if fail:
            raise fail("on purpose")
        return x * state.value

    gradient = gs.grad(f, backend=backend)
    for error in (RuntimeError, KeyboardInterrupt, RuntimeError):
        with pytest.raises(error, match="on purpose"):
            gradient(3.0, error)
        assert (state.value, log, table) == (1.0, [0.0], {"a": 1.0})
        assert gradient(3.0, None) == 12.0
        assert (state.value, log, table) == (1.0, [0.0], {"a": 1.0})


def test_an_error_of_missing_rule_then_a_global_is_repaired(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = gs.grad(lambda x: INNER(x) * 2.0, backend=backend, engine="source")
    with pytest.raises(gs.MissingRule, match="cosine"):
        gradient(1.0)
    monkeypatch.setitem(globals(), "INNER", lambda x: x * x)
    assert gradient(3.0) == 12.0
    monkeypatch.setitem(globals(), "INNER", lambda x: x * x * x)
    assert gradient(3.0) == 54.0


def INNER(x: Any) -> Any:  # noqa: N802
    return scipy.spatial.distance.cosine([x, 1.0], [1.0, 2.0])


# ---- redefinition ----------------------------------------------------------------------------------------------------


def module_from(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_redefined_function_of_the_same_name_is_not_served_from_the_cache(backend: str) -> None:
    def make(first: bool) -> Callable[[Any], Any]:
        if first:

            def f(x: Any) -> Any:
                return x * 2.0
        else:

            def f(x: Any) -> Any:
                return x * x

        return f

    f = make(True)
    assert gs.grad(f, backend=backend)(3.0) == 2.0
    f = make(False)
    assert gs.grad(f, backend=backend)(3.0) == 6.0


def test_an_edited_module_that_is_loaded_again(tmp_path: Path, backend: str) -> None:
    """The new definition is used by a new derivative, and through a global by an old one."""
    path = tmp_path / f"edited_{backend}.py"
    module = module_from(path, "def f(x):\n    return 2.0 * x\n")
    gradient = gs.grad(module.f, backend=backend)
    through = gs.grad(lambda x: module.f(x), backend=backend)
    assert gradient(3.0) == through(3.0) == 2.0
    path.write_text("\n\ndef f(x):\n    y = x * x\n    return y\n")
    linecache.checkcache(str(path))
    importlib.invalidate_caches()
    module_from(path, path.read_text())  # another module object: the old one stays as it was
    assert gs.grad(sys.modules[path.stem].f, backend=backend)(3.0) == 6.0
    assert through(3.0) == 2.0
    module.f = sys.modules[path.stem].f
    assert through(3.0) == 6.0
    assert gradient(3.0) == 2.0


def test_a_function_whose_file_changed_after_import_is_not_misread(tmp_path: Path, backend: str) -> None:
    """Source that no longer belongs to the loaded code is an error, never another function's derivative."""
    path = tmp_path / f"stale_{backend}.py"
    module = module_from(path, "def f(x):\n    return 2.0 * x\n\n\ndef g(x):\n    return 3.0 * x\n")
    path.write_text("def g(x):\n    return 30.0 * x * x\n\n\ndef f(x):\n    return 20.0 * x * x * x\n")
    linecache.checkcache(str(path))
    for f in (module.f, module.g):
        with pytest.raises(gs.SourceUnavailable, match="changed"):
            gs.grad(f, backend=backend, engine="source")(1.0)


def test_code_of_a_function_replaced_in_place(backend: str) -> None:
    def f(x: Any) -> Any:
        return x * 2.0

    def g(x: Any) -> Any:
        return x * x

    gradient = gs.grad(f, backend=backend)
    assert gradient(3.0) == 2.0
    f.__code__ = g.__code__
    assert gradient(3.0) == 6.0


# ---- purity ----------------------------------------------------------------------------------------------------------


def test_equal_inputs_give_equal_bits(backend: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=257)
    gradient = gs.grad(lambda x: np.sum(np.exp(x) * np.sin(x[::-1])) + np.prod(x[:5]), backend=backend)
    first = gradient(x)
    for _ in range(5):
        assert gradient(x).tobytes() == first.tobytes()
    again = gs.grad(lambda x: np.sum(np.exp(x) * np.sin(x[::-1])) + np.prod(x[:5]), backend=backend)
    assert again(x).tobytes() == first.tobytes()


@pytest.mark.filterwarnings("ignore::gradsmith.errors.GradsmithWarning")
def test_random_numbers_and_clocks_are_never_frozen(backend: str) -> None:
    """What gives something else at each call runs at each call, or is refused; its first result is never baked in."""
    rng = np.random.default_rng(0)
    for f in (
        lambda x: rng.normal() * x,
        lambda x: np.random.normal() * x,
        lambda x: np.random.default_rng().normal() * x,
        lambda x: random.random() * x,
        lambda x: random.gauss(0.0, 1.0) * x,
        lambda x: time.perf_counter() * x,
    ):
        gradient = gs.grad(f, backend=backend)
        try:
            values = {gradient(1.0) for _ in range(5)}
        except gs.GradsmithError as error:
            assert "each call" in str(error)
        else:
            assert len(values) == 5


def test_a_generator_with_a_seed_gives_the_same_at_each_call(backend: str) -> None:
    def f(x: Any) -> Any:
        rng = np.random.default_rng(3)
        noise = rng.normal(size=3)
        return np.sum(noise * x) + rng.uniform() * x[0]

    rng = np.random.default_rng(3)
    expected = rng.normal(size=3) + [rng.uniform(), 0, 0]
    gradient = gs.grad(f, backend=backend)
    for _ in range(2):
        np.testing.assert_allclose(gradient(X), expected)
