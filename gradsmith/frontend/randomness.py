"""Random numbers in staged code: every call of the compiled function draws fresh ones, from the user's generator.

A draw is an effect. Where the distribution has a location and a scale, the standard variate is drawn, and moved and
scaled by ordinary operations (as NumPy does it), so that the result has the right derivatives. Elements of arrays are
chosen and permuted by drawn indices. Other parameters have no derivative: one that would reach them is an error.
"""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith.backends import effects as runtime
from gradsmith.errors import MissingRule, UnsupportedCode
from gradsmith.frontend import arithmetic, effects, objects
from gradsmith.frontend import stage as st
from gradsmith.frontend.builtins import register
from gradsmith.frontend.generators import CLASSES, Handle, is_generator
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar, fresh, is_number, ndim_of
from gradsmith.ir import builder as ir
from gradsmith.ir.program import Value
from gradsmith.ir.types import F64, I64, ArrayType

#: distribution → (method that draws the standard variate, its arguments, names of location and scale)
_MOVED: dict[str, tuple[str, tuple[float, ...], str, str]] = {
    "normal": ("standard_normal", (), "loc", "scale"),
    **{name: (name, (0.0, 1.0), "loc", "scale") for name in ("laplace", "gumbel", "logistic")},
    "exponential": ("standard_exponential", (), "", "scale"),
    "rayleigh": ("rayleigh", (1.0,), "", "scale"),
}
_CONTINUOUS = frozenset(
    "beta chisquare f noncentral_chisquare noncentral_f pareto power standard_cauchy standard_exponential "
    "standard_gamma standard_normal standard_t triangular vonmises wald weibull random random_sample".split()
)
_DISCRETE = frozenset(
    "binomial geometric hypergeometric logseries negative_binomial poisson zipf random_integers".split()
)
#: results with one more axis than the size
_VECTORS = {"dirichlet": F64, "multivariate_normal": F64, "multinomial": I64, "multivariate_hypergeometric": I64}


class Draw:
    """A method of a generator, called in staged code."""

    def __init__(self, stage: Stage, owner: Any, name: str):
        self.stage = stage
        self.owner = owner
        self.kind = owner.kind if isinstance(owner, Handle) else type(owner)
        self.name = name

    def call(
        self, name: str, args: Sequence[Any], types: Sequence[ArrayType], kwargs: dict[str, Any] | None = None
    ) -> list[Value]:
        """The results of ``owner.name(*args, **kwargs)`` drawn when the compiled function runs."""
        operands = effects.Operands(self.stage)
        owner = operands.make(self.owner)
        make_args = [operands.make(x) for x in args]
        make_kwargs = {k: operands.make(x) for k, x in (kwargs or {}).items()}

        def plain(*values: Any) -> Sequence[Any]:
            return [getattr(owner(values), name)()]

        def run(*values: Any) -> Sequence[Any]:
            method = getattr(owner(values), name)
            found = method(
                *(make(values) for make in make_args), **{k: make(values) for k, make in make_kwargs.items()}
            )
            return [found] if types else ()

        shown = [operands.shown(x) for x in args] + [f"{k}={operands.shown(x)}" for k, x in (kwargs or {}).items()]
        text = f"{_place(self.owner)}{name}({', '.join(shown)})"
        simple = types and not args and not kwargs
        return effects.emit(self.stage, name, plain if simple else run, operands.values, types, text)

    def sized(
        self,
        name: str,
        args: Sequence[Any],
        size: list[Any] | None,
        dtype: Any = F64.dtype,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """A draw of an array with the lengths ``size``, or of one number."""
        if size is None:
            (value,) = self.call(name, args, [ArrayType(np.dtype(dtype))], kwargs)
            return Scalar(value, weak=True)
        (value,) = self.call(
            name, args, [ArrayType(np.dtype(dtype), len(size))], {**(kwargs or {}), "size": tuple(size)}
        )
        return fresh(ir.reshape(value, [st.index_value(n) for n in size]))


def _place(owner: Any) -> str:
    """How shown source names a generator."""
    if isinstance(owner, Handle):
        return "{}."
    return {id(_LEGACY): "np.random.", id(_PYTHON): "random."}.get(id(owner), "rng.")


_LEGACY = np.random.normal.__self__  # type: ignore[attr-defined]
_PYTHON = random.gauss.__self__  # type: ignore[attr-defined]


def draw(stage: Stage, owner: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``owner.name(*args, **kwargs)``, a method of a random generator."""
    d = Draw(stage, owner, name)
    rules = _PYTHON_METHODS if issubclass(d.kind, random.Random) else _NUMPY_METHODS
    rule = rules.get(name)
    if rule is None:
        raise UnsupportedCode(
            f"{d.kind.__name__}.{name} of a random generator; draw with its other methods, or outside"
        )
    if name in ("rand", "randn"):
        return rule(d, args)
    bound = inspect.signature(getattr(d.kind, name)).bind(None, *args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    given.pop("self", None)
    if given.pop("out", None) is not None:
        raise UnsupportedCode(
            f"{name}(out=...) of a random generator; assign what it returns: x[:] = rng.{name}(x.shape)"
        )
    return rule(d, **given)


def _dims(size: Any) -> list[Any] | None:
    """The lengths that a ``size`` argument asks for; None for a single number."""
    if size is None:
        return None
    if isinstance(size, Array):
        return list(st.current().concrete(size))
    if isinstance(size, np.ndarray):
        return size.tolist()
    return list(size) if isinstance(size, list | tuple) else [size]


def _broadcast_dims(*params: Any) -> list[Any] | None:
    """The lengths of what the parameters broadcast to; None when all are numbers."""
    params = tuple(fresh(st.as_value(p)) if isinstance(p, list | tuple | np.ndarray) else p for p in params)
    if not any(ndim_of(p) for p in params):
        return None
    total = st.as_value(params[0], np.float64)
    for p in params[1:]:
        total = total + st.as_value(p, np.float64)
    return [Scalar(n, weak=True) if isinstance(n, Value) else n for n in ir.shape(total)]


def _as_number(x: Any) -> Any:
    """NumPy's parameters: a Python number, an array, or a list of numbers as one."""
    return fresh(st.as_value(x)) if isinstance(x, list | tuple) else x


# ---- continuous distributions ---------------------------------------------------------------------------------------


def _moved(d: Draw, size: Any = None, **params: Any) -> Any:
    method, args, location, scale = _MOVED[d.name]
    loc, factor = _as_number(params.get(location, 0.0)), _as_number(params[scale])
    dims = _dims(size) if size is not None else _broadcast_dims(loc, factor)
    smallest = factor if not ndim_of(factor) else objects.call_catalogue(np.min, factor, initial=0.0)
    d.stage.check(objects.truth(d.stage, objects.compare(d.stage, ">=", smallest, 0)), ValueError, f"{scale} < 0")
    z = d.sized(method, args, dims)
    if not (is_number(factor) and not isinstance(factor, Scalar) and factor == 1):
        z = arithmetic.binary("*", factor, z)
    if not (is_number(loc) and not isinstance(loc, Scalar) and loc == 0):
        z = arithmetic.binary("+", loc, z)
    return _drawn(z, dims)


def _drawn(x: Any, dims: list[Any] | None) -> Any:
    """A draw as NumPy returns it: a Python float, or a new array."""
    return arithmetic.python_number(st.as_value(x, np.float64)) if dims is None else fresh(st.as_value(x, np.float64))


def _uniform(d: Draw, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    low, high = _as_number(low), _as_number(high)
    dims = _dims(size) if size is not None else _broadcast_dims(low, high)
    base = "random" if issubclass(d.kind, np.random.Generator) else "random_sample"
    u = d.sized(base, (), dims)
    return _drawn(arithmetic.binary("+", low, arithmetic.binary("*", arithmetic.binary("-", high, low), u)), dims)


def _lognormal(d: Draw, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
    normal = draw(d.stage, d.owner, "normal", [mean, sigma, size], {})
    out = objects.call_catalogue(np.exp, normal)
    return arithmetic.python_number(out.value) if isinstance(out, Scalar) else out


def _gamma(d: Draw, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
    shape, scale = _as_number(shape), _as_number(scale)
    dims = _dims(size) if size is not None else _broadcast_dims(shape, scale)
    return _drawn(arithmetic.binary("*", scale, d.sized("standard_gamma", (shape,), dims)), dims)


def _plain(d: Draw, size: Any = None, dtype: Any = np.float64, method: str = "zig", **params: Any) -> Any:
    """A distribution whose parameters have no derivative."""
    options = {"dtype": dtype} if dtype is not np.float64 else {}
    if method != "zig":
        options["method"] = method
    params = {k: _as_number(p) for k, p in params.items()}
    if size is not None:
        return d.sized(d.name, (), _dims(size), dtype, {**params, **options})
    dims = _broadcast_dims(*params.values()) if params else None
    if dims is None:
        return d.sized(d.name, (), None, dtype, {**params, **options})
    (value,) = d.call(d.name, (), [ArrayType(np.dtype(dtype), len(dims))], {**params, **options})
    return fresh(ir.reshape(value, [st.index_value(n) for n in dims]))


def _vector(d: Draw, size: Any = None, **params: Any) -> Any:
    dims = _dims(size) or []
    inner = max(0, ndim_of(params.get("pvals", 0)) - 1, ndim_of(_as_number(params.get("n", 0))))
    ndim = len(dims) or inner
    options = {} if size is None else {"size": tuple(dims)}
    type = ArrayType(_VECTORS[d.name].dtype, ndim + 1)
    (value,) = d.call(d.name, (), [type], {**{k: _as_number(p) for k, p in params.items()}, **options})
    return fresh(value)


# ---- integers, choices, permutations --------------------------------------------------------------------------------


def _discrete(d: Draw, size: Any = None, **params: Any) -> Any:
    return _plain(d, size=size, dtype=np.int64, **params) if d.name not in _DISCRETE else _counts(d, size, params)


def _counts(d: Draw, size: Any, params: dict[str, Any]) -> Any:
    params = {k: _as_number(p) for k, p in params.items()}
    given = [p for p in params.values() if p is not None]
    dims = _dims(size) if size is not None else _broadcast_dims(*given)
    return d.sized(d.name, (), dims, np.int64, params) if size is not None or dims is None else _shaped(d, dims, params)


def _shaped(d: Draw, dims: list[Any], params: dict[str, Any]) -> Any:
    (value,) = d.call(d.name, (), [ArrayType(I64.dtype, len(dims))], params)
    return fresh(ir.reshape(value, [st.index_value(n) for n in dims]))


def _integers(
    d: Draw, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
) -> Any:
    params = {"low": _as_number(low), "high": _as_number(high), "dtype": dtype}
    if endpoint:
        params["endpoint"] = True
    bounds = [p for p in (params["low"], params["high"]) if p is not None]
    dims = _dims(size) if size is not None else _broadcast_dims(*bounds)
    if size is not None:
        params["size"] = tuple(dims or ())
    weak = dims is None and d.name == "randint" and dtype is int
    (value,) = d.call(d.name, (), [ArrayType(np.dtype(dtype), len(dims or ()))], params)
    if dims is None:
        return Scalar(value, weak)
    return fresh(ir.reshape(value, [st.index_value(n) for n in dims]))


def _population(x: Any) -> Any:
    """What is chosen from: an integer, or an array."""
    if isinstance(x, Array) and not x.ndim:
        x = Scalar(x.value, weak=True)
    return x if is_number(x) else x if isinstance(x, Array) else fresh(st.as_value(x))


def _choice(
    d: Draw, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
) -> Any:
    a = _population(a)
    n = a if is_number(a) else Scalar(ir.shape(a.value)[axis], weak=True)
    options: dict[str, Any] = {"replace": replace}
    if p is not None:
        options["p"] = _as_number(p)
    if not shuffle:
        options["shuffle"] = False
    index = d.sized("choice", (n,), _dims(size), np.int64, options)
    if is_number(a):
        return index
    return objects.call_catalogue(np.take, a, index, axis=axis) if axis else objects.getitem(d.stage, a, index)


def _order(d: Draw, n: Any) -> Any:
    (value,) = d.call("permutation", (n,), [ArrayType(I64.dtype, 1)])
    return fresh(ir.reshape(value, [st.index_value(n)]))


def _permutation(d: Draw, x: Any, axis: int = 0) -> Any:
    x = _population(x)
    if is_number(x):
        return _order(d, x)
    order = _order(d, Scalar(ir.shape(x.value)[axis], weak=True))
    return objects.call_catalogue(np.take, x, order, axis=axis) if axis else objects.getitem(d.stage, x, order)


def _shuffle(d: Draw, x: Any, axis: int = 0) -> None:
    if isinstance(x, list):
        _reorder(d, x, _order(d, len(x)))
        return
    objects.setitem(d.stage, x, Ellipsis, _permutation(d, x, axis))


def _reorder(d: Draw, x: list[Any], order: Array) -> None:
    from gradsmith.frontend.heap import Slot

    items = [objects.getitem(d.stage, list(x), objects.getitem(d.stage, order, k)) for k in range(len(x))]
    d.stage.heap.write(Slot("list", x), items)


def _permuted(d: Draw, x: Any, axis: Any = None) -> Any:
    x = _population(x)
    (value,) = d.call("permuted", (x,), [ArrayType(x.dtype, x.ndim)], {"axis": axis})
    return fresh(ir.reshape(value, ir.shape(x.value)))


def _seed(d: Draw, *args: Any, **kwargs: Any) -> None:
    d.call(d.name, [x for x in (*args, *kwargs.values()) if x is not None], [])


def _positional_size(method: str) -> Callable[..., Any]:
    return lambda d, dims: Draw(d.stage, d.owner, method).sized(method, (), list(dims) if dims else None)


_NUMPY_METHODS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_MOVED, _moved),
    **dict.fromkeys(_CONTINUOUS, _plain),
    **dict.fromkeys(_DISCRETE, _discrete),
    **dict.fromkeys(_VECTORS, _vector),
    "uniform": _uniform,
    "lognormal": _lognormal,
    "gamma": _gamma,
    "integers": _integers,
    "randint": _integers,
    "choice": _choice,
    "permutation": _permutation,
    "shuffle": _shuffle,
    "permuted": _permuted,
    "seed": _seed,
    "rand": _positional_size("random_sample"),
    "randn": _positional_size("standard_normal"),
}


# ---- the module random ----------------------------------------------------------------------------------------------


def _number(d: Draw, name: str, *args: Any, type: ArrayType = F64) -> Any:
    (value,) = d.call(name, args, [type])
    return Scalar(value, weak=True)


def _python_normal(d: Draw, mu: Any = 0.0, sigma: Any = 1.0) -> Any:
    return arithmetic.binary("+", mu, arithmetic.binary("*", _number(d, d.name, 0.0, 1.0), sigma))


def _python_uniform(d: Draw, a: Any, b: Any) -> Any:
    return arithmetic.binary("+", a, arithmetic.binary("*", arithmetic.binary("-", b, a), _number(d, "random")))


def _python_exponential(d: Draw, lambd: Any = 1.0) -> Any:
    return arithmetic.binary("/", _number(d, "expovariate", 1.0), lambd)


def _python_lognormal(d: Draw, mu: Any, sigma: Any) -> Any:
    normal = draw(d.stage, d.owner, "normalvariate", [mu, sigma], {})
    return arithmetic.python_number(ir.exp(st.as_value(normal, np.float64)))


def _python_plain(d: Draw, **params: Any) -> Any:
    return _number(d, d.name, *params.values())


def _python_integer(d: Draw, **params: Any) -> Any:
    return _number(d, d.name, *params.values(), type=I64)


def _python_choice(d: Draw, seq: Any) -> Any:
    n = objects.length(d.stage, seq)
    index = _number(d, "randrange", n, type=I64)  # what choice(seq) draws
    return objects.getitem(d.stage, seq, index)


def _python_indices(d: Draw, population: Any, k: Any, **options: Any) -> Any:
    """``choices`` and ``sample``: a list of elements."""
    options = {name: x for name, x in options.items() if x is not None}
    k = d.stage.concrete(k)
    n = d.stage.concrete(objects.length(d.stage, population))
    (value,) = d.call(d.name, (range(n),), [ArrayType(I64.dtype, 1)], {"k": k, **options})
    index = fresh(ir.reshape(value, [k]))
    items = [objects.getitem(d.stage, population, objects.getitem(d.stage, index, j)) for j in range(k)]
    return d.stage.heap.born(items)


def _python_shuffle(d: Draw, x: list[Any]) -> None:
    operands = effects.Operands(d.stage)
    owner, n = operands.make(d.owner), len(x)

    def run(*values: Any) -> Sequence[Any]:
        order = list(range(n))
        owner(values).shuffle(order)
        return [order]

    (value,) = effects.emit(d.stage, "shuffle", run, operands.values, [ArrayType(I64.dtype, 1)])
    _reorder(d, x, fresh(ir.reshape(value, [n])))


_PYTHON_METHODS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("gauss", "normalvariate"), _python_normal),
    "uniform": _python_uniform,
    "expovariate": _python_exponential,
    "lognormvariate": _python_lognormal,
    **dict.fromkeys(("random", "betavariate", "gammavariate", "triangular", "paretovariate"), _python_plain),
    **dict.fromkeys(("weibullvariate", "vonmisesvariate"), _python_plain),
    **dict.fromkeys(("randint", "randrange", "getrandbits"), _python_integer),
    "choice": _python_choice,
    "choices": _python_indices,
    "sample": _python_indices,
    "shuffle": _python_shuffle,
    "seed": _seed,
}


# ---- generators that staged code makes ------------------------------------------------------------------------------


def make(stage: Stage, cls: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Handle:
    """A new generator at every call of the compiled function."""
    operands = effects.Operands(stage)
    make_args = [operands.make(x) for x in args]
    make_kwargs = {k: operands.make(x) for k, x in kwargs.items()}

    def run(*values: Any) -> Sequence[Any]:
        made = cls(*(make(values) for make in make_args), **{k: make(values) for k, make in make_kwargs.items()})
        return [runtime.handle(made)]

    shown = [operands.shown(x) for x in args] + [f"{k}={operands.shown(x)}" for k, x in kwargs.items()]
    where = "random" if cls is random.Random else "np.random"
    text = f"{where}.{cls.__name__}({', '.join(shown)})"
    (number,) = effects.emit(stage, cls.__name__, run, operands.values, [I64], text)
    return Handle(Scalar(number, weak=True), np.random.Generator if cls is np.random.default_rng else cls)


def attribute(stage: Stage, x: Handle, name: str) -> Any:
    """An attribute of a generator: its methods draw."""
    if not hasattr(x.kind, name):
        raise AttributeError(f"{x.kind.__name__!r} object has no attribute {name!r}")
    if not callable(getattr(x.kind, name)):
        raise MissingRule(f"{x.kind.__name__}.{name} cannot be read in compiled code")
    return objects.Method(x, lambda owner, *args, **kwargs: draw(st.current(), owner, name, args, kwargs), name)


def bound(f: Any) -> Callable[..., Any] | None:
    """The staged version (taking the stage first) of a bound method of a generator."""
    owner = getattr(f, "__self__", None)
    if owner is None or not is_generator(owner):
        return None
    return lambda stage, *args, **kwargs: draw(stage, owner, f.__name__, args, kwargs)


def _legacy(name: str) -> Callable[..., Any]:
    return lambda stage, *args, **kwargs: draw(stage, _LEGACY, name, args, kwargs)


def _maker(cls: Any) -> Callable[..., Any]:
    return lambda stage, *args, **kwargs: make(stage, cls, args, kwargs)


for _cls in (
    np.random.default_rng,
    *CLASSES,
    np.random.MT19937,
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
):
    register(_cls, _maker(_cls))
register(np.random.seed, _legacy("seed"))
for _name in ("ranf", "sample"):
    register(getattr(np.random, _name), _legacy("random_sample"))


# ---- clocks ---------------------------------------------------------------------------------------------------------


def _clock(read: Callable[[], Any]) -> Callable[..., Any]:
    type = I64 if read.__name__.endswith("_ns") else F64
    text = f"time.{read.__name__}()"
    return lambda stage: Scalar(effects.emit(stage, read.__name__, lambda: [read()], [], [type], text)[0], weak=True)


for _name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
    for _function in (getattr(time, _name), getattr(time, f"{_name}_ns")):
        register(_function, _clock(_function))
