"""Stack and memory limits raise Python's errors and never end the interpreter: each case runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FUNCTIONS = """
import functools
import numpy as np


class Looked:
    def __getattr__(self, name):
        return getattr(self, name + "x")


class Ordered:
    def __lt__(self, other):
        return sorted([Ordered(), Ordered()]) == 1


class Shown:
    def __repr__(self):
        return repr(self)


@functools.lru_cache(None)
def cached(n):
    return cached(n + 1)


looked = Looked()
def by_calls(x): return by_calls(x + 1.0)
def by_a_branch(x): return by_a_branch(x * 2.0) + 1.0 if x > 0.1 else by_a_branch(x - 1.0)
def by_attributes(x): return x * looked.value
def by_comparisons(x): return x * len(sorted([Ordered(), Ordered()]))
def by_text(x): return x * len(repr(Shown()))
def by_a_cache(x): return x * cached(1)
def by_map(x): return list(map(by_map, [x]))[0]


def first(t): return t[0] * 2.0
def grows(x):
    items = []
    while x < 2.0:
        items.append(np.zeros(1000) + x)
        x = np.sin(x) + 0.1
    return np.sum(np.array(items))


def saves(x):
    while x < 2.0:
        x = np.sin(x) + 0.1
    return x


def allocates(x, n):
    a = np.zeros(n)
    a[0] = x
    return np.sum(a * a[::-1]) + a[0]
"""


def run(folder: Path, program: str) -> str:
    (folder / "functions.py").write_text(FUNCTIONS)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    head = "import sys, functions, numpy as np, gradsmith as gs\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


RECURSIONS = ["by_calls", "by_a_branch", "by_attributes", "by_comparisons", "by_text", "by_a_cache", "by_map"]


@pytest.mark.parametrize("engine", ["source", "tape"])
def test_recursion_without_end_is_a_recursion_error(engine: str, tmp_path: Path) -> None:
    """Also in a thread, and through compiled code (sorting, printing), which needs more stack than Python's own calls."""
    program = f"""
import threading
def attempt(name):
    try:
        gs.grad(getattr(functions, name), engine={engine!r})(0.5)
    except RecursionError:
        print(name, sys.getrecursionlimit() == before)
before = sys.getrecursionlimit()
for name in {RECURSIONS}:
    attempt(name)
    thread = threading.Thread(target=attempt, args=(name,))
    thread.start()
    thread.join()
print(gs.grad(functions.first)((1.0, 2.0)))
"""
    lines = run(tmp_path, program).splitlines()
    assert lines == [f"{name} True" for name in RECURSIONS for _ in range(2)] + ["(2.0, 0.0)"]


@pytest.mark.parametrize("nested", ["t = (2.0, t)", "t = [2.0, t]", "t = {0: 2.0, 1: t}"])
def test_deeply_nested_arguments_are_a_recursion_error(nested: str, tmp_path: Path) -> None:
    program = f"""
t = 1.0
for _ in range(20_000):
    {nested}
try:
    gs.grad(functions.first)(t)
except RecursionError:
    print("error")
print(gs.grad(functions.first)((1.0, 2.0)))
"""
    assert run(tmp_path, program).splitlines() == ["error", "(2.0, 0.0)"]


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of the address space")
@pytest.mark.parametrize(
    "call",
    [
        *(f"gs.{kind}(functions.grows, backend={b!r})(0.5)" for kind in ("jit", "grad") for b in ("native", "python")),
        "gs.grad(functions.saves)(0.5)",
    ],
)
def test_a_loop_that_stores_without_end_is_a_memory_error(call: str, tmp_path: Path) -> None:
    program = f"""
import resource
try_again = gs.jit(functions.first)
try_again((1.0, 2.0))
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (600 << 20), resource.RLIM_INFINITY))
try:
    {call}
except MemoryError:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print("error", try_again((1.0, 2.0)), gs.grad(functions.first)((1.0, 2.0)))
"""
    assert run(tmp_path, program).strip() == "error 2.0 (2.0, 0.0)"


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("engine", ["source", "tape"])
def test_a_huge_array_is_a_memory_error(engine: str, backend: str, tmp_path: Path) -> None:
    program = f"""
gradient = gs.grad(functions.allocates, backend={backend!r}, engine={engine!r})
for n in (10**15, 2**60, 2**62):
    try:
        gradient(0.5, n)
    except (MemoryError, ValueError) as error:  # NumPy: a ValueError where the number of bytes has no int64
        print(type(error).__name__)
print(gradient(0.5, 10))
"""
    *errors, last = run(tmp_path, program).splitlines()
    assert len(errors) == 3 and set(errors) <= {"MemoryError", "ValueError"}
    assert last == "1.0"
