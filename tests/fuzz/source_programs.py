"""Random Python functions as source text: scalars, arrays, views and aliases, lists, loops, branches, jumps, closures.

The generator knows the kind and the length of every name for the arguments it makes, so the functions run without an
error. Every operation is bounded, so values grow slowly, and smooth but for the branches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

N, ROWS = 4, 3  # lengths of the array arguments: x and y have N elements, m is ROWS × N


@dataclass
class Names:
    """What may be used at a place: names by kind. ``vectors`` and ``matrices`` with their shapes."""

    numbers: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)  # numbers that are not assigned: elements of a loop
    integers: list[str] = field(default_factory=list)
    vectors: dict[str, int] = field(default_factory=dict)
    matrices: dict[str, tuple[int, int]] = field(default_factory=dict)
    lists: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    # what only wide_programs.py makes
    objects: list[str] = field(default_factory=list)
    dicts: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    deques: list[str] = field(default_factory=list)
    generators: list[str] = field(default_factory=list)
    permutations: list[str] = field(default_factory=list)  # arrays of indices into vectors of length N
    complexes: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Names:
        return Names(*(copy(getattr(self, kind.name)) for kind in fields(self)))


class Generator:
    """Writes one function; ``choose(n)`` draws an integer below n."""

    header = "import math\n\nimport numpy as np\n\n\n"

    def __init__(self, choose: Callable[[int], int]):
        self.choose = choose
        self.lines: list[str] = []
        self.indent = 1
        self.count = 0
        self.loops = 0  # loops around the present place
        self.budget = 0
        self.names = Names(["s", "t"], [], ["n"], {"x": N, "y": N}, {"m": (ROWS, N)})

    def function(self, size: int) -> str:
        """The source of a module with a function ``f(x, y, m, s, t, n)`` of about ``size`` statements."""
        self.prologue()
        self.budget = size
        while self.budget > 0:
            self.statement()
        self.write(f"return {self.total()}")
        return self.header + "def f(x, y, m, s, t, n):\n" + "\n".join(self.lines) + "\n"

    def prologue(self) -> None:
        if self.choose(3) == 0:
            self.closure()
        if self.choose(3) == 0:
            self.write(f"l0 = [{self.number()}]")
            self.names.lists.append("l0")

    # ---- writing ----------------------------------------------------------------------------------------------------

    def write(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.choose(len(items))]

    @contextmanager
    def block(self) -> Any:
        """An indented block: names made in it are not used after it."""
        outer, self.names = self.names, self.names.copy()
        self.indent += 1
        yield
        self.indent -= 1
        self.names = outer

    def body(self, most: int = 3) -> None:
        for _ in range(1 + self.choose(most)):
            self.statement()

    def total(self) -> str:
        parts = [*self.names.numbers, *(f"np.sum({v} * {self.constant()})" for v in self.names.vectors)]
        parts += [f"np.sum({a} ** 2)" for a in self.names.matrices]
        parts += [self.pick([f"sum({a})", f"np.sum(np.array({a}) ** 2)", f"{a}[-1]"]) for a in self.names.lists]
        return " + ".join(parts)

    # ---- expressions ------------------------------------------------------------------------------------------------

    def constant(self) -> str:
        return self.pick(["0.5", "-0.7", "1.3", "0.25", "2", "-1.1"])

    def integer(self) -> str:
        return self.pick([*self.names.integers, "1", "2", "3"])

    def index(self, length: int) -> str:
        """An index into an axis of this length."""
        options = [str(self.choose(length)), str(-1 - self.choose(length))]
        if self.names.integers:
            i = self.pick(self.names.integers)
            options += [f"{i} % {length}", f"-1 - {i} % {length}"]
        return self.pick(options)

    def atom(self) -> str:
        kind = self.choose(10)
        if kind < 4:
            return self.pick([*self.names.numbers, *self.names.fixed])
        if kind < 7:
            v = self.pick(list(self.names.vectors))
            return f"{v}[{self.index(self.names.vectors[v])}]"
        if kind == 7 and self.names.matrices:
            a = self.pick(list(self.names.matrices))
            rows, columns = self.names.matrices[a]
            return self.pick(
                [f"{a}[{self.index(rows)}, {self.index(columns)}]", f"{a}[{self.index(rows)}][{self.index(columns)}]"]
            )
        if kind == 8 and self.names.lists:
            a = self.pick(self.names.lists)
            return self.pick([f"{a}[-1]", f"{a}[0]", f"sum({a}) / len({a})"])
        return self.constant()

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.choose(4) == 0:
            return self.atom()
        a, b = self.number(depth - 1), self.number(depth - 1)
        options = [
            f"(0.6 * {a} + 0.4 * {b})",
            f"(0.7 * {a} - 0.3 * {b})",
            f"np.sin({a} * {b})",
            f"{a} / (1.5 + {b} ** 2)",
            f"{a} * math.cos({b})",
            f"math.tanh({a})",
            f"0.5 * np.sqrt(1.0 + {a} ** 2)",
            f"np.exp(-({a} ** 2)) * {b}",
            f"np.mean({self.vector(self.pick([2, 3, N]), 1)})",
            f"0.2 * np.dot({self.vector(3, 0)}, {self.vector(3, 0)}) / (1 + {a} ** 2)",
            f"({a} if {self.condition()} else {b})",
        ]
        if self.names.functions:
            options += [f"{self.pick(self.names.functions)}({a}, {b})"] * 2
        return self.pick(options)

    def slices(self, length: int, wanted: int) -> list[str]:
        """Slices of an axis that give ``wanted`` elements."""
        out = [f"[{a}:{a + wanted}]" for a in range(length - wanted + 1)]
        if length == wanted:
            out += ["[:]", "[::-1]"]
        if wanted < length:
            out += [f"[-{wanted}:]", f"[:-{length - wanted}]", f"[{length - wanted}:]"]
        if 2 * wanted <= length:
            out += [f"[:{2 * wanted}:2]", f"[1:{2 * wanted}:2]"]
        return out

    def view(self, wanted: int) -> str | None:
        """A view of ``wanted`` elements of some array."""
        options = [f"{v}{s}" for v, n in self.names.vectors.items() if n >= wanted for s in self.slices(n, wanted)]
        for a, (rows, columns) in self.names.matrices.items():
            if columns >= wanted:
                options += [f"{a}[{self.index(rows)}]{s}" for s in self.slices(columns, wanted)]
            if rows >= wanted:
                options += [f"{a}[{s[1:-1]}, {self.index(columns)}]" for s in self.slices(rows, wanted)]
        return self.pick(options) if options else None

    def vector(self, length: int, depth: int = 2) -> str:
        if depth == 0 or self.choose(4) == 0:
            whole = [v for v, n in self.names.vectors.items() if n == length]
            if whole and self.choose(2):
                return self.pick(whole)
            view = self.view(length)
            if view is not None and self.choose(4):
                return view
            return self.pick(
                [
                    f"np.array([{', '.join(self.number(0) for _ in range(length))}])",
                    f"np.full({length}, {self.number(0)})",
                ]
            )
        a, b = self.vector(length, depth - 1), self.vector(length, depth - 1)
        c = self.number(1)
        options = [
            f"(0.6 * {a} + 0.4 * {b})",
            f"np.sin({a} * {b})",
            f"{a} / (1.5 + {b} ** 2)",
            f"{a} * np.cos({c})",
            f"(0.5 * {a} - {c})",
            f"np.tanh({a})",
            f"np.where({a} > {self.constant()}, {b}, 0.3 * {a})",
            f"0.3 * np.cumsum({a})",
        ]
        fitting = [k for k, shape in self.names.matrices.items() if shape == (length, N)]
        if fitting:
            options.append(f"np.tanh({self.pick(fitting)} @ {self.vector(N, 0)})")
        return self.pick(options)

    def condition(self) -> str:
        kind = self.choose(6)
        if kind == 0 and self.names.integers:
            return f"{self.pick(self.names.integers)} {self.pick(['<', '>=', '=='])} {self.choose(4)}"
        if kind == 1 and self.names.integers:
            return f"{self.pick(self.names.integers)} % 2 == {self.choose(2)}"
        a, b = self.atom(), self.pick([self.atom(), "0.3", "0.0", "-0.4"])
        if kind == 2:
            return f"-0.6 < {a} < {b} + 1.0"
        if kind == 3:
            return f"{a} > {b} {self.pick(['and', 'or'])} {self.atom()} < 0.8"
        if kind == 4:
            return f"not {a} < {b}"
        return f"{a} {self.pick(['<', '>'])} {b}"

    # ---- statements -------------------------------------------------------------------------------------------------

    def statement(self) -> None:
        self.budget -= 1
        simple = [self.assign_number] * 3 + [self.augment_number] * 2 + [self.new_vector] * 2 + [self.write_vector] * 5
        simple += [self.write_matrix, self.swap, self.alias]
        if self.names.lists:
            simple += [self.append]
        if self.loops and self.indent > 2:
            simple += [self.jump]
        if self.budget > 0 and self.indent < 5:
            simple += [self.branch] * 3 + [self.for_loop] * 3 + [self.while_loop]
        self.pick(simple)()

    def assign_number(self) -> None:
        if self.choose(3) == 0:
            a, value = self.new("a"), self.number()
            self.names.numbers.append(a)
        else:
            a = self.pick(self.names.numbers)
            value = self.pick([self.number(), self.number(), str(self.choose(3))])
        self.write(f"{a} = {value}")

    def augment_number(self) -> None:
        a = self.pick(self.names.numbers)
        self.write(
            self.pick(
                [
                    f"{a} += 0.3 * np.sin({self.number(1)})",
                    f"{a} *= math.cos({self.number(1)})",
                    f"{a} /= 1.5 + {self.number(0)} ** 2",
                ]
            )
        )

    def new_vector(self) -> None:
        length = self.pick([2, 3, N])
        v = self.new("v")
        options = [self.vector(length), f"np.zeros({length})", f"0.5 * np.arange({float(length)})"]
        if (view := self.view(length)) is not None:
            options += [view, f"{view}.copy()", f"np.array({view})", f"np.asarray({view})"]
        self.write(f"{v} = {self.pick(options)}")
        self.names.vectors[v] = length

    def write_vector(self) -> None:
        v = self.pick(list(self.names.vectors))
        n = self.names.vectors[v]
        kind = self.choose(5)
        if kind == 0:
            self.write(f"{v}[{self.index(n)}] = {self.number()}")
        elif kind == 1:
            self.write(f"{v}[{self.index(n)}] {self.pick(['+=', '-='])} 0.3 * np.sin({self.number(1)})")
        elif kind == 2:
            self.write(
                f"{v} {self.pick(['+= 0.3 *', '-= 0.3 *', '*='])} np.sin({self.pick([self.vector(n, 1), self.number(1)])})"
            )
        else:
            wanted = 1 + self.choose(n)
            part = self.pick(self.slices(n, wanted))
            value = self.pick([self.vector(wanted, 1), self.number(1)])
            self.write(
                self.pick(
                    [f"{v}{part} = {value}", f"{v}{part} += 0.3 * np.sin({value})", f"{v}{part} *= np.cos({value})"]
                )
            )

    def write_matrix(self) -> None:
        if not self.names.matrices or self.choose(5) == 0:
            a = self.new("m")
            rows, columns = self.pick([(ROWS, N), (2, 3)])
            made = f"np.outer({self.vector(rows, 1)}, {self.vector(columns, 1)})"
            old = [k for k, s in self.names.matrices.items() if s == (rows, columns)]
            options = [made, f"np.zeros(({rows}, {columns}))", *(f"{k}.copy()" for k in old), *old]
            self.write(f"{a} = {self.pick(options)}")
            self.names.matrices[a] = rows, columns
            return
        a = self.pick(list(self.names.matrices))
        rows, columns = self.names.matrices[a]
        i, j = self.index(rows), self.index(columns)
        self.write(
            self.pick(
                [
                    f"{a}[{i}, {j}] = {self.number(1)}",
                    f"{a}[{i}] = {self.vector(columns, 1)}",
                    f"{a}[:, {j}] = {self.vector(rows, 1)}",
                    f"{a}[{i}, 1:] *= np.cos({self.vector(columns - 1, 1)})",
                    f"{a} += 0.3 * np.sin({self.vector(columns, 1)})",
                    f"{a}.T[{j}] = 0.5 * {a}[:, 0] + {self.number(0)}",
                    f"{a}[{i}] -= 0.2 * {a}[0]",
                    f"{a}[1:, :2] = 0.5 * {a}[:-1, 1:3]",
                ]
            )
        )

    def swap(self) -> None:
        kind = self.choose(3)
        v = self.pick(list(self.names.vectors))
        n = self.names.vectors[v]
        if kind == 0 and len(self.names.numbers) > 1:
            a, b = self.pick(self.names.numbers), self.pick(self.names.numbers)
            self.write(f"{a}, {b} = {b}, {self.pick([a, self.number(1)])}")
        elif kind == 1:
            i, j = self.index(n), self.index(n)
            self.write(f"{v}[{i}], {v}[{j}] = {v}[{j}], {v}[{i}]")
        else:
            w = self.pick([k for k, length in self.names.vectors.items() if length == n])
            self.write(f"{v}, {w} = {w}, {v}")

    def alias(self) -> None:
        v = self.pick(list(self.names.vectors))
        n = self.names.vectors[v]
        same = [k for k, length in self.names.vectors.items() if length == n and k != v]
        if same and self.choose(2):
            self.write(f"{v} = {self.pick([*same, self.vector(n, 1)])}")
        else:
            z = self.new("v")
            self.write(f"{z} = {v}")
            self.names.vectors[z] = n

    def append(self) -> None:
        self.write(f"{self.pick(self.names.lists)}.append({self.number(1)})")

    def jump(self) -> None:
        self.write(f"if {self.condition()}:")
        self.indent += 1
        self.write(self.pick(["break", "continue", "continue", f"return {self.number()} + {self.total()}"]))
        self.indent -= 1

    def branch(self) -> None:
        self.write(f"if {self.condition()}:")
        with self.block():
            self.body()
        if self.choose(3) == 0:
            self.write(f"elif {self.condition()}:")
            with self.block():
                self.body(2)
        if self.choose(2):
            self.write("else:")
            with self.block():
                self.body()

    def for_loop(self) -> None:
        i, e = self.new("i"), self.new("e")
        v = self.pick(list(self.names.vectors))
        n = self.names.vectors[v]
        integers = [i]
        fixed: list[str] = []
        kind = self.choose(7)
        if kind < 3:
            bounds = [
                str(self.choose(5)),
                "n",
                f"len({v})",
                f"1, {n}",
                f"{n - 1}, -1, -1",
                self.integer(),
                f"{self.integer()} % 3",
            ]
            self.write(f"for {i} in range({self.pick(bounds)}):")
        elif kind == 3:
            self.write(f"for {e} in {self.pick([v, f'{v}[::-1]', f'{v}[1:]'])}:")
            integers, fixed = [], [e]
        elif kind == 4:
            self.write(f"for {i}, {e} in enumerate({v}):")
            fixed = [e]
        elif kind == 5:
            w = self.pick(list(self.names.vectors))
            d = self.new("e")
            self.write(f"for {e}, {d} in zip({v}, {w}):")
            integers, fixed = [], [e, d]
        else:
            self.write(f"for {e} in [{self.number(0)}, {self.number(0)}]:")
            integers, fixed = [], [e]
        with self.loop(integers, fixed):
            self.body(4)
        if self.choose(6) == 0:
            self.write("else:")
            with self.block():
                self.body(1)

    def while_loop(self) -> None:
        k = self.new("k")
        self.write(f"{k} = 0")
        if self.choose(2):
            self.write(f"while {k} < {1 + self.choose(5)}:")
        else:
            a = self.pick(self.names.numbers)
            self.write(f"while {k} < 6 and {a} {self.pick(['> -0.5', '< 0.9'])}:")
        with self.loop([k], []):
            self.write(f"{k} += 1")
            self.body(3)

    @contextmanager
    def loop(self, integers: Sequence[str], fixed: Sequence[str]) -> Any:
        with self.block():
            self.names.integers += integers
            self.names.fixed += fixed
            self.loops += 1
            yield
            self.loops -= 1

    def closure(self) -> None:
        g = self.new("g")
        self.write(f"def {g}(p, q):")
        outer, self.names = self.names, Names(["p", "q"], ["s"], ["n"], {"x": N})
        self.indent += 1
        if self.choose(2):
            self.write(f"if {self.condition()}:")
            self.write(f"    return {self.number(1)}")
        self.write(f"p = {self.number(1)}")
        self.write(f"return {self.number(1)} + p * q")
        self.indent -= 1
        self.names = outer
        self.names.functions.append(g)


def source(choose: Callable[[int], int], size: int = 10) -> str:
    """The source of a random function ``f(x, y, m, s, t, n)``; ``choose(n)`` draws an integer below n."""
    return Generator(choose).function(size)


def random_source(seed: int, size: int = 10) -> str:
    """The source of a seed."""
    return source(random.Random(seed).randrange, size)


def arguments(seed: int) -> list[Any]:
    """Arguments for such a function."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return rng.uniform(-1.0, 1.0, shape)

    return [draw(N), draw(N), draw(ROWS, N), float(draw()), float(draw()), int(rng.integers(0, 5))]
