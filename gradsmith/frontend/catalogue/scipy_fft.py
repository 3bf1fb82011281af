"""scipy.fft: the functions that numpy.fft has too."""

from __future__ import annotations

import numpy as np
import scipy.fft

from gradsmith.frontend.catalogue import _DEFINITIONS, _IMPLEMENTATIONS, defines, implements
from gradsmith.frontend.catalogue import fft as numpy_fft

_NAMES = """fft ifft rfft irfft fftn ifftn rfftn irfftn fft2 ifft2 rfft2 irfft2 fftshift ifftshift fftfreq
    rfftfreq""".split()


def _register() -> None:
    assert numpy_fft  # its functions are what is registered here
    for name in _NAMES:
        ours = getattr(np.fft, name)
        if ours in _IMPLEMENTATIONS:
            implements(getattr(scipy.fft, name))(_IMPLEMENTATIONS[ours])
        else:
            defines(getattr(scipy.fft, name))(_DEFINITIONS[ours])


_register()
