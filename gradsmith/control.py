"""Control over derivatives: rules of your own, what has no derivative, what is stored, adjoints on their way back.

Everything here works inside functions that gradsmith differentiates, and is ordinary Python outside them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import tree
from gradsmith.frontend import builtins as staged
from gradsmith.frontend import control, hosted, recording, rules
from gradsmith.frontend.calls import call as staged_call
from gradsmith.frontend.control import zero
from gradsmith.frontend.frames import Wrapper
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import contains_symbolic

__all__ = [
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "define_rule",
    "forward_mode",
    "hook",
    "host",
    "ignore_derivatives",
    "reverse_mode",
    "stop_gradient",
    "zero",
]


class _Wrapped(Wrapper):
    """A function that calls like the one it wraps, and is staged in a way of its own."""

    def __init__(self, f: Callable[..., Any]):
        if not callable(f):
            raise TypeError(f"{type(self).__name__.strip('_')} takes a function, not {type(f).__name__}")
        self.f = f
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _recorded(self, args, kwargs) if _on_tape(args, kwargs) else self.f(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<gradsmith {type(self).__name__.strip('_')} {self.name}>"

    @property
    def name(self) -> str:
        return getattr(self.f, "__name__", type(self.f).__name__)

    def _positional(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """All arguments as positional ones, with those that have defaults."""
        try:
            signature = inspect.signature(self.f)
        except ValueError:  # of some builtins, which take positional arguments
            return list(args)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.name} has a derivative rule and keyword-only arguments; rules take positional arguments"
            )
        return list(bound.args)


class _Ruled(_Wrapped):
    """A function with a derivative of its own. Its result shares no array with its arguments, as in compiled code."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = super().__call__(*args, **kwargs)
        given = [x for x in tree.flatten((args, kwargs))[0] if type(x) is np.ndarray]
        return _copied(result, lambda y: any(np.may_share_memory(x, y) for x in given))


def _copied(x: Any, chosen: Callable[[np.ndarray], bool] = lambda y: True) -> Any:
    """``x`` with (chosen) arrays of its own, as in compiled code: a write to one is not seen in the other."""
    leaves, structure = tree.flatten(x)
    return tree.unflatten(structure, [y.copy() if type(y) is np.ndarray and chosen(y) else y for y in leaves])


def _on_tape(args: Any, kwargs: Any = None) -> bool:
    """Whether Python runs a function for the tape, and the call has recorded values."""
    recorder = recording.active()
    return recorder is not None and recorder.live and contains_symbolic([args, kwargs or {}])


def _recorded(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    recorder = recording.active()
    assert recorder is not None
    return recorder.transform(lambda stage, args, kwargs: staged_call(stage, f, args, kwargs), args, kwargs)


# ---- rules ----------------------------------------------------------------------------------------------------------


class custom_vjp(_Ruled):
    """A function with a reverse rule of its own, with the calling conventions of JAX.

    ``f.defvjp(fwd, bwd)``: ``fwd`` takes the arguments of ``f`` and returns ``(result, residuals)``; ``bwd`` takes the
    arguments numbered in ``nondiff_argnums``, the residuals and the cotangent of the result, and returns a tuple with
    the cotangent of every other argument (``None`` or ``gradsmith.zero`` for an argument without a derivative).

    The rule is plain NumPy code, which is compiled with the rest and can be differentiated again. Forward mode uses its
    transpose. The rule covers the arguments: a derivative that would reach ``f`` through a variable from outside is an
    error.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> @gs.custom_vjp
    ... def log1pexp(x):
    ...     return np.log(1 + np.exp(x))
    >>> def forward(x):
    ...     return log1pexp(x), x
    >>> def backward(x, g):
    ...     return (g * (1 - 1 / (1 + np.exp(x))),)
    >>> log1pexp.defvjp(forward, backward)
    >>> gs.grad(log1pexp)(100.0)
    1.0
    """

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()):
        super().__init__(f)
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.rule: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rule."""
        self.rule = fwd, bwd

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if self.rule is None:
            raise TypeError(f"{self.name} is a custom_vjp function without a rule: call {self.name}.defvjp(fwd, bwd)")
        stage.assume(lambda: self.rule, self.rule, f"rule of {self.name}")
        fwd, bwd = self.rule
        args = self._positional(args, kwargs)
        fixed = [args[n] for n in self.nondiff_argnums]

        def vjp(args: list[Any]) -> tuple[Any, Callable[[Any], Any]]:
            out = control.run_rule(stage, fwd, args)
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(f"the forward rule of {self.name} must return a pair: (result, residuals)")
            return out[0], lambda g: self._pulled(control.run_rule(stage, bwd, [*fixed, out[1], g]))

        return control.with_rule(
            stage,
            self,
            self.name,
            lambda a: staged_call(stage, self.f, a, {}),
            args,
            vjp=vjp,
            nondiff=self.nondiff_argnums,
        )

    def _pulled(self, cotangents: Any) -> Any:
        if cotangents is None:
            raise TypeError(f"the backward rule of {self.name} returned None (is a return missing?), not a tuple")
        return cotangents


class custom_jvp(_Ruled):
    """A function with a forward rule of its own, with the calling conventions of JAX.

    ``f.defjvp(jvp)``: ``jvp`` takes the arguments numbered in ``nondiff_argnums``, a tuple of all other arguments
    (primals) and a tuple of their tangents; it returns ``(result, tangent of the result)``. It must be linear in the
    tangents: reverse mode uses its transpose.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> @gs.custom_jvp
    ... def f(x, y):
    ...     return np.sin(x) * y
    >>> def rule(primals, tangents):
    ...     (x, y), (dx, dy) = primals, tangents
    ...     return f(x, y), np.cos(x) * y * dx + np.sin(x) * dy
    >>> rule = f.defjvp(rule)
    >>> gs.grad(f, (0, 1))(0.0, 3.0)
    (3.0, 0.0)
    """

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()):
        super().__init__(f)
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.rule: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; also a decorator of it."""
        self.rule = jvp
        return jvp

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        rule = self.rule
        if rule is None:
            raise TypeError(f"{self.name} is a custom_jvp function without a rule: call {self.name}.defjvp(jvp)")
        stage.assume(lambda: self.rule, rule, f"rule of {self.name}")
        args = self._positional(args, kwargs)
        nondiff = self.nondiff_argnums

        def jvp(args: list[Any], tangents: list[Any]) -> tuple[Any, Any]:
            moving = [n for n in range(len(args)) if n not in nondiff]
            pair = [tuple(x[n] for n in moving) for x in (args, tangents)]
            return rules.pair(control.run_rule(stage, rule, [*(args[n] for n in nondiff), *pair]), self.name)

        return control.with_rule(
            stage, self, self.name, lambda a: staged_call(stage, self.f, a, {}), args, jvp=jvp, nondiff=nondiff
        )


def define_rule(
    function: Callable[..., Any],
    *,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    value: Callable[..., Any] | None = None,
    like: Any = None,
    nondiff_argnums: Sequence[int] = (),
) -> None:
    """Say how somebody else's function is differentiated: of a library, or written in C.

    Args:
        function: any callable. Where gradsmith cannot read its source, Python runs it during each call.
        vjp: takes the arguments, returns ``(result, pullback)``; the pullback maps the cotangent of the result to a
            tuple with a cotangent for each argument (for one argument the cotangent alone will do).
        jvp: takes a tuple of arguments and a tuple of their tangents, returns ``(result, tangent)``. One of the two
            suffices: the other mode uses its transpose. Without both the function has no derivative.
        value: plain NumPy code to compile in place of ``function``.
        like: a result, for a function that Python runs: the kind of object, dtype and number of dimensions to expect.
            By default it is called once on the arguments of the first call to find out.
        nondiff_argnums: arguments that have no derivative; the pullback returns nothing for them.

    Rules are plain NumPy code, and may call ``function``. Keyword arguments are passed on to it, ``vjp`` and ``jvp``.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> from math import erf
    >>> twice = (2.0).__mul__
    >>> gs.define_rule(twice, jvp=lambda primals, tangents: (twice(*primals), 2.0 * tangents[0]))
    >>> gs.grad(lambda x: twice(x) ** 2)(3.0)
    24.0
    """
    rules.define(function, rules.Rule(function, vjp, jvp, value, like, tuple(nondiff_argnums)))


# ---- no derivative --------------------------------------------------------------------------------------------------


def stop_gradient(x: Any) -> Any:
    """A copy of ``x`` that is a constant for every derivative: of a number, an array, or any structure of them.

    >>> import gradsmith as gs
    >>> gs.grad(lambda x: x * gs.stop_gradient(x))(3.0)
    3.0
    """
    return _recorded(stop_gradient, (x,), {}) if _on_tape(x) else _copied(x)


class ignore_derivatives(contextlib.ContextDecorator):
    """``with ignore_derivatives():`` – what is computed inside is a constant for every derivative outside.

    ``@ignore_derivatives()`` does that to all of a function.

    An array that exists already and is written inside becomes constant as a whole.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> def scaled(x):
    ...     with gs.ignore_derivatives():
    ...         scale = np.max(np.abs(x))
    ...     return np.sum(x / scale)
    >>> gs.grad(scaled)(np.array([1.0, 4.0]))
    array([0.25, 0.25])
    """

    def __enter__(self) -> ignore_derivatives:
        recorder = recording.active()
        if recorder is not None and recorder.live:
            _enter(recorder.stage, self)
        return self

    def __exit__(self, *exc: object) -> None:
        recorder = recording.active()
        if recorder is not None and recorder.live:
            _exit(recorder.stage, self)


# ---- the way back ---------------------------------------------------------------------------------------------------


def hook(x: Any, fn: Callable[[Any], Any]) -> Any:
    """A copy of ``x``; ``fn`` sees its adjoint on the way back, and what it returns goes on instead (unless that is None).

    Args:
        x: a number, an array, or any structure of them.
        fn: takes the adjoint of ``x``, in the structure of ``x``. It is compiled with the rest: it may compute with
            NumPy, print and log. It runs when reverse mode reaches ``x``; forward mode passes through.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> gs.grad(lambda x: gs.hook(x, lambda g: np.clip(g, -1.0, 1.0)) ** 2)(3.0)
    1.0
    """
    return _recorded(hook, (x, fn), {}) if _on_tape(x) else _copied(x)


class checkpoint(_Wrapped):
    """``f``, of which reverse mode stores only the arguments: the backward sweep runs it again.

    ``explain()`` of a gradient shows what is computed again instead of stored.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> layer = gs.checkpoint(lambda x: np.tanh(np.sin(x) ** 2))
    >>> gs.grad(lambda x: layer(layer(x)))(0.5)  # doctest: +ELLIPSIS
    0.3...
    """

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return control.checkpoint(stage, self.f, args, kwargs, self.name)


class forward_mode(_Ruled):
    """``f``, differentiated by forward mode also inside a reverse pass.

    The forward sweep computes its Jacobian, one column for each number among the arguments, and the backward sweep
    multiplies with it: nothing inside ``f`` is stored. For functions with few inputs and long loops.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> def decay(x):
    ...     for k in range(1000):
    ...         x = x - 0.001 * x**2
    ...     return x
    >>> round(gs.grad(lambda x: gs.forward_mode(decay)(x) ** 2)(1.0), 4)
    0.2496
    """

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return control.forward_mode(stage, self.f, self.name, self._positional(args, kwargs))


class reverse_mode(_Ruled):
    """``f``, differentiated by reverse mode also inside a forward pass: for functions with few outputs.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> norm = gs.reverse_mode(lambda x: np.sum(x**2))
    >>> gs.jacobian(lambda x: x * norm(x), mode="forward")(np.array([1.0, 2.0]))
    array([[ 7.,  4.],
           [ 4., 13.]])
    """

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return control.reverse_mode(stage, self.f, self.name, self._positional(args, kwargs))


class host(_Wrapped):
    """A function that Python runs during each call, once and in order with prints and random draws.

    Args:
        f: any Python function of numbers, arrays and other objects. Its result has no derivative.
        like: a result: the kind of object, dtype and number of dimensions to expect. None: the result is not used.

    >>> import gradsmith as gs
    >>> seen = []
    >>> note = gs.host(seen.append)
    >>> def square(x):
    ...     note(x)
    ...     return x * x
    >>> gs.grad(square)(3.0), seen
    (6.0, [3.0])
    """

    def __init__(self, f: Callable[..., Any], like: Any = None):
        super().__init__(f)
        recorder = recording.active()
        self.like = recorder.unwrap_structure(like) if recorder is not None and recorder.live else like

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = recording.active()  # a tape runs it at every replay, whatever its arguments are
        return _recorded(self, args, kwargs) if recorder is not None and recorder.live else self.f(*args, **kwargs)

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return hosted.effect(stage, self.f, args, kwargs, self.like)


# ---- inside staged code ---------------------------------------------------------------------------------------------


def _hook(stage: Stage, x: Any, fn: Any) -> Any:
    if isinstance(seen := getattr(fn, "__self__", None), list):  # its append: what a hook sees is to stay there
        original = next((found for found, stand_in in stage.copies.values() if stand_in is seen), seen)
        fn = host(getattr(original, fn.__name__))

    def vjp(args: list[Any]) -> tuple[Any, Callable[[Any], Any]]:
        def pull(g: Any) -> tuple[Any, ...]:
            changed = control.run_rule(stage, fn, [g])
            return (g if changed is None else changed,)

        return args[0], pull

    return control.with_rule(
        stage, object(), "hook", lambda args: args[0], [x], vjp=vjp, jvp=lambda args, tangents: (args[0], tangents[0])
    )


def _enter(stage: Stage, manager: ignore_derivatives) -> ignore_derivatives:
    stage.ignoring.append(control.Ignoring(stage, manager))
    return manager


def _exit(stage: Stage, manager: ignore_derivatives, *exc: Any) -> None:
    while (block := stage.ignoring.pop()).manager is not manager:
        pass  # staging of a block that was given up
    block.leave()


def _made(cls: type) -> Callable[..., Any]:
    return lambda stage, *args, **kwargs: cls(*args, **kwargs)


for _cls in (custom_vjp, custom_jvp, checkpoint, forward_mode, reverse_mode, host):
    staged.register(_cls, _made(_cls))
for _method in (custom_vjp.defvjp, custom_jvp.defjvp):
    staged.register(_method, lambda stage, *args, _method=_method, **kwargs: _method(*args, **kwargs))
staged.register(stop_gradient, lambda stage, x: control.detached(x))
staged.register(hook, _hook)
staged.register(ignore_derivatives.__enter__, _enter)
staged.register(ignore_derivatives.__exit__, _exit)
