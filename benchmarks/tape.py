"""`python -m benchmarks.tape`: a compiled tape, its gradient against its primal, and what a replay allocates.

The function is scalar-heavy: ten layers of ten neurons each, written with Python floats and `math`, one number at a time.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
import tracemalloc
from statistics import median
from typing import Any

import numpy as np

from benchmarks.core import restart_with_settings
from benchmarks.timing import FULL, QUICK, interleaved, ratio

LAYERS, WIDTH = 10, 10
LIMIT = 4.0  # gradient / primal


def network(x: Any) -> Any:
    """Ten numbers through ten layers; weights from a formula, a branch on the data in each neuron."""
    values = [x[k] for k in range(WIDTH)]
    for layer in range(LAYERS):
        following = []
        for j in range(WIDTH):
            total = 0.1 * j
            for k, value in enumerate(values):
                total = total + 0.3 * math.cos(1.0 + layer + 2.0 * j + 3.0 * k) * value
            following.append(math.tanh(total) if total > 0.0 else 0.5 * math.expm1(total))
        values = following
    return sum(v * v for v in values)


REPLAYS = 10_000


def allocated(run: Any) -> tuple[int, int]:
    """What is in use after ``REPLAYS`` calls and was not before: memory blocks, and bytes as tracemalloc counts them."""
    gc.collect()  # also empties the interpreter's stores of free objects, which the first calls fill again
    for _ in range(1000):
        run()
    before = sys.getallocatedblocks()
    for _ in range(REPLAYS):
        run()
    blocks = abs(sys.getallocatedblocks() - before)
    tracemalloc.start()
    run()
    traced = tracemalloc.get_traced_memory()[0]
    for _ in range(REPLAYS):
        run()
    grown = tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    return blocks, grown


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    restart_with_settings()
    import gradsmith as gs

    x = np.random.default_rng(0).uniform(0.5, 1.5, WIDTH)
    start = time.perf_counter()
    tape = gs.record(network, x)
    recorded = time.perf_counter()
    tape.compile()
    value, gradient = tape.value(x), tape.gradient(x)
    compiled = time.perf_counter()
    h = 1e-6
    steps = [(network(x + h * e) - network(x - h * e)) / (2 * h) for e in np.eye(WIDTH)]
    np.testing.assert_allclose(gradient, steps, rtol=1e-5, atol=1e-8)
    assert math.isclose(value, network(x), rel_tol=1e-12)

    samples = interleaved(
        {
            "Python primal": lambda: network(x),
            "tape.value": lambda: tape.value(x),
            "tape.gradient": lambda: tape.gradient(x),
        },
        QUICK if options.quick else FULL,
    )
    print(f"{tape}; recorded in {recorded - start:.2f} s, value and gradient compiled in {compiled - recorded:.2f} s")
    for name, times in samples.items():
        print(f"{name:15} {median(times) * 1e6:9.2f} µs")
    out = np.empty(WIDTH)
    growth = {
        "value": allocated(lambda: tape.value(x)),
        "gradient": allocated(lambda: tape.gradient(x)),
        "gradient, out=": allocated(lambda: tape.gradient(x, out=out)),
    }
    cost = ratio(samples["tape.gradient"], samples["tape.value"])
    print(f"gradient / primal: {cost:.2f} (limit {LIMIT})")
    for name, (blocks, grown) in growth.items():
        print(f"left by {REPLAYS} replays of {name}: {blocks} blocks, {grown} bytes")
    return int(cost > LIMIT or any(blocks > 100 or grown > 1000 for blocks, grown in growth.values()))


if __name__ == "__main__":
    sys.exit(main())
