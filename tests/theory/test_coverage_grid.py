"""Coverage of the median over a complete grid of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from chance import assert_covers
from scipy import stats
from simulate import LAWS, generator, runs, two_point

from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.certificate import expected_error, mean_squared_error, radius
from outvote.votes import best_n_blocks, grid_p_star, grid_threshold

DELTA = 0.1
ADVERSARIES = ("oblivious", "adaptive")
PRODUCT = FiniteVariance(np.sqrt(3.0), zetas={(1, 0): 1.0, (0, 1): 1.0, (1, 1): 3.0})


def worst_grid_errors(cells: np.ndarray, bad: tuple[int, ...], adversary: str, truth: float) -> np.ndarray:
    """Largest error when `bad` slices along each axis of the grid go to ±∞.

    Oblivious: the last slices. Adaptive: those with most cells on the other side.
    """
    errors = []
    for sign in (1.0, -1.0):
        values = sign * (cells - truth)
        spoiled = np.zeros(values.shape, dtype=bool)
        for axis, count in enumerate(bad, start=1):
            others = tuple(a for a in range(1, values.ndim) if a != axis)
            helping = (values <= np.median(values, axis=tuple(range(1, values.ndim)), keepdims=True)).sum(axis=others)
            rank = np.argsort(np.argsort(-helping, axis=1, kind="stable"), axis=1, kind="stable")
            if adversary == "oblivious":
                rank = np.broadcast_to(np.arange(values.shape[axis])[::-1], rank.shape)
            shape = [len(values), *[values.shape[a] if a == axis else 1 for a in range(1, values.ndim)]]
            spoiled |= (rank < count).reshape(shape)
        errors.append(np.median(np.where(spoiled, np.inf, values).reshape(len(values), -1), axis=1))
    return np.maximum(*errors)


def check(cells, ks, sizes, bad, adversary, assume, truth):
    t = radius(n_blocks=ks, n_corrupt=bad, block_size=sizes, delta=DELTA, assume=assume, adversary=adversary)
    assert_covers(worst_grid_errors(cells, bad, adversary, truth) > t, DELTA)


def block_means(law, label, n_runs, ks, sizes):
    rng = generator(law, label)
    return [LAWS[law](rng, (n_runs, k, size)).mean(axis=2) for k, size in zip(ks, sizes, strict=True)]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["gaussian", "student-2.5", "bernoulli"])
def test_radius_covers_a_product_kernel(law, adversary):
    """Kernel (1+x)(1+y): a cell is the product of two block means; truth 1."""
    n_rows, bad, how = (300, 400), (6, 5), {"assume": PRODUCT, "adversary": adversary}
    ks = best_n_blocks(n_rows, bad, degrees=(1, 1), layout="full", log_delta=np.log(DELTA), **how)
    sizes = tuple(n // k for n, k in zip(n_rows, ks, strict=True))
    x, y = block_means(law, adversary, runs(60), ks, sizes)
    check((1 + x)[:, :, None] * (1 + y)[:, None, :], ks, sizes, bad, adversary, PRODUCT, 1.0)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_radius_covers_mann_whitney(adversary):
    """P(X < Y) for two samples of the same law: 1/2."""
    ks, sizes, bad, rng = (15, 21), (12, 9), (1, 2), generator("wins", adversary)
    x, y = (rng.standard_normal((runs(100), k * size)) for k, size in zip(ks, sizes, strict=True))
    below = (x[:, :, None] < y[:, None, :]).reshape(len(x), ks[0], sizes[0], ks[1], sizes[1])
    check(below.mean(axis=(2, 4)), ks, sizes, bad, adversary, Bounded(0, 1), 0.5)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_radius_covers_three_samples(adversary):
    """A sum of three means over a grid of three samples, whose cells share blocks."""
    ks, sizes, bad = (9, 11, 7), (20, 10, 30), (1, 1, 0)
    x, y, z = block_means("student-2.5", adversary, runs(200), ks, sizes)
    cells = x[:, :, None, None] + y[:, None, :, None] + z[:, None, None, :]
    check(cells, ks, sizes, bad, adversary, FiniteVariance(np.sqrt(3.0)), 0.0)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("ks", "bad"), [((9, 9), (1, 1)), ((21, 61), (3, 4)), ((15, 1), (2, 0))])
def test_radius_covers_a_kernel_of_one_sample(ks, bad, adversary):
    """A kernel that looks at the smaller sample only, with its atom at the radius: no averaging helps."""
    unit = FiniteVariance(1.0)
    t = radius(n_blocks=ks, n_corrupt=bad, block_size=(1, 1), delta=DELTA, assume=unit, adversary=adversary)
    x = two_point(t**2)(generator(ks, adversary), (runs(600), ks[0]))
    check(np.broadcast_to(x[:, :, None], (len(x), *ks)), ks, (1, 1), bad, adversary, unit, 0.0)


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-12])
@pytest.mark.parametrize(("ks", "bad"), [((9, 9), (1, 1)), ((21, 61), (3, 4)), ((201, 401), (20, 30))])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_failure_probability_of_one_sample_is_exact(ks, bad, adversary, delta):
    """If only one sample matters the clean fraction is Bin(N, p)/N: P(Bin >= fN) must stay below δ."""
    n, f = (float(a) for a in grid_threshold(ks, bad, adversary))
    p = float(grid_p_star(np.log(delta), n, f))
    failure = stats.binom.sf(np.ceil(f * n * (1 - 1e-12)) - 1, int(n), p)
    assert delta / 30 < failure <= delta


@pytest.mark.parametrize(
    "assume", [SubGaussian(1.0), Bounded(-8, 8, variance=1.0), FiniteKurtosis(3.0, sd=1.0)], ids=repr
)
def test_radius_of_sharper_tails_covers_a_difference(assume):
    """The difference kernel x - y, a sum over a grid, with total variance 1."""
    ks, sizes = (21, 21), (10, 10)
    x, y = block_means("gaussian", repr(assume), runs(300), ks, sizes)
    check((x[:, :, None] - y[:, None, :]) / np.sqrt(2), ks, sizes, (2, 2), "oblivious", assume, 0.0)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_expected_errors_are_bounded(adversary):
    ks, bad = (21, 31), (2, 3)
    common = {"n_blocks": ks, "n_corrupt": bad, "block_size": (1, 1), "assume": PRODUCT, "adversary": adversary}
    for law in ("gaussian", "pareto", "two-point"):
        x, y = block_means(law, adversary, runs(300), ks, (1, 1))
        errors = worst_grid_errors((1 + x)[:, :, None] * (1 + y)[:, None, :], bad, adversary, 1.0)
        noise = 3 / np.sqrt(len(errors))
        assert errors.mean() <= expected_error(**common) + noise * errors.std()
        assert (errors**2).mean() <= mean_squared_error(**common) + noise * (errors**2).std()
