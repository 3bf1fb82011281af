"""The contestants: how each library takes the derivative, or runs the primal, of one NumPy function.

Libraries are imported by the contestant that needs them, so a missing one is skipped, not an error.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

from benchmarks.contest import GRADSMITH, Contestant, Run

NUMPY_PRIMAL = "NumPy primal"
NUMBA_PRIMAL = "Numba primal"
OWN_PRIMAL = "own primal"
AUTOGRAD = "autograd"
JAX = "JAX"
TORCH = "PyTorch"

Args = Sequence[Any]
Argnums = int | tuple[int, ...]


def using(function: FunctionType, namespace: ModuleType) -> FunctionType:
    """The same source with `np` meaning another library, in the functions of its module that it calls too."""
    replaced: dict[str, Any] = dict(function.__globals__)
    for name in function.__code__.co_names:
        value = replaced.get(name)
        if name == "np":
            replaced[name] = namespace
        elif isinstance(value, FunctionType) and value.__module__ == function.__module__:
            replaced[name] = using(value, namespace)
    return FunctionType(function.__code__, replaced, function.__name__, function.__defaults__, function.__closure__)


# --- primals -----------------------------------------------------------------------------------


def numpy_primal(function: Callable[..., Any], args: Args) -> Contestant:
    return Contestant(NUMPY_PRIMAL, "primal", lambda: lambda: function(*args))


def numba_primal(function: Callable[..., Any], args: Args) -> Contestant:
    def make() -> Run:
        import numba

        compiled = compile_with_callees(function, numba.njit)
        return lambda: compiled(*args)

    return Contestant(NUMBA_PRIMAL, "primal", make)


def compile_with_callees(function: Any, njit: Callable[..., Any]) -> Any:
    """Numba compiles a function only if those it calls are compiled."""
    replaced: dict[str, Any] = dict(function.__globals__)
    for name in function.__code__.co_names:
        value = replaced.get(name)
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            replaced[name] = compile_with_callees(value, njit)
    return njit(FunctionType(function.__code__, replaced, function.__name__, function.__defaults__))


def own_primal(function: Callable[..., Any], args: Args) -> Contestant:
    def make() -> Run:
        import gradsmith as gs

        compiled = gs.jit(function)
        return lambda: compiled(*args)

    return Contestant(OWN_PRIMAL, "primal", make)


# --- gradients ---------------------------------------------------------------------------------


def gradsmith_gradient(
    function: Callable[..., Any], args: Args, argnums: Argnums = 0, *, value: bool = False
) -> Contestant:
    def make() -> Run:
        import gradsmith as gs

        gradient = (gs.value_and_grad if value else gs.grad)(function, argnums)
        return lambda: gradient(*args)

    return Contestant(GRADSMITH, "derivative", make)


def autograd_gradient(
    function: Callable[..., Any], args: Args, argnums: Argnums = 0, *, value: bool = False, same_source: bool = True
) -> Contestant:
    def make() -> Run:
        autograd = importlib.import_module("autograd")
        f = using(function, importlib.import_module("autograd.numpy")) if same_source else function  # type: ignore[arg-type]
        gradient = (autograd.value_and_grad if value else autograd.grad)(f, argnums)
        return lambda: gradient(*args)

    return Contestant(AUTOGRAD, "derivative", make)


def jax_gradient(
    function: Callable[..., Any],
    args: Args,
    argnums: Argnums = 0,
    *,
    value: bool = False,
    static_argnums: tuple[int, ...] = (),
    same_source: bool = True,
) -> Contestant:
    """Jitted, the arguments on the device already, the result awaited."""

    def make() -> Run:
        jax = importlib.import_module("jax")
        f = using(function, jax.numpy) if same_source else function  # type: ignore[arg-type]
        gradient = jax.jit((jax.value_and_grad if value else jax.grad)(f, argnums), static_argnums=static_argnums)
        placed = [arg if k in static_argnums else jax.numpy.asarray(arg) for k, arg in enumerate(args)]
        return lambda: jax.block_until_ready(gradient(*placed))

    return Contestant(JAX, "derivative", make)


def torch_gradient(
    function: Callable[..., Any], args: Args, argnums: Argnums = 0, *, value: bool = False, same_source: bool = True
) -> Contestant:
    def make() -> Run:
        torch = importlib.import_module("torch")
        f = using(function, torch) if same_source else function  # type: ignore[arg-type]
        wanted = (argnums,) if isinstance(argnums, int) else argnums
        placed = [as_tensor(torch, arg, requires_grad=k in wanted) for k, arg in enumerate(args)]
        inputs = [placed[k] for k in wanted]

        def run() -> Any:
            y = f(*placed)
            gradients = torch.autograd.grad(y, inputs)
            result = gradients[0] if isinstance(argnums, int) else gradients
            return (y.detach(), result) if value else result

        return run

    return Contestant(TORCH, "derivative", make)


def as_tensor(torch: Any, arg: Any, requires_grad: bool) -> Any:
    """A float64 tensor; counts stay Python integers."""
    return arg if isinstance(arg, int) else torch.tensor(arg, dtype=torch.float64, requires_grad=requires_grad)


def gradients(
    function: Callable[..., Any], args: Args, argnums: Argnums = 0, *, value: bool = False
) -> list[Contestant]:
    """gradsmith and the three rivals on one source that all of them take as it is."""
    return [
        gradsmith_gradient(function, args, argnums, value=value),
        autograd_gradient(function, args, argnums, value=value),
        jax_gradient(function, args, argnums, value=value),
        torch_gradient(function, args, argnums, value=value),
    ]


def primals(function: Callable[..., Any], args: Args) -> list[Contestant]:
    return [own_primal(function, args), numpy_primal(function, args), numba_primal(function, args)]
