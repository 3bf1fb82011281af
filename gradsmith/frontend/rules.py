"""Derivative rules of somebody else's functions, by function."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradsmith.errors import MissingRule, SourceUnavailable, UnsupportedCode

_RULES: dict[Any, Rule] = {}
_CODES: dict[types.CodeType, Rule] = {}
#: called when a rule changes: what is compiled may rest on the old one
_listeners: weakref.WeakSet[Any] = weakref.WeakSet()


@dataclass(frozen=True, eq=False)
class Rule:
    """What ``define_rule`` was told about ``function``."""

    function: Callable[..., Any]
    vjp: Callable[..., Any] | None
    jvp: Callable[..., Any] | None
    value: Callable[..., Any] | None
    like: Any
    nondiff: tuple[int, ...]


def define(function: Any, rule: Rule) -> None:
    """Make ``rule`` the rule of ``function`` from now on."""
    if not callable(function):
        raise TypeError(f"define_rule takes a function, not {type(function).__name__}")
    _RULES[function] = rule
    if isinstance(function, types.FunctionType):
        _CODES[function.__code__] = rule
    for cache in list(_listeners):
        cache.clear()


def listen(cache: Any) -> None:
    """Have ``cache.clear()`` called whenever a rule changes."""
    _listeners.add(cache)


def find(function: Any) -> Rule | None:
    """The rule of a function, or None."""
    if not _RULES:
        return None
    try:
        return _RULES.get(function)
    except TypeError:  # an unhashable callable
        return None


def pair(out: Any, name: str) -> tuple[Any, Any]:
    """``out``, which must be a result with its tangent."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(f"the forward-mode rule of {name} must return a pair: (result, tangent of the result)")
    return out


def call(stage: Any, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The function of ``rule`` called in staged code."""
    from gradsmith.frontend import control

    name = getattr(rule.function, "__name__", "a function")

    def vjp(args: list[Any]) -> tuple[Any, Any]:
        out = control.run_rule(stage, rule.vjp, args, kwargs)
        if not isinstance(out, tuple) or len(out) != 2 or not callable(out[1]):
            raise TypeError(f"the vjp rule of {name} must return a pair: (result, pullback)")
        return out[0], lambda g: control.run_rule(stage, out[1], [g])

    def jvp(args: list[Any], tangents: list[Any]) -> tuple[Any, Any]:
        moving = [n for n in range(len(args)) if n not in rule.nondiff]
        primals, directions = (tuple(x[n] for n in moving) for x in (args, tangents))
        fixed = [args[n] for n in rule.nondiff]
        return pair(control.run_rule(stage, rule.jvp, [*fixed, primals, directions], kwargs), name)

    return control.with_rule(
        stage,
        rule,
        name,
        lambda args: _value(stage, rule, args, kwargs),
        args,
        vjp=vjp if rule.vjp else None,
        jvp=jvp if rule.jvp else None,
        nondiff=rule.nondiff,
    )


def of_code(code: types.CodeType) -> Rule | None:
    """The rule of a Python function with this code, or None."""
    return _CODES.get(code)


def _value(stage: Any, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    running = stage.rules.get(rule.function, 0)
    stage.rules[rule.function] = running + 1
    try:
        return _computed(stage, rule, args, kwargs)
    finally:
        stage.rules[rule.function] = running


def _computed(stage: Any, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    from gradsmith.frontend import hosted
    from gradsmith.frontend.calls import call_without_rule

    if rule.value is not None:
        return call_without_rule(stage, rule.value, args, kwargs)
    if rule.like is None:
        point = stage.checkpoint()
        try:
            with stage.run_by("source"):  # what has no readable source is better run by Python than recorded
                return call_without_rule(stage, rule.function, args, kwargs)
        except (MissingRule, SourceUnavailable, UnsupportedCode):
            stage.restore(point)
    return hosted.pure(stage, rule.function, args, kwargs, rule.like)
