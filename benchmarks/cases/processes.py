"""What needs a process of its own: import time, latency of the first call, memory over many calls.

Also run as `python -m benchmarks.cases.processes WHAT LIBRARY` by the parent; prints one number.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.cases.calls import newton_sqrt
from benchmarks.cases.elementwise import complicated, elementwise_derivatives, points
from benchmarks.cases.loops import fill
from benchmarks.contest import GRADSMITH, Case, Outcome, Target
from benchmarks.libraries import AUTOGRAD, JAX, NUMBA_PRIMAL, TORCH, numba_primal
from benchmarks.timing import Effort

MODULES = {
    GRADSMITH: "gradsmith",
    AUTOGRAD: "autograd.numpy",
    JAX: "jax",
    TORCH: "torch",
    "Numba": "numba",
    "NumPy": "numpy",
}
MEMORY_CALLS = 100_000
IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def first_call_seconds(library: str) -> float:
    """From the function to the first result, everything imported, nothing cached."""
    x = points()
    importlib.import_module(MODULES.get(library, "numba"))
    candidates = [*elementwise_derivatives(complicated, x), numba_primal(complicated, (x,))]
    contestant = next(candidate for candidate in candidates if candidate.name == library)
    start = time.perf_counter()
    contestant.make()()
    return time.perf_counter() - start


def memory_growth(library: str) -> float:
    """KiB by which the resident memory grows over 10⁵ calls: a scalar loop with a stack, a recurrence over an array."""
    import gradsmith as gs

    x = np.random.default_rng(0).random(100)
    newton, recurrence = gs.grad(newton_sqrt), gs.grad(fill)

    def call(times: int) -> None:
        for _ in range(times // 2):
            newton(2.0)
            recurrence(x)

    call(2000)
    before = resident_kib()
    call(MEMORY_CALLS)
    return resident_kib() - before


def resident_kib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


MEASUREMENTS: dict[str, Callable[[str], float]] = {
    "first": first_call_seconds,
    "memory": memory_growth,
}


def measured_in_fresh_process(what: str, library: str) -> float:
    """One number from a new process whose caches on disk are empty."""
    if what == "import":
        arguments = ["-c", IMPORT.format(MODULES[library])]
    else:
        arguments = ["-m", "benchmarks.cases.processes", what, library]
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "XDG_CACHE_HOME": empty, "NUMBA_CACHE_DIR": empty, "GRADSMITH_CACHE_DIR": empty}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


def fresh_processes(what: str, libraries: list[str]) -> Callable[[Effort], Outcome]:
    """The libraries take turns, each time in a new process. The first turn, which writes bytecode, is dropped."""

    def measure(effort: Effort) -> Outcome:
        outcome = Outcome()
        for turn in range(1 if what == "memory" else 1 + effort.fresh_processes):
            for library in libraries:
                if library in outcome.failed or library in outcome.skipped:
                    continue
                try:
                    number = measured_in_fresh_process(what, library)
                except RuntimeError as error:
                    missing = "ModuleNotFoundError" in str(error) and library != GRADSMITH
                    (outcome.skipped if missing else outcome.failed)[library] = str(error)
                    outcome.samples.pop(library, None)
                else:
                    if turn > 0 or what == "memory":
                        outcome.samples.setdefault(library, []).append(number)
        return outcome

    return measure


def cases() -> list[Case]:
    rivals = [AUTOGRAD, JAX, TORCH]
    return [
        Case(
            "first",
            "first call of derivative(complicated), front end to result",
            fresh_processes("first", [GRADSMITH, *rivals, NUMBA_PRIMAL]),
            [Target(0.15)],
        ),
        Case(
            "import",
            "import of the library",
            fresh_processes("import", [GRADSMITH, *rivals, "Numba", "NumPy"]),
            [Target(0.35)],
        ),
        Case(
            "memory",
            "growth of resident memory over 10⁵ calls of compiled gradients",
            fresh_processes("memory", [GRADSMITH]),
            [Target(1024)],
            unit="KiB",
        ),
    ]


if __name__ == "__main__":
    print(MEASUREMENTS[sys.argv[1]](sys.argv[2]))
