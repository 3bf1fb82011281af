"""Programs of the kinds that people write, for the tape: each judged by Python and finite differences, at several points."""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

X = np.array([0.7, 1.9, 1.3, 0.4])
Y = np.array([1.1, 0.3, 2.1, 0.9])
Z = np.array([2.0, 0.5, 0.9, 1.6])
M = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.3, 0.1, 1.8]])
M2 = M + np.array([[0.1, 0.2, 0.0], [0.0, 0.3, 0.1], [0.2, 0.1, 0.0]])

#: each with its arguments at several points
PROGRAMS: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = []


def case(*points: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append((f, [p if isinstance(p, tuple) else (p,) for p in points]))
        return f

    return register


@case(X, Y)
def ufunc_types(x: Any) -> Any:
    return np.add(x, 1, dtype=np.float64).sum() + np.sum(x, dtype=float) + np.mean(x, axis=0, keepdims=True)[0]


@case(X, Y)
def nested_views(x: Any) -> Any:
    y = np.zeros((4, 4))
    v = y[1:3][:, 1:3]
    v[...] = x.reshape(2, 2)
    w = v.T
    w += 1
    y.ravel()[0] = x[0]
    return (y * y).sum() + y.diagonal().sum()


@case(X, Y)
def swap(x: Any) -> Any:
    y = np.array(x)
    y[0], y[1] = y[1], y[0]
    y[[2, 3]] = y[[3, 2]]
    return (y * [1, 2, 3, 4]).sum()


@case(X, Y)
def aug_index(x: Any) -> Any:
    y = np.zeros(3)
    for i, v in enumerate(x):
        y[i % 3] += v * v
        y[i % 3] *= 2
    return y.prod()


@case(X, Y)
def mask_assign(x: Any) -> Any:
    y = x * 1.0
    m = y > 1
    y[m] = y[m] ** 2
    y[~m] = -1.0
    return y.sum()


@case(X, Y)
def bool_arr_count(x: Any) -> Any:
    return (x > 1).sum() * x.sum() + np.count_nonzero(x > 1) * x[0]


@case(X, Y)
def while_arr(x: Any) -> Any:
    y = x.copy()
    n = 0
    while np.max(y) > 0.5:
        y *= 0.7
        n += 1
    return y.sum() * n


@case(X, Y, Z)
def sort_py(x: Any) -> Any:
    items = list(x)
    for i in range(len(items)):
        for j in range(len(items) - 1 - i):
            if items[j] > items[j + 1]:
                items[j], items[j + 1] = items[j + 1], items[j]
    return sum(v * (k + 1) for k, v in enumerate(items))


@case(X, Y, Z)
def quicksort(x: Any) -> Any:
    def q(items):
        return (
            items
            if len(items) < 2
            else q([v for v in items[1:] if v < items[0]]) + [items[0]] + q([v for v in items[1:] if not v < items[0]])
        )

    return sum(v * (k + 1) ** 2 for k, v in enumerate(q(list(x))))


@case(X, Y)
def dict_by_int(x: Any) -> Any:
    d = {}
    for v in x:
        d.setdefault(int(v * 2), []).append(v)
    return sum(k * sum(v) for k, v in d.items())


@case(X, Y)
def comp(x: Any) -> Any:
    return sum([v * w for v in x if v > 0.5 for w in x if w > v])


@case(X, Y)
def genexp_any(x: Any) -> Any:
    return x.sum() if any(v > 1.8 for v in x) else x.prod()


@case(X, Y)
def argmax_idx(x: Any) -> Any:
    return x[np.argmax(x)] * x[int(np.argmin(x))] + x[x.argsort()[1]]


@case(X, Y)
def searchs(x: Any) -> Any:
    return x[np.searchsorted(np.sort(x), 1.0) % 4] * 2


@case(0.7, 1.9, -1.0)
def try_else(x: Any) -> Any:
    try:
        y = math.log(x)
    except ValueError:
        return x * 5
    else:
        y = y * 2
    finally:
        x = x + 1
    return y * x


@case(0.7, 1.9)
def ctx_class(x: Any) -> Any:
    class C:
        def __enter__(s):
            s.v = x
            return s

        def __exit__(s, *a):
            s.v = s.v * 2
            return True

    with C() as c:
        raise ValueError(x)
    return c.v


@case(0.7, 1.9)
def descr(x: Any) -> Any:
    class D:
        def __get__(s, o, t):
            return o._v * 2

        def __set__(s, o, v):
            o._v = v * v

    class A:
        p = D()

    a = A()
    a.p = x
    return a.p


@case(0.7, 1.9)
def op_overload(x: Any) -> Any:
    class Q:
        def __init__(s, v):
            s.v = v

        def __add__(s, o):
            return Q(s.v + getattr(o, "v", o))

        __radd__ = __add__

        def __mul__(s, o):
            return Q(s.v * getattr(o, "v", o))

        __rmul__ = __mul__

        def __float__(s):
            return float(s.v)

    return (x * Q(x) + 2 + Q(1.0) * x).v


@case(0.7, 1.9)
def arr_radd(x: Any) -> Any:
    class Q:
        __array_priority__ = 1000

        def __init__(s, v):
            s.v = v

        def __radd__(s, o):
            return o * s.v

        __array_ufunc__ = None

    return (np.array([x, 1.0]) + Q(x)).sum()


@case(X, Y)
def classmeth(x: Any) -> Any:
    class L:
        @classmethod
        def make(cls, v):
            o = cls()
            o.v = v
            return o

        @staticmethod
        def f(v):
            return v * v

        @property
        def s(self):
            return self.v.sum()

    return L.f(L.make(x).s)


@case(X, Y)
def inherit(x: Any) -> Any:
    class B:
        def f(s, v):
            return v.sum()

    class C(B):
        def f(s, v):
            return super().f(v * v)

    return C().f(x)


@case((0.7, {"a": [1.0, 2.0]}), (1.9, {"a": [3.0, 0.5]}))
def nested_args(x: Any, d: Any) -> Any:
    return x * d["a"][0] + d["a"][1] ** 2


@case((X, (Y, Z)), (Y, (Z, X)))
def tuple_args(x: Any, t: Any) -> Any:
    return (x * t[0] * t[1]).sum()


@case(X, Y)
def write_own_arg(x: Any) -> Any:
    x[0] = x[1] * 2
    x *= 2
    return (x * x).sum()


@case(0.5, 1.5)
def int_div(x: Any) -> Any:
    return (x // 0.4) * x + x % 0.4 + (-x) // 0.4 * x


@case(0.5, 1.5)
def big_int(x: Any) -> Any:
    return x * 2**70 / 2**69


@case(0.5, 1.5)
def bool_arith(x: Any) -> Any:
    return (x > 1) * x + (x < 1) + True * x


@case(0.5, 1.5)
def np_bool(x: Any) -> Any:
    return np.where(x > 1, x * x, x) * 1.0 + np.logical_and(x > 0, x < 1) * x


@case(0.5, 1.5)
def none_default(x: Any, y: Any = None) -> Any:
    return x if y is None else y


@case(0.5, 1.5)
def kwonly(x: Any, *, k: Any = 3.0) -> Any:
    return x * k


@case(0.5, 1.5)
def star_kw(x: Any) -> Any:
    def g(*a, **k):
        return sum(a) * k["z"]

    return g(*[x, x * 2], **{"z": x})


@case(0.5, 1.5)
def closure_late(x: Any) -> Any:
    fs = [lambda k=k: x * k for k in range(4)]
    return sum(f() for f in fs)


@case(0.5, 1.5)
def walrus(x: Any) -> Any:
    return y * y if (y := x * 2) > 2 else y


@case(0.5, 1.5)
def match_seq(x: Any) -> Any:
    match [x, x * 2]:
        case [a, b] if a > 1:
            return a * b
        case [a, *r]:
            return a + sum(r)


@case(0.5, 1.5)
def match_cls(x: Any) -> Any:
    match {"t": "sq", "v": x}:
        case {"t": "sq", "v": v}:
            return v * v


@case(0.5, 1.5)
def while_else(x: Any) -> Any:
    k = 0
    while k < 5:
        k += 1
        if x * k > 4:
            break
    else:
        return x
    return x * k


@case(0.5, 1.5)
def gen_ret(x: Any) -> Any:
    def g():
        r = yield from h()
        yield r * 2

    def h():
        yield x
        return x * x

    return sum(g())


@case(0.5, 1.5)
def cached_outer(x: Any) -> Any:
    @functools.cache
    def f(k):
        return x**k

    return f(2) + f(2) + f(3)


@case(0.5, 1.5)
def exec_loop(x: Any) -> Any:
    ns = {"x": x, "t": 0.0}
    exec("for k in range(4):\n    t = t + x**k\n    if t > 3: break", ns)
    return ns["t"]


@case(0.5, 1.5)
def deep_rec(x: Any) -> Any:
    def f(n):
        return x if n == 0 else f(n - 1) * 1.001 + x * 0.01

    return f(300)


@case(X, Y)
def concat_list(x: Any) -> Any:
    items = []
    for v in x:
        items += [v, v * 2]
    return (
        np.concatenate([np.array(items), x]).prod() * 0.01
        + np.hstack([x, 1.0]).sum()
        + np.column_stack([x, x * x])[1].sum()
        + np.append(x, x[0]).sum()
        + np.insert(x, 1, x[3]).sum()
        + np.delete(x, 0).sum()
    )


@case(M, M2)
def rows(a: Any) -> Any:
    return sum(r @ r for r in a) + sum(a[i][j] * i for i in range(3) for j in range(3)) + max(a.flatten()) + min(a[0])


@case(M, M2)
def lu(a: Any) -> Any:
    u = a.copy()
    d = 1.0
    for i in range(3):
        p = i + int(np.argmax(np.abs(u[i:, i])))
        if p != i:
            u[[i, p]] = u[[p, i]]
            d = -d
        d = d * u[i, i]
        for j in range(i + 1, 3):
            u[j] -= u[j, i] / u[i, i] * u[i]
    return d


@case(M, M2)
def cg(a: Any) -> Any:
    A = a @ a.T
    b = np.array([1.0, 2.0, 3.0])
    x = np.zeros(3)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    for _ in range(10):
        if rs < 1e-20:
            break
        q = A @ p
        al = rs / (p @ q)
        x = x + al * p
        r = r - al * q
        n = r @ r
        p = r + n / rs * p
        rs = n
    return x.sum()


@case(M, M2)
def power_it(a: Any) -> Any:
    v = np.ones(3)
    for _ in range(8):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v


@case(X, Y)
def fft_hand(x: Any) -> Any:
    def f(v):
        n = len(v)
        if n == 1:
            return v
        e, o = f(v[::2]), f(v[1::2])
        t = np.exp(-2j * np.pi * np.arange(n // 2) / n) * o
        return np.concatenate([e + t, e - t])

    return np.sum(np.abs(f(x.astype(complex))) ** 2 * np.arange(4))


@case(X, Y)
def rk4(x: Any) -> Any:
    def f(y):
        return np.array([y[1], -y[0], y[3] * y[0], -y[2]])

    y = x
    for _ in range(5):
        k1 = f(y)
        k2 = f(y + 0.05 * k1)
        k3 = f(y + 0.05 * k2)
        k4 = f(y + 0.1 * k3)
        y = y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y @ y


@case(X, Y)
def scan_acc(x: Any) -> Any:
    return (
        sum(itertools.accumulate(x, lambda a, b: a * b + 1))
        + functools.reduce(lambda a, b: a * b, x)
        + np.cumsum(x)[-1]
        + np.cumprod(x)[2]
    )


@case(X, Y)
def f32mix(x: Any) -> Any:
    return (x.astype("f4").astype(float) * np.float64(2)).sum() * 0 + (x * np.float32(2)).sum()


@case(X, Z)
def clip_out(x: Any) -> Any:
    o = np.empty(4)
    np.clip(x, 0.5, 1.2, out=o)
    o.clip(0.6, 1.1, out=o)
    return (o * x).sum()


@case(X, Y)
def sum_out(x: Any) -> Any:
    o = np.zeros(())
    np.sum(x * x, out=o)
    return o * 1.0


@case(X, Y)
def matmul_out(x: Any) -> Any:
    o = np.empty((2, 2))
    a = x.reshape(2, 2)
    np.matmul(a, a, out=o)
    np.dot(a, o, out=a * 0 + o)
    return o.sum()


@case(X, Y)
def einsum_out(x: Any) -> Any:
    o = np.zeros(4)
    np.einsum("i,i->i", x, x, out=o)
    return o.sum()


@case(X, Y)
def nan_f(x: Any) -> Any:
    return np.nansum(np.where(x > 1, x, np.nan)) + np.nanmean(x) + np.isnan(x).sum() * x[0]


@case(X, Y)
def stats_np(x: Any) -> Any:
    return (
        np.std(x, ddof=1)
        + np.average(x, weights=[1, 2, 3, 4])
        + np.quantile(x, 0.4)
        + np.corrcoef(x, x**2)[0, 1]
        + np.cov(x)
    )


@case(X, Y)
def iter_rows_write(x: Any) -> Any:
    y = np.zeros((2, 2))
    for r, v in zip(y, x, strict=False):
        r[:] = v
        r[0] *= v
    return y.sum()


@case(X, Y)
def structured(x: Any) -> Any:
    p = collections.namedtuple("P", "a b")(x[0], x[1:])
    q = p._replace(a=p.a * 2)
    return q.a * q.b.sum()


@case(X, Y)
def sets(x: Any) -> Any:
    return sum(v for v in x if int(v) in {0, 1}) * len({int(v) for v in x})


@case(0.5, 1.5)
def np_sel(x: Any) -> Any:
    return (
        np.max([x, 1.0])
        + np.min((x, 2.0))
        + np.sum([x, [x]][0])
        + np.mean([x, x * x])
        + np.linalg.norm([x, 1.0])
        + np.dot([x, 1], [x, 2])
        + np.prod([x, x])
    )


@case(0.5, 1.5)
def asarr0(x: Any) -> Any:
    return (
        np.asarray(x) * np.array(x)
        + np.atleast_1d(x)[0]
        + np.array([[x]])[0, 0]
        + np.full(3, x).sum()
        + np.full_like(np.zeros(2), x).sum()
        + np.ones(2) @ np.array([x, x])
    )


@case(0.5, 1.5)
def linsp(x: Any) -> Any:
    return (
        np.linspace(0, x, 5).sum()
        + np.arange(3) @ np.array([x, x, 1])
        + np.geomspace(x, 2, 3).sum()
        + np.logspace(0, x, 3).sum()
    )
