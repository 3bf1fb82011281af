"""`python -m benchmarks.training`: a model of nested objects trained for 100 steps, beside PyTorch and JAX.

Three dense layers 100–64–64–10, each an object with two arrays, minibatches of 64, float64, one thread, plain gradient
descent. gradsmith: the whole step in one `gs.jit`, and beside it `gs.value_and_grad(loss)(model, x, y)` with the update by
`gs.tree_map` outside. PyTorch: eager, updates in place. JAX: the whole step in one `jit`, everything on the device. All
start from the same parameters and must end with the same.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contest import GRADSMITH, Case, Contestant, Run, Target, contest
from benchmarks.core import restart_with_settings
from benchmarks.libraries import JAX, TORCH, using

STEPS, BATCH, BATCHES = 100, 64, 10
SIZES = (100, 64, 64, 10)
RATE = 0.1
UPDATE_APART = "gradsmith, update apart"


@dataclass
class Dense:
    weights: Any
    bias: Any


@dataclass
class Network:
    layers: list[Dense]


def scores(network, x):
    for layer in network.layers[:-1]:
        x = np.tanh(x @ layer.weights + layer.bias)
    last = network.layers[-1]
    return x @ last.weights + last.bias


def loss(network, x, y):
    """Cross entropy; the rows of y are unit vectors."""
    z = scores(network, x)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(z * y, axis=1))


def network() -> Network:
    random = np.random.default_rng(0)
    pairs = zip(SIZES[:-1], SIZES[1:], strict=True)
    return Network([Dense(random.standard_normal((n, m)) / np.sqrt(n), np.zeros(m)) for n, m in pairs])


def minibatches() -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(1)
    labels = random.integers(SIZES[-1], size=(BATCHES, BATCH))
    return [(random.standard_normal((BATCH, SIZES[0])), np.eye(SIZES[-1])[row]) for row in labels]


def schedule(batches: list[Any]) -> Iterator[Any]:
    for k in range(STEPS):
        yield batches[k % BATCHES]


def arrays(trained: Network) -> list[np.ndarray]:
    return [np.asarray(a) for layer in trained.layers for a in (layer.weights, layer.bias)]


def gradsmith_training(whole: bool = True) -> Run:
    import gradsmith as gs

    gradient, batches = gs.value_and_grad(loss), minibatches()

    def update(model: Network, x: Any, y: Any) -> Network:
        _, slope = gradient(model, x, y)
        return gs.tree_map(lambda p, g: p - RATE * g, model, slope)

    step = gs.jit(update) if whole else update

    def run() -> list[np.ndarray]:
        model = network()
        for x, y in schedule(batches):
            model = step(model, x, y)
        return arrays(model)

    return run


def gradsmith_training_by_gradient() -> Run:
    return gradsmith_training(whole=False)


def torch_training() -> Run:
    torch = importlib.import_module("torch")
    cost = using(loss, torch)  # type: ignore[arg-type]
    batches = [(torch.tensor(x), torch.tensor(y)) for x, y in minibatches()]

    def run() -> list[np.ndarray]:
        model = network()
        for layer in model.layers:
            layer.weights = torch.tensor(layer.weights, requires_grad=True)
            layer.bias = torch.tensor(layer.bias, requires_grad=True)
        parameters = [p for layer in model.layers for p in (layer.weights, layer.bias)]
        for x, y in schedule(batches):
            slopes = torch.autograd.grad(cost(model, x, y), parameters)
            with torch.no_grad():
                for p, g in zip(parameters, slopes, strict=True):
                    p.sub_(g, alpha=RATE)
        return [p.detach().numpy() for p in parameters]

    return run


def jax_training() -> Run:
    jax = importlib.import_module("jax")
    for cls, fields in ((Dense, ["weights", "bias"]), (Network, ["layers"])):
        jax.tree_util.register_dataclass(cls, fields, [])
    gradient = jax.value_and_grad(using(loss, jax.numpy))  # type: ignore[arg-type]
    batches = jax.device_put(minibatches())

    @jax.jit
    def step(model: Network, x: Any, y: Any) -> Network:
        _, slope = gradient(model, x, y)
        return jax.tree_util.tree_map(lambda p, g: p - RATE * g, model, slope)

    def run() -> list[np.ndarray]:
        model = jax.device_put(network())
        for x, y in schedule(batches):
            model = step(model, x, y)
        return arrays(jax.block_until_ready(model))

    return run


def case() -> Case:
    contestants = [
        Contestant(name, "derivative", make, scale=1 / STEPS)
        for name, make in (
            (GRADSMITH, gradsmith_training),
            (UPDATE_APART, gradsmith_training_by_gradient),
            (TORCH, torch_training),
            (JAX, jax_training),
        )
    ]
    title = "time of one training step: three dense layers 100–64–64–10 as objects, minibatch 64"
    return Case("training", title, contest(contestants, rtol=1e-8), [Target(1, TORCH), Target(0.8, JAX)])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results (default: out)")
    options = parser.parse_args()
    restart_with_settings()

    from benchmarks import report
    from benchmarks.timing import FULL, QUICK

    facts, row_case = report.environment(), case()
    print(report.environment_text(facts), flush=True)
    row = report.Row(row_case, row_case.measure(QUICK if options.quick else FULL))
    print(report.row_text(row))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "training.md").write_text(report.markdown([row], facts), encoding="utf-8")
    results = json.dumps(report.as_json([row], facts), indent=1, ensure_ascii=False)
    (options.out / "training.json").write_text(results, encoding="utf-8")
    print(f"written: {options.out}/training.json, training.md")
    return int(bool(row.outcome.failed))


if __name__ == "__main__":
    sys.exit(main())
