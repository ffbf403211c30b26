"""The parameters that all learners share: what "auto" stands for, and their documentation."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "robust": {
        "step_rule": "normalised",
        "step_size": 0.1,
        "schedule": "cosine",
        "middle": None,
        "average": True,
        "scaling": True,
        "init": "zero",
        "finish": True,
    },
    "paper": {
        "step_rule": "plain",
        "step_size": 0.1,
        "schedule": "constant",
        "middle": 0.0,
        "average": False,
        "scaling": False,
        "init": "normal",
        "finish": False,
    },
}
"""What "auto" stands for: outvote's own choice, made to fail seldom, and Algorithm 1 of the paper."""

COMMON_PARAMETERS = """contamination : float, int or Contamination, default=0.05
        How many rows may be corrupt: a fraction, or a count. Too low is dangerous, too high costs a little.
    n_blocks : "auto" or int, default="auto"
        Number of blocks (K): 2·n_corrupt + 1, or the harmonic rule under ``algorithm="paper"``; 1 is plain gradient
        descent.
    algorithm : {"robust", "paper"}, default="robust"
        What "auto" means below. *robust*: middle quarter of the blocks, scaled columns, normalised steps, averaging.
        *paper*: Algorithm 1 as published (median block, plain steps, start at 0.1·N(0, I), columns not scaled).
    alpha : float, default=0.0
        L2 penalty, alpha/2·‖w‖², on scaled columns; never on an intercept.
    max_iter : int, default=300
        Number of epochs at most. Where a finish follows, the descent ends when the middle blocks stop improving.
    step_rule : {"auto", "normalised", "clipped", "polyak", "plain"}
        See `outvote.learning.Steps`.
    step_size : "auto" or float
        Length of the first step (0.1; 0.3 for a metric), or factor of the gradient where the rule is plain (0.1).
    schedule : {"auto", "constant", "cosine", "inverse"}
        How the step shrinks; *inverse* satisfies the conditions of Theorem 2.
    momentum : float, default=0.0
        Share of the last direction that is kept.
    middle : "auto" or float
        Share of the blocks, in the middle of the risks, whose gradient is taken; 0 is the median block alone. Fewer
        are taken where corrupt blocks could be among them.
    average : "auto" or bool
        Return the mean of the last half of the path.
    scaling : "auto" or bool
        Centre and scale the columns robustly inside the fit. Coefficients are in the units of the input.
    init : {"auto", "zero", "normal"} or ndarray
        Where the descent starts: at zero (a metric: I/d), at 0.1·N(0, I), or at given coefficients.
    finish : "auto" or bool
        After the vote, fit plainly to the rows that it trusts: all but those far out and those that the others
        contradict, at most as many as may be corrupt. The vote of the blocks must not find that much worse. Of many
        rows (4096 and more) a random part votes; all are judged.
    early_stopping : bool, default=False
        Stop when the median risk on rows held out stops falling, and keep the best parameter.
    validation_fraction : float, default=0.2
        Share of the rows held out for early stopping.
    n_iter_no_change : int, default=20
        Epochs without progress after which to stop.
    tol : float, default=1e-4
        What counts as progress, relative to the risk.
    warm_start : bool, default=False
        Start from the last fit.
    callbacks : sequence of callable, optional
        Called with an `outvote.learning.State` after each epoch; one that returns True stops the descent.
    verbose : int, default=0
        1 shows a progress bar.
    random_state : int, RandomState or None
        Seed."""

DEVICE_PARAMETER = """device : str or torch.device, optional
        Where the descent runs: "cuda", for instance, or "cpu" (torch on the processor); both need the extra `torch`.
        None is numpy. The rows are copied there once and keep their dtype; the fitted attributes are numpy arrays. The
        host waits for the device at the end, and after every epoch with `early_stopping`, `callbacks` or `verbose`."""

COMMON_ATTRIBUTES = """n_blocks_ : int or tuple of int
        Number of blocks; of each class where each class has its own blocks.
    plan_ : BlockPlan, GridPlan or tuple of BlockPlan
        The same with the reason: ``print(plan_.explain())``.
    history_ : dict
        One entry for each epoch: ``train_risk`` (of the median block), ``selected_blocks``, ``held_out_risk``,
        ``step``.
    support_ : ndarray of bool
        The rows that the fit was finished on; all if there was no finish.
    selection_counts_ : ndarray
        How often each row sat in a chosen block; rows with low counts are suspect (0 for a row that did not vote).
    row_losses_ : ndarray
        Loss of each row under the fit; for pairs, its mean loss with rows that were chosen often.
    outlier_scores_ : ndarray
        In standard deviations; rows with high scores are suspect. The larger of two: a third of how seldom the row was
        chosen, and the sum of its loss and its distance from the centre of the columns. If corrupt rows have captured
        the fit, clean rows get the high scores.
    n_iter_ : int
        Epochs run.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn."""


def documented(cls: type[Any]) -> type[Any]:
    """Write the common parameters and attributes into a learner's docstring."""
    if cls.__doc__:
        for name, text in (
            ("{parameters}", COMMON_PARAMETERS),
            ("{device}", DEVICE_PARAMETER),
            ("{attributes}", COMMON_ATTRIBUTES),
        ):
            cls.__doc__ = cls.__doc__.replace(name, text)
    return cls
