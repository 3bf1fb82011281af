"""The traceback of an error: the caller, one or two frames of gradsmith, and the user's functions as if Python had run them."""

from __future__ import annotations

import gc
import io
import os
import pdb
import subprocess
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradsmith as gs
from gradsmith import call
from tests.reliability import traced

X = np.array([1.0, 2.0, 3.0])
ENGINES = ["source", "tape"]
OWN = os.path.dirname(gs.__file__) + os.sep
LONGEST = 30  # lines


@pytest.fixture(params=["native", "python"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=ENGINES)
def options(request: pytest.FixtureRequest, backend: str) -> dict[str, str]:
    return {"engine": request.param, "backend": backend}


def raised(call: Callable[[], Any], kind: type[BaseException]) -> BaseException:
    with pytest.raises(kind) as info:
        call()
    return info.value


def frames_of(error: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))


def users(error: BaseException) -> list[tuple[str, str]]:
    """(function, source) of what comes after gradsmith's frames, of which there are one or two after the caller's."""
    found = frames_of(error)
    own = [k for k, f in enumerate(found) if f.filename.startswith(OWN)]
    assert own, found
    first = own[0]
    assert own == list(range(first, first + len(own))) and len(own) <= 2, found
    assert not getattr(error, "__notes__", None) or "  at " not in "".join(error.__notes__)
    text = "".join(traceback.format_exception(error))
    assert text.count("\n") <= LONGEST, text
    return [(f.name, f.line.split("#")[-1].strip()) for f in found[own[-1] + 1 :]]


def fails(call: Callable[[], Any], kind: type[BaseException], *expected: tuple[str, str]) -> BaseException:
    error = raised(call, kind)
    assert users(error) == list(expected)
    return error


# ---- while staging --------------------------------------------------------------------------------------------------


def nested(x: Any) -> Any:
    y = 2 * x
    return traced.through(y, 7) + 1.0  # nested


NESTED = (("nested", "nested"), ("through", "through"), ("pick", "pick"))


def test_functions_in_two_files(options: dict[str, str]) -> None:
    error = fails(lambda: gs.grad(nested, **options)(X), IndexError, *NESTED)
    assert [os.path.basename(f.filename) for f in frames_of(error)[-3:]] == ["test_tracebacks.py"] + ["traced.py"] * 2


@pytest.mark.parametrize("transform", [gs.grad, gs.value_and_grad, gs.hessian, gs.jacobian])
def test_every_transform(transform: Callable[..., Any], backend: str) -> None:
    fails(lambda: transform(nested, backend=backend)(X), IndexError, *NESTED)


def test_calls_that_are_no_transforms(options: dict[str, str]) -> None:
    native = {**options, "backend": "native"}  # lines of NumPy source hold several operations
    fails(lambda: gs.vjp(nested, X, **native), IndexError, *NESTED)
    fails(lambda: gs.jvp(nested, (X,), (X,), **options), IndexError, *NESTED)
    fails(lambda: gs.hvp(nested, **options)(X, X), IndexError, *NESTED)
    fails(lambda: gs.prepare(gs.grad(nested, **options), X), IndexError, *NESTED)
    fails(lambda: gs.grad(nested, **options).program(X), IndexError, *NESTED)
    fails(lambda: gs.grad(nested, **options).source(X), IndexError, *NESTED)
    fails(lambda: gs.record(nested, X), IndexError, *NESTED)


def test_unsupported_code() -> None:
    def helper(x: Any) -> Any:
        async def g() -> Any: ...  # refused

        return x

    def f(x: Any) -> Any:
        return helper(x)  # f

    name = "test_unsupported_code.<locals>.helper"
    error = fails(lambda: gs.grad(f, engine="source")(1.0), gs.UnsupportedCode, ("f", "f"), ("helper", "refused"))
    last = list(traceback.walk_tb(error.__traceback__))[-1][0]
    assert last.f_code.co_qualname == name


def test_a_missing_rule() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.busday_count(x, x))  # f

    fails(lambda: gs.grad(f, engine="source")(X), gs.MissingRule, ("f", "f"))


def test_a_type_error(options: dict[str, str]) -> None:
    def f(x: Any) -> Any:
        return np.sum(x) + {}  # f

    fails(lambda: gs.grad(f, **options)(X), TypeError, ("f", "f"))


def test_an_argument_without_derivative(backend: str) -> None:
    def f(x: Any) -> Any:  # def f
        return x * x

    fails(lambda: gs.grad(f, backend=backend)(3), gs.NotDifferentiable, ("f", "def f"))


def test_a_lambda(options: dict[str, str]) -> None:
    f = lambda x: traced.pick(x, 9) ** 2  # noqa: E731  # f
    fails(lambda: gs.grad(f, **options)(X), IndexError, ("<lambda>", "f"), ("pick", "pick"))


def test_nested_derivatives(options: dict[str, str]) -> None:
    def f(x: Any) -> Any:
        return gs.grad(nested)(x).sum()  # f

    error = raised(lambda: gs.grad(f, **options)(X), IndexError)
    mine = [f.name for f in frames_of(error) if not f.filename.startswith(OWN)]
    assert mine[-4:] == ["f", "nested", "through", "pick"]
    assert len(frames_of(error)) <= 9


def test_a_custom_rule(options: dict[str, str]) -> None:
    @gs.custom_vjp
    def g(x: Any) -> Any:
        return x * x

    def backward(x: Any, cotangent: Any) -> Any:
        raise ArithmeticError("in the rule")  # backward

    g.defvjp(lambda x: (x * x, x), backward)

    def f(x: Any) -> Any:
        return g(x)  # f

    error = raised(lambda: gs.grad(f, **options)(2.0), ArithmeticError)
    assert users(error)[-1] == ("backward", "backward")
    assert str(error) == "in the rule"


def test_vmap(backend: str) -> None:
    for parallel in (None, True, False):
        fails(
            lambda p=parallel: gs.vmap(gs.grad(nested), parallel=p, backend=backend)(np.ones((3, 3))),
            IndexError,
            *NESTED,
        )


def test_code_without_source() -> None:
    scope: dict[str, Any] = {"traced": traced}
    exec(compile("def f(x):\n    y = 2 * x\n    return traced.pick(y, 5)\n", "<made>", "exec"), scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = raised(lambda: gs.grad(scope["f"])(X), IndexError)
    assert [(f.filename, f.lineno, f.name) for f in frames_of(error)][-2] == ("<made>", 3, "f")
    assert users(error)[-1] == ("pick", "pick")


# ---- compiled code --------------------------------------------------------------------------------------------------


def compiled_fails(
    f: Callable[..., Any], good: Any, bad: Any, kind: type[BaseException], options: Any, *expected: tuple[str, str]
) -> None:
    g = gs.grad(f, **options)
    g(*good)
    for _ in range(2):
        fails(lambda: g(*bad), kind, *expected)
    g(*good)


def test_an_index_in_compiled_code(options: dict[str, str]) -> None:
    def f(x: Any, k: int) -> Any:
        return traced.through(x, k)  # f

    compiled_fails(f, (X, 1), (X, 5), IndexError, options, ("f", "f"), ("through", "through"), ("pick", "pick"))


def test_shapes_in_compiled_code(backend: str) -> None:
    def added(x: Any, y: Any) -> Any:
        z = np.sin(x) + y  # added
        return z

    def f(x: Any, y: Any) -> Any:
        return np.sum(added(2 * x, y) ** 2)  # f

    options = {"engine": "source", "backend": backend}
    compiled_fails(f, (X, X + 1), (X, np.ones(4)), ValueError, options, ("f", "f"), ("added", "added"))


def test_a_division_in_compiled_code(options: dict[str, str]) -> None:
    def f(x: float) -> float:
        return 1.0 / (x - 1.0)  # f

    compiled_fails(f, (2.0,), (1.0,), ZeroDivisionError, options, ("f", "f"))


def test_linear_algebra_in_compiled_code(options: dict[str, str]) -> None:
    def f(a: Any) -> Any:
        return np.sum(np.linalg.inv(a))  # f

    compiled_fails(f, (np.eye(2),), (np.zeros((2, 2)),), np.linalg.LinAlgError, options, ("f", "f"))


def test_a_raise_in_a_branch_of_a_method(options: dict[str, str]) -> None:
    model = traced.Scaler(2.0)

    def f(x: Any) -> Any:
        return model(x) + 1.0  # f

    calls = ("f", "f"), ("__call__", "Scaler call"), ("scaled", "scaled")
    compiled_fails(f, (1.0,), (4.0,), ValueError, options, *calls)


def test_a_function_called_at_two_places(backend: str) -> None:
    def f(x: Any, k: int, m: int) -> Any:
        first = traced.pick(x, k)  # first
        return first * traced.pick(x, m)  # second

    g = gs.grad(f, backend=backend)
    g(X, 0, 1)
    fails(lambda: g(X, 5, 1), IndexError, ("f", "first"), ("pick", "pick"))
    fails(lambda: g(X, 1, 5), IndexError, ("f", "second"), ("pick", "pick"))


def test_a_replayed_tape() -> None:
    for compiled in (False, True):
        tape = gs.record(lambda x: traced.through(x, 2), X)
        if compiled:
            tape.compile()
        error = raised(lambda t=tape: t.gradient(np.ones(2)), IndexError)
        assert users(error)[-1] == ("pick", "pick")


# ---- chains ---------------------------------------------------------------------------------------------------------


def test_a_chain_of_the_users(options: dict[str, str]) -> None:
    def f(x: Any) -> Any:
        try:
            traced.pick([], 0)  # tried
        except IndexError as error:
            raise ValueError("second") from error  # again
        return x

    def g(x: Any) -> Any:
        try:
            traced.pick([], 0)  # tried
        except IndexError:
            raise ValueError("second")  # noqa: B904  # again
        return x

    for function in (f, g):
        error = fails(lambda h=function: gs.grad(h, **options)(2.0), ValueError, (function.__name__, "again"))
        context = error.__cause__ or error.__context__
        assert isinstance(context, IndexError)
        names = [entry.name for entry in frames_of(context)]
        assert names == [function.__name__, "pick"]
        assert OWN + "frontend" not in "".join(traceback.format_exception(error))


def test_nothing_internal_in_the_chain(backend: str) -> None:
    """What the stager tries and gives up on is none of the user's."""

    def f(x: Any, a: Any) -> Any:
        try:
            y = np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            y = a
        return traced.pick(y, 7).sum() * x  # f

    g = gs.grad(f, backend=backend)
    for a in (np.eye(2), -np.eye(2)):
        error = raised(lambda a=a: g(2.0, a), IndexError)
        assert users(error)[0] == ("f", "f")
        assert error.__cause__ is None
        assert error.__context__ is None or isinstance(error.__context__, np.linalg.LinAlgError)


def test_what_the_caller_was_handling() -> None:
    def caller() -> None:
        try:
            raise OSError("the caller's")
        except OSError:
            gs.grad(nested)(X)

    error = raised(caller, IndexError)
    assert isinstance(error.__context__, OSError)
    assert [f.name for f in frames_of(error.__context__)] == ["caller"]


# ---- the whole, and tools -------------------------------------------------------------------------------------------


def test_everything_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADSMITH_FULL_TRACEBACK", "1")
    error = raised(lambda: gs.grad(nested)(X), IndexError)
    assert sum(f.filename.startswith(OWN) for f in frames_of(error)) > 5
    assert "traced.py" in "".join(error.__notes__)


def test_a_defect_of_gradsmith_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile(program: object) -> Any:
        return {}["native"]

    compile.__code__ = compile.__code__.replace(co_filename=OWN + "broken.py")
    monkeypatch.setitem(call._BACKENDS, "python", compile)
    error = raised(lambda: gs.grad(lambda x: x * x, backend="python")(1.0), KeyError)
    assert any(f.filename.endswith("call.py") for f in frames_of(error))


def test_pdb_walks_the_frames() -> None:
    error = raised(lambda: gs.grad(nested)(X), IndexError)
    out = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("w\nl\nup\np 1 + 1\nargs\nup\nq\n"), stdout=out, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.reset()
    debugger.interaction(None, error.__traceback__)
    assert "traced.py" in out.getvalue() and "\n(Pdb) 2" in out.getvalue()


def test_uncaught(tmp_path: Any) -> None:
    """The interpreter prints it, which does not go by the traceback module."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport gradsmith as gs\n\n\ndef g(x):\n    return x[5]\n\n\n"
        "def f(x):\n    return g(x) ** 2\n\n\ngs.grad(f)(np.ones(3))\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    lines = ran.stderr.splitlines()
    assert lines[-5:] == [
        f'  File "{script}", line 10, in f',
        "    return g(x) ** 2",
        f'  File "{script}", line 6, in g',
        "    return x[5]",
        "IndexError: index 5 is out of bounds for axis 0 with size 3",
    ]
    assert len(lines) <= 12


def test_an_error_keeps_no_arguments_alive() -> None:
    def f(x: Any) -> Any:
        return x[10] ** 2

    def failing() -> tuple[BaseException, Any]:
        x = np.ones(3)
        alive = weakref.ref(x)
        try:
            gs.grad(f)(x)
        except IndexError as error:
            error.__traceback__ = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]
            return error, alive
        raise AssertionError

    error, alive = failing()
    gc.collect()
    assert alive() is None
    assert frames_of(error)[-1].name == "f"


def test_an_error_object_that_is_raised_again_and_again(backend: str) -> None:
    kept = ValueError("kept")

    def f(x: Any) -> Any:
        raise kept  # f

    def g(x: Any) -> Any:
        raise kept  # g

    for function in (f, g):
        kept.__traceback__ = None
        name = function.__name__
        fails(lambda h=function: gs.grad(h, backend=backend)(1.0), ValueError, (name, name))
        assert not hasattr(kept, "__notes__")


def test_interrupts_pass_through() -> None:
    def f(x: Any) -> Any:
        raise KeyboardInterrupt

    error = raised(lambda: gs.grad(f)(1.0), KeyboardInterrupt)
    assert error.__traceback__ is not None


def generated(xs: Any) -> Iterator[Any]:
    for k in range(9):
        yield xs[k]  # generated


def test_generators_and_comprehensions() -> None:
    def f(x: Any) -> Any:
        return sum(generated(x))  # f

    def g(x: Any) -> Any:
        return sum([traced.pick(x, k) ** 2 for k in range(9)])  # g

    fails(lambda: gs.grad(f)(X), IndexError, ("f", "f"), ("generated", "generated"))
    fails(lambda: gs.grad(g)(X), IndexError, ("g", "g"), ("pick", "pick"))
