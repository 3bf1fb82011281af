"""Loss functions and likelihoods, on whole arrays."""

# ruff: noqa: B007, B905, E741, N803, N806, UP038
# mypy: ignore-errors

from typing import Any

import numpy as np
from scipy.special import erf, gammaln, logsumexp


def mse(w, b, x, y):
    pred = x @ w + b
    return np.mean((pred - y) ** 2)


def cross_entropy(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    n = len(labels)
    return -log_probs[np.arange(n), labels].mean()


def ridge(w, x, y, lam):
    residual = y - x @ w
    return 0.5 * residual @ residual + 0.5 * lam * np.sum(w * w)


def lasso(w, x, y, lam):
    return np.sum((x @ w - y) ** 2) / (2 * len(y)) + lam * np.sum(np.abs(w))


def huber_vectorised(x, delta):
    a = np.abs(x)
    return np.sum(np.where(a <= delta, 0.5 * x**2, delta * (a - 0.5 * delta)))


def hinge(w, x, y):
    margins = 1 - y * (x @ w)
    return np.sum(np.maximum(0, margins)) + 0.1 * w @ w


def poisson_nll(beta, x, counts):
    eta = x @ beta
    rate = np.exp(eta)
    return np.sum(rate - counts * eta + gammaln(counts + 1))


def gaussian_nll(mu, log_sigma, x):
    sigma = np.exp(log_sigma)
    z = (x - mu) / sigma
    return np.sum(0.5 * z**2 + log_sigma + 0.5 * np.log(2 * np.pi))


def student_t(params, x):
    mu, log_s, log_nu = params
    s = np.exp(log_s)
    nu = np.exp(log_nu)
    z = (x - mu) / s
    const = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - log_s
    return -np.sum(const - (nu + 1) / 2 * np.log1p(z**2 / nu))


def gmm_loglik(alphas, means, log_scales, x):
    k, d = means.shape
    scales = np.exp(log_scales)
    log_w = alphas - logsumexp(alphas)
    diff = (x[:, None, :] - means[None, :, :]) / scales[None, :, :]
    comp = log_w - 0.5 * np.sum(diff**2, axis=2) - np.sum(log_scales, axis=1) - 0.5 * d * np.log(2 * np.pi)
    return np.sum(logsumexp(comp, axis=1))


def gmm_by_loops(alphas, means, icf, x):
    n, d = x.shape
    k = len(alphas)
    total = 0.0
    lse_alpha = np.log(np.sum(np.exp(alphas)))
    for i in range(n):
        terms = np.zeros(k)
        for j in range(k):
            q = np.exp(icf[j])
            z = q * (x[i] - means[j])
            terms[j] = alphas[j] + np.sum(icf[j]) - 0.5 * np.sum(z * z)
        m = np.max(terms)
        total += m + np.log(np.sum(np.exp(terms - m)))
    return total - n * lse_alpha


def kmeans_cost(points, centroids):
    d = np.sum((points[:, None, :] - centroids[None, :, :]) ** 2, axis=-1)
    return np.sum(np.min(d, axis=1))


def triplet(anchor, positive, negative, margin=0.2):
    dp = np.sqrt(np.sum((anchor - positive) ** 2, axis=1) + 1e-9)
    dn = np.sqrt(np.sum((anchor - negative) ** 2, axis=1) + 1e-9)
    return np.mean(np.clip(dp - dn + margin, 0, None))


def focal(logits, targets, gamma=2.0):
    p = 1 / (1 + np.exp(-logits))
    pt = np.where(targets == 1, p, 1 - p)
    return -np.mean((1 - pt) ** gamma * np.log(pt))


def black_scholes(spot, strike, rate, sigma, t):
    def cdf(z):
        return 0.5 * (1 + erf(z / np.sqrt(2)))

    d1 = (np.log(spot / strike) + (rate + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)
    return spot * cdf(d1) - strike * np.exp(-rate * t) * cdf(d2)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rastrigin(x):
    return 10 * len(x) + np.sum(x**2 - 10 * np.cos(2 * np.pi * x))


def ackley(x):
    a, b, c = 20, 0.2, 2 * np.pi
    d = len(x)
    s1 = np.sum(x**2)
    s2 = np.sum(np.cos(c * x))
    return -a * np.exp(-b * np.sqrt(s1 / d)) - np.exp(s2 / d) + a + np.e


def himmelblau(x, y):
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def sharpe(weights, returns):
    portfolio = returns @ weights
    return np.mean(portfolio) / np.std(portfolio)


def total_variation(img, lam, target):
    dx = img[1:, :] - img[:-1, :]
    dy = img[:, 1:] - img[:, :-1]
    tv = np.sum(np.sqrt(dx[:, :-1] ** 2 + dy[:-1, :] ** 2 + 1e-6))
    return 0.5 * np.sum((img - target) ** 2) + lam * tv


def cosine_similarity(u, v):
    return u @ v / (np.linalg.norm(u) * np.linalg.norm(v))


def vae_elbo(mu, logvar, eps, x, w):
    z = mu + np.exp(0.5 * logvar) * eps
    recon = np.tanh(z @ w)
    kl = -0.5 * np.sum(1 + logvar - mu**2 - np.exp(logvar))
    return np.sum((recon - x) ** 2) + kl


def variance_by_hand(x):
    n = len(x)
    mean = sum(x) / n
    return sum((v - mean) ** 2 for v in x) / (n - 1)


def softplus_scalar(x: Any) -> Any:
    return np.log1p(np.exp(-abs(x))) + max(x, 0.0)


def haversine(p, q):
    lat1, lon1 = p
    lat2, lon2 = q
    h = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0 * np.arcsin(np.sqrt(h))


def cox(beta, x, time_order, event):
    eta = x[time_order] @ beta
    risk = np.cumsum(np.exp(eta)[::-1])[::-1]
    return -np.sum(event * (eta - np.log(risk)))


def einsum_bilinear(a, w, b):
    return np.einsum("bi,ij,bj->b", a, w, b).sum()


def arma_nll(phi, theta, sigma2, y):
    e = np.zeros(len(y))
    for t in range(1, len(y)):
        e[t] = y[t] - phi * y[t - 1] - theta * e[t - 1]
    return 0.5 * len(y) * np.log(sigma2) + np.sum(e**2) / (2 * sigma2)


def garch(omega, alpha, beta, r):
    h = np.var(r)
    ll = 0.0
    for ret in r:
        ll += np.log(h) + ret**2 / h
        h = omega + alpha * ret**2 + beta * h
    return 0.5 * ll
