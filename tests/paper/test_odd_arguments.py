"""Odd arguments of the paper's closed forms: each is refused in words that name it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from outvote import paper

HUGE = 10**400
ROWS = {"n": 1000, "n_outliers": 50, "delta": 1e-20}


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
def test_bounds(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        paper.bound(**{"statement": "mom", **ROWS, **given})


def test_a_growth_that_allows_any_number_bounds_nothing():
    assert paper.bound("mom", 3, n=1000, n_outliers=5, growth=(1e300, 0.5)).radius == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: paper.block_count(HUGE, 5), r"n must be at most 2\*\*53"),
        (lambda: paper.block_count(100, 5, claim="a"), "claim='a' must be 1 or 2"),
        (lambda: paper.block_count(100, 5, claim=np.array([1, 2])), "claim=.* must be 1 or 2"),
        (lambda: paper.block_count(100, 5, claim=1, log_delta="a"), "log_delta='a' must be a number"),
        (lambda: paper.block_count(100, 5, claim=1, log_delta=-HUGE), "log_delta is too large"),
        (lambda: paper.block_count(100, 5, layout=np.array(["full", "x"])), "layout=.* must be one of"),
        (lambda: paper.max_outliers(HUGE), r"n must be at most 2\*\*53"),
        (lambda: paper.max_outliers(100, mapping="x"), "mapping='x' must be one of"),
        (lambda: paper.range_size(0.1, -1), "n=-1 must be at least 1"),
        (lambda: paper.range_size(0.1, "a"), "n='a' must be an integer"),
        (lambda: paper.range_size(0.1, HUGE), r"n must be at most 2\*\*53"),
        (lambda: paper.range_size("0.1", 100), "epsilon='0.1' must be a number"),
        (lambda: paper.constants([0.1, "0.2"]), "epsilon='0.2' must be a number"),
        (lambda: paper.constants(None), "epsilon=None must be a number"),
        (lambda: paper.alpha("harmonic", [[0.1], [0.1, 0.2]]), "epsilon=.* must be a number"),
        (lambda: paper.alpha("harmonic", HUGE), "epsilon is too large"),
        (lambda: paper.sigma2((10**9,), [1]), "zetas has 1 variances, but .* need 1000000000"),
        (lambda: paper.sigma2((1,) * 40, {}), "zetas has 0 variances"),
        (lambda: paper.sigma2(200, [1.0] * 200), "too large for a float"),
        (lambda: paper.sigma2(2, [1, HUGE]), r"zetas\[\(2,\)\] is too large"),
        (lambda: paper.sigma2(2, "ab"), "zetas='ab' must be a sequence of variances"),
        (lambda: paper.sigma2(2, None), "zetas=None must be a sequence of variances"),
        (lambda: paper.sigma2(2, [1, "b"]), r"zetas\[\(2,\)\]='b' must be a variance"),
        (lambda: paper.u_variance(10**9, 10**8, (0.5, 2.0)), "zetas has 2 variances"),
    ],
)
def test_closed_forms(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_numbers_of_any_kind_are_taken():
    expected = paper.constants(0.25)
    assert paper.constants(np.float32(0.25)) == paper.constants(Fraction(1, 4)) == expected
    assert paper.constants(np.array([0.25])).beta.tolist() == [expected.beta]
    assert paper.alpha(lambda e: np.array(0.6), 0.25) == 0.6
