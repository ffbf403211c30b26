"""Coverage of the median over a complete grid of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from simulate import LAWS, assert_covers, generator, runs, two_point

from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.certificate import expected_error, mean_squared_error, radius
from outvote.votes import best_n_blocks, grid_p_star, grid_threshold

DELTAS = (0.1, 0.01)
ADVERSARIES = ("oblivious", "adaptive")


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


PRODUCT = FiniteVariance(np.sqrt(3.0), zetas={(1, 0): 1.0, (0, 1): 1.0, (1, 1): 3.0})


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", LAWS)
def test_radius_covers_a_product_kernel(law, adversary, delta):
    """Kernel (1+x)(1+y): a cell is the product of two block means; truth 1."""
    n_rows, bad = (300, 400), (6, 5)
    ks = best_n_blocks(
        n_rows, bad, degrees=(1, 1), layout="full", log_delta=np.log(delta), assume=PRODUCT, adversary=adversary
    )
    sizes = tuple(n // k for n, k in zip(n_rows, ks, strict=True))
    rng = generator(law, adversary, delta)
    x, y = (LAWS[law](rng, (runs(100), k, size)).mean(axis=2) for k, size in zip(ks, sizes, strict=True))
    cells = (1 + x)[:, :, None] * (1 + y)[:, None, :]
    t = radius(n_blocks=ks, n_corrupt=bad, block_size=sizes, delta=delta, assume=PRODUCT, adversary=adversary)
    assert_covers(worst_grid_errors(cells, bad, adversary, 1.0), t, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["gaussian", "student-2.5", "pareto"])
def test_radius_covers_mann_whitney(law, adversary, delta):
    """P(X < Y) for two samples of the same law: 1/2."""
    rng = generator(law, adversary, delta)
    ks, sizes, bad = (15, 21), (12, 9), (1, 2)
    x, y = (LAWS[law](rng, (runs(150), k * size)) for k, size in zip(ks, sizes, strict=True))
    below = (x[:, :, None] < y[:, None, :]).reshape(len(x), ks[0], sizes[0], ks[1], sizes[1])
    t = radius(n_blocks=ks, n_corrupt=bad, block_size=sizes, delta=delta, assume=Bounded(0, 1), adversary=adversary)
    assert_covers(worst_grid_errors(below.mean(axis=(2, 4)), bad, adversary, 0.5), t, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_radius_covers_three_samples(adversary, delta):
    """A sum of three means over a grid of three samples, whose cells share blocks."""
    rng = generator(adversary, delta)
    ks, sizes, bad = (9, 11, 7), (20, 10, 30), (1, 1, 0)
    means = [LAWS["student-2.5"](rng, (runs(300), k, b)).mean(axis=2) for k, b in zip(ks, sizes, strict=True)]
    cells = means[0][:, :, None, None] + means[1][:, None, :, None] + means[2][:, None, None, :]
    t = radius(
        n_blocks=ks,
        n_corrupt=bad,
        block_size=sizes,
        delta=delta,
        assume=FiniteVariance(np.sqrt(3.0)),
        adversary=adversary,
    )
    assert_covers(worst_grid_errors(cells, bad, adversary, 0.0), t, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("ks", "bad"), [((9, 9), (1, 1)), ((21, 61), (3, 4)), ((15, 1), (2, 0))])
def test_radius_covers_a_kernel_of_one_sample(ks, bad, adversary, delta):
    """A kernel that looks at the smaller sample only, with its atom at the radius: no averaging helps."""
    t = radius(
        n_blocks=ks,
        n_corrupt=bad,
        block_size=(1, 1),
        delta=delta,
        assume=FiniteVariance(1.0),
        adversary=adversary,
    )
    x = two_point(t**2)(generator(ks, adversary, delta), (runs(1000), ks[0]))
    cells = np.broadcast_to(x[:, :, None], (len(x), *ks))
    assert_covers(worst_grid_errors(cells, bad, adversary, 0.0), t, delta)


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-8, 1e-12])
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
@pytest.mark.parametrize("delta", DELTAS)
def test_radius_of_sharper_tails_covers_a_difference(assume, delta):
    """The difference kernel x - y, a sum over a grid, with total variance 1."""
    rng = generator(repr(assume), delta)
    ks, size, bad = (21, 21), 10, (2, 2)
    x, y = (rng.standard_normal((runs(500), k, size)).mean(axis=2) for k in ks)
    cells = (x[:, :, None] - y[:, None, :]) / np.sqrt(2)
    t = radius(n_blocks=ks, n_corrupt=bad, block_size=(size, size), delta=delta, assume=assume)
    assert_covers(worst_grid_errors(cells, bad, "oblivious", 0.0), t, delta)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["gaussian", "pareto", "two-point"])
def test_expected_errors_are_bounded(law, adversary):
    ks, bad = (21, 31), (2, 3)
    x, y = (LAWS[law](generator(law, adversary, k), (runs(500), k)) for k in ks)
    cells = (1 + x)[:, :, None] * (1 + y)[:, None, :]
    errors = worst_grid_errors(cells, bad, adversary, 1.0)
    common = {"n_blocks": ks, "n_corrupt": bad, "block_size": (1, 1), "assume": PRODUCT, "adversary": adversary}
    noise = 3 / np.sqrt(len(errors))
    assert errors.mean() <= expected_error(**common) + noise * errors.std()
    assert (errors**2).mean() <= mean_squared_error(**common) + noise * (errors**2).std()
