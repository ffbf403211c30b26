"""Read torch tensors: tensors on the CPU become numpy arrays without a copy, tensors on a device stay there.

Only `namespace` needs array-api-compat, and only for a tensor on a device. The work on rows and blocks uses the array
API; the block values are then copied to the host, where they vote.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.packages import install_command


def is_tensor(x: Any) -> bool:
    """Return whether `x` is a torch tensor, without importing torch."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach")


def on_device(x: Any) -> bool:
    """Return whether `x` is a tensor whose memory numpy cannot use."""
    return is_tensor(x) and x.device.type != "cpu"


def read_tensor(x: Any, name: str) -> Any:
    """Return a tensor detached from its graph: as a numpy array without a copy, or, on a device, as a tensor."""
    if x.is_meta:
        raise TypeError(f"{name} is a tensor on the device 'meta', which holds no numbers: pass one with its values")
    if x.dtype.is_complex or x.is_nested or x.is_sparse or x.is_quantized:
        found = f"a {'nested' if x.is_nested else x.layout} tensor of {x.dtype}"
        found = "complex numbers" if x.dtype.is_complex else found
        raise TypeError(f"{name} holds {found}, but dense real numbers are needed: convert it first")
    x = x.detach().resolve_neg()  # numpy has no views with all signs changed
    if x.dtype.is_floating_point and x.dtype.itemsize < 4:
        x = x.float()
    if not on_device(x):
        return x.numpy()
    return x if x.dtype.is_floating_point else x.double()


def namespace(x: Any) -> Any:
    """Return the array API namespace of an array: numpy, or that of array-api-compat for its library."""
    if isinstance(x, np.ndarray):
        return np
    try:
        from array_api_compat import array_namespace
    except ImportError:
        needed = install_command("array-api-compat")
        raise ImportError(f"tensors on a device need array-api-compat: {needed}, or pass x.cpu()") from None
    return array_namespace(x)


def to_host(x: Any) -> NDArray[Any]:
    """Return a numpy array with these values."""
    return x.detach().cpu().numpy() if is_tensor(x) else np.asarray(x)


def like(values: Any, x: Any) -> Any:
    """Return a numpy array on the device of `x`."""
    return values if isinstance(x, np.ndarray) else namespace(x).asarray(np.ascontiguousarray(values), device=x.device)


def rows_of(x: Any, rows: NDArray[Any] | slice) -> Any:
    """Return rows of `x`, given a numpy array of row numbers or a slice."""
    if isinstance(rows, slice) or isinstance(x, np.ndarray):
        return x[rows]
    return namespace(x).take(x, like(rows, x), axis=0)


def median(x: Any) -> Any:
    """Return the median over the first axis, as numpy defines it."""
    if isinstance(x, np.ndarray):
        with np.errstate(over="ignore"):
            found = np.median(x, axis=0)
        # The sum of the two in the middle may overflow, and their mean cannot.
        return found if np.isfinite(found).all() else np.median(x / 2, axis=0) * 2
    if x.ndim > 1:
        ordered = namespace(x).sort(x, axis=0)
        return ordered[(len(x) - 1) // 2] / 2 + ordered[len(x) // 2] / 2
    below = x.median()  # faster than a sort; torch returns the lower of the two middle values
    return below if len(x) % 2 else below / 2 - (-x).median() / 2


def moved_to(x: Any, value: Any) -> Any:
    """Return a numpy array as a tensor on the device of `x`, and any other value unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    import torch

    double = torch.float32 if x.device.type == "mps" else torch.float64  # some devices have no float64
    return torch.tensor(value, dtype=double, device=x.device)
