"""The class Kernel: its checks, and its values on the grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_functions import average_over_tuples, symmetric

import outvote as ov
from outvote.kernels import Kernel


@pytest.mark.parametrize("degrees", [(1, 1), (2, 1), (1, 1, 1), (2, 2)])
def test_the_grid_evaluates_every_combination_of_blocks(degrees):
    rng = np.random.default_rng(1)
    stacks = [rng.normal(size=shape) for shape, _ in zip([(3, 4), (2, 5), (4, 2)], degrees, strict=False)]
    function = symmetric(*degrees)
    kernel = Kernel(function, degrees).fit([stack.reshape(-1) for stack in stacks])
    values = kernel.grid(*stacks)
    assert values.shape == tuple(map(len, stacks))
    for combination in np.ndindex(values.shape):
        blocks = [stack[k] for stack, k in zip(stacks, combination, strict=True)]
        assert values[combination] == pytest.approx(average_over_tuples(function, degrees, blocks), rel=1e-12)


def test_the_grid_is_evaluated_in_steps(monkeypatch):
    monkeypatch.setattr("outvote.kernels.kernel._ROWS_AT_ONCE", 10)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(4, 6))
    kernel = Kernel(lambda a, b: np.abs(a - b), (1, 1), vectorized=True)
    np.testing.assert_allclose(kernel.grid(x, y), np.abs(x[:, None, :, None] - y[None, :, None, :]).mean(axis=(2, 3)))


def test_the_function_must_be_callable():
    with pytest.raises(TypeError, match="function=3 is not callable"):
        Kernel(3)


def test_degrees_and_bounds_are_checked():
    for degrees in (0, 1.5, True, None, (), (2, 0), (2, 1.0), (True,), "2"):
        with pytest.raises(ValueError, match=r"degrees=.* must hold an integer from 1 to 1000 for each sample"):
            Kernel(max, degrees)
    for degrees in (2, (2,), [2], np.array([2]), np.int64(2)):
        kernel = Kernel(max, degrees)
        assert kernel.degrees == (2,)
        assert all(type(d) is int for d in kernel.degrees)
    for bounds in ((1.0, 0.0), (1.0, 1.0), (0.0, math.nan), 5, (1.0,), ("a", "b"), (0, 1, 2)):
        with pytest.raises(ValueError, match=r"bounds=.* must be \(low, high\), finite, with low < high"):
            Kernel(max, bounds=bounds)


def test_kernels_are_named_after_their_functions():
    class Callable:
        def __call__(self, a, b):
            return a + b

    names = Kernel(lambda a, b: a).name, Kernel(max, name="largest").name, Kernel(Callable()).name
    assert names == ("lambda", "largest", "kernel")


def test_fit_keeps_what_is_known_about_the_kernel():
    kernel = Kernel(lambda a, b: abs(a - b), bounds=(0, 9), zetas=(1.0, 2.0), columns=1, homogeneity=1)
    ready = kernel.fit([np.arange(5.0)])
    assert ready.vectorized
    for field in ("degrees", "bounds", "name", "zetas", "columns", "homogeneity"):
        assert getattr(ready, field) == getattr(kernel, field)


@pytest.mark.parametrize(
    ("function", "degrees"),
    [(lambda a: a, 2), (lambda a, b, c: a, 2), (lambda a, b: a, (2, 1)), (math.sqrt, 2), (lambda a, *, b: a, 2)],
)
def test_the_function_must_take_one_argument_per_slot(function, degrees):
    needed = sum(np.atleast_1d(degrees))
    told = rf"'mine' must take {needed} arguments, one per slot of degrees=\(.*\), but cannot be called with so many"
    with pytest.raises(TypeError, match=told):
        Kernel(function, degrees, name="mine")


def test_the_number_of_samples_must_suit_the_degrees():
    x = np.arange(10.0)
    with pytest.raises(ValueError, match=r"'gini' takes 1 sample \(degrees \(2,\)\), but 2 were given"):
        ov.u_statistic(x, x, kernel="gini", contamination=0)
    with pytest.raises(ValueError, match=r"'auc' takes 2 samples \(degrees \(1, 1\)\), but 1 was given"):
        ov.u_statistic(x, kernel="auc", contamination=0)
    with pytest.raises(TypeError, match="at least one sample"):
        ov.u_statistic(kernel="gini")


def test_samples_of_shapes_that_do_not_suit_the_kernel_are_refused():
    for name in ("variance", "gini", "wilcoxon"):
        with pytest.raises(ValueError, match=rf"'{name}' takes numbers, but sample 1 has shape \(10, 2\)"):
            ov.u_statistic(np.ones((10, 2)), kernel=name, contamination=0)
    for name in ("covariance", "kendall"):
        for shape in ((10,), (10, 1), (10, 3)):
            with pytest.raises(ValueError, match=rf"'{name}' takes rows of 2 numbers; sample 1 has shape \(10,"):
                ov.u_statistic(np.ones(shape), kernel=name, contamination=0)
    for name in ("mmd", "energy"):
        for other in ((9,), (9, 2)):
            told = rf"'{name}' compares rows of the same length.*\(10, 3\) and \(9,"
            with pytest.raises(ValueError, match=told):
                ov.u_statistic(np.ones((10, 3)), np.ones(other), kernel=name, contamination=0)
    with pytest.raises(ValueError, match=r"'auc' takes numbers, but sample 2 has shape"):
        ov.u_statistic(np.ones(10), np.ones((9, 2)), kernel="auc", contamination=0)
