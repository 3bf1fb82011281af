"""Calls in staged code, in order: Python's builtins on symbolic values, the catalogue of library functions, wrappers unwrapped,
the callee's own source, native Python where nothing symbolic is in reach; else an error that names the function."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import random
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradsmith.errors import MissingRule, SourceUnavailable, UnsupportedCode, add_location, call_around
from gradsmith.frontend import builtins as staged_builtins
from gradsmith.frontend import (
    catalogue,
    effects,
    iterables,
    keys,
    managers,
    objects,
    outside,
    overrides,
    randomness,
    records,
    recursion,
    rules,
    yielding,
)
from gradsmith.frontend.aliases import FALL, JUMP, RETURN, RETURNED
from gradsmith.frontend.frames import FUNCTIONS, Code, Frame, StagedFunction, compiled
from gradsmith.frontend.heap import Slot
from gradsmith.frontend.joins import JoinFailure
from gradsmith.frontend.loops import MAX_REGIONS
from gradsmith.frontend.outside import is_library, lift
from gradsmith.frontend.stage import Stage, current, static
from gradsmith.frontend.values import Array, Maybe, Scalar, Text, contains_symbolic, share
from gradsmith.tree import own_dict

MAX_DEPTH = 900
MAX_CALLS = 200_000


def call(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``f(*args, **kwargs)`` in staged code."""
    if isinstance(f, StagedFunction):
        return call_staged(f, args, kwargs)
    if isinstance(f, objects.Method):
        return _implementation(stage, f.implementation, [f.owner, *args], kwargs)
    if has_own(f, "__gradsmith_call__") and not isinstance(f, type):
        if isinstance(f, types.MethodType):
            return call(stage, f.__func__, [f.__self__, *args], kwargs)
        return f.__gradsmith_call__(stage, args, kwargs)
    if (rule := rules.find(f)) is not None:
        return rules.call(stage, rule, args, kwargs)
    return call_without_rule(stage, f, args, kwargs)


def has_own(f: Any, name: str) -> bool:
    """Whether ``f`` (or the function of a method) has an attribute, without asking the ``__getattr__`` of its class."""
    f = f.__func__ if isinstance(f, types.MethodType) else f
    return hasattr(type(f), name) or name in own_dict(f)


def call_without_rule(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The call of a function that the user has given no rule (or whose rule does not matter here)."""
    builtin = staged_builtins.find(f)
    if builtin is not None:
        return builtin(stage, *args, **kwargs)
    if (override := overrides.find(f, args, kwargs)) is not None:
        return override(stage)
    if isinstance(f, types.MethodType | types.BuiltinMethodType) and (
        acting := effects.bound(f) or randomness.bound(f)
    ):
        return acting(stage, *args, **kwargs)
    if (
        isinstance(f, types.BuiltinMethodType)
        and isinstance(f.__self__, list | dict | set | collections.deque)
        and staged_builtins.journals(f.__self__, f.__name__)
    ):
        return staged_builtins.container_method(stage, f.__self__, f.__name__, args, kwargs)
    if isinstance(f, types.BuiltinMethodType) and isinstance(f.__self__, str) and f.__name__ == "format":
        return objects.format_method(f.__self__, args, kwargs)
    implementation = _library(f)
    if implementation is not None and _goes_through_catalogue(f, args, kwargs):
        return _implementation(stage, implementation, args, kwargs)
    return _call_python(stage, f, args, kwargs)


def enter(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The call of a function under differentiation: staged from its source, or run by Python on the tape."""
    staged = isinstance(f, StagedFunction | objects.Method) or has_own(f, "__gradsmith_call__")
    if (
        stage.engine == "tape"
        and not staged
        and rules.find(f) is None
        and staged_builtins.find(f) is None
        and _library(f) is None
    ):
        from gradsmith.frontend import recording

        return recording.run(stage, f, args, kwargs)
    return keys.settle_result(stage, call(stage, f, args, kwargs))


def _library(f: Any) -> Callable[..., Any] | None:
    """What the catalogue has for a library function, method or ufunc method."""
    found = catalogue.find(f) or catalogue.find_definition(f)
    if found is None and isinstance(f, types.BuiltinMethodType) and isinstance(f.__self__, np.ufunc):
        from gradsmith.frontend.catalogue.elementwise import ufunc_method

        return ufunc_method(f.__self__, f.__name__)
    return found


def _goes_through_catalogue(f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """NumPy makes arrays, which are born cells; a function of plain numbers without symbolic ones is run by Python."""
    if any(map(contains_symbolic, args)) or any(map(contains_symbolic, kwargs.values())):
        return True
    numbers = all(
        isinstance(a, int | float | complex | str | np.generic | type | None) for a in (*args, *kwargs.values())
    )
    return not (numbers and (isinstance(f, np.ufunc | type) or getattr(f, "__module__", "") in ("math", "cmath")))


def _implementation(
    stage: Stage, implementation: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    if catalogue.is_definition(implementation):
        return call_source(stage, implementation, args, kwargs)
    loc = stage.builder.loc
    try:
        return implementation(*args, **kwargs)
    finally:
        stage.builder.loc = loc


def _call_python(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if isinstance(f, functools.partial):
        function, own, named = outside.partial_parts(stage, f)
        return call(stage, function, [*own, *args], {**named, **kwargs})
    if isinstance(f, types.MethodType):
        outside.note_part(stage, f, "__self__")
        return call(stage, f.__func__, [f.__self__, *args], kwargs)
    if isinstance(f, operator.itemgetter | operator.attrgetter):
        return _get(stage, f, *args)
    if isinstance(f, functools._lru_cache_wrapper):
        return _memoised(stage, f, args, kwargs)
    if has_own(f, "py_func"):
        return call(stage, f.py_func, args, kwargs)
    if isinstance(f, types.FunctionType):
        return _call_function(stage, f, args, kwargs)
    if isinstance(f, type):
        return _instantiate(stage, f, args, kwargs)
    if isinstance(f, types.MethodWrapperType) and f.__name__ == "__getattribute__":  # of super()
        return objects.found_attribute(stage, f.__self__, *args)
    if isinstance(f, types.MethodWrapperType) and f.__name__ == "__call__" and isinstance(f.__self__, type):
        return _construct(stage, f.__self__, args, kwargs)
    if isinstance(getattr(type(f), "__call__", None), FUNCTIONS):  # noqa: B004
        outside.assume_of_class(stage, type(f), "__call__")
        return call(stage, type(f).__call__, [f, *args], kwargs)
    return _native(stage, f, args, kwargs)


def _memoised(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The call of a function under ``lru_cache``: staged once in a block for the same arguments.

    Integers known only at run time are specialised on where that is possible: they are keys.
    """
    args = [_known_integer(stage, a) for a in args]
    key = (f, tuple(args), tuple(sorted(kwargs.items())))
    if contains_symbolic([*args, *kwargs.values()]) or f.cache_parameters()["maxsize"] == 0:
        return call(stage, f.__wrapped__, args, kwargs)
    memo = stage.memo()
    if key not in memo:
        stage.heap.write(Slot("key", memo, key), call(stage, f.__wrapped__, args, kwargs))
    return memo[key]


def _known_integer(stage: Stage, x: Any) -> Any:
    whole = isinstance(x, Scalar) and x.dtype.kind in "iub"
    return stage.concrete(x) if whole and stage.peekable(x.value) else x


def _get(stage: Stage, getter: operator.itemgetter[Any] | operator.attrgetter[Any], x: Any) -> Any:
    """What an itemgetter or attrgetter finds in ``x``: one thing, or a tuple of several."""
    wanted = getter.__reduce__()[1]  # type: ignore[index]
    if isinstance(getter, operator.itemgetter):
        found = tuple(objects.getitem(stage, x, key) for key in wanted)
    else:
        found = tuple(
            functools.reduce(functools.partial(objects.getattr_, stage), path.split("."), x) for path in wanted
        )
    return found[0] if len(found) == 1 else found


def _call_function(stage: Stage, f: types.FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    module = f.__module__ or ""
    if stage.engine == "tape" and not _of_package(f):  # a callback of a library function
        from gradsmith.frontend import recording

        return recording.run(stage, f, args, kwargs)
    if f.__code__ is managers.HELPER and not is_library(getattr(f.__wrapped__, "__module__", "")):  # type: ignore[attr-defined]
        return call_source(stage, f, args, kwargs)
    if (method := records.generated(f, args)) is not None:
        return method(stage, *args, **kwargs)
    symbolic = contains_symbolic([f, *args, *kwargs.values()])
    if not symbolic and (is_library(module) or _installed(f)):
        return _native(stage, f, args, kwargs)
    if _closed(module):
        if module.split(".")[0] in ("copy", "warnings", "dataclasses", "abc"):
            return _native(stage, f, args, kwargs)
        raise missing_rule(f)
    return call_source(stage, f, args, kwargs)


@functools.cache
def _package_folder() -> str:
    import gradsmith

    return gradsmith.__path__[0]


def _of_package(f: types.FunctionType) -> bool:
    """Whether the function is gradsmith's own: a definition of the catalogue, or what that calls."""
    return f.__code__.co_filename.startswith(_package_folder())


@functools.cache
def _site_packages() -> tuple[str, ...]:
    import sysconfig

    return tuple({sysconfig.get_path(k) for k in ("purelib", "platlib", "stdlib")})


def _installed(f: types.FunctionType) -> bool:
    """Whether the function is of an installed package: Python runs it when nothing symbolic is in reach."""
    return f.__code__.co_filename.startswith(_site_packages())


#: modules whose Python source is not entered: it leads into compiled code, and loses dependence on the way
_CLOSED = (
    "numpy",
    "scipy.linalg",
    "scipy.fft",
    "scipy.special",
    "scipy.spatial.distance",
    "warnings",
    "logging",
    "copy",
    "dataclasses",
    "abc",
)


def _closed(module: str) -> bool:
    return any(module == m or module.startswith(m + ".") for m in _CLOSED)


def missing_rule(f: Any) -> MissingRule:
    """The error for a function that can be neither looked up nor entered."""
    module = getattr(f, "__module__", None) or type(f).__module__
    name = getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or repr(f)
    return MissingRule(
        f"{module}.{name} was called with values that depend on the inputs, and gradsmith has no rule for it; compute it "
        "outside the differentiated function, use NumPy functions that have a rule, or give it one by define_rule"
    )


def _instantiate(stage: Stage, cls: type, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    make = type(cls).__call__
    if isinstance(make, FUNCTIONS) and not is_library(make.__module__):  # of the user's metaclass
        return call(stage, make, [cls, *args], kwargs)
    if cls.__name__ == "prange" and cls.__module__.startswith("numba."):
        return call(stage, range, args, kwargs)
    if make is type.__call__:
        return _construct(stage, cls, args, kwargs)
    return _make_natively(stage, cls, args, kwargs)


def _construct(stage: Stage, cls: type, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``type.__call__(cls, *args, **kwargs)``."""
    own = cls in managers.REPLACED
    cls = managers.REPLACED.get(cls, cls)
    init = getattr(cls, "__init__", None)
    if isinstance(init, FUNCTIONS) and (own or not is_library(cls.__module__)):
        new = cls.__new__
        instance: Any
        if new is object.__new__:
            instance = object.__new__(cls)
        elif issubclass(cls, BaseException) and not isinstance(new, FUNCTIONS):
            instance = new(cls, *args, **kwargs)
        else:
            instance = call(stage, new, [cls, *args], kwargs)
        if isinstance(instance, cls):
            outside.assume_of_class(stage, cls, "__init__")
            stage.heap.born(instance)
            call(stage, init, [instance, *args], kwargs)
        return instance
    if not is_library(cls.__module__) and cls.__new__ is object.__new__ and init is object.__init__:
        if args or kwargs:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return stage.heap.born(object.__new__(cls))
    return _make_natively(stage, cls, args, kwargs)


def _make_natively(stage: Stage, cls: type, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if issubclass(cls, BaseException) or not contains_symbolic([*args, *kwargs.values()]) or _holds_only(cls):
        return _native(stage, cls, args, kwargs)
    raise missing_rule(cls)


def _holds_only(cls: type) -> bool:
    """Whether making an instance only stores the arguments."""
    return (
        hasattr(cls, "_fields")
        or cls.__module__ in ("itertools", "collections", "functools", "types")
        or cls in (property, staticmethod, classmethod)
        or issubclass(
            cls, types.MethodType | functools.partial | itertools.chain | collections.deque | np.vectorize | weakref.ref
        )
    )


_PASS_THROUGH = frozenset(
    {
        "abc",
        "optree",
        "itertools",
        "functools",
        "collections",
        "_collections",
        "copy",
        "dataclasses",
        "warnings",
        "logging",
        "contextlib",
    }
)


#: modules and classes whose functions give something else at each call
_CHANGING_MODULES = frozenset({"random", "_random", "time", "secrets", "uuid"})
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


def _refuse_changing(stage: Stage, f: Any, args: Sequence[Any]) -> None:
    """Raise for random numbers and clocks, which would be frozen at what they gave while staging."""
    generator = next((g for g in (getattr(f, "__self__", None), *args[:1]) if isinstance(g, _GENERATORS)), None)
    if generator is not None:
        # one that the function makes with a seed gives the same at each call, but not in each iteration of a staged loop
        changing = not stage.heap.birth(generator) or stage.depth > 0
    elif f is np.random.default_rng or (isinstance(f, type) and issubclass(f, _GENERATORS)):
        changing = not args or args[0] is None
    else:
        changing = (getattr(f, "__module__", None) or "") in _CHANGING_MODULES
    if changing:
        raise UnsupportedCode(
            f"{getattr(f, '__qualname__', f)} gives something else at each call, which a compiled function would not see; "
            "call it outside and pass what it gives as an argument"
        )


_CONTAINERS = (list, dict, set, collections.deque)
_MUTATORS = frozenset(
    "append appendleft extend extendleft insert remove pop popleft popitem clear rotate reverse sort update subtract setdefault "
    "move_to_end add discard".split()
)


def _native(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Let Python run the call: nothing symbolic is in reach, or the function only passes objects on."""
    _refuse_changing(stage, f, args)
    if getattr(f, "__name__", "") in _MUTATORS:
        owner = getattr(f, "__self__", None)
        if isinstance(f, types.FunctionType) and args and any(f in vars(c).values() for c in type(args[0]).__mro__):
            owner = args[0]  # a method written in Python
        if isinstance(owner, _CONTAINERS):
            staged_builtins.check_change(stage, owner)
    module = getattr(f, "__module__", None) or getattr(type(getattr(f, "__self__", None)), "__module__", "") or ""
    if isinstance(f, type) and issubclass(f, BaseException):
        return f(*args, **kwargs)
    if isinstance(getattr(f, "__self__", None), property):
        return f(*args, **kwargs)
    if isinstance(f, types.MethodWrapperType) and (f.__name__ == "__get__" or isinstance(f.__self__, BaseException)):
        return f(*args, **kwargs)
    if contains_symbolic([*args, *kwargs.values()]):
        constant = [_constant(stage, a) for a in args], {k: _constant(stage, a) for k, a in kwargs.items()}
        if not contains_symbolic([*constant[0], *constant[1].values()]):
            args, kwargs = constant
        elif not (isinstance(f, type) and _holds_only(f)) and module.split(".")[0] not in _PASS_THROUGH:
            raise missing_rule(f)
    share([*args, *kwargs.values()])
    result = recursion.users(f, *args, **kwargs)
    if isinstance(result, (*_CONTAINERS, *_GENERATORS, functools._lru_cache_wrapper)):
        stage.heap.born(result)
    if isinstance(result, Iterator):
        return iterables.Once(lambda: iterables.Pulled(result))
    return stage.wrap(result)


def _constant(stage: Stage, x: Any) -> Any:
    """A symbolic value that depends on no input, as the object that Python would have."""
    if isinstance(x, Scalar | Array):
        if not stage.is_constant(x):
            return x
        found = stage.peek(x.value)
        return x.python_type(found) if isinstance(x, Scalar) else np.array(found)
    if isinstance(x, Text):
        return static(x)
    if type(x) in (list, tuple):
        return type(x)(_constant(stage, y) for y in x)
    return {k: _constant(stage, y) for k, y in x.items()} if type(x) is dict else x


# ---- functions with source ------------------------------------------------------------------------------------------


def call_source(
    stage: Stage, f: types.FunctionType | Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Stage the body of a Python function that exists outside."""
    assert isinstance(f, types.FunctionType)
    try:
        code = compiled(f.__code__, f.__module__ or "")
    except UnsupportedCode as error:
        call_around(error, stage.builder.place)
        raise
    except SourceUnavailable as unavailable:
        if not contains_symbolic([f, *args, *kwargs.values()]):
            return _native(stage, f, args, kwargs)
        if stage.engine != "auto" or not _recordable(stage, f, args, kwargs):
            raise
        from gradsmith.frontend import recording

        recording.warn(f, unavailable)
        return recording.run(stage, f, args, kwargs)
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    frame = Frame(stage, None, f.__globals__, cells, code.name)
    own = code.scope.quiet
    if own:
        defaults, kwdefaults = list(f.__defaults__ or ()), dict(f.__kwdefaults__ or {})
    else:
        stage.assume(lambda: f.__code__, f.__code__, f.__name__)
        defaults = [
            lift(stage, d, lambda k=k: f.__defaults__[k], name, (id(f), "default", k))  # type: ignore[index]
            for k, (name, d) in enumerate(_defaults(f))
        ]
        kwdefaults = {
            k: lift(stage, d, lambda k=k: f.__kwdefaults__[k], k, (id(f), "default", k))  # type: ignore[index]
            for k, d in (f.__kwdefaults__ or {}).items()
        }
    return _run(frame, code, defaults, kwdefaults, args, kwargs)


def _defaults(f: types.FunctionType) -> list[tuple[str, Any]]:
    """The parameters that have defaults, with these."""
    positional = f.__code__.co_varnames[: f.__code__.co_argcount]
    defaults = f.__defaults__ or ()
    return list(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))


def _recordable(stage: Stage, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether Python may run this one call in the middle of staged code: on numbers and arrays, outside run-time branches."""
    values = [*args, *kwargs.values()]
    return stage.depth == 0 and not any(
        contains_symbolic(x) and not isinstance(x, Scalar | Array) for x in [f, *values]
    )


def call_staged(f: StagedFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function that staged code defined."""
    stage = current()
    frame = Frame(stage, f.frame, f.frame.globals, f.frame.cells, f.code.name)
    return _run(frame, f.code, f.defaults, f.kwdefaults, args, kwargs)


def _run(
    frame: Frame,
    code: Code,
    defaults: Sequence[Any],
    kwdefaults: dict[str, Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    stage = frame.stage
    stage.calls += 1
    if len(stage.frames) >= MAX_DEPTH:
        raise RecursionError(f"maximum recursion depth exceeded while staging {code.name!r}")
    if stage.depth >= MAX_REGIONS:
        raise UnsupportedCode(
            f"a recursion of {code.name!r} that run-time values end has no end while staging; write it as a loop"
        )
    if stage.calls > MAX_CALLS:
        raise UnsupportedCode(
            f"more than {MAX_CALLS} calls were staged; write the recursion in {code.name!r} as a loop"
        )
    _bind(frame, code, defaults, kwdefaults, args, kwargs)
    if code.is_generator:
        return yielding.Generated(frame, code)
    frames, loc = len(stage.frames), stage.builder.loc
    frame.code, frame.functions = code, tuple(map(_code_of, args))
    _check_recursion(stage, frame)
    frame.vars[JUMP] = FALL
    frame.called_at = stage.called_at(code.scope.quiet)
    stage.frames.append(frame)
    try:
        result = code.body(frame)
    except Exception as error:
        add_location(error, stage.builder.place)
        raise
    del stage.frames[frames:]
    stage.builder.loc = loc
    return result if code.is_lambda else result_of(frame)


def _check_recursion(stage: Stage, frame: Frame) -> None:
    """Refuse to go on under a run-time condition when the call recurs: the condition must be specialised on."""
    around = (f for f in reversed(stage.frames) if f.code is frame.code and f.functions == frame.functions)
    same = list(itertools.islice(around, _RECURSIONS))
    if len(same) == _RECURSIONS and stage.depth > same[0].depth:
        raise JoinFailure(f"a recursion of {frame.function!r} under a run-time condition")


_RECURSIONS = 2  # calls of a function inside one another that are staged for both sides of a condition


def _code_of(x: Any) -> Any:
    """What tells functions among the arguments of a call apart: an integral of an integral is no recursion."""
    if isinstance(x, StagedFunction):
        return x.code
    return getattr(getattr(x, "__func__", x), "__code__", None) if callable(x) else None


def result_of(frame: Frame) -> Any:
    """What a call returned, whose body was staged."""
    jump = frame.vars.get(JUMP, FALL)
    value = frame.vars.get(RETURN)
    if isinstance(jump, Scalar):
        frame.stage.check(
            objects.compare(frame.stage, "==", jump, RETURNED),
            UnsupportedCode,
            f"{frame.function!r} returned nothing on this path and a value on another",
        )
    elif jump != RETURNED:
        return None
    while isinstance(value, Maybe):
        value = value.value
    return value


def _bind(
    frame: Frame,
    code: Code,
    defaults: Sequence[Any],
    kwdefaults: dict[str, Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> None:
    """Bind the arguments to the parameters as Python does."""
    a = code.node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)]
    vars, left = frame.vars, dict(kwargs)
    vars.update(zip(names, args, strict=False))
    if len(args) > len(names):
        if a.vararg is None:
            raise TypeError(f"{code.name}() takes {len(names)} positional arguments but {len(args)} were given")
    for k, name in enumerate(names):
        if name in left and k >= len(a.posonlyargs):
            if k < len(args):
                raise TypeError(f"{code.name}() got multiple values for argument {name!r}")
            vars[name] = left.pop(name)
        elif k >= len(args):
            from_end = len(names) - k
            if from_end > len(defaults):
                raise TypeError(f"{code.name}() missing 1 required positional argument: {name!r}")
            vars[name] = defaults[len(defaults) - from_end]
    for p in a.kwonlyargs:
        if p.arg in left:
            vars[p.arg] = left.pop(p.arg)
        elif p.arg in kwdefaults:
            vars[p.arg] = kwdefaults[p.arg]
        else:
            raise TypeError(f"{code.name}() missing 1 required keyword-only argument: {p.arg!r}")
    if a.vararg is not None:
        vars[a.vararg.arg] = tuple(args[len(names) :])
    if a.kwarg is not None:
        vars[a.kwarg.arg] = frame.stage.heap.born(left)
    elif left:
        raise TypeError(f"{code.name}() got an unexpected keyword argument {next(iter(left))!r}")
