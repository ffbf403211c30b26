"""What a certificate says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions.assumption import Assumption

Provenance = Literal["certified", "plug-in", "as stated", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A radius and everything one must know to believe it.

    Attributes
    ----------
    radius : float or ndarray
        The estimate is within `radius` of the truth with the delivered confidence; ``inf`` when
        nothing can be said.
    provenance : {"certified", "plug-in", "as stated", "none"}
        *certified*: proved for the stated assumption. *plug-in*: a scale estimated from the same
        rows stands in for a known one. *as stated*: the paper claims it, the proof is missing or
        its conditions are not met. *none*: there is no radius.
    log_delta : float
        Natural logarithm of the failure probability delivered.
    requested_log_delta : float
        The same for the failure probability that was asked for.
    assumption : object or None
        What was assumed of the clean rows.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    statement : str
        The result the radius comes from.
    note : str
        One sentence: why there is no radius, or what would make it certified.
    n_blocks : int or tuple of int or None
        The numbers of blocks the statement is about.
    log_delta_range : tuple of float or None
        Logarithms of the smallest and largest failure probability the statement covers.
    alternative : {"two-sided", "less", "greater"}
        Whether the radius holds on both sides, or bounds the target from above or from below only.
    levels : tuple of (int, float)
        Where the number of corrupt rows was left open: for each level c, how far the estimate can be from the truth
        if no more than c rows are corrupt.
    target : str
        What the estimate is within `radius` of, in the sentence that `str` gives: "truth" by default.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=2000)
    >>> certificate = ov.mean(x, contamination=0.01, assume=ov.FiniteVariance(1.0), rng=0).certificate
    >>> certificate.provenance, round(certificate.radius, 3), round(certificate.confidence, 3)
    ('certified', 0.35, 0.95)
    >>> print(certificate)
    certified 95 %: within 0.35 of the truth for any clean law with sd ≤ 1, oblivious adversary
    """

    radius: float | NDArray[np.float64]
    provenance: Provenance
    log_delta: float
    requested_log_delta: float
    assumption: Any = None
    adversary: str = "oblivious"
    statement: str = ""
    note: str = ""
    n_blocks: int | Sequence[int] | None = None
    log_delta_range: tuple[float, float] | None = None
    target: str = "truth"
    alternative: str = "two-sided"
    levels: tuple[tuple[int, float], ...] = ()

    @property
    def confidence(self) -> float:
        """The confidence delivered."""
        return -math.expm1(self.log_delta)

    @property
    def requested_confidence(self) -> float:
        """The confidence asked for."""
        return -math.expm1(self.requested_log_delta)

    @property
    def in_range(self) -> bool:
        """Whether the requested failure probability is one the statement covers."""
        if self.log_delta_range is None:
            return True
        low, high = self.log_delta_range
        return low <= self.requested_log_delta <= high

    def _claim(self, size: str) -> str:
        if self.alternative == "less":
            return f"the {self.target} is at most {size} above the estimate"
        if self.alternative == "greater":
            return f"the {self.target} is at most {size} below the estimate"
        return f"within {size} of the {self.target}"

    def __str__(self) -> str:
        """One sentence: what is claimed, at which confidence, for which clean laws.

        Examples
        --------
        >>> from outvote.assumptions.assumption import FiniteVariance
        >>> print(Certificate(radius=0.21, provenance="certified", log_delta=math.log(0.05),
        ...                   requested_log_delta=math.log(0.05), assumption=FiniteVariance(1.0),
        ...                   target="mean"))
        certified 95 %: within 0.21 of the mean for any clean law with sd ≤ 1, oblivious adversary
        """
        radii = np.asarray(self.radius, dtype=float)
        if self.provenance == "none" or not np.isfinite(radii).any():
            return ": ".join(filter(None, ["no certificate", self.note]))
        size = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (radii.min(), radii.max())))
        text = f"{self.provenance} {_percent(self.log_delta)}: {self._claim(size)}"
        if isinstance(self.assumption, Assumption):
            text += f" for any clean law with {self.assumption.describe()}"
        text += f", {self.adversary} adversary"
        if self.requested_log_delta != self.log_delta:
            text += f" ({_percent(self.requested_log_delta)} was asked for)"
        return f"{text}. {self.note}" if self.note else text


def _percent(log_delta: float) -> str:
    """Write a confidence with as many digits as it takes not to round up to 100 %."""
    digits = max(2, math.ceil(-log_delta / math.log(10)))
    return f"{100 * -math.expm1(log_delta):.{digits}g} %" if digits <= 12 else f"1 - 1e{log_delta / math.log(10):.0f}"


def log_failure(confidence: float | None, delta: float | None) -> float:
    """Logarithm of the failure probability, from exactly one of `confidence` and `delta`.

    Examples
    --------
    >>> log_failure(None, 1e-300) == math.log(1e-300)
    True
    """
    if (confidence is None) == (delta is None):
        raise ValueError(
            f"give exactly one of confidence={confidence!r} and delta={delta!r}, for instance confidence=0.95"
        )
    name, value = ("confidence", confidence) if delta is None else ("delta", delta)
    if not isinstance(value, int | float | np.floating) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number strictly between 0 and 1")
    if not 0 < value < 1:
        raise ValueError(f"{name}={value!r} must be strictly between 0 and 1, for instance {name}=0.95")
    return math.log(value) if name == "delta" else math.log1p(-value)
