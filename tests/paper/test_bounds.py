"""The paper's bounds: their formulas, ranges and validity."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from outvote import paper
from outvote.paper import block_count, bound, constants
from outvote.paper.mappings import range_text

NAMES = tuple(paper.MAPPINGS)

# --- bounds: formulas ---


def test_formulas_of_claim_1():
    c = constants(0.05)
    x = -60.0
    one = bound("mom", claim=1, n=1000, n_outliers=50, log_delta=x, scale=3.0)
    assert one.radius == pytest.approx(4 * math.sqrt(math.e) * 3 * c.gamma * math.sqrt(61 / 1000))
    assert one.n_blocks == math.ceil(c.beta * 60)
    assert one.log_delta == one.requested_log_delta == x
    assert one.log_delta_range == pytest.approx((-1000 / c.beta, -1000 * c.alpha / c.beta))
    assert (one.provenance, one.note, one.adversary) == ("certified", "", "oblivious")
    assert one.assumption == "finite variance, sd=3"
    assert one.statement == "Prop. mom, claim 1, harmonic mapping"
    assert one.in_range

    two = bound("mou", 1, n=1000, n_outliers=50, log_delta=x, scale=3.0, degree=2)
    assert (two.radius, two.n_blocks) == (one.radius, one.n_blocks)
    assert two.log_delta_range == pytest.approx((-500 / c.beta, -1000 * c.alpha / c.beta))
    assert two.assumption == "finite variance, Sigma=3"

    diagonal = bound("mou2-diagonal", n=(1000, 1200), n_outliers=(20, 30), log_delta=x, scale=3.0)
    assert diagonal.radius == pytest.approx(one.radius)
    assert diagonal.n_blocks == (one.n_blocks,) * 2
    multi = bound("mou-multi", 1, n=(1000, 1200), n_outliers=(20, 30), log_delta=x, scale=3.0, degree=(1, 2))
    assert multi.radius == pytest.approx(one.radius)

    remark = bound("hoeffding", n=10_000, n_outliers=5, log_delta=-9.0, scale=3.0)
    assert remark.radius == pytest.approx(3 * math.sqrt(6) * 3 * constants(5e-4).gamma * math.sqrt(10 / 10_000))
    assert remark.provenance == "certified"

    standard = bound("standard", n=100, n_outliers=0, confidence=0.9)
    assert standard.radius == pytest.approx(2 * math.sqrt(2) * math.e * math.sqrt((1 + math.log(10)) / 100))
    assert (standard.n_blocks, standard.statement) == (3, "Prop. standard_mom")
    assert bound("standard", n=100, n_outliers=0, log_delta=-49.5).provenance == "none"


def test_formula_on_the_grid():
    c = bound("mou2", n=(1000, 900), n_outliers=(10, 5), delta=0.001, scale=2.0)
    e = 0.01 + 5 / 900 - 0.01 * 5 / 900
    assert c.radius == pytest.approx(12 * math.sqrt(3) * 2 * constants(e).gamma * math.sqrt((1 + math.log(2000)) / 900))
    assert c.n_blocks == block_count((1000, 900), (10, 5), claim=1, log_delta=math.log(0.001), layout="full")
    clean = bound("mou2", n=(1000, 900, 800), n_outliers=(0, 0, 0), delta=0.001, mapping="geometric")
    assert clean.provenance == "certified"
    assert clean.log_delta_range[1] == 0
    unequal = bound("mou2", n=(1000, 50), n_outliers=(10, 2), delta=0.001, clamp=True)
    assert (unequal.radius, unequal.provenance) == (math.inf, "none")
    assert unequal.note == "delta is out of range: the bound covers no delta here"
    assert not unequal.in_range


def test_formulas_of_claim_2():
    n, x = 10**4, -5000.0
    c = constants(0.01)
    kw = {"n": n, "n_outliers": 100, "log_delta": x, "scale": 2.0}
    mom = bound("mom", 2, **kw)
    assert mom.radius == pytest.approx(4 * 2 * c.Gamma * math.sqrt(-x / n))
    assert (mom.n_blocks, mom.provenance, mom.assumption) == (393, "certified", "sub-Gaussian, scale=2")
    assert mom.log_delta_range == pytest.approx((-math.inf, -4 * n * c.alpha))
    mou = bound("mou", 2, degree=3, **kw)
    assert mou.radius == pytest.approx(math.sqrt(3) * mom.radius)
    assert mou.assumption == "bounded kernel, |h| <= 2"
    assert mou.note == "the radius is no better than the trivial bound 4"
    pair = {"n": (n, n), "n_outliers": (60, 40), "log_delta": x, "scale": 2.0}
    assert bound("mou2-diagonal", 2, **pair).radius == pytest.approx(2 * mom.radius)
    assert bound("mou-multi", 2, degree=(1, 1), **pair).radius == pytest.approx(mom.radius)
    assert bound("mou-multi", 2, degree=(1, 3), **pair).radius == pytest.approx(mou.radius)


def test_formulas_of_claim_3():
    n = 10**4
    c = constants(0.01)
    kw = {"n": n, "n_outliers": 100, "scale": 2.0}
    stated = 2 * 2 * c.Gamma * (4 * c.Delta / n**0.25 + math.sqrt(math.pi / n))
    mom = bound("mom", 3, growth=(1, 0.5), **kw)
    assert mom.radius == pytest.approx(stated)
    assert bound("mom", 3, **kw).radius == pytest.approx(stated)  # here n_O is exactly n^(1/2)
    assert bound("mom", 3, growth=(2, 0.5), **kw).radius > stated
    assert bound("mou", 3, growth=(1, 0.5), degree=2, **kw).radius == pytest.approx(math.sqrt(2) * stated)
    assert (mom.confidence, mom.log_delta_range, mom.provenance) == (0.0, None, "certified")
    assert mom.note == "the radius bounds the expected error"
    both = constants(0.02)
    diagonal = bound("mou2-diagonal", 3, n=(n, n), n_outliers=(100, 100), growth=(1, 0.5))
    assert diagonal.radius == pytest.approx(
        4 * both.Gamma * (4 * math.sqrt(2) * both.Delta / n**0.25 + math.sqrt(math.pi / n))
    )
    for growth in (None, (1, 0.5)):
        clean = bound("mom", 3, n=n, n_outliers=0, growth=growth, mapping="geometric")
        assert clean.radius == pytest.approx(2 * (2 + math.sqrt(math.pi)) / math.sqrt(n))


def test_formulas_for_learning():
    n, x = 10**6, -700.0
    kw = {"n": n, "n_outliers": 10, "log_delta": x, "scale": 2.0}
    g = constants(1e-5).Gamma
    for name in ("mou-minimizer", "mou-descent"):
        c = bound(name, vc_dim=3, **kw)
        assert c.radius == pytest.approx(8 * math.sqrt(2) * 2 * g * math.sqrt((3 * (1 + math.log(n)) - x) / n))
        assert c.provenance == "as stated"
        assert c.note
        assert c.assumption == "losses in [0, 2]"
    assert bound("mou-minimizer", vc_dim=3, **(kw | {"n": 10**3})).note.endswith("no better than the trivial bound 2")
    c = bound("entropy", covering=(5.0, 3), **kw)
    assert c.radius == pytest.approx(
        2e-3 + 4 * math.sqrt(2) * 2 * g * math.sqrt((1.5 * math.log(n) + math.log(5) - x) / n)
    )
    assert c.provenance == "certified"
    assert bound("mou-minimizer", vc_dim=3, n=1000, n_outliers=50, delta=0.05).provenance == "none"


def test_bounds_without_outliers():
    for name in NAMES[1:]:
        light = bound("mom", 2, n=1000, n_outliers=0, delta=0.01, mapping=name)
        assert (light.n_blocks, light.provenance) == (1, "certified")
        assert light.log_delta_range == (-math.inf, -1)
        assert bound("mom", 2, n=1000, n_outliers=0, delta=0.5, mapping=name).provenance == "none"
        heavy = bound("mom", 1, n=1000, n_outliers=0, delta=0.5, mapping=name)
        assert heavy.provenance == "certified"
        assert heavy.log_delta_range[1] == 0
    arithmetic = bound("mom", 2, n=1000, n_outliers=0, delta=0.01, mapping="arithmetic")
    assert (arithmetic.n_blocks, arithmetic.radius) == (500, math.inf)
    own = bound("mom", 2, n=100, n_outliers=0, delta=0.3, mapping=lambda e: 2.5 * e + 0.001 * (1 - 2 * e))
    assert (own.n_blocks, own.log_delta_range[1], own.statement) == (1, -1, "Prop. mom, claim 2, own mapping")


# --- bounds: ranges, clamping, degrees ---


def test_delta_out_of_range_gives_no_radius_unless_clamped():
    kw = {"n": 1000, "n_outliers": 50}
    no = bound("mom", 1, confidence=0.95, **kw)
    assert (no.radius, no.provenance, no.n_blocks, no.in_range) == (math.inf, "none", None, False)
    assert "1.7e-18" in no.note
    assert "clamp=True" in no.note
    yes = bound("mom", 1, confidence=0.95, clamp=True, **kw)
    assert yes.provenance == "certified"
    assert yes.log_delta == yes.log_delta_range[1] < yes.requested_log_delta
    assert yes.requested_log_delta == pytest.approx(math.log(0.05))
    assert yes.n_blocks == 182
    assert yes.note.startswith("the confidence is higher than requested")
    assert yes.radius == bound("mom", 1, log_delta=yes.log_delta, **kw).radius
    for clamp in (False, True):
        low = bound("mom", 1, log_delta=-226.0, clamp=clamp, **kw)
        assert (low.radius, low.provenance) == (math.inf, "none")
        assert low.note.endswith("use a larger delta")
    light = bound("mom", 2, delta=0.05, **kw)
    assert (light.n_blocks, light.provenance) == (182, "none")
    assert "]0, 1.4e-316]" in light.note
    assert bound("mom", 2, delta=0.05, clamp=True, **kw).log_delta == -4 * 1000 * constants(0.05).alpha


def test_limits_in_the_note_are_valid_deltas():
    note = bound("mom", 1, n=200, n_outliers=3, delta=0.9).note
    for text in note.split("[")[1].split("]")[0].split(", "):
        assert bound("mom", 1, n=200, n_outliers=3, delta=float(text)).provenance == "certified"
    assert "[1.4e-1, 1]" in bound("standard", n=6, n_outliers=0, delta=0.01).note
    assert range_text(math.log(9.96e-7), math.log(9.96e-3)) == "the bound covers delta in [1.0e-6, 9.9e-3]"


def test_limits_with_rounding_errors_are_accepted():
    c = constants(0.05)
    high, low = -1000 * c.alpha / c.beta, -1000 / c.beta
    for x in (high * (1 - 1e-15), low * (1 + 1e-15)):
        got = bound("mom", 1, n=1000, n_outliers=50, log_delta=x)
        assert got.provenance == "certified"
        assert got.log_delta_range[0] <= got.log_delta <= got.log_delta_range[1]


def test_blocks_too_small_for_the_degree_give_no_radius():
    for claim in (1, 2):
        c = bound("mou", claim, n=600, n_outliers=150, degree=2, delta=1e-300, clamp=True)
        assert (c.radius, c.provenance, c.n_blocks) == (math.inf, "none", 400)
        assert c.note.endswith("harmonic mapping allows at most 100 corrupt rows")
        assert not c.in_range
    arithmetic = bound("mou", 3, n=601, n_outliers=0, degree=2, mapping="arithmetic")
    assert arithmetic.provenance == "none"
    assert "blocks too small" in arithmetic.note
    grid = bound("mou2", n=(100, 100), n_outliers=(5, 5), degree=(2, 2), delta=0.1)
    assert "given" not in grid.note
    assert grid.note.endswith("at most 3 corrupt rows in each sample")
    own = bound("mou", 2, n=600, n_outliers=150, degree=2, delta=0.1, mapping=lambda e: e + Fraction(1, 2))
    assert "the given mapping allows at most 0 corrupt rows" in own.note
    tight = bound("mou", 2, n=600, n_outliers=100, degree=2, log_delta=-2000.0)
    assert tight.provenance == "certified"
    assert "only as many rows as the kernel takes" in tight.note
    edge = bound("mou", 1, n=1001, n_outliers=20, degree=3, log_delta=-333 / constants(20 / 1001).beta)
    assert edge.n_blocks == 333


def test_bounds_of_a_billion_rows_and_tiny_delta():
    for x in (1e-300, 0.05):
        c = bound("mom", 1, n=10**9, n_outliers=10**7, delta=x, clamp=True)
        assert math.isfinite(c.radius)
        assert c.radius == pytest.approx(1.405, abs=1e-2)
        assert c.log_delta == pytest.approx(-(10**9) * constants(0.01).alpha / constants(0.01).beta)
    c = bound("mom", 2, n=10**9, n_outliers=1, delta=1e-300)
    assert c.radius == pytest.approx(4 * constants(1e-9).Gamma * math.sqrt(300 * math.log(10) / 1e9))
    assert bound("mom", 1, n=10**9, n_outliers=10, log_delta=-1e8).radius == pytest.approx(
        4 * math.sqrt(math.e) * constants(1e-8).gamma * math.sqrt(0.1), rel=1e-6
    )


@pytest.mark.parametrize(
    ("kw", "words"),
    [
        ({"statement": "mum"}, "statement='mum' must be one of"),
        ({"claim": 4}, "'mom' has claim 1 or 2 or 3"),
        ({"n": (10, 10), "n_outliers": (1, 1)}, r"2 sample\(s\), but 'mom' needs 1"),
        ({"statement": "mou2"}, "needs 2 or more"),
        ({"statement": "standard"}, "'standard' allows no outliers"),
        ({"scale": -1.0}, "scale=-1.0"),
        ({"scale": math.inf}, "scale=inf"),
        ({"degree": 2}, "'mom' holds for degree 1; use 'mou'"),
        ({"degree": (1, 1)}, "2 entries for 1 samples"),
        ({"statement": "mou"}, "'mou' needs degree"),
        ({"growth": (1, 0.5)}, "growth=.* is not used by claim 1 of 'mom'"),
        ({"vc_dim": 3}, "vc_dim=3 is not used by"),
        ({"covering": (1, 2)}, "covering=.* is not used by"),
        ({"claim": 3}, "leave out delta"),
        ({"claim": 3, "delta": None, "growth": (0.5, 0.5)}, "needs C_O >= 1"),
        ({"claim": 3, "delta": None, "growth": (1, 0.25)}, "use a C_O of at least 3.97827685"),
        ({"statement": "mou-minimizer"}, "needs the VC dimension"),
        ({"statement": "entropy"}, r"needs \(C_G, r\)"),
        ({"statement": "entropy", "covering": (1e-9, 1)}, "use a C_G of at least 0.0316"),
        ({"confidence": 0.9}, "exactly one of"),
        ({"delta": None}, "exactly one of .* not none"),
        ({"delta": 0}, "delta=0 must lie strictly between 0 and 1; below 1e-308 use log_delta"),
        ({"delta": None, "confidence": 1.5}, "confidence=1.5 must lie strictly between 0 and 1$"),
        ({"delta": None, "log_delta": 0.0}, "log_delta=0.0 must be finite and below 0"),
        ({"n_outliers": 600}, "at most 499"),
    ],
)
def test_invalid_arguments_raise(kw, words):
    args = {"statement": "mom", "n": 1000, "n_outliers": 89, "delta": 0.1} | kw
    if args["statement"] in ("mou-minimizer", "entropy"):
        args["n_outliers"] = 5
    with pytest.raises(ValueError, match=words):
        bound(**args)


HUGE = 10**400


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n": HUGE}, r"n must be at most 2\*\*53"),
        ({"n_outliers": HUGE}, r"n_outliers must be at most 2\*\*53"),
        ({"n": True}, "n=True must be whole numbers"),
        ({"scale": HUGE}, "scale is too large"),
        ({"scale": "a"}, "scale='a' must be a number"),
        ({"scale": None}, "scale=None must be a number"),
        ({"delta": "a"}, "delta='a' must be a number"),
        ({"delta": None, "log_delta": -HUGE}, "log_delta is too large"),
        ({"delta": None, "log_delta": "a"}, "log_delta='a' must be a number"),
        ({"delta": None, "confidence": "a"}, "confidence='a' must be a number"),
        ({"statement": ["mom"]}, r"statement=\['mom'\] must be one of"),
        ({"claim": np.array([1, 2])}, r"claim=array\(\[1, 2\]\): 'mom' has claim 1 or 2 or 3"),
        ({"claim": True}, "claim=True: 'mom' has claim 1 or 2 or 3"),
        ({"mapping": lambda e: None}, r"mapping: alpha\(0.05\)=None must be a number"),
        ({"mapping": lambda e: HUGE}, r"mapping: alpha\(0.05\) is too large"),
        ({"clamp": "a"}, "clamp='a' must be True or False"),
        ({"statement": "mou", "degree": HUGE}, r"degree must be at most 2\*\*53"),
        ({"statement": "mou-minimizer", "vc_dim": "a"}, "vc_dim='a' must be a number"),
        ({"statement": "mou-minimizer", "vc_dim": HUGE}, "vc_dim is too large"),
        ({"statement": "entropy", "covering": 5}, r"covering=5 must be two numbers, \(1, 2\)"),
        ({"statement": "entropy", "covering": (1,)}, r"covering=\(1,\) must be two numbers"),
        ({"statement": "entropy", "covering": (math.inf, 2)}, r"covering=\(inf, 2\): 'entropy' needs"),
        ({"claim": 3, "delta": None, "growth": 5}, r"growth=5 must be two numbers, \(1, 0.5\)"),
        ({"claim": 3, "delta": None, "growth": (HUGE, 0.5)}, "growth is too large"),
    ],
)
def test_odd_arguments_are_refused_in_words_that_name_them(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        bound(**{"statement": "mom", "n": 1000, "n_outliers": 50, "delta": 1e-20, **given})


def test_a_growth_that_allows_any_number_bounds_nothing():
    assert bound("mom", 3, n=1000, n_outliers=5, growth=(1e300, 0.5)).radius == math.inf


def test_suggested_growth_constant_works():
    with pytest.raises(ValueError, match="a C_O of") as info:
        bound("mom", 3, n=1000, n_outliers=89, growth=(1, 0.25))
    factor = float(str(info.value).split()[-1])
    assert bound("mom", 3, n=1000, n_outliers=89, growth=(factor, 0.25)).provenance == "certified"


# --- bounds: they hold ---


def tail(c, n, bad, p):
    """Log probability that a median of c.n_blocks blocks fails when a clean block fails with probability p."""
    k = c.n_blocks
    need = -(-k // 2) - bad
    assert need > 0
    return binom.logsf(need - 1, k - bad, min(p, 1.0))


def within(log_delta_range, shares=(0.0, 0.5, 1.0)):
    low, high = log_delta_range
    return [min(low + share * (high - low), -1e-3) for share in shares] if low <= high else []


def cases(sizes, degrees):
    every = itertools.product(sizes, (0, 1, 8, 20, 90, 300), degrees)
    return [{"n": n, "n_outliers": bad, "degree": d} for n, bad, d in every if 2 * bad < n]


@pytest.mark.parametrize("name", NAMES)
def test_claims_hold_for_exact_binomial_tails(name):
    checked = {"mou 1": 0, "hoeffding 1": 0, "mou 2": 0}
    for case in cases((2, 6, 57, 1001), (1, 2, 3)):
        n, bad, d = case.values()
        for statement in ("mou", "hoeffding")[: 2 if d == 1 else 1]:
            given = case | {"mapping": name}
            given.update(statement=statement, claim=1)
            if statement == "hoeffding":
                del given["degree"]
            for x in within(bound(**given, delta=0.1).log_delta_range):
                c = bound(**given, log_delta=x)
                assert n // c.n_blocks >= d
                assert tail(c, n, bad, 1 / ((n // c.n_blocks) * c.radius**2)) <= x
                checked[f"{statement} 1"] += 1
        start = bound("mou", 2, delta=0.1, mapping=name, **case).log_delta_range
        for x in (start[1], 1.5 * start[1], 10 * start[1]) if start[0] < 0 else ():
            c = bound("mou", 2, log_delta=x, mapping=name, **case)
            # Hoeffding on ⌊B/d⌋ disjoint tuples, not B/d.
            assert tail(c, n, bad, 2 * math.exp(-(n // c.n_blocks // d) * c.radius**2 / 2)) <= x
            checked["mou 2"] += 1
    assert min(checked.values()) > 8


@pytest.mark.parametrize("name", NAMES)
def test_standard_and_grid_bounds_hold(name):
    for n, x in itertools.product((10, 100, 1000), (-0.5, -2.0, -4.0, -40.0)):
        c = bound("standard", n=n, n_outliers=0, log_delta=x)
        if c.provenance == "certified":
            assert tail(c, n, 0, 1 / ((n // c.n_blocks) * c.radius**2)) <= x
    checked = 0
    for sizes, bad in [((1000, 900), (10, 5)), ((3000, 3000, 3000), (1, 0, 2)), ((800, 900, 1000), (0, 0, 0))]:
        p = len(sizes)
        for x in within(bound("mou2", n=sizes, n_outliers=bad, delta=0.1, mapping=name).log_delta_range):
            c = bound("mou2", n=sizes, n_outliers=bad, log_delta=x, mapping=name)
            clean = [k - b for k, b in zip(c.n_blocks, bad, strict=True)]
            blocks, sane = math.prod(c.n_blocks), math.prod(clean)
            need = (-(-blocks // 2) - (blocks - sane)) / sane
            size = min(n // k for n, k in zip(sizes, c.n_blocks, strict=True))
            slack = (need - 1 / (size * c.radius**2)) / p
            assert slack > 0
            assert math.log(sum(math.exp(-2 * k * slack**2) for k in clean)) <= x + 1e-9
            checked += 1
    assert checked >= 3
