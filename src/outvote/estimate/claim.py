"""Claims about a mean, a difference or a lift, read from text such as "mean > 3"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

_CLAIM = re.compile(r"\s*([a-z]+)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*(%?)\s*")


class Claim(NamedTuple):
    """A claim that something is larger, or smaller, than a number.

    Attributes
    ----------
    subject : str
        What it is about: "mean", "difference" or "lift".
    sign : int
        1 if it is claimed to be larger, -1 if smaller.
    bound : float
        The number.
    text : str
        The claim in words.

    Examples
    --------
    >>> Claim.read(" mean>=1.50 ", ["mean"])
    Claim(subject='mean', sign=1, bound=1.5, text='mean >= 1.50')
    >>> Claim.read("lift > 2 %", ["difference", "lift"]).bound
    0.02
    """

    subject: str
    sign: int
    bound: float
    text: str

    @classmethod
    def read(cls, claim: object, subjects: Sequence[str], hint: str = "") -> Claim:
        """Read a claim about one of the subjects."""
        match = _CLAIM.fullmatch(claim) if isinstance(claim, str) else None
        if match is None or match[1] not in subjects or (match[4] and match[1] != "lift"):
            examples = " or ".join(f"'{one} > 0'" for one in subjects)
            if len(subjects) == 1:
                examples += f" or '{subjects[0]} < 12.5'"
            error = ValueError if isinstance(claim, str) else TypeError
            raise error(f"claim={claim!r} must read like {examples}{hint}")
        try:
            bound = float(match[3]) / (100 if match[4] else 1)
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(f"claim={claim!r} compares with {match[3]!r}, which is not a finite number")
        sign = 1 if match[2].startswith(">") else -1
        return cls(match[1], sign, bound, f"{match[1]} {match[2]} {match[3]}{' %' * bool(match[4])}")
