"""Dynamic programming, sequences, recursions."""

# ruff: noqa: B007, B905, E741, N803, N806, UP038
# mypy: ignore-errors

import numpy as np


def soft_edit_distance(cost, gap):
    n, m = cost.shape
    d = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        d[i, 0] = d[i - 1, 0] + gap
    for j in range(1, m + 1):
        d[0, j] = d[0, j - 1] + gap
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d[i, j] = min(d[i - 1, j] + gap, d[i, j - 1] + gap, d[i - 1, j - 1] + cost[i - 1, j - 1])
    return d[n, m]


def soft_dtw(x, y, gamma):
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), 1e10)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            r0 = -R[i - 1, j - 1] / gamma
            r1 = -R[i - 1, j] / gamma
            r2 = -R[i, j - 1] / gamma
            rmax = max(r0, r1, r2)
            softmin = -gamma * (np.log(np.exp(r0 - rmax) + np.exp(r1 - rmax) + np.exp(r2 - rmax)) + rmax)
            R[i, j] = (x[i - 1] - y[j - 1]) ** 2 + softmin
    return R[n, m]


def hmm_forward(log_pi, log_A, log_B, obs):
    alpha = log_pi + log_B[:, obs[0]]
    for o in obs[1:]:
        s = alpha[:, None] + log_A
        m = np.max(s, axis=0)
        alpha = m + np.log(np.sum(np.exp(s - m), axis=0)) + log_B[:, o]
    m = np.max(alpha)
    return m + np.log(np.sum(np.exp(alpha - m)))


def viterbi(emissions, transitions):
    score = emissions[0]
    for t in range(1, len(emissions)):
        score = np.max(score[:, None] + transitions, axis=0) + emissions[t]
    return np.max(score)


def crf_loss(emissions, transitions, tags):
    n = len(tags)
    gold = emissions[0, tags[0]]
    alpha = emissions[0]
    for t in range(1, n):
        gold += transitions[tags[t - 1], tags[t]] + emissions[t, tags[t]]
        alpha = np.log(np.sum(np.exp(alpha[:, None] + transitions), axis=0)) + emissions[t]
    return np.log(np.sum(np.exp(alpha))) - gold


def knapsack_soft(values, weights, capacity):
    best = np.zeros(capacity + 1)
    for i in range(len(values)):
        new = best.copy()
        for c in range(weights[i], capacity + 1):
            new[c] = max(best[c], best[c - weights[i]] + values[i])
        best = new
    return best[capacity]


def binomial_option(s0, k, sigma, r, n):
    dt = 1.0 / n
    u = np.exp(sigma * np.sqrt(dt))
    d = 1 / u
    p = (np.exp(r * dt) - d) / (u - d)
    disc = np.exp(-r * dt)
    values = np.zeros(n + 1)
    for j in range(n + 1):
        values[j] = max(0.0, k - s0 * u**j * d ** (n - j))
    for i in range(n - 1, -1, -1):
        for j in range(i + 1):
            cont = disc * (p * values[j + 1] + (1 - p) * values[j])
            exercise = k - s0 * u**j * d ** (i - j)
            values[j] = max(cont, exercise)
    return values[0]


def longest_path(w):
    n = len(w)
    dist = [0.0] * n
    for j in range(1, n):
        best = dist[0] + w[0, j]
        for i in range(1, j):
            if dist[i] + w[i, j] > best:
                best = dist[i] + w[i, j]
        dist[j] = best
    return dist[-1]


def fibonacci_memo(a, b, n):
    memo = {0: a, 1: b}

    def fib(k):
        if k not in memo:
            memo[k] = fib(k - 1) + 0.5 * fib(k - 2)
        return memo[k]

    return fib(n) ** 2


def determinant_minors(A):
    if len(A) == 1:
        return A[0, 0]
    total = 0.0
    for j in range(len(A)):
        minor = np.delete(A[1:], j, axis=1)
        total += (-1) ** j * A[0, j] * determinant_minors(minor)
    return total


def tree_sum(tree, w):
    if isinstance(tree, (int, float)):
        return tree * w
    return sum(np.tanh(tree_sum(t, w)) for t in tree)


def bspline(t, knots, c):
    k = 2
    d = [c[j] for j in range(k + 1)]
    for r in range(1, k + 1):
        for j in range(k, r - 1, -1):
            alpha = (t - knots[j]) / (knots[j + 1 + k - r] - knots[j])
            d[j] = (1.0 - alpha) * d[j - 1] + alpha * d[j]
    return d[k]


def running_median(x):
    out = np.empty(len(x) - 2)
    for i in range(len(out)):
        out[i] = np.sort(x[i : i + 3])[1]
    return np.sum(out**2)


def nearest_neighbours(p, q):
    total = 0.0
    for a in p:
        best = np.inf
        for b in q:
            d = np.sum((a - b) ** 2)
            if d < best:
                best = d
        total += best
    return total


def prefix_scan(x):
    acc = 1.0
    out = []
    for k, v in enumerate(x):
        acc = acc * v + k
        out.append(acc)
    return sum(out)


def ctc_like(probs, labels):
    T, n = len(probs), len(labels)
    a = np.zeros((T, n))
    a[0, 0] = probs[0, labels[0]]
    for t in range(1, T):
        for s in range(n):
            a[t, s] = a[t - 1, s]
            if s > 0:
                a[t, s] += a[t - 1, s - 1]
            a[t, s] *= probs[t, labels[s]]
    return -np.log(a[-1, -1])
