"""LLVM as a function: assembly text in, addresses of machine code out."""

from __future__ import annotations

import functools
import threading
from typing import Any

import llvmlite.binding as ll

from gradsmith.locking import wait_before_fork

_lock = threading.RLock()
wait_before_fork(ll.ffi.lib._lock._lock)  # what is thrown away is freed at any time
wait_before_fork(_lock)  # taken first: hooks run in reverse

#: size of a module, in lines, from which the cheap code generator is used (the good one is superlinear in block size)
LARGE = 6000
#: size from which only passes run that are linear in the size of a function (a long tape is one straight line)
HUGE = 40_000


@functools.cache
def _target() -> tuple[Any, str, str]:
    ll.initialize_native_target()
    ll.initialize_native_asmprinter()
    return ll.Target.from_default_triple(), ll.get_host_cpu_name(), ll.get_host_cpu_features().flatten()


def add_symbol(name: str, address: int) -> None:
    """Let modules refer to ``address`` as ``@name``. Names carry a prefix of ours: symbols are process-wide."""
    ll.add_symbol(name, address)


def _linear_passes() -> Any:
    passes = ll.create_new_module_pass_manager()
    passes.add_simplify_cfg_pass()
    return passes


def compile_module(text: str, names: list[str], level: int = 2, interleave: bool = False) -> tuple[Any, dict[str, int]]:
    """Compile a module; returns the engine (which owns the code) and the addresses of ``names``.

    ``level``: 0 compiles at once, 2 optimises. Very large modules are optimised less.
    ``interleave``: vectorised loops work on several vectors at a time.
    """
    with _lock:
        lines = text.count("\n")
        large = lines > LARGE
        target, cpu, features = _target()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=0 if large or not level else 1)
        header = f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n'
        module = ll.parse_assembly(header + text)
        module.verify()  # LLVM aborts the interpreter over code that is wrong
        options = ll.create_pipeline_tuning_options(speed_level=min(level, 1 if large else 2))
        options.loop_vectorization = level == 2
        options.loop_interleaving = interleave
        options.slp_vectorization = False
        options.loop_unrolling = False
        builder = ll.create_pass_builder(machine, options)
        passes = _linear_passes() if lines > HUGE else builder.getModulePassManager()
        passes.run(module, builder)
        engine = ll.create_mcjit_compiler(module, machine)  # owns the machine from now on
        engine.finalize_object()
        return engine, {name: engine.get_function_address(name) for name in names}
