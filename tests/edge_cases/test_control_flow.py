"""Control flow: branches and loops on data, jumps at every depth, and what they carry."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

import gradsmith as gs
from gradsmith.errors import UnsupportedCode
from tests.edge_cases.judge import Table, judge, numbers, right_or_refused, signed

pytestmark = pytest.mark.filterwarnings("ignore:.*recorded on a tape")
case = Table()


# ---- while loops with a data-dependent count ------------------------------------------------------------------------


@case([2.0], [300.0], [0.01])
def newton_square_root(a):
    x, step = a, 1.0
    while abs(step) > 1e-13 * x:
        step = 0.5 * (a / x - x)
        x = x + step
    return x


@case([2.0, 1.0], [20.0, 3.0])
def newton_with_counter_and_limit(a, x):
    n = 0
    err = 1.0
    while err > 1e-14 and n < 60:
        step = (x**3 - a) / (3 * x * x)
        x -= step
        err = abs(step)
        n += 1
    return x * (1 + 0 * n)


@case([0.5], [0.9])
def fixed_point(a):
    x, old = 1.0, 2.0
    while abs(x - old) > 1e-15:
        old = x
        x = math.cos(a * x)
    return x


@case([numbers(3)], [numbers(3, seed=4) * 0.1])
def fixed_point_on_an_array(a):
    x = np.ones(3)
    while True:
        new = np.cos(a * x)
        if np.max(np.abs(new - x)) < 1e-15:
            break
        x = new
    return np.sum(new**2)


@case([2.0], [5.0], [0.3])
def bisection_of_a_linear_function(a):
    lo, hi = 0.0, 10.0
    for _ in range(6):
        mid = 0.5 * (lo + hi)
        if mid * a > 7.0:
            hi = mid
        else:
            lo = mid
    return lo * a + hi * a * a


@case([0.3], [2.7], [-1.0])
def collatz_of_a_float(x):
    n = 0
    while x < 100.0:
        if n % 2 == 0:
            x = 3 * x + 5.0
        else:
            x = x / 2 + 3.0
        n += 1
    return x * n


@case([numbers(4)], [numbers(4) * 5])
def halve_until_small(x):
    while np.sum(x**2) > 1.0:
        x = x / 2
    return np.sum(x**3)


@case([numbers(4)], [numbers(4) * 5])
def in_place_until_small(x):
    y = x.copy()
    count = 0
    while np.max(y) > 0.7:
        y *= 0.5
        y[count % 4] += 0.01
        count += 1
    return np.sum(y) * count


@case([7.3, 2.0], [25.0, 2.0], [1.0, 2.0])
def remainder_by_subtraction(a, b):
    q = 0
    while a >= b:
        a -= b
        q += 1
    return a * a + q * b


@case([1.0, 3], [1.5, 0], [0.2, 10])
def while_over_an_integer_argument(x, n):
    y = 1.0
    while n > 0:
        if n % 2 == 1:
            y *= x
        x *= x
        n //= 2
    return y + x


@case([0.7], [0.2])
def nested_while(x):
    total = 0.0
    while x < 10.0:
        y = x
        while y > 1.0:
            y = y / 3.0
            total += y
        x = 2 * x + 0.1
        total += x * y
    return total


@case([numbers(5)], [-numbers(5)], [signed(5)])
def while_true_with_two_breaks(x):
    i, s = 0, 0.0
    while True:
        if i == len(x):
            break
        s += x[i] ** 2
        if s > 2.0:
            s *= 3.0
            break
        i += 1
    return s


@case([3.0], [0.5], [-2.1])
def while_that_may_not_run(x):
    y = x * x
    while y > 4.0:
        y = y * 0.5
    return y * x


@case([0.3], [0.9])
def secant_iteration(a):
    f = lambda x: x**3 - a  # noqa: E731
    x0, x1 = 0.1, 1.0
    f0, f1 = f(x0), f(x1)
    for _ in range(50):
        if abs(f1) < 1e-14:
            break
        x0, x1 = x1, x1 - f1 * (x1 - x0) / (f1 - f0)
        f0, f1 = f1, f(x1)
    return x1


@case([1.3, 50], [0.4, 60])
def adaptive_step(y, digits):
    t, h, tol = 0.0, 0.3, 1 / digits
    while t < 1.0:
        if t + h > 1.0:
            h = 1.0 - t
        k1 = -y * y
        k2 = -((y + h * k1) ** 2)
        err = abs(h * (k2 - k1) / 2)
        if err < tol:
            t += h
            y = y + h * (k1 + k2) / 2
            h *= 1.5
        else:
            h *= 0.5
    return y


# ---- for loops ------------------------------------------------------------------------------------------------------


@case([numbers(5)], [numbers(1)], [numbers(11)])
def inner_bound_depends_on_the_outer_index(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s += np.sin(x[i] * x[j])
    return s


@case([numbers(6)], [numbers(2)])
def triangular_from_both_sides(x):
    n, s = len(x), 1.0
    for i in range(n):
        for j in range(i + 1, n):
            s += x[i] * x[j] / (1 + j - i)
        for k in range(i, -1, -1):
            s *= 1.0 + 0.01 * x[k]
    return s


@case([1.1, 5], [0.7, 0], [0.9, 30])
def count_from_an_argument(x, n):
    y = 0.5
    for i in range(n):
        y = np.sin(x * y) + 0.1 * i
    return y


@case([1.1, 12, 2], [0.7, 3, 5], [0.9, 30, -3])
def range_with_run_time_step(x, stop, step):
    y = x
    for i in range(0 if step > 0 else stop, stop if step > 0 else 0, step):
        y = 0.9 * y + np.cos(i * x)
    return y


@case([numbers(5)], [numbers(13)])
def zip_enumerate_reversed(x):
    s = 0.0
    for k, (a, b) in enumerate(zip(x, reversed(x)), 2):
        s += k * a * b**2
    for a, b in zip(x[:-1], x[1:]):
        s *= 1 + 0.1 * a / b
    return s


@case([numbers(3, 4)], [numbers(12, 2)])
def rows_of_a_matrix(m):
    s = 0.0
    for row in m:
        s = s * 0.5 + np.sum(row**2)
    for k, column in enumerate(m.T):
        s += column[0] * k
    return s


@case([numbers(4)])
def range_of_floats_by_hand(x):
    s, t = 0.0, 0.0
    while t < 1.05:
        s += np.sum(x**t)
        t += 0.1
    return s


@case([numbers(4)], [signed(4)])
def variable_defined_before_used_after(x):
    y = x[0]
    last = 0.0
    for v in x:
        last = v * y
        y = y + last
    return y * last


@case([numbers(4)], [numbers(12)])
def loop_variable_used_after(x):
    for i, v in enumerate(x):
        w = v * i
    return w * v + i


@case([numbers(4), 0], [numbers(4), 3])
def zero_trip_loops(x, n):
    s = np.sum(x)
    for i in range(n):
        s *= x[i]
    for _ in range(0):
        s = None
    for _ in []:
        s = "never"
    for v in x[4:]:
        s += v
    while False:
        s = 0.0
    return s * s


@case([np.zeros(0), 2.0], [numbers(3), 2.0])
def loop_over_an_empty_array(x, y):
    s = y
    for v in x:
        s = s * v
    return s * y


@case([1.5, 0], [1.5, 1], [1.5, 12])
def first_iteration_differs(x, n):
    best = None
    for i in range(n + 1):
        value = np.sin(x * i) + x
        if best is None or value > best:
            best = value
    return best


@case([numbers(5)], [-numbers(12)])
def none_seed_of_an_array(x):
    total = None
    for v in x:
        term = np.array([v, v * v])
        total = term if total is None else total * 0.5 + term
    return np.sum(total)


@case([numbers(12)])
def first_flag(x):
    first = True
    s = 0.0
    for v in x:
        if first:
            s = v
            first = False
        else:
            s = s * v
    return s


@case([numbers(5)], [numbers(12)])
def integer_becomes_float(x):
    s = 0
    p = 1
    for v in x:
        s += v
        p *= v
    return s * p


@case([0.7, 3], [0.7, 0])
def integer_stays_integer_without_trips(x, n):
    s = 1
    for _ in range(n):
        s = s / 2
    return x * s


@case([numbers(12)])
def bool_carried(x):
    up = False
    s = 0.0
    for v in x:
        up = (v > 1.0) != up
        s += v if up else -v * v
    return s


@case([1.0, 1.3], [0.1, 0.2])
def fibonacci_swap(a, b):
    for _ in range(10):
        a, b = b, a + 0.5 * b
    return a * b


@case([numbers(3)])
def rotate_three(x):
    a, b, c = x
    for _ in range(4):
        a, b, c = b * c, a + c, a
    return a + 2 * b + 3 * c


@case([numbers(12)])
def loop_of_objects_of_a_dict(x):
    s = {"n": 0, "mean": 0.0, "m2": 0.0}
    for v in x:
        s["n"] += 1
        d = v - s["mean"]
        s["mean"] += d / s["n"]
        s["m2"] += d * (v - s["mean"])
    return s["m2"] / (s["n"] - 1)


@case([numbers(12)])
def two_loops_reuse_names(x):
    s = 0.0
    for i in range(12):
        v = x[i]
        s += v * v
    for v in x:
        i = v
        s *= 1 + 0.1 * i
    return s


@case([numbers(4), 1.0])
def loop_over_a_list_of_functions(x, a):
    s = a
    for f in [np.sin, np.exp, lambda v: v * a, math.sqrt]:
        s = f(s) + x[0]
    return s


@case([numbers(3)])
def loops_over_python_containers(x):
    s = 0.0
    for k, v in {"a": 1.0, "b": 2.0}.items():
        s += v * x[ord(k) - ord("a")]
    for name in ("sin", "cos"):
        s *= getattr(np, name)(x[2])
    for a, b in itertools.product([1.0, 2.0], repeat=2):
        s += a * b * x[0] ** b
    for c in "ab":
        s += x[1] if c == "b" else x[0] ** 2
    return s


# ---- jumps ----------------------------------------------------------------------------------------------------------


@case([numbers(6)], [signed(6)], [-numbers(6)])
def continue_on_data(x):
    s = 0.0
    for v in x:
        if v < 0:
            continue
        s += np.log(v)
        if v > 1.0:
            continue
        s *= v
    return s + np.sum(x)


@case([signed(12)], [numbers(12)], [-numbers(12)])
def break_on_data(x):
    s = 1.0
    for i in range(len(x)):
        if x[i] < 0:
            s *= i + 1.0
            break
        s += x[i] ** 2
    return s * x[0]


@case([signed(12)], [numbers(12)], [-numbers(12)])
def continue_and_break(x):
    s, n = 0.0, 0
    for v in x:
        n += 1
        if v > 0.8:
            continue
        if v < -0.8:
            break
        s += v * n
    return s * s + n * x[1]


@case([1.0], [3.0], [-1.0], [-8.0])
def early_returns(x):
    if x > 2:
        return x**2
    if x < -5:
        return 3 * x
    y = x * 2
    if y < 0:
        return y * y * y
    return y + 1.0


@case([signed(9), 0.5], [numbers(9), 4.0], [numbers(9), 90.0])
def return_from_a_loop(x, limit):
    s = 0.0
    for v in x:
        s += v * v
        if s > limit:
            return s * v
    return s - 1.0


@case([signed(3, 4), 0.5], [numbers(3, 4), 4.0], [numbers(3, 4), 90.0], [numbers(10, 12), 20.0])
def return_from_a_nested_loop(m, limit):
    s = 0.0
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            s += m[i, j] ** 2
            if s > limit:
                return s * m[i, j] + i
        s *= 0.9
    return s


@case([signed(3, 4)], [numbers(3, 4)], [-numbers(12, 4)])
def break_of_the_inner_loop_only(m):
    s = 0.0
    for row in m:
        for v in row:
            if v < 0:
                break
            s += v**2
        s *= 1.1
    return s + m[0, 0]


@case([signed(4, 4)], [numbers(4, 4)], [-numbers(4, 4)])
def break_of_both_loops_by_a_flag(m):
    s, found = 0.0, False
    for i in range(4):
        for j in range(4):
            if m[i, j] < -0.2:
                found = True
                break
            s += m[i, j] * (i + 1)
        if found:
            break
    return s * (2.0 if found else 3.0) + m[0, 0] ** 2


@case([signed(4, 4)], [numbers(4, 4)], [-numbers(4, 4)], [signed(12, 11, seed=3)])
def break_of_both_loops_by_for_else(m):
    s = 1.0
    for row in m:
        for v in row:
            if v < -0.5:
                break
            s += v * v
        else:
            s *= 2.0
            continue
        break
    return s * m[0, 0]


@case([signed(5)], [numbers(5)])
def for_else(x):
    s = 0.0
    for v in x:
        if v < 0:
            s = v * v
            break
        s += v
    else:
        s = s * 10.0
    return s


@case([numbers(5)], [numbers(12) * 0.1], [numbers(3) * 4])
def for_else_with_return(x):
    s = 0.0
    for v in x:
        s += v
        if s > 3.0:
            break
    else:
        return s * s
    return np.sin(s)


@case([0.4, 3.0], [0.4, 100.0])
def while_else(x, limit):
    n = 0
    while n < 8:
        x = x * 1.8
        if x > limit:
            break
        n += 1
    else:
        x = x * x
    return x


@case([0.4], [5.0], [50.0])
def while_else_on_data(x):
    while x < 20.0:
        x = x * 2 + 1
        if x > 15.0 and x < 18.0:
            break
    else:
        return 3 * x
    return x * x


@case([numbers(4, 3)], [signed(4, 3)], [-numbers(4, 3)])
def loops_in_branches_in_loops(m):
    s = 0.0
    for row in m:
        if np.sum(row) > 0:
            for v in row:
                if v < 0:
                    continue
                k = 0
                while v > 0.3 and k < 5:
                    v = v * 0.7
                    k += 1
                s += v * k
        elif row[0] < 0:
            for v in row[::-1]:
                s -= v**3
                if s > 3.0:
                    break
            else:
                s *= 0.5
        else:
            return s * row[0]
    return s


@case([0.5, 0.2], [0.5, 0.9], [2.0, 0.9], [-1.0, 0.9])
def returns_at_several_depths(x, y):
    if x < 0:
        return x * y
    for i in range(3):
        if y > 0.5:
            for j in range(4):
                x += y * j
                if x > 4.0:
                    return x * x * i
        else:
            if i == 2:
                return x + y
            x *= 1.5
    return x * y


@case([numbers(5)], [signed(5)], [-numbers(5)])
def break_after_in_place_writes(x):
    y = x.copy()
    for i in range(1, 5):
        y[i] += y[i - 1] ** 2
        if y[i] < 0:
            y[0] = 3.0
            break
        y[i] *= 2
    return np.sum(y**2)


@case([numbers(5)], [signed(5)])
def return_after_in_place_writes(x):
    y = x.copy()
    for i in range(5):
        y[i] *= y[i - 1]
        if y[i] < 0:
            return np.sum(y)
    y += 1.0
    return np.sum(y**2)


@case([numbers(4), 2], [numbers(4), 9])
def return_inside_with_and_finally(x, k):
    with np.errstate(all="ignore"):
        try:
            if k > 5:
                return np.sum(x)
            s = np.sum(x**2)
        finally:
            t = 2.0
    return s * t


def _first_over(x, limit):
    for i, v in enumerate(x):
        if v > limit:
            return i, v
    return -1, 0.5


@case([numbers(5), 0.8], [numbers(5), 9.0])
def early_return_in_a_callee(x, limit):
    i, v = _first_over(x, limit)
    return v**2 * (i + 3) + x[0]


def _clamp(x, lo, hi):
    if x < lo:
        return lo
    if x > hi:
        return hi
    return x


@case([0.5, 0.0, 1.0], [-0.5, 0.0, 1.0], [1.5, 0.0, 1.0])
def early_return_in_a_callee_in_a_loop(x, lo, hi):
    s = 0.0
    for k in range(12):
        s += _clamp(x * (k + 0.5) / 6, lo, hi) ** 2
    return s


# ---- branches -------------------------------------------------------------------------------------------------------


@case([0.0], [1.0], [-2.0])
def guard_at_zero(x):
    if x == 0:
        return 1.0 - x * x / 6
    return np.sin(x) / x


@case([0.5], [-0.5])
def branch_of_different_types(x):
    if x > 0:
        y = 1
    else:
        y = x
    return y * x


@case([0.5], [-0.5])
def branch_of_int_and_float_then_division(x):
    n = 3 if x > 0 else 2.5
    return x / n


@case([numbers(3)], [-numbers(3)])
def branch_of_number_and_array_summed(x):
    if x[0] > 0:
        y = x * 2
    else:
        y = x[0]
    return np.sum(y * x)


@case([0.5], [-0.5])
def branch_of_none_and_number(x):
    y = None
    if x > 0:
        y = x * 3
    if y is None:
        return x * x
    return y


@case([0.5], [-0.5])
def branch_of_strings(x):
    mode = "up" if x > 0 else "down"
    return x**2 if mode == "up" else x**3


@case([0.5], [-0.5])
def branch_of_functions(x):
    f = np.sin if x > 0 else np.exp
    return f(x) * 2.0


@case([0.5], [-0.5])
def branch_of_tuples_of_different_lengths(x):
    t = (x, x * 2) if x > 0 else (x,)
    return sum(t) * len(t)


@case([0.5], [-0.5])
def branch_of_lists_appended(x):
    t = [x]
    if x > 0:
        t.append(x * x)
    return sum(t) + len(t)


@case([0.5], [-0.5])
def defined_in_one_branch(x):
    if x > 0:
        y = x * 2
        z = 3
    else:
        z = 4.0
    if x > 0:
        return y * z
    return z * x


@case([0.5], [-0.5])
def deleted_in_one_branch(x):
    y = x * 2
    if x > 0:
        del y
        y = x * x
    return y


@case([0.5], [-0.5])
def elif_chain(x):
    if x > 1:
        y = 1.0
    elif x > 0:
        y = x
    elif x > -1:
        y = x * x
    else:
        y = 0.0
    return y + x


@case([1.5, 0.2], [1.5, -0.2], [-1.5, 0.2], [-1.5, -0.2])
def nested_branches(x, y):
    if x > 0:
        if y > 0:
            z = x * y
        else:
            z = x / y
        z = z + 1
    else:
        z = y
        if y < 0:
            z = z * z
    return z * x


@case([numbers(4)], [signed(4)], [-numbers(4)])
def branches_write_one_array(x):
    y = x.copy()
    if y[0] > 0:
        y[1] = y[0] ** 2
    else:
        y[2:] *= 3.0
    if y[1] > 0.5:
        y += y[0]
    return np.sum(y**2)


@case([numbers(4)], [-numbers(4)])
def branches_make_arrays(x):
    if np.sum(x) > 0:
        y = np.zeros(4)
        y[1:] = x[1:] ** 2
    else:
        y = np.ones(4)
        y[0] = x[0]
    y[2] *= 2.0
    return np.sum(y)


@case([numbers(4)], [-numbers(4)])
def branches_make_arrays_of_different_shapes(x):
    y = x[:2] if x[0] > 0 else x
    return np.sum(y * y) * len(y)


@case([numbers(4)], [-numbers(4)])
def branches_make_arrays_of_different_dimensions(x):
    if x[0] > 0:
        y = np.outer(x, x)
    else:
        y = x**3
    return np.sum(y)


@case([numbers(4)], [-numbers(4)])
def branches_of_different_dtypes(x):
    y = np.array([1, 2, 3, 4]) if x[0] > 0 else x * 0.5
    return np.sum(y * x)


@case([1.0, 2.0], [2.0, 1.0])
def conditional_expressions(x, y):
    a = x if x < y else y
    b = (x * x if x > 1.5 else y) if y > 0 else 0.0
    return a + 3 * b


@case([0.3, 2.0], [1.3, 2.0], [2.3, 2.0])
def chained_comparison(x, y):
    if 0 < x < 1:
        return x * y
    if 1 <= x <= y:
        return x + y
    return x / y if not 0 < x < y < 5 else 0.0


def _twice(calls, x):
    calls.append(1)
    return x * 2


@case([0.3], [1.3])
def chained_comparison_evaluates_once(x):
    calls = []
    if 0.0 < _twice(calls, x) < 1.0:
        x = x * 3
    return x * len(calls)


@case([0.5, 0.2], [-0.5, 0.2], [0.5, -0.2], [-0.5, -0.2])
def boolean_operators(x, y):
    s = 0.0
    if x > 0 and y > 0:
        s += x
    if x > 0 or y > 0:
        s += y * y
    if not (x > 0 or y < 0):
        s += 7 * x
    if x > 0 and not y > 0 and x > y:
        s *= 2
    return s + x * y


@case([0.5, 2.0], [-0.5, 2.0])
def boolean_operators_on_numbers(x, y):
    a = x or 3.0 * y
    b = x and y * y
    return a * 2 + b + y


@case([0.5], [-0.5])
def short_circuit_guards_the_rest(x):
    if x > 0 and np.log(x) < 0:
        return x * np.log(x)
    if x > 0 or 1.0 / x < 0:
        return x * x
    return x


@case([numbers(3)], [numbers(12)], [np.zeros(0)])
def short_circuit_guards_an_index(x):
    if len(x) > 3 and x[3] > 0:
        return x[3] ** 2
    return np.sum(x) + (x[0] if len(x) else 0.0)


@case([numbers(3)], [-numbers(3)], [signed(3, seed=3)])
def all_any_of_generators(x):
    if all(v > 0 for v in x):
        return np.sum(x**2)
    if any(v > 0 for v in x):
        return np.prod(x)
    return x[0]


@case([numbers(12)], [-numbers(12)], [signed(12, seed=3)])
def all_any_of_masks(x):
    if np.all(x > 0):
        return np.sum(x**2)
    if (x > 0).any():
        return np.sum(x[x > 0]) + x[0]
    return x[0] ** 3


@case([0.5], [1.5], [2.5], [3.5])
def comparison_used_as_a_number(x):
    return x * (x > 1) + (x > 2) * x**2 + float(x > 3) + int(x < 2) * x


@case([0.6], [2.4], [-3.7])
def truncation_to_an_integer(x):
    k = int(x)
    return x * k + math.floor(x) * x + round(x) * 2 * x


@case([2.6], [0.6], [3.9])
def index_computed_from_data(x):
    table = np.array([1.0, 3.0, 7.0, 2.0, 5.0])
    k = int(x)
    t = x - k
    return (1 - t) * table[k] + t * table[k + 1]


@case([np.array([0.1, 0.5, 0.9]), 0.3], [np.array([0.1, 0.5, 0.9]), 0.7])
def search_in_a_table(knots, x):
    k = 0
    while knots[k + 1] < x:
        k += 1
    return (x - knots[k]) / (knots[k + 1] - knots[k])


@case([1.5], [-1.5])
def assert_holds(x):
    assert x * x > 0, f"x is {x}"
    assert np.isfinite(x)
    return x**3


# ---- match, walrus --------------------------------------------------------------------------------------------------


@case([2.0, "square"], [2.0, "cube"], [2.0, "other"])
def match_strings(x, kind):
    match kind:
        case "square":
            return x * x
        case "cube" | "third":
            return x**3
        case _:
            return -x


@case([0.5], [1.5])
def match_numbers_and_guards(x):
    match x:
        case 1.0:
            y = 5.0 * x - 2 * x
        case v if v > 1:
            y = v * v
        case _:
            y = 3 * x
    return y


@case([numbers(3)], [-numbers(3)])
def match_structures(x):
    s = 0.0
    for item in [("add", x[0]), ("mul", x[1], 2.0), {"op": "sub", "by": x[2]}, [1, 2, 3], None]:
        match item:
            case ("add", v):
                s = s + v * v
            case ("mul", v, factor) if v > 0:
                s = s * v * factor
            case ("mul", v, factor):
                s = s - v / factor
            case {"op": "sub", "by": v}:
                s = s - v
            case [first, *rest]:
                s = s * first + len(rest)
            case None:
                s = s + 1.0
    return s


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


@case([0.5, -2.0], [1.5, 2.0])
def match_classes(x, y):
    match Point(x, y):
        case Point(x=0.0, y=b):
            return b * b + x
        case Point(a, 0.0):
            return 3 * a + y
        case Point(a, b):
            return a * b


@case([numbers(4)], [numbers(12)])
def walrus(x):
    s = (a := x[0]) * 2 + a
    if (n := len(x)) > 5:
        s += n * x[-1]
    return s + (b := a * a) * b


@case([0.4], [5.0])
def walrus_in_while(x):
    n = 0
    while (y := x * 1.5) < 10.0:
        x = y + 0.1
        n += 1
    return x * y + n


@case([numbers(5)], [numbers(12)])
def walrus_in_comprehension(x):
    total = 0.0
    parts = [total := total + v * v for v in x]
    return total * parts[1]


# ---- comprehensions, lists, closures --------------------------------------------------------------------------------


@case([numbers(4)], [numbers(13)])
def comprehension_variants(x):
    squares = [v * v for v in x]
    even = [v for k, v in enumerate(x) if k % 2 == 0]
    table = {k: v * 2 for k, v in enumerate(x)}
    pairs = [a * b for a in x for b in x[:2]]
    return np.sum(np.array(squares)) + sum(even) * table[1] + sum(pairs) + sum(v**3 for v in x)


@case([signed(5)], [signed(13)], [numbers(13)])
def comprehension_filtered_by_data(x):
    positive = [v for v in x if v > 0]
    return sum(positive) ** 2 + len(positive) * x[0]


@case([numbers(3, 4)])
def nested_comprehension(m):
    t = [[m[i, j] * (i + 1) for i in range(3)] for j in range(4)]
    return np.sum(np.array(t) ** 2 * np.arange(3))


@case([numbers(4)], [numbers(12)])
def list_appended_then_array(x):
    out = []
    y = 1.0
    for v in x:
        y = y * v + 0.1
        out.append(y)
    out.append(y * 2)
    a = np.array(out)
    return np.sum(a * np.arange(len(a))) + out[2] * out[-1]


@case([numbers(4)], [numbers(12)])
def list_of_pairs_appended(x):
    xs, ys = [], []
    for k in range(len(x)):
        xs.append(x[k] * k)
        ys.append(x[k] ** 2)
    return np.sum(np.array(xs) * np.array(ys)) + len(xs)


@case([signed(6)], [numbers(12)], [-numbers(12)])
def list_appended_on_data(x):
    out = [0.5]
    for v in x:
        if v > 0:
            out.append(out[-1] * v)
    return np.sum(np.array(out)) * len(out)


@case([numbers(4)], [numbers(12)])
def list_of_rows(x):
    rows = []
    for k in range(len(x)):
        rows.append(x * x[k])
    m = np.stack(rows)
    return np.sum(m @ m) + np.sum(np.vstack(rows)[1]) + np.sum(np.column_stack(rows)[0])


@case([numbers(12)])
def list_concatenated(x):
    parts = []
    for k in range(10):
        parts.append(x[k : k + 2] * k)
    return np.sum(np.concatenate(parts) ** 2) + np.sum(np.hstack(parts) * np.arange(20.0))


@case([numbers(4)], [numbers(12)])
def list_read_while_growing(x):
    out = [x[0], x[1]]
    for k in range(2, len(x)):
        out.append(out[k - 1] * out[k - 2] + x[k])
    return out[-1] * out[1]


@case([numbers(4)], [numbers(12)])
def list_iterated_after_growing(x):
    out = []
    for v in x:
        out.append(v * v)
    s = 0.0
    for k, v in enumerate(out):
        s += v * k
    return s * max(out) + sum(out) + min(out)


@case([0.4], [3.0])
def list_grown_in_while(x):
    path = [x]
    while path[-1] < 20.0:
        path.append(path[-1] * 1.7 + 0.5)
    return np.sum(np.array(path)) * len(path)


@case([numbers(3)])
def comprehension_captures_its_variable_late(x):
    fs = [lambda v: v * k for k in range(3)]  # noqa: B023
    gs_ = [lambda v, k=k: v * k for k in range(3)]
    return fs[0](x[0]) + gs_[1](x[1]) * gs_[2](x[2])


@case([numbers(3)])
def closures_see_later_values(x):
    a = 1.0

    def f(v):
        return v * a

    s = f(x[0])
    a = x[1]
    s += f(x[2])
    return s


@case([numbers(12)])
def closure_called_in_a_loop_reads_what_changes(x):
    a = 1.0

    def f(v):
        return v * a

    s = 0.0
    for v in x:
        s += f(v)
        a = s * 0.1
    return s


@case([numbers(12)])
def nonlocal_in_a_loop(x):
    total = 0.0

    def add(v):
        nonlocal total
        total += v * v

    for v in x:
        add(v)
        if total > 3.0:
            add(0.5)
    return total


@case([0.3], [-0.3])
def nested_function_with_branches(x):
    def f(v, depth=0):
        if v > 0:
            return v * v
        return -v * depth

    return f(x, depth=2) + f(-x, 3)


@case([numbers(4)])
def functional_tools(x):
    s = functools.reduce(lambda a, b: a * 0.5 + b * b, x)
    t = list(map(lambda a, b: a * b, x, x[::-1]))
    u = [v for v in filter(lambda v: v is not None, [x[0], None])]
    return s + sum(t) + u[0] + sum(a * b for a, b in itertools.pairwise([1.0, 2.0, 4.0])) * x[1]


@case([numbers(4), 2], [signed(4), 3])
def sorted_and_extremes(x, k):
    values = sorted([x[0], x[1], x[2]])
    return values[0] + 10 * values[1] ** 2 + max(x[0], x[3], 0.2) * min(x[1], 5.0) + max(x, key=lambda v: -v) * k


@case([numbers(4), 0.5])
def dict_made_anew_in_a_loop(x, t):
    d = {"a": t, "v": x * 2.0}
    for e in x:
        d = {**d, "a": math.tanh(e * d["a"])}
    return np.sum(d["v"] ** 2) * d["a"]


@case([numbers(4), 0.5])
def tuple_made_anew_in_a_loop(x, t):
    state = (t, (x * 2.0, [x[0], 1.0]))
    k = 0
    while k < 3 and state[0] < 10.0:
        state = (state[0] * x[k] + 0.1, state[1])
        k += 1
    return np.sum(state[1][0] ** 2) * state[0] + state[1][1][0]


@case([numbers(4), 0.5], [numbers(4), -0.5], [numbers(4), 1.5])
def list_of_ints_that_gets_floats(x, t):
    items = [2]
    if t > 0:
        x = x * 0.5
        if t < 0.8:
            items.append(2)
    else:
        items.append(np.mean(np.tanh(x)))
    items.append(3)
    return t * np.sum(x) + items[-2] + sum(items)


@case([numbers(4), 0.5])
def list_of_ints_grown_then_floats(x, t):
    items = [1]
    for k in range(len(x)):
        items.append(k)
    for e in x:
        items.append(e * t)
    return sum(items) + items[-1] * items[2]


@case([numbers(4), numbers(3), 1])
def numbers_joined_under_names_used_again(x, m, n):
    q = np.sum(x**2)
    items = [np.mean(0.6 + m), m[1]]
    v = np.full(2, 3)
    for e in [v[n], items[0]]:
        items.append(np.dot(np.array([q, 0.3, 4]), np.array([v[n], e, items[1]])) / q)
    return sum(items)


@case([numbers(4), numbers(3)])
def numbers_joined_between_calls_with_the_same_names(x, m):
    def g(p, q):
        p = x[-1] if -0.7 < p else m[0]
        return np.dot(x[-3:], x[-3:]) + p * q

    p = x[0] * np.cos(m[0])
    s = g(p, m[1])
    y = np.linalg.det(np.eye(2) + np.reshape(np.array([s, p, x[1], m[2]]), (2, 2)))
    return y + g(p * p, s)


# ---- recursion ------------------------------------------------------------------------------------------------------


def _power(x, n):
    if n == 0:
        return 1.0
    half = _power(x, n // 2)
    return half * half * x if n % 2 else half * half


@case([1.2, 5], [1.2, 0], [0.8, 100])
def recursion_with_concrete_depth(x, n):
    return _power(x, n)


def _tree_sum(tree):
    if isinstance(tree, tuple):
        return sum(_tree_sum(t) ** 2 for t in tree)
    return tree


@case([numbers(3)])
def recursion_over_a_structure(x):
    return _tree_sum((x[0], (x[1], (x[2], x[0]))))


def _pairwise(x):
    n = len(x)
    if n <= 2:
        return np.sum(np.sin(x))
    return _pairwise(x[: n // 2]) * 0.5 + _pairwise(x[n // 2 :])


@case([numbers(7)], [numbers(1)], [numbers(20)])
def recursion_by_length(x):
    return _pairwise(x)


def _legendre(n, x):
    if n == 0:
        return 1.0
    if n == 1:
        return x
    return ((2 * n - 1) * x * _legendre(n - 1, x) - (n - 1) * _legendre(n - 2, x)) / n


@case([0.3, 5], [0.3, 1], [0.3, 0])
def recursion_with_two_calls(x, n):
    return _legendre(n, x) + x


test_gradients = case.test()


# ---- what may be refused --------------------------------------------------------------------------------------------

hard = Table()


def _halve(x):
    if abs(x) < 0.1:
        return x
    return 2.0 * _halve(x / 2) + x


@hard([0.7], [0.05], [90.0])
def recursion_with_data_dependent_depth(x):
    return _halve(x)


def _even(x):
    return x if x < 1 else _odd(x - 1) * 2


def _odd(x):
    return x * x if x < 1 else _even(x - 1)


@hard([3.3], [0.3])
def mutual_recursion_on_data(x):
    return _even(x)


def _simpson(f, a, b, fa, fm, fb, tol):
    m = (a + b) / 2
    fl, fr = f((a + m) / 2), f((m + b) / 2)
    whole = (b - a) / 6 * (fa + 4 * fm + fb)
    halves = (b - a) / 12 * (fa + 4 * fl + 2 * fm + 4 * fr + fb)
    if abs(halves - whole) < tol:
        return halves
    return _simpson(f, a, m, fa, fl, fm, tol / 2) + _simpson(f, m, b, fm, fr, fb, tol / 2)


@hard([0.7], [2.0])
def adaptive_quadrature(c):
    f = lambda t: np.exp(-c * t * t)  # noqa: E731
    return _simpson(f, 0.0, 2.0, f(0.0), f(1.0), f(2.0), 1e-4)


@hard([0.5], [-0.5])
def exception_caught(x):
    try:
        if x < 0:
            raise ValueError("negative")
        return x * 2
    except ValueError:
        return x * x


@hard([0.5], [-0.5])
def exception_of_a_math_function_caught(x):
    try:
        y = math.sqrt(x)
    except ValueError:
        y = x * 3
    return y * 2


@hard([0.5], [-2.0])
def division_by_zero_caught(x):
    try:
        y = 1 / x
    except ZeroDivisionError:
        y = 7.0
    return y * 2


@hard([numbers(3), 1], [numbers(3), 7])
def index_error_caught(x, k):
    try:
        return x[k] * 2
    except IndexError:
        return np.sum(x)


@hard([numbers(3), 0.5], [numbers(3), -0.5])
def exception_from_a_loop_caught(x, limit):
    s = 0.0
    try:
        for v in x:
            if v > limit + 0.6:
                raise StopIteration
            s += v
    except StopIteration:
        s *= 2
    return s


@hard([0.5], [-0.5])
def exception_in_a_callee_caught(x):
    def f(v):
        if v < 0:
            raise ArithmeticError
        return np.sqrt(v)

    try:
        return f(x)
    except ArithmeticError:
        return 3 * x


@hard([0.5], [-0.5])
def finally_runs(x):
    s = [x]
    try:
        if x > 0:
            s[0] = x * 2
    finally:
        s[0] = s[0] * 3
    return s[0]


@hard([0.5], [-0.5])
def finally_leaves_on_data(x):
    y = x
    try:
        y = y * 2
    finally:
        if y > 0:
            return y * y
    return 5 * y


def _partial_sums(x):
    s = 0.0
    for v in x:
        s += v * v
        yield s


@hard([numbers(3)], [numbers(12)])
def generator_function(x):
    total = 1.0
    for s in _partial_sums(x):
        total *= s
    return total


@hard([numbers(3)], [numbers(12)])
def generator_by_next(x):
    it = iter(x)
    first = next(it)
    s = first
    for v in it:
        s = s * 0.5 + v
    return s * first


@hard([numbers(3)])
def generator_expression_is_lazy(x):
    k = 1.0
    g = (v * k for v in x)
    k = 2.0
    return sum(g)


@hard([numbers(3)])
def generator_expression_is_used_up(x):
    g = (v * v for v in x)
    return sum(g) + 3.0 * sum(g)


@hard([numbers(3)])
def map_and_zip_are_used_up(x):
    m = map(lambda v: v * v, x)
    z = zip(x, x)
    s = sum(m) + 3.0 * sum(m)
    for a, b in z:
        s += a * b
    for a, b in z:
        s += 100.0 * a * b
    return s


@hard([numbers(4)])
def iterators_advance_together(x):
    it = iter(x)
    return sum(a * b**2 for a, b in zip(it, it))


@hard([numbers(4)])
def itertools_on_data(x):
    return sum(itertools.accumulate([x[0], x[1], x[2]])) + sum(a * b for a, b in itertools.pairwise(x))


@hard([numbers(12)])
def native_iterator_advanced_in_a_loop(x):
    signs, s = itertools.cycle([1.0, -2.0, 3.0]), 0.0
    for v in x:
        s += next(signs) * v * v
    return s


@hard([numbers(4), 3.0], [numbers(12), 3.0])
def counted_until_broken_off(x, limit):
    s = 0.0
    for k in itertools.count(1):
        s += x[k % 3] ** k
        if s > limit:
            break
    for k, v in zip(itertools.count(), x):
        s += k * v
    return s


@hard([numbers(4)])
def iterator_shared_by_two_loops(x):
    it, s = iter([x[0], x[1], x[2], x[3]]), 1.0
    for v in it:
        s = s * v
        if v is x:
            break
        s += next(it)
    return s


@hard([numbers(3)], [numbers(12)])
def list_changed_while_iterated(x):
    todo = [x[0]]
    for v in todo:
        if len(todo) < 5:
            todo.append(v * x[1])
    return sum(todo)


@hard([0.7], [-0.7])
def set_and_dict_filled_on_data(x):
    d = {}
    d["a" if x > 0 else "b"] = x * x
    return sum(d.values()) * (2.0 if "a" in d else 3.0)


@hard([numbers(12)])
def list_popped_in_a_loop(x):
    stack = [x[0], x[1], x[2]]
    s = 0.0
    while stack:
        s = s * 0.5 + stack.pop() ** 2
    return s


@hard([3.7], [1.2])
def stack_of_data_dependent_depth(x):
    stack, s = [x], 0.0
    while stack:
        v = stack.pop()
        if v > 1.0:
            stack.append(v / 2)
            stack.append(v / 3)
        else:
            s += v * v
    return s


@hard([numbers(12), 1.0], [numbers(12), -1.0])
def grown_list_changed(x, s):
    out = []
    for v in x:
        out.append(v * s)
    out[0] = 3.0
    out.insert(1, 2.0)
    return sum(out)


@hard([numbers(12)])
def grown_list_sliced(x):
    out = []
    for v in x:
        out.append(v * v)
    return sum(out[2:5]) + out[::-1][0]


@hard([numbers(12)])
def grown_list_of_lists(x):
    out = []
    for v in x:
        out.append([v, v * v])
    return np.sum(np.array(out) ** 2)


@hard([numbers(12)])
def grown_list_of_tuples_unpacked(x):
    out = []
    for v in x:
        out.append((v, v * v))
    return sum(a * b for a, b in out)


@hard([numbers(12)])
def list_extended_in_a_loop(x):
    out = []
    for v in x:
        out += [v, v * v]
    return np.sum(np.array(out) ** 2)


@hard([numbers(12)])
def list_rebuilt_in_a_loop(x):
    out = []
    for v in x:
        out = out + [v * v]
    return np.sum(np.array(out))


@hard([numbers(12)])
def array_grown_by_append(x):
    out = np.zeros(0)
    for v in x:
        out = np.append(out, v * v)
    return np.sum(out * np.arange(12))


@hard([numbers(12)], [numbers(3)])
def array_shrinks_in_a_loop(x):
    s = 0.0
    while len(x) > 1:
        s += x[0] * x[-1]
        x = x[1:]
    return s


@hard([numbers(8)])
def array_halves_in_a_loop(x):
    while len(x) > 1:
        x = x[::2] * x[1::2]
    return x[0]


@hard([signed(12)], [numbers(12)])
def dict_of_counts_in_a_loop(x):
    seen = {}
    for k in range(12):
        seen[k % 3] = seen.get(k % 3, 0.0) + x[k]
    return seen[0] * seen[1] + seen[2]


@hard([numbers(3)], [-numbers(3)])
def name_defined_only_on_one_path(x):
    for v in x:
        if v > 0:
            last = v
    if x[0] < 0:
        last = x[1]
    return last * 2


test_hard = hard.test(right_or_refused)


# ---- exact values, where differences do not help --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "points"),
    [
        (boolean_operators_on_numbers, [(0.0, 2.0), (0.5, 0.0), (0.0, 0.0), (1.0, 1.0)]),
        (match_numbers_and_guards, [(1.0,), (0.5,), (1.5,)]),
        (match_classes, [(0.5, 0.0), (0.0, 2.0), (1.5, 2.0), (0.0, 0.0)]),
        (truncation_to_an_integer, [(0.5,), (2.5,), (-3.5,), (2.0,)]),
        (chained_comparison, [(0.0, 2.0), (1.0, 1.0), (2.0, 2.0), (-1.0, 6.0)]),
        (elif_chain, [(1.0,), (0.0,), (-1.0,)]),
        (division_by_zero_caught, [(0.5,), (0.0,)]),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_value_at_the_edge_of_a_branch(f, points, backend):
    compiled = gs.jit(f, backend=backend)
    for point in points:
        assert compiled(*point) == pytest.approx(f(*point))


# ---- errors of the program itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [gs.jit, gs.grad])
def test_unbound_local_is_raised(transform, backend):
    def f(x):
        if x > 0:
            y = x * 2
        return y * x

    g = transform(f, backend=backend)
    assert g(1.0) == pytest.approx(2.0 if transform is gs.jit else 4.0)
    with pytest.raises(UnboundLocalError):
        g(-1.0)
    assert g(1.0) == pytest.approx(2.0 if transform is gs.jit else 4.0)


@pytest.mark.parametrize("transform", [gs.jit, gs.grad])
def test_raise_under_a_condition(transform, backend):
    def f(x):
        s = 0.0
        for v in x:
            if v < 0:
                raise ValueError(f"negative: {v}")
            s += v**0.5
        return s

    g = transform(f, backend=backend)
    g(numbers(3))
    with pytest.raises(ValueError, match=r"negative: -2\.0"):
        g(np.array([1.0, -2.0, 3.0]))
    g(numbers(12))
    with pytest.raises(ValueError, match=r"negative: -2\.5"):
        g(np.array([1.0, 3.0, -2.5, -7.0]))


@pytest.mark.parametrize("transform", [gs.jit, gs.grad])
def test_assertion_under_a_condition(transform, backend):
    def f(x):
        assert x > 0, "positive, please"
        return np.log(x)

    g = transform(f, backend=backend)
    g(2.0)
    with pytest.raises(AssertionError, match="positive, please"):
        g(-2.0)


def test_index_error_in_a_branch_not_taken_is_not_raised(backend):
    def f(x, k):
        s = x[0]
        if k < len(x):
            s = s * x[k]
        return s

    g = gs.grad(f, backend=backend)
    np.testing.assert_allclose(g(np.array([2.0, 3.0]), 1), [3.0, 2.0])
    np.testing.assert_allclose(g(np.array([2.0, 3.0]), 5), [1.0, 0.0])


def test_function_without_a_return_on_one_path(backend):
    def f(x):
        if x > 0:
            return x * x

    g = gs.grad(f, backend=backend)
    assert g(3.0) == 6.0
    with pytest.raises((UnsupportedCode, TypeError)):
        g(-3.0)


@pytest.mark.parametrize("f", [finally_leaves_on_data])
def test_what_the_source_cannot_give_says_so(f, backend):
    with pytest.raises(UnsupportedCode, match="finally"):
        gs.grad(f, backend=backend, engine="source")(0.7)


def test_endless_recursion_is_an_error(backend):
    def f(x):
        return f(x * 0.5)

    with pytest.raises((RecursionError, UnsupportedCode)):
        gs.grad(f, backend=backend)(1.0)


def test_branch_taken_first_does_not_stick(backend):
    def f(x, n):
        y = x
        for _ in range(n):
            if y > 2:
                y = y - 1.5 * x
            else:
                y = y * x
        return y

    judge(f, [[1.5, 4], [1.1, 20], [0.5, 3], [2.5, 0], [2.5, 9]], backend)
