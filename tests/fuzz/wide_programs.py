"""Random Python functions of a wider kind: objects, dicts, deques, closures, generators, recursion, ``try``, fancy writes.

What is made here goes beyond :mod:`tests.fuzz.source_programs`, whose statements are used as well. The functions still run
without an error for the arguments of that module, stay bounded, and have no ties where NumPy sorts or takes a maximum.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.fuzz.source_programs import Generator, N, Names

HEADER = '''\
import collections
import dataclasses
import math

import numpy as np

Pair = collections.namedtuple("Pair", "a b")


class Body:
    damping = 0.9

    def __init__(self, p, u):
        self.p = p
        self.u = u
        self.hits = 0
        self.past = []

    @property
    def energy(self):
        return 0.5 * self.p**2 + 0.1 * np.sum(self.u**2)

    def push(self, force):
        self.hits += 1
        self.p = self.damping * self.p + 0.1 * force
        return self.p

    def turn(self, k, angle):
        self.u[k % len(self.u)] *= np.cos(angle)
        return self

    def note(self):
        self.past.append(self.p)

    def __call__(self, z):
        return np.tanh(self.p * z)

    def __add__(self, other):
        return type(self)(0.5 * (self.p + other.p), 0.5 * (self.u + other.u))

    def __getitem__(self, k):
        return self.u[k]

    def __setitem__(self, k, value):
        self.u[k] = value

    def __len__(self):
        return len(self.u)


class Soft(Body):
    damping = 0.7

    def push(self, force):
        if force > 0.2:
            return super().push(0.5 * force)
        self.p -= 0.05 * np.sin(force)
        return self.p


@dataclasses.dataclass
class State:
    a: float
    v: np.ndarray

    def mixed(self, w):
        return dataclasses.replace(self, a=0.5 * (self.a + w))


class Scope:
    """Changes a body for the time of a block."""

    def __init__(self, body, p):
        self.body, self.p = body, p

    def __enter__(self):
        self.old, self.body.p = self.body.p, self.p
        return self.body

    def __exit__(self, *error):
        self.body.p = 0.9 * self.old + 0.1 * self.body.p
        return False


'''


class WideGenerator(Generator):
    """Writes one function; see :class:`~tests.fuzz.source_programs.Generator`."""

    header = HEADER

    def prologue(self) -> None:
        """A few objects, and functions of the kinds that are made at the start."""
        super().prologue()
        makers = [self.new_object, self.new_dict, self.new_deque, self.new_list, self.new_state]
        for make in makers:
            if self.choose(3) == 0:
                make()
        functions = [self.counter, self.recursion, self.generator, self.descent]
        for write in functions:
            if self.choose(4) == 0:
                write()

    def total(self) -> str:
        names = self.names
        parts = [super().total()]
        parts += [f"{o}.energy + 0.3 * {o}.p + 0.1 * {o}.hits + 0.2 * sum({o}.past)" for o in names.objects]
        parts += [f"{d}['a'] + np.sum({d}['v'] ** 2)" for d in names.dicts]
        parts += [f"{s}.a + np.sum(np.sin({s}.v))" for s in names.states]
        parts += [f"sum({q}) * 0.5" for q in names.deques]
        parts += [f"np.sum({z}.real * {z}.imag) + np.sum(np.abs({z}) ** 2)" for z in names.complexes]
        return " + ".join(parts)

    # ---- what is made -----------------------------------------------------------------------------------------------

    def new_object(self) -> None:
        o = self.new("o")
        made = f"{self.pick(['Body', 'Soft'])}({self.number(1)}, {self.vector(N, 1)} * 1.0)"
        old = self.names.objects
        if old:
            made = self.pick([made, made, self.pick(old), f"{self.pick(old)} + {self.pick(old)}"])
        self.write(f"{o} = {made}")
        self.names.objects.append(o)

    def new_dict(self) -> None:
        d = self.new("d")
        made = [
            f"{{'a': {self.number(1)}, 'v': {self.vector(N, 1)} * 1.0}}",
            f"dict(a={self.number(1)}, v=np.zeros({N}))",
        ]
        made += [self.pick(self.names.dicts), f"dict({self.pick(self.names.dicts)})"] if self.names.dicts else []
        self.write(f"{d} = {self.pick(made)}")
        self.names.dicts.append(d)

    def new_state(self) -> None:
        s = self.new("st")
        self.write(f"{s} = State({self.number(1)}, {self.vector(N, 1)} * 1.0)")
        self.names.states.append(s)

    def new_deque(self) -> None:
        q = self.new("q")
        length = self.pick(["", ", maxlen=3", ", maxlen=2"])
        self.write(f"{q} = collections.deque([{self.number(1)}, {self.number(0)}]{length})")
        self.names.deques.append(q)

    def new_list(self) -> None:
        a = self.new("l")
        self.write(f"{a} = [{self.number(1)}, {self.number(0)}]")
        self.names.lists.append(a)

    def new_comprehension(self) -> None:
        e = self.new("e")
        v = self.pick(list(self.names.vectors))
        made = [
            f"[{e} * {self.number(0)} for {e} in {v}]",
            f"[np.sin({e}) for {e} in range(1 + {self.integer()} % 3)]",
            f"[{self.number(0)}] + [{e} for {e} in {v} if {e} > {self.constant()}]",
            f"list(map(lambda {e}: 0.5 * {e}, {v}))",
            f"[{e} + d for {e}, d in zip({v}, {v}[::-1])]",
            f"sorted([{self.number(0)}, {self.number(0)} + 0.01, {self.number(0)} - 0.01])",
        ]
        a = self.new("l")
        self.write(f"{a} = {self.pick(made)}")
        self.names.lists.append(a)

    def new_complex(self) -> None:
        z, length = self.new("z"), self.pick([3, N])
        self.write(f"{z} = {self.vector(length, 1)} + 1j * {self.vector(length, 1)}")
        self.names.complexes[z] = length

    def new_indices(self) -> None:
        k = self.new("j")
        v = self.pick([w for w, n in self.names.vectors.items() if n == N])
        made = [
            f"np.argsort({v} + 0.01 * np.arange({N}))",
            f"np.array([{self.choose(N)}, {self.choose(N)}, {self.integer()} % {N}, 0])",
            f"(np.arange({N}) + {self.integer()}) % {N}",
            f"np.where({v} > {self.constant()}, 1, {N - 1})",
        ]
        self.write(f"{k} = {self.pick(made)}")
        self.names.permutations.append(k)

    # ---- functions made inside the function -------------------------------------------------------------------------

    def counter(self) -> None:
        """A closure that counts and changes a number of the function around it."""
        g, a = self.new("g"), self.new("a")
        self.write(f"{a} = {self.number(1)}")
        self.write(f"def {g}(p, q):")
        outer, self.names = self.names, Names(["p", "q", a], ["s"], ["n"], {"x": N})
        self.indent += 1
        self.write(f"nonlocal {a}")
        if self.choose(2):
            self.write(f"if {self.condition()}:")
            self.write(f"    {a} = 0.5 * {a} + 0.2 * np.sin({self.number(1)})")
        self.write(f"{a} {self.pick(['+= 0.1 *', '*= 0.5 +', '-= 0.2 *'])} np.cos({self.number(1)})")
        self.write(f"return {a} * p + q")
        self.indent -= 1
        self.names = outer
        self.names.functions.append(g)
        self.names.numbers.append(a)

    def recursion(self) -> None:
        """A function that calls itself to a depth known while staging, or that ends by a number."""
        g = self.new("r")
        self.write(f"def {g}(p, q, k=0):")
        outer, self.names = self.names, Names(["p", "q"], ["s"], ["n", "k"], {"x": N})
        self.indent += 1
        end = self.pick([f"k >= {1 + self.choose(3)}", f"k >= 3 or {self.condition()}", "k > n"])
        self.write(f"if {end}:")
        self.write(f"    return {self.number(1)}")
        self.write(f"return {self.pick(['0.5 * ', 'np.sin(p) + 0.7 * '])}{g}({self.number(1)}, 0.5 * q, k + 1)")
        self.indent -= 1
        self.names = outer
        self.names.functions.append(g)

    def generator(self) -> None:
        g = self.new("y")
        i = self.new("i")
        self.write(f"def {g}(p, q):")
        outer, self.names = self.names, Names(["p", "q"], ["s"], ["n", i], {"x": N})
        self.indent += 1
        self.write(f"for {i} in range({self.pick(['3', 'n', '1 + n % 3'])}):")
        self.indent += 1
        if self.choose(2):
            self.write(f"if {self.condition()}:")
            self.write(f"    {self.pick(['return', 'continue', 'p = 0.5 * p'])}")
        self.write(f"p = {self.number(1)}")
        self.write(f"yield {self.number(1)}")
        self.indent -= 1
        if self.choose(2):
            self.write(f"yield {self.number(1)}")
        self.indent -= 1
        self.names = outer
        self.names.generators.append(g)

    def descent(self) -> None:
        """A function with a loop that returns from inside."""
        g, k = self.new("w"), self.new("k")
        self.write(f"def {g}(p, q):")
        outer, self.names = self.names, Names(["p", "q"], ["s"], ["n", k], {"x": N, "y": N})
        self.indent += 1
        self.write(f"{k} = 0")
        self.write(self.pick(["while True:", f"while {k} < 7:"]))
        self.indent += 1
        self.write(f"if {k} > 4 or {self.condition()}:")
        self.write(f"    {self.pick(['break', f'return {self.number(1)}'])}")
        self.write(f"p, q = {self.number(1)}, 0.5 * p")
        self.write(f"{k} += 1")
        self.indent -= 1
        self.write(f"return {self.number(1)} + {k}")
        self.indent -= 1
        self.names = outer
        self.names.functions.append(g)

    # ---- expressions ------------------------------------------------------------------------------------------------

    def atom(self) -> str:
        if self.choose(3):
            return super().atom()
        names = self.names
        options = [f"{o}{self.pick(['.p', '.energy', f'[{self.index(N)}]'])}" for o in names.objects]
        options += [f"{d}{self.pick([_A, f'[{_V!r}][{self.index(N)}]'])}" for d in names.dicts]
        options += [f"{s}{self.pick(['.a', f'.v[{self.index(N)}]'])}" for s in names.states]
        options += [self.pick([f"{q}[0]", f"{q}[-1]", f"sum({q}) / len({q})"]) for q in names.deques]
        options += [f"{z}[{self.index(n)}]{self.pick(['.real', '.imag'])}" for z, n in names.complexes.items()]
        return self.pick(options) if options else super().atom()

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.choose(3):
            return super().number(depth)
        names = self.names
        a, v = self.number(depth - 1), self.vector(N, depth - 1)
        distinct = f"{v} + 0.01 * np.arange({N})"
        options = [
            f"np.max({distinct})",
            f"np.min({distinct})",
            f"np.sort({distinct})[{self.index(N)}]",
            f"np.prod(1.0 + 0.3 * {v})",
            f"0.3 * np.linalg.norm({v} + 0.05)",
            f"np.linalg.det(np.eye(2) + 0.2 * np.reshape({v}, (2, 2)))",
            f"np.std({v} + 0.1 * np.arange({N}))",
            f"np.median({distinct})",
            f"0.1 * np.einsum('i,i->', {v}, {v})",
            f"np.clip({a}, -0.63, 0.81)",
            f"float(np.argmax({distinct})) * 0.1 * {a}",
            f"max({a}, {self.constant()})",
            f"np.sum({v}, where={v} > {self.constant()})",
            f"Pair({a}, 0.3)._replace(b=0.2).a",
            f"math.hypot({a}, 0.4)",
            f"math.fsum([{a}, 0.5])",
            f"np.count_nonzero({v} > 0.1) * {a} * 0.2",
            f"np.trapezoid({v})",
            f"(lambda u: u * np.tanh(u))({a})",
            f"{a} * np.interp({a}, [-1.0, 0.1, 1.0], [0.2, -0.3, 0.7])",
        ]
        options += [f"{o}({a})" for o in names.objects] * 2
        options += [f"{o}.push({a})" for o in names.objects] * 2
        options += [f"{o}.turn({self.integer()}, {a}).p" for o in names.objects]
        options += [f"sum({g}({a}, 0.5))" for g in names.generators] * 2
        options += [f"{s}.mixed({a}).a" for s in names.states]
        options += [f"np.abs(np.vdot({z}, {z})) * 0.2" for z in names.complexes]
        options += [f"(np.exp(0.3 * {z}[0]) * {a}).real" for z in names.complexes]
        options += [f"next({g}({a}, 0.5), 0.25)" for g in names.generators]
        return self.pick(options)

    def vector(self, length: int, depth: int = 2) -> str:
        if depth == 0 or self.choose(4):
            return super().vector(length, depth)
        names = self.names
        a, b = self.vector(length, depth - 1), self.vector(length, depth - 1)
        distinct = f"{a} + 0.01 * np.arange({length})"
        options = [
            f"np.sort({distinct})",
            f"np.cumprod(1.0 + 0.2 * {a})",
            f"np.linalg.solve(2.0 * np.eye({length}) + 0.1 * np.outer({a}, {b}), {b})",
            f"np.roll({a}, {self.integer()})",
            f"np.concatenate([{a}[1:], {b}[:1]])",
            f"np.maximum({a}, {self.constant()})",
            f"np.clip({a}, -0.63, 0.81)",
            f"np.flip({a})",
            f"np.stack([{a}, {b}]).sum(axis=0) * 0.5",
            f"np.array([0.5 * e for e in {a}])",
            f"np.append({a}[:-1], {self.number(0)})",
            f"np.multiply({a}, {b}, where={b} > {self.constant()}, out=np.zeros({length}))",
            f"np.diff({a}, prepend={self.number(0)})",
            f"({a} if {self.condition()} else {b})",
        ]
        options += [f"{o}.u" for o in names.objects if length == N]
        options += [f"{d}['v']" for d in names.dicts if length == N]
        options += [f"{s}.v" for s in names.states if length == N]
        options += [f"np.take({a}, {k})" for k in names.permutations if length == N]
        options += [f"{a}[{k}]" for k in names.permutations if length == N]
        options += [f"({z} * np.exp(1j * {self.number(0)})).real" for z, n in names.complexes.items() if n == length]
        options += [f"np.imag(np.conj({z}) * {a})" for z, n in names.complexes.items() if n == length]
        if length == N:
            options.append(f"np.reshape({a}, (2, 2)).T.reshape(-1)")
        return self.pick(options)

    def condition(self) -> str:
        if self.choose(5):
            return super().condition()
        names = self.names
        v = self.pick(list(names.vectors))
        options = [
            f"np.any({v} > 0.7)",
            f"np.all({v} < 0.9)",
            f"len({v}) > 2",
            f"{v}.shape[0] == 3",
            f"{v}.sum() > 0.1",
        ]
        options += [f"{o}.hits > 1" for o in names.objects]
        options += [f"isinstance({o}, Soft)" for o in names.objects]
        options += [f"len({q}) > 2" for q in [*names.deques, *names.lists]]
        options += [f"(c := {self.number(0)}) > 0.1 and c < 0.8"] if not self.loops else []
        return self.pick(options)

    # ---- statements -------------------------------------------------------------------------------------------------

    def statement(self) -> None:
        if self.choose(2):
            super().statement()
            return
        self.budget -= 1
        names = self.names
        options: list[Callable[[], None]] = [self.write_fancy] * 2 + [self.write_out, self.new_indices]
        options += [self.new_complex, self.new_comprehension]
        options += [self.write_object] * (4 * bool(names.objects)) + [self.write_dict] * (4 * bool(names.dicts))
        options += [self.write_state] * (2 * bool(names.states)) + [self.write_deque] * (3 * bool(names.deques))
        options += [self.write_list] * (3 * bool(names.lists)) + [self.write_complex] * (2 * bool(names.complexes))
        if self.indent < 4:
            options += [self.new_object, self.new_dict]
        if self.budget > 0 and self.indent < 5:
            options += [self.attempt] * 2 + [self.match]
            options += [self.over_generator] * (2 * bool(names.generators)) + [self.scope] * bool(names.objects)
        self.pick(options)()

    def write_fancy(self) -> None:
        """Write through index arrays, masks and views of views."""
        v = self.pick(list(self.names.vectors))
        n = self.names.vectors[v]
        i, j = self.choose(n), (self.choose(n - 1) + 1) % n
        options = [
            f"{v}[[{i}, {j}]] = {self.number(1)}",
            f"{v}[[{i}, {i}]] += {self.number(1)}",
            f"{v}[np.array([0, {j}])] *= np.cos({self.vector(2, 1)})",
            f"{v}[{v} > {self.constant()}] *= 0.5",
            f"{v}[{v} < {self.constant()}] = {self.number(1)}",
            f"{v}[{v} > {self.constant()}] += {self.number(1)}",
            f"np.add.at({v}, [0, 0, {j}], 0.3 * np.sin({self.vector(3, 1)}))",
            f"{v}[::-1][:2] = np.sin({self.vector(2, 1)})",
            f"{v}[1:][0] += {self.number(1)}",
            f"{v}.fill({self.number(1)})",
            f"np.copyto({v}, {self.vector(n, 1)}, where={v} > {self.constant()})",
            f"{v}[...] = {self.vector(n, 1)}",
            f"{v}[:], {v}[{i}] = {self.vector(n, 1)}, {self.number(1)}",
            f"{v}.sort()",
        ]
        if n == N:
            options += [f"{v}.reshape(2, 2)[0] = {self.vector(2, 1)}", f"{v}.reshape(2, 2)[:, 1] *= {self.number(0)}"]
            options += [f"{v}[{k}] = {self.vector(N, 1)}" for k in self.names.permutations]
            options += [f"{v}[{k}] += 0.2 * np.sin({self.vector(N, 1)})" for k in self.names.permutations]
        self.write(self.pick(options[:-1] if options[-1].endswith("sort()") and self.choose(4) else options))

    def write_out(self) -> None:
        v = self.pick(list(self.names.vectors))
        n = self.names.vectors[v]
        a, b = self.vector(n, 1), self.vector(n, 1)
        self.write(
            self.pick(
                [
                    f"np.sin({a}, out={v})",
                    f"np.multiply({a}, np.cos({b}), out={v})",
                    f"np.add({v}, 0.3 * np.sin({b}), out={v})",
                    f"np.tanh({a}, out={v}, where={b} > {self.constant()})",
                    f"np.subtract({a}, {self.number(0)}, {v})",
                    f"np.cumsum(0.3 * {a}, out={v})",
                    f"np.maximum({v}, {self.constant()}, out={v})",
                    f"np.clip({v}, -0.77, 0.83, out={v})",
                ]
            )
        )

    def write_object(self) -> None:
        o = self.pick(self.names.objects)
        self.write(
            self.pick(
                [
                    f"{o}.p = {self.number(1)}",
                    f"{o}.p += 0.3 * np.sin({self.number(1)})",
                    f"{o}.push({self.number(1)})",
                    f"{o}.turn({self.integer()}, {self.number(1)}).note()",
                    f"{o}.u[{self.index(N)}] = {self.number(1)}",
                    f"{o}.u *= np.cos({self.vector(N, 1)})",
                    f"{o}.u = {self.vector(N, 1)} * 1.0",
                    f"{o}[{self.index(N)}] = {self.number(1)}",
                    f"{o}.note()",
                    f"{o}.hits += {self.choose(3)}",
                    f"setattr({o}, 'p', getattr({o}, 'p') * np.cos({self.number(1)}))",
                    f"{o} = {o} + {self.pick(self.names.objects)}",
                    f"{o}.p, {o}.u[0] = {o}.u[0], {o}.p",
                    f"{o}.past = {o}.past[-2:] + [{self.number(0)}]",
                    f"{o} = {self.pick(self.names.objects)}",
                ]
            )
        )

    def write_dict(self) -> None:
        d = self.pick(self.names.dicts)
        self.write(
            self.pick(
                [
                    f"{d}['a'] = {self.number(1)}",
                    f"{d}['a'] *= np.cos({self.number(1)})",
                    f"{d}['v'][{self.index(N)}] += 0.3 * np.sin({self.number(1)})",
                    f"{d}['v'] = {self.vector(N, 1)} * 1.0",
                    f"{d}['v'] *= np.cos({self.vector(N, 1)})",
                    f"{d}.update(a={self.number(1)})",
                    f"{d} = {{**{d}, 'a': {self.number(1)}}}",
                    f"{d}['a'] = {d}.get('b', {self.number(0)}) + {d}.setdefault('a', 0.0)",
                    f"{d}['a'] += {d}.pop('c', 0.25)",
                    f"{d} = {{k: 0.9 * w for k, w in {d}.items()}}",
                    f"for k in {d}:\n{'    ' * (self.indent + 1)}{d}[k] = {d}[k] * 0.9",
                ]
            )
        )

    def write_state(self) -> None:
        s = self.pick(self.names.states)
        self.write(
            self.pick(
                [
                    f"{s}.a += 0.2 * np.sin({self.number(1)})",
                    f"{s}.v[{self.index(N)}] = {self.number(1)}",
                    f"{s} = {s}.mixed({self.number(1)})",
                    f"{s} = State({self.number(1)}, {s}.v)",
                    f"{s}.v = {self.vector(N, 1)} * 1.0",
                ]
            )
        )

    def write_deque(self) -> None:
        q = self.pick(self.names.deques)
        self.write(
            self.pick(
                [
                    f"{q}.append({self.number(1)})",
                    f"{q}.appendleft({self.number(1)})",
                    f"{q}.append(0.5 * {q}.popleft())",
                    f"{q}.rotate(1)",
                    f"{q}[-1] = {self.number(1)}",
                    f"{q}.extend([{self.number(0)}])",
                ]
            )
        )

    def write_list(self) -> None:
        a = self.pick(self.names.lists)
        self.write(
            self.pick(
                [
                    f"{a}.append({self.number(1)})",
                    f"{a}[-1] = {self.number(1)}",
                    f"{a}[0] += 0.2 * np.sin({self.number(1)})",
                    f"{a}.append(0.5 * {a}.pop())",
                    f"{a} = {a} + [{self.number(0)}]",
                    f"{a} += [{self.number(0)}]",
                    f"{a}.extend([{self.number(0)}, {self.number(0)}])",
                    f"{a}.insert(0, {self.number(0)})",
                    f"{a}.reverse()",
                    f"{a}[0], {a}[-1] = {a}[-1], {a}[0]",
                    f"{a} = [0.9 * e for e in {a}]",
                    f"{a}[:1] = [{self.number(0)}]",
                ]
            )
        )

    def write_complex(self) -> None:
        z = self.pick(list(self.names.complexes))
        n = self.names.complexes[z]
        self.write(
            self.pick(
                [
                    f"{z}[{self.index(n)}] = {self.number(1)} + 0.5j",
                    f"{z} *= np.exp(1j * {self.number(1)})",
                    f"{z}.real[{self.index(n)}] += {self.number(1)}",
                    f"{z}.imag = {self.vector(n, 1)}",
                    f"{z} = np.conj({z}) * {self.number(0)}",
                    f"{z}[1:] += 0.2j * {z}[:-1]",
                    f"{z} = np.fft.fft({z}) / {n}.0",
                ]
            )
        )

    def attempt(self) -> None:
        """A ``try`` around statements, with something that may be raised in it."""
        deeper = "    " * (self.indent + 2)
        error, trigger = self.pick(
            [
                ("ValueError", f"if {self.condition()}:\n{deeper}raise ValueError('no')"),
                ("ValueError", f"{self.new('b')} = math.sqrt({self.number(1)})"),
                ("ZeroDivisionError", f"{self.new('b')} = 1.0 / ({self.integer()} % 2)"),
                ("IndexError", f"{self.new('b')} = x[{self.integer()} + 2]"),
                ("KeyError", f"{self.new('b')} = {{'a': 1.0}}['{self.pick('ab')}']"),
                ("(ValueError, np.linalg.LinAlgError)", f"np.linalg.inv(np.diag({self.vector(2, 1)}))"),
            ]
        )
        self.write("try:")
        with self.block():
            if self.choose(2):
                self.body(2)
            self.write(trigger)
            self.body(2)
        self.write(f"except {error}:")
        with self.block():
            self.body(2)
        if self.choose(3) == 0:
            self.write("else:")
            with self.block():
                self.body(1)
        if self.choose(3) == 0:
            self.write("finally:")
            with self.block():
                self.assign_number()

    def match(self) -> None:
        self.write(f"match {self.pick([f'{self.integer()} % 3', f'({self.number(0)}, {self.integer()} % 2)'])}:")
        self.indent += 1
        for pattern in ("0", "(e0, 1)", "_"):
            self.write(f"case {pattern}:")
            with self.block():
                if pattern.startswith("("):
                    self.names.fixed.append("e0")
                self.body(2)
        self.indent -= 1

    def over_generator(self) -> None:
        e = self.new("e")
        calls = [f"{g}({self.number(1)}, {self.number(0)})" for g in self.names.generators]
        self.write(f"for {e} in {self.pick(calls)}:")
        with self.loop([], [e]):
            self.body(3)

    def scope(self) -> None:
        self.write(f"with Scope({self.pick(self.names.objects)}, {self.number(1)}):")
        with self.block():
            self.body(2)


_A, _V = "['a']", "v"


def random_wide_source(seed: int, size: int = 10) -> str:
    """The source of a random function ``f(x, y, m, s, t, n)``, by seed."""
    return WideGenerator(random.Random(seed).randrange).function(size)
