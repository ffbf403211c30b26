"""The class `Certificate`, and the order of provenances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption
from outvote.data.text import percent

Provenance = Literal["certified", "conditional", "as stated", "plug-in", "none"]
#: From the strongest to the weakest.
PROVENANCES: tuple[Provenance, ...] = get_args(Provenance)
_ADVERSARIES = {
    "oblivious": "if which rows are corrupt does not depend on their true values",
    "adaptive": "even if someone who saw the data chose which rows are corrupt",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A radius, with the assumptions and the result that justify it.

    Attributes
    ----------
    radius : float or ndarray
        The estimate is within `radius` of the truth with the delivered confidence; ``inf`` if there
        is no bound.
    provenance : {"certified", "conditional", "as stated", "plug-in", "none"}
        *certified*: proved under the stated assumption. *conditional*: proved under `premise`, which was
        read off the rows. *plug-in*: the scale is estimated from the same rows instead of known. *as
        stated*: the paper claims the radius, but the proof is missing or its conditions are not met.
        *none*: there is no radius.
    log_delta : float
        Natural logarithm of the failure probability delivered.
    requested_log_delta : float
        Natural logarithm of the failure probability that was requested.
    assumption : object or None
        The assumption on the clean rows.
    adversary : {"oblivious", "adaptive"}
        Whether which rows are corrupt is independent of their true values, or may depend on them.
    statement : str
        The theorem or formula that gives the radius.
    note : str
        One sentence: why there is no radius, or what would make it certified.
    n_blocks : int or tuple of int or None
        The number of blocks, one per sample.
    log_delta_range : tuple of float or None
        Logarithms of the smallest and largest failure probability the statement covers.
    alternative : {"two-sided", "less", "greater"}
        Whether the radius holds on both sides, or bounds the target from above or from below only.
    levels : tuple of (int, float)
        If the number of corrupt rows was left open: for each level c, how far the estimate can be from the truth
        if no more than c rows are corrupt.
    premise : str
        What must be true of the clean rows, in words, if the radius is conditional.
    premise_sd : float or ndarray
        The largest sd of clean rows for which a conditional radius holds; NaN if it is not conditional.
    target : str
        The name of the estimated quantity in the text that `str` returns: "truth" by default.
    one_end : bool
        Whether the radius is infinite because only one end of a two-sided interval is bounded.
    at_every_look : bool
        Whether it holds at all times at once, while rows come in.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=2000)
    >>> certificate = ov.mean(x, contamination=0.01, assume=ov.FiniteVariance(1.0), rng=0).certificate
    >>> certificate.provenance, round(certificate.radius, 3), round(certificate.confidence, 3)
    ('certified', 0.09, 0.95)
    >>> print(certificate)  # doctest: +NORMALIZE_WHITESPACE
    certified 95 %: within 0.09023 of the truth for any clean distribution with sd ≤ 1,
    if which rows are corrupt does not depend on their true values
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
    premise: str = ""
    premise_sd: float | NDArray[np.float64] = math.nan
    one_end: bool = False
    at_every_look: bool = False

    @property
    def confidence(self) -> float:
        """The confidence delivered."""
        return -math.expm1(self.log_delta)

    @property
    def requested_confidence(self) -> float:
        """The confidence that was requested."""
        return -math.expm1(self.requested_log_delta)

    @property
    def in_range(self) -> bool:
        """Whether the statement covers the requested failure probability."""
        if self.log_delta_range is None:
            return True
        low, high = self.log_delta_range
        return low <= self.requested_log_delta <= high

    def _claim(self, size: str) -> str:
        if self.one_end:
            return f"the {self.target} lies in the interval, which is open at one end"
        if self.alternative == "less":
            return f"the {self.target} is at most {size} above the estimate"
        if self.alternative == "greater":
            return f"the {self.target} is at most {size} below the estimate"
        return f"within {size} of the {self.target}"

    def __str__(self) -> str:
        """Return the claim, its confidence and its assumptions as one sentence.

        Examples
        --------
        >>> print(Certificate(radius=0.21, provenance="plug-in", log_delta=math.log(0.05), adversary="adaptive",
        ...                   requested_log_delta=math.log(0.05), target="mean"))
        plug-in 95 %: within 0.21 of the mean, even if someone who saw the data chose which rows are corrupt
        """
        radii = np.asarray(self.radius, dtype=float)
        if self.provenance == "none" or not (self.one_end or np.isfinite(radii).any()):
            return ": ".join(filter(None, ["no certificate", self.note]))
        size = " to ".join(dict.fromkeys(f"{end:.4g}" for end in (radii.min(), radii.max())))
        sure = percent(self.confidence, self.log_delta) + " at every look" * self.at_every_look
        text = f"{self.provenance} {sure}: {self._claim(size)}"
        if self.premise:
            text += f" if {self.premise}"
        elif isinstance(self.assumption, Assumption):
            text += f" for any clean distribution with {self.assumption.describe()}"
        text += f", {_ADVERSARIES.get(self.adversary, self.adversary)}"
        if self.requested_log_delta != self.log_delta:
            text += f" ({percent(self.requested_confidence, self.requested_log_delta)} was requested)"
        return f"{text}. {self.note}" if self.note else text


def weakest(certificates: Sequence[Certificate]) -> Certificate:
    """Return the certificate with the weakest provenance, or the first of several."""
    return max(certificates, key=lambda one: PROVENANCES.index(one.provenance))
