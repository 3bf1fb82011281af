"""``gradsmith source``: the printed source runs by itself and is the derivative; what cannot be done says why."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradsmith.cli import main

MODULE = """
import numpy as np
import helpers_of_the_module

SCALE = 2

def loss(w, x, n=3):
    total = 0.0
    for k in range(n):
        total += np.sum(helpers_of_the_module.square(w * x)) * SCALE
    return total

def cube(x):
    return x**3

def pair(x):
    return np.array([x[0] * x[1], x[0] + x[1]])

def words(x):
    return "no number"

class Model:
    @staticmethod
    def energy(x):
        return np.sum(x**2)

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "helpers_of_the_module.py").write_text("def square(x):\n    return x * x\n")
    file = tmp_path / "cli_model.py"
    file.write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("cli_model", "helpers_of_the_module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "cli_model.py"


def run(source: str, tmp_path: Path) -> dict:
    file = tmp_path / "printed.py"
    file.write_text(source)
    return runpy.run_path(str(file))


W, X = np.array([1.0, 2.0]), np.array([3.0, -1.0])


@pytest.mark.parametrize(
    "at", ["w=np.ones(2), x=np.ones(2), n=3", "np.ones(2), np.ones(2)", "np.ones(2), x=np.ones(int(math.sqrt(4)))"]
)
def test_printed_gradient_is_the_gradient(
    module: str, at: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["source", f"{module}:loss", "--wrt", "w", "--at", at]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# gradsmith source cli_model.py:loss --wrt w --at ")
    gradient = run(out, tmp_path)["grad_loss"]
    args = (W, X, 3) if "n=3" in at else (W, X)
    np.testing.assert_allclose(gradient(*args), 3 * 2 * 2 * W * X**2)


def test_written_to_a_file(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["source", "cli_model:cube", "--kind", "derivative", "--at", "2.0", "-o", "out.py"]) == 0
    assert capsys.readouterr().out == ""
    text = (tmp_path / "out.py").read_text()
    assert text.splitlines()[0] == "# gradsmith source cli_model:cube --kind derivative --at 2.0"
    assert run(text, tmp_path)["derivative_cube"](2.0) == 12.0


@pytest.mark.parametrize(
    ("words", "name", "args", "expected"),
    [
        (["cube", "--kind", "value_and_grad", "--at", "2.0"], "value_and_grad_cube", (2.0,), (8.0, 12.0)),
        (["cube", "--kind", "hessian", "--at", "2.0"], "hessian_cube", (2.0,), 12.0),
        (["cube", "--kind", "jit", "--at", "2.0"], "jit_cube", (2.0,), 8.0),
        (["pair", "--kind", "jacobian", "--at", "np.ones(2)"], "jacobian_pair", (W,), [[2.0, 1.0], [1.0, 1.0]]),
        (
            ["loss", "--wrt", "0,x", "--at", "np.ones(2), np.ones(2), 3"],
            "grad_loss",
            (W, X, 3),
            (12 * W * X**2, 12 * W**2 * X),
        ),
        (["loss", "--wrt", "1", "--at", "np.ones(2), np.ones(2), 3"], "grad_loss", (W, X, 3), 12 * W**2 * X),
        (
            ["loss", "--wrt", "w", "--wrt", "x", "--at", "np.ones(2), np.ones(2), 3"],
            "grad_loss",
            (W, X, 3),
            (12 * W * X**2, 12 * W**2 * X),
        ),
        (
            ["pair", "--kind", "jacobian", "--mode", "reverse", "--at", "np.ones(2)"],
            "jacobian_pair",
            (W,),
            [[2.0, 1.0], [1.0, 1.0]],
        ),
        (["cube", "--kind", "hvp", "--at", "2.0, 1.0"], "hvp_cube", (2.0, 0.5), 6.0),
        (["Model.energy", "--at", "np.ones(2)"], "grad_energy", (X,), 2 * X),
    ],
)
def test_kinds_and_arguments(
    module: str,
    words: list[str],
    name: str,
    args: tuple,
    expected: object,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["source", f"{module}:{words[0]}", *words[1:]]) == 0
    np.testing.assert_allclose(run(capsys.readouterr().out, tmp_path)[name](*args), expected)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["cli_model.py", "--at", "1.0"], 2, "names no function"),
        (["nothing.py:f", "--at", "1.0"], 2, "no file nothing.py"),
        (["nothing_there:f", "--at", "1.0"], 2, "importing nothing_there: ModuleNotFoundError"),
        (["cli_model.py:lost", "--at", "1.0"], 2, "has no 'lost'; did you mean 'loss'?"),
        (["cli_model.py:number", "--at", "1.0"], 2, "not a function but of type int"),
        (["cli_model.py:cube", "--at", "np.ons(3)"], 2, "--at 'np.ons(3)': AttributeError"),
        (["cli_model.py:cube", "--at", "1.0 +"], 2, "SyntaxError"),
        (["cli_model.py:cube", "--at", "1.0, 2.0"], 2, "does not fit cube: too many positional arguments"),
        (["cli_model.py:cube", "--kind", "jit", "--wrt", "x", "--at", "1.0"], 2, "takes no --wrt"),
        (["cli_model.py:cube", "--wrt", "y", "--at", "1.0"], 2, "no argument named 'y'; there are x"),
        (["cli_model.py:cube", "--mode", "reverse", "--at", "1.0"], 2, "--kind grad takes no --mode"),
        (["cli_model.py:zzz", "--at", "1.0"], 2, "has no 'zzz'; it defines loss, cube, pair, words"),
        (["cli_model.py:loss", "--at", "np.ones(2), np.ones(3)"], 1, "ValueError: operands could not be broadcast"),
        (["cli_model.py:cube", "--at", "3"], 1, "pass a float"),
        (["cli_model.py:words", "--at", "1.0"], 1, "words returned"),
        (["cli_model.py:cube", "--at", "1.0", "-o", "no/such/folder/out.py"], 2, "No such file or directory"),
    ],
)
def test_errors_say_what_is_wrong(
    module: str, words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["source", *words]) == status
    printed = capsys.readouterr()
    assert message in printed.err and not printed.out and "Traceback" not in printed.err


def test_the_command_from_a_shell(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gradsmith", "source", f"{module}:cube", "--at", "2.0"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        check=True,
    )
    assert "def grad_cube(x):" in done.stdout
