"""A contest: several implementations of one computation, checked against each other, then timed in turns."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import numpy as np

from benchmarks.timing import Effort, interleaved, ratio

GRADSMITH = "gradsmith"
Kind = Literal["derivative", "primal"]
Run = Callable[[], Any]


@dataclass(frozen=True)
class Contestant:
    """One implementation. `make` imports, converts the arguments, compiles and returns the call to time."""

    name: str
    kind: Kind
    make: Callable[[], Run]
    scale: float = 1.0  # multiplies the time: for a contestant that does a part of the work
    comparable: bool = True  # its result can be checked against those of its kind


@dataclass(frozen=True)
class Target:
    """An upper limit of gradsmith's time: a multiple of a contestant's time, or a number of units."""

    limit: float
    contestant: str | None = None

    def value(self, outcome: Outcome) -> float | None:
        """What the limit bounds; None if one side was not measured."""
        ours = outcome.samples.get(GRADSMITH)
        if ours is None:
            return None
        if self.contestant is None:
            return median(ours)
        theirs = outcome.samples.get(self.contestant)
        return None if theirs is None else ratio(ours, theirs)


@dataclass
class Outcome:
    """What was measured of one case."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # why a contestant does not take part
    failed: dict[str, str] = field(default_factory=dict)  # an error, or a result that differs
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One row of the table. `measure` gives samples of each contestant in `unit`."""

    name: str
    title: str
    measure: Callable[[Effort], Outcome]
    targets: Sequence[Target]
    unit: Literal["s", "KiB"] = "s"


def contest(
    contestants: Sequence[Contestant],
    *,
    skipped: dict[str, str] | None = None,
    rtol: float = 1e-9,
    notes: Callable[[], list[str]] | None = None,
) -> Callable[[Effort], Outcome]:
    """The measurement of a case whose contestants run in this process."""

    def measure(effort: Effort) -> Outcome:
        outcome = Outcome(skipped=dict(skipped or {}))
        runs = prepare(contestants, outcome)
        check(contestants, runs, outcome, rtol)
        scales = {contestant.name: contestant.scale for contestant in contestants}
        for name, samples in interleaved(runs, effort).items():
            outcome.samples[name] = [seconds * scales[name] for seconds in samples]
        if notes is not None and GRADSMITH in runs:
            outcome.notes = notes()
        return outcome

    return measure


def prepare(contestants: Sequence[Contestant], outcome: Outcome) -> dict[str, Run]:
    """The calls of all contestants that are installed and work."""
    runs: dict[str, Run] = {}
    for contestant in contestants:
        try:
            run = contestant.make()
            run()
        except ModuleNotFoundError as error:
            outcome.skipped[contestant.name] = f"not installed ({error.name})"
        except Exception as error:  # the report names it; the other contestants go on
            where = traceback.extract_tb(error.__traceback__)[-1]
            outcome.failed[contestant.name] = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
        else:
            runs[contestant.name] = run
    return runs


def check(contestants: Sequence[Contestant], runs: dict[str, Run], outcome: Outcome, rtol: float) -> None:
    """Compare the results of each kind. A contestant that agrees with no other one is removed from `runs`."""
    for kind in ("derivative", "primal"):
        results = {
            c.name: leaves(runs[c.name]()) for c in contestants if c.kind == kind and c.comparable and c.name in runs
        }
        for name, mine in results.items():
            others = [other for other in results if other != name]
            if others and not any(agree(mine, results[other], rtol) for other in others):
                outcome.failed[name] = f"its {kind} differs from that of {', '.join(others)}"
                del runs[name]


def agree(a: list[np.ndarray], b: list[np.ndarray], rtol: float) -> bool:
    """Same structure, same shapes, and differences within rtol of the largest entry of each leaf."""
    if [x.shape for x in a] != [x.shape for x in b]:
        return False
    return all(
        np.all(np.isfinite(x)) and np.max(np.abs(x - y)) <= rtol * np.max(np.abs(y)) for x, y in zip(a, b, strict=True)
    )


def leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]
