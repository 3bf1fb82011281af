"""What is compiled depends on the function and its arguments alone: not on hash seeds, not on where objects lie in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

import gradsmith as gs
from gradsmith.ir.program import Block, Const, Op, Value
from tests.source.programs import cases

#: programs whose arguments share lengths, with state, loops, branches, classes, dicts, many results
NAMES = """value_and_grad_mse hessian_ridge grad_focal value_and_grad_vae_elbo grad_viterbi grad_kalman grad_lstm_loss
    value_and_grad_class_mlp_loss grad_transformer_block grad_gmm_by_loops grad_cross_entropy hessian_black_scholes
    grad_garch grad_cox grad_wave""".split()


def scramble(seed: int) -> None:
    """Let sets of Values and operations have another order in each process, as addresses might."""
    factor = 0x9E3779B97F4A7C15 * (2 * seed + 1) | 1
    for kind in (Value, Const, Op, Block):
        kind.__hash__ = lambda self: ((id(self) >> 4) * factor >> 7) & 0xFFFFFFF  # type: ignore[method-assign, assignment]


scale = np.array([1.0, 2.0, 3.0])
shift = np.array([0.5, 0.5, 0.5])
rate = np.array([0.1, 0.2, 0.3])


def reads_globals(x: np.ndarray) -> np.float64:
    return np.sum(shift * np.sin(rate * x) * scale)


def texts() -> list[str]:
    """The programs and the shown source of all functions."""
    found = []
    for name in NAMES:
        derivative, points = cases.CASES[name]
        found += [derivative.program(*points[0]), derivative.source(*points[0])]
    for engine in ("source", "tape"):
        found.append(gs.grad(reads_globals, engine=engine).program(np.ones(3)))
    return found


def in_a_process(seed: int) -> list[str]:
    code = (
        "import json; from tests.reliability import test_determinism as t; "
        f"t.scramble({seed}); print(json.dumps(t.texts()))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout)


def test_another_process_compiles_the_same() -> None:
    first, second = in_a_process(1), in_a_process(2)
    for x, y in zip(first, second, strict=True):
        assert x == y
