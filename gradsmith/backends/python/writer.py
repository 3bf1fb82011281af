"""Writes a Program as Python statements."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence

from gradsmith.backends.python.annotate import annotated, docstring
from gradsmith.backends.python.expressions import (
    ATOM,
    NOT,
    SUM,
    UNARY,
    Expr,
    Expressions,
    constant,
    exact,
    hosted_source,
    quoted,
    returns_its_types,
    typed,
)
from gradsmith.backends.python.interface import Interface
from gradsmith.backends.python.layout import LONGEST, broken
from gradsmith.backends.python.names import Names, identifier
from gradsmith.backends.python.schedule import is_wrapped, schedule
from gradsmith.backends.python.tidy import tidy
from gradsmith.ir.describe import describe
from gradsmith.ir.ops import distinct_places
from gradsmith.ir.program import Block, Const, Location, Op, Program, Value, copy_block
from gradsmith.ir.types import I64, ArrayType
from gradsmith.transforms import inplace

HELPERS = {
    "raises": '''
def raises(f):
    """Whether f() raises an error."""
    try:
        f()
    except Exception:
        return True
    return False
''',
    "strong_mul": '''
def strong_mul(g, d):
    """g * d, but 0 where g is 0 even if d is infinite or NaN."""
    with np.errstate(all="ignore"):
        return np.where(np.equal(g, 0), np.zeros((), np.asarray(g).dtype), np.multiply(g, d))[()]
''',
    "unbroadcast": '''
def unbroadcast(x, shape):
    """x summed over the axes along which an array of this shape was broadcast."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape)))) if x.ndim > len(shape) else x
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and x.shape[k] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x
''',
}
_INDENT = "    "
_ROOM = 22  # for the name that an expression is assigned to, and the length of what needs none


class Writer:
    """The source text of one Program, line by line, with the user's location for every line."""

    def __init__(self, program: Program, shown: bool = False, interface: Interface | None = None):
        """``shown``: the source is for reading; effects are written as in the user's program.

        ``interface``: how it takes its arguments and returns its result; without it, flat.
        """
        self.shown = shown
        self.interface = interface
        self.program = program
        self.block = copy_block(program.block, {})
        if shown:
            tidy(self.block)
        self.inlined = schedule(self.block)
        self.plan = inplace.plan(self.block)
        self._pending: dict[Value, Expr] = {}  # inlined values on the way to their user
        self.expressions = Expressions(self.read, shown, self._pending)
        taken = {*HELPERS, "like", identifier(program.name) or "f"}
        if interface is not None:
            taken |= set(interface.roots) - set(interface.places)
        self.names = Names(taken, _users_names(self.block), distinct=shown)
        self.lines: list[tuple[str, Location | None]] = []
        self.constants: dict[Value, str] = {}
        self._weak: set[Value] = set()
        self._wanted: dict[Value, str] = {}  # the variable a value should get, since a loop or branch carries it there
        self._depth = 1
        self._loc: Location | None = None
        self._operands = {value for inner in _blocks(self.block) for value in _uses(inner)}
        # parameters whose lengths are written out where they are needed, so that their variables must stay
        lengths = [op for op in self.block.walk() if op.name == "dim" and not op.result.name]
        self._measured = {op.args[0] for op in lengths} & set(self.block.params)
        self._fixed: set[Value] = (
            set()
        )  # integers whose variables keep their value: loop indices, lengths of parameters

    # --- text ---

    def write(self) -> tuple[str, dict[int, Location]]:
        """The source and the user's location of its lines."""
        params = [self._parameter(k, p) for k, p in enumerate(self.block.params)]
        self._operations(self.block)
        self._return()
        if self.shown:
            self.lines = annotated(self.lines)
        facing = self.interface
        imports = [*(f"import {name}" for name in self.expressions.imports), *(facing.imports if facing else ())]
        head = ["import numpy as np"] if self._uses_numpy() or not self.shown else []
        head += imports
        helpers = [HELPERS.get(name) or hosted_source(name) for name in self.expressions.helpers]
        for text in (*helpers, *(facing.helpers if facing else ())):
            head += ["", *text.rstrip().split("\n")]
        if self.expressions.objects:
            head += ["", f"# objects of the user's program: {', '.join(self.expressions.objects)}"]
        head += [""] if self.constants else []
        head += [f"{name} = {constant(c).text}" for c, name in self.constants.items() if isinstance(c, Const)]
        params = facing.parameters if facing else params
        head += ["", ""] if head else []
        head += [f"def {identifier(self.program.name) or 'f'}({', '.join(params)}):"]
        if facing:
            head += docstring(facing.about)
        if self.shown:
            return "\n".join(
                [*(line for text in (*head, *(t for t, _ in self.lines)) for line in broken(text)), ""]
            ), {}
        locations = {len(head) + k + 1: loc for k, (_, loc) in enumerate(self.lines) if loc is not None}
        return "\n".join([*head, *(text for text, _ in self.lines), ""]), locations

    def _uses_numpy(self) -> bool:
        code = (text for text, _ in self.lines if not text.lstrip().startswith("#"))
        return bool(self.expressions.helpers or self.constants) or any("np." in text for text in code)

    def _line(self, text: str) -> None:
        self.lines.append((_INDENT * self._depth + text, self._loc))

    def _parameter(self, k: int, param: Value) -> str:
        if not param.name:
            param.name = identifier(self.program.inputs[k].label) or f"x{k}"
        place = self.interface.places[k] if self.interface else ""
        if place.isidentifier():
            param.name = place
        name = self.names.assign(param, lambda value: True)
        if param in self._measured:
            self.names.reserve(name)
        if place and place != name and param in self._operands:
            self._line(f"{name} = {place}")
        return name

    def read(self, value: Value) -> Expr:
        """The expression for an operand."""
        if isinstance(value, Const):
            if not value.ndim:
                return constant(value)
            if value not in self.constants:
                self.constants[value] = f"_c{len(self.constants)}"
            return Expr(self.constants[value])
        if value in self._pending:
            return self._pending[value]
        return Expr(self.names.variable[value], weak=value in self._weak)

    # --- operations ---

    def _operations(self, block: Block) -> None:
        self._want_names(block)
        for op in block.ops:
            self._loc = op.loc
            if op in self.inlined or self._needs_no_variable(op):
                self._pending[op.result] = self._expression(op)
                if op.name == "dim" and op.args[0] in self._measured:
                    self._fixed.add(op.result)
                continue
            statement = getattr(self, f"_{op.name}", None)
            if statement:
                statement(op)
            elif op.name.startswith("seq_") and op.name in _SEQUENCE_UPDATES:
                self._sequence(op)
            elif len(op.results) != 1:
                self._host_results(op)
            else:
                self._assign(op)

    def _want_names(self, block: Block) -> None:
        """What a loop starts with, or an update writes to, gets the variable of what becomes of it."""
        for op in reversed(block.ops):
            if op.name in ("for", "while"):
                inits = op.args[3:] if op.name == "for" else op.args
                params = op.regions[-1].params[1:] if op.name == "for" else op.regions[-1].params
                for init, param, result in zip(inits, params, op.results, strict=True):
                    self._want(init, identifier(param.name or result.name) or self._wanted.get(result, ""))
            elif op in self.plan.in_place or op.name in _SEQUENCE_UPDATES:
                result = op.results[0]
                self._want(op.args[0], identifier(result.name) or self._wanted.get(result, ""))

    def _want(self, value: Value, name: str) -> None:
        if name and not value.name and value.op is not None:
            self._wanted.setdefault(value, name)

    def _needs_no_variable(self, op: Op) -> bool:
        """Whether an expression is as clear as a variable and may be evaluated anywhere: ``len(x)``, ``i - 1``."""
        if not op.results or op.results[0].name:
            return False
        if op.name == "dim":
            return op.args[0] in self._measured
        if is_wrapped(op):
            return isinstance(op.args[0], Const) or op.args[0] in self._fixed
        if op.name not in ("add", "sub") or op.results[0].type != I64 or not isinstance(op.args[1], Const):
            return False
        return op.args[0] in self._fixed

    def _assign(self, op: Op) -> None:
        expr = self._expression(op)
        name = self._name(op.result, op)
        self._assignment(name, expr, op.result)
        self._note_weak(op.result, expr)

    def _assignment(self, name: str, expr: Expr, value: Value) -> None:
        """``name = expr``, for numbers also ``name += …``."""
        variable, symbol, rest = expr.update
        if variable == name and not getattr(value.type, "ndim", 1):
            self._line(f"{name} {symbol}= {rest}")
        else:
            self._line(f"{name} = {expr.text}")

    def _expression(self, op: Op) -> Expr:
        expr = self.expressions.expression(op)
        if self.shown:
            expr = self._shortened(op, expr)
        return Expr(f"{expr.at(ATOM)}.copy()") if op in self.plan.copied_views else expr

    def _shortened(self, op: Op, expr: Expr) -> Expr:
        """The expression with its longest operands in variables until it fits on a line."""
        while len(expr.text) > LONGEST - _ROOM - len(_INDENT) * self._depth:
            parts = [
                a for a in op.args if a in self._pending and len(self._pending[a].text) > _ROOM and a.op is not None
            ]
            if not parts:
                break
            longest = max(parts, key=lambda a: len(self._pending[a].text))
            part = self._pending.pop(longest)
            assert longest.op is not None
            held = {word for e in self._pending.values() for word in _identifiers(e.text)}
            name = self.names.choose(
                longest,
                lambda held, last=longest.op: self.plan.used_after(held, last),
                avoid=held | _identifiers(part.text),
                described=self._described(longest.op),
            )
            self.names.hold(name, longest)
            self._assignment(name, part, longest)
            self._note_weak(longest, part)
            expr = self.expressions.expression(op)
        return expr

    def _name(self, value: Value, op: Op, prefer: str = "") -> str:
        """A variable for a result of ``op``."""
        wanted = self._wanted.get(value, "")
        described = "" if wanted or prefer or value.name else self._described(op)
        element = op.name == "index" and set(op.attrs["spec"]) <= {"i", ":"}
        return self.names.assign(
            value, lambda held: self.plan.used_after(held, op), wanted or prefer, described, element
        )

    def _described(self, op: Op) -> str:
        return describe(op, lambda value: self.read(value).text if self._is_known(value) else "")

    def _is_known(self, value: Value) -> bool:
        return not isinstance(value, Const) and (value in self._pending or value in self.names.variable)

    def _note_weak(self, value: Value, expr: Expr) -> None:
        if expr.weak:
            self._weak.add(value)

    def _host_results(self, op: Op) -> None:
        expr = self.expressions.host_call(op)
        names = [self._name(r, op) for r in op.results]
        self._line(f"{', '.join(names)} = {expr.text}")
        if returns_its_types(op):
            odd = [k for k, r in enumerate(op.results) if r.dtype.kind == "c"]  # NumPy may return real numbers
        else:
            odd = list(range(len(names)))
        for k in odd:
            self._line(f"{names[k]} = {exact(names[k], op.results[k].type)}")

    def _target(self, op: Op, reads: str) -> str:
        """The variable with the array that a ``set`` or ``add_at`` writes to: the operand's own, or a copy.

        ``reads`` is source text that is evaluated after the copy.
        """
        x = op.args[0]
        if op in self.plan.in_place:
            return self.names.hold(self.names.variable[x], op.result)
        source = self.read(x).text
        name = self.names.choose(
            op.result,
            lambda held: self.plan.used_after(held, op),
            self._wanted.get(op.result, "") or ("" if op.result.name or isinstance(x, Const) else source),
            _identifiers(reads) - {source},
            self._described(op),
        )
        self._line(f"{name} = {source}.copy()")
        return self.names.hold(name, op.result)

    def _set(self, op: Op) -> None:
        if not op.args[0].ndim:
            name = self._name(op.result, op)
            self._line(f"{name} = {typed(self.read(op.args[1]), op.result.type).text}")
            return
        value, index = self.read(op.args[1]), self.expressions.subscript(op)
        place = f"{self._target(op, f'{value.text} {index}')}[{index}]"
        updated, symbol, rest = value.update
        if updated == place and all(e == "i" or isinstance(e, tuple) or e == ":" for e in op.attrs["spec"]):
            self._line(f"{place} {symbol}= {rest}")
        else:
            self._line(f"{place} = {value.text}")

    def _add_at(self, op: Op) -> None:
        x, v = op.args[:2]
        value, index = self.read(v), self.expressions.subscript(op)
        if not x.ndim:
            name = self._name(op.result, op)
            self._line(f"{name} = {typed(self.read(x), x.type).text} + {value.at(SUM + 1)}")
            return
        target = self._target(op, f"{value.text} {index}")
        if {"a", "m"} & {e for e in op.attrs["spec"] if isinstance(e, str)} and not distinct_places(op):
            place = f"({index})" if ":" not in index and "," in index else f"np.s_[{index}]" if ":" in index else index
            self._line(f"np.add.at({target}, {place}, {value.text})")
        elif value.strength == UNARY and value.text.startswith("-"):
            self._line(f"{target}[{index}] -= {value.text[1:]}")
        else:
            self._line(f"{target}[{index}] += {value.text}")

    def _effect(self, op: Op) -> None:
        text = self.expressions.effect(op, self.shown)
        names = [self._name(r, op) for r in op.results]
        if not names:
            self._line(text)
        elif self.shown:
            self._line(f"{', '.join(names)} = {text}")
        else:
            self._line(f"{', '.join(names)}{',' * (len(names) == 1)} = {text}")

    def _check(self, op: Op) -> None:
        self._line(f"if {_negated(self.read(op.args[0]))}:")
        error = op.attrs["error"]
        message = quoted(op.attrs["message"].format() if len(op.args) == 1 else op.attrs["message"])
        if len(op.args) > 1:
            message += f".format({', '.join(self.read(a).text for a in op.args[1:])})"
        self._line(f"{_INDENT}raise {self._qualified(error)}({message})")

    def _guard(self, op: Op) -> None:
        if self.shown:
            condition = self.read(op.args[0])
            self._line(f"if {_negated(condition)}:")
            self._line(f"{_INDENT}raise ValueError({quoted(self._made_for(op, condition.text))})")
            return
        self.expressions.imports["gradsmith.errors"] = None
        self._line(f"if {_negated(self.read(op.args[0]))}:")
        self._line(f"{_INDENT}raise gradsmith.errors.GuardFailed")

    def _made_for(self, op: Op, condition: str) -> str:
        """What the source takes for granted: a condition on variables of the user's, or which way a line goes."""
        words = _identifiers(condition) - {"len", "min", "max", "not", "and", "or", "shape"}
        if words <= {p.name for p in self.block.params} | _users_names(self.block) or op.loc is None:
            return f"this source was made for {condition}"
        return f"this source was made for arguments with which line {op.loc.line} goes another way"

    def _qualified(self, error: type) -> str:
        if getattr(builtins, error.__name__, None) is error:
            return error.__name__
        if error.__module__.startswith("numpy."):
            return f"np.{error.__module__.removeprefix('numpy.')}.{error.__name__}"
        if not self.shown:
            return self.expressions.object_name(error)  # it may be of a module that cannot be imported by name
        if error.__module__.startswith("gradsmith."):
            return next(c.__name__ for c in error.__mro__ if c.__module__ == "builtins" and c is not Exception)
        self.expressions.imports[error.__module__] = None
        return f"{error.__module__}.{error.__qualname__}"

    def _sequence(self, op: Op) -> None:
        sequence = self.read(op.args[0]).text
        args = [typed(self.read(a), a.type).text for a in op.args[1:]]
        self.names.hold(sequence, op.results[0])
        if op.name == "seq_push":
            start = f"{_INDENT * self._depth}{sequence} = []"
            if self.shown and self.lines and self.lines[-1][0] == start:
                self.lines.pop()
                self._line(f"{sequence} = [{args[0]}]")
            else:
                self._line(f"{sequence}.append({args[0]})")
        elif op.name == "seq_pop":
            self._line(f"{self._name(op.results[1], op)} = {sequence}.pop()")
        else:
            self._line(f"{sequence}[{args[0]}] = {sequence}[{args[0]}] + {args[1]}")

    # --- control flow ---

    def _moves(self, variables: Sequence[str], exprs: Sequence[Expr], values: Sequence[Value]) -> None:
        """Assign all at once: in one statement if an expression reads a variable that another assigns."""
        rows = [row for row in zip(variables, exprs, values, strict=True) if row[0] != row[1].text]
        moves = [(v, e.text) for v, e, _ in rows]
        targets = {v for v, _ in moves}
        if any((targets - {v}) & _identifiers(text) for v, text in moves):
            self._line(f"{', '.join(v for v, _ in moves)} = {', '.join(t for _, t in moves)}")
            return
        for variable, expr, value in rows:
            self._assignment(variable, expr, value)

    def _region(self, region: Block, variables: Sequence[str], strong: Sequence[bool] = ()) -> list[Expr]:
        """Write a region whose results end up in ``variables``; returns the expressions of the results.

        Where ``strong`` says so a result that may be a Python number is converted.
        """
        own = {r for op in region.ops for r in op.results}
        for variable, value in zip(variables, region.results, strict=True):
            if value in own:
                self._wanted.setdefault(value, variable)
        self._operations(region)
        exprs = [self.read(r) for r in region.results]
        for k, value in enumerate(region.results):
            if strong and strong[k]:
                exprs[k] = typed(exprs[k], value.type)
            if (region, k) in self.plan.exit_copies:
                exprs[k] = Expr(f"{exprs[k].at(ATOM)}.copy()")
        self._moves(variables, exprs, region.results)
        return exprs

    def _if(self, op: Op) -> None:
        condition = self.read(op.args[0])
        variables = self._branch_variables(op)
        before = len(self.lines)
        state = self.names.snapshot()
        branches = []
        for region in op.regions:
            self._depth += 1
            for result, expr in zip(op.results, self._region(region, variables), strict=True):
                self._note_weak(result, expr)
            self._depth -= 1
            self.names.restore(dict(state))
            branches.append(self.lines[before:])
            del self.lines[before:]
            self._loc = op.loc
        then, other = branches
        if then:
            self._line(f"if {condition.text}:")
            self.lines += then
            if other and not (chained := self._chained(other)):
                self._line("else:")
            elif other:
                other = chained
        elif other:
            self._line(f"if {_negated(condition)}:")
        self.lines += other
        for result, name in zip(op.results, variables, strict=True):
            self.names.hold(name, result)

    def _chained(self, lines: list[tuple[str, Location | None]]) -> list[tuple[str, Location | None]]:
        """The lines after an ``else`` as an ``elif`` if all they are is one ``if``; else none."""
        inner = _INDENT * (self._depth + 1)
        own = [text.removeprefix(inner) for text, _ in lines if not text.startswith(inner + _INDENT)]
        if not own[0].startswith("if ") or any(not text.startswith(("elif ", "else:")) for text in own[1:]):
            return []
        outer = [(text.removeprefix(_INDENT), loc) for text, loc in lines]
        first = outer[0][0].replace("if ", "elif ", 1)
        return [(first, outer[0][1]), *outer[1:]]

    def _branch_variables(self, op: Op) -> list[str]:
        """The variables for the results of an ``if``: that of a value one branch hands on, if it is dead afterwards."""
        variables: list[str] = []
        for k, result in enumerate(op.results):
            handed_on = [
                self.names.variable[v]
                for v in (region.results[k] for region in op.regions)
                if v in self.names.variable and v not in self._pending and not self.plan.used_after(v, op)
            ]
            prefer = next((v for v in handed_on if v not in variables), "")
            if (wanted := self._wanted.get(result)) and (wanted in handed_on or not prefer):
                prefer = wanted
            described = "" if prefer or result.name else self._described_result(op, k)
            variables.append(
                self.names.choose(result, lambda held: self.plan.used_after(held, op), prefer, variables, described)
            )
        return variables

    def _described_result(self, op: Op, k: int) -> str:
        """A name for what the branches of an ``if`` leave: after what one of them computes."""
        for region in op.regions:
            made = region.results[k]
            if made.name:
                return made.name
            if made.op is not None and made in {r for inner in region.ops for r in inner.results}:
                return self._described(made.op)
        return "choice"

    def _described_carried(self, op: Op, k: int) -> str:
        """A name for what a loop carries: after what an iteration does to it."""
        made = op.regions[-1].results[k].op
        return self._described(made) if made is not None else "carried"

    def _for(self, op: Op) -> None:
        (body,) = op.regions
        bounds = [self.read(a) for a in op.args[:3]]
        span = _range(op.args[:3], bounds)
        variables = self._carried_variables(op, body.params[1:], op.args[3:], _identifiers(span))
        state = self.names.snapshot()
        index = "_"
        if body.params[0] in self._operands:
            index = self.names.choose(
                body.params[0], lambda held: self._alive_in(held, op), avoid=variables, described="i"
            )
            self.names.hold(index, body.params[0])
            self.names.reserve(index)
        self._fixed.add(body.params[0])
        self._weak.add(body.params[0])
        self._line(f"for {index} in {f'reversed({span})' if op.attrs.get('reverse') and index != '_' else span}:")
        self._body(op, body, body.params[1:], variables)
        self._leave(op, body.params[1:], variables, state)

    def _while(self, op: Op) -> None:
        condition, body = op.regions
        variables = self._carried_variables(op, body.params, op.args, set())
        state = self.names.snapshot()
        for param, of_body, name in zip(condition.params, body.params, variables, strict=True):
            self.names.variable[param] = name
            if of_body in self._weak:
                self._weak.add(param)
        simple = all(inner in self.inlined for inner in condition.ops)
        if simple:
            self._operations(condition)
            self._loc = op.loc
            self._line(f"while {self.read(condition.results[0]).text}:")
        else:
            self._line("while True:")
            self._depth += 1
            self.names.holder.update(dict.fromkeys(variables))  # the body needs them
            self._operations(condition)
            self._loc = op.loc
            self._line(f"if {_negated(self.read(condition.results[0]))}:")
            self._line(_INDENT + "break")
            self._depth -= 1
            self.names.restore(dict(state))
        self._body(op, body, body.params, variables)
        self._leave(op, body.params, variables, state)

    def _carried_variables(
        self, op: Op, params: Sequence[Value], initial: Sequence[Value], avoid: set[str]
    ) -> list[str]:
        """Choose the variables of carried values and give them their initial values."""
        variables: list[str] = []
        exprs = [self.read(v) for v in initial]
        initial_names = {self.names.variable[v] for v in initial if v in self.names.variable}
        for k, (param, init, result) in enumerate(zip(params, initial, op.results, strict=True)):
            param.name = param.name or result.name or op.regions[-1].results[k].name or init.name
            prefer = self._wanted.get(result, "")
            if not (prefer or param.name) and init in self.names.variable:
                prefer = self.names.variable[init]
            others = set() if prefer or param.name else initial_names
            described = "" if prefer or param.name else self._described_carried(op, k)
            variables.append(
                self.names.choose(
                    param, lambda held: self._alive_in(held, op), prefer, {*avoid, *variables, *others}, described
                )
            )
            if (op, k) in self.plan.entry_copies:
                exprs[k] = Expr(f"{exprs[k].at(ATOM)}.copy()")
            if exprs[k].weak:
                self._weak.add(param)
        self._moves(variables, exprs, params)
        for param, name in zip(params, variables, strict=True):
            self.names.hold(name, param)
        return variables

    def _alive_in(self, value: Value, op: Op) -> bool:
        """Whether ``value`` is read in the loop ``op`` or after it."""
        return self.plan.used_after(value, op) or self.plan.used_inside(value, op)

    def _body(self, op: Op, body: Block, params: Sequence[Value], variables: Sequence[str]) -> None:
        self._depth += 1
        start = len(self.lines)
        self._region(body, variables, [p not in self._weak for p in params])
        if len(self.lines) == start:
            self._line("pass")
        self._depth -= 1

    def _leave(self, op: Op, params: Sequence[Value], variables: Sequence[str], state: dict[str, Value | None]) -> None:
        """After a loop its variables hold its results."""
        self.names.restore(state)
        for result, param, name in zip(op.results, params, variables, strict=True):
            self.names.hold(name, result)
            if param in self._weak:
                self._weak.add(result)

    def _return(self) -> None:
        """Return the results, none of them memory of the caller's or of another result."""
        texts = []
        for k, value in enumerate(self.block.results):
            expr = self.read(value)
            mine = self.plan.owned(value) and (self.shown or not self.plan.is_view(value))
            mine = mine and not (value.op is not None and value.op.name == "broadcast_to")  # read-only
            shared = any(self.plan.same_storage(value, other) for other in self.block.results[:k])
            copy = isinstance(value.type, ArrayType) and value.ndim and (shared or not mine)
            texts.append(f"{expr.at(ATOM)}.copy()" if copy else expr.text)
        if self.interface is None:
            self._line(f"return {', '.join(texts) or '()'}")
            return
        parts = self.interface.parts
        for place, text in zip(self.interface.written, texts[parts:], strict=False):
            self._line(f"{place}[...] = {text}")
        self._line(f"return {self.interface.result(texts[:parts])}")


_SEQUENCE_UPDATES = frozenset({"seq_push", "seq_pop", "seq_add"})


def _blocks(block: Block) -> Iterator[Block]:
    """``block`` and all regions in it."""
    yield block
    for op in block.walk():
        yield from op.regions


def _uses(block: Block) -> Iterator[Value]:
    """What the operations and results of ``block`` itself use."""
    for op in block.ops:
        yield from op.args
    yield from block.results


def _users_names(block: Block) -> set[str]:
    """The names that values of the Program have."""
    values = [*block.params]
    for op in block.walk():
        values += [*op.results, *(p for region in op.regions for p in region.params)]
    return {identifier(v.name) for v in values if v.name}


def _identifiers(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", text))


def _negated(condition: Expr) -> str:
    if condition.strength == NOT:
        return condition.text.removeprefix("not ")
    if condition.negated:
        return condition.negated
    return f"not {condition.at(NOT)}"


def _range(values: Sequence[Value], bounds: Sequence[Expr]) -> str:
    start, stop, step = (e.text for e in bounds)
    if not isinstance(values[2], Const) or values[2].data != 1:
        return f"range({start}, {stop}, {step})"
    if isinstance(values[0], Const) and values[0].data == 0:
        return f"range({stop})"
    return f"range({start}, {stop})"
