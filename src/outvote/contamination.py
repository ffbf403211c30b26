"""How many rows may be corrupt, and how to corrupt rows on purpose."""

from __future__ import annotations

import math
import numbers
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Amount = float | int | Fraction
Adversary = Literal["oblivious", "adaptive"]
Outliers = Callable[[np.random.Generator, NDArray[Any]], ArrayLike]
"""A function that takes a generator and clean rows, and returns as many corrupt rows."""


#: A share as people write it.
_PERCENT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*%")


class Corrupted(NamedTuple):
    """Data with outliers, and the positions of the outliers.

    Examples
    --------
    >>> import numpy as np
    >>> from outvote.contamination import Contamination, dirac
    >>> data, rows = Contamination(2).inject(np.zeros(5), dirac(9.0), rng=0)
    >>> data, np.sort(rows)
    (array([0., 0., 0., 9., 9.]), array([3, 4]))
    """

    data: NDArray[Any]
    rows: NDArray[np.intp]


@dataclass(frozen=True)
class Growth:
    """At most C²·nᵃ corrupt rows among n (Assumption `ass:sub_linear`), in exact arithmetic.

    Examples
    --------
    >>> from fractions import Fraction
    >>> Growth(Fraction(2), Fraction(1, 2)).count(10_000)
    400
    """

    constant: Fraction
    exponent: Fraction

    def count(self, n_rows: int) -> int:
        """Return ⌊C²·nᵃ⌋, at most n. It is the largest m with m^q ≤ C^{2q}·n^p, where a = p/q."""
        p, q = self.exponent.numerator, self.exponent.denominator
        limit = math.floor(self.constant ** (2 * q) * n_rows**p)
        return bisect_right(range(n_rows + 1), limit, key=lambda m: m**q) - 1


@dataclass(frozen=True)
class Contamination:
    """How many rows may be corrupt.

    Parameters
    ----------
    amount : float, int, Fraction, str or tuple of these
        A float (or Fraction) in [0, 1/2), or a text such as "1%", is a fraction ε: at most ⌈ε·n⌉ rows are corrupt,
        computed from the decimal as written (0.29 of 100 rows is 29, 0.01 of 23 rows is 1); rounding up never makes the
        corrupt rows a majority. An int is a number of rows (n_O). A tuple gives one amount for each sample.
    adversary : {"oblivious", "adaptive"}
        *oblivious*: which rows are corrupt does not depend on their true values (corrupt rows were added, or chance
        picked the rows); what stands there may depend on everything. *adaptive*: it may depend on them. Say so if
        large values go wrong more often (saturation, overflow, a limit), or if someone saw the clean rows and
        chose which of them to replace. Intervals get wider.

    Examples
    --------
    >>> Contamination(0.29).count(100), Contamination(0.01).count(23), Contamination(0.01).count(1)
    (29, 1, 0)
    >>> Contamination((0.01, 5)).counts((1000, 200))
    (10, 5)
    >>> Contamination.growth(exponent=0.5).count(10_000)
    100
    """

    amount: Amount | tuple[Amount, ...] | Growth
    adversary: Adversary = "oblivious"

    def __post_init__(self) -> None:
        if not isinstance(self.adversary, str) or self.adversary not in ("oblivious", "adaptive"):
            raise ValueError(f"adversary={self.adversary!r} is neither 'oblivious' nor 'adaptive'")
        several = isinstance(self.amount, (list, tuple))
        amounts = tuple(_checked(one) for one in (self.amount if several else (self.amount,)))  # type: ignore[union-attr]
        if not amounts:
            raise ValueError("contamination=() is empty: give one amount for each sample")
        object.__setattr__(self, "amount", amounts if several else amounts[0])

    @classmethod
    def of(cls, value: Contamination | Amount | str | Sequence[Amount | str]) -> Contamination:
        """Return `value` as a Contamination."""
        if isinstance(value, Contamination):
            return value
        value = value.tolist() if isinstance(value, np.ndarray) else value
        return cls(tuple(value) if isinstance(value, list) else value)  # type: ignore[arg-type]

    @classmethod
    def growth(cls, constant: float = 1.0, exponent: float = 0.5, adversary: Adversary = "oblivious") -> Contamination:
        """Return the contamination of at most C²·nᵃ corrupt rows among n, as the paper assumes.

        Parameters
        ----------
        constant : float
            C_O ≥ 1.
        exponent : float
            α_O in [0, 1).
        adversary : {"oblivious", "adaptive"}
            As for the class.
        """
        if not constant >= 1 or math.isinf(constant):
            raise ValueError(f"constant={constant!r} must be a finite number of at least 1")
        if not 0 <= exponent < 1:
            raise ValueError(f"exponent={exponent!r} must lie in [0, 1): outliers grow slower than the rows")
        # An exponent of up to four decimals is kept as written; the float 1/3 becomes the fraction 1/3.
        return cls(Growth(_exact(constant), _exact(exponent).limit_denominator(10_000)), adversary)

    def counts(self, n_rows: Sequence[int]) -> tuple[int, ...]:
        """Return how many rows may be corrupt in each sample, given the samples' numbers of rows."""
        return tuple(self._count(amount, n) for amount, n in zip(self._amounts(len(n_rows)), n_rows, strict=True))

    def of_sample(self, number: int, n_samples: int) -> Contamination:
        """Return the contamination of one of several samples."""
        return replace(self, amount=self._amounts(n_samples)[number])

    def _amounts(self, n_samples: int) -> tuple[Amount | Growth, ...]:
        amounts = self.amount if isinstance(self.amount, tuple) else (self.amount,) * n_samples
        if len(amounts) != n_samples:
            there = "is 1 sample" if n_samples == 1 else f"are {n_samples} samples"
            raise ValueError(
                f"contamination={self.amount!r} has {len(amounts)} amounts, but there {there}: give one amount "
                "for each sample, or a single amount for all"
            )
        return amounts

    def count(self, n_rows: int) -> int:
        """Return how many of `n_rows` rows may be corrupt."""
        return self.counts((n_rows,))[0]

    def rounded_down(self, n_rows: Sequence[int]) -> tuple[int, ...]:
        """Return ⌊ε·n⌋ for each sample: how many rows to corrupt on purpose, or to allow for in a batch.

        Examples
        --------
        >>> Contamination(0.01).rounded_down((99, 250))
        (0, 2)
        """
        amounts = zip(self._amounts(len(n_rows)), n_rows, strict=True)
        return tuple(self._count(amount, n, round_up=False) for amount, n in amounts)

    def _count(self, amount: Amount | Growth, n_rows: int, *, round_up: bool = True) -> int:
        if isinstance(amount, Growth):
            count = amount.count(n_rows)
        elif isinstance(amount, numbers.Integral):
            count = int(amount)
        else:
            share = _exact(amount) * n_rows
            count = math.floor(share)
            if round_up:
                count = min(math.ceil(share), max(count, (n_rows - 1) // 2))
        most = max((n_rows - 1) // 2, 0)
        if count > most:
            raise ValueError(
                f"contamination={amount!r} means {count} corrupt rows among {n_rows}, "
                f"but the clean rows must be in the majority: the largest count here is {most}"
            )
        return count

    def inject(
        self,
        x: ArrayLike,
        outliers: Outliers | float,
        *,
        how: Literal["replace", "add"] = "replace",
        rng: int | np.random.Generator | None = None,
    ) -> Corrupted:
        """Corrupt a sample on purpose.

        Parameters
        ----------
        x : array-like
            Clean rows (first axis). It is not modified.
        outliers : callable or float
            `dirac`, `uniform_box`, `heavy_tail`, `label_flip`, or your own
            ``f(generator, clean_rows) -> corrupt_rows`` of the same shape. A number x means ``dirac(x)``.
        how : {"replace", "add"}
            Replace rows drawn at random, or append new rows. The number of outliers is computed from
            the number of rows in `x`.
        rng : int, Generator or None
            Seed.

        Returns
        -------
        Corrupted
            ``data``, and ``rows``: the positions of the outliers in it.

        Examples
        --------
        >>> corrupted = Contamination(0.1).inject(np.zeros(20), 7.0, rng=0)
        >>> corrupted.data.sum(), corrupted.rows.size
        (np.float64(14.0), 2)
        """
        clean = _array("x", x)
        if clean.ndim == 0 or not len(clean):
            raise ValueError("x has no rows to corrupt: give at least one row")
        if not isinstance(how, str) or how not in ("replace", "add"):
            raise ValueError(f"how={how!r} is neither 'replace' nor 'add'")
        rule = dirac(outliers) if isinstance(outliers, numbers.Real) else outliers
        if not callable(rule):
            raise TypeError(f"outliers={outliers!r} is neither a number nor a function of (generator, rows)")
        try:
            generator = np.random.default_rng(rng)
        except (TypeError, ValueError):
            raise TypeError(f"rng={rng!r} must be an integer seed of at least 0, a numpy Generator, or None") from None
        n_rows, (count,) = len(clean), self.rounded_down((len(clean),))
        rows = np.sort(generator.choice(n_rows, size=count, replace=False))
        bad = _array("what outliers returned", rule(generator, clean[rows]))
        if bad.shape != (count, *clean.shape[1:]):
            raise ValueError(
                f"outliers returned shape {bad.shape} for {count} rows; expected {(count, *clean.shape[1:])}"
            )
        data = clean.astype(np.result_type(clean, bad), copy=True)
        if how == "add":
            return Corrupted(np.concatenate([data, bad]), np.arange(n_rows, n_rows + count))
        data[rows] = bad
        return Corrupted(data, rows)


def _array(name: str, given: Any) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:
        raise ValueError(f"{name} is ragged: its rows have different lengths") from None


def dirac(value: ArrayLike) -> Outliers:
    """Return a rule under which every outlier is `value` (δ_value in the paper's experiments).

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> ov.Contamination(2).inject(np.zeros(5), dirac(1e6), rng=0).data
    array([      0.,       0.,       0., 1000000., 1000000.])
    """
    return lambda rng, rows: np.broadcast_to(_row(value, rows), rows.shape)


def uniform_box(low: float | Sequence[float], high: float | Sequence[float]) -> Outliers:
    """Return a rule that draws outliers uniformly from the box from `low` to `high` (numbers, or one per column).

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> corrupted = ov.Contamination(1).inject(np.zeros((3, 2)), uniform_box([5, 50], [6, 60]), rng=0)
    >>> corrupted.data.astype(int)
    array([[ 0,  0],
           [ 0,  0],
           [ 5, 50]])
    """
    return lambda rng, rows: rng.uniform(_row(low, rows), _row(high, rows), size=rows.shape)


def heavy_tail(scale: float = 1.0, index: float = 1.0) -> Outliers:
    """Return a rule that draws outliers of random sign whose size has a Pareto tail of this index (no mean if ≤ 1).

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> corrupted = ov.Contamination(3).inject(np.zeros(7), heavy_tail(scale=10.0), rng=0)
    >>> bool((np.abs(corrupted.data[corrupted.rows]) >= 10.0).all())
    True
    """
    return lambda rng, rows: scale * rng.choice([-1.0, 1.0], size=rows.shape) * (1 + rng.pareto(index, size=rows.shape))


def label_flip(classes: Sequence[Any]) -> Outliers:
    """Return a rule that replaces the label of a row by another, drawn from the other `classes`.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> labels = np.array([0, 1, 1, 0, 1])
    >>> corrupted = ov.Contamination(2).inject(labels, label_flip([0, 1]), rng=0)
    >>> corrupted.data, np.flatnonzero(corrupted.data != labels)
    (array([0, 1, 1, 1, 0]), array([3, 4]))
    """
    labels = np.unique(np.asarray(list(classes)))
    if len(labels) < 2:
        raise ValueError(f"classes={list(classes)!r} leaves no other label to flip to: give at least two labels")

    def flip(rng: np.random.Generator, rows: NDArray[Any]) -> NDArray[Any]:
        own = np.searchsorted(labels, rows).clip(max=len(labels) - 1)
        if not np.array_equal(labels[own], rows):
            raise ValueError(f"a row's label is not among classes={labels.tolist()!r}")
        return labels[(own + rng.integers(1, len(labels), size=rows.shape)) % len(labels)]

    return flip


def _row(value: ArrayLike, rows: NDArray[Any]) -> NDArray[Any]:
    """Return `value` (a number, or one number per column) in the shape of one row of `rows`."""
    given, shape = np.asarray(value), rows.shape[1:]
    try:
        return np.broadcast_to(given, shape)
    except ValueError:
        raise ValueError(f"an outlier of shape {given.shape} does not fit rows of shape {shape}") from None


def _checked(amount: Any) -> Amount | Growth:
    """Return an amount as a number of Python's; numpy's have limits of their own."""
    if isinstance(amount, Growth):
        return amount
    if isinstance(amount, str) and (percent := _PERCENT.fullmatch(amount.strip())):
        amount = float(Fraction(percent[1]) / 100)
    if isinstance(amount, (bool, np.bool_)) or not isinstance(amount, numbers.Real):
        raise TypeError(
            f"contamination={amount!r} must be a fraction below 0.5 (a float, or '1%'), a count (int), "
            "or a tuple with one of these for each sample"
        )
    if isinstance(amount, numbers.Integral):
        if amount < 0:
            raise ValueError(f"contamination={amount!r} is a negative count: the smallest is 0")
        return int(amount)
    share: Any = amount
    if share < 0:
        raise ValueError(f"contamination={amount!r} is negative: the smallest is 0")
    if not 0 <= share < Fraction(1, 2):
        hint = "; write a number of rows as an int" if share >= 1 else ""
        raise ValueError(
            f"contamination={amount!r} must be a fraction below 0.5: the clean rows must be in the majority{hint}"
        )
    return amount if isinstance(amount, Fraction) else float(str(amount))


@lru_cache(maxsize=256, typed=True)
def _exact(value: Amount) -> Fraction:
    """Return the decimal as the user wrote it, not the binary number nearest to it."""
    return value if isinstance(value, Fraction) else Fraction(str(value))
