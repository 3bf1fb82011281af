"""The C mathematics library, and its vector versions (glibc's libmvec) for LLVM's loop vectoriser."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

import llvmlite.binding as ll

#: operations that are one function of the C library: name and number of operands
C_FUNCTIONS: dict[str, tuple[str, int]] = {
    **{name: (name, 1) for name in ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt"]},
    **{name: (name, 1) for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "erfc"]},
    **{f"arc{name}": (f"a{name}", 1) for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh"]},
    **{"arctan2": ("atan2", 2), "hypot": ("hypot", 2), "pow": ("pow", 2), "nextafter": ("nextafter", 2)},
}


@functools.cache
def _libmvec() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return None
    try:
        library = ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None
    ll.load_library_permanently("libmvec.so.1")
    return library


@functools.cache
def vector_variants(name: str, arity: int, single: bool) -> tuple[tuple[str, int], ...]:
    """Symbols of the vector versions of a C function that this machine can run, each with its number of lanes."""
    library = _libmvec()
    if library is None:
        return ()
    features = ll.get_host_cpu_features()
    kinds = [("d", 4, "avx2"), ("e", 8, "avx512dq")]
    out = []
    for letter, lanes, feature in kinds:
        lanes *= 2 if single else 1
        symbol = f"_ZGV{letter}N{lanes}{'v' * arity}_{name}"
        if features.get(feature) and hasattr(library, symbol):
            out.append((symbol, lanes))
    return tuple(out)


class Functions:
    """Declarations of the functions that one module calls."""

    def __init__(self) -> None:
        self._declared: dict[str, str] = {}
        self._attributes: dict[str, int] = {}
        self._vector: dict[str, str] = {}

    def is_call(self, operation: str) -> bool:
        """Whether an operation calls the C library."""
        return operation in C_FUNCTIONS or operation in ("expit", "logaddexp")

    def vectorised(self, operation: str, single: bool) -> bool:
        """Whether an operation calls the C library, in a version for several lanes where loops are vectorised."""
        name, arity = C_FUNCTIONS.get({"expit": "exp", "logaddexp": "exp"}.get(operation, operation), ("", 0))
        return bool(name and vector_variants(name + ("f" if single else ""), arity, single))

    def call(self, name: str, type: str, args: list[str]) -> str:
        """The text of a call of the C function ``name`` (double version) on scalars of ``type`` (double or float)."""
        single = type == "float"
        symbol = name + ("f" if single else "")
        variants = vector_variants(symbol, len(args), single)
        for variant, lanes in variants:
            vector = f"<{lanes} x {type}>"
            self._vector[variant] = f"declare {vector} @{variant}({', '.join([vector] * len(args))}) #0"
        attribute = "#0"
        if variants:
            names = ",".join(f"{v}({v})" for v, _ in variants)
            attribute = f"#{self._attributes.setdefault(names, len(self._attributes) + 10)}"
        self._declared[symbol] = f"declare {type} @{symbol}({', '.join([type] * len(args))}) #0"
        return f"call {type} @{symbol}({', '.join(f'{type} {a}' for a in args)}) {attribute}"

    def pure(self, symbol: str, type: str, args: list[str], extra: str = "") -> str:
        """The text of a call of a pure function known by address under ``symbol``."""
        extra_type = ", i32" if extra else ""
        self._declared[symbol] = f"declare {type} @{symbol}({', '.join([type] * len(args))}{extra_type}) #0"
        return f"call {type} @{symbol}({', '.join(f'{type} {a}' for a in args)}{extra}) #0"

    def text(self) -> str:
        """Declarations, attributes, and the list that keeps the vector versions alive."""
        lines = [*self._declared.values(), *self._vector.values()]
        lines.append("attributes #0 = { nounwind willreturn memory(none) }")
        for names, number in self._attributes.items():
            lines.append(
                f'attributes #{number} = {{ nounwind willreturn memory(none) "vector-function-abi-variant"="{names}" }}'
            )
        if self._vector:
            pointers = ", ".join(f"ptr @{v}" for v in self._vector)
            kept = f"[{len(self._vector)} x ptr] [{pointers}]"
            lines.append(f'@llvm.compiler.used = appending global {kept}, section "llvm.metadata"')
        return "\n".join(lines)
