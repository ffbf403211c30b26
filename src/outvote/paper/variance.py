"""The exact variance of a U-statistic and the paper's bound on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from outvote.data.arguments import real
from outvote.paper.mappings import Counts, whole_numbers

#: So many variances of a kernel are compared with those that are missing, one by one.
_LISTED = 1000

Zetas = Sequence[float | Fraction] | Mapping[Any, float | Fraction]


def _zetas(degrees: tuple[int, ...], zetas: Zetas) -> dict[tuple[int, ...], Fraction]:
    """Return ζ by the tuple of numbers of shared variables; raise an error if one is missing or negative."""
    if not isinstance(zetas, Mapping) and (isinstance(zetas, str) or not np.iterable(zetas)):
        raise TypeError(f"zetas={zetas!r} must be a sequence of variances, or map numbers of shared rows to them")
    if isinstance(zetas, Mapping):
        given = {whole_numbers(key, "zetas key", 0): value for key, value in zetas.items()}
    elif len(degrees) == 1:
        given = {(c,): value for c, value in enumerate(zetas, start=1)}
    else:
        raise ValueError(f"zetas must map tuples of {len(degrees)} counts to variances, as in {{(1, 0): 0.5}}")
    n_wanted = math.prod(d + 1 for d in degrees) - 1
    if len(given) != n_wanted and n_wanted > _LISTED:
        raise ValueError(f"zetas has {len(given)} variances, but degrees={degrees} need {n_wanted}, one for each c ≠ 0")
    wanted = set(itertools.product(*(range(d + 1) for d in degrees))) - {(0,) * len(degrees)}
    if set(given) != wanted:
        lacking, beyond = sorted(wanted - set(given)), sorted(set(given) - wanted)
        raise ValueError(f"zetas for degrees={degrees} lacks {lacking} and should not have {beyond}")
    for key, value in given.items():
        if not 0 <= real(f"zetas[{key}]", value, "a variance") < math.inf:
            raise ValueError(f"zetas[{key}]={value} must be a variance, finite and at least 0")
    return {key: Fraction(v if isinstance(v, Fraction) else float(v)) for key, v in given.items()}


def _as_float(variance: Fraction) -> float:
    try:
        return float(variance)
    except OverflowError:
        raise ValueError("zetas and degrees give a variance too large for a float: scale the kernel down") from None


def u_variance(sizes: Counts, degrees: Counts, zetas: Zetas) -> float:
    """Return the exact variance of a U-statistic: Σ_{c≠0} ζ_c ∏_s C(d_s,c_s)C(n_s-d_s,d_s-c_s)/C(n_s,d_s).

    For one sample this is the formula before Prop. `mou_1sample`; for two samples and degrees (1, 1) it is the
    formula before Prop. `mou_2sample`.

    Parameters
    ----------
    sizes : int or sequence of int
        Rows of each sample (n_s), or rows of a block for the variance of a block.
    degrees : int or sequence of int
        Degrees of the kernel (d_s).
    zetas : sequence of float or mapping
        ζ_1, …, ζ_d for one sample; else {(c_1, …, c_p): covariance of two values of the kernel that share
        c_s variables of sample s}, for every c ≠ 0.

    Returns
    -------
    float

    Examples
    --------
    The variance kernel (x - x')²/2 on standard normal rows has ζ = (1/2, 2):

    >>> u_variance(10, 2, (0.5, 2.0))  # 2/(n - 1)
    0.2222222222222222
    >>> u_variance((4, 5), (1, 1), {(1, 0): 0.1, (0, 1): 0.1, (1, 1): 0.25})
    0.0475
    """
    rows, degree = whole_numbers(sizes, "sizes", 1), whole_numbers(degrees, "degrees", 1)
    if len(rows) != len(degree) or any(n < d for n, d in zip(rows, degree, strict=True)):
        raise ValueError(f"sizes={sizes!r} must have one entry, at least the degree, for each of degrees={degrees!r}")

    def weight(shared: tuple[int, ...]) -> Fraction:
        factors = zip(rows, degree, shared, strict=True)
        ways = (Fraction(math.comb(d, c) * math.comb(n - d, d - c), math.comb(n, d)) for n, d, c in factors)
        return math.prod(ways, start=Fraction(1))

    terms = (weight(shared) * zeta for shared, zeta in _zetas(degree, zetas).items())
    return _as_float(sum(terms, start=Fraction(0)))


def sigma2(degrees: Counts, zetas: Zetas) -> float:
    """Return the constant with Var(U) ≤ Σ²/min(sizes): Σ² = ∏_s d_s! · Σ_{c≠0} ζ_c ∏_s C(d_s,c_s).

    For one sample this is Σ²(h) of Prop. `mou_1sample`; for degrees (1, …, 1) it is Σ²(H), the sum over nonempty
    subsets. The inequality holds because the weight of ζ_c in `u_variance` has, for each sample, a factor of at most
    C(d_s,c_s)·d_s!/n_s if c_s ≥ 1 and of at most 1 if c_s = 0, and some c_s is at least 1.

    Parameters
    ----------
    degrees, zetas
        As in `u_variance`.

    Returns
    -------
    float
        The square of the `scale` of `bound` for a U-statistic of finite variance.

    Examples
    --------
    >>> sigma2(2, (0.5, 2.0))
    6.0
    """
    degree = whole_numbers(degrees, "degrees", 1)
    terms = (math.prod(map(math.comb, degree, shared)) * zeta for shared, zeta in _zetas(degree, zetas).items())
    total = sum(terms, start=Fraction(0))
    return _as_float(math.prod(math.factorial(d) for d in degree) * total)
