"""Checks of arguments, each with an error that names the argument, its value and what would work."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, get_args

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

#: The largest number of rows or blocks; floats count every number up to here.
MOST = 2**53
#: Below it the logarithm of 1 - confidence has no digits left.
_LEAST_CONFIDENCE = 1e-6
#: More processes than this help nowhere; far more, no machine can start.
_MOST_JOBS = 10_000


#: What arguments are called elsewhere, and here.
_ALIASES = {
    "nan": "nan_policy", "epsilon": "contamination", "eps": "contamination", "seed": "rng", "random_state": "rng",
    "level": "confidence", "alpha": "confidence", "assumption": "assume",
}  # fmt: skip


def hinting(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that names the nearest argument when it is called with one that it does not have.

    Examples
    --------
    >>> def scaled(x, factor=1):
    ...     return factor * x
    >>> hinting(scaled)(3, fctor=2)
    Traceback (most recent call last):
    TypeError: scaled() has no argument 'fctor': did you mean factor?
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            there = error.__traceback__
            if there is not None and there.tb_next is None:  # it is about the call itself
                _refuse_unknown(function, kwargs)
            raise

    return called


def _refuse_unknown(function: Callable[..., Any], given: Iterable[str]) -> None:
    """Refuse an argument that a function does not have, with the nearest one that it has."""
    known = list(inspect.signature(function).parameters)
    for name in given:
        if name in known:
            continue
        alias = [one for one in [_ALIASES.get(name)] if one in known]
        near = alias or difflib.get_close_matches(name, known, 1)
        hint = f": did you mean {near[0]}?" if near else f": it takes {', '.join(known)}"
        if name == "by":
            hint = ": groups are those of a table, outvote.scan(frame).mean('column', by='group')"
        raise TypeError(f"{function.__name__}() has no argument {name!r}{hint}") from None


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value that is not one of the `choices`, a Literal.

    Examples
    --------
    >>> from typing import Literal
    >>> check_choice("side", "left", Literal["left", "right"])
    >>> check_choice("side", "top", Literal["left", "right"])
    Traceback (most recent call last):
    ValueError: side='top' must be one of 'left', 'right'
    """
    allowed = get_args(choices)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")


def log_delta_of(confidence: object) -> float:
    """Return the logarithm of the failure probability δ of a confidence 1 - δ.

    Examples
    --------
    >>> round(math.exp(log_delta_of(0.95)), 12)
    0.05
    """
    return math.log1p(-_probability("confidence", confidence))


def log_failure(confidence: float | None, delta: float | None) -> float:
    """Return the logarithm of the failure probability δ, from exactly one of `confidence` (1 - δ) and `delta`.

    Examples
    --------
    >>> log_failure(None, 1e-300) == math.log(1e-300)
    True
    """
    if (confidence is None) == (delta is None):
        raise ValueError(
            f"give exactly one of confidence={confidence!r} and delta={delta!r}, for instance confidence=0.95"
        )
    return log_delta_of(confidence) if delta is None else math.log(_probability("delta", delta))


def real(name: str, value: object, what: str = "a number") -> float:
    """Return a number as a Python float, so that what is computed from it does not depend on its type.

    Examples
    --------
    >>> real("high", np.int8(100)) - real("low", np.int8(-100))
    200.0
    """
    if not is_number(value):
        raise TypeError(f"{name}={value!r} must be {what}")
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError(f"{name} is too large for a float: the largest is {sys.float_info.max:.3g}") from None


def _probability(name: str, value: object) -> float:
    number = real(name, value, "a number strictly between 0 and 1")
    if name == "confidence" and 0 < number < _LEAST_CONFIDENCE:
        raise ValueError(f"{name}={value!r} says nothing: give at least {_LEAST_CONFIDENCE}, 0.95 for instance")
    if not 0 < number < 1:
        usual = 0.95 if name == "confidence" else 0.05
        hint = f": did you mean {number / 100}?" if name == "confidence" and 50 <= number < 100 else ""
        raise ValueError(f"{name}={value!r} must lie strictly between 0 and 1, {usual} for instance{hint}")
    return number


def check_flags(**flags: object) -> None:
    """Refuse what is neither True nor False.

    Examples
    --------
    >>> check_flags(relative=True)
    >>> check_flags(relative="no")
    Traceback (most recent call last):
    TypeError: relative='no' must be True or False
    """
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}={value!r} must be True or False")


def is_number(value: object) -> bool:
    """Return whether a value is a real number, of Python or numpy, and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def is_whole(value: object) -> bool:
    """Return whether a value is an integer, of Python or numpy, and not a boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))


def per_sample(name: str, value: Any, n_samples: int) -> tuple[Any, ...]:
    """Return one entry for each sample, from a single value or a sequence of values.

    Examples
    --------
    >>> per_sample("n_blocks", 5, 2), per_sample("n_blocks", (5, 7), 2)
    ((5, 5), (5, 7))
    """
    value = value.tolist() if isinstance(value, np.ndarray) else value
    several = isinstance(value, Sequence) and not isinstance(value, str)
    entries = tuple(value) if several else (value,) * n_samples
    if not entries:
        raise ValueError(f"{name}={value!r} names no sample: give one for each")
    if len(entries) != n_samples:
        raise ValueError(
            f"{name}={value!r} has {len(entries)} entries for {n_samples} samples: give one, or one for each"
        )
    return entries


def whole_per_sample(name: str, value: Any, n_samples: int, least: int = 1) -> tuple[int, ...]:
    """Return one integer for each sample, none below `least`."""
    entries = per_sample(name, value, n_samples)
    for entry in entries:
        if not is_whole(entry):
            raise TypeError(f"{name}={value!r} must be an integer, or a tuple with one for each sample")
        _check_size(name, value, entry, least)
    return tuple(int(entry) for entry in entries)


def whole(name: str, value: object, least: int = 0) -> int:
    """Return one integer of Python's, not below `least`.

    Examples
    --------
    >>> whole("n_rows", np.int8(100)) * 2
    200
    """
    if not is_whole(value):
        raise TypeError(f"{name}={value!r} must be an integer")
    _check_size(name, value, value, least)
    return int(value)  # type: ignore[call-overload]


def number_of_jobs(n_jobs: object, name: str = "n_jobs") -> int | None:
    """Return a number of jobs as joblib takes it.

    Examples
    --------
    >>> number_of_jobs(np.int8(2)), number_of_jobs(-1), number_of_jobs(None)
    (2, -1, None)
    >>> number_of_jobs(0)
    Traceback (most recent call last):
    ValueError: n_jobs=0 must be a number of jobs from 1 to 10000, or -1 for all processors
    """
    if n_jobs is None:
        return None
    if not is_whole(n_jobs) or n_jobs == 0 or abs(n_jobs) > _MOST_JOBS:  # type: ignore[arg-type]
        what = f"a number of jobs from 1 to {_MOST_JOBS}, or -1 for all processors"
        raise ValueError(f"{name}={n_jobs!r} must be {what}")
    return int(n_jobs)  # type: ignore[call-overload]


def _check_size(name: str, given: object, entry: Any, least: int) -> None:
    if entry < least:
        raise ValueError(f"{name}={given!r} must be at least {least}")
    if entry > MOST:
        raise ValueError(f"{name} must be at most 2**53, beyond which floats do not count every number")
