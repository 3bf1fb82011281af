"""How random functions are judged: by plain Python, by differences, and by one another's answers in every other way."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradsmith as gs
from gradsmith.errors import GradsmithError
from tests.fuzz.source_programs import arguments

MOVING = (0, 1, 2, 3, 4)
NUMBERS = (3, 4)
POINTS = 3


class Refused(Exception):
    """gradsmith says that it cannot do this."""


def function(text: str, folder: Path) -> Callable[..., Any]:
    """``f`` of the module with this source, written to a file of its own."""
    name = "program_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def points(f: Callable[..., Any], seed: int) -> list[tuple[list[Any], list[Any], Any]]:
    """(arguments, the arguments after the call, result) of plain Python at the points where the result is a finite float."""
    found = []
    for k in range(POINTS):
        args = arguments(seed + 1000 * k)
        plain = copy.deepcopy(args)
        expected = f(*plain)
        if isinstance(expected, float) and np.isfinite(expected):
            found.append((args, plain, expected))
    return found


def check(f: Callable[..., Any], seed: int, engine: str = "source") -> None:
    """Judge ``f`` at several points with the same compiled objects; raises Refused when the engine refuses it."""
    with refusing():
        values = {b: gs.jit(f, backend=b, engine=engine) for b in ("python", "native")}
        reverse = {b: gs.grad(f, MOVING, backend=b, engine=engine) for b in ("python", "native")}
        forward = {b: gs.jacobian(f, MOVING, mode="forward", backend=b, engine=engine) for b in ("python", "native")}
        for args, plain, expected in points(f, seed):
            for backend, compiled in values.items():
                own = copy.deepcopy(args)
                close([compiled(*own)], [expected], 1e-9, f"value ({backend})")
                close(own, plain, 1e-9, f"arguments after the call ({backend})")
            before = copy.deepcopy(args)
            found = {f"{mode} {b}": d[b](*args) for mode, d in (("reverse", reverse), ("forward", forward)) for b in d}
            close(args, before, 0.0, "arguments after a derivative")
            names = list(found)
            for name in names[1:]:
                close(found[name], found[names[0]], 1e-7, f"{name} against {names[0]}")
            compare_with_differences(f, args, found[names[0]])


def check_automatic(f: Callable[..., Any], seed: int) -> None:
    """What users get by default: the tape serves what the source front end refuses."""
    with refusing():
        value, reverse = gs.jit(f), gs.grad(f, MOVING)
        for args, plain, expected in points(f, seed):
            own = copy.deepcopy(args)
            close([value(*own)], [expected], 1e-9, "value (auto)")
            close(own, plain, 1e-9, "arguments after the call (auto)")
            compare_with_differences(f, args, reverse(*args))


def check_tape(f: Callable[..., Any], seed: int) -> None:
    """The tape gives Python's value and the derivative of the source front end (or of differences, where it refuses)."""
    with refusing():
        value = gs.jit(f, backend="python", engine="tape")
        reverse = gs.grad(f, MOVING, backend="python", engine="tape")
        source = gs.grad(f, MOVING, backend="python", engine="source")
        for args, plain, expected in points(f, seed):
            own = copy.deepcopy(args)
            close([value(*own)], [expected], 1e-9, "value (tape)")
            close(own, plain, 1e-9, "arguments after the call (tape)")
            found = reverse(*args)
            try:
                wanted = source(*args)
            except GradsmithError:
                compare_with_differences(f, args, found)
            else:
                close(found, wanted, 1e-7, "tape against source")


def check_second_order(f: Callable[..., Any], seed: int) -> None:
    """Hessians with respect to the two numbers: symmetric, the same on both back ends, and differences of gradients."""
    with refusing():
        gradient = gs.grad(f, NUMBERS, backend="python", engine="source")
        hessians = {b: gs.hessian(f, NUMBERS, backend=b, engine="source") for b in ("python", "native")}
        for args, _, _ in points(f, seed):
            found = {b: np.array(h(*args), float) for b, h in hessians.items()}
            close([found["native"]], [found["python"]], 1e-6, "native Hessian against python")
            close([found["python"].T], [found["python"]], 1e-6, "Hessian against its transpose")
            for row, k in enumerate(NUMBERS):
                wanted = _differences_of(gradient, args, k)
                if wanted is not None:
                    close([found["python"][row]], [wanted], 1e-4, f"row {row} of the Hessian against differences")


def check_vmap(f: Callable[..., Any], seed: int) -> None:
    """The gradients of several rows at once are those of the rows."""
    with refusing():
        gradient = gs.grad(f, NUMBERS, engine="source")
        rows = gs.vmap(gradient, (None, None, None, 0, 0, None))
        pairs = [(args[3], args[4]) for args, _, _ in points(f, seed)]
        args = arguments(seed)
        runs = [pair for pair in pairs if _runs(f, [*args[:3], *pair, args[5]])]
        if not runs:
            return
        s, t = (np.array(column) for column in zip(*runs, strict=True))
        expected = [gradient(*args[:3], *pair, args[5]) for pair in runs]
        close(rows(*args[:3], s, t, args[5]), np.array(expected).T, 1e-9, "vmap against rows")


def check_shown_source(f: Callable[..., Any], seed: int) -> None:
    """What ``source()`` shows runs alone and gives the same gradient."""
    with refusing():
        gradient = gs.grad(f, MOVING, backend="python", engine="source")
        for args, _, _ in points(f, seed)[:1]:
            scope: dict[str, Any] = {}
            exec(gradient.source(*args), scope)
            shown = scope[gradient.__name__]
            if len(inspect.signature(shown).parameters) == len(args):  # else it has parameters for what is read outside
                close(shown(*copy.deepcopy(args)), gradient(*args), 1e-9, "the shown source")


def _runs(f: Callable[..., Any], args: list[Any]) -> bool:
    """Whether ``f`` gives a finite number for these arguments."""
    try:
        return bool(np.isfinite(f(*copy.deepcopy(args))))
    except (ValueError, ArithmeticError, LookupError):
        return False


#: every way to judge a function, by name
WAYS: dict[str, Callable[[Callable[..., Any], int], None]] = {
    "source": check,
    "auto": check_automatic,
    "tape": check_tape,
    "second order": check_second_order,
    "vmap": check_vmap,
    "shown source": check_shown_source,
}


class refusing:
    """What gradsmith refuses is raised as :class:`Refused`."""

    def __enter__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._warnings.__exit__(kind, error, traceback)
        if isinstance(error, GradsmithError):
            raise Refused(str(error)) from error


def close(found: Any, expected: Any, tolerance: float, what: str) -> None:
    scale = 1.0 + max(np.max(np.abs(e), initial=0.0) for e in expected)
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b), f"{what}: shape {np.shape(a)}, expected {np.shape(b)}"
        assert np.all(np.abs(np.subtract(a, b)) <= tolerance * scale), f"{what}: {a}, expected {b}"


def compare_with_differences(f: Callable[..., Any], args: list[Any], gradient: Any) -> None:
    """Along a random direction, unless differences of two steps disagree: a kink is near, or rounding spoils them."""
    rng = np.random.default_rng(0)
    directions = [rng.uniform(-1.0, 1.0, np.shape(args[k])) for k in MOVING]

    def at(h: float) -> float:
        moved = copy.deepcopy(args)
        for k, d in zip(MOVING, directions, strict=True):
            moved[k] = moved[k] + h * d if isinstance(moved[k], np.ndarray) else float(moved[k] + h * d)
        return float(f(*moved))

    coarse, fine = ((8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h) for h in (1e-4, 3e-5))
    scale = 1.0 + abs(fine)
    bent = abs(at(1e-6) - 2 * at(0.0) + at(-1e-6)) > 1e-9 * scale  # the slopes of the two sides differ: a kink is here
    if abs(coarse - fine) <= 1e-7 * scale and not bent:
        slope = sum(np.sum(g * d) for g, d in zip(gradient, directions, strict=True))
        assert abs(slope - fine) <= 1e-5 * scale, f"the derivative is {slope}, differences give {fine}"


def _differences_of(gradient: Callable[..., Any], args: list[Any], k: int) -> np.ndarray | None:
    """Derivative of the gradient with respect to argument k, or None where two steps disagree."""

    def at(h: float) -> np.ndarray:
        return np.array(gradient(*args[:k], float(args[k] + h), *args[k + 1 :]), float)

    coarse, fine = ((at(h) - at(-h)) / (2 * h) for h in (1e-5, 3e-6))
    smooth = np.all(np.abs(coarse - fine) <= 1e-5 * (1.0 + np.abs(fine)))
    return fine if smooth else None
