"""Interrupts (Ctrl-C) that come while native code calls back into Python, at whatever instruction."""

from __future__ import annotations

import collections
import signal
from typing import Any

import numpy as np
import pytest

import gradsmith as gs


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_instruction_of_a_host_call_is_an_interrupt() -> None:
    def f(x: Any, n: int) -> Any:
        total = 0.0
        for k in range(n):
            total = total + np.sum(np.linalg.svd(x * (1.0 + 0.001 * k))[1])
        return total

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    matrix = np.eye(3) + 0.1
    compiled = gs.jit(f)
    expected = compiled(matrix, 3)
    before = signal.signal(signal.SIGALRM, interrupt)
    outcomes: collections.Counter[str] = collections.Counter()
    try:
        for k in range(200):
            signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.00001 * (k % 97))
            try:
                compiled(matrix, 1_000_000)
            except BaseException as error:
                outcomes[type(error).__name__] += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert outcomes == {"KeyboardInterrupt": 200}
    assert compiled(matrix, 3) == expected
