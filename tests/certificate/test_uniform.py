"""Arguments of the radius for a class of models."""

import numpy as np
import pytest

from outvote.certificate import uniform_radius

GIVEN = {"n_blocks": 101, "n_corrupt": 5, "block_size": 100, "vc_dim": 3, "confidence": 0.95}


def test_small_integers_of_numpy_give_the_same_radius():
    small = {name: np.int8(value) if isinstance(value, int) else value for name, value in GIVEN.items()}
    assert uniform_radius(**small) == uniform_radius(**GIVEN)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"n_corrupt": -1}, ValueError), ({"n_blocks": 0}, ValueError), ({"block_size": 1}, ValueError),
        ({"vc_dim": 0}, ValueError), ({"vc_dim": 2.5}, TypeError), ({"degree": 0}, ValueError),
        ({"bound": 0.0}, ValueError), ({"bound": "1"}, TypeError), ({"n_blocks": 10**400}, ValueError),
    ],
)  # fmt: skip
def test_impossible_numbers_are_refused(change, error):
    with pytest.raises(error, match=next(iter(change))):
        uniform_radius(**{**GIVEN, **change})
