"""The Python back end: a Program as readable NumPy source, and as a callable that runs it.

The source is what users read (``grad(f).source(...)``), the judge of native code, and what runs on arrays of other
libraries.
"""

from gradsmith.backends.python.call import compile, source

__all__ = ["compile", "source"]
