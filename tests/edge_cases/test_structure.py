"""Ordinary Python around the numbers: containers, classes, closures, defaults, wrappers, and what they read outside."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import math
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradsmith as gs
from tests.edge_cases.expectations import expect

X = np.array([1.0, 2.0, 3.0])


def quadratic(x: Any, a: Any = 2.0, *, b: Any = 3.0) -> Any:
    return a * np.sum(x * x) + b * np.sum(x)


# ---- arguments and results -------------------------------------------------------------------------------------------


class Point(NamedTuple):
    x: Any
    y: Any
    label: Any = None


@dataclass
class Layer:
    w: Any
    b: Any
    name: str = "layer"
    size: int = 3

    def __call__(self, x: Any) -> Any:
        return self.w @ x + self.b

    @property
    def weight(self) -> Any:
        return np.sum(self.w**2) + self.penalty(2.0)

    def penalty(self, c: Any) -> Any:
        return c * np.sum(self.b)


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = None


def test_nested_containers_give_gradients_of_their_structure(backend: str) -> None:
    p = {"w": X, "layers": [(2.0, {"b": np.array([[1.0]])}), (3.0, {"b": np.array([[2.0]])})], "none": None, "k": 3}

    def f(p: Any) -> Any:
        total = np.sum(p["w"]) * p["k"]
        for scale, part in p["layers"]:
            total += scale * np.sum(part["b"] ** 2)
        return total

    g = gs.grad(f, backend=backend)(p)
    assert list(g) == list(p)
    np.testing.assert_array_equal(g["w"], [3, 3, 3])
    assert g["layers"] == [(1.0, {"b": np.array([[4.0]])}), (4.0, {"b": np.array([[12.0]])})]
    assert g["none"] is None and g["k"] is None
    assert isinstance(g["layers"], list) and isinstance(g["layers"][0], tuple)


def test_named_tuples_and_dataclasses(backend: str) -> None:
    g = gs.grad(lambda p: np.sum(p.x * p.y), backend=backend)(Point(X, 2.0, "a"))
    assert isinstance(g, Point) and g.label == "a" and g.y == 6.0
    np.testing.assert_array_equal(g.x, [2, 2, 2])

    layer = Layer(np.eye(3), X.copy())
    g = gs.grad(lambda m, x: np.sum(m(x)) + m.weight, backend=backend)(layer, X)
    assert isinstance(g, Layer) and g.name == "layer" and g.size is None
    np.testing.assert_allclose(g.w, np.outer(np.ones(3), X) + 2 * np.eye(3))
    np.testing.assert_allclose(g.b, [3, 3, 3])

    g = gs.grad(lambda p: p.a**2, backend=backend)(Frozen(3.0))
    assert g == Frozen(6.0, None)


def test_containers_with_changing_keys_and_lengths(backend: str) -> None:
    """Another structure is another specialisation; going back is still right."""
    f = gs.grad(lambda p: sum(k * v**2 for k, v in enumerate(p.values())), backend=backend)
    for _ in range(2):
        assert f({"a": 1.0, "b": 2.0}) == {"a": 0.0, "b": 4.0}
        assert f({"b": 1.0, "a": 2.0}) == {"b": 0.0, "a": 4.0}
        assert f({"b": 1.0}) == {"b": 0.0}
        assert f({"x": 1.0, "y": 2.0, "z": 3.0}) == {"x": 0.0, "y": 4.0, "z": 12.0}
    g = gs.grad(lambda xs: sum(x * x for x in xs), backend=backend)
    for _ in range(2):
        for n in (1, 3, 2, 12):
            assert g([float(k) for k in range(n)]) == [2.0 * k for k in range(n)]
            assert g(tuple(float(k) for k in range(n))) == tuple(2.0 * k for k in range(n))


def test_other_containers(backend: str) -> None:
    def f(p: Any) -> Any:
        return p["a"] ** 2 + 3 * p["b"]

    for kind in (collections.OrderedDict, lambda d: collections.defaultdict(float, d)):
        p = kind({"a": 2.0, "b": 1.0})
        assert dict(gs.grad(f, backend=backend)(p)) == {"a": 4.0, "b": 3.0}
    assert list(gs.grad(lambda q: q[0] * q[1], backend=backend)(collections.deque([2.0, 3.0]))) == [3.0, 2.0]


def test_result_structures(backend: str) -> None:
    def f(x: Any) -> Any:
        return {"sum": np.sum(x), "rest": [Point(x, x[0] * 2, None), ("text", 7, None)]}

    got = gs.jit(f, backend=backend)(X)
    assert got["sum"] == 6.0 and got["rest"][1] == ("text", 7, None)
    assert isinstance(got["rest"][0], Point) and got["rest"][0].y == 2.0
    y, tangent = gs.jvp(lambda x: {"a": x * x, "b": (x[0],)}, (X,), (np.ones(3),), backend=backend)
    np.testing.assert_array_equal(tangent["a"], 2 * X)
    assert tangent["b"] == (1.0,)
    _, pullback = gs.vjp(lambda x: {"a": x * x, "b": (x[0],)}, X, backend=backend)
    np.testing.assert_array_equal(pullback({"a": np.ones(3), "b": (10.0,)})[0], 2 * X + [10, 0, 0])


class Model:
    """A plain class: attributes, a property with a setter, methods, ``__call__``, a class attribute, inheritance."""

    gain = 2.0

    def __init__(self, w: Any):
        self.w = w
        self._bias = 1.0
        self.calls = 0

    @property
    def bias(self) -> Any:
        return self._bias * 2

    @bias.setter
    def bias(self, value: Any) -> None:
        self._bias = value / 2

    @staticmethod
    def activation(z: Any) -> Any:
        return np.tanh(z)

    @classmethod
    def scale(cls, z: Any) -> Any:
        return cls.gain * z

    def __call__(self, x: Any) -> Any:
        return self.scale(self.activation(np.sum(self.w * x) + self.bias))

    def loss(self, x: Any, target: Any = 0.0) -> Any:
        return (self(x) - target) ** 2

    def __mul__(self, other: Any) -> Any:
        return np.sum(self.w) * other

    __rmul__ = __mul__

    def __getitem__(self, k: Any) -> Any:
        return self.w[k]

    def __len__(self) -> int:
        return len(self.w)


class Wide(Model):
    gain = 3.0

    def __call__(self, x: Any) -> Any:
        return super().__call__(x) + 0.5 * np.sum(x)


@pytest.mark.parametrize("cls", [Model, Wide])
def test_classes(cls: type, backend: str) -> None:
    m = cls(np.array([0.1, -0.2, 0.3]))
    z = np.sum(m.w * X) + 2.0
    slope = cls.gain * (1 - np.tanh(z) ** 2) * m.w + (0.5 if cls is Wide else 0.0)
    expect(m, X, slope, backend=backend)  # a callable object
    expect(m.loss, X, 2 * m(X) * slope, backend=backend)  # a bound method
    expect(lambda x: m.loss(x, target=1.0), X, 2 * (m(X) - 1) * slope, backend=backend)
    expect(functools.partial(m.loss, target=1.0), X, 2 * (m(X) - 1) * slope, backend=backend)
    expect(functools.partial(cls.loss, m), X, 2 * m(X) * slope, backend=backend)
    expect(lambda x: (m * x[0] + x[1] * m) * m[2] * len(m), X, [0.18, 0.18, 0], backend=backend, rtol=1e-10)


def test_attributes_are_read_at_each_call(backend: str) -> None:
    m = Model(np.array([0.1, -0.2, 0.3]))
    g = gs.grad(m, backend=backend)

    def expected() -> Any:
        return m.gain * (1 - np.tanh(np.sum(m.w * X) + m.bias) ** 2) * m.w

    np.testing.assert_allclose(g(X), expected())
    m.w = np.array([0.5, 0.5, -0.5])  # another array
    np.testing.assert_allclose(g(X), expected())
    m.w[0] = -0.7  # the same array with other contents
    np.testing.assert_allclose(g(X), expected())
    m.bias = 0.25  # a float, through a property
    np.testing.assert_allclose(g(X), expected())
    try:
        Model.gain = 5.0  # an attribute of the class
        np.testing.assert_allclose(g(X), expected())
    finally:
        Model.gain = 2.0
    m.w = 0.3  # an array becomes a number
    np.testing.assert_allclose(g(X), expected() * np.ones(3))


def test_objects_made_inside(backend: str) -> None:
    def f(x: Any) -> Any:
        m = Model(x * 2)
        m.bias = x[0]
        m.calls += 1
        layer = dataclasses.replace(Layer(np.eye(3), x), b=x * x)
        box = types.SimpleNamespace(value=x[1])
        box.value = box.value * 3
        return m(np.ones(3)) + np.sum(layer(x)) + box.value + m.calls

    z = 2 * X.sum() + X[0]
    slope = 2.0 * (1 - np.tanh(z) ** 2) * (2 + np.eye(3)[0]) + 1 + 2 * X + 3 * np.eye(3)[1]
    expect(f, X, slope, backend=backend)


def test_differentiating_with_respect_to_an_object(backend: str) -> None:
    """The gradient of a plain object is an object of its class with the fields replaced, or a clear error."""
    m = Model(np.array([0.1, -0.2, 0.3]))
    slope = 2.0 * (1 - np.tanh(np.sum(m.w * X) + 2.0) ** 2)
    try:
        g = gs.grad(lambda m, x: m(x), backend=backend)(m, X)
    except gs.NotDifferentiable as error:
        assert "Model" in str(error)
        return
    assert type(g) is Model
    np.testing.assert_allclose(g.w, slope * X)
    assert math.isclose(g._bias, 2 * slope)
    assert m.calls == 0 and m._bias == 1.0


# ---- closures and globals --------------------------------------------------------------------------------------------


def make_counter() -> tuple[Callable[[Any], Any], Callable[[Any], None]]:
    factor = 2.0
    data = np.array([1.0, 1.0, 1.0])

    def f(x: Any) -> Any:
        return factor * np.sum(data * x)

    def change(new: Any) -> None:
        nonlocal factor
        factor = new

    f.data = data  # type: ignore[attr-defined]
    return f, change


def test_a_closure_that_changes_is_seen(backend: str) -> None:
    f, change = make_counter()
    g = gs.grad(f, backend=backend)
    np.testing.assert_array_equal(g(X), [2, 2, 2])
    change(5.0)
    np.testing.assert_array_equal(g(X), [5, 5, 5])
    f.data[1] = 10.0  # type: ignore[attr-defined]
    np.testing.assert_array_equal(g(X), [5, 50, 5])
    change(3)  # a float becomes an int
    np.testing.assert_array_equal(g(X), [3, 30, 3])
    change(4)
    np.testing.assert_array_equal(g(X), [4, 40, 4])
    change(np.float32(0.5))
    np.testing.assert_array_equal(g(X), [0.5, 5, 0.5])
    change(np.array([1.0, 2.0, 3.0]).sum())
    np.testing.assert_array_equal(g(X), [6, 60, 6])


RATE = 2.0
TABLE: Any = np.array([1.0, 2.0, 3.0])
SWITCH = True
OPTIONS: dict[str, Any] = {"power": 2, "scale": 1.5, "names": ["a", "b"], "helper": np.sin}


def helper(x: Any) -> Any:
    return RATE * x


def uses_globals(x: Any) -> Any:
    y = helper(x) * TABLE
    if SWITCH:
        y = y**2
    return np.sum(OPTIONS["scale"] * y ** OPTIONS["power"]) + len(OPTIONS["names"]) * np.sum(OPTIONS["helper"](x))


def test_globals_that_change_are_seen(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    g = gs.grad(uses_globals, backend=backend)

    def agrees() -> None:
        h = 1e-6
        for _ in range(2):
            got = g(X)
            for k in range(3):
                e = h * np.eye(3)[k]
                assert math.isclose(got[k], (uses_globals(X + e) - uses_globals(X - e)) / (2 * h), rel_tol=1e-6)

    agrees()
    monkeypatch.setitem(globals(), "RATE", 0.5)
    agrees()
    monkeypatch.setitem(globals(), "TABLE", np.array([2.0, -1.0, 0.5]))
    agrees()
    TABLE[0] = 4.0
    agrees()
    monkeypatch.setitem(globals(), "TABLE", 3.0)
    agrees()
    monkeypatch.setitem(globals(), "SWITCH", False)
    agrees()
    monkeypatch.setitem(OPTIONS, "scale", -2.0)
    agrees()
    monkeypatch.setitem(OPTIONS, "power", 3)
    agrees()
    monkeypatch.setitem(OPTIONS, "names", ["a", "b", "c"])
    agrees()
    OPTIONS["names"].append("d")
    agrees()
    monkeypatch.setitem(OPTIONS, "helper", np.cos)
    agrees()
    monkeypatch.setitem(globals(), "helper", lambda x: x * x * RATE)
    agrees()
    monkeypatch.undo()
    agrees()


class OwnDict(dict[str, Any]):
    pass


class OwnList(list[Any]):
    pass


def outside() -> dict[str, Any]:
    """Containers of many classes, by name."""
    return {
        "ordered": collections.OrderedDict(w=2.0, b=1.0),
        "default": collections.defaultdict(float, w=2.0),
        "counter": collections.Counter(w=2),
        "own dict": OwnDict(w=2.0),
        "own list": OwnList([1.0, 2.0]),
        "deque": collections.deque([2.0, 3.0]),
        "set": {1, 2},
        "named": Point(np.ones(2), 2.0),
        "long": [1.0] * 600,
        "long arrays": [np.ones(2) for _ in range(600)],
        "nested": {"a": [{"b": (1.0, [2.0])}]},
        "space": types.SimpleNamespace(w=2.0, inner=types.SimpleNamespace(z=np.ones(2))),
        "proxy": types.MappingProxyType({"w": [2.0]}),
    }


#: name: (container, function of x and it, change, value of the function at x = 1 afterwards)
CHANGES: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any], Any]]] = [
    ("ordered", lambda x, c: x * c["w"], lambda c: c.update(w=5.0)),
    ("ordered", lambda x, c: x * sum(v for v in c.values()), lambda c: c.update(w=7.0)),
    ("ordered", lambda x, c: x * sum(k * v for k, v in enumerate(c.values())), lambda c: c.move_to_end("w")),
    ("ordered", lambda x, c: x * len(c), lambda c: c.update(q=7.0)),
    ("default", lambda x, c: x * c["w"], lambda c: c.update(w=5.0)),
    ("counter", lambda x, c: x * c["w"], lambda c: c.update(w=5)),
    ("own dict", lambda x, c: x * c.get("w", 1.0), lambda c: c.update(w=5.0)),
    ("own list", lambda x, c: x * sum(c), lambda c: c.append(5.0)),
    ("own list", lambda x, c: x * c[0], lambda c: c.__setitem__(0, 5.0)),
    ("deque", lambda x, c: x * c[0], lambda c: c.appendleft(5.0)),
    ("deque", lambda x, c: x * sum(c) * len(c), lambda c: c.append(5.0)),
    ("set", lambda x, c: x * (2.0 if 3 in c else 1.0), lambda c: c.add(3)),
    ("set", lambda x, c: x * sum(c), lambda c: c.add(10)),
    ("named", lambda x, c: x * c.x[0] * c[1], lambda c: c.x.__setitem__(0, 5.0)),
    ("named", lambda x, c: (lambda a, b, _: x * a[0] * b)(*c), lambda c: c[0].__setitem__(0, 5.0)),
    ("long", lambda x, c: x * c[3], lambda c: c.__setitem__(3, 5.0)),
    ("long", lambda x, c: x * sum(c), lambda c: c.append(5.0)),
    ("long arrays", lambda x, c: x * c[3][0], lambda c: c[3].__setitem__(0, 5.0)),
    ("long arrays", lambda x, c: x * c[3][0], lambda c: c.__setitem__(3, np.full(3, 5.0))),
    ("nested", lambda x, c: x * c["a"][0]["b"][1][0], lambda c: c["a"][0]["b"][1].__setitem__(0, 5.0)),
    ("nested", lambda x, c: x * c["a"][0]["b"][0], lambda c: c["a"].__setitem__(0, {"b": (5.0,)})),
    ("space", lambda x, c: x * c.w, lambda c: setattr(c, "w", 5.0)),
    ("space", lambda x, c: x * c.inner.z[0], lambda c: c.inner.z.__setitem__(0, 5.0)),
    ("space", lambda x, c: x * c.inner.z[0], lambda c: setattr(c, "inner", types.SimpleNamespace(z=[5.0]))),
    ("proxy", lambda x, c: x * c["w"][0], lambda c: c["w"].__setitem__(0, 5.0)),
]


@pytest.mark.parametrize("k", range(len(CHANGES)))
@pytest.mark.parametrize("engine", ["source", "tape"])
def test_a_container_that_changes_is_seen(k: int, engine: str) -> None:
    """Reached through a closure, whatever its class and length, and however deep the change."""
    name, f, change = CHANGES[k]
    c = outside()[name]
    gradient = gs.grad(lambda x: f(x, c), backend="python", engine=engine)
    before = gradient(1.0)
    assert before == f(1.0, c)
    change(c)
    assert f(1.0, c) != before
    assert gradient(1.0) == f(1.0, c)
    assert gradient(2.0) == f(1.0, c)


@pytest.mark.parametrize(
    "change",
    [
        lambda c, x: c["deque"].append(x),
        lambda c, x: c["deque"].pop(),
        lambda c, x: c["ordered"].update(w=x),
        lambda c, x: c["ordered"].pop("w"),
        lambda c, x: c["set"].add(7),
        lambda c, x: c["own list"].append(x),
        lambda c, x: c["own dict"].setdefault("new", x),
        lambda c, x: c["counter"].update(["w"]),
        lambda c, x: c["long"].append(x),
        lambda c, x: c["nested"]["a"].append(x),
        lambda c, x: setattr(c["space"], "w", x),
    ],
)
def test_outside_containers_hold_no_symbolic_values_afterwards(change: Callable[[Any, Any], Any]) -> None:
    """A function that changes a container of the user's is differentiated without that, or refused."""
    c = outside()

    def f(x: Any) -> Any:
        change(c, x)
        return x * x

    try:
        assert gs.grad(f, backend="python", engine="source")(3.0) == 6.0
    except gs.GradsmithError:
        pass
    assert "known at run time" not in repr(c)


def test_containers_of_many_classes_made_inside(backend: str) -> None:
    def queue(x: Any) -> Any:
        q = collections.deque([x[0]])
        q.append(x[1])
        q.appendleft(x[2])
        total = 0.0
        while q:
            total += q.popleft() * (len(q) + 1)
        return total

    expect(queue, X, [2, 1, 3], backend=backend)


def test_a_captured_array_may_change_its_shape_and_dtype(backend: str) -> None:
    box = [np.ones(3)]
    g = gs.grad(lambda x: np.sum(box[0] * x), backend=backend)
    np.testing.assert_array_equal(g(X), [1, 1, 1])
    for new in (np.ones(1), np.ones((2, 3)), np.ones(3, np.float32), np.arange(3), np.array(4.0), np.ones((2, 1))):
        box[0] = new
        np.testing.assert_array_equal(
            g(X), np.broadcast_to(new, np.broadcast_shapes(new.shape, (3,))).reshape(-1, 3).sum(0)
        )
    box[0] = np.ones(4)
    with pytest.raises(ValueError):
        g(X)
    box[0] = np.ones(3)
    np.testing.assert_array_equal(g(X), [1, 1, 1])


def test_the_argument_itself_is_captured(backend: str) -> None:
    """An array that is an argument and is reached through a closure: differentiated as the argument only."""
    x = X.copy()
    g = gs.grad(lambda y: np.sum(x * y), backend=backend)
    np.testing.assert_array_equal(g(x), [1, 2, 3])
    both = gs.grad(lambda a, b: np.sum(a * a * b), backend=backend)
    np.testing.assert_array_equal(both(x, x), 2 * X * X)
    np.testing.assert_array_equal(gs.grad(lambda a, b: np.sum(a * a * b), (0, 1), backend=backend)(x, x)[1], X * X)


# ---- parameters ------------------------------------------------------------------------------------------------------


def test_defaults_and_keyword_only_arguments(backend: str) -> None:
    g = gs.grad(quadratic, backend=backend)
    np.testing.assert_array_equal(g(X), 4 * X + 3)
    np.testing.assert_array_equal(g(X, 1.0), 2 * X + 3)
    np.testing.assert_array_equal(g(X, a=1.0), 2 * X + 3)
    np.testing.assert_array_equal(g(X, b=0.0), 4 * X)
    np.testing.assert_array_equal(g(X, b=1, a=5), 10 * X + 1)
    assert gs.grad(quadratic, "b", backend=backend)(X, b=1.0) == 6.0


def test_changed_defaults_are_seen(backend: str) -> None:
    def f(x: Any, c: Any = 2.0, *, d: Any = 1.0) -> Any:
        return c * x + d * x

    g = gs.grad(f, backend=backend)
    assert g(1.0) == 3.0
    f.__defaults__ = (5.0,)
    assert g(1.0) == 6.0
    f.__kwdefaults__ = {"d": 10.0}
    assert g(1.0) == 15.0


def test_star_arguments(backend: str) -> None:
    def f(first: Any, /, *rest: Any, scale: Any = 1.0, **named: Any) -> Any:
        total = first * scale
        for k, r in enumerate(rest):
            total += (k + 2) * r * r
        for v in named.values():
            total += v**3
        return total

    assert gs.grad(f, (0, 1, 2), backend=backend)(1.0, 2.0, 3.0) == (1.0, 8.0, 18.0)
    assert gs.grad(f, (0, "scale", "extra"), backend=backend)(2.0, scale=3.0, extra=2.0) == (3.0, 2.0, 12.0)

    def g(x: Any) -> Any:
        parts = (x[0], *[x[1]], x[2])
        return f(*parts, **{"scale": x[0], "other": x[1]})

    expect(g, X, [2, 2 * 2 * 2 + 12, 3 * 2 * 3], backend=backend)


def test_options_that_are_not_numbers(backend: str) -> None:
    class Kind(enum.Enum):
        SQUARE = 2
        CUBE = 3

    def f(x: Any, kind: Any, flag: Any = True, norm: Any = np.sum, shape: Any = (3,)) -> Any:
        y = x**kind.value if isinstance(kind, Kind) else np.exp(x) if kind == "exp" else x
        return norm(y.reshape(shape)) if flag else 0.0 * y[0]

    g = gs.grad(f, backend=backend)
    for _ in range(2):
        np.testing.assert_allclose(g(X, Kind.SQUARE), 2 * X)
        np.testing.assert_allclose(g(X, Kind.CUBE), 3 * X**2)
        np.testing.assert_allclose(g(X, "exp"), np.exp(X))
        np.testing.assert_allclose(g(X, None, True, np.max), [0, 0, 1])
        np.testing.assert_allclose(g(X, None, False), [0, 0, 0])
        np.testing.assert_allclose(g(X, None, shape=(1, 3)), [1, 1, 1])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


def test_members_of_an_int_enumeration(backend: str) -> None:
    g = gs.grad(lambda x, level: x**level if level is Level.HIGH else x * level, backend=backend)
    assert g(2.0, Level.HIGH) == 12.0
    assert g(2.0, Level.LOW) == 1.0
    assert g(2.0, Level.HIGH) == 12.0


# ---- functions -------------------------------------------------------------------------------------------------------

PAIR = (lambda x: x * x, lambda x: x**3)
LIST = [lambda x: 2 * x, lambda x: 3 * x, (lambda x, y: x * y), lambda x: x + 1 if x > 0 else -x]


def test_lambdas_on_one_line(backend: str) -> None:
    f, g, h = lambda x: x * 2.0, lambda x: x * 3.0, lambda x: x * x * 4.0  # noqa: E731
    assert [gs.grad(k, backend=backend)(5.0) for k in (f, g, h)] == [2, 3, 40]
    assert [gs.grad(k, backend=backend)(5.0) for k in PAIR] == [10, 75]
    assert [gs.grad(k, backend=backend)(*([5.0] * k.__code__.co_argcount)) for k in LIST] == [2, 3, 5, 1]
    for scale in [1.0, 2.0, 3.0]:
        assert gs.grad(lambda x, s=scale: s * x, backend=backend)(1.0) == scale
    captured = [(lambda x: k * x) for k in (1.0, 2.0)]  # noqa: B023
    assert [gs.grad(c, backend=backend)(1.0) for c in captured] == [2, 2]  # late binding, as in Python
    assert gs.grad((lambda x: (x * x)
                    if x > 1 else
                    x), backend=backend)(3.0) == 6.0  # fmt: skip


def twice(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return 2.0 * f(*args, **kwargs)

    return wrapper


def scaled(factor: Any) -> Callable[..., Any]:
    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(x: Any) -> Any:
            return factor * f(x)

        return wrapper

    return decorate


@twice
@scaled(3.0)
def decorated(x: Any) -> Any:
    return np.sum(x**2)


@functools.cache
def cached(x: Any) -> Any:
    return x**2


def test_decorated_functions(backend: str) -> None:
    expect(decorated, X, 12 * X, backend=backend)
    assert gs.grad(cached, backend=backend)(3.0) == 6.0
    assert gs.grad(twice(lambda x, *, p=2: x**p), backend=backend)(3.0, p=3) == 54.0

    def local(x: Any) -> Any:
        @twice
        def inner(y: Any) -> Any:
            return y * y * x[0]

        return inner(x[1])

    expect(local, X, [8, 8, 0], backend=backend)


def test_partial_and_operator_functions(backend: str) -> None:
    f = functools.partial(quadratic, b=1.0)
    expect(f, X, 4 * X + 1, backend=backend)
    expect(functools.partial(f, a=1.0, b=0.0), X, 2 * X, backend=backend)
    expect(functools.partial(lambda a, x: a * np.sum(x), 4.0), X, [4, 4, 4], backend=backend)
    partial = functools.partial(lambda x, data: np.sum(x * data), data=np.ones(3))
    g = gs.grad(partial, backend=backend)
    np.testing.assert_array_equal(g(X), [1, 1, 1])
    partial.keywords["data"][0] = 7.0
    np.testing.assert_array_equal(g(X), [7, 1, 1])
    expect(lambda x: functools.reduce(operator.mul, [x[0], x[1], x[2]]), X, [6, 3, 2], backend=backend)
    expect(lambda x: sum(map(operator.itemgetter(1), [(0, x[0]), (1, x[2])])), X, [1, 0, 1], backend=backend)
    assert gs.grad(math.sin, backend=backend)(0.0) == 1.0
    np.testing.assert_array_equal(gs.jacobian(np.square, backend=backend)(X), np.diag(2 * X))
    np.testing.assert_array_equal(gs.grad(np.sum, backend=backend)(X), [1, 1, 1])


def test_functions_as_values(backend: str) -> None:
    def compose(*fs: Any) -> Any:
        def composed(x: Any) -> Any:
            for f in fs:
                x = f(x)
            return x

        return composed

    assert math.isclose(
        gs.grad(compose(math.sin, lambda y: y**2, math.exp), backend=backend)(0.5),
        math.exp(math.sin(0.5) ** 2) * math.sin(1.0),
    )
    table = {"square": lambda x: x * x, "cube": lambda x: x**3}
    g = gs.grad(lambda x, name: table[name](x), backend=backend)
    assert (g(2.0, "square"), g(2.0, "cube"), g(2.0, "square")) == (4.0, 12.0, 4.0)
    table["square"] = lambda x: 10 * x
    assert g(2.0, "square") == 10.0

    def chooser(x: Any) -> Any:
        """A function picked by a run-time condition."""
        f = math.sin if x > 1 else math.cos
        return f(x)

    for x in (0.5, 1.5):
        assert math.isclose(gs.grad(chooser, backend=backend)(x), math.cos(x) if x > 1 else -math.sin(x))

    def nested(x: Any) -> Any:
        def add(y: Any) -> Any:
            nonlocal total
            total = total + y * y

        total = 0.0
        for v in x:
            add(v)
        return total

    expect(nested, X, 2 * X, backend=backend)


def test_recursion_of_a_known_depth(backend: str) -> None:
    def power(x: Any, n: int) -> Any:
        return 1.0 if n == 0 else x * power(x, n - 1)

    g = gs.grad(power, backend=backend)
    for n in (0, 1, 5, 2):
        assert g(2.0, n) == n * 2.0 ** (n - 1)

    def tree_sum(t: Any) -> Any:
        return sum(map(tree_sum, t)) if isinstance(t, list) else t * t

    assert gs.grad(tree_sum, backend=backend)([1.0, [2.0, [3.0]], 4.0]) == [2.0, [4.0, [6.0]], 8.0]


# ---- Python inside ---------------------------------------------------------------------------------------------------


def python_objects(x: Any) -> Any:
    """dicts, sets, slices, strings, unpacking, comprehensions, walrus: ordinary code around the numbers."""
    parts: dict[str, Any] = {}
    for name, value in zip(["a", "b", "c"], x, strict=True):
        parts[name] = value * 2
        parts.setdefault("all", []).append(value)
    first, *rest = parts["all"]
    parts.update(d=first * rest[0])
    (a, b), c = (parts["a"], parts["b"]), parts.pop("c")
    names = {k for k in parts if len(k) == 1}
    text = f"{len(names)}-{a}"
    squares = {k: v**2 for k, v in parts.items() if k in "ab"}
    swapped = [b, a][::-1]
    total = sum(squares.values()) + swapped[0] * c + parts["d"]
    if (n := len(rest)) > 1 and text.startswith("3"):
        total += n * rest[-1]
    stack = list(range(3))
    while stack:
        total += x[stack.pop()] * len(stack)
    other = copy.copy(parts["all"])
    other.append(total)
    return other[-1] if total != 0 else 0.0


def test_python_objects_inside(backend: str) -> None:
    h = 1e-6
    expected = [(python_objects(X + h * e) - python_objects(X - h * e)) / (2 * h) for e in np.eye(3)]
    expect(python_objects, X, expected, backend=backend, rtol=1e-7)


WEIGHTS = {f"w{k}": float(k + 1) for k in range(20)}


def keys_in_a_loop(x: Any) -> Any:
    total = 0.0
    for k in range(20):
        total += x[0] * WEIGHTS[f"w{k}"] + x[1] * WEIGHTS["w%d" % k] + x[2] * WEIGHTS["w{}".format(k)]  # noqa: UP031, UP032
    return total


#: functions that compute with a text made of run-time numbers
TEXTS: list[Callable[[Any], Any]] = [
    keys_in_a_loop,
    lambda x: x[0] * len(f"{x[1]:.2f}"),
    lambda x: x[0] * (2.0 if f"{x[1]}" == "2.0" else 1.0),
    lambda x: x[0] * (2.0 if "." in f"{x[1]}" else 1.0),
    lambda x: x[0] * (2.0 if f"{x[1]}".startswith("2") else 1.0),
    lambda x: x[0] * float(f"{x[1]:.1f}") * int("%.0f" % x[2]),  # noqa: UP031
    lambda x: x[0] * len(",".join([f"{x[1]:.1f}", "a"])) * len("{:.2f}".format(x[2])),  # noqa: UP032
    lambda x: x[0] * len("a" + f"{x[1]:.1f}" + str(len(x))),
    lambda x: x[0] * int(f"{x[1]:.1f}"[0]) * sum(c == "." for c in f"{x[1]:.1f}"),
    lambda x: x[0] * (2.0 if isinstance(f"{x[1]:.1f}", str) and f"{x[1]:.1f}" else 1.0),
    lambda x: x[0] * len({f"{x[1]}", "2.0"}),
]


@pytest.mark.parametrize("k", range(len(TEXTS)))
@pytest.mark.parametrize("engine", ["source", "auto"])
@pytest.mark.filterwarnings("ignore::gradsmith.errors.GradsmithWarning")
def test_texts_of_run_time_numbers(k: int, engine: str) -> None:
    """What depends on the text is right or refused, never computed from a placeholder."""
    f = TEXTS[k]
    h = 1e-7
    try:
        got = gs.grad(f, backend="python", engine=engine)(X)
    except gs.GradsmithError:
        assert k > 0
        return
    np.testing.assert_allclose(got[0], (f(X + [h, 0, 0]) - f(X - [h, 0, 0])) / (2 * h), rtol=1e-6)


def test_printing_with_percent_and_format(capsys: pytest.CaptureFixture[str], backend: str) -> None:
    def f(x: Any) -> Any:
        for k in range(2):
            print("%5.2f|%-8s|%03d|%e|%+.1f%%" % (x[0], x[1], k, x[2], x[0]))  # noqa: UP031
            print("{0:>8.3f} {1} {0!r}".format(x[0], "a") if k > 5 else "{:>8.3f} {}".format(x[0], k))  # noqa: UP032
        return x[0]

    f(X)
    expected = capsys.readouterr().out
    gs.jit(f, backend=backend)(X)
    assert capsys.readouterr().out == expected


def test_what_the_function_does_to_outside_objects(backend: str) -> None:
    """Differentiating leaves the user's objects alone; it never stores symbolic values in them."""
    log: list[Any] = []
    state = {"count": 0, "last": None}
    buffer = np.zeros(3)

    def f(x: Any) -> Any:
        buffer[:] = x * 2
        return np.sum(buffer * x) + len(log) + state["count"]

    expect(f, X, 4 * X, backend=backend)
    np.testing.assert_array_equal(buffer, [0, 0, 0])
    assert log == [] and state == {"count": 0, "last": None}


@dataclass
class Config:
    lr: float = 0.1
    steps: int = 3
    layers: list[int] = field(default_factory=lambda: [2, 3])
    inner: Any = None


CONFIG = Config(inner=Config(lr=0.5))


def test_configuration_objects(backend: str) -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(CONFIG.steps):
            y = y - CONFIG.lr * y * CONFIG.inner.lr
        return np.sum(y) * sum(CONFIG.layers)

    g = gs.grad(f, backend=backend)
    config = CONFIG
    try:
        np.testing.assert_allclose(g(X), 5 * 0.95**3 * np.ones(3))
        config.lr = 0.2
        np.testing.assert_allclose(g(X), 5 * 0.9**3 * np.ones(3))
        config.steps = 2
        np.testing.assert_allclose(g(X), 5 * 0.9**2 * np.ones(3))
        config.inner.lr = 1.0
        np.testing.assert_allclose(g(X), 5 * 0.8**2 * np.ones(3))
        config.layers.append(5)
        np.testing.assert_allclose(g(X), 10 * 0.8**2 * np.ones(3))
        config.inner = Config(lr=2.0)
        np.testing.assert_allclose(g(X), 10 * 0.6**2 * np.ones(3))
    finally:
        config.lr, config.steps, config.layers, config.inner = 0.1, 3, [2, 3], Config(lr=0.5)


def test_functions_compiled_by_numba_are_entered(backend: str) -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def f(x: Any) -> Any:
        total = 0.0
        for v in x:
            total += v**3
        return total

    expect(lambda x: f(x) * 2, X, 6 * X**2, backend=backend)
