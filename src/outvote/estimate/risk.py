"""A model's clean risk, from a validation set of which some rows are corrupt."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outvote.assumptions import Bounded
from outvote.blocks.plan import BlockPlan
from outvote.certificate.uniform import uniform_radius
from outvote.contamination import Contamination
from outvote.data.arguments import is_whole, log_delta_of
from outvote.data.rows import read_rows
from outvote.estimate.mean import mean
from outvote.estimate.request import Allowed
from outvote.estimate.result import Interval, RobustEstimate
from outvote.estimate.screened import implied
from outvote.estimate.u_statistic import u_statistic
from outvote.kernels import Kernel, kernel_of
from outvote.votes.search import odd_grid


def certify_risk(
    *losses: ArrayLike,
    contamination: Allowed = 0.05,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "auto",
    kernel: Kernel | str | None = None,
    n_models: int = 1,
    vc_dim: int | None = None,
    **options: Any,
) -> RobustEstimate:
    """Bound a model's risk on clean rows from above, given its losses on rows of which some are corrupt.

    Parameters
    ----------
    *losses : array-like
        The loss of each validation row; a table with one column for each model; or, with a `kernel`, the rows from
        which it computes the loss of pairs.
    contamination : float, int or Contamination
        How many rows may be corrupt.
    confidence : float
        Confidence (1 - δ) of the bound.
    assume : assumption or None
        What is known of clean losses; `Proportion` for a 0-1 loss, which boolean losses are taken for.
    vote : {"auto", "evidence", "median", "soft", "clipped"}
        As for `mean`; a pair loss has votes of blocks only.
    kernel : Kernel, optional
        A pair loss: ``Kernel(loss, degrees=2)``.
    n_models : int
        How many models the one judged here was chosen among, by these same rows: δ is split between them.
        A table of losses counts its columns by itself.
    vc_dim : int, optional
        Instead: the VC dimension of the class it was chosen from, by these same rows. The loss must be bounded and
        depend on the model through its decisions only (0-1 loss); the median votes.
    **options
        As for `mean` or `u_statistic`.

    Returns
    -------
    RobustEstimate
        ``interval.high`` is the bound on the clean risk.

    Notes
    -----
    Peak memory: that of `mean` for losses of rows and of `u_statistic` for pairs, O(n).

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> wrong = np.random.default_rng(0).random(5000) < 0.1
    >>> wrong[:250] = True  # corrupt rows, all wrong
    >>> r = ov.certify_risk(wrong, contamination=0.05)
    >>> wrong.mean().round(2), round(r.interval.high, 2)
    (np.float64(0.15), 0.17)
    """
    for name, value in (("n_models", n_models), ("vc_dim", 1 if vc_dim is None else vc_dim)):
        if not is_whole(value) or value < 1:
            raise ValueError(f"{name}={value!r} must be an integer of at least 1")
    n_models, vc_dim = int(n_models), None if vc_dim is None else int(vc_dim)
    if "alternative" in options:
        raise TypeError("certify_risk bounds a risk from above: it takes no alternative")
    kernel = None if kernel is None else kernel_of(kernel)
    if vc_dim is not None:
        if vote not in ("auto", "median") or n_models > 1:
            raise ValueError("a bound over a class is for the median, and for all models: leave vote and n_models out")
        if kernel is None and len(losses) == 1:
            assume = implied(read_rows(losses[0], "losses", booleans=True), assume)
        return _uniform(losses, contamination, confidence, assume, kernel, vc_dim, options)
    share = -math.expm1(log_delta_of(confidence) - math.log(n_models))
    if kernel is not None:
        found = u_statistic(
            *losses,
            kernel=kernel,
            contamination=contamination,
            confidence=share,
            assume=assume,
            vote=vote,
            alternative="less",
            **({"grid": "diagonal"} if len(losses) > 1 and vote in ("soft", "clipped") else {}) | options,
        )
    else:
        if len(losses) != 1:
            raise TypeError(f"certify_risk takes one array of losses, not {len(losses)}; a pair loss needs a kernel")
        found = mean(
            losses[0],
            contamination,
            share,
            assume,
            vote,
            alternative="less",
            simultaneous=_n_axes(losses[0]) > 1,
            **options,
        )
    log_delta = log_delta_of(confidence)
    certificate = replace(found.certificate, log_delta=log_delta, requested_log_delta=log_delta, target="clean risk")
    return replace(found, certificate=certificate, statistic="risk")


def _uniform(
    losses: tuple[ArrayLike, ...],
    contamination: Allowed,
    confidence: float,
    assume: Any,
    kernel: Kernel | None,
    vc_dim: int,
    options: dict[str, Any],
) -> RobustEstimate:
    """Bound the risk of a model chosen from a VC class by the same rows."""
    if not isinstance(assume, Bounded):
        raise TypeError(f"assume={assume!r}: a bound over a class needs a bounded loss, Bounded(0, 1) for instance")
    if len(losses) != 1:
        raise TypeError(f"a bound over a class takes one sample, not {len(losses)}")
    degree = 1 if kernel is None else kernel.degrees[0]
    sample = read_rows(losses[0], "losses")
    if kernel is None and sample.ndim != 1:
        raise ValueError(f"losses has shape {sample.shape}: a bound over a class takes the losses of one model")
    n_rows = len(sample)
    allowed = Contamination.of(contamination)
    settings: dict[str, Any] = {
        "n_corrupt": allowed.count(n_rows),
        "vc_dim": vc_dim,
        "bound": assume.width,
        "degree": degree,
        "confidence": confidence,
        "adversary": allowed.adversary,
    }
    most = n_rows // degree
    if options.get("n_blocks", "auto") == "auto" and most > 2 * settings["n_corrupt"]:
        tried = odd_grid(2 * settings["n_corrupt"] + 1, most - (most % 2 == 0), 60).astype(int)
        best = min(tried, key=lambda k: uniform_radius(n_blocks=int(k), block_size=n_rows // int(k), **settings))
        options = options | {"n_blocks": int(best)}
    common: dict[str, Any] = {
        "contamination": contamination,
        "confidence": confidence,
        "assume": assume,
        "vote": "median",
        **options,
    }
    found = mean(losses[0], **common) if kernel is None else u_statistic(losses[0], kernel=kernel, **common)
    plan = found.plan
    assert isinstance(plan, BlockPlan)
    settings |= {"n_corrupt": plan.n_corrupt}
    radius = uniform_radius(n_blocks=plan.n_blocks, block_size=plan.size_range[0], **settings)
    high = np.minimum(np.asarray(found.estimate) + radius, assume.high)
    certificate = replace(
        found.certificate,
        alternative="less",
        radius=radius,
        statement="uniform over a VC class",
        target="clean risk, for the whole class",
    )
    return replace(
        found,
        certificate=certificate,
        interval=Interval(assume.low, float(high)),
        statistic="risk",
        alternative="less",
        plan=replace(plan, reason="These blocks have the smallest radius for the whole class."),
    )


def _n_axes(losses: Any) -> int:
    """Return the number of axes of losses, of whatever kind."""
    known = getattr(losses, "ndim", None)
    return known if isinstance(known, int) else read_rows(losses, "losses", booleans=True).ndim
