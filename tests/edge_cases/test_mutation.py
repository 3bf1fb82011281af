"""Mutation and aliasing: what NumPy's arrays share, and when a write is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import UnsupportedCode
from tests.edge_cases.judge import Table, judge, numbers, right_or_refused, signed

pytestmark = pytest.mark.filterwarnings("ignore:.*recorded on a tape")
case = Table()


# ---- two names, one array -------------------------------------------------------------------------------------------


@case([numbers(4)], [signed(4, seed=1)])
def two_names_one_array(x):
    y = x * 1.0
    z = y
    z += 1
    return np.sum(y * y)


@case([numbers(6)])
def written_while_iterated(x):
    y = x * 1.0
    total = 0.0
    for e in y:
        y, y = y, y
        y[3:4] *= np.cos(e)
        total += e
    return total + np.sum(y)


@case([numbers(4), numbers(4)])
def written_while_iterated_step_by_step(x, y):
    x = x * 1.0
    for e in x:
        try:
            y[0] += x[4]
        except IndexError:
            y[0] += 1.0
        x[2:] = np.sin(e * y)[2:]
    return np.sum(x * y)


@case([numbers(6)])
def written_while_enumerated(x):
    y = x * 1.0
    total = 0.0
    for i, e in enumerate(y):
        y[3:] += 0.1 * e
        total += e * i
    return total + np.sum(y)


@case([numbers(6)])
def written_while_zipped_with_itself(x):
    y = x.copy()
    total = 0.0
    for a, b in zip(y, y[1:]):
        y[2] += a * b
        total += a * b
    return total


@case([numbers(4)])
def two_names_then_rebound(x):
    y = x * 1.0
    z = y
    z = z + 1
    z *= 3.0
    return np.sum(y * y * z)


@case([numbers(4)])
def name_of_argument_then_copy(x):
    y = x
    y = y.copy()
    y[0] = 7.0
    return np.sum(x * y)


@case([numbers(3)])
def argument_written(x):
    x[0] = x[1] * x[2]
    x *= 2.0
    return np.sum(x**2)


@case([numbers(3, 3)])
def argument_row_written_through_name(x):
    row = x[1]
    row[:] = np.sin(row) * x[0]
    return np.sum(x * x)


@case([numbers(4)])
def alias_in_list(x):
    y = x * 1.0
    parts = [y, y]
    parts[0] *= 2.0
    parts[1] += 1.0
    return np.sum(y**2)


@case([numbers(4)])
def alias_in_dict(x):
    state = {"u": x * 1.0}
    u = state["u"]
    u[1] = u[0] * u[2]
    state["u"][2] *= u[1]
    return np.sum(state["u"] ** 2)


class Box:
    def __init__(self, u):
        self.u = u

    def double(self):
        self.u *= 2.0


@case([numbers(4)])
def alias_in_attribute(x):
    box = Box(x.copy())
    u = box.u
    box.double()
    box.u[0] += u[1]
    return np.sum(u * u)


def _scale(a, by):
    a *= by


@case([numbers(4)])
def written_by_a_callee(x):
    y = x + 0.0
    _scale(y, x[0])
    _scale(y[1:3], x[1])
    return np.sum(y**2)


@case([numbers(4)])
def written_by_a_closure(x):
    y = np.zeros(4)

    def put(k, v):
        y[k] = v

    for k in range(4):
        put(k, x[k] ** 2)
    put(0, y[3] * x[0])
    return np.sum(y * x)


@case([numbers(3), 0.7])
def zero_dimensional_alias(x, s):
    total = np.array(s)
    other = total
    for v in x:
        total += v * v
    return other * total


@case([numbers(3)])
def asarray_shares(x):
    y = np.asarray(x)
    y2 = np.array(x)
    y2[0] = 5.0
    y[1] = 3.0
    return np.sum(x * y * y2)


# ---- filling --------------------------------------------------------------------------------------------------------


@case([numbers(5)], [signed(5, seed=1)])
def filled_element_by_element(x):
    y = np.zeros(5)
    for i in range(5):
        y[i] = x[i] ** 2 + i
    return np.sum(np.sin(y))


@case([numbers(5)], [numbers(12)], [numbers(1)])
def filled_with_a_recurrence(x):
    n = len(x)
    y = np.empty(n)
    y[0] = x[0]
    for i in range(1, n):
        y[i] = 0.5 * y[i - 1] + np.sin(x[i] * y[i - 1])
    return np.sum(y * y)


@case([numbers(5)], [numbers(9)])
def filled_backwards(x):
    n = x.shape[0]
    y = np.zeros_like(x)
    y[-1] = x[-1]
    for i in range(n - 2, -1, -1):
        y[i] = x[i] * y[i + 1] + 1.0
    return np.sum(y)


@case([numbers(2, 2)], [signed(2, 2, seed=3)])
def block_into_a_matrix(b):
    a = np.eye(4)
    a[1:3, 1:3] = b
    a[:2, 2:] += b @ b
    return np.sum(a @ a)


@case([numbers(4, 3)])
def filled_by_columns(x):
    a = np.zeros((4, 3))
    for j in range(3):
        a[:, j] = x[:, j] * x[:, j - 1]
    return np.sum(a**2)


@case([numbers(4, 3)])
def filled_by_rows_from_rows(x):
    a = np.zeros((4, 3))
    a[0] = x[0]
    for i in range(1, 4):
        a[i] = np.tanh(a[i - 1]) + x[i]
    return np.sum(a[-1])


@case([numbers(3)], [numbers(6)])
def outer_by_double_loop(x):
    n = len(x)
    a = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            a[i, j] = np.exp(-((x[i] - x[j]) ** 2)) + (1.0 if i == j else 0.0)
    return np.linalg.slogdet(a)[1]


@case([numbers(4)])
def integer_array_filled(x):
    counts = np.zeros(4, dtype=int)
    for i in range(4):
        counts[i] = i * i
    return np.sum(x * counts)


@case([numbers(4)])
def written_through_flat_index_arrays(x):
    y = np.zeros(6)
    y[[0, 2, 4, 5]] = x
    y[np.array([1, 3])] = x[:2] * x[2:]
    return np.sum(y**3)


@case([signed(6)], [signed(6, seed=5)])
def written_through_a_mask(x):
    y = x * 2.0
    y[y < 0] = 0.5
    y[x > 0] *= x[x > 0]
    return np.sum(y * x)


@case([numbers(3)])
def tuple_target_of_elements(x):
    y = np.zeros(3)
    y[0], y[1], y[2] = x[2], x[0] * x[1], x[1]
    return y[0] * y[1] + y[2] ** 2


# ---- overwriting what was used nonlinearly --------------------------------------------------------------------------


@case([numbers(4)])
def overwritten_after_nonlinear_use(x):
    y = x * 1.0
    s = np.sum(np.exp(y))
    y[:] = y * s
    t = np.sum(y**2)
    y[0] = t
    return np.sum(y * x) + s


@case([numbers(4)], [signed(4)])
def squared_in_place_repeatedly(x):
    y = x.copy()
    for _ in range(3):
        y *= y
        y += x
    return np.sum(y)


@case([numbers(4)])
def elements_overwritten_in_turn(x):
    y = x.copy()
    total = 0.0
    for i in range(4):
        total += y[i] * y[(i + 1) % 4]
        y[i] = total
    return np.sum(y * y)


@case([numbers(4)])
def saved_row_survives_overwriting(x):
    y = x.copy()
    old = y.copy()
    y[1:] = 0.0
    return np.sum(old * old) * y[0]


@case([numbers(4)])
def view_is_not_a_copy(x):
    y = x.copy()
    old = y[1:]
    y[1:] = x[:-1] * 3.0
    return np.sum(old * old) * y[0]


@case([numbers(5)])
def right_side_reads_target(x):
    y = x.copy()
    y[1:] = y[:-1] * y[1:]
    y[:-1] += y[1:] ** 2
    y[::-1] = y * x
    return np.sum(y * np.arange(5))


@case([numbers(6)])
def overlapping_shift(x):
    y = x.copy()
    y[1:] = y[:-1]
    y[:-2] = y[2:] * y[:-2]
    return np.sum(y**2)


# ---- stencils in time loops -----------------------------------------------------------------------------------------


@case([numbers(7)], [numbers(3)], [numbers(12)])
def heat_in_place(u0):
    u = u0.copy()
    c = 0.2
    for _ in range(6):
        u[1:-1] += c * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


@case([numbers(7), 0.1])
def burgers_in_place(u0, c):
    u = u0.copy()
    for _ in range(4):
        u[1:-1] -= c * u[1:-1] * (u[1:-1] - u[:-2])
        u[0] = u[-2]
        u[-1] = u[1]
    return np.sum(np.sin(u))


@case([numbers(5, 5)])
def heat_2d_in_place(u):
    u = u + 0.0
    for _ in range(3):
        u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        u[0, :] = u[1, :]
    return np.sum(u * u)


@case([numbers(6), 4], [numbers(6), 0], [numbers(6), 9])
def ping_pong_buffers(u0, steps):
    old, new = u0.copy(), np.zeros_like(u0)
    for _ in range(steps):
        new[0], new[-1] = old[0], old[-1]
        new[1:-1] = old[1:-1] + 0.3 * (old[2:] * old[:-2] - old[1:-1])
        old, new = new, old
    return np.sum(old**2)


@case([numbers(6)])
def three_level_wave(u0):
    prev, cur = u0.copy(), u0 * 1.1
    for _ in range(5):
        nxt = np.zeros(6)
        nxt[1:-1] = 2 * cur[1:-1] - prev[1:-1] + 0.1 * (cur[2:] - 2 * cur[1:-1] + cur[:-2])
        prev, cur = cur, nxt
    return np.sum(cur**2) + np.sum(prev)


@case([numbers(8)])
def gauss_seidel(b):
    x = np.zeros(8)
    for _ in range(5):
        for i in range(1, 7):
            x[i] = 0.4 * (x[i - 1] + x[i + 1] * x[i]) + b[i]
    return np.sum(x**2)


@case([numbers(4, 6)])
def states_in_rows(x):
    u = np.zeros((5, 6))
    u[0] = 0.3
    for t in range(4):
        u[t + 1, 1:] = u[t, :-1] * x[t, 1:]
        u[t + 1, 0] = x[t, 0] + u[t, -1]
    return np.sum(u**2)


# ---- views ----------------------------------------------------------------------------------------------------------


@case([numbers(6)])
def view_written_base_read(x):
    y = x * 1.0
    v = y[1:4]
    v *= 2.0
    v[0] = x[5] ** 2
    return np.sum(y**2)


@case([numbers(6)])
def base_written_view_read(x):
    y = x * 1.0
    v = y[::2]
    y[2] = x[0] * x[1]
    y += 1.0
    return np.sum(v**2)


@case([numbers(8)])
def view_of_a_view(x):
    y = x.copy()
    v = y[1:7]
    w = v[::2]
    w[:] = w * w
    w[-1] += y[0]
    v[1] *= w[0]
    return np.sum(y * x)


@case([numbers(3, 4)])
def transposed_view(x):
    y = x.copy()
    t = y.T
    t[0] = x[:, 1] ** 2
    t[1:3, 1] *= 3.0
    t += np.arange(3.0)
    return np.sum(y**2 * x)


@case([numbers(2, 3, 4)])
def view_of_a_transposed_view(x):
    y = x.copy()
    v = np.transpose(y, (2, 0, 1))[1:3]
    w = v[:, 1]
    w *= x[0].T[1:3]
    v[0, 0, 2] = 4.0
    return np.sum(y**2)


@case([numbers(3, 4)])
def reshaped_view(x):
    y = x.copy()
    f = y.reshape(-1)
    f[3:7] *= 2.0
    g = y.ravel()
    g[0] = x[1, 1] ** 2
    return np.sum(y**2)


@case([numbers(3, 4)])
def flatten_is_a_copy(x):
    y = x.copy()
    f = y.flatten()
    f *= 5.0
    return np.sum(y * x) + np.sum(f)


@case([numbers(4, 4)])
def row_and_column_views_cross(x):
    a = x.copy()
    row, column = a[1], a[:, 2]
    row *= 2.0
    column += row
    row[2] = column[1] * column[0]
    return np.sum(a**2)


@case([numbers(4, 4)])
def reversed_and_new_axis_views(x):
    a = x.copy()
    r = a[::-1]
    r[0] = a[0] * 2.0
    c = a[0][:, None]
    c *= 3.0
    return np.sum(a**2)


@case([numbers(4)])
def whole_slice_is_a_view(x):
    y = x.copy()
    v = y[:]
    v[...] = v * v
    v[0:2] -= 1.0
    return np.sum(y * y)


@case([numbers(4)])
def fancy_index_is_a_copy(x):
    y = x.copy()
    c = y[[0, 1]]
    c *= 10.0
    return np.sum(y * y) + np.sum(c)


@case([numbers(4)])
def mask_is_a_copy(x):
    y = x.copy()
    c = y[np.array([True, False, True, False])]
    c += 10.0
    return np.sum(y * y) * c[0]


@case([numbers(4, 4)])
def swapaxes_and_squeeze_are_views(x):
    y = x.copy()
    np.swapaxes(y, 0, 1)[0] *= x[1]
    s = np.expand_dims(y, 0)
    np.squeeze(s, 0)[3] = x[2] ** 2
    return np.sum(y**2)


@case([numbers(4, 4)])
def view_of_a_rebound_name(x):
    y = x.copy()
    v = y[0]
    y = y * 2.0
    v *= 3.0
    y[1] = v
    return np.sum(y**2) + np.sum(v)


@case([numbers(4, 5)])
def iterating_rows_gives_views(x):
    y = x.copy()
    for row in y:
        row *= row[0]
    for k, row in enumerate(y):
        row[k] = 1.0
    return np.sum(y**2)


@case([numbers(2, 5)])
def unpacked_rows_are_views(x):
    y = x.copy()
    a, b = y
    a += b
    b[1:] = a[:-1]
    return np.sum(y**2)


@case([numbers(5)], [numbers(9)])
def views_taken_in_a_loop(x):
    y = x.copy()
    n = len(x)
    for i in range(n - 1):
        v = y[i : i + 2]
        v *= 0.5
        v[0] += v[1] ** 2
    return np.sum(y**2)


@case([numbers(5)], [numbers(9)])
def view_from_before_a_loop(x):
    y = x.copy()
    v = y[1:]
    for i in range(len(x) - 1):
        v[i] = y[i] * x[i]
    return np.sum(y**2)


@case([numbers(4, 4)])
def diagonal_by_flat_slice(x):
    a = x.copy()
    a.reshape(-1)[::5] += 2.0
    return np.linalg.slogdet(a)[1]


# ---- the same array passed twice ------------------------------------------------------------------------------------


def _axpy(a, x, y):
    y += a * x
    return y


@case([numbers(4)])
def same_array_passed_twice_to_a_callee(x):
    y = x * 1.0
    z = _axpy(2.0, y, y)
    z[0] *= 2.0
    return np.sum(y * z)


def _shift(src, dst):
    dst[1:] = src[:-1]
    dst[0] = src[-1] * dst[1]


@case([numbers(5)])
def source_and_target_the_same(x):
    y = x.copy()
    _shift(y, y)
    _shift(y[:3], y[:3])
    return np.sum(y**2 * x)


@case([numbers(5)])
def overlapping_views_passed(x):
    y = x.copy()
    _axpy(x[0], y[:-1], y[1:])
    return np.sum(y**2)


# ---- swaps ----------------------------------------------------------------------------------------------------------


@case([numbers(4)], [signed(4)])
def swap_elements(a):
    a = a.copy()
    for i in range(2):
        j = 3 - i
        a[i], a[j] = a[j], a[i] * a[0]
    return np.sum(a * np.arange(4) ** 2)


@case([numbers(3, 3)])
def swap_rows_by_fancy_index(a):
    a = a.copy()
    a[[0, 2]] = a[[2, 0]]
    return np.sum(a[0] * a[1] ** 2)


@case([numbers(3, 3)])
def swapping_row_views_loses_a_row(a):
    a = a.copy()
    a[0], a[2] = a[2], a[0]  # both sides are views: row 2 keeps its contents
    return np.sum(a[0] * a[1] ** 2 * a[2])


@case([numbers(3, 3)])
def swap_rows_with_a_copy(a):
    a = a.copy()
    keep = a[0].copy()
    a[0] = a[2]
    a[2] = keep
    return np.sum(a[0] * a[1] ** 2)


@case([np.array([0.3, 2.0, 1.1, -0.4])], [np.array([4.0, 3.0, 2.0, 1.0])], [np.array([1.0, 2.0, 3.0, 4.0])])
def bubble_sort(x):
    a = x.copy()
    n = len(a)
    for i in range(n):
        for j in range(n - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return np.sum(a * np.array([1.0, 10.0, 100.0, 1000.0]))


@case([np.array([0.3, 2.0, 1.1, -0.4])], [np.array([4.0, 3.0, 2.0, 1.0])])
def insertion_sort(x):
    a = x.copy()
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return np.sum(a**2 * np.arange(4))


@case([np.array([0.3, 2.0, 1.1])], [np.array([4.0, 3.0, 2.0])])
def sorting_a_list_of_numbers(x):
    a = [x[0], x[1], x[2]]
    if a[0] > a[1]:
        a[0], a[1] = a[1], a[0]
    if a[1] > a[2]:
        a[1], a[2] = a[2], a[1]
    if a[0] > a[1]:
        a[0], a[1] = a[1], a[0]
    return a[0] + 10 * a[1] ** 2 + 100 * a[2]


# ---- linear algebra by hand -----------------------------------------------------------------------------------------


@case([signed(4, 4) + 3 * np.eye(4)], [numbers(5, 5) + 4 * np.eye(5)])
def lu_in_place(a):
    a = a.copy()
    n = a.shape[0]
    for k in range(n - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.sum(np.log(np.abs(np.diag(a)))) + np.sum(a**2)


@case([signed(4, 4) + 3 * np.eye(4)])
def lu_by_row_operations(a):
    a = a.copy()
    n = len(a)
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i] -= factor * a[k]
    d = 1.0
    for k in range(n):
        d *= a[k, k]
    return d


@case(
    [np.array([[0.1, 2.0, 0.3], [1.0, 0.5, 3.0], [2.0, 1.0, 0.2]]), numbers(3)],
    [3 * np.eye(3) + numbers(3, 3), numbers(3)],
)
def gauss_with_pivoting(a, b):
    a, b = a.copy(), b.copy()
    n = len(b)
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            a[[k, p]] = a[[p, k]]
            b[[k, p]] = b[[p, k]]
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k:] -= f * a[k, k:]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - np.sum(a[i, i + 1 :] * x[i + 1 :])) / a[i, i]
    return np.sum(x**2)


@case([numbers(4, 4)])
def cholesky_by_hand(m):
    a = m @ m.T + 4 * np.eye(4)
    n = 4
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - low[i, :j] @ low[j, :j]
            low[i, j] = np.sqrt(s) if i == j else s / low[j, j]
    return np.sum(np.sin(low))


@case([numbers(3, 3), numbers(3)])
def modified_gram_schmidt(m, w):
    q = m + np.eye(3)
    for k in range(3):
        q[:, k] /= np.sqrt(np.sum(q[:, k] ** 2))
        for j in range(k + 1, 3):
            q[:, j] -= (q[:, k] @ q[:, j]) * q[:, k]
    return np.sum((q @ w) ** 3)


@case([signed(4, 4), numbers(4)], [signed(4, 4, seed=8) * 0.01, numbers(4)])
def conjugate_gradient_with_early_return(m, b):
    a = m @ m.T + 5 * np.eye(4)
    x = np.zeros(4)
    r = b - a @ x
    p = r.copy()
    rs = r @ r
    for _ in range(20):
        ap = a @ p
        alpha = rs / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        new = r @ r
        if np.sqrt(new) < 1e-13:
            return np.sum(x**2)
        p = r + (new / rs) * p
        rs = new
    return np.sum(x**3)


@case([numbers(5)], [numbers(8)])
def thomas_algorithm(d):
    n = len(d)
    b, r = np.full(n, 4.0), d.copy()
    for i in range(1, n):
        w = 1.0 / b[i - 1]
        b[i] -= w * d[i]
        r[i] -= w * r[i - 1]
    x = np.empty(n)
    x[-1] = r[-1] / b[-1]
    for i in reversed(range(n - 1)):
        x[i] = (r[i] - x[i + 1]) / b[i]
    return np.sum(x**2)


# ---- dynamic programming --------------------------------------------------------------------------------------------


@case([numbers(5)], [numbers(3)])
def table_by_diagonals(p):
    n = len(p) - 1
    m = np.zeros((n, n))
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = np.inf
            for k in range(i, j):
                cost = m[i, k] + m[k + 1, j] + p[i] * p[k + 1] * p[j + 1]
                if cost < best:
                    best = cost
            m[i, j] = best
    return m[0, n - 1]


@case([np.array([0.0, 1.3, 0.2, 2.0]), np.array([0.1, 0.4, 1.9])], [numbers(4), signed(3)])
def dynamic_time_warping(a, b):
    n, m = len(a), len(b)
    d = np.full((n + 1, m + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = (a[i - 1] - b[j - 1]) ** 2
            d[i, j] = cost + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


@case([np.log(numbers(4, 3)), numbers(3, 3)])
def forward_algorithm(obs, trans):
    t = trans / np.sum(trans, axis=1, keepdims=True)
    alpha = np.zeros((4, 3))
    alpha[0] = np.exp(obs[0]) / 3
    for k in range(1, 4):
        for j in range(3):
            alpha[k, j] = np.exp(obs[k, j]) * np.sum(alpha[k - 1] * t[:, j])
    return np.log(np.sum(alpha[-1]))


@case([numbers(4), numbers(4, seed=1), 6])
def soft_knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1)
    for k in range(4):
        for c in range(capacity, k, -1):
            take = best[c - k - 1] + values[k]
            best[c] = np.logaddexp(best[c], take * weights[k])
    return best[capacity]


# ---- Fourier transform by hand --------------------------------------------------------------------------------------


@case([signed(8), signed(8, seed=1)])
def fft_in_place(x, y):
    re, im = x.copy(), y.copy()
    n = len(re)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j ^= bit
        if i < j:
            re[i], re[j] = re[j], re[i]
            im[i], im[j] = im[j], im[i]
    size = 2
    while size <= n:
        half = size // 2
        for start in range(0, n, size):
            for k in range(half):
                angle = -2 * np.pi * k / size
                c, s = np.cos(angle), np.sin(angle)
                p, q = start + k, start + k + half
                tr = c * re[q] - s * im[q]
                ti = s * re[q] + c * im[q]
                re[q], im[q] = re[p] - tr, im[p] - ti
                re[p], im[p] = re[p] + tr, im[p] + ti
        size *= 2
    return np.sum((re**2 + im**2) * np.arange(n))


def _fft(re, im):
    n = len(re)
    if n == 1:
        return re, im
    er, ei = _fft(re[::2], im[::2])
    odd_r, odd_i = _fft(re[1::2], im[1::2])
    angle = -2 * np.pi * np.arange(n // 2) / n
    c, s = np.cos(angle), np.sin(angle)
    tr, ti = c * odd_r - s * odd_i, s * odd_r + c * odd_i
    return np.concatenate([er + tr, er - tr]), np.concatenate([ei + ti, ei - ti])


@case([signed(8), signed(8, seed=1)])
def fft_recursive(x, y):
    re, im = _fft(x, y)
    return np.sum((re**2 + im**2) * np.arange(8))


def _fft_into_views(re, im):
    n = len(re)
    if n == 1:
        return
    er, ei, odd_r, odd_i = re[::2].copy(), im[::2].copy(), re[1::2].copy(), im[1::2].copy()
    _fft_into_views(er, ei)
    _fft_into_views(odd_r, odd_i)
    for k in range(n // 2):
        c, s = np.cos(2 * np.pi * k / n), -np.sin(2 * np.pi * k / n)
        tr, ti = c * odd_r[k] - s * odd_i[k], s * odd_r[k] + c * odd_i[k]
        re[k], im[k] = er[k] + tr, ei[k] + ti
        re[k + n // 2], im[k + n // 2] = er[k] - tr, ei[k] - ti


@case([signed(8), signed(8, seed=1)])
def fft_recursive_in_place(x, y):
    re, im = x.copy(), y.copy()
    _fft_into_views(re, im)
    return np.sum((re**2 + im**2) * np.arange(8))


# ---- in-place operators ---------------------------------------------------------------------------------------------


@case([numbers(3, 4), numbers(4), 0.7])
def in_place_with_broadcasting(x, r, s):
    y = x.copy()
    y += r
    y -= s
    y *= r[None, :]
    y /= x[:, :1] + 1.0
    y **= 2
    y[1] -= r
    y[:, 1] *= s
    y[:, 2:] /= np.array([2.0, s])
    y[0] **= s
    return np.sum(y)


@case([numbers(3) * 4, 0.7])
def in_place_floor_and_remainder(x, s):
    y = x * 1.0
    y %= 1.5
    z = x * 1.0
    z //= s
    return np.sum(y * x + z * x)


@case([numbers(2, 3), numbers(2, 3, seed=1)])
def in_place_on_views_with_broadcasting(x, y):
    a = x.copy()
    a[:, ::2] += y[:, 1:2]
    a.T[1] *= y[:, 0]
    a[0:1] -= y[1:]
    a[0:1, :] *= y[1]
    return np.sum(a**3)


@case([numbers(3, 3)])
def in_place_with_itself(x):
    a = x.copy()
    a += a.T
    a *= a
    a[0] -= a[:, 0]
    a -= a[0]
    return np.sum(a**2)


@case([numbers(4)])
def in_place_ufunc_out(x):
    y = np.empty(4)
    np.multiply(x, x, out=y)
    np.add(y, 1.0, out=y)
    np.sin(y, y)
    return np.sum(y)


@case([numbers(4)])
def add_at_repeated_indices(x):
    y = np.zeros(3)
    np.add.at(y, [0, 1, 1, 2], x)
    z = np.zeros(3)
    z[[0, 1, 1, 2]] += x  # the last one wins
    return np.sum(y**2) + np.sum(z**2)


@case([numbers(4)])
def fill_method_and_copyto(x):
    y = np.empty(4)
    y.fill(2.0)
    y[:2] *= x[:2]
    np.copyto(y[2:], x[2:] ** 2)
    return np.sum(y * x)


@case([2.0], [0.5])
def numbers_are_not_shared(x):
    a = x
    b = a
    b += 1.0
    b *= a
    return a * b


@case([np.array(2.0)], [np.array(0.5)])
def zero_dimensional_argument(x):
    y = x * 1.0
    y += 1.0
    z = np.array(x)
    w = z
    w *= 3.0
    return y * z


# ---- containers of arrays -------------------------------------------------------------------------------------------


@case([numbers(4)])
def list_items_replaced(x):
    layers = [x * 1.0, x * 2.0]
    first = layers[0]
    layers[0] = layers[1] * 2.0
    layers[1] += first
    first *= 5.0
    return np.sum(layers[0] * layers[1] + first)


@case([numbers(4)])
def list_of_rows_stacked(x):
    rows = []
    r = x.copy()
    for k in range(3):
        r = r * x + k
        rows.append(r)
    rows[1][0] = 0.0
    return np.sum(np.array(rows) ** 2)


@case([numbers(3)])
def one_buffer_appended_many_times(x):
    buffer, rows = np.zeros(3), []
    for k in range(3):
        buffer += x * k
        rows.append(buffer)
    return np.sum(np.stack(rows) ** 2)


@case([numbers(3)])
def copies_of_a_buffer_appended(x):
    buffer, rows = np.zeros(3), []
    for k in range(12):
        buffer += x * k
        rows.append(buffer.copy())
    return np.sum(np.stack(rows) ** 2)


@case([numbers(3)])
def list_multiplied_shares_its_items(x):
    rows = [x.copy()] * 2
    rows[0] *= 2.0
    return np.sum(rows[0] * rows[1])


@case([numbers(3)])
def default_momentum_state(x):
    params, velocity = [x.copy(), x * 2.0], [np.zeros(3), np.zeros(3)]
    for _ in range(3):
        for p, v in zip(params, velocity):
            v *= 0.9
            v -= 0.1 * p**2
            p += v
    return sum(np.sum(p) for p in params)


test_gradients = case.test()


# ---- what may be refused --------------------------------------------------------------------------------------------

ambiguous = Table()


@ambiguous([numbers(3), 1.0], [numbers(3), -1.0])
def write_to_one_of_two_arrays(x, s):
    a, b = x * 1.0, x * 2.0
    c = a if s > 0 else b
    c += s
    return np.sum(a * b)


@ambiguous([numbers(3), 1.0], [numbers(3), -1.0])
def base_written_after_a_choice(x, s):
    a, b = x * 1.0, x * 2.0
    if s > 0:
        c = a
    else:
        c = b
    a *= 3.0
    return np.sum(c * x)


@ambiguous([numbers(3), 1.0], [numbers(3), -1.0])
def view_of_one_of_two_arrays(x, s):
    a, b = x * 1.0, x * 2.0
    c = a[:2] if s > 0 else b[1:]
    c[0] = 5.0
    return np.sum(a**2 * b)


@ambiguous([numbers(3), 1.0], [numbers(3), -1.0])
def alias_made_in_one_branch(x, s):
    a = x * 1.0
    b = x * 2.0
    if s > 0:
        b = a
    b *= 2.0
    return np.sum(a**2 + b)


@ambiguous([numbers(3), 1.0], [numbers(3), -1.0])
def alias_or_copy(x, s):
    a = x * 1.0
    b = a if s > 0 else a.copy()
    a += 1.0
    return np.sum(b * b)


@ambiguous([numbers(3)], [numbers(12)])
def alias_made_in_a_loop(x):
    a = np.zeros(2)
    b = np.ones(2)
    for v in x:
        b = a
        a = a + v
        b[0] += 1.0
    return np.sum(a * b)


@ambiguous([numbers(12)])
def list_of_aliases_in_a_loop(x):
    rows = []
    r = np.zeros(2)
    for v in x:
        rows.append(r)
        r += v
    return np.sum(np.stack(rows) ** 2)


@ambiguous([numbers(12)])
def appended_then_written(x):
    rows = []
    for v in x:
        r = np.zeros(2)
        rows.append(r)
        r += v
    return np.sum(np.stack(rows) ** 2)


@ambiguous([numbers(12)])
def rows_of_a_grown_list_written(x):
    rows = []
    for v in x:
        rows.append(np.array([v, 1.0]))
    rows[3][0] = 5.0
    rows[-1] *= 2.0
    return np.sum(np.stack(rows) ** 2)


@ambiguous([numbers(12), 0.5], [numbers(12), 20.0])
def view_kept_from_the_last_iteration(x, s):
    y = x.copy()
    v = y[:1]
    for i in range(12):
        v = y[i : i + 1]
        if x[i] * s > 1.0:
            break
    v *= 10.0
    return np.sum(y**2)


@ambiguous([numbers(12)])
def rotating_three_buffers(x):
    a, b, c = np.zeros(2), np.ones(2), np.full(2, 2.0)
    for v in x:
        c[0] = a[0] * v
        c[1] = b[1] + v
        a, b, c = b, c, a
    return np.sum(a * 1.0 + b * 2.0 + c * 3.0)


@ambiguous([numbers(3), 1.0], [numbers(3), -1.0])
def swap_arrays_in_a_branch_then_write(x, s):
    a, b = x * 1.0, x * 2.0
    if s > 0:
        a, b = b, a
    a += 1.0
    return np.sum(a * a * b)


@ambiguous([numbers(3), 1.0], [numbers(3), -1.0])
def identity_of_arrays(x, s):
    a = x * 1.0
    b = a if s > 0 else x * 1.0
    return np.sum(x) * (2.0 if a is b else 3.0)


@ambiguous([numbers(3, 4)])
def reshape_of_a_transpose_is_a_copy(x):
    y = x.copy()
    f = y.T.reshape(-1)
    f *= 5.0
    return np.sum(y**2) + np.sum(f * f)


@ambiguous([numbers(3, 4)])
def base_of_a_reshaped_transpose_written(x):
    y = x.copy()
    f = y.T.reshape(-1)
    y *= 5.0
    return np.sum(y**2) + np.sum(f * f)


@ambiguous([numbers(6)])
def base_of_a_reshaped_strided_view_written(x):
    y = x.copy()
    f = y[::2].reshape(-1)
    y *= 5.0
    return np.sum(y**2) + np.sum(f * f)


@ambiguous([numbers(12)])
def item_of_a_grown_list_written(x):
    rows = []
    for v in x:
        rows.append(np.array([v, 1.0]))
    row = rows[3]
    row[0] = 5.0
    return np.sum(np.stack(rows) ** 2)


@ambiguous([numbers(12)])
def rows_of_a_grown_list_written_in_a_loop(x):
    rows = []
    for v in x:
        rows.append(np.array([v, 1.0]))
    for row in rows:
        row *= 2.0
    return np.sum(np.stack(rows) ** 2)


@ambiguous([numbers(12)])
def first_row_written_after_growing(x):
    first = x[:2] * 1.0
    rows = [first]
    for v in x:
        rows.append(rows[-1] * v)
    first += 1.0
    return np.sum(np.array(rows) ** 2)


@ambiguous([numbers(12)])
def last_row_written_after_growing(x):
    rows = []
    r = x[:2]
    for v in x:
        r = r * v
        rows.append(r)
    r += 1.0
    return np.sum(np.array(rows) ** 2)


@ambiguous([numbers(12)])
def views_appended_and_base_written(x):
    u, rows = x.copy(), []
    for i in range(1, len(x)):
        rows.append(u[i - 1 : i + 1])
        u[i] *= u[i - 1]
    return np.sum(np.array(rows) ** 2)


@ambiguous([numbers(12)])
def pair_of_aliases_carried(x):
    a, b = np.zeros(2), np.ones(2)
    pair = (a, b)
    for v in x:
        pair = (pair[1], pair[0] + v)
    pair[0][0] = 7.0
    return np.sum(pair[0] * pair[1] + a + b)


@ambiguous([numbers(12)])
def list_of_buffers_rotated(x):
    buffers = [np.zeros(2), np.ones(2), np.full(2, 3.0)]
    for v in x:
        buffers[0][0] = buffers[1][1] * v
        buffers = buffers[1:] + buffers[:1]
    return np.sum(buffers[0] * 1.0 + buffers[1] * 2.0 + buffers[2] * 3.0)


@ambiguous([numbers(3), 1.0, 1.0], [numbers(3), 1.0, -1.0], [numbers(3), -1.0, 1.0], [numbers(3), -1.0, -1.0])
def one_of_two_then_perhaps_a_new_one(x, s, t):
    a = x * 1.0
    c = a if s > 0 else x * 2.0
    if t > 0:
        c = x * 3.0
    c += 1.0
    return np.sum(a * c)


@ambiguous([numbers(3), 1.0, 1.0], [numbers(3), 1.0, -1.0], [numbers(3), -1.0, 1.0], [numbers(3), -1.0, -1.0])
def part_of_one_of_two_then_perhaps_a_new_one(x, s, t):
    a = x * 1.0
    pair = [a if s > 0 else x * 2.0, t]
    if t > 0:
        pair = [x * 3.0, s]
    pair[0][0] = 5.0
    return np.sum(a * pair[0]) * pair[1]


test_ambiguous = ambiguous.test(right_or_refused)


# ---- what shares memory with its argument ---------------------------------------------------------------------------

MAYBE_VIEWS = {
    "asarray": np.asarray,
    "ascontiguousarray": np.ascontiguousarray,
    "asfortranarray": np.asfortranarray,
    "array": np.array,
    "array copy=None": lambda a: np.array(a, copy=None),
    "astype": lambda a: a.astype(float),
    "astype copy=False": lambda a: a.astype(float, copy=False),
    "copy": np.copy,
    "atleast_1d": np.atleast_1d,
    "atleast_3d": np.atleast_3d,
    "broadcast_to": lambda a: np.broadcast_to(a, (2, 3, 3)),
    "diag": np.diag,
    "diagonal": np.diagonal,
    "diagonal method": lambda a: a.diagonal(1),
    "diagflat": np.diagflat,
    "einsum diagonal": lambda a: np.einsum("ii->i", a),
    "einsum transpose": lambda a: np.einsum("ij->ji", a),
    "expand_dims": lambda a: np.expand_dims(a, 1),
    "flip": np.flip,
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "hsplit": lambda a: np.hsplit(a, 3)[1],
    "imag": np.imag,
    "moveaxis": lambda a: np.moveaxis(a, 0, 1),
    "nan_to_num": np.nan_to_num,
    "nan_to_num copy=False": lambda a: np.nan_to_num(a, copy=False),
    "ravel": np.ravel,
    "ravel F": lambda a: np.ravel(a, "F"),
    "ravel of a transpose": lambda a: a.T.ravel(),
    "ravel of columns": lambda a: a[:, ::2].ravel(),
    "real": np.real,
    "real method": lambda a: a.real,
    "reshape": lambda a: np.reshape(a, (9, 1)),
    "reshape of rows": lambda a: a[::2].reshape(2, 3, 1),
    "reshape of a transpose": lambda a: a.T.reshape(9),
    "reshape F": lambda a: a.reshape(9, order="F"),
    "roll": lambda a: np.roll(a, 1),
    "rollaxis": lambda a: np.rollaxis(a, 1),
    "rot90": np.rot90,
    "row": lambda a: a[1],
    "sliding windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2)),
    "split": lambda a: np.split(a, [1, 2])[1],
    "squeeze": lambda a: np.squeeze(a[:, :1]),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "take": lambda a: np.take(a, [0, 2], axis=0),
    "transpose": np.transpose,
    "tril": np.tril,
    "unary plus": lambda a: +a,
    "view": lambda a: a.view(),
    "whole": lambda a: a[...],
    "where": lambda a: np.where(True, a, 0.0),
    "maximum out": lambda a: np.maximum(a, 0.0, out=a),
    "clip out": lambda a: np.clip(a, 0.9, 1.2, out=a),
    "flat": lambda a: a.flat[2:5],
    "mT": lambda a: a.mT,
}


@pytest.mark.parametrize("function", MAYBE_VIEWS.values(), ids=MAYBE_VIEWS)
def test_base_written_after(function, backend):
    def f(x):
        y = x.copy()
        v = function(y)
        y *= x[0]
        y[1, 1] = 0.3
        return np.sum(v**2) + np.sum(y)

    right_or_refused(f, [[numbers(3, 3)]], backend)


@pytest.mark.parametrize("function", MAYBE_VIEWS.values(), ids=MAYBE_VIEWS)
def test_result_written_then_base_read(function, backend):
    def f(x):
        y = x.copy()
        v = function(y)
        v *= 2.0
        return np.sum(v**2) + np.sum(y**2 * x)

    try:
        f(numbers(3, 3))
    except ValueError:  # NumPy made it read-only
        with pytest.raises((ValueError, UnsupportedCode)):
            gs.grad(f, backend=backend)(numbers(3, 3))
    else:
        right_or_refused(f, [[numbers(3, 3)]], backend)


# ---- arguments ------------------------------------------------------------------------------------------------------


def test_one_array_passed_as_two_arguments(backend):
    def f(x, y):
        y = y.copy()
        y[0] = x[1] ** 2
        return np.sum(x * y)

    x = numbers(3)
    judge(f, [[x, x]], backend)
    judge(f, [[x, x.copy()], [x, x]], backend)


def test_jit_writes_arguments_back(backend):
    def f(x, state):
        x *= 2.0
        state["u"][1:] = x[:-1]
        table[0] += x[1]
        return np.sum(x), 3

    table = np.ones(2)
    compiled = gs.jit(f, backend=backend)
    for x in (numbers(3), numbers(5, seed=1)):
        state, table[:] = {"u": np.zeros_like(x), "v": np.ones(2)}, 1.0
        expected, expected_state = x.copy(), {"u": np.zeros_like(x)}
        result = f(expected, expected_state)
        expected_table, table[:] = table.copy(), 1.0
        found = compiled(x, state)
        assert found == pytest.approx(result)
        np.testing.assert_allclose(x, expected)
        np.testing.assert_allclose(state["u"], expected_state["u"])
        np.testing.assert_array_equal(state["v"], np.ones(2))
        np.testing.assert_allclose(table, expected_table)


def test_jit_of_a_procedure_writes_its_argument(backend):
    def f(x):
        x[0] = x[1]

    x = np.array([1.0, 2.0])
    assert gs.jit(f, backend=backend)(x) is None
    np.testing.assert_array_equal(x, [2.0, 2.0])


def test_overlapping_arguments_that_are_written_are_refused(backend):
    def f(x, y):
        y[0] = x[1] * 3.0
        return np.sum(x * y)

    x = numbers(4)
    with pytest.raises(UnsupportedCode):
        gs.grad(f, backend=backend)(x[:3], x[1:])
    with pytest.raises(UnsupportedCode):
        gs.jit(f, backend=backend)(x[:3], x[1:])


def test_captured_arrays_are_not_modified(backend):
    table = np.ones(3)

    def f(x):
        y = table
        y = y * x
        y[0] = 2.0
        return np.sum(y * table * x)

    judge(f, [[numbers(3)], [signed(3)]], backend)
    np.testing.assert_array_equal(table, np.ones(3))


def test_result_does_not_share_memory_with_the_argument(backend):
    def f(x):
        return x[1:]

    x = numbers(4)
    y, pullback = gs.vjp(f, x, backend=backend)
    (g,) = pullback(np.ones(3))
    g[:] = 7.0
    np.testing.assert_array_equal(pullback(np.ones(3))[0], [0.0, 1.0, 1.0, 1.0])


# ---- one list or dict in two places of the arguments ----------------------------------------------------------------


class Holder:
    def __init__(self, a: Any, b: Any):
        self.a, self.b, self.scale = a, b, 2.0


@pytest.mark.parametrize("derive", (gs.jit, gs.grad, gs.jacobian))
@pytest.mark.parametrize("make", (lambda a, b: {"a": a, "b": b}, Holder), ids=("dict", "object"))
def test_one_list_in_two_places_is_refused_where_it_is_changed(derive: Any, make: Any) -> None:
    def get(m: Any, name: str) -> Any:
        return m[name] if isinstance(m, dict) else getattr(m, name)

    def changes(m: Any) -> Any:
        get(m, "a")[0] = get(m, "a")[0] * 5.0
        return get(m, "b")[0] * get(m, "a")[0]

    def reads(m: Any) -> Any:
        return get(m, "b")[0] * get(m, "a")[0]

    shared = [3.0, 2.0]
    apart = make([3.0], [3.0])
    changing, reading = derive(changes, engine="source"), derive(reads, engine="source")
    changing(apart)
    for _ in range(2):
        with pytest.raises(gs.UnsupportedCode, match="in two places"):
            changing(make(shared, shared))
        reading(make(shared, shared))
    assert shared == [3.0, 2.0]
