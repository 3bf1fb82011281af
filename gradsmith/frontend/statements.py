"""Statements and function bodies, compiled once to closures that stage them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gradsmith.errors import UnsupportedCode, handled
from gradsmith.frontend import calls, catching, flow, managers, objects
from gradsmith.frontend.aliases import BREAK, CONTINUE, FALL, JUMP, RETURN, RETURNED
from gradsmith.frontend.arithmetic import inplace
from gradsmith.frontend.expressions import (
    compile_expr,
    condition,
    decide,
    fork,
    function_maker,
    load_name,
    operator_symbol,
    store_name,
    unsupported,
    wanted,
)
from gradsmith.frontend.flow import INTERNAL, DeadPath, JoinFailure
from gradsmith.frontend.frames import Code, Frame, Scope, StagedFunction, compiled
from gradsmith.frontend.heap import MISSING, Slot
from gradsmith.frontend.liveness import Liveness, Names
from gradsmith.frontend.loops import Facts, for_each, while_
from gradsmith.frontend.source import FunctionNode
from gradsmith.frontend.stage import Stage
from gradsmith.frontend.values import Array, Scalar, Symbolic, Text
from gradsmith.ir.program import Const, Location

#: runs a statement; ``rest()`` stages the statements after it, and True is returned if that was done
Stmt = Callable[[Frame, Callable[[], None] | None], bool]


# ---- functions ------------------------------------------------------------------------------------------------------


def compile_function(node: FunctionNode, parent: Scope | None, filename: str, name: str, quiet: bool) -> Code:
    """The body of a ``def`` or ``lambda``."""
    statements: list[ast.stmt] = node.body if isinstance(node, ast.FunctionDef) else []
    scope = Scope(set(), parent, filename, name, quiet=quiet)
    for n in _own_nodes(statements):
        if isinstance(n, ast.Global):
            scope.globals_declared.update(n.names)
        elif isinstance(n, ast.Nonlocal):
            scope.nonlocals.update(n.names)
    local = assigned_names([*statements, *([] if statements else [node.body])])  # type: ignore[list-item]
    a = node.args
    params = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if p}
    scope.local |= (local | params) - scope.globals_declared - scope.nonlocals
    own = list(_own_nodes(statements or [node.body]))  # type: ignore[list-item]
    for n in own:
        if isinstance(n, ast.Await | ast.AsyncFor | ast.AsyncWith):
            raise unsupported(n, scope, "coroutines")
    yields = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own)
    if isinstance(node, ast.Lambda):
        if yields:
            raise unsupported(node, scope, "yield in a lambda")
        return Code(node, scope, compile_expr(node.body, scope), "<lambda>")
    body = compile_block(statements, scope, Liveness(statements))
    return Code(node, scope, body, node.name, ast.get_docstring(node), yields)


def _own_nodes(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes below ``nodes`` that belong to this scope: nothing inside nested functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(ast.iter_child_nodes(node))


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def assigned_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that ``nodes`` bind in the scope they stand in."""
    names: set[str] = set()

    def visit(node: ast.AST, in_comprehension: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.NamedExpr):
            names.add(node.target.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and not in_comprehension:
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        for child in ast.iter_child_nodes(node):
            visit(child, in_comprehension or isinstance(node, _COMPREHENSIONS))

    for node in nodes:
        visit(node, False)
    return names


# ---- blocks ---------------------------------------------------------------------------------------------------------


def compile_block(nodes: list[ast.stmt], scope: Scope, live: Liveness) -> Callable[[Frame], None]:
    """A closure that stages statements in order, honouring jumps."""
    end = live.after(nodes[-1]) if nodes else None
    statements = [_compile_stmt(n, scope, live, end) for n in nodes]
    last = len(statements) - 1

    def run(frame: Frame, k: int = 0) -> None:
        for n in range(k, last + 1):
            rest = (lambda n=n: run(frame, n + 1)) if n < last else None
            if statements[n](frame, rest):
                return
            jump = frame.vars.get(JUMP, FALL)
            if jump is FALL:
                continue
            if isinstance(jump, Scalar):
                if rest is not None:
                    going = objects.compare(frame.stage, "==", jump, FALL)
                    fork(frame, going, lambda rest=rest: _resume(frame, rest), lambda: None)
                return
            if jump != FALL:
                return

    return run


def _resume(frame: Frame, rest: Callable[[], None]) -> None:
    frame.stage.heap.write(Slot("key", frame.vars, JUMP), FALL)
    rest()


def _compile_stmt(node: ast.stmt, scope: Scope, live: Liveness, end: Names | None) -> Stmt:
    """``end``: names live after the block that the statement stands in."""
    if isinstance(node, ast.If):
        return _if(node, scope, live, end)
    if isinstance(node, ast.Match):
        from gradsmith.frontend.matching import compile_match

        return compile_match(node, scope, live, end)
    compiler = _COMPILERS.get(type(node))
    if compiler is None:
        raise unsupported(node, scope, f"{type(node).__name__} statements")
    inner = compiler(node, scope, live) if type(node) in _NESTED else compiler(node, scope)
    loc = scope.location(node)

    def run(frame: Frame, rest: Callable[[], None] | None) -> bool:
        if loc is not None:
            frame.stage.builder.loc = loc
        inner(frame)
        return False

    return run


def terminates(nodes: list[ast.stmt]) -> bool:
    """Whether the statements certainly end in a jump."""
    if not nodes:
        return False
    last = nodes[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and terminates(last.body) and terminates(last.orelse)
    return isinstance(last, ast.Return | ast.Break | ast.Continue | ast.Raise)


def _if(node: ast.If, scope: Scope, live: Liveness, end: Names | None) -> Stmt:
    test = compile_expr(node.test, scope)
    then, otherwise = compile_block(node.body, scope, live), compile_block(node.orelse, scope, live)
    loc = scope.location(node.test)
    ends = terminates(node.body), terminates(node.orelse)
    after = live.after(node)

    def run(frame: Frame, rest: Callable[[], None] | None) -> bool:
        if loc is not None:
            frame.stage.builder.loc = loc
        t = decide(frame, condition(frame, test(frame)))
        return choose(frame, t, lambda: then(frame), lambda: otherwise(frame), ends, rest, after, end)

    return run


def choose(
    frame: Frame,
    t: Any,
    then: Callable[[], None],
    otherwise: Callable[[], None],
    ends: tuple[bool, bool],
    rest: Callable[[], None] | None,
    after: Names | None,
    end: Names | None,
) -> bool:
    """An if statement. A side that ends in a jump leaves the statements after it to the other side.

    ``after``: names live after the statement; ``end``: after the block that it stands in.
    """
    if isinstance(t, bool):
        (then if t else otherwise)()
        return False
    stage = frame.stage
    if rest is not None and any(ends):
        sides = [
            _followed(frame, side, rest) if not end else side for side, end in zip((then, otherwise), ends, strict=True)
        ]
        fork(frame, t, sides[0], sides[1], live=end)
        return True
    point = stage.checkpoint()
    try:
        flow.branch(stage, t.value, then, otherwise, wanted(frame, after))
        return False
    except JoinFailure:
        stage.restore(point)
        if rest is None or stage.duplications >= _MAX_DUPLICATIONS:
            return _specialise(frame, t, then, otherwise)
    stage.duplications += 1
    try:
        sides = [_followed(frame, side, rest) for side in (then, otherwise)]
        flow.branch(stage, t.value, sides[0], sides[1], wanted(frame, end))
        return True
    except JoinFailure:
        stage.restore(point)
        return _specialise(frame, t, then, otherwise)
    finally:
        stage.duplications -= 1


_MAX_DUPLICATIONS = 4


def _specialise(frame: Frame, t: Scalar, then: Callable[[], None], otherwise: Callable[[], None]) -> bool:
    if not frame.stage.peekable(t.value):
        raise  # noqa: PLE0704  (the JoinFailure being handled)
    (then if frame.stage.concrete(t) else otherwise)()
    return False


def _followed(frame: Frame, side: Callable[[], None], rest: Callable[[], None]) -> Callable[[], None]:
    """``side`` and then ``rest``, unless the side jumped."""

    def run() -> None:
        side()
        jump = frame.vars.get(JUMP, FALL)
        if isinstance(jump, Scalar):
            going = objects.compare(frame.stage, "==", jump, FALL)
            fork(frame, going, lambda: _resume(frame, rest), lambda: None)
        elif jump == FALL:
            rest()

    return run


# ---- assignment -----------------------------------------------------------------------------------------------------


def compile_target(node: ast.expr, scope: Scope) -> Callable[[Frame, Any], None]:
    """A closure that assigns to a target: a name, attribute, item, or a tuple of targets."""
    if isinstance(node, ast.Name):
        return store_name(node.id, scope)
    if isinstance(node, ast.Attribute):
        owner, name = compile_expr(node.value, scope), node.attr
        return lambda frame, value: objects.setattr_(frame.stage, owner(frame), name, value)
    if isinstance(node, ast.Subscript):
        owner, key = compile_expr(node.value, scope), compile_expr(node.slice, scope)
        return lambda frame, value: objects.setitem(frame.stage, owner(frame), key(frame), value)
    if isinstance(node, ast.Tuple | ast.List):
        return _unpack(node, scope)
    raise unsupported(node, scope, f"assignment to {type(node).__name__}")


def _unpack(node: ast.Tuple | ast.List, scope: Scope) -> Callable[[Frame, Any], None]:
    starred = [k for k, t in enumerate(node.elts) if isinstance(t, ast.Starred)]
    targets = [compile_target(t.value if isinstance(t, ast.Starred) else t, scope) for t in node.elts]

    def store(frame: Frame, value: Any) -> None:
        items = _known_items(frame, value, len(targets)) if not starred else objects.iterate(frame.stage, value)
        if starred:
            k, extra = starred[0], len(items) - (len(targets) - 1)
            if extra < 0:
                raise ValueError(
                    f"not enough values to unpack (expected at least {len(targets) - 1}, got {len(items)})"
                )
            items = [*items[:k], frame.stage.heap.born(items[k : k + extra]), *items[k + extra :]]
        if len(items) != len(targets):
            few = len(items) < len(targets)
            raise ValueError(
                f"not enough values to unpack (expected {len(targets)}, got {len(items)})"
                if few
                else f"too many values to unpack (expected {len(targets)})"
            )
        for target, item in zip(targets, items, strict=True):
            target(frame, item)

    return store


def _known_items(frame: Frame, value: Any, count: int) -> list[Any]:
    """Items to unpack: the length of an array is checked at run time, not specialised on."""
    if isinstance(value, Array) and value.ndim:
        length = objects.length(frame.stage, value)
        frame.stage.check(
            objects.compare(frame.stage, "==", length, count),
            ValueError,
            f"cannot unpack {{}} values into {count} variables",
            length,
        )
        return [objects.getitem(frame.stage, value, k) for k in range(count)]
    return objects.iterate(frame.stage, value)


def _assign(node: ast.Assign, scope: Scope) -> Callable[[Frame], None]:
    value = compile_expr(node.value, scope)
    targets = [compile_target(t, scope) for t in node.targets]

    def run(frame: Frame) -> None:
        x = value(frame)
        for target in targets:
            target(frame, x)

    return run


def _annassign(node: ast.AnnAssign, scope: Scope) -> Callable[[Frame], None]:
    if node.value is None:
        return lambda frame: None
    return _assign(ast.Assign([node.target], node.value), scope)


def augmented(frame: Frame, symbol: str, x: Any, y: Any) -> Any:
    """``x symbol= y``: the object that the target holds afterwards."""
    stage = frame.stage
    if isinstance(x, Array):
        return inplace(symbol, x, y)
    if isinstance(x, list) and symbol == "+":
        calls.call(stage, x.extend, [y], {})
        return x
    dunder = objects.special_method(x, f"__i{objects._DUNDERS[symbol]}__")
    if dunder is not None and not isinstance(x, Symbolic) and hasattr(x, "__dict__"):
        result = calls.call(stage, dunder, [x, y], {})
        if result is not NotImplemented:
            return result
    return objects.binary(stage, symbol, x, y)


def _augassign(node: ast.AugAssign, scope: Scope) -> Callable[[Frame], None]:
    symbol, value = operator_symbol(node.op), compile_expr(node.value, scope)
    target = node.target
    if isinstance(target, ast.Name):
        load, store = load_name(target.id, scope), store_name(target.id, scope)

        def run(frame: Frame) -> None:
            x = load(frame)
            result = augmented(frame, symbol, x, value(frame))
            if result is not x:
                store(frame, result)

        return run
    owner = compile_expr(target.value, scope)
    if isinstance(target, ast.Attribute):
        name = target.attr

        def run_attribute(frame: Frame) -> None:
            o = owner(frame)
            x = objects.getattr_(frame.stage, o, name)
            result = augmented(frame, symbol, x, value(frame))
            if result is not x:
                objects.setattr_(frame.stage, o, name, result)

        return run_attribute
    key = compile_expr(target.slice, scope)

    def run_item(frame: Frame) -> None:
        o, k = owner(frame), key(frame)
        x = objects.getitem(frame.stage, o, k)
        result = augmented(frame, symbol, x, value(frame))
        # a view was written through; a copy (or a number) must be written back
        if result is not x or not (isinstance(x, Array) and isinstance(o, Array) and x.cell is o.cell):
            objects.setitem(frame.stage, o, k, result)

    return run_item


def _delete(node: ast.Delete, scope: Scope) -> Callable[[Frame], None]:
    parts: list[Callable[[Frame], None]] = []
    for target in node.targets:
        if isinstance(target, ast.Name):
            store = store_name(target.id, scope)
            parts.append(lambda frame, store=store: store(frame, MISSING))
        elif isinstance(target, ast.Subscript):
            owner, key = compile_expr(target.value, scope), compile_expr(target.slice, scope)
            parts.append(lambda frame, o=owner, k=key: objects.delitem(frame.stage, o(frame), k(frame)))
        elif isinstance(target, ast.Attribute):
            owner, name = compile_expr(target.value, scope), target.attr
            parts.append(lambda frame, o=owner, name=name: objects.delattr_(frame.stage, o(frame), name))
        else:
            raise unsupported(target, scope, f"deleting a {type(target).__name__}")

    def run(frame: Frame) -> None:
        for part in parts:
            part(frame)

    return run


# ---- simple statements ----------------------------------------------------------------------------------------------


def _expr(node: ast.Expr, scope: Scope) -> Callable[[Frame], None]:
    if isinstance(node.value, ast.Constant):
        return lambda frame: None
    value = compile_expr(node.value, scope)
    return lambda frame: (value(frame), None)[1]


def _return(node: ast.Return, scope: Scope) -> Callable[[Frame], None]:
    value = compile_expr(node.value, scope) if node.value else (lambda frame: None)

    def run(frame: Frame) -> None:
        x = value(frame)
        frame.stage.heap.write(Slot("key", frame.vars, RETURN), x)
        frame.stage.heap.write(Slot("key", frame.vars, JUMP), RETURNED)

    return run


def _jump(code: int) -> Callable[[ast.stmt, Scope], Callable[[Frame], None]]:
    return lambda node, scope: lambda frame: frame.stage.heap.write(Slot("key", frame.vars, JUMP), code)


def _assert(node: ast.Assert, scope: Scope) -> Callable[[Frame], None]:
    test = compile_expr(node.test, scope)
    message = compile_expr(node.msg, scope) if node.msg else (lambda frame: "")

    def run(frame: Frame) -> None:
        t = condition(frame, test(frame))
        if isinstance(t, bool):
            if not t:
                fail(frame, AssertionError(message(frame)))
            return
        text, values = _template(message(frame))
        frame.stage.check(t, AssertionError, text, *values)

    return run


def _template(message: Any) -> tuple[str, list[Any]]:
    if isinstance(message, Text):
        return message.template, message.values
    if isinstance(message, Symbolic):
        return "{}", [message]
    return objects._escape(str(message)), []


def _raise(node: ast.Raise, scope: Scope) -> Callable[[Frame], None]:
    value = compile_expr(node.exc, scope) if node.exc else None
    cause = compile_expr(node.cause, scope) if node.cause else None

    def run(frame: Frame) -> None:
        if value is None:
            raise
        error = value(frame)
        if isinstance(error, type):
            error = error()
        if cause is not None:
            error.__cause__ = cause(frame)
        fail(frame, error)

    return run


def fail(frame: Frame, error: BaseException) -> None:
    """Raise: for real where the path is certain, else as a check of the Program, which ends the path."""
    stage, args = frame.stage, error.args
    catch = catching.handler(stage, type(error))
    if stage.depth == 0 or (catch is not None and catch.depth == stage.depth):
        if catch is None and any(isinstance(a, Symbolic) for a in args):
            error.args = tuple(_shown(stage, a) for a in args)
        raise error
    if catch is not None:
        catching.check(stage, catch, Const(False), type(error), "", ())  # type: ignore[arg-type]
        raise DeadPath
    text, values = _template(args[0]) if args else ("", [])
    values = [v if isinstance(v, Scalar) else str(v) for v in values]
    numbers = [v.value for v in values if isinstance(v, Scalar)]
    stage.builder.emit("check", [Const(False), *numbers], error=type(error), message=text, raised=True)
    raise DeadPath


def _shown(stage: Any, x: Any) -> Any:
    if isinstance(x, Text):
        return x.template.format(*(stage.peek(v.value) for v in x.values))
    return stage.peek(x.value) if isinstance(x, Scalar | Array) else x


def _import(node: ast.Import, scope: Scope) -> Callable[[Frame], None]:
    stores = [(a, store_name(a.asname or a.name.split(".")[0], scope)) for a in node.names]

    def run(frame: Frame) -> None:
        for alias, store in stores:
            module = importlib.import_module(alias.name)
            store(frame, module if alias.asname else importlib.import_module(alias.name.split(".")[0]))

    return run


def _importfrom(node: ast.ImportFrom, scope: Scope) -> Callable[[Frame], None]:
    stores = [(a.name, store_name(a.asname or a.name, scope)) for a in node.names]

    def run(frame: Frame) -> None:
        name = "." * node.level + (node.module or "")
        module = importlib.import_module(name, frame.globals.get("__package__"))
        for attribute, store in stores:
            found = getattr(module, attribute, None)
            store(
                frame,
                found if hasattr(module, attribute) else importlib.import_module(f"{module.__name__}.{attribute}"),
            )

    return run


def _functiondef(node: ast.FunctionDef, scope: Scope) -> Callable[[Frame], None]:
    make, store = function_maker(node, scope), store_name(node.name, scope)
    decorators = [compile_expr(d, scope) for d in node.decorator_list]

    def run(frame: Frame) -> None:
        wrap = [d(frame) for d in decorators]
        f = make(frame)
        for decorator in reversed(wrap):
            f = calls.call(frame.stage, decorator, [f], {})
        store(frame, f)

    return run


# ---- compound statements --------------------------------------------------------------------------------------------


def _facts(node: ast.For | ast.While, live: Liveness) -> Facts:
    """What the source says about a loop."""
    parts: list[ast.AST] = [*node.body, *([node.target] if isinstance(node, ast.For) else [node.test])]
    assigned = assigned_names(parts)
    accumulated = {
        n.target.id for n in _own_nodes(parts) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    returns = any(isinstance(n, ast.Return) for n in _own_nodes(node.body))
    breaks = any(isinstance(n, ast.Break) for n in _loop_nodes(node.body))
    index_name = _index_name(node)
    yields = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own_nodes(node.body))
    return Facts(sorted(assigned), sorted(accumulated), breaks or returns, returns, index_name, live.head(node), yields)


def _index_name(node: ast.For | ast.While) -> str:
    """The user's name for the number of the iteration."""
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name):
        target = node.target
        if node.iter.func.id == "enumerate" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        if node.iter.func.id in ("range", "enumerate") and isinstance(target, ast.Name):
            return "k" if target.id == "_" else target.id
    return "i"


def _loop_nodes(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """Nodes of a loop's body, nothing inside nested loops or functions."""
    for node in nodes:
        yield node
        if isinstance(node, ast.For | ast.While):
            yield from _loop_nodes(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from _loop_nodes(ast.iter_child_nodes(node))


def _for(node: ast.For, scope: Scope, live: Liveness) -> Callable[[Frame], None]:
    iterable, store = compile_expr(node.iter, scope), compile_target(node.target, scope)
    body = compile_block(node.body, scope, live)
    orelse = compile_block(node.orelse, scope, live) if node.orelse else None
    facts = _facts(node, live)

    def run(frame: Frame) -> None:
        def each(x: Any) -> None:
            store(frame, x)
            body(frame)

        for_each(frame, iterable(frame), each, facts=facts, orelse=orelse and (lambda: orelse(frame)))

    return run


def _while(node: ast.While, scope: Scope, live: Liveness) -> Callable[[Frame], None]:
    if any(isinstance(n, ast.NamedExpr) for n in _own_nodes([node.test])):
        return _while_walrus(node, scope, live)
    test, body = compile_expr(node.test, scope), compile_block(node.body, scope, live)
    orelse = compile_block(node.orelse, scope, live) if node.orelse else None
    facts = _facts(node, live)

    def run(frame: Frame) -> None:
        while_(
            frame,
            lambda: condition(frame, test(frame)),
            lambda: body(frame),
            facts,
            orelse and (lambda: orelse(frame)),
        )

    return run


def _while_walrus(node: ast.While, scope: Scope, live: Liveness) -> Callable[[Frame], None]:
    """``while (y := f(x)) > 0: …`` as ``while True: if not …: break; …``."""
    if node.orelse:
        raise unsupported(node, scope, "a while loop with an assignment in its condition and an else part")
    leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
    ast.copy_location(leave, node)
    loop = ast.While(ast.Constant(True), [leave, *node.body], [])
    ast.fix_missing_locations(ast.copy_location(loop, node))
    live.stands_for(loop, node)
    return _while(loop, scope, live)


def _suppressed(manager: Any) -> tuple[type[BaseException], ...]:
    """The exceptions that leaving the context may swallow."""
    if isinstance(manager, suppress):
        return manager._exceptions  # type: ignore[attr-defined]
    leave = objects.user_method(manager, "__exit__")
    code = (
        leave.code.node
        if isinstance(leave, StagedFunction)
        else compiled(leave.__code__, leave.__module__ or "").node
        if leave
        else None
    )
    return (Exception,) if code is not None and any(_gives_something(n) for n in ast.walk(code)) else ()


def _gives_something(node: ast.AST) -> bool:
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and not node.value.value)


def _with(node: ast.With, scope: Scope, live: Liveness) -> Callable[[Frame], None]:
    items = [
        (compile_expr(i.context_expr, scope), compile_target(i.optional_vars, scope) if i.optional_vars else None)
        for i in node.items
    ]
    body = compile_block(node.body, scope, live)

    def run(frame: Frame, k: int = 0) -> None:
        if k == len(items):
            body(frame)
            return
        make, store = items[k]
        manager = make(frame)
        if isinstance(manager, managers.Managed):

            def inside(x: Any) -> None:
                if store is not None:
                    store(frame, x)
                run(frame, k + 1)

            manager.surround(frame.stage, inside)
            return
        entered = calls.call(frame.stage, objects.getattr_(frame.stage, manager, "__enter__"), [], {})
        if store is not None:
            store(frame, entered)
        leave = objects.getattr_(frame.stage, manager, "__exit__")
        try:
            with catching_all(frame.stage, _suppressed(manager)):
                run(frame, k + 1)
        except INTERNAL:
            raise
        except Exception as error:
            if not calls.call(frame.stage, leave, [type(error), error, error.__traceback__], {}):
                raise
        else:
            calls.call(frame.stage, leave, [None, None, None], {})

    return run


@contextmanager
def catching_all(stage: Stage, kinds: Iterable[Any]) -> Iterator[None]:
    """Stage a body whose exceptions of these classes (or tuples of classes) are handled."""
    outer = list(stage.catching)
    flat = tuple(k for kind in kinds for k in (kind if isinstance(kind, tuple) else (kind,)))
    if flat:
        stage.catching = [*outer, catching.Catch(flat, stage.depth)]
    try:
        yield
    finally:
        stage.catching = outer


def _try(node: ast.Try, scope: Scope, live: Liveness) -> Callable[[Frame], None]:
    body = compile_block(node.body, scope, live)
    orelse, final = compile_block(node.orelse, scope, live), compile_block(node.finalbody, scope, live)
    handlers = [
        (
            compile_expr(h.type, scope) if h.type else (lambda frame: BaseException),
            store_name(h.name, scope) if h.name else None,
            compile_block(h.body, scope, live),
        )
        for h in node.handlers
    ]

    def handle(frame: Frame, error: Exception, place: Location | None) -> bool:
        for kind, store, action in handlers:
            if isinstance(error, kind(frame)):
                handled(error, place)
                catching.check_guarded(frame.stage)
                if store is not None:
                    store(frame, error)
                action(frame)
                return True
        return False

    def attempt(frame: Frame) -> None:
        frames = len(frame.stage.frames)
        try:
            with catching_all(frame.stage, [kind(frame) for kind, _, _ in handlers]):
                body(frame)
        except INTERNAL:
            raise
        except Exception as error:
            place = frame.stage.builder.place
            del frame.stage.frames[frames:]
            if not handle(frame, error, place):
                raise
            return
        jump = frame.vars.get(JUMP, FALL)
        if isinstance(jump, Scalar):
            going = objects.compare(frame.stage, "==", jump, FALL)
            fork(frame, going, lambda: _resume(frame, lambda: orelse(frame)), lambda: None)
        elif jump == FALL:
            orelse(frame)

    def finish(frame: Frame) -> None:
        heap, slot = frame.stage.heap, Slot("key", frame.vars, JUMP)
        pending = slot.get()
        heap.write(slot, FALL)
        final(frame)
        if isinstance(slot.get(), Scalar):
            raise UnsupportedCode("leaving a finally clause on a run-time condition")
        if slot.get() == FALL:
            heap.write(slot, pending)

    def run(frame: Frame) -> None:
        try:
            attempt(frame)
        except INTERNAL:
            raise
        except Exception:
            finish(frame)
            if frame.vars.get(JUMP, FALL) == FALL:
                raise
            return
        finish(frame)

    return run


def _classdef(node: ast.ClassDef, scope: Scope) -> Callable[[Frame], None]:
    from gradsmith.frontend.classes import compile_class

    make, store = compile_class(node, scope), store_name(node.name, scope)
    return lambda frame: store(frame, make(frame))


_NESTED = (ast.For, ast.While, ast.With, ast.Try)
_COMPILERS: dict[type[ast.AST], Callable[..., Callable[[Frame], None]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annassign,
    ast.AugAssign: _augassign,
    ast.Delete: _delete,
    ast.Expr: _expr,
    ast.Return: _return,
    ast.Break: _jump(BREAK),
    ast.Continue: _jump(CONTINUE),
    ast.Pass: lambda node, scope: lambda frame: None,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Import: _import,
    ast.ImportFrom: _importfrom,
    ast.Global: lambda node, scope: lambda frame: None,
    ast.Nonlocal: lambda node, scope: lambda frame: None,
    ast.FunctionDef: _functiondef,
    ast.ClassDef: _classdef,
    ast.For: _for,
    ast.While: _while,
    ast.With: _with,
    ast.Try: _try,
}
