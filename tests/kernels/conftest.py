"""Fixtures of the tests of kernels."""

from __future__ import annotations

import pytest


@pytest.fixture
def numpy_alone(monkeypatch):
    """Compute without numba: compiled/test_kernels.py compares the compiled forms with these."""
    monkeypatch.setattr("outvote._numba.compiled", lambda seconds: None)
