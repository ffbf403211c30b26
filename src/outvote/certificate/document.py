"""What a certificate says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption
from outvote.data.text import percent

Provenance = Literal["certified", "as stated", "plug-in", "none"]
#: From the strongest to the weakest.
PROVENANCES: tuple[Provenance, ...] = get_args(Provenance)


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
        text = f"{self.provenance} {percent(self.confidence, self.log_delta)}: {self._claim(size)}"
        if isinstance(self.assumption, Assumption):
            text += f" for any clean law with {self.assumption.describe()}"
        text += f", {self.adversary} adversary"
        if self.requested_log_delta != self.log_delta:
            text += f" ({percent(self.requested_confidence, self.requested_log_delta)} was asked for)"
        return f"{text}. {self.note}" if self.note else text


def weakest(certificates: Sequence[Certificate]) -> Certificate:
    """Return the certificate with the weakest provenance, the first of several."""
    return max(certificates, key=lambda one: PROVENANCES.index(one.provenance))
