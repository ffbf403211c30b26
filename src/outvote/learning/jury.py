"""Which rows of classes to trust: plain models, each fitted without the rows that it judges, do not contradict them."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from outvote.learning.arrays import Array, slices
from outvote.learning.trust import FEWEST, TOO_FAR, far_scores, row_keys, standardised, worst

#: Another class must be this many times as likely as a row's own for the others to contradict the row.
_ODDS = 9.0
#: Contradicted rows are left out if there are this many times as many as the probabilities expect...
_EXCESS = 2.0
#: ... and if they are at least this share of all errors.
_OF_ERRORS = 0.4
#: Folds in which all rows are judged, and fewer if only a part of many rows is.
_N_FOLDS, _N_FOLDS_OF_PART = 5, 3
_N_ROUNDS = 2
#: Rows whose probabilities are computed at once.
_AT_ONCE = 2**14


class Jury:
    """Judges rows by logistic regression on standardised columns, out of fold; copies of a row share a fold.

    Parameters
    ----------
    x, codes : ndarray
        Rows, and their classes 0, 1, …
    scores : ndarray
        How far out they lie; above 1 is far.
    most : ndarray
        The most rows of each class that are left out, and (the last entry) of all.
    rng : Generator
        Draws the folds.
    each : bool
        Whether the limit of each class bounds its corrupt rows.
    n_folds : int
        How many folds there are.
    """

    def __init__(
        self,
        x: Array,
        codes: Array,
        scores: Array,
        most: Array,
        rng: np.random.Generator,
        each: bool = False,
        n_folds: int = _N_FOLDS,
    ):
        self.n_folds = n_folds
        self.x, self.codes, self.scores, self.most, self.rng = x, codes, scores, most, rng
        self.n_classes = len(most) - 1
        keys = row_keys(x, codes)
        order = np.lexsort((keys, codes))
        new = np.diff(keys[order], prepend=np.nan) != 0
        new |= np.diff(codes[order], prepend=-1) != 0
        self._kind = np.empty(len(x), dtype=np.int64)
        self._kind[order] = np.cumsum(new) - 1
        self._class_of_kind = codes[order][new]
        self.far = far_in_classes(scores, codes, most, each)

    def without_worst(self, losses: Array) -> Array:
        """Return the rows that neither lie far out nor have the largest losses: where the judging starts."""
        left = self.most - np.append(np.bincount(self.codes[self.far], minlength=self.n_classes), self.far.sum())
        return ~self.far & ~worst_in_classes(losses, ~self.far, self.codes, left)

    def probabilities(self, kept: Array) -> Array:
        """Return the probabilities of the classes of all rows, each from a fit to kept rows of other folds."""
        order = self.rng.permutation(len(self._class_of_kind))
        order = order[np.argsort(self._class_of_kind[order], kind="stable")]
        fold = np.empty(len(order), dtype=np.int64)
        fold[order] = np.arange(len(order)) % self.n_folds
        fold = fold[self._kind]
        found = np.empty((len(self.x), self.n_classes))
        for number in range(self.n_folds):
            asked = fold == number
            judge = Judge(self.x, self.codes, np.flatnonzero(kept & ~asked), self.n_classes)
            found[asked] = judge.probabilities(self.x[asked])
        return found

    def plain_losses(self, kept: Array) -> Array:
        """Return the losses of all rows under models of those kept."""
        return own_losses(self.probabilities(kept), self.codes)

    def judge(self, kept: Array) -> tuple[float, Array]:
        """Judge all rows by models of those kept; return the mean loss without the worst, and the rows to trust."""
        chances = self.probabilities(kept)
        losses = np.sort(own_losses(chances, self.codes))[: len(kept) - self.most[-1]]
        return float(losses.mean()), trusted_by_chances(chances, self.codes, self.scores, self.far, self.most)


class Judge:
    """A plain fit to some rows."""

    def __init__(self, x: Array, codes: Array, rows: Array, n_classes: int):
        self.n_classes, self.classes = n_classes, np.unique(codes[rows])
        taken = x[rows]
        self.centre, self.scale = standardised(taken)
        self.model = None
        if len(self.classes) > 1:
            with np.errstate(all="ignore"):
                scaled = ((taken - self.centre) / self.scale).astype(np.float64)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # other folds judge, too
                self.model = LogisticRegression(tol=1e-2).fit(scaled, codes[rows])

    def probabilities(self, x: Array) -> Array:
        """Return the probability of each class; 0 for one that was not among the rows."""
        found = np.zeros((len(x), self.n_classes))
        if self.model is None:
            found[:, self.classes] = 1.0
            return found
        for part in slices(len(x), _AT_ONCE):
            with np.errstate(all="ignore"):
                scaled = np.clip((x[part] - self.centre) / self.scale, -1e3, 1e3)
            found[part, self.classes] = self.model.predict_proba(scaled)
        return found


def own_losses(chances: Array, codes: Array) -> Array:
    """Return -log of the probability of each row's own class."""
    return -np.log(np.maximum(chances[np.arange(len(codes)), codes], 1e-12))


def worst_in_classes(scores: Array, suspect: Array, codes: Array, most: Array) -> Array:
    """Return which of the suspect rows have the highest scores, at most `most` of each class, and (last) of all."""
    found = np.zeros(len(codes), dtype=bool)
    for code, limit in enumerate(most[:-1]):
        found |= worst(scores, suspect & (codes == code), int(limit))
    return worst(scores, found, int(most[-1]))


def far_in_classes(scores: Array, codes: Array, most: Array, each: bool) -> Array:
    """Return which rows lie far out, at most `most` of each class, and (last) of all.

    Unless the limit of `each` class is a bound on its corrupt rows, rows too far count whatever their class.
    """
    far = worst(scores, (scores > TOO_FAR) & (not each), int(most[-1]))
    return worst(scores, far | worst_in_classes(scores, scores > 1, codes, most), int(most[-1]))


def trusted_by_chances(chances: Array, codes: Array, scores: Array, far: Array, most: Array) -> Array:
    """Return the rows to trust: all but rows too far out, those far out with odds against them, and contradicted ones.

    Odds are against a row if another class is `_ODDS` times as likely as its own. It is contradicted if its own class
    is also less likely than a guess and than the share of the class. Contradicted rows are left out only if there are
    twice as many as the probabilities expect, if they are a good part of all errors, since classes that overlap have
    errors as well, and if they are a third of the rows that may be corrupt: where classes hardly overlap, a few hard
    rows are contradicted.
    """
    n_classes, wrong = chances.shape[1], chances.argmax(axis=1) != codes
    own, top = chances[np.arange(len(codes)), codes], chances.max(axis=1)
    out = far & ((top >= _ODDS * own) | (scores > TOO_FAR))
    voting = ~out
    limit = np.minimum(np.bincount(codes[voting], minlength=n_classes) / max(1, voting.sum()), 1 / n_classes)
    bad = voting & (top >= _ODDS * own) & (own < limit[codes])
    odd = (top[:, None] >= _ODDS * chances) & (chances < limit)
    expected = float((chances * odd)[voting].sum())
    errors = int((voting & wrong).sum())
    if bad.sum() < max(_EXCESS * expected, _OF_ERRORS * errors, FEWEST * most[-1]):
        return voting
    left = np.append(most[:-1], most[-1] - out.sum())
    return voting & ~worst_in_classes(own_losses(chances, codes), bad, codes, left)


def trusted_classes(
    x: Array,
    codes: Array,
    voted: Array,
    rows: Array,
    most: tuple[Array, Array],
    rng: np.random.Generator,
    each: bool = False,
) -> Array:
    """Return the rows to trust.

    Parameters
    ----------
    x, codes : ndarray
        All rows, and their classes 0, 1, …
    voted : ndarray
        The losses of the voted model.
    rows : ndarray
        The rows that voted. They are judged in two rounds, from two starts: the voted model, and a plain fit to the
        rows that do not lie far out. The start that explains the rows better is taken. Other rows are judged once.
    most : tuple of ndarray
        The most rows of each class (and, last, of all) to leave out: among all rows, and among those that voted.
    rng : Generator
        Draws the folds.
    each : bool
        Whether the limit of each class bounds its corrupt rows.
    """
    scores = far_scores(x, codes, rows, int(most[1][-1]))
    n_folds = _N_FOLDS if len(rows) == len(x) else _N_FOLDS_OF_PART
    jury = Jury(x[rows], codes[rows], scores[rows], most[1], rng, each, n_folds)
    starts = [jury.without_worst(losses) for losses in (jury.plain_losses(~jury.far), voted[rows])]
    for _ in range(_N_ROUNDS):  # starts that come to trust the same rows go on as one
        found = [jury.judge(start) for start in starts]
        starts = [found[0][1]] + [kept for _, kept in found[1:] if not np.array_equal(kept, found[0][1])]
    kept = min(found, key=lambda one: one[0])[1]
    if len(rows) == len(x):
        trusted = np.empty(len(x), dtype=bool)
        trusted[rows] = kept
        return trusted
    chances = Judge(x, codes, rows[kept], jury.n_classes).probabilities(x)
    return trusted_by_chances(chances, codes, scores, far_in_classes(scores, codes, most[0], each), most[0])
