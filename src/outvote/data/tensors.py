"""Rows that are torch tensors: those on the processor are numpy arrays too, those on a device stay there.

Only `namespace` needs array-api-compat, and only for a tensor on a device. What an estimator computes for each row or
block is written against the array API; what is left, a value for each block, comes to the host, where it is voted on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_tensor(x: Any) -> bool:
    """Whether this is a torch tensor; torch is not imported to find out."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach")


def on_device(x: Any) -> bool:
    """Whether numpy cannot see the memory of a tensor."""
    return is_tensor(x) and x.device.type != "cpu"


def read_tensor(x: Any, name: str) -> Any:
    """Return a tensor's numbers without its history: as numpy, without a copy, or as a tensor if numpy can't see it."""
    if x.dtype.is_complex or x.is_sparse or x.is_quantized:
        found = "complex numbers" if x.dtype.is_complex else f"a {x.layout} tensor of {x.dtype}"
        raise TypeError(f"{name} holds {found}, but dense real numbers are needed: convert it first")
    x = x.detach()
    if x.dtype.is_floating_point and x.dtype.itemsize < 4:
        x = x.float()
    if not on_device(x):
        return x.numpy()
    return x if x.dtype.is_floating_point else x.double()


def namespace(x: Any) -> Any:
    """Return the functions of the array API for an array: numpy, or array-api-compat's for its library."""
    if isinstance(x, np.ndarray):
        return np
    try:
        from array_api_compat import array_namespace
    except ImportError:
        raise ImportError(
            'tensors on a device need array-api-compat: pip install "outvote[torch]", or pass x.cpu()'
        ) from None
    return array_namespace(x)


def to_host(x: Any) -> NDArray[Any]:
    """Return a numpy array with these values."""
    return x.detach().cpu().numpy() if is_tensor(x) else np.asarray(x)


def like(values: Any, x: Any) -> Any:
    """Put a numpy array where `x` is."""
    return values if isinstance(x, np.ndarray) else namespace(x).asarray(np.ascontiguousarray(values), device=x.device)


def rows_of(x: Any, rows: NDArray[Any] | slice) -> Any:
    """Take rows by their numbers, in a numpy array, or a slice of them."""
    if isinstance(rows, slice) or isinstance(x, np.ndarray):
        return x[rows]
    return namespace(x).take(x, like(rows, x), axis=0)


def median(x: Any) -> Any:
    """Take numpy's median over the first axis."""
    if isinstance(x, np.ndarray):
        return np.median(x, axis=0)
    if x.ndim > 1:
        ordered = namespace(x).sort(x, axis=0)
        return ordered[(len(x) - 1) // 2] / 2 + ordered[len(x) // 2] / 2
    below = x.median()  # selected, not sorted; torch takes the lower of two
    return below if len(x) % 2 else below / 2 - (-x).median() / 2


def moved_to(x: Any, value: Any) -> Any:
    """Put a numpy array where the tensor `x` is; leave anything else as it is."""
    return x.new_tensor(value, dtype=_double(x)) if isinstance(value, np.ndarray) else value


def _double(x: Any) -> Any:
    """float64, where the device knows it."""
    import torch

    return torch.float32 if x.device.type == "mps" else torch.float64
