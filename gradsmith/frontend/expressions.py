"""Expressions: the syntax tree compiled once to closures, which are run with a frame to stage the code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gradsmith.errors import UnsupportedCode, add_location
from gradsmith.frontend import calls, flow, keys, objects, yielding
from gradsmith.frontend import stage as st
from gradsmith.frontend.arithmetic import logical_not
from gradsmith.frontend.frames import Code, Frame, Scope, StagedFunction, load_assigned, load_global, outer_slot
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.liveness import Names
from gradsmith.frontend.values import Maybe, Scalar, Symbolic, share

Expr = Callable[[Frame], Any]


def compile_expr(node: ast.expr, scope: Scope) -> Expr:
    """A closure that evaluates ``node`` in a frame of ``scope``."""
    compiler = _COMPILERS.get(type(node))
    if compiler is None:
        raise unsupported(node, scope, f"{type(node).__name__} expressions")
    return compiler(node, scope)


def unsupported(node: ast.AST, scope: Scope, what: str) -> Exception:
    error = UnsupportedCode(f"{what} cannot be staged")
    add_location(error, scope.location(node))
    return error


def _located(node: ast.AST, scope: Scope, inner: Expr) -> Expr:
    """``inner`` with the user's line as the location of the operations that it emits."""
    loc = scope.location(node)
    if loc is None:
        return inner

    def run(frame: Frame) -> Any:
        frame.stage.builder.loc = loc
        return inner(frame)

    return run


# ---- names and constants --------------------------------------------------------------------------------------------


def _constant(node: ast.Constant, scope: Scope) -> Expr:
    value = node.value
    return lambda frame: value


def _name(node: ast.Name, scope: Scope) -> Expr:
    return load_name(node.id, scope)


def load_name(name: str, scope: Scope) -> Expr:
    """A closure that reads a variable."""
    depth = scope.depth_of(name)
    if depth is None:
        read = load_assigned if assigns_outer(name, scope) else load_global

        def load_outer(frame: Frame) -> Any:
            value = read(frame, name)
            return known(frame, value, name) if type(value) is Maybe else value

        return load_outer
    if scope.is_class and depth == 0:
        return _load_in_class(name, scope)

    def load(frame: Frame) -> Any:
        vars = frame.outer(depth).vars if depth else frame.vars
        try:
            value = vars[name]
        except KeyError:
            raise UnboundLocalError(
                f"cannot access local variable '{name}' where it is not associated with a value"
            ) from None
        return known(frame, value, name) if type(value) is Maybe else value

    return load


def _load_in_class(name: str, scope: Scope) -> Expr:
    """A name that the body of a class assigns: before that it is one of the scopes around."""
    assert scope.parent is not None
    around = load_name(name, scope.parent)

    def load(frame: Frame) -> Any:
        assert frame.parent is not None
        return frame.vars[name] if name in frame.vars else around(frame.parent)

    return load


def known(frame: Frame, value: Maybe, name: str) -> Any:
    """The value of a variable that only some paths assign; raises at run time on the others."""
    frame.stage.check(
        value.defined,
        UnboundLocalError,
        f"cannot access local variable '{name}' where it is not associated with a value",
    )
    return known(frame, value.value, name) if isinstance(value.value, Maybe) else value.value


def assigns_outer(name: str, scope: Scope) -> bool:
    """Whether assigning the name changes a closure cell or a global that exists outside staged code."""
    return name in scope.globals_declared or (name in scope.nonlocals and scope.depth_of(name) is None)


def store_name(name: str, scope: Scope) -> Callable[[Frame, Any], None]:
    """A closure that assigns a variable."""
    if assigns_outer(name, scope):

        def store_outer(frame: Frame, value: Any) -> None:
            if frame.stage.depth:
                with suppress(NameError):
                    load_assigned(frame, name)  # what paths that do not assign it go on with
            frame.stage.heap.write(outer_slot(frame, name), value)

        return store_outer
    depth = scope.depth_of(name) or 0

    def store(frame: Frame, value: Any) -> None:
        vars = frame.outer(depth).vars if depth else frame.vars
        objects.give_name(value, name)
        frame.stage.heap.write(Slot("key", vars, name), value)

    return store


# ---- operators ------------------------------------------------------------------------------------------------------

_BINOPS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def operator_symbol(op: ast.operator) -> str:
    return _BINOPS[type(op)]


def _binop(node: ast.BinOp, scope: Scope) -> Expr:
    left, right = compile_expr(node.left, scope), compile_expr(node.right, scope)
    symbol = _BINOPS[type(node.op)]
    loc = scope.location(node)

    def run(frame: Frame) -> Any:
        x, y = left(frame), right(frame)
        if loc is not None:
            frame.stage.builder.loc = loc
        return objects.binary(frame.stage, symbol, x, y)

    return run


def _unaryop(node: ast.UnaryOp, scope: Scope) -> Expr:
    operand = compile_expr(node.operand, scope)
    if isinstance(node.op, ast.Not):
        return _located(node, scope, lambda frame: _not(frame, operand(frame)))
    symbol = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}[type(node.op)]
    return _located(node, scope, lambda frame: objects.unary(frame.stage, symbol, operand(frame)))


def _not(frame: Frame, x: Any) -> Any:
    return logical_not(x) if isinstance(x, Symbolic) else logical_not(condition(frame, x))


def condition(frame: Frame, x: Any) -> Any:
    """``bool(x)``: a concrete bool, or a symbolic one if it is known only at run time."""
    return objects.truth(frame.stage, x)


def _boolop(node: ast.BoolOp, scope: Scope) -> Expr:
    operands = [compile_expr(v, scope) for v in node.values]
    stop_on = isinstance(node.op, ast.Or)

    def run(frame: Frame, k: int = 0) -> Any:
        x = operands[k](frame)
        if k == len(operands) - 1:
            return x
        t = decide(frame, condition(frame, x))
        if isinstance(t, bool):
            return x if t == stop_on else run(frame, k + 1)
        first, rest = (lambda: x), (lambda: run(frame, k + 1))
        then, otherwise = (first, rest) if stop_on else (rest, first)
        return fork(frame, t, then, otherwise)

    return _located(node, scope, run)


def decide(frame: Frame, t: Any) -> Any:
    """A symbolic condition that no differentiable data decides is specialised on (with a guard) where possible."""
    stage = frame.stage
    if isinstance(t, Scalar) and not stage.depends_on_data(t.value) and stage.peekable(t.value):
        return bool(stage.concrete(t))
    return t


def wanted(frame: Frame, live: Names | None) -> Callable[[Slot], bool]:
    """Whether a slot may be read later, where ``live`` are the names of the frame that are (None: all)."""

    known = [(frame.vars, live), *frame.stage.live]

    def may_be_read(slot: Slot) -> bool:
        for vars, names in known:
            if slot.owner is vars and names is not None:
                return slot.key in names or slot.key.startswith("%")
        return True

    return may_be_read


def fork(
    frame: Frame, t: Scalar, then: Callable[[], Any], otherwise: Callable[[], Any], live: Names | None = None
) -> Any:
    """Stage both sides of a run-time condition. Sides that cannot be joined specialise on the side taken in this call.

    ``live``: names that may be read afterwards; None: all.
    """
    stage = frame.stage
    try:
        return flow.branch(stage, t.value, then, otherwise, wanted(frame, live))
    except flow.JoinFailure:
        if not stage.peekable(t.value):
            raise
    return then() if stage.concrete(t) else otherwise()


def _compare(node: ast.Compare, scope: Scope) -> Expr:
    first = compile_expr(node.left, scope)
    rest = [(_COMPARE[type(op)], compile_expr(c, scope)) for op, c in zip(node.ops, node.comparators, strict=True)]

    def run(frame: Frame, k: int = 0, left: Any = MISSING) -> Any:
        x = first(frame) if left is MISSING else left
        symbol, right = rest[k]
        y = right(frame)
        result = objects.compare(frame.stage, symbol, x, y)
        if k == len(rest) - 1:
            return result
        t = decide(frame, condition(frame, result))
        if isinstance(t, bool):
            return run(frame, k + 1, y) if t else result
        return fork(frame, t, lambda: run(frame, k + 1, y), lambda: result)

    return _located(node, scope, run)


def _ifexp(node: ast.IfExp, scope: Scope) -> Expr:
    test, body, orelse = (compile_expr(n, scope) for n in (node.test, node.body, node.orelse))

    def run(frame: Frame) -> Any:
        t = decide(frame, condition(frame, test(frame)))
        if isinstance(t, bool):
            return body(frame) if t else orelse(frame)
        return fork(frame, t, lambda: body(frame), lambda: orelse(frame))

    return _located(node, scope, run)


def _namedexpr(node: ast.NamedExpr, scope: Scope) -> Expr:
    value, store = compile_expr(node.value, scope), store_name(node.target.id, scope)

    def run(frame: Frame) -> Any:
        x = value(frame)
        store(frame, x)
        return x

    return run


# ---- containers -----------------------------------------------------------------------------------------------------


def elements(nodes: list[ast.expr], scope: Scope) -> Callable[[Frame], list[Any]]:
    """A closure that gives the values of a list of expressions, starred ones spread."""
    parts = [
        (isinstance(n, ast.Starred), compile_expr(n.value if isinstance(n, ast.Starred) else n, scope)) for n in nodes
    ]

    def run(frame: Frame) -> list[Any]:
        out: list[Any] = []
        for starred, part in parts:
            x = part(frame)
            if starred:
                out += objects.iterate(frame.stage, x)
            else:
                out.append(x)
        return out

    return run


def _tuple(node: ast.Tuple, scope: Scope) -> Expr:
    parts = elements(node.elts, scope)
    return lambda frame: tuple(parts(frame))


def _list(node: ast.List, scope: Scope) -> Expr:
    parts = elements(node.elts, scope)
    return lambda frame: frame.stage.heap.born(parts(frame))


def _set(node: ast.Set, scope: Scope) -> Expr:
    parts = elements(node.elts, scope)
    return lambda frame: frame.stage.heap.born({st.static(x) for x in parts(frame)})


def _dict(node: ast.Dict, scope: Scope) -> Expr:
    items = [
        (None if k is None else compile_expr(k, scope), compile_expr(v, scope))
        for k, v in zip(node.keys, node.values, strict=True)
    ]

    def run(frame: Frame) -> Any:
        out: dict[Any, Any] = {}
        for key, value in items:
            if key is None:
                out.update(keys.settle(frame.stage, value(frame)))
            else:
                k = st.static(key(frame))
                out[k] = value(frame)
        return frame.stage.heap.born(out)

    return run


# ---- attributes, subscripts, calls ----------------------------------------------------------------------------------


def _attribute(node: ast.Attribute, scope: Scope) -> Expr:
    owner, name = compile_expr(node.value, scope), node.attr
    return _located(node, scope, lambda frame: objects.getattr_(frame.stage, owner(frame), name))


def _slice(node: ast.Slice, scope: Scope) -> Expr:
    parts = [None if n is None else compile_expr(n, scope) for n in (node.lower, node.upper, node.step)]
    return lambda frame: slice(*(None if p is None else p(frame) for p in parts))


def _subscript(node: ast.Subscript, scope: Scope) -> Expr:
    owner, key = compile_expr(node.value, scope), compile_expr(node.slice, scope)
    loc = scope.location(node)

    def run(frame: Frame) -> Any:
        x, k = owner(frame), key(frame)
        if loc is not None:
            frame.stage.builder.loc = loc
        return objects.getitem(frame.stage, x, k)

    return run


def _call(node: ast.Call, scope: Scope) -> Expr:
    function = compile_expr(node.func, scope)
    positional = elements(node.args, scope)
    keywords = [(k.arg, compile_expr(k.value, scope)) for k in node.keywords]
    loc = scope.location(node)
    zero_argument_super = isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args

    def run(frame: Frame) -> Any:
        f, args = function(frame), positional(frame)
        kwargs: dict[str, Any] = {}
        for name, value in keywords:
            if name is None:
                kwargs.update(keys.settle(frame.stage, value(frame)))
            else:
                kwargs[name] = value(frame)
        if loc is not None:
            frame.stage.builder.loc = loc
        if zero_argument_super and f is super:
            return objects.make_super(frame)
        result = calls.call(frame.stage, f, args, kwargs)
        if loc is not None:
            frame.stage.builder.loc = loc
        return result

    return run


# ---- functions and comprehensions -----------------------------------------------------------------------------------


def make_function(code: Code, defaults: Callable[[Frame], list[Any]], kwdefaults: list[tuple[str, Expr]]) -> Expr:
    """A closure that makes the function object of a ``def`` or ``lambda`` inside staged code."""

    def run(frame: Frame) -> Any:
        own, named = defaults(frame), {name: value(frame) for name, value in kwdefaults}
        share([*own, *named.values()])
        return StagedFunction(code, frame, own, named)

    return run


def function_maker(node: ast.FunctionDef | ast.Lambda, scope: Scope) -> Expr:
    from gradsmith.frontend.statements import compile_function

    name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
    code = compile_function(node, scope, scope.filename, f"{scope.function}.{name}", scope.quiet)
    defaults = elements(node.args.defaults, scope)
    kwdefaults = [
        (a.arg, compile_expr(d, scope)) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d
    ]
    return make_function(code, defaults, kwdefaults)


def _comprehension(node: Any, scope: Scope, kind: str) -> Expr:
    """A comprehension is evaluated at once, a generator expression when its first item is asked for."""
    from gradsmith.frontend.iterables import Once
    from gradsmith.frontend.loops import for_each
    from gradsmith.frontend.statements import assigned_names, compile_target

    targets = set().union(*(assigned_names([g.target]) for g in node.generators))
    inner = Scope(targets, scope, scope.filename, scope.function, quiet=scope.quiet)
    levels = []
    for n, g in enumerate(node.generators):
        iterable = compile_expr(g.iter, scope if n == 0 else inner)
        levels.append((iterable, compile_target(g.target, inner), [compile_expr(c, inner) for c in g.ifs], g.target))
    if kind == "dict":
        key, value = compile_expr(node.key, inner), compile_expr(node.value, inner)
    else:
        value = compile_expr(node.elt, inner)

    def add(frame: Frame, out: list[Any]) -> None:
        item = (st.static(key(frame)), value(frame)) if kind == "dict" else value(frame)
        calls.call(frame.stage, out.append, [item], {})

    def level(frame: Frame, n: int, out: list[Any], first: Any = None) -> None:
        if n == len(levels):
            add(frame, out)
            return
        iterable, store, conditions, target = levels[n]
        xs = iterable(frame) if n else first

        def each(x: Any, k: int = 0) -> None:
            if k == 0:
                store(frame, x)
            if k == len(conditions):
                level(frame, n + 1, out)
                return
            t = decide(frame, condition(frame, conditions[k](frame)))
            if isinstance(t, bool):
                if t:
                    each(x, k + 1)
            else:
                fork(frame, t, lambda: each(x, k + 1), lambda: None)

        for_each(frame, xs, each, assigned=sorted(assigned_names([target])))

    def evaluate(frame: Frame, first: Any) -> Any:
        child = Frame(frame.stage, frame, frame.globals, frame.cells, frame.function)
        child.owner, child.called_at = frame.owner or frame, frame.called_at
        out: list[Any] = frame.stage.heap.born([])
        frame.stage.frames.append(child)
        child.vars["%list"] = out
        level(child, 0, out, first)
        if frame.stage.frames and frame.stage.frames[-1] is child:
            frame.stage.frames.pop()
        if kind == "dict":
            return frame.stage.heap.born(dict(objects.iterate(frame.stage, out)))
        if kind == "set":
            return frame.stage.heap.born(set(map(st.static, objects.iterate(frame.stage, out))))
        return out

    def run(frame: Frame) -> Any:
        first = levels[0][0](frame)
        if kind != "generator":
            return evaluate(frame, first)
        items = first.take(Once.LOST, whole=False) if isinstance(first, Once) else first
        return Once(lambda: evaluate(frame, items))

    return _located(node, scope, run)


def _joinedstr(node: ast.JoinedStr, scope: Scope) -> Expr:
    parts: list[Any] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            spec = compile_expr(part.format_spec, scope) if part.format_spec else (lambda frame: "")
            parts.append((compile_expr(part.value, scope), part.conversion, spec))
        else:
            parts.append(part.value)  # type: ignore[attr-defined]

    def run(frame: Frame) -> Any:
        pieces = [p if isinstance(p, str) else (p[0](frame), p[1], p[2](frame)) for p in parts]
        return objects.format_pieces(pieces)

    return run


def _yield(node: ast.Yield, scope: Scope) -> Expr:
    value = compile_expr(node.value, scope) if node.value else (lambda frame: None)
    return lambda frame: yielding.give(frame, value(frame))


def _yieldfrom(node: ast.YieldFrom, scope: Scope) -> Expr:
    value = compile_expr(node.value, scope)
    return lambda frame: yielding.give_all(frame, value(frame))


_COMPILERS: dict[type[ast.AST], Callable[[Any, Scope], Expr]] = {
    ast.Yield: _yield,
    ast.YieldFrom: _yieldfrom,
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binop,
    ast.UnaryOp: _unaryop,
    ast.BoolOp: _boolop,
    ast.Compare: _compare,
    ast.IfExp: _ifexp,
    ast.NamedExpr: _namedexpr,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.Attribute: _attribute,
    ast.Slice: _slice,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.Lambda: lambda node, scope: function_maker(node, scope),
    ast.ListComp: lambda node, scope: _comprehension(node, scope, "list"),
    ast.GeneratorExp: lambda node, scope: _comprehension(node, scope, "generator"),
    ast.SetComp: lambda node, scope: _comprehension(node, scope, "set"),
    ast.DictComp: lambda node, scope: _comprehension(node, scope, "dict"),
    ast.JoinedStr: _joinedstr,
}
