"""The descent: plain gradient descent with one block, step rules, stopping, and errors when it diverges."""

import builtins
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from outvote.learning import DivergenceError, Problem, Settings, Steps, descend
from outvote.learning import descent as descent_module
from outvote.learning import problem as problem_module
from outvote.learning.losses import Logistic, Squared
from outvote.learning.scaling import ScaledRows
from outvote.learning.voting import Cell


def problem(n=60, d=3, n_blocks=1, n_chosen=1, loss=None, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = x @ np.arange(1.0, d + 1) + rng.normal(size=n)
    loss = Squared() if loss is None else loss
    if loss.targets == "signs":
        y = np.sign(y)
    return Problem(ScaledRows(x, np.zeros(d), np.ones(d)), y, loss, [Cell((np.arange(n),), n_blocks, n_chosen)])


def test_one_block_is_plain_gradient_descent():
    one = problem()
    x, y = one.design.x, one.targets
    w = np.zeros(3)
    for _ in range(25):
        w = w - 0.1 * (x.T @ (x @ w - y) / len(y) + 0.01 * w)
    settings = Settings(Steps("plain", 0.1, "constant"), 25, 0.01, average=False)
    found = descend(one, np.zeros(3), np.random.default_rng(0), settings)
    assert found.theta == pytest.approx(w, rel=1e-12)
    assert np.all(found.counts == 25)


def test_an_epoch_returns_the_risk_and_gradient_of_the_median_block():
    one = problem(n=60, n_blocks=6)
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    counts = np.zeros(60, dtype=int)
    theta = np.array([1.0, 0.0, 0.0])
    risk, chosen_risk, gradient, selected = one.epoch(theta, rng, counts)
    blocks = one.cells[0].draw(again)[0].rows()
    x, y = one.design.x, one.targets
    risks = np.array([np.mean((x[b] @ theta - y[b]) ** 2) / 2 for b in blocks.T])
    middle = np.argsort(risks)[2]  # the lower median of six
    assert selected.tolist() == [middle]
    assert risk == chosen_risk == pytest.approx(risks[middle])
    rows = blocks[:, middle]
    assert gradient == pytest.approx(x[rows].T @ (x[rows] @ theta - y[rows]) / 10)
    assert np.flatnonzero(counts).tolist() == sorted(rows)


def test_step_rules_and_schedules():
    g = np.array([3.0, 4.0])
    assert Steps("plain", 0.1).step(g, 1.0, 0.1) == pytest.approx([0.3, 0.4])
    assert Steps("normalised", 0.1).step(g, 1.0, 0.1) == pytest.approx([0.06, 0.08])
    assert Steps("clipped", 0.1).step(g, 1.0, 0.1) == pytest.approx([0.06, 0.08])
    assert Steps("clipped", 0.1).step(g / 50, 1.0, 0.1) == pytest.approx(g / 500)
    assert Steps("polyak", 0.1).step(g, 0.01, 0.1) == pytest.approx(0.01 / 25 * g)
    assert Steps("polyak", 0.1).step(g, 100.0, 0.1) == pytest.approx([0.06, 0.08])
    assert Steps().step(np.zeros(2), 1.0, 0.1) == pytest.approx([0, 0])
    for schedule, lengths in (
        ("constant", [0.1, 0.1, 0.1]), ("cosine", [0.1, 0.05, 0]), ("inverse", [0.1, 0.05, 0.1 / 3])
    ):  # fmt: skip
        assert [Steps(schedule=schedule).length(t, 100) for t in (0, 50, 100)] == pytest.approx(lengths)


def test_wrong_steps_are_refused():
    for options, message in (
        ({"rule": "adam"}, "step_rule='adam' must be one of 'normalised'"),
        ({"schedule": "linear"}, "schedule='linear' must be one of"),
        ({"size": 0.0}, "step_size=0.0 must be a positive number"),
        ({"momentum": 1.0}, r"momentum=1.0 must lie in \[0, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            Steps(**options)


@pytest.mark.parametrize(
    "steps", [Steps(), Steps("polyak"), Steps("clipped", 0.5), Steps(momentum=0.5), Steps(schedule="inverse")]
)
def test_every_rule_finds_the_minimum(steps):
    one = problem(n=400, n_blocks=5, n_chosen=3)
    found = descend(one, np.zeros(3), np.random.default_rng(0), Settings(steps, 300))
    assert found.theta == pytest.approx([1, 2, 3], abs=0.25)
    assert len(found.history.train_risk) == 300
    assert found.history.to_dict()["train_risk"][-1] < found.history.train_risk[0] / 4


def test_a_descent_that_diverges_or_ends_far_worse_raises():
    def descent(one, start, size, n_epochs, **options):
        settings = Settings(Steps("plain", size, "constant"), n_epochs, **options)
        return descend(one, start, np.random.default_rng(0), settings)

    with pytest.raises(DivergenceError, match=r"no longer finite|is inf|is nan"):
        descent(problem(), np.zeros(3), 50.0, 500)
    with pytest.raises(DivergenceError, match=r"median risk rose from .* smaller step_size") as caught:
        descent(problem(), np.zeros(3), 3.0, 20, average=False)
    assert caught.value.theta.shape == (3,)
    one = problem()
    one.targets[0] = 1e308
    with pytest.raises(DivergenceError, match=r"no longer finite after epoch 0|median risk is inf at epoch 0"):
        descent(one, np.zeros(3), 1e3, 5)
    # A finite risk does not hide an infinite parameter.
    with pytest.raises(DivergenceError, match="the parameter is no longer finite after epoch 0"):
        descent(problem(), np.ones(3), 1e308, 5, alpha=1e10)


def test_steps_shrink_once_the_risks_have_stopped_falling():
    settings = Settings(Steps(schedule="constant"), 400, window=20)
    found = descend(problem(n=200, n_blocks=5), np.zeros(3), np.random.default_rng(0), settings)
    steps = found.history.to_dict()["step"]
    assert found.n_epochs < 400
    assert steps[:-20] == pytest.approx(0.1)
    assert steps[-20:] == pytest.approx(0.05 * (1 + np.cos(np.pi * np.arange(20) / 20)))


def test_callbacks_see_every_epoch_and_can_stop():
    seen = []
    one = problem(loss=Logistic())
    stops = [lambda state: seen.append(state.epoch), lambda state: state.epoch == 6]
    found = descend(one, np.zeros(3), np.random.default_rng(0), Settings(n_epochs=50), callbacks=stops)
    assert seen == list(range(7))
    assert found.n_epochs == 7


def test_early_stopping_returns_the_best_parameter_on_the_rows_held_out():
    one, other = problem(n=200, n_blocks=5), problem(n=100, n_blocks=3, seed=1)
    held_out = Problem(other.design, other.targets, one.loss, other.cells)
    settings = Settings(Steps(schedule="constant"), 400, average=False, patience=15)
    found = descend(one, np.zeros(3), np.random.default_rng(0), settings, held_out=held_out)
    assert found.n_epochs < 400
    assert len(found.history.held_out_risk) == found.n_epochs
    best = held_out.median_risk(found.theta, np.random.default_rng(1))
    assert best <= 1.5 * min(found.history.held_out_risk)


@pytest.mark.parametrize(("wide", "large", "alone"), [(3, 1, False), (4, 1, True), (1, 10**9, True)])
def test_only_large_products_of_wide_rows_use_several_threads(monkeypatch, wide, large, alone):
    limited = []
    monkeypatch.setattr(descent_module, "_WIDE", wide)
    monkeypatch.setattr(descent_module, "_LARGE", large)
    monkeypatch.setattr(ThreadpoolController, "limit", lambda self, **limits: limited.append(limits) or nullcontext())
    descend(problem(), np.zeros(3), np.random.default_rng(0), Settings(n_epochs=3))
    assert limited == ([{"limits": 1, "user_api": "blas"}] if alone else [])


def test_the_gradients_of_the_chosen_blocks_are_bounded_in_memory(monkeypatch):
    monkeypatch.setattr(problem_module, "MOST_GRADIENTS", 6)
    one = problem(n=60, n_blocks=20, n_chosen=10)
    *_, selected = one.epoch(np.zeros(3), np.random.default_rng(0), np.zeros(60, dtype=int))
    assert len(selected) == 2


def test_progress_is_shown_with_and_without_rich(capsys, monkeypatch):
    one = problem()
    descend(one, np.zeros(3), np.random.default_rng(0), Settings(n_epochs=20), verbose=1)
    assert "median risk" in capsys.readouterr().out
    real = builtins.__import__

    def no_rich(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_rich)
    descend(one, np.zeros(3), np.random.default_rng(0), Settings(n_epochs=20), verbose=1)
    assert capsys.readouterr().out.count("epoch") == 10
