"""Compute the paper's bounds as certificates; import this module as `outvote.paper`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outvote.certificate import Certificate, Provenance
from outvote.data.arguments import check_flags, is_whole, real
from outvote.paper.mappings import (
    AlphaMapping,
    Constants,
    Counts,
    FirstClaim,
    constants,
    contamination,
    first_claim,
    largest_contamination,
    range_text,
    read_samples,
    settle,
    smallest_counts,
    whole_numbers,
)


@dataclass(frozen=True)
class _Statement:
    """A statement of the paper: its title, its claims, and the samples and degrees that it covers."""

    title: str
    claims: tuple[int, ...]
    layout: str = "single"
    samples: tuple[int, float] = (1, 1)
    degree: int | None = None  # None: the caller must give it
    degree_free: bool = False

    @property
    def is_learning(self) -> bool:
        return self.degree == 2


_STATEMENTS = {
    "standard": _Statement("Prop. standard_mom", (1,), degree=1),
    "mom": _Statement("Prop. mom", (1, 2, 3), degree=1),
    "mou": _Statement("Prop. mou_1sample", (1, 2, 3), degree_free=True),
    "mou2": _Statement("Prop. mou_2sample", (1,), "full", (2, math.inf), degree=1, degree_free=True),
    "mou2-diagonal": _Statement("Prop. mou_diag", (1, 2, 3), "diagonal", (2, 2), degree=1),
    "mou-multi": _Statement("Appendix ext_ustat", (1, 2, 3), "diagonal", (1, math.inf), degree_free=True),
    "hoeffding": _Statement("Remark hoeffding", (1,), "full", degree=1),
    "mou-minimizer": _Statement("Theorem mou_min", (1,), degree=2),
    "mou-descent": _Statement("Theorem alg", (1,), degree=2),
    "entropy": _Statement("Appendix chaining", (1,), degree=2),
}

_UNPROVED = {
    "mou-minimizer": "the paper's proof takes a union bound over the sample's own classes without symmetrisation",
    "mou-descent": "the paper's proof uses Theorem mou_min, which is not proved, and averages over partitions in a way "
    "that does not follow from a bound for each partition",
}

_EMPTY = (0.0, -math.inf)


def _read_degrees(statement: str, degree: Counts | None, n_samples: int) -> tuple[int, ...]:
    spec = _STATEMENTS[statement]
    if degree is None:
        if spec.degree is None:
            raise ValueError(f"{statement!r} needs degree, the number of rows a kernel takes: degree=2 for pairs")
        return (spec.degree,) * n_samples
    degrees = whole_numbers(degree, "degree", 1)
    if len(degrees) != n_samples:
        raise ValueError(f"degree={degree!r} has {len(degrees)} entries for {n_samples} samples: give one per sample")
    if not spec.degree_free and set(degrees) != {spec.degree}:
        raise ValueError(f"degree={degree!r}: {statement!r} holds for degree {spec.degree}; use 'mou' or 'mou-multi'")
    return degrees


def _read_log_delta(delta: float | None, log_delta: float | None, confidence: float | None) -> float:
    given = {
        name: value
        for name, value in (("delta", delta), ("log_delta", log_delta), ("confidence", confidence))
        if value is not None
    }
    if len(given) != 1:
        raise ValueError(f"give exactly one of delta, log_delta and confidence, not {given or 'none'}")
    ((name, asked),) = given.items()
    value = real(name, asked)
    if log_delta is not None:
        if not -math.inf < value < 0:
            raise ValueError(f"log_delta={log_delta} must be finite and below 0, as in math.log(0.05)")
        return value
    if not 0 < value < 1:
        hint = "; below 1e-308 use log_delta" if value == 0 else ""
        raise ValueError(f"{name}={asked} must lie strictly between 0 and 1{hint}")
    return math.log(value) if name == "delta" else math.log1p(-value)


@dataclass(frozen=True)
class _Case:
    """A statement with its checked arguments."""

    statement: str
    claim: int
    sizes: tuple[int, ...]
    outliers: tuple[int, ...]
    degrees: tuple[int, ...]
    mapping: AlphaMapping
    scale: float
    requested: float

    @property
    def spec(self) -> _Statement:
        return _STATEMENTS[self.statement]

    @property
    def n(self) -> int:
        return min(self.sizes)

    def fits(self, counts: tuple[int, ...]) -> bool:
        return all(n // k >= d for n, k, d in zip(self.sizes, counts, self.degrees, strict=True))

    def assumption(self) -> str:
        if self.spec.is_learning:
            return f"losses in [0, {self.scale:g}]"
        if self.claim == 1:
            name = "sd" if self.statement in ("standard", "mom", "hoeffding") else "Sigma"
            return f"finite variance, {name}={self.scale:g}"
        if self.statement == "mom":
            return f"sub-Gaussian, scale={self.scale:g}"
        return f"bounded kernel, |h| <= {self.scale:g}"

    def certificate(
        self,
        radius: float,
        provenance: Provenance,
        delivered: float,
        counts: tuple[int, ...] | None,
        limits: tuple[float, float] | None,
        notes: list[str],
    ) -> Certificate:
        title = self.spec.title + (f", claim {self.claim}" if len(self.spec.claims) > 1 else "")
        if self.statement != "standard":
            title += f", {self.mapping if isinstance(self.mapping, str) else 'own'} mapping"
        return Certificate(
            radius=radius,
            provenance=provenance,
            log_delta=delivered,
            requested_log_delta=self.requested,
            assumption=self.assumption(),
            statement=title,
            note="; ".join(notes),
            n_blocks=counts[0] if counts is not None and len(counts) == 1 else counts,
            log_delta_range=limits,
        )


def _misfit_note(case: _Case, counts: tuple[int, ...]) -> str:
    rows = min(n // k for n, k in zip(case.sizes, counts, strict=True))
    most = largest_contamination(case.sizes, case.degrees, case.spec.layout, case.mapping)
    name = case.mapping if isinstance(case.mapping, str) else "given"
    if most is None:
        works = "makes blocks too small for this degree even without outliers: use another mapping"
    else:
        where = " in each sample" if case.spec.layout == "full" else ""
        works = f"allows at most {most} corrupt rows{where}"
    return (
        f"{max(counts)} blocks have {rows} row(s) each, for a kernel of degree {max(case.degrees)}; "
        f"the {name} mapping {works}"
    )


def _pair(name: str, value: Any, example: str) -> tuple[float, float]:
    """Return two numbers as floats."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str) or len(value) != 2:
        raise ValueError(f"{name}={value!r} must be two numbers, {example} for instance")
    return real(name, value[0]), real(name, value[1])


def _class_size(statement: str, vc_dim: float | None, covering: tuple[float, float] | None, n: int) -> float:
    """Return the term that the size of the class of losses adds to log(1/δ)."""
    if statement in _UNPROVED:
        dimension = 0.0 if vc_dim is None else real("vc_dim", vc_dim)
        if not 1 <= dimension < math.inf:
            raise ValueError(f"vc_dim={vc_dim}: {statement!r} needs the VC dimension of the class, at least 1")
        return dimension * (1 + math.log(n))
    if statement == "entropy":
        factor, power = (0.0, 0.0) if covering is None else _pair("covering", covering, "(1, 2)")
        if not (0 < factor < math.inf and 1 <= power < math.inf):
            raise ValueError(f"covering={covering}: 'entropy' needs (C_G, r) with C_G > 0 and r >= 1, as in (1, 2)")
        log_balls = power / 2 * math.log(n) + math.log(factor)
        if log_balls < 0:
            raise ValueError(
                f"covering={covering} gives fewer than one ball of radius 1/sqrt(n): use a C_G of at least "
                f"{n ** (-power / 2):.3g}"
            )
        return log_balls
    return 0.0


def _outlier_budget(growth: tuple[float, float], case: _Case) -> float:
    """Return Σ_s C_O²·n^α_O, the number of outliers that the growth assumption allows."""
    factor, exponent = _pair("growth", growth, "(1, 0.5)")
    if not (1 <= factor < math.inf and 0 <= exponent < 1):
        raise ValueError(f"growth={growth}: (C_O, alpha_O) needs C_O >= 1 and 0 <= alpha_O < 1, as in (1, 0.5)")
    each, most = factor * factor * case.n**exponent, max(case.outliers)
    if most > each:
        raise ValueError(
            f"growth={growth} allows {each:.6g} outliers, fewer than n_outliers={most}: "
            f"use a C_O of at least {math.sqrt(most / case.n**exponent) * (1 + 1e-12):.15g}"
        )
    return float(len(case.sizes) * each)


def _check(
    statement: str,
    claim: int | None,
    n: Counts,
    n_outliers: Counts,
    mapping: AlphaMapping,
    scale: float,
    degree: Counts | None,
    levels: tuple[float | None, float | None, float | None],
) -> _Case:
    if not isinstance(statement, str) or statement not in _STATEMENTS:
        raise ValueError(f"statement={statement!r} must be one of {', '.join(map(repr, _STATEMENTS))}")
    spec = _STATEMENTS[statement]
    claim = spec.claims[0] if claim is None else claim
    if not is_whole(claim) or claim not in spec.claims:
        raise ValueError(f"claim={claim!r}: {statement!r} has claim {' or '.join(map(str, spec.claims))}")
    sizes, outliers = read_samples(n, n_outliers)
    fewest, most = spec.samples
    if not fewest <= len(sizes) <= most:
        wanted = f"{fewest}" if fewest == most else f"{fewest} or more"
        raise ValueError(f"n={n!r} gives {len(sizes)} sample(s), but {statement!r} needs {wanted}")
    if statement == "standard" and any(outliers):
        raise ValueError(f"n_outliers={n_outliers!r}: 'standard' allows no outliers; use 'mom'")
    scale = real("scale", scale)
    if not 0 <= scale < math.inf:
        raise ValueError(f"scale={scale} must be finite and at least 0")
    degrees = _read_degrees(statement, degree, len(sizes))
    if claim == 3 and levels != (None, None, None):
        raise ValueError("claim=3 bounds the expected error: leave out delta, log_delta and confidence")
    requested = 0.0 if claim == 3 else _read_log_delta(*levels)
    return _Case(statement, claim, sizes, outliers, degrees, mapping, scale, requested)


def _first_claim(case: _Case) -> FirstClaim | None:
    """Return the range and the numbers of blocks of a bound for finite variance, or None for light tails."""
    if case.statement == "standard":
        return FirstClaim((1,), case.sizes, (1.0,), 1, 1 - case.n / 2, 0.0)
    if case.claim == 1 and not case.spec.is_learning:
        return first_claim(case.sizes, case.outliers, case.degrees, case.spec.layout, case.mapping)
    return None


def _heavy_radius(case: _Case, c: Constants[float], terms: int, delivered: float) -> float:
    if case.statement == "standard":
        factor = 2 * math.sqrt(2) * math.e
    elif case.statement == "mou2":
        factor = 6 * math.sqrt(3) * len(case.sizes) * c.gamma
    elif case.statement == "hoeffding":
        factor = 3 * math.sqrt(6) * c.gamma
    else:
        factor = 4 * math.sqrt(math.e) * c.gamma
    return factor * case.scale * math.sqrt((1 + math.log(terms) - delivered) / case.n)


def _light_unit(case: _Case, c: Constants[float]) -> float:
    """Return the radius of the second claim at L = 1."""
    tuples = min(n / d for n, d in zip(case.sizes, case.degrees, strict=True))
    factor = 8 if case.statement == "mou2-diagonal" else 4
    return factor * case.scale * c.Gamma / math.sqrt(tuples)


def bound(
    statement: str,
    claim: int | None = None,
    *,
    n: Counts,
    n_outliers: Counts,
    delta: float | None = None,
    log_delta: float | None = None,
    confidence: float | None = None,
    mapping: AlphaMapping = "harmonic",
    scale: float = 1.0,
    degree: Counts | None = None,
    growth: tuple[float, float] | None = None,
    vc_dim: float | None = None,
    covering: tuple[float, float] | None = None,
    clamp: bool = False,
) -> Certificate:
    """Return one of the paper's bounds, with the range of δ in which it holds.

    ================  =====  ==========================================  =====================================
    statement         claim  radius                                      K; range of δ
    ================  =====  ==========================================  =====================================
    standard          1      2√2·e·σ·√((1 + L)/n)                        ⌈L⌉; [e^(1-n/2), 1[, no outliers
    mom               1      4√e·σ·γ·√((1 + L)/n)                        ⌈βL⌉; [e^(-n/β), e^(-nα/β)]
    mom               2      4ρ·Γ·√(L/n)                                 ⌈αn⌉; ]0, e^(-4nα)]
    mom               3      2ρ·Γ·(4·C_O·Δ/n^((1-α_O)/2) + √(π/n))       ⌈αn⌉; bounds E|error|
    mou               1-3    mom's with Σ(h) for σ, √d·M for ρ           mom's, with ⌊n/d⌋ for n in e^(-n/β)
    mou2              1      6√3·p·Σ(H)·γ(ε̃)·√((1 + log(p/δ))/min n_s)   see `block_count`, layout="full"
    mou2-diagonal     1-3    mom's with Σ(H) for σ, 2M for ρ             mom's, ε = ε_X + ε_Y
    mou-multi         1-3    mou2-diagonal's; claims 2-3: M for ρ and    mom's, ε = Σ n_O,s/min n_s
                             min n_s/d_s for n
    hoeffding         1      3√6·σ·γ·√((1 + L)/n)                        ⌈β'L⌉, β' = 9η/(2(2η - 1)²); as mom 1
    entropy           1      2/√n + 4√2·M·Γ·√((r/2·log n +               ⌈αn⌉; ]0, e^(-4nα)]
                             log(C_G/δ))/n)
    mou-minimizer     1      8√2·M·Γ·√((V(1 + log n) + L)/n)             ⌈αn⌉; ]0, e^(-4nα)]
    mou-descent       1      that of mou-minimizer                       those of mou-minimizer
    ================  =====  ==========================================  =====================================

    In their range all are *certified*, except the last two (Theorems `mou_min` and `alg`), which are *as stated*.

    Parameters
    ----------
    statement : str
        A line of the table. `entropy` bounds sup |MoU - risk| over a class, `mou-minimizer` and `mou-descent`
        bound the excess risk, and the others the error of an estimate.
    claim : int, optional
        1: finite variance; 2: light tails; 3: expected error, light tails. The first claim by default.
    n, n_outliers : int or sequence of int
        Rows (n) and outliers among them (n_O), one per sample.
    delta, log_delta, confidence : float
        Give exactly one: δ, log δ or 1 - δ. For claim 3 give none of them.
    mapping : str or callable
        α, see `alpha`.
    scale : float
        Claim 1: σ of a mean, Σ of a U-statistic (the root of `sigma2`). Claims 2 and 3: ρ of sub-Gaussian
        centred rows for `mom`, else M with |h| ≤ M on clean rows. Learning: M with losses in [0, M].
    degree : int or sequence of int
        How many rows the kernel takes from each sample (d), if it is not 1 (2 for learning).
    growth : (float, float), optional
        (C_O, α_O) with n_O ≤ C_O²·n^α_O in every sample, for claim 3. Without it C_O²·n^α_O is replaced by n_O,
        the tightest choice: 4√α replaces 4·C_O·Δ/n^((1-α_O)/2).
    vc_dim : float
        VC dimension (V), for `mou-minimizer` and `mou-descent`.
    covering : (float, float)
        (C_G, r): C_G·ζ^(-r) balls of radius ζ = 1/√n in sup norm cover the losses, for `entropy`.
    clamp : bool
        If δ is too large for the range, use the largest δ of the range instead, which is a higher confidence.

    Returns
    -------
    Certificate
        `radius` is infinite and `provenance` is "none" if δ is out of range or the blocks are smaller than the
        degree; `note` says what would work. `log_delta_range` takes the degree into account; an empty range has
        its ends in the wrong order. Claim 3 has no confidence: `log_delta` is 0 (δ = 1, confidence 0) and
        `log_delta_range` is None.

    Notes
    -----
    *Claim 1.* The paper's 2^(1/x) ≤ 1/x² fails for x = (2η - 1)/(2η) < 1/4. Chernoff's bound gives
    exp(-ηK·KL(x‖p)), and KL(x‖x²/e) ≥ x for x ≤ 1/2, which gives the same radius. *Claim 2.* Hoeffding's inequality
    for U-statistics has ⌊B/d⌋ where the paper writes B/d. With b = ⌊n/(Kd)⌋ ≥ n/(2Kd) the failure probability
    is at most exp(K(4η - 1)log(2)/2 - 4KbdL/n) ≤ δ as soon as L ≥ 1.04·K, which the range implies. Without
    outliers δ must be at most 1/e. *Several samples.* Hoeffding's average over disjoint tuples gives
    `mou-multi` half the radius of `mou2-diagonal` in claims 2 and 3. Unequal samples need one K on the diagonal
    and min n_s for n. *`mou2`* is the paper's bound for p = 2 samples of any degrees, with e^(-n/β_X) where the paper
    prints e^(-nβ_X); for p > 2 the error is split into p conditional averages instead of two.

    Examples
    --------
    >>> c = bound("mom", claim=1, n=1000, n_outliers=50, delta=1e-20)
    >>> c.provenance, c.n_blocks, round(float(c.radius), 2)
    ('certified', 205, 3.44)
    >>> bound("mom", claim=1, n=1000, n_outliers=50, delta=0.01).note
    'delta is out of range: the bound covers delta in [2.0e-98, 1.7e-18]; clamp=True gives a higher confidence'
    >>> print(bound("mou", claim=2, n=1000, n_outliers=200, degree=2, delta=1e-300).note)
    572 blocks have 1 row(s) each, for a kernel of degree 2; the harmonic mapping allows at most 166 corrupt rows
    """
    check_flags(clamp=clamp)
    case = _check(statement, claim, n, n_outliers, mapping, scale, degree, (delta, log_delta, confidence))
    _check_unused(case, statement, growth=growth, vc_dim=vc_dim, covering=covering)
    extra = _class_size(statement, vc_dim, covering, case.n)
    budget = None if growth is None else _outlier_budget(growth, case)

    least = (1,) if statement == "standard" else smallest_counts(case.sizes, case.outliers, case.spec.layout, mapping)
    if not case.fits(least):
        return case.certificate(math.inf, "none", case.requested, least, _EMPTY, [_misfit_note(case, least)])
    c = constants(contamination(case.sizes, case.outliers, case.spec.layout), mapping)
    plan = _first_claim(case)
    low, high = (plan.low, plan.high) if plan else (-math.inf, -max(4 * c.alpha * case.n, 1.0))

    if case.claim == 3:
        start = 4 * c.Delta**2 * budget if budget is not None and any(case.outliers) else -high
        radius = _light_unit(case, c) * (math.sqrt(start) + math.sqrt(math.pi) / 2)
        return case.certificate(radius, "certified", 0.0, least, None, ["the radius bounds the expected error"])

    delivered = settle(case.requested, low, high, clamp)
    if delivered is None:
        note = _out_of_range_note(case.requested, low, high)
        return case.certificate(math.inf, "none", case.requested, None if plan else least, (low, high), [note])
    notes = []
    if delivered < case.requested:
        notes.append(f"the confidence is higher than requested: {range_text(low, high)}")
    counts = plan.counts(delivered) if plan else least
    if any(rows // k == d > 1 for rows, k, d in zip(case.sizes, counts, case.degrees, strict=True)):
        notes.append("blocks hold only as many rows as the kernel takes")

    if plan:
        radius, trivial = _heavy_radius(case, c, plan.terms, delivered), math.inf
    else:
        radius = _light_unit(case, c) * math.sqrt(extra - delivered)
        trivial = math.inf if statement == "mom" else case.scale if case.spec.is_learning else 2 * case.scale
    if statement == "entropy":
        radius += 2 / math.sqrt(case.n)
    if statement in _UNPROVED:
        radius *= 2
        notes.append(_UNPROVED[statement])
    if radius >= trivial:
        notes.append(f"the radius is no better than the trivial bound {trivial:g}")
    provenance: Provenance = "as stated" if statement in _UNPROVED else "certified"
    return case.certificate(radius, provenance, delivered, counts, (low, high), notes)


def _check_unused(case: _Case, statement: str, **options: object) -> None:
    """Raise an error for an option that the statement does not use."""
    used = {"growth": case.claim == 3, "vc_dim": statement in _UNPROVED, "covering": statement == "entropy"}
    for name, value in options.items():
        if value is not None and not used[name]:
            raise ValueError(f"{name}={value} is not used by claim {case.claim} of {statement!r}: leave it out")


def _out_of_range_note(requested: float, low: float, high: float) -> str:
    note = f"delta is out of range: {range_text(low, high)}"
    if low > high:
        return note
    return note + ("; clamp=True gives a higher confidence" if requested > high else "; use a larger delta")
