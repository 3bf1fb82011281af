"""Long native loops can be interrupted; many calls keep memory flat; threads share compiled functions."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradsmith as gs

ROOT = Path(__file__).parents[2]

LOOPS = {
    "for": """
def f(x, n):
    for k in range(n):
        x = np.sin(x) + 0.1
    return x
""",
    "while": """
def f(x, n):
    k = 0.0
    while k < n:
        x = np.sin(x) + 0.1
        k += 1.0
    return x
""",
    "array": """
def f(x, n):
    u = np.full(50, x)
    for k in range(n):
        u[1:-1] += 0.1 * (u[2:] - u[:-2])
    return u.sum()
""",
    "nested": """
def f(x, n):
    for k in range(n):
        for j in range(1000):
            x = np.cos(x)
    return x
""",
}


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("loop", LOOPS)
def test_ctrl_c_interrupts_a_long_native_loop(loop: str, tmp_path: Path) -> None:
    """The loop would run for hours; afterwards the function still works."""
    (tmp_path / "endless.py").write_text(f"import numpy as np\n\n\n{LOOPS[loop]}")
    program = (
        "import time, gradsmith as gs\nfrom endless import f\n"
        "g = gs.jit(f)\nfirst = g(0.5, 10)\nprint('ready', flush=True)\n"
        "start = time.monotonic()\n"
        "try:\n    g(0.5, 10**13)\n    print('finished')\n"
        "except KeyboardInterrupt:\n    print('interrupted', g(0.5, 10) == first, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert out.strip() == "interrupted True"


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


class Model:
    def __init__(self, rng: np.random.Generator):
        self.layers = [Layer(rng.normal(size=(8, 8)), rng.normal(size=8)) for _ in range(3)]
        self.scale = 0.5


def loss(model: Model, x: np.ndarray) -> Any:
    for layer in model.layers:
        x = np.tanh(x @ layer.w + layer.b)
    return model.scale * np.sum(x**2)


def memory() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("way", ["result", "out", "prepared", "update"])
def test_ten_thousand_calls_with_objects_keep_memory_flat(way: str) -> None:
    rng = np.random.default_rng(0)
    model, x = Model(rng), rng.normal(size=(16, 8))
    gradient = gs.value_and_grad(loss)
    value, slopes = gradient(model, x)
    prepared = gs.prepare(gradient, model, x)

    def step() -> None:
        if way == "result":
            gradient(model, x)
        elif way == "out":
            gradient(model, x, out=(None, slopes))
        elif way == "prepared":
            prepared(model, x)
        else:
            gs.tree_map(lambda p, g: p - 1e-9 * g, model, slopes)

    for _ in range(500):
        step()
    gc.collect()
    blocks, size = sys.getallocatedblocks(), memory()
    for _ in range(10_000):
        step()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500
    assert memory() - size < 4 << 20


def test_failing_calls_keep_memory_flat() -> None:
    def checked(p: dict[str, Any], n: int) -> Any:
        total = p["w"].sum()
        for k in range(n):
            if total > 1e3 and k > 3:
                raise ValueError("too large")
            total = total * p["s"]
        return total

    gradient = gs.grad(checked)
    good, bad = {"w": np.ones(64), "s": 0.5}, {"w": np.full(64, 1e3), "s": 1.5}

    def both() -> None:
        gradient(good, 10)
        with pytest.raises(ValueError, match="too large"):
            gradient(bad, 10)

    for _ in range(200):
        both()
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(1000):
        both()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500


def test_threads_share_a_function_with_object_arguments() -> None:
    """They compile it together, at sizes and structures of their own, and each gets its own numbers."""
    gradient = gs.value_and_grad(loss)
    failures: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        model, x = Model(rng), rng.normal(size=(4 + seed, 8))
        model.layers = model.layers[: 1 + seed % 3]
        expected = gs.value_and_grad(loss, backend="python")(model, x)
        for _ in range(100):
            value, slopes = gradient(model, x)
            same = np.isclose(value, expected[0], rtol=1e-12)
            for mine, theirs in zip(slopes.layers, expected[1].layers, strict=True):
                same = same and np.allclose(mine.w, theirs.w, rtol=1e-9) and np.allclose(mine.b, theirs.b, rtol=1e-9)
            if not same:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_prepared_calls_of_several_threads_do_not_meet() -> None:
    gradient = gs.grad(lambda x: np.sum(np.sin(x) * x))
    failures: list[int] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=200)
        own, expected = gs.prepare(gradient, x), np.cos(x) * x + np.sin(x)
        for _ in range(300):
            if not np.allclose(own(x), expected, rtol=1e-12):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
