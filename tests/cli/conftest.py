"""A dirty file, for the tests of the command line."""

import csv

import numpy as np
import pytest


@pytest.fixture(scope="session")
def dirty(tmp_path_factory):
    """A file with wrong units in 20 rows, three empty cells, and text in one."""
    rng = np.random.default_rng(0)
    variant = rng.choice(["A", "B"], 5000)
    revenue = rng.exponential(np.where(variant == "A", 30.0, 60.0)).round(2)
    revenue[rng.choice(np.arange(100, 5000), 20, replace=False)] *= 1000
    cells = [f"{value:.2f}" for value in revenue]
    cells[17] = cells[19] = cells[23] = ""
    cells[41] = "12,50 EUR"
    path = tmp_path_factory.mktemp("data") / "dirty.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "variant", "revenue"])
        writer.writerows(zip(range(5000), variant, cells, strict=True))
    return path
