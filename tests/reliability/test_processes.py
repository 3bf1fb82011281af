"""Derivatives in other processes, in threads at the end of the interpreter, in signal handlers, and as parts of objects."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradsmith as gs

ROOT = Path(__file__).parents[2]

FUNCTIONS = """
import numpy as np
import gradsmith as gs


def f(x, n=3):
    for k in range(n):
        x = np.sin(x) + 0.1 * k
    return x


def endless(x):
    while x < 2.0:
        x = np.sin(x) + 0.1
    return x


gradient = gs.grad(f)


def call(x):
    return gradient(x)
"""


def square(x: float) -> float:
    return x * x


def test_a_derivative_cannot_be_pickled_and_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="grad_square cannot be pickled.*pickle the function"):
        pickle.dumps(gs.grad(square))


def test_an_object_that_holds_a_derivative_can_be_copied() -> None:
    held = {"w": np.ones(3), "gradient": gs.grad(square)}
    held["gradient"](1.0)
    copied = copy.deepcopy(held)
    assert copied["w"] is not held["w"]
    assert copied["gradient"](3.0) == 6.0
    assert copy.copy(held["gradient"])(2.0) == 4.0


PROGRAMS = {
    "a forked process": """
import multiprocessing
functions.gradient(0.5)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(functions.call, [0.5] * 4) == [functions.gradient(0.5)] * 4)
""",
    "a spawned process": """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(functions.call, [0.5]) == [functions.gradient(0.5)])
""",
    "asyncio": """
import asyncio
async def main():
    return await asyncio.gather(*[asyncio.to_thread(functions.gradient, 0.5) for _ in range(20)])
print(asyncio.run(main()) == [functions.gradient(0.5)] * 20)
""",
    "a frozen garbage collector": """
import gc
functions.gradient(0.5)
gc.freeze(); gc.disable()
print(functions.gradient(0.5) == gs.grad(functions.f)(0.5))
""",
    "a child forked while other threads compile": """
import os, signal, threading, time
threads = [threading.Thread(target=lambda: gs.hessian(functions.f)(0.5)) for _ in range(3)]
for thread in threads:
    thread.start()
same = gs.derivative(functions.f)
threads.append(threading.Thread(target=lambda: same(0.5)))
threads[-1].start()
codes = []
for _ in range(10):
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if abs(gs.grad(functions.f)(0.5) - same(0.5)) < 1e-12 else 1)
    codes.append(os.waitpid(child, 0)[1])
    time.sleep(0.01)
for thread in threads:
    thread.join()
print(codes == [0] * 10)
""",
    "a handler of a signal": """
import signal, time
seen = []
expected = functions.gradient(0.5)
signal.signal(signal.SIGALRM, lambda *_: seen.append(functions.gradient(0.5) == expected))
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
end = time.monotonic() + 0.5
right = True
while time.monotonic() < end:
    right = right and functions.gradient(0.5) == expected and gs.grad(functions.f)(0.5) == expected
signal.setitimer(signal.ITIMER_REAL, 0)
print(right and len(seen) > 5 and all(seen))
""",
    "an exception from a handler": """
import signal
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
for derivative in (gs.jit(functions.endless), gs.grad(functions.endless)):
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    try:
        derivative(0.5)
    except Alarm:
        continue
print(functions.gradient(0.5) == gs.grad(functions.f)(0.5))
""",
    "the end of the interpreter, while a thread runs native code": """
import threading, time
endless = gs.jit(functions.endless)
threading.Thread(target=endless, args=(0.5,), daemon=True).start()
time.sleep(0.5)
print(True)
""",
    "the end of the interpreter, while a thread compiles": """
import threading, time
threading.Thread(target=lambda: [gs.hessian(functions.f)(0.5) for _ in range(100)], daemon=True).start()
time.sleep(0.3)
print(True)
""",
    "a function that runs at the end": """
import atexit
atexit.register(lambda: print(functions.gradient(0.5) == gs.grad(functions.f)(0.5)))
""",
}


@pytest.mark.skipif(sys.platform != "linux", reason="fork, signals")
@pytest.mark.parametrize(
    ("place", "optimised"), [*((place, ()) for place in PROGRAMS), ("an exception from a handler", ("-O",))]
)
def test_derivatives_in(place: str, optimised: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "program.py").write_text("import functions, gradsmith as gs\n" + PROGRAMS[place])
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, *optimised, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr[-2000:]
