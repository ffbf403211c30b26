"""Fixtures of the tests of block summaries."""

import pytest


@pytest.fixture(params=["numpy", "numba"])
def form(request, monkeypatch):
    """Compute with numpy alone, or with the compiled forms where numba is installed."""
    module = None if request.param == "numpy" else pytest.importorskip("outvote._numba.functions")
    monkeypatch.setattr("outvote._numba.compiled", lambda seconds: module)
