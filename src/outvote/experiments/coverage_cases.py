"""What the coverage experiment tries: laws of clean rows, certificates, and where outliers go."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outvote import paper
from outvote.assumptions import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.certificate import radius
from outvote.contamination import Adversary
from outvote.experiments.estimation import Array

Sampler = Callable[[np.random.Generator, tuple[int, int]], Array]

ROOT3 = math.sqrt(3.0)


def _pareto(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    a = 2.5
    return np.asarray((rng.pareto(a, shape) + 1 - a / (a - 1)) / math.sqrt(a / ((a - 1) ** 2 * (a - 2))))


def _lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.asarray((rng.lognormal(0.0, 2.0, shape) - math.exp(2)) / math.sqrt(math.exp(8) - math.exp(4)))


def _two_points(high: float) -> Sampler:
    """Return the law of mean 0 and sd 1 that is `high` as often as it can be, and below 0 otherwise."""
    share, high = 1 / (1 + high**2), high * (1 + 1e-9)
    return lambda rng, shape: np.where(rng.random(shape) < share, high, -1 / high)


#: All of mean 0 and sd 1.
LAWS: dict[str, Sampler] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-ROOT3, ROOT3, shape),
    "Laplace": lambda rng, shape: rng.laplace(0.0, math.sqrt(0.5), shape),
    "Student, 2.5 degrees": lambda rng, shape: rng.standard_t(2.5, shape) / math.sqrt(5.0),
    "Pareto, index 2.5": _pareto,
    "lognormal, σ = 2": _lognormal,
}
#: The law that makes Chebyshev's inequality an equality at the very radius.
AT_RADIUS = "two points"
#: P(X ≤ Y) where Y is a copy of X moved by 1, for normal rows.
WINS = 0.5 * (1 + math.erf(0.5))


def _wins_variances() -> dict[tuple[int, int], float]:
    """Return the variances of 1{X ≤ Y}, and of its mean given X or given Y, for normal X and Y = X' + 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    given = np.array([0.5 * (1 + math.erf((1 - x) / math.sqrt(2))) for x in nodes])
    one = float(weights @ (given - WINS) ** 2 / weights.sum())
    return {(1, 0): one, (0, 1): one, (1, 1): WINS * (1 - WINS)}


#: The variance kernel on standard normal rows.
ZETAS = (0.5, 2.0)
FAR = ((1e6,), (-1e6,))
ENDS = ((ROOT3,), (-ROOT3,))
WIDE = ((1e3,),)
CROSSED = ((10.0, -10.0), (-10.0, 10.0))
FAR_APART = ((1e6, -1e6), (-1e6, 1e6))


@dataclass(frozen=True)
class Case:
    """A certificate, and the rows it is tried on.

    `places` has the values of the outliers in each sample, one tuple for each side that they may take; for every run
    the side that hurts more counts. `attack` says how they choose their blocks: as the `adversary` that the certificate
    allows for, save where it is to be broken on purpose. `stated` holds what `outvote.paper.bound` is asked.
    Small cases are run so many `times` as often.
    """

    certificate: str
    law: str
    assume: Any = None
    statistic: str = "mean"
    vote: str = "median"
    options: Mapping[str, Any] = field(default_factory=dict)
    adversary: Adversary = "oblivious"
    attack: Adversary | None = None
    n: int = 500
    outliers: int = 10
    places: Sequence[tuple[float, ...]] = FAR
    stated: Mapping[str, Any] | None = None
    seconds: float = 0.2
    times: int = 1

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.places[0])

    @property
    def truth(self) -> float:
        """What is estimated."""
        return {"mean": 0.0, "variance": 1.0, "mann-whitney": WINS, "difference": 1.0}[self.statistic]

    def sampler(self, delta: float) -> Sampler:
        """Return the law of the clean rows, which may depend on the radius."""
        if self.law != AT_RADIUS:
            return LAWS[self.law]
        blocks: dict[str, Any] = {"n_blocks": self.n, "block_size": 1, "n_corrupt": self.outliers}
        return _two_points(radius(delta=delta, assume=self.assume, adversary=self.adversary, **blocks))

    def bound(self, delta: float) -> Any:
        """Ask the paper, at its largest δ where the one given is too large; None where it is not about the paper."""
        if self.stated is None:
            return None
        level: dict[str, Any] = {} if self.stated.get("claim") == 3 else {"delta": delta, "clamp": True}
        n, outliers = (value if self.samples == 1 else (value,) * 2 for value in (self.n, self.outliers))
        return paper.bound(n=n, n_outliers=outliers, **level, **self.stated)


def _both(certificate: str, law: str, assume: Any, **more: Any) -> list[Case]:
    """Try a certificate of a mean against both adversaries."""
    return [Case(certificate, law, assume, adversary=kind, **more) for kind in ("oblivious", "adaptive")]


def _means() -> list[Case]:
    sd, normal = FiniteVariance(1.0), SubGaussian(1.0)
    heavy = ("normal", "Student, 2.5 degrees", "Pareto, index 2.5")
    found = [case for law in heavy for case in _both("median, finite variance", law, sd)]
    found += [case for law in heavy[1:] for case in _both("soft, finite variance", law, sd, vote="soft")]
    found += [case for law in heavy[1:] for case in _both("clipped, finite variance", law, sd, vote="clipped")]
    for vote in ("median", "clipped"):
        box, kurtosis = Bounded(-ROOT3, ROOT3), FiniteKurtosis(6.0, sd=1.0)
        found += _both(f"{vote}, sub-Gaussian", "normal", normal, vote=vote)
        found += _both(f"{vote}, bounded", "uniform", box, vote=vote, places=ENDS)
        found += _both(f"{vote}, finite kurtosis", "Laplace", kurtosis, vote=vote)
    found += _both("median, kurtosis only", "Laplace", FiniteKurtosis(6.0), n=2000)
    small: dict[str, Any] = {"n": 41, "outliers": 10, "options": {"n_blocks": 41}, "times": 20}
    found += _both("median, finite variance", AT_RADIUS, sd, **small)
    found.append(Case("median, finite variance, broken on purpose", AT_RADIUS, sd, attack="adaptive", **small))
    found += [
        Case(f"{vote}, scale from the rows", law, vote=vote)
        for vote in ("median", "soft", "clipped")
        for law in ("normal", "lognormal, σ = 2")
    ]
    return found


def _others() -> list[Case]:
    variance: dict[str, Any] = {"statistic": "variance", "places": WIDE, "seconds": 1.0}
    known = FiniteVariance(math.sqrt(ZETAS[1]), zetas=ZETAS)
    wins: dict[str, Any] = {"statistic": "mann-whitney", "places": CROSSED, "outliers": 5, "seconds": 2.0}
    diagonal = {"grid": "diagonal"}
    return [
        Case("variance, median, finite variance", "normal", known, **variance),
        Case("variance, soft, finite variance", "normal", known, vote="soft", **variance),
        Case("variance, median, bounded", "uniform", Bounded(0.0, 6.0), **variance),
        Case("variance, clipped, bounded", "uniform", Bounded(0.0, 6.0), vote="clipped", **variance),
        Case("variance, median, scale from the rows", "normal", **variance),
        Case("variance, median, scale from the rows", "lognormal, σ = 2", **variance),
        Case("Mann-Whitney, full grid", "normal", **{**wins, "seconds": 4.0}),
        Case("Mann-Whitney, diagonal, median", "normal", options=diagonal, **wins),
        Case("Mann-Whitney, diagonal, clipped", "normal", vote="clipped", options=diagonal, **wins),
        Case(
            "difference, median, finite variance",
            "Pareto, index 2.5",
            FiniteVariance(1.0),
            statistic="difference",
            places=FAR_APART,
            seconds=2.0,
        ),
    ]


def _stated() -> list[Case]:
    """List the paper's bounds: with few outliers, where an ordinary δ is in range, and with more, where it is not."""
    heavy, wins = "Student, 2.5 degrees", _wins_variances()
    pairs: dict[str, Any] = {"statistic": "variance", "places": WIDE, "seconds": 0.8}
    two: dict[str, Any] = {"statistic": "mann-whitney", "places": CROSSED, "n": 1000, "seconds": 1.2}
    diagonal: dict[str, Any] = {**two, "options": {"grid": "diagonal"}}

    def case(statement: str, claim: int, law: str, outliers: int, scale: float, **more: Any) -> Case:
        asked = {"statement": statement, "claim": claim, "scale": scale, **more.pop("asked", {})}
        return Case(f"paper: {statement}, claim {claim}", law, outliers=outliers, stated=asked, **more)

    spread, across = math.sqrt(paper.sigma2(2, ZETAS)), math.sqrt(paper.sigma2((1, 1), wins))
    pair = {"asked": {"degree": 2}, **pairs}
    return [
        case("standard", 1, heavy, 0, 1.0),
        *(case("mom", 1, heavy, count, 1.0) for count in (0, 2, 10)),
        *(case("hoeffding", 1, heavy, count, 1.0) for count in (2, 10)),
        *(case("mom", claim, "normal", count, 1.0) for claim, count in ((2, 0), (2, 10), (3, 10))),
        *(case("mou", 1, "normal", count, spread, **pair) for count in (2, 10)),
        *(case("mou", claim, "uniform", count, 6.0, **pair) for claim, count in ((2, 0), (2, 10), (3, 10))),
        case("mou2", 1, "normal", 1, across, **{**two, "seconds": 6.0}),
        *(case("mou2-diagonal", 1, "normal", count, across, **diagonal) for count in (1, 5)),
        *(case("mou2-diagonal", claim, "normal", 5, 1.0, **diagonal) for claim in (2, 3)),
        case("mou-multi", 2, "normal", 5, 1.0, asked={"degree": (1, 1)}, **diagonal),
    ]


CASES = (*_means(), *_others(), *_stated())
