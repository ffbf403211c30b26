"""Averages, comparisons and models that stay right when some rows are wrong, and say how far off they can be.

Start with `mean(x)`, `describe(frame)`, `difference(a, b)` and `tolerance(a, b)`. You say how many rows may be corrupt
(`contamination`, 1 % by default) and what is known of the others (`assume`, nothing by default).
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from outvote.data.loading import one_at_a_time

__version__ = "0.1.0.dev0"

# A name loads its module when it is first used, so that `import outvote` takes no longer than `import numpy`.
_HOMES = {
    "BlockPlan": "blocks.plan",
    "Bounded": "assumptions",
    "Certificate": "certificate",
    "Comparison": "estimate.mmd",
    "Contamination": "contamination",
    "BlockSummary": "estimate.summary",
    "GroupedBlockSummary": "estimate.summary",
    "RowSummary": "estimate.summary",
    "Proportion": "assumptions",
    "SubGaussian": "assumptions",
    "Symmetric": "assumptions",
    "FiniteVariance": "assumptions",
    "FiniteKurtosis": "assumptions",
    "GridPlan": "blocks.plan",
    "Kernel": "kernels",
    "Monitor": "estimate.monitor",
    "RobustAUCClassifier": "learning",
    "RobustClassifier": "learning",
    "RobustEstimate": "estimate.result",
    "RobustFit": "learning",
    "RobustMetricLearner": "learning",
    "RobustRanker": "learning",
    "RobustRegressor": "learning",
    "certify_risk": "estimate.risk",
    "describe": "tables.describe",
    "difference": "estimate.difference",
    "mean": "estimate.mean",
    "mmd": "estimate.mmd",
    "plan_blocks": "blocks.choose",
    "quantile": "estimate.quantile",
    "quantile_difference": "estimate.quantile_difference",
    "rows_needed": "blocks.rows_needed",
    "scan": "tables.open",
    "sensitivity": "estimate.sensitivity",
    "suspects": "estimate.suspects",
    "tolerance": "estimate.tolerance",
    "u_statistic": "estimate.u_statistic",
}
_MODULES = ("certificate", "contamination", "datasets", "kernels", "learning", "metrics", "paper", "plotting")
_OPTIONAL = ("torch",)  # modules that need an extra: available by name, but not part of `from outvote import *`

#: Functions that name the nearest argument when they are called with one that they do not have.
_HINTING = (
    "certify_risk",
    "difference",
    "mean",
    "mmd",
    "plan_blocks",
    "quantile",
    "quantile_difference",
    "rows_needed",
    "suspects",
    "tolerance",
    "u_statistic",
)
#: How names begin that people look for here, and the modules that have them.
_ELSEWHERE = {
    "robust_": "metrics",
    "radius": "certificate",
    "sigma_bounds": "certificate",
    "bound": "paper",
    "constants": "paper",
    "MedianBlock": "torch",
    "median_block_loss": "torch",
    "trusted_rows": "torch",
}

__all__ = [
    "BlockPlan",
    "BlockSummary",
    "Bounded",
    "Certificate",
    "Comparison",
    "Contamination",
    "FiniteKurtosis",
    "FiniteVariance",
    "GridPlan",
    "GroupedBlockSummary",
    "Kernel",
    "Monitor",
    "Proportion",
    "RobustAUCClassifier",
    "RobustClassifier",
    "RobustEstimate",
    "RobustFit",
    "RobustMetricLearner",
    "RobustRanker",
    "RobustRegressor",
    "RowSummary",
    "SubGaussian",
    "Symmetric",
    "certificate",
    "certify_risk",
    "contamination",
    "datasets",
    "describe",
    "difference",
    "kernels",
    "learning",
    "mean",
    "metrics",
    "mmd",
    "paper",
    "plan_blocks",
    "plotting",
    "quantile",
    "quantile_difference",
    "rows_needed",
    "scan",
    "sensitivity",
    "suspects",
    "tolerance",
    "u_statistic",
]

if TYPE_CHECKING:
    from outvote import certificate, contamination, datasets, kernels, learning, metrics, paper, plotting
    from outvote import torch as torch
    from outvote.assumptions.assumption import (
        Bounded,
        FiniteKurtosis,
        FiniteVariance,
        Proportion,
        SubGaussian,
        Symmetric,
    )
    from outvote.blocks.choose import plan_blocks
    from outvote.blocks.plan import BlockPlan, GridPlan
    from outvote.blocks.rows_needed import rows_needed
    from outvote.certificate import Certificate
    from outvote.contamination import Contamination
    from outvote.estimate.difference import difference
    from outvote.estimate.mean import mean
    from outvote.estimate.mmd import Comparison, mmd
    from outvote.estimate.monitor import Monitor
    from outvote.estimate.quantile import quantile
    from outvote.estimate.quantile_difference import quantile_difference
    from outvote.estimate.result import RobustEstimate
    from outvote.estimate.risk import certify_risk
    from outvote.estimate.sensitivity import sensitivity
    from outvote.estimate.summary import BlockSummary, GroupedBlockSummary, RowSummary
    from outvote.estimate.suspects import suspects
    from outvote.estimate.tolerance import tolerance
    from outvote.estimate.u_statistic import u_statistic
    from outvote.kernels.kernel import Kernel
    from outvote.learning import (
        RobustAUCClassifier,
        RobustClassifier,
        RobustFit,
        RobustMetricLearner,
        RobustRanker,
        RobustRegressor,
    )
    from outvote.tables.describe import describe
    from outvote.tables.open import scan


def __getattr__(name: str) -> Any:
    with one_at_a_time():
        return _loaded(name)


def _loaded(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"outvote.{_HOMES[name]}"), name)
        if name in _HINTING:
            from outvote.data.arguments import hinting

            value = hinting(value)
            value.__module__ = "outvote"  # where pickle finds it
        globals()[name] = value
        return value
    if name in _MODULES or name in _OPTIONAL:
        return importlib.import_module(f"outvote.{name}")
    home = next((module for start, module in _ELSEWHERE.items() if name.startswith(start)), None)
    try:
        there = home is not None and name in importlib.import_module(f"outvote.{home}").__all__
    except ImportError:  # it needs an extra, and cannot be asked
        there = True
    hint = f": it is outvote.{home}.{name}" if there else ""
    # With these two Python's own traceback names what is spelt nearly so.
    raise AttributeError(f"module 'outvote' has no attribute {name!r}{hint}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
