"""Helpers for the learning experiments: splits, outliers, descents, and traces of their test loss.

The paper does not give step sizes, starts and the spread of its outliers: the values here were found by trial, and
reproduce its table. Columns are standardised, ranking targets are not; 80 % of the rows are training rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba, datasets
from outvote.paper.experiments.base import Piece, Table, column, mean_and_error
from outvote.plotting.base import LINES

if TYPE_CHECKING:
    from outvote.learning import PairLoss, RobustLearner, State

Array = NDArray[Any]
Rows = tuple[Array, Array]


@dataclass(frozen=True)
class Setting:
    """One data set of the paper: outliers as a share of the sane training rows, K, γ, epochs, and λ."""

    share: float
    n_blocks: int
    step: float
    epochs: int
    shift: float = 0.0


#: K is the harmonic number of blocks; for iris it is one less, because sane rows would have blocks of two.
SETTINGS = {
    "iris": Setting(0.1, 40, 0.03, 1000),
    "boston": Setting(0.02, 31, 0.1, 1000, -500.0),
    "wine": Setting(0.05, 234, 1.0, 500, 50.0),
}
#: The paper's four descents, in the order of the line styles.
DESCENTS = (("MoU-GD", "contaminated"), ("GD", "contaminated"), ("GD", "sane"), ("MoU-GD", "sane"))
#: The number of last epochs over which the standard deviation of a path is computed.
TAIL = 100


@cache
def load(name: str) -> Rows:
    """Return a data set with standardised columns and unchanged targets."""
    _numba.compiled(math.inf)  # now, so that the last digits do not depend on earlier work of this process
    read = {"iris": datasets.load_iris, "boston": datasets.load_boston, "wine": datasets.load_red_wine}
    data = read[name]()
    return (data.X - data.X.mean(axis=0)) / data.X.std(axis=0), data.y


def split(name: str, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Return sane training rows, four fifths of all, and test rows."""
    x, y = load(name)
    order, cut = rng.permutation(len(x)), int(0.8 * len(x))
    train, test = order[:cut], order[cut:]
    return (x[train], y[train]), (x[test], y[test])


def corrupt(
    name: str, rng: np.random.Generator, sane: Rows, weights: Array | None = None, share: float | None = None
) -> tuple[Rows, Array]:
    """Add the paper's outliers to sane rows.

    Parameters
    ----------
    name : {"iris", "boston", "wine"}
        For iris the outliers are uniform on [0, 5]⁴ with label 2; for ranking, uniform within 1 of (-λ·weights, λ).
    rng : Generator
        Generator of the outliers.
    sane : tuple of ndarray
        Rows and targets.
    weights : ndarray, optional
        The weights of plain descent on the sane rows, which ranking needs.
    share : float, optional
        Number of outliers as a share of the sane rows; the paper's share by default.

    Returns
    -------
    tuple of ndarray, ndarray
        Sane rows and outliers, and a mask of the outliers.
    """
    return add_outliers(name, sane, draw_outliers(name, rng, sane, share), weights)


def draw_outliers(name: str, rng: np.random.Generator, sane: Rows, share: float | None = None) -> Rows:
    """Draw outliers around 0, which `add_outliers` moves to their place; see `corrupt`."""
    x, _ = sane
    count = round((SETTINGS[name].share if share is None else share) * len(x))
    if name == "iris":
        return rng.uniform(0, 5, size=(count, x.shape[1])), np.full(count, 2)
    return rng.uniform(-1, 1, size=(count, x.shape[1])), rng.uniform(-1, 1, size=count)


def add_outliers(name: str, sane: Rows, drawn: Rows, weights: Array | None) -> tuple[Rows, Array]:
    """Move the outliers to their place and append them to the sane rows; see `corrupt`."""
    (x, y), (bad_x, bad_y), shift = sane, drawn, SETTINGS[name].shift
    if weights is not None:
        bad_x, bad_y = -shift * weights + bad_x, shift + bad_y
    return (np.vstack([x, bad_x]), np.concatenate([y, bad_y])), np.arange(len(x) + len(bad_x)) >= len(x)


def sane_weights(name: str, sane: Rows, seed: int, shorter: int = 4) -> Array | None:
    """Return the weights of plain descent on sane rows after a quarter of the epochs; None for iris."""
    return sane_weights_of_each(name, [sane], [seed], shorter)[0]


def sane_weights_of_each(
    name: str, sane: Sequence[Rows], seeds: Sequence[int], shorter: int = 4
) -> list[Array] | list[None]:
    """Return `sane_weights` for the sane rows of several runs."""
    from outvote.paper.experiments.fit_together import fit_together

    if name == "iris":
        return [None for _ in sane]
    epochs = max(1, SETTINGS[name].epochs // shorter)
    models = [descent(name, "GD", max_iter=epochs, random_state=seed) for seed in seeds]
    return [np.asarray(model.coef_) for model in fit_together(models, sane)]


def descent(name: str, algorithm: str, **options: Any) -> Any:
    """Return a learner with the paper's settings, except for the given options.

    Parameters
    ----------
    name : {"iris", "boston", "wine"}
        The data set.
    algorithm : {"GD", "MoU-GD"}
        Plain descent on the mean over all pairs, or Algorithm 1.
    **options
        As for `outvote.RobustRanker` and `outvote.RobustMetricLearner`.
    """
    from outvote.learning import RobustMetricLearner, RobustRanker

    setting = SETTINGS[name]
    known: dict[str, Any] = {
        "algorithm": "paper",
        "contamination": 0,
        "n_blocks": setting.n_blocks,
        "step_size": setting.step,
        "max_iter": setting.epochs,
    }
    if algorithm == "GD":
        known |= {"n_blocks": 1, "middle": 1.0}
    if name == "iris":
        return RobustMetricLearner(**(known | {"init": np.eye(4)} | options))
    return RobustRanker(**(known | {"loss": "product"} | options))


def accepts(model: RobustLearner, rows: Rows) -> bool:
    """Fit a model, and return False if it raises `DivergenceError`."""
    return accepted([model], [rows])[0]


def accepted(models: Sequence[RobustLearner], data: Sequence[Rows]) -> list[bool]:
    """Fit models, each on its own rows, and return which did not raise `DivergenceError`."""
    from outvote.learning import DivergenceError
    from outvote.paper.experiments.fit_together import fit_together

    return [not isinstance(found, DivergenceError) for found in fit_together(models, data, errors="return")]


def loss_of(name: str) -> PairLoss:
    """Return the paper's loss of a pair."""
    from outvote.learning.losses import MetricHinge, ProductHinge

    return MetricHinge() if name == "iris" else ProductHinge()


def model_loss(name: str, model: Any, test: Rows) -> float:
    """Return the paper's objective of a fitted model, over all pairs of the test rows."""
    x, y = test
    scores = model.transform(x) if name == "iris" else model.predict(x)
    return float(loss_of(name).risks(scores[:, None], y[:, None])[0])


class Trace:
    """A callback that records the risk of every epoch, and the loss on the test rows in some epochs.

    It also records descents that end in a `DivergenceError`, which leave no fitted model.

    Parameters
    ----------
    name : {"iris", "boston", "wine"}
        The data set, which determines the loss.
    test : tuple of ndarray
        Test rows.
    every : int
        Test after the first epoch, and whenever this many epochs have passed.
    begin : int
        Do not test before this many epochs.
    scaling : tuple of ndarray, optional
        Centre and scale of the columns inside the learner, if it scales them.

    Attributes
    ----------
    epochs : list
        The epochs of the test losses.
    risks : list
        The risk of the median block before the step of each epoch.
    theta, mean_theta : ndarray
        The last parameter, and the mean of the parameters of the last half.
    """

    def __init__(
        self, name: str, test: Rows, every: int = 10, begin: int = 0, scaling: tuple[Array, Array] | None = None
    ):
        from outvote.learning.scaling import ScaledRows

        x, self.targets = test
        centre, scale = (np.zeros(x.shape[1]), np.ones(x.shape[1])) if scaling is None else scaling
        self.loss, self.design = loss_of(name), ScaledRows(x, centre, scale)
        self.every, self.begin = every, begin
        self.epochs: list[int] = []
        self.risks: list[float] = []
        self.theta: Array = np.zeros(0)
        self._losses: list[float] = []
        self._untested: list[Array] = []
        self._total: Any = 0.0
        self._averaged = 0

    def __call__(self, state: State) -> None:
        """Record an epoch."""
        done = state.epoch + 1
        self.risks.append(float(state.risk))
        self.theta = state.theta
        if 2 * done > state.n_epochs:
            self._total, self._averaged = self._total + state.theta, self._averaged + 1
        if done > self.begin and (done == 1 or done % self.every == 0):
            self.epochs.append(done)
            self._untested.append(state.theta)

    @property
    def losses(self) -> list[float]:
        """The test losses so far, computed together when they are read."""
        if self._untested:
            self._losses += self._tested(self._untested)
            self._untested = []
        return self._losses

    @property
    def mean_theta(self) -> Array:
        """The mean of the parameters of the last half."""
        return np.asarray(self._total / self._averaged)

    def loss_at(self, theta: Array) -> float:
        """Return the test loss of a parameter."""
        return self._tested([theta])[0]

    def _tested(self, thetas: Sequence[Array]) -> list[float]:
        scores = np.stack([self.loss.scores(self.design, theta) for theta in thetas], axis=1)
        return [float(risk) for risk in self.loss.risks(scores, np.repeat(self.targets[:, None], len(thetas), axis=1))]

    def jitter(self) -> float:
        """Return the standard deviation of the test losses of the last epochs."""
        return float(np.std([loss for at, loss in zip(self.epochs, self.losses, strict=True) if at > self._late]))

    def risk_jitter(self) -> float:
        """Return the standard deviation of the training risks of the last epochs."""
        return float(np.std(self.risks[self._late :]))

    @property
    def _late(self) -> int:
        return max(len(self.risks) - TAIL, len(self.risks) // 2)


def seed_from(rng: np.random.Generator) -> int:
    """Draw a seed for a learner."""
    return int(rng.integers(2**31))


def cut_runs(runs: int, most: int, together: int, cost: float, settings: Mapping[str, Any]) -> list[Piece]:
    """Cut runs into pieces; a run takes about `cost` seconds.

    At most `most` runs share a generator, and `together` generators make a piece; its setting `runs` has the number
    of runs of each generator.
    """
    counts = [min(most, runs - first) for first in range(0, runs, most)]
    parts = [counts[low : low + together] for low in range(0, len(counts), together)]
    return [Piece({**settings, "runs": part}, cost * sum(part), streams=len(part)) for part in parts]


def each_run(rngs: Sequence[np.random.Generator], runs: Sequence[int]) -> Iterator[np.random.Generator]:
    """Yield the generator of every run of a piece."""
    return (rng for rng, count in zip(rngs, runs, strict=True) for _ in range(count))


def group(records: Sequence[dict[str, Any]], *by: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Return groups of records that agree in some cells, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in by), []).append(record)
    return groups


def spread(values: Any) -> dict[str, float | None]:
    """Return mean, standard deviation and standard error; the last two are None for a single run."""
    mean, error = mean_and_error(values)
    several = len(values) > 1
    return {
        "mean": mean,
        "standard deviation": float(np.std(values, ddof=1)) if several else None,
        "standard error": error if several else None,
    }


def average_paths(records: Sequence[dict[str, Any]], by: Sequence[str], curves: Sequence[str]) -> Table:
    """Return mean, standard error and quartiles over the runs of each group, for every curve and epoch."""
    table = []
    for cells, runs in group(records, *by).items():
        paths = {curve: np.array([run[curve] for run in runs]) for curve in curves}
        for place, epoch in enumerate(runs[0]["epochs"]):
            row: dict[str, Any] = {**dict(zip(by, cells, strict=True)), "epoch": epoch}
            for curve, values in paths.items():
                found = spread(values[:, place])
                low, middle, high = (float(q) for q in np.quantile(values[:, place], [0.25, 0.5, 0.75]))
                row |= {f"{curve} mean": found["mean"], f"{curve} standard error": found["standard error"]}
                row |= {f"{curve} lower quartile": low, f"{curve} median": middle, f"{curve} upper quartile": high}
            table.append(row)
    return table


def draw_paths(ax: Any, table: Table, curve: str, *, quartiles: bool = False, **where: Any) -> None:
    """Draw the paper's four descents against the epochs: means and two standard errors, or medians and quartiles."""
    for (name, rows), style in zip(DESCENTS, LINES, strict=False):
        chosen = {"descent": name, "rows": rows, **where}

        def of(what: str, chosen: dict[str, Any] = chosen) -> Array:
            return column(table, f"{curve} {what}", **chosen).astype(float)

        if quartiles:
            middle, low, high = of("median"), of("lower quartile"), of("upper quartile")
        else:
            middle, error = of("mean"), np.nan_to_num(of("standard error"))
            low, high = middle - 2 * error, middle + 2 * error
        epochs = column(table, "epoch", **chosen)
        ax.plot(epochs, middle, label=f"{name}, {rows} rows", **style)
        ax.fill_between(epochs, low, high, color=style["color"], alpha=0.15, lw=0)
    ax.set_xlabel("epochs")
    ax.grid(alpha=0.3, which="both", lw=0.5)


def share_legend(figure: Any, ax: Any, columns: int = 4) -> None:
    """Put one legend for all panels below the figure."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small", frameon=False)


def log_ticks(ax: Any) -> None:
    """Make the vertical axis logarithmic, with a few ticks at plain numbers."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [digit * 10.0**power for power in range(-9, 9) for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) > 3:
            break
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks([], minor=True)
    ax.set_ylim(low, high)
