"""Interleaved timing: all contestants take turns, so that a drift of the machine meets each of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    batch_seconds: float  # one contestant's turn in one round
    contestant_seconds: (
        float  # a slow contestant leaves the rounds when it has used so much, after three turns at least
    )
    fresh_processes: int  # repetitions of what needs a process of its own


FULL = Effort(rounds=21, batch_seconds=0.02, contestant_seconds=6.0, fresh_processes=7)
QUICK = Effort(rounds=7, batch_seconds=0.004, contestant_seconds=1.0, fresh_processes=3)


def interleaved(contestants: Mapping[str, Callable[[], Any]], effort: Effort) -> dict[str, list[float]]:
    """Seconds per call of each contestant in each round it took part in; sample k of all is from the same round."""
    calls = {name: calls_per_batch(run, effort.batch_seconds) for name, run in contestants.items()}
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    used = dict.fromkeys(contestants, 0.0)
    for _ in range(effort.rounds):
        for name, run in contestants.items():
            if len(samples[name]) >= 3 and used[name] > effort.contestant_seconds:
                continue
            seconds = batch(run, calls[name])
            used[name] += seconds
            samples[name].append(seconds / calls[name])
    return samples


def calls_per_batch(run: Callable[[], Any], seconds: float) -> int:
    """As many calls as fill a batch; the function is warm afterwards."""
    batch(run, 1)
    calls, taken = 1, batch(run, 1)
    while taken < seconds / 4:
        calls *= 4
        taken = batch(run, calls)
    return max(1, round(calls * seconds / taken))


def batch(run: Callable[[], Any], calls: int) -> float:
    enabled = gc.isenabled()
    gc.disable()
    try:
        repeat = range(calls)
        start = time.perf_counter()
        for _ in repeat:
            run()
        return time.perf_counter() - start
    finally:
        if enabled:
            gc.enable()


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Median over the rounds of the ratio within one round."""
    return median(a / b for a, b in zip(ours, theirs, strict=False))
