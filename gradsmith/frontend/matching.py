"""``match`` statements: patterns tried in order, as conditions on the subject."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from gradsmith.frontend import arithmetic, objects
from gradsmith.frontend.expressions import compile_expr, condition, decide, store_name, unsupported
from gradsmith.frontend.frames import Frame, Scope
from gradsmith.frontend.liveness import Liveness, Names
from gradsmith.frontend.values import Array, Scalar, Symbolic

#: gives whether the subject fits: a bool, concrete or symbolic; binds the names of the pattern
Pattern = Callable[[Frame, Any], Any]


def compile_match(
    node: ast.Match, scope: Scope, live: Liveness, end: Names | None
) -> Callable[[Frame, Callable[[], None] | None], bool]:
    """A closure that runs the first case whose pattern and guard fit. ``end``: names live after the block around."""
    from gradsmith.frontend.statements import choose, compile_block, terminates

    subject = compile_expr(node.subject, scope)
    cases = [
        (
            _pattern(c.pattern, scope),
            compile_expr(c.guard, scope) if c.guard else None,
            compile_block(c.body, scope, live),
            terminates(c.body),
        )
        for c in node.cases
    ]
    loc = scope.location(node)
    after = live.after(node)

    def run(frame: Frame, rest: Callable[[], None] | None) -> bool:
        if loc is not None:
            frame.stage.builder.loc = loc
        x = subject(frame)

        def attempt(k: int, rest: Callable[[], None] | None) -> bool:
            if k == len(cases):
                return False
            pattern, guard, body, ends = cases[k]
            fits = pattern(frame, x)
            if guard is not None and fits is not False:
                fits = _and(fits, condition(frame, guard(frame)))
            t = decide(frame, fits)
            if t is False:
                return attempt(k + 1, rest)
            otherwise = lambda: (attempt(k + 1, None), None)[1]  # noqa: E731
            return choose(frame, t, lambda: body(frame), otherwise, (ends, False), rest, after, end)

        return attempt(0, rest)

    return run


def _and(a: Any, b: Any) -> Any:
    if a is True:
        return b
    if a is False or b is False:
        return False
    return a if b is True else arithmetic.binary("&", a, b)


def _pattern(node: ast.pattern, scope: Scope) -> Pattern:
    if isinstance(node, ast.MatchValue):
        value = compile_expr(node.value, scope)
        return lambda frame, x: objects.truth(frame.stage, objects.compare(frame.stage, "==", x, value(frame)))
    if isinstance(node, ast.MatchSingleton):
        return lambda frame, x: x is node.value
    if isinstance(node, ast.MatchAs):
        return _match_as(node, scope)
    if isinstance(node, ast.MatchOr):
        return _match_or(node, scope)
    if isinstance(node, ast.MatchSequence):
        return _match_sequence(node, scope)
    if isinstance(node, ast.MatchMapping):
        return _match_mapping(node, scope)
    if isinstance(node, ast.MatchClass):
        return _match_class(node, scope)
    raise unsupported(node, scope, f"{type(node).__name__} patterns")


def _match_as(node: ast.MatchAs, scope: Scope) -> Pattern:
    inner = _pattern(node.pattern, scope) if node.pattern else (lambda frame, x: True)
    store = store_name(node.name, scope) if node.name else None

    def fits(frame: Frame, x: Any) -> Any:
        t = inner(frame, x)
        if t is not False and store is not None:
            store(frame, x)
        return t

    return fits


def _match_or(node: ast.MatchOr, scope: Scope) -> Pattern:
    patterns = [_pattern(p, scope) for p in node.patterns]

    def fits(frame: Frame, x: Any) -> Any:
        found: Any = False
        for pattern in patterns:
            t = pattern(frame, x)
            if t is True:
                return True
            found = t if found is False else found if t is False else arithmetic.binary("|", found, t)
        return found

    return fits


def _all(frame: Frame, pairs: list[tuple[Pattern, Any]]) -> Any:
    fits: Any = True
    for pattern, x in pairs:
        fits = _and(fits, pattern(frame, x))
        if fits is False:
            return False
    return fits


def _match_sequence(node: ast.MatchSequence, scope: Scope) -> Pattern:
    stars = [k for k, p in enumerate(node.patterns) if isinstance(p, ast.MatchStar)]
    patterns = [None if isinstance(p, ast.MatchStar) else _pattern(p, scope) for p in node.patterns]
    star = node.patterns[stars[0]] if stars else None
    store = store_name(star.name, scope) if isinstance(star, ast.MatchStar) and star.name else None

    def fits(frame: Frame, x: Any) -> Any:
        if not isinstance(x, list | tuple) or isinstance(x, Symbolic):
            return False
        items, count = list(x), len(patterns) - len(stars)
        if len(items) != count if not stars else len(items) < count:
            return False
        if stars:
            k, extra = stars[0], len(items) - count
            if store is not None:
                store(frame, frame.stage.heap.born(items[k : k + extra]))
            items = [*items[:k], None, *items[k + extra :]]
        return _all(frame, [(p, i) for p, i in zip(patterns, items, strict=True) if p is not None])

    return fits


def _match_mapping(node: ast.MatchMapping, scope: Scope) -> Pattern:
    keys = [compile_expr(k, scope) for k in node.keys]
    patterns = [_pattern(p, scope) for p in node.patterns]
    store = store_name(node.rest, scope) if node.rest else None

    def fits(frame: Frame, x: Any) -> Any:
        if not isinstance(x, Mapping):
            return False
        wanted = [k(frame) for k in keys]
        if any(k not in x for k in wanted):
            return False
        if store is not None:
            store(frame, frame.stage.heap.born({k: v for k, v in x.items() if k not in wanted}))
        return _all(frame, [(p, x[k]) for p, k in zip(patterns, wanted, strict=True)])

    return fits


_SELF_MATCHING = (bool, int, float, str, bytes, list, tuple, dict, set, frozenset)


def _match_class(node: ast.MatchClass, scope: Scope) -> Pattern:
    cls = compile_expr(node.cls, scope)
    patterns = [_pattern(p, scope) for p in node.patterns]
    named = [(name, _pattern(p, scope)) for name, p in zip(node.kwd_attrs, node.kwd_patterns, strict=True)]

    def fits(frame: Frame, x: Any) -> Any:
        kind = cls(frame)
        found = issubclass(objects.python_type(x), kind) if isinstance(x, Scalar | Array) else isinstance(x, kind)
        if not found:
            return False
        if patterns and kind in _SELF_MATCHING:
            return patterns[0](frame, x)
        names = [*getattr(kind, "__match_args__", ())[: len(patterns)], *(name for name, _ in named)]
        parts = [objects.getattr_(frame.stage, x, name) for name in names]
        return _all(frame, list(zip([*patterns, *(p for _, p in named)], parts, strict=True)))

    return fits
