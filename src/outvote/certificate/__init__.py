"""Certificates: how far an estimate can be from the truth, and under which assumptions."""

from outvote.certificate.document import Certificate, Provenance
from outvote.certificate.radii import expected_error, mean_squared_error, radius
from outvote.certificate.uniform import uniform_radius
from outvote.certificate.unscaled import (
    OrderStatisticInterval,
    SigmaBounds,
    order_statistic_interval,
    sigma_bounds,
    sigma_free_radius,
    sigma_upper,
)
from outvote.data.arguments import log_failure

__all__ = [
    "Certificate",
    "OrderStatisticInterval",
    "Provenance",
    "SigmaBounds",
    "expected_error",
    "log_failure",
    "mean_squared_error",
    "order_statistic_interval",
    "radius",
    "sigma_bounds",
    "sigma_free_radius",
    "sigma_upper",
    "uniform_radius",
]
