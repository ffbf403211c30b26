"""Compare compiled forms with their numpy forms."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest


@contextlib.contextmanager
def using(module):
    """Compute with the compiled forms of `module`, or with numpy alone if it is None."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outvote._numba.compiled", lambda seconds: module)
        yield


def both(function, *arguments):
    """Return the numbers of the numpy form, after a check that the compiled form gives exactly the same."""
    with using(None):
        by_numpy = function(*arguments)
    with using(pytest.importorskip("outvote._numba.functions")):
        np.testing.assert_array_equal(function(*arguments), by_numpy)
    return by_numpy
