"""Classes defined inside a differentiated function."""

from __future__ import annotations

import abc
import enum
import functools
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tests.edge_cases.judge import Table, judge, numbers, signed

case = Table()


@case([0.7, 1.3], [-0.7, 0.4])
def methods_see_the_function_around(x: float, y: float) -> Any:
    scale = 2.0 * y

    class Model:
        """A local model."""

        factor = 3.0
        bias = scale + 1.0

        def __init__(self, a: Any):
            self.a = a

        def __call__(self, t: Any) -> Any:
            return self.a * t * scale + self.bias * self.factor

        @property
        def double(self) -> Any:
            return 2.0 * self.a

        @double.setter
        def double(self, value: Any) -> None:
            self.a = value / 2.0

        @classmethod
        def make(cls, a: Any) -> Model:
            return cls(a * cls.factor)

        @staticmethod
        def square(t: Any) -> Any:
            return t * t

        def __add__(self, other: Model) -> Model:
            return Model(self.a + other.a)

    m = Model(x)
    before = m(y) * m.double
    m.double = x * y
    total = before + m.a + Model.make(x).a + Model.square(x) + (m + Model(y)).a
    return total + len(Model.__doc__ or "") + Model.bias


@case([0.7], [1.9])
def inheritance_and_zero_argument_super(x: float) -> Any:
    class Base:
        def __init__(self, v: Any):
            self.v = v

        def value(self) -> Any:
            return self.v**2

    class Derived(Base):
        def __init__(self, v: Any, w: Any):
            super().__init__(v)
            self.w = w

        def value(self) -> Any:
            return super().value() * self.w + sum(super(Derived, self).value() for _ in range(2))

    class Third(Derived):
        def value(self) -> Any:
            return super().value() + 1.0

    return Third(x, 3.0).value() * Derived(x * x, x).value()


@case([numbers(3)], [numbers(4, seed=1)])
def local_dataclasses(x: np.ndarray) -> Any:
    @dataclass
    class State:
        position: Any
        velocity: Any = 0.5
        history: list[Any] = field(default_factory=list)
        count: ClassVar[int] = 3

        def energy(self) -> Any:
            return np.sum(self.position**2) + self.velocity**2

    @dataclass(frozen=True)
    class Options:
        rate: float = 0.1

    s = State(x)
    for _ in range(State.count):
        s.history.append(s.energy())
        s.velocity = s.velocity + Options().rate * np.sum(s.position)
    return s.energy() + sum(s.history) * Options(rate=x[0]).rate


@case([0.7], [-1.9])
def named_tuples_and_enumerations(x: float) -> Any:
    class Pair(NamedTuple):
        a: Any
        b: Any = 2.0

    class Kind(enum.Enum):
        ONE = 1
        TWO = 2

    p = Pair(x)
    return p.a * p.b * sum(k.value for k in Kind) + (x if Kind(2) is Kind.TWO else 0.0)


@case([0.7], [1.9])
def abstract_base_and_protocols(x: float) -> Any:
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> Any: ...

        def twice(self) -> Any:
            return 2.0 * self.area()

    class Disc(Shape):
        def __init__(self, r: Any):
            self.r = r

        def area(self) -> Any:
            return math.pi * self.r**2

    return Disc(x).twice() + (1.0 if isinstance(Disc(x), Shape) else 0.0)


@case([signed(5)], [-signed(5)])
def a_class_that_counts_in_a_loop(x: np.ndarray) -> Any:
    class Counter:
        total = 0.0

        def add(self, v: Any) -> None:
            if v > 0:
                self.total += v**2

    c = Counter()
    for v in x:
        c.add(v)
    return c.total + Counter.total


@case([0.7], [-1.9])
def exceptions_of_a_local_class(x: float) -> Any:
    class Negative(ValueError):
        def __init__(self, value: Any):
            super().__init__("negative")
            self.value = value

    try:
        if x < 0:
            raise Negative(x * x)
        return x
    except Negative as error:
        return error.value * 3.0


@case([0.7], [-1.9])
def class_decorators_and_inner_classes(x: float) -> Any:
    registry: dict[str, Any] = {}

    def register(cls: type) -> type:
        registry[cls.__name__] = cls
        return cls

    @register
    class Outer:
        class Inner:
            weight = 5.0

            def times(self, v: Any) -> Any:
                return self.weight * v

        def value(self) -> Any:
            return self.Inner().times(x)

    return registry["Outer"]().value() * x


@functools.total_ordering
class Money:
    def __init__(self, v: Any):
        self.v = v

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.v == other.v

    def __lt__(self, other: Money) -> bool:
        return self.v < other.v


@case([0.7, 1.3], [1.7, 0.4])
def total_ordering(x: float, y: float) -> Any:
    return (x * x if Money(x) >= Money(y) else y * x) + (x if Money(x) > Money(y) else 3.0 * y)


test_gradients = case.test(functools.partial(judge, engine="source"))
