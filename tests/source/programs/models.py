"""Structure: classes, dictionaries, named tuples, dataclasses, closures."""

# ruff: noqa: B007, B905, E741, N803, N806, UP038
# mypy: ignore-errors

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np


class Dense:
    def __init__(self, w, b, activation=np.tanh):
        self.w = w
        self.b = b
        self.activation = activation

    def __call__(self, x):
        return self.activation(x @ self.w + self.b)


class MLP:
    def __init__(self, layers):
        self.layers = layers

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def relu(x):
    return np.maximum(x, 0)


def identity(x):
    return x


def class_mlp_loss(model, x, y):
    return np.mean((model.forward(x) - y) ** 2)


def dict_mlp_loss(params, x, y):
    h = relu(x @ params["w1"] + params["b1"])
    out = h @ params["w2"] + params["b2"]
    return np.mean((out - y) ** 2) + 1e-3 * (np.sum(params["w1"] ** 2) + np.sum(params["w2"] ** 2))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(params, x, h, c):
    z = np.concatenate([x, h])
    f = sigmoid(params["Wf"] @ z + params["bf"])
    i = sigmoid(params["Wi"] @ z + params["bi"])
    o = sigmoid(params["Wo"] @ z + params["bo"])
    g = np.tanh(params["Wg"] @ z + params["bg"])
    c = f * c + i * g
    h = o * np.tanh(c)
    return h, c


def lstm_loss(params, xs, target):
    n = len(params["bf"])
    h = np.zeros(n)
    c = np.zeros(n)
    for x in xs:
        h, c = lstm_step(params, x, h, c)
    return np.sum((h - target) ** 2)


def gradbench_lstm(weights, bias, xs, state):
    h, c = state
    total = 0.0
    for t in range(len(xs) - 1):
        gates = h * weights + bias
        n = len(h) // 4
        f = sigmoid(xs[t] * gates[:n])
        i = sigmoid(gates[n : 2 * n])
        o = sigmoid(gates[2 * n : 3 * n])
        g = np.tanh(gates[3 * n :])
        c = c * f + i * g
        h = np.concatenate([o * np.tanh(c)] * 4)
        total += np.sum(xs[t + 1] * h[:n])
    return -total


def rnn_loss(Wx, Wh, b, xs, ys):
    h = np.zeros(len(b))
    loss = 0.0
    for x, y in zip(xs, ys):
        h = np.tanh(Wx @ x + Wh @ h + b)
        loss += np.sum((h - y) ** 2)
    return loss / len(xs)


def layer_norm(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def transformer_block(p, x):
    q, k, v = x @ p["wq"], x @ p["wk"], x @ p["wv"]
    att = softmax(q @ k.T / np.sqrt(k.shape[-1])) @ v
    x = layer_norm(x + att, p["g"], p["b"])
    return np.sum(relu(x @ p["w"]) ** 2)


class Body(NamedTuple):
    mass: float
    position: np.ndarray


def potential(bodies):
    energy = 0.0
    for i, a in enumerate(bodies):
        for b in bodies[:i]:
            energy -= a.mass * b.mass / np.linalg.norm(a.position - b.position)
    return energy


@dataclass
class Spring:
    stiffness: float
    rest: float
    damping: float = 0.1

    def force(self, x, v):
        return -self.stiffness * (x - self.rest) - self.damping * v


def oscillate(spring, x, v, n):
    for _ in range(n):
        a = spring.force(x, v)
        v += 0.01 * a
        x += 0.01 * v
    return x


@dataclass
class State:
    x: float
    v: float


def step_state(s, k, dt):
    return State(s.x + dt * s.v, s.v - dt * k * s.x)


def simulate_states(s0, k, n):
    s = s0
    for _ in range(n):
        s = step_state(s, k, 0.1)
    return 0.5 * k * s.x**2 + 0.5 * s.v**2


class Counter:
    def __init__(self, rate):
        self.rate = rate
        self.total = 0.0
        self.log = []

    def add(self, x):
        self.total = self.total * self.rate + x
        self.log.append(self.total)


def accumulate(rate, xs):
    c = Counter(rate)
    for x in xs:
        c.add(x)
    return sum(c.log)


class Vec:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, o):
        return Vec(self.x + o.x, self.y + o.y)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    def dot(self, o):
        return self.x * o.x + self.y * o.y


def bezier(p0, p1, p2, p3, t):
    pts = [Vec(*p) for p in (p0, p1, p2, p3)]
    while len(pts) > 1:
        pts = [a * (1 - t) + b * t for a, b in zip(pts, pts[1:])]
    return pts[0].dot(pts[0])


@dataclass
class Config:
    hidden: int = 3
    activation: str = "tanh"
    dropout: dict = field(default_factory=dict)


def configured(w, x, cfg):
    h = x @ w
    if cfg.activation == "tanh":
        h = np.tanh(h)
    elif cfg.activation == "relu":
        h = relu(h)
    for name, rate in cfg.dropout.items():
        h = h * (1 - rate)
    return np.sum(h**2)


class GP:
    def __init__(self, x, y, noise=0.1):
        self.x, self.y, self.noise = x, y, noise

    def kernel(self, a, b, theta):
        d2 = (a[:, None] - b[None, :]) ** 2
        return theta["amp"] ** 2 * np.exp(-0.5 * d2 / theta["len"] ** 2)

    def nll(self, theta):
        K = self.kernel(self.x, self.x, theta) + self.noise * np.eye(len(self.x))
        L = np.linalg.cholesky(K)
        alpha = np.linalg.solve(L.T, np.linalg.solve(L, self.y))
        return 0.5 * self.y @ alpha + np.sum(np.log(np.diag(L)))


scaled = partial(lambda w, x, k: k * np.sum(np.sin(w * x)), k=3.0)


def nested_params(tree):
    (a, b), rest = tree
    c = rest["c"]
    return np.sum(a * b) + c[0] ** 2 + c[1][0] * 3


def graph_conv(adj, feats, weights):
    deg = adj.sum(axis=1)
    norm = adj / np.sqrt(np.outer(deg, deg))
    h = feats
    for w in weights:
        h = relu(norm @ h @ w)
    return h.mean()


def neural_ode(params, y, t0, t1, n):
    dt = (t1 - t0) / n
    path = np.zeros((n + 1, len(y)))
    path[0] = y
    for k in range(n):
        y = y + dt * np.tanh(params["w"] @ y + params["b"])
        path[k + 1] = y
    return np.mean(path**2)


def by_kind(xs, kinds):
    total = 0.0
    for x, kind in zip(xs, kinds):
        match kind:
            case "square":
                total += x**2
            case "exp":
                total += np.exp(x)
            case _:
                total += x
    return total


def guarded_log(x):
    try:
        if np.any(x <= 0):
            raise ValueError("must be positive")
        return np.sum(np.log(x))
    except ValueError:
        return np.sum(x)


def generator_sum(x):
    def squares():
        for v in x:
            yield v * v

    return sum(squares())
