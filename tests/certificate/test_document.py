"""The certificate: its text, confidence and range."""

from __future__ import annotations

import math

import numpy as np
import pytest

from outvote.assumptions.assumption import FiniteVariance
from outvote.certificate import Certificate

UNIT = FiniteVariance(1.0)


def certificate(**change):
    base = {
        "radius": 0.21,
        "provenance": "certified",
        "log_delta": math.log(0.05),
        "requested_log_delta": math.log(0.05),
        "assumption": UNIT,
        "target": "mean",
    }
    return Certificate(**{**base, **change})


def test_str_of_a_certificate():
    assert str(certificate()) == (
        "certified 95 %: within 0.21 of the mean for any clean distribution with sd ≤ 1, "
        "if which rows are corrupt does not depend on their true values"
    )
    plug_in = certificate(provenance="plug-in", assumption=None, note="give assume= to certify it")
    assert str(plug_in) == (
        "plug-in 95 %: within 0.21 of the mean, if which rows are corrupt does not depend on their true values. "
        "give assume= to certify it"
    )
    clamped = certificate(log_delta=math.log(1e-4), provenance="as stated")
    assert "as stated 99.99 %" in str(clamped)
    assert "(95 % was requested)" in str(clamped)
    assert str(certificate(radius=math.inf, note="too many outliers")) == "no certificate: too many outliers"
    assert str(certificate(provenance="none", radius=math.inf)) == "no certificate"
    assert "within 0.1 to 0.3 of the mean" in str(certificate(radius=np.array([0.1, 0.3])))
    assert "certified 1 - 1e-300:" in str(certificate(log_delta=math.log(1e-300)))


def test_confidence_and_range_of_a_certificate():
    c = certificate(log_delta=math.log(0.01))
    assert c.confidence == pytest.approx(0.99)
    assert c.requested_confidence == pytest.approx(0.95)
    assert c.in_range
    assert certificate(log_delta_range=(-10.0, -1.0)).in_range
    assert not certificate(log_delta_range=(-10.0, -5.0)).in_range
