"""Networks of dense layers, float64, gradient of the cost with respect to all arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contest import Case, Target, contest
from benchmarks.libraries import AUTOGRAD, JAX, OWN_PRIMAL, TORCH, gradients, primals


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def softplus(z):
    return np.log(1 + np.exp(z))


def mlp1(w1, w2, w3, x):
    return np.sum(sigmoid(w3 @ softplus(w2 @ softplus(w1 @ x))))


def mlp2(w1, b1, w2, b2, w3, b3, x):
    hidden = sigmoid(w2 @ sigmoid(w1 @ x + b1) + b2)
    return np.sum(sigmoid(w3 @ hidden + b3))


def autoencoder(encoder1, b1, encoder2, b2, decoder, x):
    code = sigmoid(encoder2 @ sigmoid(encoder1 @ x + b1) + b2)
    return np.sum((sigmoid(decoder @ code) - x) ** 2)


def cases() -> list[Case]:
    random = np.random.default_rng(0)

    def weights(rows: int, columns: int) -> np.ndarray:
        return random.standard_normal((rows, columns)) / np.sqrt(columns)

    def bias(rows: int) -> np.ndarray:
        return random.standard_normal((rows, 1))

    x = random.random((1000, 10))
    pixels = random.random((1000, 100))
    shapes = (200, 1000), (100, 200), (100, 100)
    w1, w2, w3 = (weights(*shape) for shape in shapes)
    networks: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], str]] = {
        "mlp1": (mlp1, (w1, w2, w3, x), "softplus network 1000–200–100–100, 10 columns"),
        "mlp2": (mlp2, (w1, bias(200), w2, bias(100), w3, bias(100), x), "sigmoid network with biases, 10 columns"),
        "autoencoder": (
            autoencoder,
            (w1, bias(200), w2, bias(100), weights(1000, 100), pixels),
            "autoencoder 1000–200–100–1000, 100 columns",
        ),
    }
    targets = [Target(1, AUTOGRAD), Target(1, TORCH), Target(1, JAX), Target(3, OWN_PRIMAL)]
    return [
        Case(
            name,
            f"{title}, gradient wrt all arguments",
            contest([*gradients(network, args, tuple(range(len(args)))), *primals(network, args)]),
            targets,
        )
        for name, (network, args, title) in networks.items()
    ]
