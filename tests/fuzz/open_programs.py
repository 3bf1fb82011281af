"""Random Python functions open to the outside: objects as arguments, and globals and closure variables read and written.

The functions are ``f(model, x, data, s, n)``. ``model`` is an object with floats, arrays, lists, a dict, a named tuple and
objects in it; ``data`` holds float32, integer and boolean arrays. Their modules also have ``arguments(seed)``, ``change(k)``,
which changes what is outside before call number k, and ``outside()``, which returns it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.fuzz.source_programs import ROWS, N, Names
from tests.fuzz.wide_programs import HEADER, WideGenerator

OPEN_HEADER = f"""{HEADER}
class Model:
    def __init__(self, draw):
        self.name = "model"
        self.gain = float(draw())
        self.layers = [Body(float(draw()), draw({N})), Soft(float(draw()), draw({N}))]
        self.values = [float(draw()), float(draw())]
        self.pair = Pair(float(draw()), draw({N}))
        self.table = {{"a": float(draw()), "v": draw({N})}}
        self.state = State(float(draw()), draw({N}))
        self.m = draw({ROWS}, {N})
        self.calls = 0


@dataclasses.dataclass
class Data:
    single: np.ndarray
    ids: np.ndarray
    counts: np.ndarray
    mask: np.ndarray


def arguments(seed):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.uniform(-1.0, 1.0, shape)

    ids, counts = rng.integers(0, {N}, {N}), rng.integers(0, 5, {N}, dtype=np.int32)
    data = Data(draw({N}).astype(np.float32), ids, counts, rng.random({N}) > 0.4)
    return [Model(draw), draw({N}), data, float(draw()), int(rng.integers(0, 5))]


GAIN = 0.8
BIAS = np.linspace(-0.4, 0.5, {N})
BANK = Soft(0.3, np.linspace(0.6, -0.7, {N}))
TABLE = {{"a": 0.4, "v": np.linspace(-0.2, 0.9, {N})}}
LOG = [0.15]


def make(scale, shift):
"""

FOOTER = f"""
    def change(k):
        global GAIN, BIAS, BANK, TABLE
        nonlocal scale, shift
        GAIN, scale = 0.3 + 0.1 * k, 0.7 - 0.4 * k
        BANK.p = 0.2 * k - 0.1
        BIAS[k % {N}] = 0.3
        shift = np.linspace(-0.5, 0.2 * k, {N})
        TABLE["v"][0] = -0.2 * k
        LOG[:] = [0.15]
        if k == 2:
            BANK, TABLE, BIAS = Body(0.1, BIAS * 0.5), {{"a": -0.3, "v": BIAS + 0.1}}, BIAS * 0.9

    def outside():
        return [GAIN, BIAS, BANK, TABLE, LOG, scale, shift]

    return f, change, outside


f, change, outside = make(0.6, np.linspace(0.8, -0.6, {N}))
"""


class OpenGenerator(WideGenerator):
    """Writes one module; see :class:`~tests.fuzz.source_programs.Generator`."""

    def function(self, size: int) -> str:
        self.indent = 2
        self.names = Names(
            numbers=["s", "t", "GAIN", "scale", "model.gain", "TABLE['a']"],
            fixed=["model.pair.a"],
            integers=["n"],
            vectors={v: N for v in ("x", "y", "BIAS", "shift", "model.layers[0].u", "model.table['v']")},
            matrices={"m": (ROWS, N), "model.m": (ROWS, N)},
            lists=["LOG", "model.values"],
            objects=["BANK", "model.layers[0]", "model.layers[1]"],
            dicts=["TABLE", "model.table"],
            states=["model.state"],
        )
        self.write("global GAIN, BIAS, BANK, TABLE, LOG")
        self.write("nonlocal scale, shift")
        self.write("y, m, t = model.pair.b, model.m, model.layers[1].p")
        self.prologue()
        self.budget = size
        while self.budget > 0:
            self.statement()
        self.write(f"return {self.total()}")
        return OPEN_HEADER + "    def f(model, x, data, s, n):\n" + "\n".join(self.lines) + "\n" + FOOTER

    def integer(self) -> str:
        if self.choose(4):
            return super().integer()
        i = self.index(N)
        return self.pick(
            [
                f"data.ids[{i}]",
                f"int(data.counts[{i}])",
                "data.mask.sum()",
                f"data.ids[data.ids[{i}]]",
                "model.calls % 3",
            ]
        )

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.choose(6):
            return super().number(depth)
        a, i = self.number(depth - 1), self.index(N)
        options = [
            f"data.counts[{i}] * 0.2 * {a}",
            f"float(data.single[{i}]) * {a}",
            f"np.sum(data.single * {self.vector(N, depth - 1)})",
            f"{self.vector(N, depth - 1)}[data.mask].sum()",
            f"{self.vector(N, 0)}[data.ids[{i}]]",
            f"(0.2 * data.counts @ ({self.vector(N, depth - 1)}))",
        ]
        return self.pick(options)

    def vector(self, length: int, depth: int = 2) -> str:
        if depth == 0 or length != N or self.choose(6):
            return super().vector(length, depth)
        a, b = self.vector(N, depth - 1), self.vector(N, depth - 1)
        options = [
            f"({a} * data.single)",
            f"({a})[data.ids]",
            f"np.where(data.mask, {a}, {b})",
            f"{a} / (1 + data.counts)",
            f"np.bincount(data.ids, weights={a}, minlength={N})[:{N}]",
            f"({a} * data.mask)",
            f"np.where(data.counts > 1, {a}, data.single)",
            f"np.asarray({a}, dtype=float)",
            f"(-data.single + {a} ** 2 / (1 + {b} ** 2))",
        ]
        return self.pick(options)

    def condition(self) -> str:
        if self.choose(5):
            return super().condition()
        i = self.index(N)
        options = [f"data.mask[{i}]", f"data.counts[{i}] > 2", "data.ids.max() > 2", "data.mask.any()"]
        return self.pick(
            [*options, "model.name == 'model'", "model.calls > 1", f"data.single[{i}] > 0.1", "len(LOG) > 2"]
        )

    def statement(self) -> None:
        if self.choose(4):
            super().statement()
            return
        options: list[Callable[[], None]] = [self.write_data] * 2 + [self.keep] * 2
        self.budget -= 1
        self.pick([*options, self.over_data] if self.budget > 0 and self.indent < 5 else options)()

    def write_data(self) -> None:
        """Write to the arrays of the data, or through them."""
        v = self.pick([v for v, n in self.names.vectors.items() if n == N])
        i = self.index(N)
        self.write(
            self.pick(
                [
                    f"data.ids[{i}] = (data.ids[{i}] + {self.integer()}) % {N}",
                    "data.counts += 1",
                    f"data.counts[{i}] //= 2",
                    "data.single *= 0.5",
                    f"data.mask[{i}] = {self.condition()}",
                    "data.mask = ~data.mask",
                    f"{v}[data.mask] = {self.number(1)}",
                    f"{v}[data.ids] += 0.2 * {self.number(1)}",
                    f"{v}[~data.mask] *= {self.number(0)}",
                    f"np.add.at({v}, data.ids, 0.2 * data.single)",
                    f"{v} += data.single",
                ]
            )
        )

    def keep(self) -> None:
        """Leave something outside, or in the model."""
        w = self.vector(N, 1)
        self.write(
            self.pick(
                [
                    f"BIAS = {w} * 1.0",
                    f"BIAS += 0.3 * np.sin({w})",
                    f"shift = {w} + 0.0",
                    f"scale = {self.number(1)}",
                    f"GAIN += 0.1 * {self.number(1)}",
                    f"LOG.append({self.number(1)})",
                    "TABLE['v'] = BIAS",
                    f"TABLE = {{'a': {self.number(0)}, 'v': {w} * 1.0}}",
                    f"BANK.u = {w} * 1.0",
                    "BANK.u = BIAS",
                    "BANK = model.layers[0]",
                    "model.calls += 1",
                    f"model.values = [*model.values, {self.number(0)}]",
                    f"model.pair = model.pair._replace(a={self.number(1)})",
                    f"model.pair = Pair({self.number(0)}, {w} * 1.0)",
                    "model.layers.reverse()",
                    f"model.layers[1] = Body({self.number(0)}, BIAS)",
                    f"model.last = {w} * 1.0",
                    f"model.best = max({self.number(0)}, getattr(model, 'best', 0.1))",
                ]
            )
        )

    def over_data(self) -> None:
        e, d = self.new("e"), self.new("e")
        loops = [
            (f"for {e} in data.ids:", [e], []),
            (f"for {e} in data.counts.tolist():", [e], []),
            (f"for {e}, {d} in zip(data.ids, {self.vector(N, 0)}):", [e], [d]),
            (f"for {e} in range(data.counts[{self.index(N)}]):", [e], []),
            (f"for {e} in np.flatnonzero(data.mask):", [e], []),
            (f"for {e} in model.values[:]:", [], [e]),
        ]
        head, integers, fixed = self.pick(loops)
        self.write(head)
        with self.loop(integers, fixed):
            self.body(3)


def random_open_source(seed: int, size: int = 10) -> str:
    """The source of a module with a random function ``f(model, x, data, s, n)``, by seed."""
    return OpenGenerator(random.Random(seed).randrange).function(size)
