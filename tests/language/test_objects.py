"""Classes and their protocols: what a user's own objects do inside a differentiated function."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()


class Lazy:
    """Unknown attributes are looked up in what a slot holds, which itself is unset at first."""

    __slots__ = ("_items", "reads", "__dict__")

    def __init__(self, **items: Any):
        object.__setattr__(self, "_items", items)
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        try:
            return self._items[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "reads":
            object.__setattr__(self, name, value)
        else:
            self._items[name] = value


class LazyMore(Lazy):
    __slots__ = ("extra",)


@case([0.3, 0.9], [0.7, -0.9])
def attributes_looked_up_by_the_class(x: float, y: float) -> Any:
    total = 0.0
    for cls in (Lazy, LazyMore):
        o = cls(a=x, b=y)
        o.c = o.a * o.b
        o.reads += 2
        total += o.c + o.reads * x + (0.0 if hasattr(o, "d") else y * y) + getattr(o, "e", 5.0 * x)
    return total


class Vector:
    """A plane vector with every operator that it needs."""

    def __init__(self, x: Any, y: Any):
        self.x = x
        self.y = y

    def __add__(self, other: Any) -> Vector:
        if not isinstance(other, Vector):
            return Vector(self.x + other, self.y + other)
        return Vector(self.x + other.x, self.y + other.y)

    __radd__ = __add__

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self.x - other.x, self.y - other.y)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return self.x * other.x + self.y * other.y
        return Vector(self.x * other, self.y * other)

    def __rmul__(self, other: Any) -> Vector:
        return Vector(other * self.x, other * self.y)

    def __truediv__(self, other: Any) -> Vector:
        return Vector(self.x / other, self.y / other)

    def __rtruediv__(self, other: Any) -> Vector:
        return Vector(other / self.x, other / self.y)

    def __pow__(self, n: Any) -> Vector:
        return Vector(self.x**n, self.y**n)

    def __matmul__(self, other: Vector) -> Any:
        return self * other

    def __neg__(self) -> Vector:
        return Vector(-self.x, -self.y)

    def __abs__(self) -> Any:
        return math.sqrt(self * self)

    def __getitem__(self, k: int) -> Any:
        return (self.x, self.y)[k]

    def __setitem__(self, k: int, value: Any) -> None:
        if k == 0:
            self.x = value
        else:
            self.y = value

    def __iter__(self) -> Any:
        return iter((self.x, self.y))

    def __len__(self) -> int:
        return 2

    def __contains__(self, value: Any) -> bool:
        return value == self.x or value == self.y

    def __call__(self, t: Any) -> Any:
        return self.x * t + self.y

    def __bool__(self) -> bool:
        return self.x > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.x == other.x and self.y == other.y

    def __lt__(self, other: Vector) -> bool:
        return abs(self) < abs(other)

    def __iadd__(self, other: Any) -> Vector:
        self.x = self.x + other.x
        self.y = self.y + other.y
        return self

    def __float__(self) -> float:
        return float(self.x)


@case([0.7, 1.3], [-0.7, 0.4])
def arithmetic_operators(x: float, y: float) -> Any:
    v, w = Vector(x, y), Vector(y, 2.0)
    u = 2.0 * (v + w) - (-v) / 3.0 + w * 0.5 + 1.0 + sum([v, w]) + 1.0 / w
    return u.x * u.y + abs(v**2) + v @ w


@case([0.7, 1.3], [-0.7, 0.4])
def container_protocol(x: float, y: float) -> Any:
    v = Vector(x, y)
    v[0] = v[0] * v[1]
    a, b = v
    total = 0.0
    for k in range(len(v)):
        total += v[k] ** 2
    return total * a + b * sum(v) + (3.0 if x * y in v else 5.0) + float(v)


@case([0.7, 1.3], [-0.7, 0.4])
def truth_comparison_and_call(x: float, y: float) -> Any:
    v, w = Vector(x, y), Vector(y, x * x)
    out = v(2.0) if v else w(3.0)
    if v < w:
        out = out * x
    if w == Vector(y, x * x) and v != w:
        out = out + 7.0 * x
    return out


@case([0.7, 1.3], [-0.7, 0.4])
def augmented_assignment_of_objects(x: float, y: float) -> Any:
    v = Vector(x, y)
    w = v
    v += Vector(x * y, 1.0)
    v *= 2.0
    return w.x * w.y + v.x**2


class Shape:
    count: ClassVar[int] = 0
    scale = 2.0

    def __init__(self, size: Any):
        self.size = size

    @classmethod
    def unit(cls, size: Any) -> Shape:
        return cls(size * cls.scale)

    @staticmethod
    def double(x: Any) -> Any:
        return 2.0 * x

    @property
    def area(self) -> Any:
        return self.size**2

    @area.setter
    def area(self, value: Any) -> None:
        self.size = math.sqrt(value)

    def describe(self) -> Any:
        return self.area + 1.0


class Circle(Shape):
    scale = 3.0

    def __init__(self, size: Any, factor: Any = 1.0):
        super().__init__(size)
        self.factor = factor

    @property
    def area(self) -> Any:
        return math.pi * super().area * self.factor

    @area.setter
    def area(self, value: Any) -> None:
        self.size = math.sqrt(value / math.pi)

    def describe(self) -> Any:
        return super().describe() * self.factor


class Ellipse(Circle):
    def describe(self) -> Any:
        return super(Circle, self).describe() + super().describe()


@case([0.7], [1.9])
def inheritance_super_and_properties(x: float) -> Any:
    c = Circle(x, x + 1.0)
    before = c.area
    c.area = x * 4.0
    return before * c.size + c.describe() + Ellipse(x).describe() + Circle.unit(x).size * Shape.double(c.factor)


class Cached:
    def __init__(self, x: Any):
        self.x = x
        self.calls = 0

    @functools.cached_property
    def heavy(self) -> Any:
        self.calls += 1
        return np.sin(self.x) * 2.0


@case([0.7], [-1.1])
def cached_property(x: float) -> Any:
    c = Cached(x)
    first = c.heavy
    return first * c.heavy + c.calls * x


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any):
        self.a = a
        self.b = b

    def step(self, rate: Any) -> Slotted:
        self.a = self.a - rate * self.b
        return self


@case([0.7, 3], [-1.1, 7])
def slots(x: float, n: int) -> Any:
    s = Slotted(x, 0.5)
    for _ in range(n):
        s.step(x)
        s.b *= x
    return s.a * s.b


@dataclass
class Layer:
    w: Any
    b: Any = 0.5
    history: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.norm = np.sum(self.w**2)

    def __call__(self, x: Any) -> Any:
        y = np.tanh(x @ self.w + self.b)
        self.history.append(np.sum(y))
        return y


@dataclass(frozen=True)
class Params:
    a: float
    b: float = 1.0

    def scaled(self, s: Any) -> Params:
        return dataclasses.replace(self, a=self.a * s)

    @property
    def total(self) -> Any:
        return self.a + self.b


@dataclass(frozen=True, slots=True)
class Tight:
    a: float
    b: float = 2.0


@dataclass(order=True)
class Ordered:
    key: float
    value: float = 0.0


@case([numbers(3, 3)], [numbers(3, 3, seed=1)])
def dataclass_layers(w: np.ndarray) -> Any:
    layer = Layer(w)
    x = np.ones(3)
    for _ in range(2):
        x = layer(x)
    return np.sum(x) * layer.norm + sum(layer.history)


@case([0.7, 1.3], [-0.7, 0.4])
def frozen_dataclasses(x: float, y: float) -> Any:
    p = Params(x).scaled(y)
    q = dataclasses.replace(p, b=x)
    t = dataclasses.replace(Tight(y), a=x * y)
    d = dataclasses.asdict(q)
    total = p.total * q.total + t.a * t.b + d["a"] * d["b"]
    return total + sum(getattr(q, f.name) for f in dataclasses.fields(q)) + sum(dataclasses.astuple(q))


@case([0.7, 1.3], [1.7, 0.4])
def comparison_of_dataclasses(x: float, y: float) -> Any:
    smaller = min(Ordered(x, 2.0), Ordered(y, 3.0), key=lambda o: o.key)
    same = Params(x, y) == Params(x, y)
    less = Ordered(x, 1.0) < Ordered(y, 0.5)
    return smaller.key * smaller.value + (x if same else y) + (x * y if less else 0.0)


class Point(NamedTuple):
    x: float
    y: float = 1.0

    def norm(self) -> Any:
        return math.hypot(self.x, self.y)

    @property
    def product(self) -> Any:
        return self.x * self.y


@case([0.7, 1.3], [-0.7, 0.4])
def named_tuples(x: float, y: float) -> Any:
    p = Point(x)._replace(y=y)
    a, b = p
    return p.norm() * p.product + a * b + p._asdict()["x"] + Point._make([y, x]).x * p[0] + len(p)


class Mode(enum.Enum):
    LINEAR = "linear"
    SQUARE = 2

    def apply(self, x: Any) -> Any:
        return x if self is Mode.LINEAR else x**self.value


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


@case([0.7], [-1.3])
def enumerations(x: float) -> Any:
    total = 0.0
    for mode in Mode:
        total += mode.apply(x) * (2.0 if mode == Mode.LINEAR else 3.0)
    return total * Level.HIGH + {Mode.LINEAR: x, Mode.SQUARE: x * x}[Mode("linear")] + Level(1) * Mode.SQUARE.value


class Tree:
    def __init__(self, value: Any, children: tuple[Any, ...] = ()):
        self.value = value
        self.children = list(children)

    def total(self) -> Any:
        return self.value + sum(c.total() * 0.5 for c in self.children)


@case([0.7, 1.3], [-0.7, 0.4])
def trees_of_objects(x: float, y: float) -> Any:
    tree = Tree(x, (Tree(y * x), Tree(x, (Tree(y**2),))))
    other = copy.deepcopy(tree)
    other.children[0].value = 10.0 * x
    shallow = copy.copy(tree)
    shallow.value = y
    return tree.total() + other.total() ** 2 + shallow.total()


@case([numbers(3)], [signed(3)])
def deepcopy_of_objects_with_arrays(w: np.ndarray) -> Any:
    layer = Layer(w, b=w[0])
    other = copy.deepcopy(layer)
    other.w[1] = 5.0
    other.w *= 2.0
    layer.w[0] += 1.0
    return np.sum(layer.w**2) * np.sum(other.w) + other.norm


class Accumulator:
    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.log: list[Any] = []
        self.best: dict[str, Any] = {"value": -1e9}

    def add(self, x: Any) -> None:
        self.total += x
        self.count += 1
        if x > self.best["value"]:
            self.best["value"] = x


@case([signed(5)], [signed(5, seed=1)], [signed(8, seed=2)])
def attributes_written_in_loops_under_conditions(x: np.ndarray) -> Any:
    a = Accumulator()
    for v in x:
        if v > 0:
            a.add(v**2)
            a.log.append(v)
        else:
            a.total -= v
    return a.total * a.best["value"] + a.count + sum(a.log)


class Momentum:
    def __init__(self, x: Any):
        self.x = x
        self.v = np.zeros_like(x)

    def step(self, g: Any) -> None:
        self.v = 0.9 * self.v - 0.1 * g
        self.x += self.v


@case([signed(3), 4], [signed(3, seed=1), 9])
def optimiser_with_state(x: np.ndarray, n: int) -> Any:
    m = Momentum(x.copy())
    k = 0
    while k < n and np.sum(m.x**2) > 1e-3:
        m.step(m.x)
        k += 1
    return np.sum(m.x * x) + np.sum(m.v)


class Polynomial:
    coefficients = (1.0, -2.0, 0.5)

    def __init__(self, scale: float):
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        return self.scale * sum(c * x**k for k, c in enumerate(self.coefficients))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("power_"):
            return int(name[6:])
        raise AttributeError(name)


@case([0.7, 1.3], [-0.7, 0.4])
def callables_and_getattr(x: float, s: float) -> Any:
    p = Polynomial(s)
    f = getattr(p, "missing", None) or p.__call__
    return f(x) + p(x) ** p.power_3 + (x if hasattr(p, "power_1") else 0.0) + (y := getattr(p, "scale")) * y  # noqa: B009


class Meters(float):
    pass


class Registry:
    functions: ClassVar[dict[str, Any]] = {}

    @classmethod
    def register(cls, f: Any) -> Any:
        cls.functions[f.__name__] = f
        return f


@Registry.register
def square(x: Any) -> Any:
    return x * x


@Registry.register
def cube(x: Any) -> Any:
    return x * square(x)


@case([0.7], [-1.3])
def functions_found_in_a_registry(x: float) -> Any:
    return sum(f(x) * (2.0 if name == "cube" else 1.0) for name, f in Registry.functions.items())


@case([signed(4)], [-signed(4)])
def isinstance_and_annotations(x: np.ndarray) -> Any:
    def norm(v: np.ndarray | float, kind: type = float) -> float:
        if isinstance(v, np.ndarray) and v.ndim == 1:
            size: int = len(v)
            return np.sum(v**2) / size
        assert isinstance(v, int | float)
        return kind(v) ** 2

    y: float = norm(x[0].item() if hasattr(x[0], "item") else x[0])
    return norm(x) + y + (1.0 if isinstance(y, float) and not isinstance(x, list | tuple) else np.nan)


class Descriptor:
    def __init__(self, default: float):
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return getattr(instance, self.name, self.default)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance, self.name, value * 2.0)


class Described:
    gain = Descriptor(3.0)

    def __init__(self, x: Any):
        self.x = x


@case([0.7], [-1.3])
def descriptors(x: float) -> Any:
    d = Described(x)
    before = d.gain * d.x
    d.gain = x
    return before + d.gain**2


class Guarded:
    def __init__(self, x: Any):
        self.x = x

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2.0)


@case([0.7], [-1.3])
def own_setattr(x: float) -> Any:
    g = Guarded(x)
    g.y = x * x
    return g.x * g.y


class Wrapped:
    def __init__(self, inner: Any):
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@case([0.7], [-1.3])
def delegation(x: float) -> Any:
    w = Wrapped(Circle(x))
    return w.size * w.area + w.describe()


@case([np.array([0.3, 0.9, 1.1])], [np.array([0.7, -0.9, 0.4])])
def lists_repeated_a_run_time_number_of_times(x: Any) -> Any:
    n = len(x)
    best = [0.0] * n
    for k in range(1, n):
        best[k] = best[k - 1] * 0.5 + x[k] ** 2
    return best[-1] + len([x[0]] * (n + 1)) * x[0] + sum((n - 1) * (x[1],))


@case([0.7, 1.5], [1.3, 0.2], [-0.4, -0.4])
def delete_attributes(x: float, y: float) -> Any:
    c = Circle(x)
    c.extra = y
    if hasattr(c, "extra"):
        x = x * c.extra
        del c.extra
    return x + (100.0 if hasattr(c, "extra") else c.size)


test_gradients = case.test(functools.partial(judge, engine="source"))
