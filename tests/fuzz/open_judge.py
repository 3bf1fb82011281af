"""How functions with structures as arguments and state outside are judged: by plain Python in a module of its own.

The same compiled object is called again after what is outside has changed.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

import gradsmith as gs
from gradsmith.frontend.values import attribute_names
from tests.fuzz.judge import refusing

CALLS = 3
WRT = (0, 1, 3)  # the model, the array and the number; the data has no gradient asked for
STEPS = (1e-4, 3e-5)


def twin(f: Callable[..., Any], calls: int = 0) -> ModuleType:
    """The module of ``f`` loaded anew, with what is outside as before this call."""
    spec = importlib.util.spec_from_file_location("twin", f.__code__.co_filename)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for k in range(calls + 1):
        module.change(k)
    return module


def arguments(module: Any, seed: int, call: int) -> list[Any]:
    return module.arguments(seed + 1000 * call)


def check_value(f: Callable[..., Any], seed: int, backend: str, engine: str) -> None:
    """What ``jit`` returns, and leaves in its arguments and outside, is what Python does, call after call."""
    plain, own = twin(f, -1), twin(f, -1)
    compiled = gs.jit(own.f, backend=backend, engine=engine)
    for k in range(CALLS):
        plain.change(k), own.change(k)
        args, given = arguments(plain, seed, k), arguments(own, seed, k)
        expected = plain.f(*args)
        if not (isinstance(expected, float) and np.isfinite(expected)):
            return
        same(compiled(*given), expected, f"call {k}: value")
        same([given, own.outside()], [args, plain.outside()], f"call {k}: what is left")


def check_gradient(f: Callable[..., Any], seed: int, backend: str, engine: str, forward: bool = False) -> None:
    """The gradient is like the arguments and has the slope of differences; nothing is changed."""
    own = twin(f, -1)
    gradient = gs.grad(own.f, WRT, backend=backend, engine=engine)
    for k in range(CALLS if engine == "source" else 1):  # the tape leaves outside what the function writes there
        own.change(k)
        args = arguments(own, seed, k)
        if not usable(f, seed, k):
            return
        before = copy.deepcopy([args, own.outside() if engine == "source" else None])
        found = gradient(*args)
        after = [args, own.outside() if engine == "source" else None]
        same(after, before, f"call {k}: what a derivative leaves", 0.0)
        chosen = [args[j] for j in WRT]
        alike(found, tuple(chosen))
        direction = drawn(chosen)
        slope = product(found, direction)
        if forward and k == 0:
            at = tuple(chosen)
            _, along = gs.jvp(
                lambda model, x, s, args=args: own.f(model, x, args[2], s, args[4]),
                at,
                tuple(direction),
                backend=backend,
                engine=engine,
            )  # noqa: B023
            near(along, slope, 1e-6, "forward against reverse")
        compare(slope, lambda h, k=k, direction=direction: value_at(f, seed, k, direction, h), f"call {k}")


def check_source(f: Callable[..., Any], seed: int) -> None:
    """Both back ends, both modes."""
    with refusing():
        for backend in ("python", "native"):
            check_value(f, seed, backend, "source")
            check_gradient(f, seed, backend, "source", forward=backend == "native")


def check_automatic(f: Callable[..., Any], seed: int) -> None:
    """What users get by default."""
    with refusing():
        check_value(f, seed, "native", "auto")
        check_gradient(f, seed, "native", "auto")


def check_tape(f: Callable[..., Any], seed: int) -> None:
    with refusing():
        check_value(f, seed, "python", "tape")
        check_gradient(f, seed, "python", "tape")


def check_captured(f: Callable[..., Any], seed: int) -> None:
    """Gradients with respect to what the function reads from outside."""
    with refusing():
        own = twin(f)
        args = arguments(own, seed, 0)
        if not usable(f, seed, 0):
            return
        wrt = [own.BIAS, own.TABLE, own.BANK]
        before = copy.deepcopy([args, own.outside()])
        found = gs.grad(own.f, wrt=wrt, engine="source")(*args)
        same([args, own.outside()], before, "what a derivative leaves", 0.0)
        alike(found, wrt)
        direction = drawn(wrt)

        def value(h: float) -> float:
            module = twin(f)
            moved = added([module.BIAS, module.TABLE, module.BANK], direction, h)
            module.BIAS[...], module.TABLE = moved[0], moved[1]
            module.BANK = moved[2]
            return float(module.f(*arguments(module, seed, 0)))

        compare(product(found, direction), value, "captured")


def check_in_place(f: Callable[..., Any], seed: int) -> None:
    """Prepared calls, ``out=`` and ``has_aux`` give what ``grad`` gives."""

    def with_more(model: Any, x: Any, data: Any, s: Any, n: Any) -> Any:
        model, kept = copy.deepcopy(model), x * 2.0
        return own.f(model, x, data, s, n), {"kept": kept, "size": len(model.values), "gain": model.gain}

    with refusing():
        own = twin(f)
        if not usable(f, seed, 0):
            return
        args = arguments(own, seed, 0)
        wanted = gs.grad(own.f, 1, engine="source")(*args)
        prepared = gs.prepare(gs.grad(own.f, 1, engine="source"), *args)
        same(prepared(*args), wanted, "prepared")
        buffer = np.empty_like(args[1])
        assert gs.grad(own.f, 1, engine="source")(*args, out=buffer) is buffer
        same(buffer, wanted, "out=")
        own.change(1)
        args = arguments(own, seed, 1)
        if usable(f, seed, 1):
            same(prepared(*args), gs.grad(own.f, 1, engine="source")(*args), "prepared, called again")
            found, aux = gs.grad(with_more, 1, has_aux=True, engine="source")(*args)
            same(found, gs.grad(own.f, 1, engine="source")(*args), "with aux")
            own.change(1)
            same(aux, with_more(*copy.deepcopy(args))[1], "aux")


#: every way to judge a function of an open module, by name
OPEN_WAYS: dict[str, Callable[[Callable[..., Any], int], None]] = {
    "source": check_source,
    "auto": check_automatic,
    "tape": check_tape,
    "captured": check_captured,
    "in place": check_in_place,
}


def usable(f: Callable[..., Any], seed: int, call: int) -> bool:
    """Whether plain Python gives a finite number at this call."""
    module = twin(f, call)
    result = module.f(*arguments(module, seed, call))
    return isinstance(result, float) and bool(np.isfinite(result))


def value_at(f: Callable[..., Any], seed: int, call: int, direction: list[Any], h: float) -> float:
    """Plain Python's value with the arguments moved along a direction."""
    module = twin(f, call)
    args = arguments(module, seed, call)
    for j, moved in zip(WRT, added([args[j] for j in WRT], direction, h), strict=True):
        args[j] = moved
    return float(module.f(*args))


def compare(slope: float, value: Callable[[float], float], what: str) -> None:
    """With differences, unless those of two steps disagree: a kink is near, or rounding spoils them."""
    coarse, fine = ((8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h) for h in STEPS)
    scale = 1.0 + abs(fine)
    bent = abs(value(1e-6) - 2 * value(0.0) + value(-1e-6)) > 1e-9 * scale
    if abs(coarse - fine) <= 1e-7 * scale and not bent:
        near(slope, fine, 1e-5, f"{what}: the derivative against differences")


def near(found: float, expected: float, tolerance: float, what: str) -> None:
    assert abs(found - expected) <= tolerance * (1.0 + abs(expected)), f"{what}: {found}, expected {expected}"


# ---- structures -----------------------------------------------------------------------------------------------------


def parts(x: Any) -> Iterator[tuple[Any, Any]]:
    """(key, part) of a container or an object."""
    if isinstance(x, dict):
        yield from x.items()
    elif isinstance(x, list | tuple):
        yield from enumerate(x)
    elif not isinstance(x, np.ndarray | np.generic | float | int | str | None):
        yield from ((name, getattr(x, name)) for name in sorted(attribute_names(x)))


def same(found: Any, expected: Any, what: str, tolerance: float = 1e-9) -> None:
    """The same values in objects of the same classes, and one object where there is one."""
    twins: dict[int, int] = {}

    def visit(a: Any, b: Any, path: str) -> None:
        names = [_kind(value) for value in (a, b)]
        assert names[0] == names[1], f"{what}{path}: {names[0]} {a!r}, expected {names[1]} {b!r}"
        if isinstance(b, np.ndarray | np.number | float | int):
            assert np.shape(a) == np.shape(b), f"{what}{path}: shape {np.shape(a)}, expected {np.shape(b)}"
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None), (
                f"{what}{path}: {a.dtype}, expected {b.dtype}"
            )
            apart = np.abs(np.subtract(a, b, dtype=float)) > tolerance * (1.0 + np.abs(b))
            assert not np.any(apart), f"{what}{path}: {a}, expected {b}"
        elif not any(True for _ in parts(b)):
            assert a == b or isinstance(b, list | dict) or attribute_names(b) is not None, f"{what}{path}: {a}, {b}"
        if isinstance(b, float | int | str | np.generic | tuple | None):
            pass
        elif id(b) in twins:
            assert twins[id(b)] == id(a), f"{what}{path}: not the same object as elsewhere"
            return
        else:
            assert id(a) not in twins.values(), f"{what}{path}: the same object as elsewhere"
            twins[id(b)] = id(a)
        left, right = list(parts(a)), list(parts(b))
        assert [k for k, _ in left] == [k for k, _ in right], (
            f"{what}{path}: {[k for k, _ in left]}, {[k for k, _ in right]}"
        )
        for (key, p), (_, q) in zip(left, right, strict=True):
            visit(p, q, f"{path}.{key}")

    visit(found, expected, "")


def _kind(x: Any) -> str:
    """The class, which is another object in a twin. Branches may leave numbers of several classes: which is not looked at."""
    if isinstance(x, np.ndarray):
        return f"{x.dtype} array"
    return "number" if isinstance(x, int | float | np.number | np.bool_) else type(x).__qualname__


def alike(gradient: Any, x: Any, path: str = "gradient") -> None:
    """Whether a gradient has the structure, classes, shapes and dtypes of what it is the gradient of."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        assert isinstance(gradient, np.ndarray), f"{path}: {type(gradient)}"
        assert (gradient.shape, gradient.dtype) == (x.shape, x.dtype), f"{path}: {gradient.shape} {gradient.dtype}"
    elif isinstance(x, int | np.integer) or (isinstance(x, np.ndarray) and x.dtype.kind in "iub"):
        assert gradient is None, f"{path}: {gradient}"
    else:
        assert type(gradient) is type(x), f"{path}: {type(gradient)}, expected {type(x)}"
        left, right = list(parts(gradient)), list(parts(x))
        assert [k for k, _ in left] == [k for k, _ in right], f"{path}: {[k for k, _ in left]}"
        for (key, g), (_, part) in zip(left, right, strict=True):
            alike(g, part, f"{path}.{key}")


def rebuilt(leaf: Callable[..., Any], x: Any, *others: Any) -> Any:
    """A structure like ``x`` with ``leaf`` of every float and array of floats, and of what stands there in the others."""
    if isinstance(x, float) or (isinstance(x, np.ndarray) and x.dtype.kind == "f"):
        return leaf(x, *others)
    if isinstance(x, dict):
        return {k: rebuilt(leaf, v, *(o[k] for o in others)) for k, v in x.items()}
    if isinstance(x, list | tuple):
        made = [rebuilt(leaf, v, *(o[k] for o in others)) for k, v in enumerate(x)]
        return made if isinstance(x, list) else type(x)(*made) if hasattr(x, "_fields") else tuple(made)
    if not any(True for _ in parts(x)):
        return x
    new = dataclasses.replace(x) if dataclasses.is_dataclass(x) else copy.copy(x)
    for name, part in parts(x):
        object.__setattr__(new, name, rebuilt(leaf, part, *(getattr(o, name) for o in others)))
    return new


def drawn(x: Any) -> Any:
    """A random direction; integers stay as they are, which says nothing."""
    rng = np.random.default_rng(0)

    def leaf(value: Any) -> Any:
        return rng.uniform(-1.0, 1.0, value.shape) if isinstance(value, np.ndarray) else float(rng.uniform(-1.0, 1.0))

    return rebuilt(leaf, x)


def added(x: Any, direction: Any, h: float) -> Any:
    return rebuilt(lambda value, d: value + h * d, x, direction)


def product(gradient: Any, direction: Any) -> float:
    """The inner product of a gradient with a direction."""
    total = 0.0

    def leaf(d: Any, g: Any) -> Any:
        nonlocal total
        total += float(np.sum(g * d))
        return d

    rebuilt(leaf, direction, gradient if isinstance(gradient, list) else list(gradient))
    return total
