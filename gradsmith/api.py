"""What users call. Every function takes a plain Python function and returns a callable that is compiled on its first call.

Arguments may be floats, ints, arrays, and any nesting of tuples, lists, dicts, named tuples and dataclasses of them.
"""

from __future__ import annotations

import functools
import inspect
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradsmith import tracebacks
from gradsmith.call import Cache, Specialisation
from gradsmith.explain import explain
from gradsmith.frontend import batch, captured, derive, jacobians, recording
from gradsmith.frontend.calls import call as staged_call
from gradsmith.frontend.calls import enter
from gradsmith.frontend.outside import note_root
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import contains_symbolic
from gradsmith.parallel import Splitter

ArgNums = int | str | Sequence[int | str]
_NOT_GIVEN: Any = object()


class Compiled:
    """A function made from another: its derivative, or itself compiled. Compiled on the first call with given types.

    ``out=`` takes an array, or a structure of arrays like the result, that the result is written to and that is returned.
    Numbers in the result stay numbers; where it has one, ``out`` holds None. (A parameter of the function named ``out`` is
    the function's.)

    ``source(*args)``, ``program(*args)`` and ``explain(*args)`` show what a call with these arguments runs.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        kind: str,
        emit: Callable[..., Any],
        backend: str,
        engine: str = "auto",
        wrt: Sequence[int | str] = (),
    ):
        if not callable(f):
            raise TypeError(f"{kind} takes a function, not {type(f).__name__}")
        name = getattr(f, "__name__", type(f).__name__)
        self.__name__ = f"{kind}_{'lambda' if name == '<lambda>' else name}"
        self.__doc__ = f"{kind} of {name}"
        self.__wrapped__ = f
        self._kind = kind
        self._wrt = wrt

        def emit_of_root(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
            note_root(stage, f)
            if engine != "tape":
                return emit(stage, args, kwargs)
            with stage.run_by("tape"):
                return emit(stage, args, kwargs)

        self._emit = emit_of_root
        self._own_out = not isinstance(f, np.ufunc) and _has_parameter(f, "out")
        code = getattr(f, "__code__", None)
        self._cache = Cache(self.__name__, emit_of_root, backend, code, engine, acts=kind == "jit")
        self._cache.parameters = _parameters(f)

    def __call__(self, *args: Any, out: Any = _NOT_GIVEN, **kwargs: Any) -> Any:
        try:
            if out is not _NOT_GIVEN:
                return self._call_with_out(args, kwargs, out)
            fast = self._cache.fast
            if fast is not None and not kwargs:
                result = fast(*args)
                if result is not NotImplemented:
                    return result
            return self._call(args, kwargs, None)
        except Exception as error:
            tracebacks.shorten(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        recorder = recording.active()
        if recorder is not None and recorder.live and contains_symbolic((self.__wrapped__, args, kwargs, out)):
            return recorder.transform(self.__gradsmith_call__, args, kwargs if out is None else {**kwargs, "out": out})
        return self._cache.call(args, kwargs, out)

    def _call_with_out(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        if self._own_out:
            return self._call(args, {**kwargs, "out": out}, None)
        return self._call(args, kwargs, out)

    def __gradsmith_call__(self, stage: Stage, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The call inside a function that is being staged."""
        out = None
        if "out" in kwargs and not self._own_out:
            kwargs = dict(kwargs)
            out = kwargs.pop("out")
        result = self._emit(stage, list(args), kwargs)
        return result if out is None else derive.write_result(stage, result, out)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<gradsmith {self.__name__}>"

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: object) -> Compiled:
        return self  # as a function's: an object that holds it can be copied

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self.__name__} cannot be pickled, it holds compiled code: pickle the function that it was made from, or call it in a "
            "function of a module, which other processes import"
        )

    def _specialisation(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Specialisation:
        return self._cache.specialise(args, kwargs)

    @tracebacks.shortened
    def source(self, *args: Any, **kwargs: Any) -> str:
        """Readable NumPy source of what a call with these arguments computes; it runs by itself.

        It takes the arguments of the function and returns what the derivative returns, in the user's types. Lengths and list
        indices are checked by NumPy and Python alone, and a division by zero is NumPy's.

        >>> import gradsmith as gs
        >>> print(gs.grad(lambda x: x * x).source(3.0))  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
        def grad_lambda(x):
            ""\"The gradient of a lambda (...) with respect to x.""\"
            x_bar = 2.0 * x
            return x_bar
        """
        from gradsmith.backends.python import source
        from gradsmith.backends.python.interface import Outside, described, interface

        cache = self._readable()
        s = cache.specialise(args, kwargs)
        labels = [p.label for p in s.program.inputs[len(s.dynamic) :]]
        outside = {c: Outside(label, c.read()) for c, label in zip(s.captures, labels, strict=True)}
        written = [w if isinstance(w, int) else outside[w] for w in s.written]
        about = described(self._kind, self.__wrapped__, self._wrt, cache.parameters)
        call, known = (args, kwargs), list(outside.values())
        return source(
            s.program, interface(s.program, call, s.dynamic, cache.parameters, known, s.result, written, about)
        )

    def _readable(self) -> Cache:
        """Programs made to be read rather than run."""

        def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
            stage.readable = True
            return self._emit(stage, args, kwargs)

        code = getattr(self.__wrapped__, "__code__", None)
        cache = Cache(self.__name__, emit, "python", code, self._cache.engine)
        x = self._cache.parameters
        cache.parameters = (*x[:1], f"{x[0]}_dot") if self._kind == "hvp" and x else x
        return cache

    @tracebacks.shortened
    def program(self, *args: Any, **kwargs: Any) -> str:
        """The typed Program that a call with these arguments runs, as text."""
        return str(self._specialisation(args, kwargs).program)

    @tracebacks.shortened
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What of a call runs natively, what calls back into NumPy, what is stored for the reverse pass, compile time."""
        return explain(self._specialisation(args, kwargs))


def _parameters(f: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters that may be passed by position."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # of some builtins
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _has_parameter(f: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(f).parameters
    except (TypeError, ValueError):  # of some builtins
        return False


def _names(argnums: ArgNums) -> tuple[list[int | str], bool]:
    """(names or positions of arguments, whether a single one was given)."""
    if isinstance(argnums, int | str):
        return [argnums], True
    if not isinstance(argnums, list | tuple) or not all(isinstance(n, int | str) for n in argnums):
        raise TypeError(f"argnums: the position or name of an argument, or a sequence of them, not {argnums!r}")
    return list(argnums), False


def jit(f: Callable[..., Any], *, backend: str = "native", engine: str = "auto") -> Compiled:
    """``f`` itself, compiled.

    Args:
        f: a Python function written with NumPy, SciPy, math, loops, branches and in-place updates.
        backend: "native" (machine code) or "python" (generated NumPy source).
        engine: who reads the function: "source" (its syntax tree, with loops and branches), "tape" (Python runs it once and
            what its arguments meet is recorded) or "auto" (the tape if the source cannot be used, with one warning).

    Returns:
        A callable with the arguments and the result of ``f``.

    >>> import gradsmith as gs
    >>> def triangle(n):
    ...     total = 0.0
    ...     for i in range(n):
    ...         total += i
    ...     return total
    >>> gs.jit(triangle)(1000)
    499500.0
    """
    return Compiled(f, "jit", lambda stage, args, kwargs: enter(stage, f, args, kwargs), backend, engine)


def value_and_grad(
    f: Callable[..., Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    *,
    wrt: Any = None,
    backend: str = "native",
    engine: str = "auto",
) -> Compiled:
    """The value of ``f`` and its gradient in one call; see :func:`grad`.

    Returns:
        A callable giving ``(value, gradient)``, or ``((value, aux), gradient)`` with ``has_aux``.

    >>> import gradsmith as gs
    >>> gs.value_and_grad(lambda x: x**3)(2.0)
    (8.0, 12.0)
    """
    names, single = _names(argnums)
    wanted = None if wrt is None else captured.Wanted(wrt)

    def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if wanted is not None:
            value, gradient, aux = captured.value_and_grad(stage, f, args, kwargs, wanted, has_aux)
            return ((value, aux) if has_aux else value), gradient
        chosen = derive.Leaves(args, kwargs, names, f)
        value, grads, aux = derive.value_and_grad(stage, f, chosen, has_aux)
        structured = chosen.structured(grads)
        gradient = structured[0] if single else tuple(structured)
        return ((value, aux) if has_aux else value), gradient

    return Compiled(f, "value_and_grad", emit, backend, engine, names)


def grad(
    f: Callable[..., Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    *,
    wrt: Any = None,
    backend: str = "native",
    engine: str = "auto",
) -> Compiled:
    """The gradient of ``f``, which returns one real number, by reverse mode.

    Args:
        f: a Python function. It returns a real number (float, NumPy scalar or 0-d array), or ``(number, aux)`` with
            ``has_aux``.
        argnums: which arguments to differentiate with respect to: a position, a keyword name, or a sequence of them.
        has_aux: ``f`` returns a pair; its second part is returned as it is.
        wrt: instead of arguments, what ``f`` reads from closures, globals or attributes: an array (the very object), an
            object that holds arrays, or any structure of them. The gradient has the structure of ``wrt``. Each call
            reads the places again where ``f`` found them.
        backend: "native" (machine code) or "python" (generated NumPy source).
        engine: who reads the function: "source" (its syntax tree, with loops and branches), "tape" (Python runs it once and
            what its arguments meet is recorded) or "auto" (the tape if the source cannot be used, with one warning).

    Returns:
        A callable with the arguments of ``f`` that returns the gradient in the structure of the argument: an array of the
        argument's shape and dtype for an array, a Python float for a Python float, None for integer leaves inside a larger
        structure; a tuple of them if ``argnums`` is a sequence; ``(gradient, aux)`` with ``has_aux``.
        For complex z = x + iy the gradient is ∂f/∂x + i ∂f/∂y.

    Raises:
        NotDifferentiable: an argument without floats, or a result that is not one real number.
        MissingRule: ``f`` calls a function that gradsmith has no rule for.
        UnsupportedCode: ``f`` uses a construct that cannot be staged.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> def smooth(x):
    ...     y = np.zeros(len(x))
    ...     y[0] = x[0]
    ...     for i in range(1, len(x)):
    ...         y[i] = 0.5 * y[i - 1] + x[i]
    ...     return np.sum(y**2)
    >>> gs.grad(smooth)(np.array([1.0, 2.0, 3.0]))
    array([6.625, 9.25 , 8.5  ])

    Method: reverse accumulation on a structured program; see A. Griewank and A. Walther, *Evaluating Derivatives*, SIAM 2008.
    """
    if not callable(f):
        raise TypeError(f"grad takes a function, not {type(f).__name__}")
    both = value_and_grad(f, argnums, has_aux, wrt=wrt, backend=backend, engine=engine)

    def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
        value, gradient = both._emit(stage, args, kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return Compiled(f, "grad", emit, backend, engine, both._wrt)


def derivative(
    f: Callable[..., Any], holomorphic: bool = False, *, backend: str = "native", engine: str = "auto"
) -> Compiled:
    """The derivative of a function of one number, by forward mode.

    Args:
        f: a function from a number to a number.
        holomorphic: allow complex numbers, for which the result is the complex derivative df/dz.

    Returns:
        A callable: for a number x it gives f′(x); for an array the derivative at every element (``f`` is applied to each
        element by itself), as an array of the same shape. Derivatives nest: ``derivative(derivative(f))``.

    >>> import gradsmith as gs
    >>> gs.derivative(lambda x: x**3)(2.0)
    12.0
    >>> gs.derivative(gs.derivative(lambda x: x**3))(2.0)
    12.0
    """

    def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            raise TypeError(
                "derivative(f) takes one argument: the number, or array of numbers, at which to differentiate"
            )
        return derive.elementwise_derivative(stage, f, args[0], holomorphic)

    return Compiled(f, "derivative", emit, backend, engine)


def jacobian(
    f: Callable[..., Any],
    argnums: ArgNums = 0,
    mode: str = "auto",
    *,
    chunk_size: int | None = None,
    holomorphic: bool = False,
    backend: str = "native",
    engine: str = "auto",
) -> Compiled:
    """The Jacobian of ``f``.

    Args:
        f: a function from arrays (or containers of them) to an array (or a container of arrays).
        argnums: as for :func:`grad`.
        mode: "forward" (one sweep per input element), "reverse" (one per output element) or "auto" (the cheaper of the two
            by the sizes in the first call).
        chunk_size: in forward mode, how many columns are computed at once, sharing one evaluation of ``f``. None: chosen by
            the size of the argument and of ``f``; chunks pay where ``f`` has loops.
        holomorphic: allow complex results for complex arguments, for which the entries are complex derivatives ∂f/∂z. (A row
            for a real result and a complex argument is a gradient, as by :func:`grad`.)

    Returns:
        A callable giving, for an array result of shape s and an array argument of shape t, an array of shape s + t. Containers
        nest as in JAX: the result's structure outside, the argument's inside.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> gs.jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"mode must be 'auto', 'forward' or 'reverse', not {mode!r}")
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ValueError(f"chunk_size must be a positive integer or None, not {chunk_size!r}")
    names, single = _names(argnums)

    def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return jacobians.jacobian(
            stage, f, derive.Leaves(args, kwargs, names, f), mode, single, chunk_size, holomorphic
        )

    return Compiled(f, "jacobian", emit, backend, engine, names)


def hessian(f: Callable[..., Any], argnums: ArgNums = 0, *, backend: str = "native", engine: str = "auto") -> Compiled:
    """The Hessian of ``f``, which returns one real number: the forward Jacobian of the reverse gradient.

    Returns:
        A callable giving, for an argument of shape s, an array of shape s + s.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> gs.hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    second = jacobian(grad(f, argnums), argnums, "forward")
    second.__name__ = second.__name__.replace("jacobian_grad", "hessian")
    return Compiled(f, "hessian", second._emit, backend, engine, _names(argnums)[0])


def value_grad_hessian(
    f: Callable[..., Any], argnums: ArgNums = 0, *, backend: str = "native", engine: str = "auto"
) -> Compiled:
    """The value, the gradient and the Hessian of ``f`` in one call, which evaluates ``f`` once for all three.

    Returns:
        A callable giving ``(value, gradient, hessian)``, shaped as by :func:`value_and_grad` and :func:`hessian`.

    >>> import gradsmith as gs
    >>> gs.value_grad_hessian(lambda x: x**3)(2.0)
    (8.0, 12.0, 12.0)
    """
    both = value_and_grad(f, argnums)
    names, single = _names(argnums)

    def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return jacobians.value_grad_hessian(stage, both, derive.Leaves(args, kwargs, names, f), single)

    return Compiled(f, "value_grad_hessian", emit, backend, engine)


def hvp(f: Callable[..., Any], *, backend: str = "native", engine: str = "auto") -> Compiled:
    """The product of the Hessian of ``f`` with a vector: ``hvp(f)(x, v)`` is H(x) v, forward mode over reverse mode.

    ``v`` has the structure and shapes of ``x``. Costs a small multiple of one gradient; the Hessian is never formed.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> gs.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])

    Source: B. A. Pearlmutter, Fast exact multiplication by the Hessian, Neural Computation 6 (1994).
    """
    gradient = grad(f)

    def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 2 or kwargs:
            raise TypeError("hvp(f) takes two arguments: the point x and the vector v")
        return derive.pushforward(stage, gradient, [args[0]], [args[1]])[1]

    return Compiled(f, "hvp", emit, backend, engine)


tracebacks.keep(Compiled.__call__)


class _Mapped(Compiled):
    """A function made by :func:`vmap`, whose rows may be shared between threads."""

    def __init__(self, f: Callable[..., Any], emit: Callable[..., Any], backend: str, engine: str, splitter: Splitter):
        super().__init__(f, "vmap", emit, backend, engine)
        self._splitter = splitter

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return super().__call__(*args, **kwargs)
        try:
            result = self._splitter.call(super().__call__, args)
        except Exception as error:
            tracebacks.shorten(error)
            raise
        if result is not NotImplemented:
            return result
        start, before = time.perf_counter(), self._cache.latest
        result = super().__call__(*args)
        s = self._cache.latest
        if s is before and s is not None and s.shareable:  # nothing was compiled
            self._splitter.note(args, result, time.perf_counter() - start)
        return result


def vmap(
    f: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    parallel: bool | None = None,
    backend: str = "native",
    engine: str = "auto",
) -> Compiled:
    """``f`` applied to every entry along an axis of its arguments, as one compiled loop.

    Args:
        f: a function of one entry: of numbers and arrays with one dimension less than what is passed.
        in_axes: the axis of every argument to map over, or a sequence with one for each; None passes an argument whole. For
            an argument that is a structure also a structure: ``({"w": None, "b": 0}, 0)``. Arguments passed by name are
            mapped over axis 0.
        out_axes: where the results are stacked, or a structure like the result that says it for every part.
        parallel: share the rows between the processor's cores. None: when earlier calls with these shapes took so long
            that it pays. Rows are shared along first axes (``in_axes`` 0 or None, ``out_axes`` 0) by native code that has
            no effects; the results are the same to the last bit.

    Returns:
        A callable; per-example gradients are ``vmap(grad(loss), (None, 0, 0))(params, xs, ys)``.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> gs.vmap(gs.grad(lambda w, x: (w @ x) ** 2), (None, 0))(np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[2., 0.],
           [0., 4.]])
    """

    def emit(stage: Stage, args: list[Any], kwargs: dict[str, Any]) -> Any:
        axes = [in_axes] * len(args) if in_axes is None or isinstance(in_axes, int) else list(in_axes)
        if len(axes) != len(args):
            raise TypeError(f"vmap: in_axes has {len(axes)} entries, but the call has {len(args)} arguments")
        return batch.vmap(stage, f, args, kwargs, [*axes, 0], out_axes)

    if parallel is False or out_axes != 0:
        return Compiled(f, "vmap", emit, backend, engine)
    return _Mapped(f, emit, backend, engine, Splitter(in_axes, always=bool(parallel)))


def jvp(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    backend: str = "native",
    engine: str = "auto",
) -> tuple[Any, Any]:
    """``(f(*primals), derivative of f along tangents)`` by forward mode.

    Args:
        primals: the arguments of ``f``.
        tangents: for each of them a direction of the same structure and shapes.

    >>> import gradsmith as gs
    >>> gs.jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 0.0))
    (12.0, 4.0)
    """
    if len(primals) != len(tangents):
        raise TypeError(f"jvp: {len(primals)} primals but {len(tangents)} tangents")
    return _pushforward(f, backend, engine)(tuple(primals), tuple(tangents))


def vjp(
    f: Callable[..., Any], *primals: Any, backend: str = "native", engine: str = "auto"
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """``(f(*primals), pullback)``: the pullback maps a cotangent of the result to the cotangents of the primals.

    Each call of the pullback evaluates ``f`` again on the primals given here.

    Returns:
        The result, and a function that takes a cotangent of the result's structure and shapes and returns a tuple with a
        cotangent for each primal.

    >>> import numpy as np
    >>> import gradsmith as gs
    >>> y, pullback = gs.vjp(lambda x: x**2, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    back = _pullback(f, backend, engine)
    return _primal(f, backend, engine)(*primals), lambda cotangent: back(primals, cotangent)


def _cached(make: Callable[..., Compiled]) -> Callable[..., Compiled]:
    """Keep what was made for recent functions, so that repeated ``jvp`` and ``vjp`` calls compile once."""
    kept = functools.lru_cache(maxsize=512)(make)

    def get(f: Callable[..., Any], backend: str, engine: str) -> Compiled:
        try:
            return kept(f, backend, engine)
        except TypeError:  # an unhashable callable
            return make(f, backend, engine)

    return get


@_cached
def _primal(f: Callable[..., Any], backend: str, engine: str) -> Compiled:
    return jit(f, backend=backend, engine=engine)


@_cached
def _pushforward(f: Callable[..., Any], backend: str, engine: str) -> Compiled:
    return Compiled(f, "jvp", lambda stage, args, kwargs: derive.pushforward(stage, f, *args), backend, engine)


@_cached
def _pullback(f: Callable[..., Any], backend: str, engine: str) -> Compiled:
    return Compiled(f, "vjp", lambda stage, args, kwargs: derive.pullback(stage, f, *args), backend, engine)


def _inside_staged_code() -> None:
    """``jvp`` and ``vjp`` called by staged code emit their derivative there."""
    from gradsmith.frontend import builtins as staged

    def staged_jvp(stage: Stage, f: Any, primals: Any, tangents: Any, **options: Any) -> Any:
        return derive.pushforward(stage, f, list(primals), list(tangents))

    def staged_vjp(stage: Stage, f: Any, *primals: Any, **options: Any) -> Any:
        def back(cotangent: Any) -> Any:
            from gradsmith.frontend.stage import current

            return derive.pullback(current(), f, primals, cotangent)

        back.__gradsmith_call__ = lambda stage, args, kwargs: derive.pullback(stage, f, primals, *args)  # type: ignore[attr-defined]
        return staged_call(stage, f, primals, {}), back

    def staged_transform(transform: Callable[..., Compiled]) -> Callable[..., Any]:
        return lambda stage, *args, **kwargs: transform(*args, **kwargs)

    staged.register(jvp, staged_jvp)
    staged.register(vjp, staged_vjp)
    for transform in (jit, grad, value_and_grad, derivative, jacobian, hessian, value_grad_hessian, hvp, vmap):
        staged.register(transform, staged_transform(transform))


_inside_staged_code()
