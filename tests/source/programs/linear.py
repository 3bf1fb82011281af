"""Linear algebra and transforms by hand and by NumPy."""

# ruff: noqa: B007, B905, E741, N803, N806, UP038
# mypy: ignore-errors

import numpy as np


def cholesky(A):
    n = A.shape[0]
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                L[i, j] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return L


def logdet_by_cholesky(A):
    L = cholesky(A)
    return 2 * np.sum(np.log(np.diag(L)))


def lu_det(A):
    U = A.copy()
    n = len(U)
    det = 1.0
    for k in range(n):
        for i in range(k + 1, n):
            f = U[i, k] / U[k, k]
            U[i, k:] -= f * U[k, k:]
        det *= U[k, k]
    return det


def gauss_solve(A, b):
    A = A.copy()
    b = b.copy()
    n = len(b)
    for k in range(n):
        piv = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[piv, k]):
                piv = i
        if piv != k:
            A[[k, piv]] = A[[piv, k]]
            b[[k, piv]] = b[[piv, k]]
        for i in range(k + 1, n):
            m = A[i, k] / A[k, k]
            A[i, k:] = A[i, k:] - m * A[k, k:]
            b[i] = b[i] - m * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


def thomas(a, b, c, d):
    n = len(d)
    cp = np.zeros(n)
    dp = np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x = np.zeros(n)
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return np.sum(x**2)


def gram_schmidt(A):
    n = A.shape[1]
    Q = np.zeros_like(A)
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            v -= (Q[:, i] @ A[:, j]) * Q[:, i]
        Q[:, j] = v / np.sqrt(np.sum(v * v))
    return np.sum(Q[0])


def matmul_by_hand(A, B):
    n, m = A.shape
    p = B.shape[1]
    C = np.zeros((n, p))
    for i in range(n):
        for j in range(p):
            for k in range(m):
                C[i, j] += A[i, k] * B[k, j]
    return np.sum(C**2)


def fft(x):
    n = len(x)
    if n == 1:
        return x.astype(complex)
    even = fft(x[::2])
    odd = fft(x[1::2])
    tw = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate([even + tw, even - tw])


def power_spectrum(x):
    X = fft(x)
    return np.sum(np.abs(X) ** 2 * np.arange(len(x)))


def dft(x):
    n = len(x)
    re = np.zeros(n)
    im = np.zeros(n)
    for k in range(n):
        for t in range(n):
            angle = 2 * np.pi * k * t / n
            re[k] += x[t] * np.cos(angle)
            im[k] -= x[t] * np.sin(angle)
    return np.sum((re**2 + im**2) ** 2)


def conv1d(x, w):
    n, k = len(x), len(w)
    out = np.zeros(n - k + 1)
    for i in range(n - k + 1):
        out[i] = np.sum(x[i : i + k] * w)
    return np.sum(np.maximum(out, 0.0))


def conv2d(img, kernel):
    kh, kw = kernel.shape
    H = img.shape[0] - kh + 1
    W = img.shape[1] - kw + 1
    out = np.zeros((H, W))
    for i in range(kh):
        for j in range(kw):
            out += kernel[i, j] * img[i : i + H, j : j + W]
    return np.sum(out**2)


def max_pool(x):
    h, w = x.shape
    out = np.zeros((h // 2, w // 2))
    for i in range(h // 2):
        for j in range(w // 2):
            out[i, j] = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max()
    return np.sum(out**2)


def mahalanobis(x, mu, cov):
    d = x - mu
    return np.sqrt(d @ np.linalg.inv(cov) @ d)


def mvn_logpdf(x, mu, L):
    z = np.linalg.solve(L, (x - mu).T)
    d = len(mu)
    return -0.5 * np.sum(z**2) - len(x) * (np.sum(np.log(np.diag(L))) + 0.5 * d * np.log(2 * np.pi))


def kalman(F, H, Q, R, ys):
    n = F.shape[0]
    x = np.zeros(n)
    P = np.eye(n)
    ll = 0.0
    for y in ys:
        x = F @ x
        P = F @ P @ F.T + Q
        v = y - H @ x
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ v
        P = (np.eye(n) - K @ H) @ P
        ll -= 0.5 * (v @ np.linalg.solve(S, v) + np.log(np.linalg.det(S)) + len(y) * np.log(2 * np.pi))
    return ll


def kalman_1d(q, r, obs):
    x, p = 0.0, 1.0
    nll = 0.0
    for z in obs:
        p = p + q
        s = p + r
        k = p / s
        innov = z - x
        x = x + k * innov
        p = (1 - k) * p
        nll += 0.5 * (np.log(s) + innov**2 / s)
    return nll


def polyfit_residual(x, y, degree):
    V = np.vander(x, degree + 1)
    coef = np.linalg.solve(V.T @ V, V.T @ y)
    return np.sum((V @ coef - y) ** 2)


def rotation(angles, v):
    ax, ay, az = angles
    Rx = np.array([[1, 0, 0], [0, np.cos(ax), -np.sin(ax)], [0, np.sin(ax), np.cos(ax)]])
    Ry = np.array([[np.cos(ay), 0, np.sin(ay)], [0, 1, 0], [-np.sin(ay), 0, np.cos(ay)]])
    Rz = np.array([[np.cos(az), -np.sin(az), 0], [np.sin(az), np.cos(az), 0], [0, 0, 1]])
    return Rz @ Ry @ Rx @ v


def rodrigues(rot, x):
    sq = np.sum(rot**2)
    if sq > 1e-12:
        theta = np.sqrt(sq)
        w = rot / theta
        w_cross = np.cross(w, x)
        return x * np.cos(theta) + w_cross * np.sin(theta) + w * (w @ x) * (1 - np.cos(theta))
    return x + np.cross(rot, x)


def project(cam, X):
    Xc = rodrigues(cam[:3], X - cam[3:6])
    p = Xc[:2] / Xc[2]
    r2 = p @ p
    L = 1 + cam[9] * r2 + cam[10] * r2**2
    return L * p * cam[6] + cam[7:9]


def reprojection_error(cam, X, w, feat):
    return w * (project(cam, X) - feat)


def bundle_cost(cams, pts, ws, obs, feats):
    err = 0.0
    for k in range(len(obs)):
        e = reprojection_error(cams[obs[k, 0]], pts[obs[k, 1]], ws[k], feats[k])
        err += np.sum(e**2)
    return err


def laplacian_quadratic(A, x):
    D = np.diag(A.sum(axis=1))
    return x @ (D - A) @ x


def expm_taylor(A, n):
    result = np.eye(len(A))
    term = np.eye(len(A))
    for k in range(1, n):
        term = term @ A / k
        result = result + term
    return np.trace(result)
