"""The benchmark's own arithmetic: wrong results are found, targets judged, failures reported."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.contest import Case, Contestant, Outcome, Target, agree, contest, leaves
from benchmarks.libraries import using
from benchmarks.report import Row, amount, markdown, row_text, summary_text
from benchmarks.timing import Effort, interleaved, ratio

FAST = Effort(rounds=3, batch_seconds=1e-4, contestant_seconds=1.0, fresh_processes=1)
FACTS = {"processor": "p", "cores": 1, "python": "3", "versions": {}}


def contestant(name: str, result: Any, kind: Any = "derivative") -> Contestant:
    def make() -> Callable[[], Any]:
        if isinstance(result, Exception):
            raise result
        return lambda: result

    return Contestant(name, kind, make)


def test_the_odd_one_out_is_not_timed() -> None:
    outcome = contest([contestant("gradsmith", 2.0), contestant("JAX", 2.0), contestant("PyTorch", 2.1)])(FAST)
    assert set(outcome.samples) == {"gradsmith", "JAX"}
    assert set(outcome.failed) == {"PyTorch"}


def test_missing_and_failing_contestants_are_named() -> None:
    missing = ModuleNotFoundError("no module", name="torch")
    outcome = contest([contestant("PyTorch", missing), contestant("gradsmith", ValueError("broken"))])(FAST)
    assert outcome.skipped == {"PyTorch": "not installed (torch)"}
    assert "ValueError: broken" in outcome.failed["gradsmith"]
    row = Row(Case("x", "title", lambda effort: outcome, [Target(1, "PyTorch")]), outcome)
    assert "not measured" in row_text(row)
    assert summary_text([row]) == "0 of 1 targets met, 1 not measured"


def test_primals_and_derivatives_are_compared_among_themselves() -> None:
    contestants = [
        contestant("gradsmith", (1.0, np.ones(3))),
        contestant("JAX", [np.float64(1.0), np.ones(3)]),
        contestant("NumPy primal", 5.0, "primal"),
        contestant("Numba primal", 5.0, "primal"),
    ]
    assert len(contest(contestants)(FAST).samples) == 4


@pytest.mark.parametrize("other", [np.ones(2), np.array([1.0, np.nan, 1.0]), np.array([1.0, 1.0, 1.01])])
def test_shape_nan_and_value_disagree(other: np.ndarray) -> None:
    assert agree([np.ones(3)], [np.ones(3) * (1 + 1e-12)], 1e-9)
    assert not agree([other], [np.ones(3)], 1e-9)


def test_leaves_flatten() -> None:
    assert [leaf.tolist() for leaf in leaves((1.0, [np.ones(1), 2]))] == [1.0, [1.0], 2]


def test_targets_are_ratios_or_amounts() -> None:
    outcome = Outcome(samples={"gradsmith": [1.0, 2.0, 3.0], "JAX": [2.0, 4.0, 60.0]})
    targets = [Target(0.5, "JAX"), Target(1.5), Target(1, "autograd")]
    row = Row(Case("x", "title", lambda effort: outcome, targets), outcome)
    assert [(value, met) for _, value, met in row.verdicts()] == [(0.5, True), (2.0, False), (None, None)]
    assert "MISSED" in markdown([row], FACTS)


def test_interleaved_takes_turns_and_drops_the_slow() -> None:
    order: list[str] = []
    samples = interleaved(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")},
        Effort(rounds=5, batch_seconds=1e-9, contestant_seconds=0.0, fresh_processes=1),
    )
    assert order[-6:] == ["a", "b"] * 3
    assert [len(s) for s in samples.values()] == [3, 3]
    assert ratio([1.0, 2.0], [2.0, 4.0, 1.0]) == 0.5


def helper(x: Any) -> Any:
    return np.sin(x)


def calls_helper(x: Any) -> Any:
    return helper(x) + np.cos(x)


def test_using_replaces_np_in_callees_too() -> None:
    fake = ModuleType("fake")
    fake.sin = lambda x: 1  # type: ignore[attr-defined]
    fake.cos = lambda x: 2  # type: ignore[attr-defined]
    assert using(calls_helper, fake)(0.0) == 3
    assert calls_helper(0.0) == 1.0


def test_amounts_have_fitting_units() -> None:
    assert [amount(v, "s") for v in (2.0, 0.0015, 2.5e-6, 1.2e-7)] == ["2 s", "1.5 ms", "2.5 µs", "120 ns"]
    assert amount(12.4, "KiB") == "12 KiB"
