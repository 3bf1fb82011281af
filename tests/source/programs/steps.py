"""Time stepping, iteration, integration: loops, branches, updates in place."""

# ruff: noqa: B007, B905, E741, N803, N806, UP038
# mypy: ignore-errors

import math

import numpy as np


def heat(u, alpha, steps):
    u = u.copy()
    for _ in range(steps):
        u[1:-1] = u[1:-1] + alpha * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


def wave(u0, c, nt):
    u_prev = u0.copy()
    u = u0.copy()
    for n in range(nt):
        u_next = np.zeros_like(u)
        u_next[1:-1] = 2 * u[1:-1] - u_prev[1:-1] + c**2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u_prev = u
        u = u_next
    return np.sum(np.abs(u))


def burgers(u, dt, dx, nu, nt):
    for _ in range(nt):
        un = u.copy()
        u[1:-1] = (
            un[1:-1] - un[1:-1] * dt / dx * (un[1:-1] - un[:-2]) + nu * dt / dx**2 * (un[2:] - 2 * un[1:-1] + un[:-2])
        )
        u[0] = un[0]
        u[-1] = un[-1]
    return np.mean(u**2)


def rk4(f_params, y0, h, n):
    a, b, c, d = f_params

    def deriv(state):
        x, y = state
        return np.array([a * x - b * x * y, -c * y + d * x * y])

    y = y0
    for _ in range(n):
        k1 = deriv(y)
        k2 = deriv(y + h / 2 * k1)
        k3 = deriv(y + h / 2 * k2)
        k4 = deriv(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def pendulum(theta, omega, length, dt, steps):
    g = 9.81
    for _ in range(steps):
        omega = omega - dt * g / length * math.sin(theta)
        theta = theta + dt * omega
    return theta


def verlet(pos, vel, mass, dt, n_steps):
    def forces(p):
        f = np.zeros_like(p)
        for i in range(len(p)):
            for j in range(len(p)):
                if i != j:
                    r = p[j] - p[i]
                    d2 = np.sum(r**2) + 0.01
                    f[i] += mass[j] * r / d2**1.5
        return f

    acc = forces(pos)
    for _ in range(n_steps):
        pos = pos + vel * dt + 0.5 * acc * dt**2
        new_acc = forces(pos)
        vel = vel + 0.5 * (acc + new_acc) * dt
        acc = new_acc
    return np.sum(vel**2)


def newton_root(a, b, tol=1e-12):
    x = 1.0
    for _ in range(50):
        f = x**3 + a * x - b
        df = 3 * x**2 + a
        step = f / df
        x -= step
        if abs(step) < tol:
            break
    return x


def newton_early_return(c):
    x = c
    while True:
        nxt = 0.5 * (x + c / x)
        if abs(nxt - x) < 1e-12:
            return nxt
        x = nxt


def bisect(target, lo, hi):
    while hi - lo > 1e-3:
        mid = (lo + hi) / 2
        if mid**3 + mid < target:
            lo = mid
        else:
            hi = mid
    x = (lo + hi) / 2
    return x - (x**3 + x - target) / (3 * x**2 + 1)


def gradient_descent(x0, A, b, lr, iters):
    x = x0
    for i in range(iters):
        g = A @ x - b
        x = x - lr * g
    return 0.5 * x @ A @ x - b @ x


def power_iteration(A, v, iters):
    for _ in range(iters):
        w = A @ v
        v = w / np.linalg.norm(w)
    return v @ A @ v


def conjugate_gradient(A, b, tol):
    x = np.zeros_like(b)
    r = b - A @ x
    p = r
    rs = r @ r
    while rs > tol:
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        rs_new = r @ r
        p = r + (rs_new / rs) * p
        rs = rs_new
    return np.sum(x)


def logistic_map(r, x, n):
    for _ in range(n):
        x = r * x * (1 - x)
    return x


def mandelbrot_like(cx, cy, limit):
    zx, zy = 0.0, 0.0
    n = 0
    while zx * zx + zy * zy < 4.0 and n < limit:
        zx, zy = zx * zx - zy * zy + cx, 2 * zx * zy + cy
        n += 1
    return zx * zx + zy * zy


def simpson(a, b, k, n):
    h = (b - a) / n
    s = math.exp(-k * a) + math.exp(-k * b)
    for i in range(1, n):
        x = a + i * h
        if i % 2 == 1:
            s += 4 * math.exp(-k * x)
        else:
            s += 2 * math.exp(-k * x)
    return s * h / 3


def bouncing_ball(h, v, e, dt, n):
    for _ in range(n):
        v = v - 9.81 * dt
        h = h + v * dt
        if h < 0:
            h = -h
            v = -e * v
    return h


def sir(beta, gamma, s, i, r, days):
    history = []
    for _ in range(days):
        new_inf = beta * s * i
        new_rec = gamma * i
        s = s - new_inf
        i = i + new_inf - new_rec
        r = r + new_rec
        history.append(i)
    return np.array(history)


def ema(x, alpha):
    out = [x[0]]
    for v in x[1:]:
        out.append(alpha * v + (1 - alpha) * out[-1])
    return np.stack(out)


def adam(x, lr, n):
    m = np.zeros_like(x)
    v = np.zeros_like(x)
    for t in range(1, n + 1):
        g = 2 * x + np.cos(x)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        mhat = m / (1 - 0.9**t)
        vhat = v / (1 - 0.999**t)
        x = x - lr * mhat / (np.sqrt(vhat) + 1e-8)
    return np.sum(x**2)


def jacobi(A, b, n):
    D = np.diag(A)
    R = A - np.diag(D)
    x = np.zeros(len(b))
    for _ in range(n):
        x = (b - R @ x) / D
    return np.sum(x**2)


def gauss_seidel(A, b, sweeps):
    n = len(b)
    x = np.zeros(n)
    for _ in range(sweeps):
        for i in range(n):
            s = 0.0
            for j in range(n):
                if j != i:
                    s += A[i, j] * x[j]
            x[i] = (b[i] - s) / A[i, i]
    return x @ x


def fixed_point(a, x):
    k = 0
    while k < 100:
        x_new = np.cos(a * x)
        if np.abs(x_new - x) < 1e-10:
            return x_new
        x = x_new
        k += 1
    raise ValueError("no convergence")


def pid(gains, setpoint, n):
    kp, ki, kd = gains
    y, integral, last = 0.0, 0.0, 0.0
    cost = 0.0
    for t in range(n):
        err = setpoint - y
        integral += err * 0.1
        u = kp * err + ki * integral + kd * (err - last) / 0.1
        u = min(max(u, -5.0), 5.0)
        y += 0.1 * (u - y)
        last = err
        cost += err**2 + 0.01 * u**2
    return cost


def adaptive_step(rate, y, t_end):
    t, h = 0.0, 0.1
    while t < t_end:
        if t + h > t_end:
            h = t_end - t
        full = y - h * rate * y
        half = y - h / 2 * rate * y
        half = half - h / 2 * rate * half
        if abs(full - half) < 1e-3:
            y = half
            t += h
            h *= 1.5
        else:
            h *= 0.5
    return y


def game_of_smooth_life(grid, steps):
    for _ in range(steps):
        nb = np.roll(grid, 1, 0) + np.roll(grid, -1, 0) + np.roll(grid, 1, 1) + np.roll(grid, -1, 1)
        grid = 1 / (1 + np.exp(-(nb - 2 * grid)))
    return grid.sum()


def horner(c, x):
    r = 0.0
    for k in range(len(c) - 1, -1, -1):
        r = r * x + c[k]
    return r


def continued_fraction(a):
    r = a[-1]
    for v in reversed(a[:-1]):
        r = v + 1 / r
    return r


def tax(income):
    if income <= 10.0:
        return 0.1 * income
    elif income <= 40.0:
        return 1.0 + 0.2 * (income - 10.0)
    return 7.0 + 0.4 * (income - 40.0) ** 1.1
