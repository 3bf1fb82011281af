"""Functions as people write them, whose derivatives are printed and read."""

from dataclasses import dataclass
from typing import Any

import numpy as np


def thermostat(conductivity: Any, u0: Any) -> Any:
    u = u0.copy()
    for step in range(100):  # noqa: B007
        u[1:-1] += conductivity * (u[2:] - 2 * u[1:-1] + u[:-2])
        if u[5] < 20.0:
            u[5] += 0.5
    return np.sum((u - 20.0) ** 2)


def smooth(x: Any) -> Any:
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + np.sin(x[i])
    return np.sum(y**2)


def logistic_loss(w: Any, b: Any, x: Any, y: Any) -> Any:
    z = x @ w + b
    p = 1 / (1 + np.exp(-z))
    return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


def newton_sqrt(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def pairs(points: Any, charges: Any) -> Any:
    energy = 0.0
    n = len(points)
    for i in range(n):
        for j in range(i):
            d = points[i] - points[j]
            r = np.sqrt(np.sum(d * d))
            energy += charges[i] * charges[j] / r
    return energy


def mlp(params: Any, x: Any, y: Any) -> Any:
    h = x
    for layer in params[:-1]:
        h = np.tanh(h @ layer["W"] + layer["b"])
    out = h @ params[-1]["W"] + params[-1]["b"]
    return np.mean((out - y) ** 2)


def euler(theta: Any, steps: Any, dt: Any) -> Any:
    prey, predator = 10.0, 5.0
    path = []
    for _ in range(steps):
        dprey = theta[0] * prey - theta[1] * prey * predator
        dpredator = theta[2] * prey * predator - theta[3] * predator
        prey += dt * dprey
        predator += dt * dpredator
        path.append(prey)
    return np.sum(np.array(path) ** 2)


def huber(x: Any, delta: Any) -> Any:
    total = 0.0
    for v in x:
        if abs(v) <= delta:
            total += 0.5 * v * v
        else:
            total += delta * (abs(v) - 0.5 * delta)
    return total


def gp_nll(log_scale: Any, noise: Any, x: Any, y: Any) -> Any:
    d = x[:, None] - x[None, :]
    K = np.exp(-0.5 * (d / np.exp(log_scale)) ** 2) + noise * np.eye(len(x))
    alpha = np.linalg.solve(K, y)
    sign, logdet = np.linalg.slogdet(K)
    return 0.5 * y @ alpha + 0.5 * logdet


def laplace2d(u: Any, f: Any) -> Any:
    total = 0.0
    for sweep in range(3):  # noqa: B007
        u = u.copy()
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - f[1:-1, 1:-1])
        total += np.sum(u**2)
    return total


def cumulative(returns: Any) -> Any:
    wealth = np.cumprod(1 + returns)
    peak = wealth[0]
    drawdown = 0.0
    for k in range(len(wealth)):
        peak = max(peak, wealth[k])
        drawdown = max(drawdown, 1 - wealth[k] / peak)
    return drawdown


@dataclass
class Lens:
    radius: float
    index: float
    gap: float


def trace(lenses: Any, height: Any) -> Any:
    angle = 0.0
    for lens in lenses:
        angle -= height * (lens.index - 1) / lens.radius
        height += angle * lens.gap
    return height**2


def collatz_like(x: Any, limit: Any) -> Any:
    count = 0
    while x < limit:
        if count % 2 == 0:
            x = x * 1.5 + 0.1
        else:
            x = np.sqrt(x) + 1.0
        count += 1
    return x * count


def softmax_attention(q: Any, k: Any, v: Any) -> Any:
    s = q @ k.T / np.sqrt(q.shape[-1])
    s = s - np.max(s, axis=-1, keepdims=True)
    e = np.exp(s)
    a = e / np.sum(e, axis=-1, keepdims=True)
    return np.sum((a @ v) ** 2)


def polynomial(coefficients: Any, x: Any) -> Any:
    y = 0.0
    for c in coefficients[::-1]:
        y = y * x + c
    return y


def bubble(x: Any) -> Any:
    x = x.copy()
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return np.sum(x * np.arange(len(x)))
