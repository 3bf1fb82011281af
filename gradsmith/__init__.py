"""gradsmith: derivatives of ordinary NumPy code, as native machine code.

>>> import numpy as np
>>> import gradsmith as gs
>>> gs.grad(lambda x: np.sum(np.sin(x) ** 2))(np.array([0.0, 1.0]))
array([0.        , 0.90929743])
"""

from gradsmith.api import derivative, grad, hessian, hvp, jacobian, jit, jvp, value_and_grad, vjp, vmap
from gradsmith.errors import GradsmithError, MissingRule, NotDifferentiable, SourceUnavailable, UnsupportedCode
from gradsmith.tree import tree_map

__all__ = [
    "GradsmithError",
    "MissingRule",
    "NotDifferentiable",
    "SourceUnavailable",
    "UnsupportedCode",
    "derivative",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "jvp",
    "tree_map",
    "value_and_grad",
    "vjp",
    "vmap",
]
__version__ = "0.1.0"
