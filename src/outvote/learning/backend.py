"""Where the arithmetic of a fit runs: in numpy, or on a device."""

from __future__ import annotations

from typing import Any

from outvote.data.loading import one_at_a_time
from outvote.learning.arrays import Array
from outvote.learning.descent import Descent
from outvote.learning.problem import Problem
from outvote.learning.scaling import ScaledRows, robust_scaling


class Backend:
    """The parts of a fit in numpy; `outvote.torch.device.descent.OnDevice` has the same parts on a device."""

    problem: type[Problem] = Problem
    descent: type[Descent] = Descent

    def robust_scaling(self, x: Array, n_corrupt: int) -> tuple[Array, Array]:
        """Return a centre and a scale for each column."""
        return robust_scaling(x, n_corrupt)

    def rows(self, x: Array, centre: Array, scale: Array, intercept: bool = False) -> ScaledRows:
        """Return the rows, centred and scaled."""
        return ScaledRows(x, centre, scale, intercept)


def backend_of(device: Any) -> Backend:
    """Return the backend for a learner's parameter `device`."""
    if device is None:
        return Backend()
    with one_at_a_time():
        from outvote.torch.device.descent import OnDevice

    return OnDevice(device)
