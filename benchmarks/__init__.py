"""Speed of gradsmith beside NumPy, Numba, autograd, JAX and PyTorch: `python -m benchmarks.core`."""
