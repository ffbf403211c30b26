"""The paper's estimation settings (a), (b), (c) at n = 1000: the mean absolute errors of 400 runs.

√n of n rows are outliers, and the harmonic mapping chooses the blocks. The figures to meet come from an
independent run of the same protocol; the tolerances are its rounding and four Monte-Carlo errors of ours.
"""

from __future__ import annotations

import numpy as np
import pytest

import outvote as ov

N_ROWS = 1000
N_OUTLIERS = round(N_ROWS**0.5)
N_RUNS = 400


def mean_absolute_errors(draw, outlier, truth, estimators):
    """Spoil a sample again and again; average the error of each estimator, and give its standard error."""
    rng = np.random.default_rng(2022)
    spoil = ov.Contamination(N_OUTLIERS)
    errors = np.empty((N_RUNS, len(estimators)))
    for run in range(N_RUNS):
        data, rows = spoil.inject(draw(rng), outlier, rng=rng)
        assert len(rows) == N_OUTLIERS
        errors[run] = [abs(estimate(data, run) - truth) for estimate in estimators]
    return errors.mean(axis=0), errors.std(axis=0) / np.sqrt(N_RUNS)


@pytest.fixture(scope="module")
def harmonic():
    return ov.plan_blocks(N_ROWS, contamination=N_OUTLIERS, method="harmonic")


@pytest.fixture(scope="module")
def median_of_means(harmonic):
    return lambda data, run: ov.mean(data, contamination=N_OUTLIERS, n_blocks=harmonic.n_blocks, rng=run).estimate


def test_the_plan_is_the_papers(harmonic):
    assert N_OUTLIERS == 32
    assert harmonic.n_blocks == -(-4 * 32 * 1000 // (1000 + 2 * 32))
    assert harmonic.holds


def test_a_normal_mean_with_a_dirac_at_the_root_of_n(median_of_means):
    found, error = mean_absolute_errors(
        lambda rng: rng.normal(size=N_ROWS), N_ROWS**0.5, 0.0, [median_of_means, lambda data, run: data.mean()]
    )
    assert found[0] == pytest.approx(0.136, abs=0.0005 + 4 * error[0])
    assert found[1] == pytest.approx(1.00, abs=0.015 + 4 * error[1])


def test_b_bernoulli_rows_that_the_plain_median_cannot_read(median_of_means):
    found, error = mean_absolute_errors(
        lambda rng: rng.integers(2, size=N_ROWS).astype(float),
        1.0,
        0.5,
        [median_of_means, lambda data, run: np.median(data)],
    )
    assert found[1] == pytest.approx(0.5, abs=0.005 + 4 * error[1])
    assert found[0] < 0.05


def test_c_the_variance_of_uniform_rows():
    plan = ov.plan_blocks(N_ROWS, contamination=N_OUTLIERS, method="harmonic", degree=2)

    def median_of_variances(data, run):
        return ov.u_statistic(
            data, kernel="variance", contamination=N_OUTLIERS, n_blocks=plan.n_blocks, rng=run
        ).estimate

    found, error = mean_absolute_errors(
        lambda rng: rng.uniform(size=N_ROWS),
        N_ROWS**0.25,
        1 / 12,
        [median_of_variances, lambda data, run: data.var(ddof=1)],
    )
    assert found[0] == pytest.approx(0.011, abs=0.0005 + 4 * error[0])
    assert 0.64 < found[1] < 0.94
