"""Every erratum of docs/certificates.md, with the number that shows it; the page must print that number."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import outvote as ov
from outvote import paper
from outvote.blocks.plan import majority
from outvote.certificate import radius
from outvote.votes import log_binomial_tail, p_star, threshold

PAGE = (Path(__file__).parents[2] / "docs" / "certificates.md").read_text(encoding="utf-8")


def vacuous_theorem():
    """Theorem mou_min where its range allows the largest δ: the excess risk bound, in units of M."""
    loosest = paper.bound("mou-minimizer", n=1000, n_outliers=50, log_delta=-1e-9, vc_dim=3, clamp=True)
    assert loosest.provenance == "as stated"
    return f"{loosest.radius:.0f} M"


def average_over_partitions():
    """A failure of probability δ for each partition can be a failure of √δ for their average."""
    bad = np.arange(100) < 10  # one sample in ten fails, on one partition in ten
    fails = bad[:, None] & bad
    assert fails.mean() == pytest.approx(0.01)
    return f"{np.mean(fails.any(axis=1)):.1f}"


def pairs_do_not_fit():
    """⌈αn⌉ blocks of the harmonic mapping against the most that hold a pair."""
    (k,) = paper.block_count(1000, 200, mapping="harmonic")
    assert k > 1000 // 2
    return f"{k} > 500"


def range_of_delta():
    """The largest δ of claim 1."""
    certificate = paper.bound("mom", claim=1, n=1000, n_outliers=50, delta=0.05)
    assert not certificate.in_range
    assert certificate.radius == math.inf
    return f"{math.exp(certificate.log_delta_range[1]):.1e}"


def out_of_range_blocks():
    """The formula for K at δ = .1, n = 1e4, ε = 5 %."""
    k = math.ceil(paper.constants(0.05).beta * math.log(10))
    return f"{k} blocks against 500"


def broken_step():
    """2^(1/x) ≤ 1/x² at x = 0.2."""
    return f"{2 ** (1 / 0.2):.0f} > {1 / 0.2**2:.0f}"


def adaptive_adversary():
    """Failure probability of the 5 % oblivious radius when the adversary sees the rows."""
    p = p_star(math.log(0.05), *threshold(41, 10))
    return f"{math.exp(float(log_binomial_tail(p, *threshold(41, 10, 'adaptive')))):.2f}"


def grid_range():
    """Blocks of X at the printed smallest δ, e^{-nβ}: more than there are rows."""
    eps = Fraction(1, 100) + Fraction(1, 100) - Fraction(1, 10_000)
    a = float(paper.alpha("harmonic", eps))
    eta, eta_x = 1 - float(eps) / a, 1 - 0.01 / math.sqrt(a)
    beta = 18 * eta**2 / (eta_x * (2 * eta - 1) ** 2)
    k = math.ceil(beta * (1000 * beta))
    assert k > 1000
    return f"{k} blocks of 1000 rows"


def sharp_grid():
    """Certified radius of Mann-Whitney on the grid at δ = .05, where the paper's range ends far below."""
    stated = paper.bound("mou2", n=(1000, 1000), n_outliers=(10, 10), delta=0.05)
    assert not stated.in_range
    plan = ov.plan_blocks((1000, 1000), (10, 10), assume=ov.Bounded(0, 1), degree=(1, 1))
    r = radius(
        n_blocks=plan.n_blocks,
        n_corrupt=(10, 10),
        block_size=plan.block_size,
        confidence=0.95,
        assume=ov.Bounded(0, 1),
        degrees=(1, 1),
    )
    return f"{r:.2f}"


def limits_at_zero():
    """β at ε = 0, where the formula is 0/0."""
    return ", ".join(f"{paper.constants(0.0, m).beta:.0f}" for m in ("geometric", "harmonic", "polynomial"))


def float_trap():
    """One case where the float formula is one block off."""
    wrong = [
        (n, bad)
        for n in range(1, 120)
        for bad in range(1, (n + 1) // 2)
        if math.ceil(float(paper.alpha("harmonic", bad / n)) * n) != -(-4 * bad * n // (n + 2 * bad))
    ]
    n, bad = wrong[0]
    exact, drifted = -(-4 * bad * n // (n + 2 * bad)), math.ceil(float(paper.alpha("harmonic", bad / n)) * n)
    assert exact == paper.block_count(n, bad)[0]
    return f"n = {n}, n_O = {bad}: {drifted} for {exact}"


def sums_or_means():
    """Summed over pairs, a block of three rows at risk 1 outranks one of two rows at risk 2."""
    return f"{math.comb(3, 2) * 1} > {math.comb(2, 2) * 2}"


def derivative():
    """∂γ²/∂α at ε = .1, α = .3: printed, and true."""
    eps, a = 0.1, 0.3
    printed = -4 * eps * (a - eps) ** 2 / (a - 2 * eps) ** 4
    ours = -2 * eps * (2 * a - eps) * (a - eps) / (a - 2 * eps) ** 4

    def gamma2(x):
        return x * (x - eps) ** 2 / (x - 2 * eps) ** 3

    numeric = (gamma2(a + 1e-6) - gamma2(a - 1e-6)) / 2e-6
    assert ours == pytest.approx(numeric, rel=1e-6)
    return f"{printed:.0f}, true {ours:.0f}"


def multisample_limit():
    """Three samples with 20 % each: ‖ε‖₁ is beyond 1/2, the full grid still has a clean majority."""
    assert majority((100, 100, 100), (20, 20, 20), "full")
    assert not majority((100, 100, 100), (20, 20, 20), "diagonal")
    return f"{0.8**3:.3f} > 1/2"


def no_gradient():
    """The slope of 1{g_w(x, x')(y - y') ≤ 0} in w, almost everywhere."""
    x, y = np.array([1.0, 2.0]), np.array([0.0, 1.0])

    def loss(w):
        sign = 2 * (w * x[1] >= w * x[0]) - 1
        return float(sign * (y[1] - y[0]) <= 0)

    return f"{(loss(0.3 + 1e-6) - loss(0.3 - 1e-6)) / 2e-6:.0f}"


def not_centred():
    """E exp(λZ) for Z ~ N(1, 1) at λ = .1 against exp(λ²/2)."""
    return f"{math.exp(0.105):.3f} > {math.exp(0.005):.3f}"


def sorted_blocks():
    """Contiguous blocks of sorted exponential rows, K = 3: an estimate of a mean of 1."""
    x = np.sort(np.random.default_rng(0).exponential(size=300_000))
    kept = ov.mean(x, contamination=0, n_blocks=3, partition="contiguous").estimate
    assert ov.mean(x, contamination=0, n_blocks=3, rng=0).estimate == pytest.approx(1.0, abs=0.02)
    return f"{kept:.2f}"


ERRATA: list[Callable[[], str]] = [
    vacuous_theorem,
    average_over_partitions,
    pairs_do_not_fit,
    range_of_delta,
    out_of_range_blocks,
    broken_step,
    adaptive_adversary,
    grid_range,
    sharp_grid,
    limits_at_zero,
    float_trap,
    sums_or_means,
    derivative,
    multisample_limit,
    no_gradient,
    not_centred,
    sorted_blocks,
]


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda f: f.__name__)
def test_page_prints_the_number(erratum):
    row = next(line for line in PAGE.splitlines() if line.endswith(f"`{erratum.__name__}` |"))
    assert f"| {erratum()} |" in row
