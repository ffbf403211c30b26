"""The cases of the coverage experiment: distributions of clean rows, certificates, and values of outliers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np

from outvote import paper
from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian, Symmetric
from outvote.certificate import radius
from outvote.contamination import Contamination
from outvote.paper.experiments.estimation import Array

Sampler = Callable[[np.random.Generator, tuple[int, int]], Array]
Attack = Literal["oblivious", "adaptive", "huber"]

ROOT3 = math.sqrt(3.0)


def _pareto(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    a = 2.5
    return np.asarray((rng.pareto(a, shape) + 1 - a / (a - 1)) / math.sqrt(a / ((a - 1) ** 2 * (a - 2))))


def _lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.asarray((rng.lognormal(0.0, 2.0, shape) - math.exp(2)) / math.sqrt(math.exp(8) - math.exp(4)))


def _two_points(high: float) -> Sampler:
    """Return the distribution on two points with mean 0 and sd 1 that takes the value `high` most often."""
    share, high = 1 / (1 + high**2), high * (1 + 1e-9)
    return lambda rng, shape: np.where(rng.random(shape) < share, high, -1 / high)


#: Rows for classifiers x > c of x in [0, 1], written as x if the class is 1 and as -x if it is 0. Half the rows are on
#: either side of 1/2, and a fifth of the classes are wrong.
ROWS_TO_CLASSIFY = "rows to classify"
_WRONG = 0.2
THRESHOLDS = np.linspace(0.0, 1.0, 21)


def _to_classify(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    x = rng.random(shape)
    return np.where((x > 0.5) ^ (rng.random(shape) < _WRONG), x, -x)


def losses_at(rows: Array) -> Array:
    """Return the 0-1 loss of each of the `THRESHOLDS` on rows to classify, along a last axis."""
    return np.asarray((np.abs(rows)[..., None] > THRESHOLDS) != (rows > 0)[..., None], dtype=float)


def risk_at(threshold: Any) -> Any:
    """Return the true risk of a threshold."""
    return _WRONG + (1 - 2 * _WRONG) * np.abs(threshold - 0.5)


#: A loss that is 1 in three rows of ten.
ZERO_ONE, RISK = "0-1 loss", 0.3
#: Distributions of clean rows with mean 0 and sd 1.
LAWS: dict[str, Sampler] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-ROOT3, ROOT3, shape),
    "Laplace": lambda rng, shape: rng.laplace(0.0, math.sqrt(0.5), shape),
    "Student, 2.5 degrees": lambda rng, shape: rng.standard_t(2.5, shape) / math.sqrt(5.0),
    "Pareto, index 2.5": _pareto,
    "lognormal, σ = 2": _lognormal,
}
#: Distributions of losses.
LOSSES: dict[str, Sampler] = {
    ZERO_ONE: lambda rng, shape: (rng.random(shape) < RISK).astype(float),
    ROWS_TO_CLASSIFY: _to_classify,
}
#: The distribution for which Chebyshev's inequality is an equality at the radius.
AT_RADIUS = "two points"
#: P(X ≤ Y) for normal X, with Y distributed as X + 1.
WINS = 0.5 * (1 + math.erf(0.5))


def _wins_variances() -> dict[tuple[int, int], float]:
    """Return the variances of 1{X ≤ Y}, and of its mean given X or given Y, for normal X and Y = X' + 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    given = np.array([0.5 * (1 + math.erf((1 - x) / math.sqrt(2))) for x in nodes])
    one = float(weights @ (given - WINS) ** 2 / weights.sum())
    return {(1, 0): one, (0, 1): one, (1, 1): WINS * (1 - WINS)}


def _gini_variances() -> tuple[float, float]:
    """Return the variances of E(|X - X'| given X) and of |X - X'|, for normal rows."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    given = np.array(
        [x * math.erf(x / math.sqrt(2)) + 2 * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) for x in nodes]
    )
    return float(weights @ (given - GINI) ** 2 / weights.sum()), 2 - GINI**2


#: E|X - X'| for normal rows.
GINI = 2 / math.sqrt(math.pi)
#: ζ of the variance kernel on standard normal rows.
ZETAS = (0.5, 2.0)
FAR = ((1e6,), (-1e6,))
ENDS = ((ROOT3,), (-ROOT3,))
WIDE = ((1e3,),)
#: Just below 0, where outliers make a variance or a loss look smaller.
HIDDEN = ((-1e-9,),)
CROSSED = ((10.0, -10.0), (-10.0, 10.0))
FAR_APART = ((1e6, -1e6), (-1e6, 1e6))


#: Functions that bound an expected error.
EXPECTATIONS = ("certificate.expected_error", "certificate.mean_squared_error")


@dataclass(frozen=True)
class Case:
    """A certificate, and the rows on which it is tried.

    `function` is the public name of the function that returns it, `truth` the estimated quantity. Each sample is drawn
    from the distribution `law` and moved by its entry of `shifts`; a run has this many `columns`. `places` has the
    values of the outliers in each sample, one tuple for each side; the side with the larger error counts in every run.
    `attack` is how the corrupt rows are chosen: by the `adversary` that the certificate allows for, unless the
    certificate is broken on purpose. `stated` has the arguments of `outvote.paper.bound`. `times` multiplies the runs.
    """

    certificate: str
    law: str
    assume: Any = None
    function: str = "mean"
    kernel: str | None = None
    truth: float = 0.0
    vote: str | None = "median"
    options: Mapping[str, Any] = field(default_factory=dict)
    adversary: Attack = "oblivious"
    attack: Attack | None = None
    n: int = 500
    outliers: int = 10
    places: Sequence[tuple[float, ...]] = FAR
    shifts: tuple[float, ...] = (0.0, 1.0)
    columns: int = 1
    reading: Literal["interval", "levels"] = "interval"
    stated: Mapping[str, Any] | None = None
    seconds: float = 0.2
    times: int = 1

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.places[0])

    @property
    def expected(self) -> bool:
        """Whether the bound is on a mean over the runs, which has no misses."""
        return self.function in EXPECTATIONS or (self.stated is not None and self.stated["claim"] == 3)

    @property
    def centre(self) -> float:
        """The mean of the clean rows."""
        return RISK if self.law == ZERO_ONE else 0.0

    def sample(self, rng: np.random.Generator, delta: float, runs: int) -> list[Array]:
        """Return clean samples, with one column, or `columns` of them, for each run."""
        sampler = self.sampler(delta)
        return [sampler(rng, (self.n, runs * self.columns)) + shift for shift in self.shifts[: self.samples]]

    def asked(self, delta: float, seed: int) -> dict[str, Any]:
        """Return the options of an estimate."""
        options = {
            "contamination": Contamination(self.outliers, "adaptive" if self.adversary == "adaptive" else "oblivious"),
            "confidence": 1 - delta,
            "assume": self.assume,
            "rng": seed,
            **({} if self.vote is None else {"vote": self.vote}),
            **self.options,
        }
        stated = self.bound(delta)
        if stated is not None:
            options["n_blocks"] = stated.n_blocks if self.samples == 1 else tuple(stated.n_blocks)
        return options

    def sampler(self, delta: float) -> Sampler:
        """Return the distribution of the clean rows, which may depend on the radius."""
        if self.law != AT_RADIUS:
            return {**LAWS, **LOSSES}[self.law]
        blocks: dict[str, Any] = {"n_blocks": self.n, "block_size": 1, "n_corrupt": self.outliers}
        blocks |= {"adversary": self.adversary}
        return _two_points(radius(delta=delta, assume=self.assume, **blocks))

    def bound(self, delta: float) -> Any:
        """Return the paper's bound, at its largest δ if `delta` is too large, or None if the case has none."""
        if self.stated is None:
            return None
        level: dict[str, Any] = {} if self.stated.get("claim") == 3 else {"delta": delta, "clamp": True}
        n, outliers = (value if self.samples == 1 else (value,) * 2 for value in (self.n, self.outliers))
        return paper.bound(n=n, n_outliers=outliers, **level, **self.stated)


def _both(certificate: str, law: str, assume: Any = None, **more: Any) -> list[Case]:
    """Return the cases of a certificate against both adversaries."""
    return [Case(certificate, law, assume, adversary=kind, **more) for kind in ("oblivious", "adaptive")]


def _means() -> list[Case]:
    sd, normal = FiniteVariance(1.0), SubGaussian(1.0)
    heavy = ("normal", "Student, 2.5 degrees", "Pareto, index 2.5")
    found = [case for law in heavy for case in _both("median, finite variance", law, sd)]
    found += [case for law in heavy[1:] for case in _both("soft, finite variance", law, sd, vote="soft")]
    found += [case for law in heavy[1:] for case in _both("clipped, finite variance", law, sd, vote="clipped")]
    for vote in ("median", "soft", "clipped"):
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


def _evidence() -> list[Case]:
    """Return cases of evidence, with a declared scale, with the kurtosis alone, and with nothing declared."""
    sd, heavy = FiniteVariance(1.0), ("normal", "Student, 2.5 degrees", "Pareto, index 2.5")
    asked: dict[str, Any] = {"vote": "evidence", "seconds": 4.0}
    near = {**asked, "places": ((3.0,), (-3.0,))}
    box, kurtosis = Bounded(-ROOT3, ROOT3), FiniteKurtosis(6.0, sd=1.0)
    found = [case for law in heavy for case in _both("evidence, finite variance", law, sd, **asked)]
    found += [case for law in heavy for case in _both("evidence, corrupt rows near by", law, sd, **near)]
    found += _both("evidence, sub-Gaussian", "normal", SubGaussian(1.0), **asked)
    found += _both("evidence, bounded", "uniform", box, **asked | {"places": ENDS})
    found += _both("evidence, finite kurtosis", "Laplace", kurtosis, **asked)
    found += _both("evidence, kurtosis only", "Laplace", FiniteKurtosis(6.0), **asked)
    found += _both("evidence, nothing declared", "normal", **asked)
    found += _both("evidence, nothing declared", "Laplace", **near)
    found += _both("evidence, one side (less)", heavy[1], sd, **asked, options={"alternative": "less"})
    bounds = {**asked, "function": "certificate.sigma_bounds", "truth": 1.0}
    found += _both("bounds on the sd", "Laplace", FiniteKurtosis(6.0), **bounds)
    found += _both("evidence, symmetric", "Laplace", Symmetric(), **asked)
    return found


def _without_blocks() -> list[Case]:
    """Return cases of U-statistics, quantiles and distances without blocks."""
    wins: dict[str, Any] = {"function": "u_statistic", "kernel": "mann-whitney", "truth": WINS, "places": CROSSED}
    known = FiniteVariance(math.sqrt(max(ZETAS)))
    spread: dict[str, Any] = {"function": "u_statistic", "kernel": "variance", "truth": 1.0, "places": WIDE}
    return [
        *_both("Mann-Whitney, complete", "normal", vote="complete", seconds=2.0, **wins),
        *_both("variance, evidence of pairs", "normal", known, vote="evidence", seconds=8.0, **spread),
        *_both("median of any law", "Laplace", function="quantile", vote=None),
        *_both(
            "distance of equal laws (MMD)",
            "normal",
            function="mmd",
            vote=None,
            shifts=(0.0, 0.0),
            n=120,
            outliers=3,
            seconds=3.0,
            places=CROSSED,
            options={"bandwidth": 1.0},
        ),
    ]


def _forms() -> list[Case]:
    """Return further cases of a mean: one side, several columns, unequal blocks, unknown contamination."""
    sd, heavy = FiniteVariance(1.0), "Student, 2.5 degrees"
    found = []
    for vote, side in product(("median", "soft", "clipped"), ("less", "greater")):
        found += _both(f"{vote}, one side ({side})", heavy, sd, vote=vote, options={"alternative": side})
    found += _both("three columns at once", heavy, sd, options={"simultaneous": True}, columns=3, seconds=1.0)
    found += _both("auto vote, finite variance", heavy, sd, vote="auto")
    for vote in ("median", "soft", "clipped"):
        spread = {"remainder": "spread", "n_blocks": 61}
        found += _both(f"{vote}, blocks of two sizes", heavy, sd, vote=vote, options=spread)
    found += _both(
        "blocks by hash (BlockSummary)", heavy, sd, function="BlockSummary.result", options=_blocks(61, "hash")
    )
    for adversary in ("oblivious", "adaptive"):
        opened = {"contamination": "auto", "max_contamination": Contamination(4, adversary)}
        more: dict[str, Any] = {"adversary": adversary, "options": opened, "seconds": 2.0}
        found.append(Case("contamination left open, interval", heavy, sd, outliers=4, **more))
        found.append(Case("contamination left open, levels", heavy, sd, outliers=2, reading="levels", **more))
    return found


def _blocks(count: int, kind: str = "contiguous") -> dict[str, Any]:
    return {"n_blocks": count, "partition": kind}


def _radii() -> list[Case]:
    """Return the cases of the public radii of given blocks, and of Huber's model."""
    sd, kurtosis, heavy = FiniteVariance(1.0), FiniteKurtosis(6.0), "Student, 2.5 degrees"
    small: dict[str, Any] = {"n": 505, "outliers": 5, "options": _blocks(101)}
    found = [
        Case("Huber's model", law, sd, function="certificate.radius(huber_rate)", adversary="huber", **small)
        for law in ("normal", heavy)
    ]
    found += _both("expected error", heavy, sd, function="certificate.expected_error", **small)
    found += _both("mean squared error", heavy, sd, function="certificate.mean_squared_error", **small)
    found += _both("order statistics", heavy, function="certificate.order_statistic_interval", seconds=0.5, **small)
    wide: dict[str, Any] = {"n": 2000, "outliers": 5, "options": _blocks(41)}
    found += _both("radius without sd", "Laplace", kurtosis, function="certificate.sigma_free_radius", **wide)
    wide |= {"function": "certificate.sigma_upper", "kernel": "variance", "truth": 1.0, "places": HIDDEN}
    found += _both("upper bound on the sd", "Laplace", kurtosis, **wide)
    return found


def _risks() -> list[Case]:
    """Return cases of risks: of one model, the best of several, pairs, the best of a class, and a whole class."""
    loss = Bounded(0.0, 1.0)
    risk: dict[str, Any] = {"function": "certify_risk", "truth": RISK, "vote": "clipped", "seconds": 0.6}
    risk |= {"places": ((0.0,),)}
    spread = 2 * ROOT3
    pairs = {**risk, "kernel": "gini", "truth": spread / 3, "places": HIDDEN}
    classes: dict[str, Any] = {"n": 1200, "outliers": 3, "kernel": "thresholds", "places": ((1e-9,), (-1e-9,))}
    classes |= {"seconds": 1.5, "options": {"n_blocks": 11}}
    chosen = {**classes, "options": {"n_blocks": 11, "vc_dim": 1}, "vote": None, "places": HIDDEN}
    chosen |= {"function": "certify_risk(vc_dim)", "seconds": 1.5}
    return [
        *_both("risk of a model", ZERO_ONE, loss, **risk),
        *_both("risk of the best of five", ZERO_ONE, loss, columns=5, **risk),
        *_both("risk of pairs", "uniform", Bounded(0.0, spread), **pairs),
        *_both("risk of the best of a class", ROWS_TO_CLASSIFY, loss, **chosen),
        *_both("risks of a class", ROWS_TO_CLASSIFY, loss, function="certificate.uniform_radius", **classes),
    ]


def _identity(rows: Array) -> Array:
    return rows


def _half(rows: Array) -> Array:
    return rows / 2


def _others() -> list[Case]:
    variance: dict[str, Any] = {"function": "u_statistic", "kernel": "variance", "truth": 1.0}
    variance |= {"places": WIDE, "seconds": 0.8}
    gini: dict[str, Any] = {**variance, "kernel": "gini", "truth": GINI}
    means_of_gini = _gini_variances()
    known = FiniteVariance(math.sqrt(ZETAS[1]), zetas=ZETAS)
    known_gini = FiniteVariance(math.sqrt(means_of_gini[1]), zetas=means_of_gini)
    wins: dict[str, Any] = {"function": "u_statistic", "kernel": "mann-whitney", "truth": WINS}
    wins |= {"places": CROSSED, "outliers": 5, "seconds": 1.5}
    diagonal = {"options": {"grid": "diagonal"}, **wins}
    apart: dict[str, Any] = {"function": "difference", "truth": 1.0, "places": FAR_APART, "seconds": 2.0}
    heavy, sd = "Pareto, index 2.5", FiniteVariance(1.0)
    opened = {"outliers": 4, "options": {"contamination": "auto", "max_contamination": Contamination(4)}}
    return [
        *_both("variance, median, finite variance", "normal", known, **variance),
        *_both("variance, soft, finite variance", "normal", known, vote="soft", **variance),
        *_both("variance, median, bounded", "uniform", Bounded(0.0, 6.0), **variance),
        *_both("variance, clipped, bounded", "uniform", Bounded(0.0, 6.0), vote="clipped", **variance),
        Case("variance, median, scale from the rows", "normal", **variance),
        Case("variance, median, scale from the rows", "lognormal, σ = 2", **variance),
        Case("variance, contamination left open", "normal", known, **{**variance, **opened, "seconds": 1.3}),
        *_both("Gini, median, finite variance", "normal", known_gini, **gini),
        *_both("Gini, clipped, finite variance", "normal", known_gini, vote="clipped", **gini),
        *_both("Mann-Whitney, full grid", "normal", **wins),
        *_both("Mann-Whitney, diagonal, median", "normal", **diagonal),
        *_both("Mann-Whitney, diagonal, clipped", "normal", vote="clipped", **diagonal),
        *_both("difference, median, finite variance", heavy, sd, **apart),
        Case("difference, contamination left open", heavy, sd, **{**apart, **opened, "seconds": 3.0}),
        Case("difference of pairs", heavy, FiniteVariance(math.sqrt(2)), options={"paired": True}, **apart),
        Case("ratio of means", heavy, sd, options={"relative": True}, shifts=(5.0, 6.0), **{**apart, "truth": 0.2}),
        Case("largest difference of two functions", heavy, sd, options={"function": (_identity, _half)}, **apart),
    ]


def _stated() -> list[Case]:
    """Return cases of the paper's bounds, with few outliers (an ordinary δ is in range) and with more (it is not)."""
    heavy, wins = "Student, 2.5 degrees", _wins_variances()
    pairs: dict[str, Any] = {"function": "u_statistic", "kernel": "variance", "truth": 1.0, "places": WIDE}
    pairs |= {"seconds": 0.8}
    two: dict[str, Any] = {"function": "u_statistic", "kernel": "mann-whitney", "truth": WINS, "places": CROSSED}
    two |= {"n": 1000, "seconds": 1.2}
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


CASES = (
    *_means(), *_forms(), *_radii(), *_risks(), *_others(), *_stated(), *_evidence(), *_without_blocks()
)  # fmt: skip
