"""Robust metrics of predicted classes: shares of rows, in all or in some classes, with exact intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions.assumption import Bounded, Proportion
from outvote.contamination import Contamination
from outvote.data.arguments import whole
from outvote.data.rows import read
from outvote.estimate.mean import mean
from outvote.estimate.result import RobustEstimate, named
from outvote.metrics.joined import joined, split
from outvote.metrics.labels import classes_of, distinct, labels_in
from outvote.metrics.rows import labels_of, robust_auc

Array = NDArray[Any]


def _recall(true: Array, predicted: Array) -> Array:
    return true


def _precision(true: Array, predicted: Array) -> Array:
    return predicted


def _either(true: Array, predicted: Array) -> Array:
    return true | predicted


def _same(share: float) -> float:
    return share


def _f1(share: float) -> float:
    return 2 * share / (1 + share)


#: For each metric: among which rows the share of true positives is taken, and what is made of it.
SHARES: dict[str, tuple[Callable[[Array, Array], Array], Callable[[float], float]]] = {
    "precision": (_precision, _same),
    "recall": (_recall, _same),
    "jaccard": (_either, _same),
    "f1": (_either, _f1),
}


def of_positives(name: str) -> Callable[..., RobustEstimate]:
    """Return a metric of the larger of two classes: its precision, recall, Jaccard index or F1."""

    def metric(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
        true, predicted = labels_of(y_true, y_pred)
        classes = distinct(np.concatenate([true, predicted]), "y_true and y_pred")
        if len(classes) > 2:
            raise ValueError(f"{name} is for two classes, but there are {len(classes)}: take {name}_macro")
        return _share(name, true == classes[-1], predicted == classes[-1], classes[-1], _counted(true, options))

    return metric


def of_each_class(name: str) -> Callable[..., RobustEstimate]:
    """Return the mean over the classes of such a metric."""

    def metric(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
        true, predicted = labels_of(y_true, y_pred)
        classes = distinct(true, "y_true")
        each = _counted(true, split(options, len(classes)))
        return _mean(f"{name}, mean of classes", [_share(name, true == c, predicted == c, c, each) for c in classes])

    return metric


def balanced_accuracy(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the mean over the classes of the share of their clean rows that are classified correctly."""
    return named("balanced accuracy", of_each_class("recall")(y_true, y_pred, **options))


def top_k_accuracy(y_true: Any, y_proba: Any, *, labels: Any = None, k: int = 2, **options: Any) -> RobustEstimate:
    """Estimate the share of clean rows whose class is among the `k` most likely."""
    most = whole("k", k, 1)
    places, chances = _chances(y_true, y_proba, labels)
    own, gaps = chances[np.arange(len(places)), places], np.isnan(chances).any(axis=1)
    hit = (chances > own[:, None]).sum(axis=1) < most
    hit = np.where(gaps, np.nan, hit) if gaps.any() else hit
    return named(f"top {k} accuracy", mean(hit, **{"assume": Proportion(), **options}))


def brier_score(y_true: Any, y_proba: Any, *, labels: Any = None, **options: Any) -> RobustEstimate:
    """Estimate the mean over clean rows of half the squared distance of the probabilities from the class, in [0, 1]."""
    places, chances = _chances(y_true, y_proba, labels)
    gaps = chances.copy()
    gaps[np.arange(len(places)), places] -= 1
    scale = 2 if chances.shape[1] == 2 else 1  # as in scikit-learn: several classes are not halved
    return named("Brier score", mean((gaps**2).sum(axis=1) / scale, **{"assume": Bounded(0, 2 / scale), **options}))


def auc_one_vs_rest(y_true: Any, y_proba: Any, *, labels: Any = None, **options: Any) -> RobustEstimate:
    """Estimate the mean over the classes of the AUC of a class against all others, of clean rows."""
    places, chances = _chances(y_true, y_proba, labels)
    each = _for_auc(_in_each(places, split(options, chances.shape[1])))
    return _if_classes_hold("auc, one against the rest", [
        robust_auc(places == code, chances[:, code], **each) for code in range(chances.shape[1])])  # fmt: skip


def auc_one_vs_one(y_true: Any, y_proba: Any, *, labels: Any = None, **options: Any) -> RobustEstimate:
    """Estimate the mean over pairs of classes of the AUC of one against the other, of clean rows."""
    places, chances = _chances(y_true, y_proba, labels)
    pairs = list(permutations(range(chances.shape[1]), 2))
    each, found = _for_auc(_in_each(places, split(options, len(pairs)))), []
    for code, other in pairs:
        some = (places == code) | (places == other)
        found.append(robust_auc(places[some] == code, chances[some, code], **each))
    return _if_classes_hold("auc, one against one", found)


def _share(name: str, true: Array, predicted: Array, label: Any, options: dict[str, Any]) -> RobustEstimate:
    """Estimate the share of rows of a class that are in both, among those that the metric counts."""
    among, form = SHARES[name]
    rows = among(true, predicted)
    if not rows.any():
        raise ValueError(f"no row counts for the {name} of class {label!r}: it is neither in y_true nor predicted")
    found = mean((true & predicted)[rows], **{"assume": Proportion(), **options})
    return joined(name, [found], form)


def _mean(statistic: str, parts: list[RobustEstimate]) -> RobustEstimate:
    return joined(statistic, parts, lambda *values: sum(values) / len(values))


def _counted(rows: Array, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for a part of the rows that labels or predictions choose: all corrupt rows may be there.

    A corrupt row may have left the part, or come into it, and what stands in it may depend on the clean rows. So the
    number of clean rows in the part is not known beforehand, and the interval is that for an adversary who saw them.
    Let r rows have left, and a have come or changed, r + a ≤ m: k of n become at least k - m + r of n + r, and the
    lower end for k - m of n rows, to which r rows were added that are all hits, is no larger than that for these.
    """
    allowed = Contamination.of(options.get("contamination", 0.01))
    return {**options, "contamination": Contamination(allowed.count(len(rows)), "adaptive")}


def _in_each(rows: Array, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for samples of classes, in each of which all corrupt rows may be."""
    allowed = Contamination.of(options.get("contamination", 0.01))
    return {**options, "contamination": Contamination(allowed.count(len(rows)), allowed.adversary)}


def _if_classes_hold(statistic: str, parts: list[RobustEstimate]) -> RobustEstimate:
    """Return the mean of areas; that of a class is proved for samples whose sizes corrupt labels did not choose."""
    found = _mean(statistic, parts)
    if found.certificate.provenance != "certified":
        return found
    premise = "the class that a corrupt row is in does not depend on the clean rows"
    return replace(found, certificate=replace(found.certificate, provenance="conditional", premise=premise))


def _for_auc(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "assume"}


def _chances(y_true: Any, y_proba: Any, labels: Any) -> tuple[Array, Array]:
    """Return the number of each row's class, and the probabilities of the classes."""
    true, chances = labels_in(y_true, "y_true"), read(y_proba, "y_proba").values.astype(np.float64)
    classes = classes_of(true, labels)
    if chances.shape != (len(true), len(classes)):
        raise ValueError(
            f"y_proba has shape {chances.shape}, but there are {len(true)} rows and {len(classes)} classes"
        )
    if ((chances < 0) | (chances > 1)).any():
        raise ValueError("y_proba must hold probabilities between 0 and 1")
    places = np.searchsorted(classes, true).clip(max=len(classes) - 1)
    if (classes[places] != true).any():
        raise ValueError(
            f"y_true has the class {true[classes[places] != true].tolist()[0]!r}, which the model does not know"
        )
    return places, chances
