"""The command ``gradsmith``: derivative source from a shell.

gradsmith source model.py:loss --wrt w --at "w=np.ones(3), n=5" -o loss_grad.py
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import inspect
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import gradsmith
from gradsmith import api
from gradsmith.errors import GradsmithError

_TRANSFORMS: dict[str, Callable[..., api.Compiled]] = {
    "grad": api.grad,
    "value_and_grad": api.value_and_grad,
    "derivative": api.derivative,
    "jacobian": api.jacobian,
    "hessian": api.hessian,
    "hvp": api.hvp,
    "jit": api.jit,
}
_WITHOUT_WRT = ("derivative", "hvp", "jit")


class CommandError(Exception):
    """What is wrong with a command, in one line or more for its user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 if there is no derivative, 2 for a command that makes no sense."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(words)
    try:
        text = f"# gradsmith {shlex.join(_without_output(words))}\n{derivative_source(options)}"
        if options.output is None:
            sys.stdout.write(text)
        else:
            Path(options.output).write_text(text, encoding="utf-8")
    except (CommandError, OSError) as error:
        print(f"gradsmith: {error}", file=sys.stderr)
        return 2
    except GradsmithError as error:
        print("\n".join([f"gradsmith: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    except Exception as error:  # of the user's function
        lines = [f"gradsmith: {type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        print("\n".join(lines), file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gradsmith", description="Derivatives of ordinary NumPy code.")
    parser.add_argument("--version", action="version", version=f"gradsmith {gradsmith.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    source = commands.add_parser(
        "source",
        help="print the derivative of a function as NumPy source",
        description="Print the derivative of a function as NumPy source, which runs without gradsmith.",
        epilog='example: gradsmith source model.py:loss --wrt w --at "w=np.ones(3), x=np.ones((5, 3))" -o loss_grad.py',
    )
    source.add_argument("function", help="module.py:function, or package.module:function; Class.method works too")
    source.add_argument(
        "--at",
        required=True,
        help='arguments of a call: "np.ones(3), n=5"; np, math and the names of the module are known',
    )
    source.add_argument(
        "--wrt",
        action="append",
        help="arguments to differentiate with respect to: names or positions, separated by commas or each with a --wrt of "
        "its own (default: the first)",
    )
    source.add_argument("--kind", choices=list(_TRANSFORMS), default="grad", help="what to print (default: grad)")
    source.add_argument("--mode", choices=["auto", "forward", "reverse"], help="how a Jacobian is computed")
    source.add_argument("-o", "--output", help="write to this file instead")
    return parser


def _without_output(words: Sequence[str]) -> list[str]:
    """The command without where its output goes: what made the source, for its first line."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-o", "--output"):
            next(rest)
        elif not word.startswith(("-o", "--output=")):
            kept.append(word)
    return kept


def derivative_source(options: argparse.Namespace) -> str:
    """The source that the parsed command asks for."""
    module, f = _function(options.function)
    args, kwargs = _arguments(options.at, module)
    if options.kind != "hvp":  # whose arguments are a point and a vector
        args, kwargs = _bound(f, args, kwargs, options.at)
    return _compiled(f, options.kind, options.wrt, options.mode).source(*args, **kwargs)


def _function(name: str) -> tuple[ModuleType, Callable[..., Any]]:
    where, colon, path = name.rpartition(":")
    if not colon or not where or not path:
        raise CommandError(f"{name!r} names no function: write module.py:function or package.module:function")
    module = _module(where)
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{where} has no {path!r}; {_suggestion(path, module)}")
        found = getattr(found, part)
    if not callable(found):
        raise CommandError(f"{path} in {where} is not a function but of type {type(found).__name__}")
    return module, found


def _defined(module: ModuleType) -> str:
    names = [n for n, x in vars(module).items() if inspect.isfunction(x) and x.__module__ == module.__name__]
    return ", ".join(names) or "no function"


def _suggestion(path: str, module: ModuleType) -> str:
    near = difflib.get_close_matches(path, vars(module), 1)
    return f"did you mean {near[0]!r}?" if near else f"it defines {_defined(module)}"


def _module(where: str) -> ModuleType:
    """A module by its file or its dotted name, imported as Python runs a script: its own folder is searched first."""
    try:
        if not where.endswith(".py"):
            sys.path.insert(0, "")
            return importlib.import_module(where)
        file = Path(where).resolve()
        if not file.is_file():
            raise CommandError(f"no file {where}")
        sys.path.insert(0, str(file.parent))
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except CommandError:
        raise
    except Exception as error:  # whatever the user's module raises
        raise CommandError(f"importing {where}: {type(error).__name__}: {error}") from error


def _arguments(text: str, module: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that ``text`` lists."""
    namespace = {
        **vars(module),
        "np": np,
        "numpy": np,
        "math": math,
        "_arguments_": lambda *args, **kwargs: (args, kwargs),
    }
    try:
        args, kwargs = eval(f"_arguments_({text}\n)", namespace)
    except Exception as error:
        raise CommandError(f"--at {text!r}: {type(error).__name__}: {error}") from error
    return args, kwargs


def _bound(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], text: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments by position where the function's signature allows it."""
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise CommandError(f"--at {text!r} does not fit {getattr(f, '__name__', f)}: {error}") from error
    return bound.args, bound.kwargs


def _compiled(f: Callable[..., Any], kind: str, wrt: Sequence[str] | None, mode: str | None) -> api.Compiled:
    more: dict[str, Any] = {}
    if mode is not None:
        if kind != "jacobian":
            raise CommandError(f"--kind {kind} takes no --mode")
        more["mode"] = mode
    if wrt is None:
        return _TRANSFORMS[kind](f, **more)
    if kind in _WITHOUT_WRT:
        raise CommandError(f"--kind {kind} takes no --wrt")
    words = [word.strip() for words in wrt for word in words.split(",")]
    names = [int(n) if n.lstrip("-").isdigit() else n for n in words]
    parameters = inspect.signature(f).parameters
    for name in names:
        variable = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if isinstance(name, str) and name not in parameters and not variable:
            raise CommandError(f"--wrt: no argument named {name!r}; there are {', '.join(parameters)}")
    return _TRANSFORMS[kind](f, names[0] if len(names) == 1 else names, **more)
