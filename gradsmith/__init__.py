"""gradsmith: derivatives of ordinary NumPy code, as native machine code.

>>> import numpy as np
>>> import gradsmith as gs
>>> gs.grad(lambda x: np.sum(np.sin(x) ** 2))(np.array([0.0, 1.0]))
array([0.        , 0.90929743])
"""

from gradsmith.api import (
    derivative,
    grad,
    hessian,
    hvp,
    jacobian,
    jit,
    jvp,
    value_and_grad,
    value_grad_hessian,
    vjp,
    vmap,
)
from gradsmith.control import (
    checkpoint,
    custom_jvp,
    custom_vjp,
    define_rule,
    forward_mode,
    hook,
    host,
    ignore_derivatives,
    reverse_mode,
    stop_gradient,
    zero,
)
from gradsmith.errors import (
    GradsmithError,
    GradsmithWarning,
    MissingRule,
    NotDifferentiable,
    SourceUnavailable,
    TapeMismatch,
    UnsupportedCode,
)
from gradsmith.forms import tree_map
from gradsmith.frontend import catalogue
from gradsmith.prepare import Prepared, prepare
from gradsmith.tape import Tape, record

catalogue.load()  # at import rather than in the first call

__all__ = [
    "GradsmithError",
    "GradsmithWarning",
    "MissingRule",
    "NotDifferentiable",
    "Prepared",
    "SourceUnavailable",
    "Tape",
    "TapeMismatch",
    "UnsupportedCode",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "define_rule",
    "derivative",
    "forward_mode",
    "grad",
    "hessian",
    "hook",
    "host",
    "hvp",
    "ignore_derivatives",
    "jacobian",
    "jit",
    "jvp",
    "prepare",
    "record",
    "reverse_mode",
    "stop_gradient",
    "tree_map",
    "value_and_grad",
    "value_grad_hessian",
    "vjp",
    "vmap",
    "zero",
]
__version__ = "0.1.0"
