"""Assumptions on clean rows, and the tail bound for one clean block estimate that follows from each.

An assumption is about the kernel's values on clean rows: for a mean the kernel value is the row
itself, for a U-statistic it is ``h(Z_1, ..., Z_d)`` on distinct clean rows (from several samples if
the kernel takes several). A block estimate is the average of the kernel over the tuples of one block.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions.scale import LEAST, LEAST_VARIANCE, MOST, known_scale, positive
from outvote.assumptions.tails import Bernstein, Exponential, FourthMoment, Hoeffding, NearNormal, Row, Tail, Variance
from outvote.data.arguments import is_whole, real

Floats = NDArray[np.float64]
BlockSize = ArrayLike | tuple[ArrayLike, ...]

BERRY_ESSEEN = 0.4748  # Shevtsova (2011), i.i.d. summands


def disjoint_tuples(sizes: Sequence[Floats], degrees: Sequence[int]) -> Floats:
    """Return the number of disjoint kernel tuples in a block, ``min over samples of floor(B_s / d_s)``."""
    counts = [np.floor(size / degree) for size, degree in zip(sizes, degrees, strict=True)]
    return np.asarray(np.minimum.reduce(np.broadcast_arrays(*counts)), dtype=float)


class Assumption(ABC):
    """An assumption on the kernel's values on clean rows."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """Return the assumption that holds for the values multiplied by `factor`."""

    @abstractmethod
    def describe(self) -> str:
        """Return the assumption in a few words that continue "any clean distribution with ..."."""

    @property
    def has_scale(self) -> bool:
        """Whether the assumption gives the scale of clean values."""
        return True

    @abstractmethod
    def _kernel_sd(self) -> float:
        """Return a bound on the standard deviation of the kernel."""

    def _rows(self, n_tuples: Floats, block_sd: Floats, *, is_mean: bool) -> tuple[Row, ...]:
        """Return the inequalities besides the variance's that hold for averages of `n_tuples` kernel values."""
        return ()

    def _block_variance(self, sizes: Sequence[Floats], degrees: Sequence[int]) -> Floats:
        """Return a bound on the variance of a block estimate: d·Var(h)/B, or Var(h)/n_e with several samples."""
        if len(sizes) == 1:
            return self._kernel_sd() ** 2 * degrees[0] / sizes[0]
        return self._kernel_sd() ** 2 / disjoint_tuples(sizes, degrees)

    def tail(self, block_size: BlockSize, degrees: Sequence[int] = (1,)) -> Tail:
        """Return the tail of one clean block estimate.

        Parameters
        ----------
        block_size : int, array of int, or a tuple of these
            Rows in a block, or an array of candidate sizes; a tuple has one entry per sample.
        degrees : sequence of int, default (1,)
            Degree of the kernel in each sample.

        Returns
        -------
        Tail

        Examples
        --------
        >>> tail = Bounded(0, 1).tail((50, 80), degrees=(1, 1))
        >>> round(float(tail.one(0.01)), 4)
        0.2146
        """
        sizes = _block_sizes(block_size, degrees)
        exponent = math.frexp(self._kernel_sd())[1]
        if abs(exponent) > 200:
            unit = 2.0**exponent
            inner = self.scaled(1 / unit).tail(block_size, degrees)
            return Tail(unit * inner.sd, inner._rows, unit)
        block_sd = np.sqrt(self._block_variance(sizes, degrees))
        is_mean = tuple(degrees) == (1,)
        rows = self._rows(disjoint_tuples(sizes, degrees), block_sd, is_mean=is_mean)
        return Tail(block_sd, (Variance(block_sd), *rows))


def _block_sizes(block_size: BlockSize, degrees: Sequence[int]) -> list[Floats]:
    """Return one float array of block sizes per sample, each at least the kernel's degree."""
    per_sample = block_size if isinstance(block_size, tuple) else (block_size,)
    if len(per_sample) != len(degrees):
        raise ValueError(
            f"block_size={block_size!r} describes {len(per_sample)} sample(s), but the kernel has "
            f"degrees={tuple(degrees)!r}: give a tuple of {len(degrees)} sizes"
        )
    try:
        sizes = [np.asarray(size, dtype=float) for size in per_sample]
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"block_size={block_size!r} must be numbers of rows, as floats can hold them") from None
    for size, degree in zip(sizes, degrees, strict=True):
        if degree < 1:
            raise ValueError(f"degrees={tuple(degrees)!r} must be at least 1 in each sample")
        if not size.size or size.min() < degree:
            raise ValueError(
                f"block_size={block_size!r} is too small: a kernel of degree {degree} needs blocks of "
                f"at least {degree} rows"
            )
    return sizes


@dataclass(frozen=True)
class FiniteVariance(Assumption):
    """Clean values have a standard deviation of at most `sd`; nothing else is assumed.

    Parameters
    ----------
    sd : float
        Bound on the standard deviation of the kernel's values.
    zetas : sequence or mapping of float, optional
        Variances of the kernel's projections (ζ), which make the variance of a block estimate exact.
        One sample: ``ζ_1, ..., ζ_d``. Several samples: ``{(c_1, ..., c_p): ζ}``, the covariance of two
        kernel values that share ``c_s`` rows of sample ``s``, for every ``c`` but ``(0, ..., 0)``.

    Examples
    --------
    The variance kernel ``(z - z')² / 2`` on standard normal rows has ζ = (1/2, 2):

    >>> exact = FiniteVariance(2**0.5, zetas=(0.5, 2.0))
    >>> round(float(exact.tail(11, degrees=(2,)).sd) ** 2, 12)  # 2 / (B - 1)
    0.2
    >>> exact.scaled(3.0).zetas
    (4.5, 18.0)
    """

    sd: float
    zetas: Any = None

    def __post_init__(self) -> None:
        """Check the parameters and freeze `zetas`."""
        object.__setattr__(self, "sd", known_scale("sd", self.sd))
        if self.zetas is None:
            return
        frozen: Any
        if isinstance(self.zetas, Mapping):
            frozen = tuple(sorted((_shared(key), real("zetas", z)) for key, z in self.zetas.items()))
        elif isinstance(self.zetas, str) or not isinstance(self.zetas, Iterable):
            raise TypeError(f"zetas={self.zetas!r} must be a sequence of numbers, or a mapping to numbers")
        else:
            frozen = tuple(z if isinstance(z, tuple) else real("zetas", z) for z in self.zetas)
        object.__setattr__(self, "zetas", frozen)
        values = [z for _, z in self._projections()]
        if not values or not all(math.isfinite(z) and z >= 0 for z in values) or max(values) == 0:
            raise ValueError(f"zetas={self.zetas!r} must be finite and non-negative, and not all zero")
        if math.sqrt(max(values)) > self.sd * (1 + 1e-9):
            raise ValueError(
                f"zetas={self.zetas!r} exceed the kernel's variance sd² of sd={self.sd!r}: the last ζ is "
                f"that variance, so sd={math.sqrt(max(values))!r} is the smallest that works"
            )

    def _projections(self) -> list[tuple[tuple[int, ...], float]]:
        """Return each ζ with its numbers of shared rows, one number per sample."""
        zetas = tuple(self.zetas)
        if isinstance(zetas[0], tuple) if zetas else False:
            return [(key, z) for key, z in zetas]
        return [((c + 1,), z) for c, z in enumerate(zetas)]

    def scaled(self, factor: float) -> Self:
        """Return the assumption that holds for the values multiplied by `factor`."""
        size = positive("factor", abs(factor))
        if self.zetas is None:
            return replace(self, sd=self.sd * size)
        if isinstance(self.zetas[0], tuple):
            zetas: Any = {key: z * size**2 for key, z in self.zetas}
        else:
            zetas = [z * size**2 for z in self.zetas]
        return replace(self, sd=self.sd * size, zetas=zetas)

    def describe(self) -> str:
        """Return the assumption in a few words."""
        return f"sd ≤ {self.sd:.6g}"

    def _kernel_sd(self) -> float:
        return self.sd

    def _block_variance(self, sizes: Sequence[Floats], degrees: Sequence[int]) -> Floats:
        general = super()._block_variance(sizes, degrees)
        if self.zetas is None:
            return general
        projections = dict(self._projections())
        expected = [c for c in np.ndindex(*(d + 1 for d in degrees)) if any(c)]
        if set(projections) != set(expected):
            raise ValueError(
                f"zetas={self.zetas!r} do not fit degrees={tuple(degrees)!r}: give one ζ for each of {sorted(expected)}"
            )
        exact = sum(
            zeta * math.prod(map(_share_probability, sizes, degrees, shared)) for shared, zeta in projections.items()
        )
        return np.minimum(exact, general)


def _shared(key: Any) -> tuple[int, ...]:
    """Return how many rows two kernel values share, one number for each sample."""
    if not isinstance(key, tuple) or not all(map(is_whole, key)):
        raise TypeError(f"zetas has the key {key!r}: give tuples of whole numbers, one for each sample")
    return tuple(map(int, key))


def _share_probability(size: Floats, degree: int, shared: int) -> Floats:
    """Return the probability that two tuples of a block share `shared` rows: C(d,c)C(B-d,d-c)/C(B,d)."""
    chance = np.full_like(size, math.comb(degree, shared))
    for i in range(degree - shared):
        chance = chance * (size - degree - i) / (i + 1)
    for i in range(degree):
        chance = chance * (i + 1) / (size - i)
    return chance


@dataclass(frozen=True)
class SubGaussian(Assumption):
    """Clean values minus their mean are sub-Gaussian: ``E exp(s·(h - θ)) <= exp(s²·scale²/2)``.

    Parameters
    ----------
    scale : float
        The sub-Gaussian scale (ρ), which also bounds the standard deviation.

    Examples
    --------
    >>> round(float(SubGaussian(1.0).tail(100).one(1e-4)), 4)
    0.4292
    """

    scale: float

    def __post_init__(self) -> None:
        """Check the scale."""
        object.__setattr__(self, "scale", known_scale("scale", self.scale))

    def scaled(self, factor: float) -> Self:
        """Return the assumption that holds for the values multiplied by `factor`."""
        return replace(self, scale=self.scale * positive("factor", abs(factor)))

    def describe(self) -> str:
        """Return the assumption in a few words."""
        return f"sub-Gaussian scale ≤ {self.scale:.6g}"

    def _kernel_sd(self) -> float:
        return self.scale

    def _rows(self, n_tuples: Floats, block_sd: Floats, *, is_mean: bool) -> tuple[Row, ...]:
        return (Exponential(self.scale / np.sqrt(n_tuples)),)


@dataclass(frozen=True)
class Bounded(Assumption):
    """Clean values lie in ``[low, high]``: a value outside is certainly corrupt.

    Parameters
    ----------
    low, high : float
        The bounds.
    variance : float, optional
        Bound on the variance, at most ``(high - low)² / 4``; with it Bernstein's inequality applies.

    Examples
    --------
    >>> round(float(Bounded(0, 1).tail(100).one(0.01)), 4)
    0.1517
    >>> round(float(Bounded(0, 1, variance=0.01).tail(100).one(0.01)), 4)
    0.0494
    """

    low: float
    high: float
    variance: float | None = None

    def __post_init__(self) -> None:
        """Check the bounds and the variance."""
        for name in ("low", "high"):
            object.__setattr__(self, name, real(name, getattr(self, name)))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"low={self.low!r}, high={self.high!r}: both must be finite and low < high, for instance Bounded(0, 1)"
            )
        if not LEAST <= self.width <= MOST:
            raise ValueError(
                f"low={self.low!r}, high={self.high!r}: their distance must lie between {LEAST:g} and {MOST:g}: "
                "multiply the rows by a power of ten first"
            )
        if self.variance is not None:
            object.__setattr__(self, "variance", positive("variance", self.variance))
            if self.variance < LEAST_VARIANCE:
                raise ValueError(
                    f"variance={self.variance!r} must be at least {LEAST_VARIANCE:g}: multiply the rows by a power of "
                    "ten first"
                )
            most = self.width / 2 * (self.width / 2)
            if self.variance > most * (1 + 1e-9):
                raise ValueError(
                    f"variance={self.variance!r} is impossible in [{self.low!r}, {self.high!r}]: it is "
                    f"at most (high - low)²/4 = {most!r}"
                )

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low

    def scaled(self, factor: float) -> Self:
        """Return the assumption that holds for the values multiplied by `factor`."""
        size = positive("factor", abs(factor))
        low, high = sorted((self.low * factor, self.high * factor))
        variance = None if self.variance is None else self.variance * size * size
        if variance is not None and not LEAST_VARIANCE <= variance < math.inf:
            variance = None  # no float holds it; the bounds still hold
        return replace(self, low=low, high=high, variance=variance)

    def describe(self) -> str:
        """Return the assumption in a few words."""
        text = f"values in [{self.low:.6g}, {self.high:.6g}]"
        return text if self.variance is None else f"{text} and variance ≤ {self.variance:.6g}"

    def _kernel_sd(self) -> float:
        return self.width / 2 if self.variance is None else math.sqrt(self.variance)

    def _rows(self, n_tuples: Floats, block_sd: Floats, *, is_mean: bool) -> tuple[Row, ...]:
        hoeffding = Hoeffding(self.width / (2 * np.sqrt(n_tuples)), self.width)
        if self.variance is None:
            return (hoeffding,)
        return hoeffding, Bernstein(self.width / n_tuples, self.variance / n_tuples)


@dataclass(frozen=True)
class Proportion(Bounded):
    """Clean rows are 0 or 1, or false and true: anything else is certainly corrupt.

    Means of such rows have exact intervals (Clopper and Pearson's, with corrupt rows counted in); the estimate is the
    share of ones that is seen, which need not be the middle of the interval. Boolean rows are
    taken for it; 0-1 numbers are not, because that only zeros and ones were seen says nothing of what could have been.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> bought = np.arange(10_000) % 100 < 3
    >>> print(ov.mean(bought, contamination=20))
    mean 0.0300, between 0.0249 and 0.0336 (certified 95 %, allows for 20 corrupt rows)
    """

    low: float = field(default=0.0, init=False, repr=False)
    high: float = field(default=1.0, init=False, repr=False)
    variance: float | None = field(default=None, init=False, repr=False)

    def scaled(self, factor: float) -> Bounded:  # type: ignore[override]
        """Return the assumption that holds for the values multiplied by `factor`."""
        return Bounded(self.low, self.high).scaled(factor)

    def describe(self) -> str:
        """Return the assumption in a few words."""
        return "rows of 0 and 1"


@dataclass(frozen=True)
class FiniteKurtosis(Assumption):
    """Clean values have a kurtosis of at most `kurtosis`, and a standard deviation of at most `sd`.

    Without `sd` the certificate is σ-free: an upper bound on the standard deviation is computed from
    the rows, and takes a share of the failure probability.

    Parameters
    ----------
    kurtosis : float
        Bound (κ) on ``E(h - θ)⁴ / Var(h)²``, at least 1; 3 for a normal distribution.
    sd : float, optional
        Bound on the standard deviation.

    Notes
    -----
    Two inequalities are used besides the variance's: Markov's for the fourth moment of an average of n
    independent values, ``sd⁴·(κ + 3(n-1))/n³``, which holds for U-statistics by Hoeffding's averaging;
    and, for means, Berry-Esseen with ``E|Z|³ <= √κ`` for standardised Z.

    Examples
    --------
    >>> heavy, light = FiniteVariance(1.0), FiniteKurtosis(3.0, sd=1.0)
    >>> round(float(heavy.tail(100).two(0.01)), 3), round(float(light.tail(100).two(0.01)), 3)
    (1.0, 0.416)
    """

    kurtosis: float
    sd: float | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "kurtosis", positive("kurtosis", self.kurtosis))
        if self.kurtosis < 1:
            raise ValueError(f"kurtosis={self.kurtosis!r} is impossible: it is at least 1 for any distribution")
        if self.sd is not None:
            object.__setattr__(self, "sd", known_scale("sd", self.sd))

    @property
    def has_scale(self) -> bool:
        """Whether `sd` was given."""
        return self.sd is not None

    def scaled(self, factor: float) -> Self:
        """Return the assumption that holds for the values multiplied by `factor`."""
        size = positive("factor", abs(factor))
        return self if self.sd is None else replace(self, sd=self.sd * size)

    def describe(self) -> str:
        """Return the assumption in a few words."""
        text = f"kurtosis ≤ {self.kurtosis:.6g}"
        return text if self.sd is None else f"{text} and sd ≤ {self.sd:.6g}"

    def _kernel_sd(self) -> float:
        if self.sd is None:
            raise ValueError(
                f"{self!r} has no sd, so the tail of a block has no scale: give sd, or use "
                "outvote.certificate.sigma_free_radius, which computes a bound on the sd from the rows"
            )
        return self.sd

    def _rows(self, n_tuples: Floats, block_sd: Floats, *, is_mean: bool) -> tuple[Row, ...]:
        moment = self._kernel_sd() ** 4 * (self.kurtosis + 3 * (n_tuples - 1)) / n_tuples**3
        fourth = FourthMoment(moment)
        if not is_mean:
            return (fourth,)
        return fourth, NearNormal(block_sd, BERRY_ESSEEN * np.sqrt(self.kurtosis / n_tuples))


@dataclass(frozen=True)
class Symmetric(Assumption):
    """Clean values are symmetric about their mean, which is then their median, too; nothing is assumed of their scale.

    Means without blocks take it. It is the narrowest choice for heavy tails, and wrong for skewed rows: then the answer
    is about their median.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> errors = np.random.default_rng(0).standard_t(2.0, size=10_000)
    >>> errors[:100] = 1e9
    >>> print(ov.mean(errors, contamination=0.01, assume=ov.Symmetric()))
    mean 0.012 ± 0.049 (certified 95 %, allows for 100 corrupt rows)
    """

    def scaled(self, factor: float) -> Self:
        """Return the assumption that holds for the values multiplied by `factor`: the same."""
        return self

    @property
    def has_scale(self) -> bool:
        """Whether the assumption gives the scale of clean values: no."""
        return False

    def describe(self) -> str:
        """Return the assumption in a few words."""
        return "symmetry about its mean"

    def _kernel_sd(self) -> float:
        raise ValueError(SYMMETRIC_ONLY)


#: Why something does not take `Symmetric`, and what does.
SYMMETRIC_ONLY = (
    "Symmetric() gives no scale, so only outvote.mean without blocks takes it: compare two symmetric samples by "
    "outvote.quantile_difference(a, b, 0.5), and state a conclusion about one as claim='median > 0'"
)


def one_assumption(assume: object) -> Assumption:
    """Return `assume`; raise an error if it is not an assumption."""
    if not isinstance(assume, Assumption):
        raise TypeError(
            f"assume={assume!r} must be None, FiniteVariance(sd), SubGaussian(scale), Bounded(low, high), "
            "FiniteKurtosis(kurtosis, sd), Proportion() or Symmetric()"
            + (": bounds of 0 and 1 are Bounded(0, 1)" if isinstance(assume, (int, float, tuple)) else "")
        )
    return assume
