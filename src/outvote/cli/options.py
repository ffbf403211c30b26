"""The options that commands share, read into an `Asked`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from outvote.assumptions import Bounded, FiniteKurtosis, FiniteVariance, Proportion, SubGaussian
from outvote.cli.answer import Asked
from outvote.contamination import Contamination
from outvote.data.arguments import log_delta_of


def read_options(
    contamination: str,
    confidence: float,
    sd: float | None,
    bounds: tuple[float, float] | None,
    kurtosis: float | None,
    scale: float | None,
    vote: Any,
    nan: Any,
    seed: int,
    proportion: bool = False,
) -> Asked:
    """Read the options that the commands share."""
    amount = _amount(contamination)
    if amount != "auto":
        Contamination(amount)  # raises an error if the amount is impossible
    log_delta_of(confidence)
    assume = _assumption(sd, bounds, kurtosis, scale, proportion)
    return Asked(
        contamination=amount,
        confidence=confidence,
        assume=assume,
        vote=vote.value,
        nan=nan.value,
        seed=seed,
    )


def with_metric(
    asked: Asked,
    ratio: str | None,
    covariate: str | None,
    coefficient: float | None,
    unit: str | None,
    simultaneous: bool,
) -> Asked:
    """Add what variants are compared by."""
    found = replace(
        asked, ratio=ratio, covariate=covariate, coefficient=coefficient, unit=unit, simultaneous=simultaneous
    )
    found.check_metric()
    return found


def distinct_columns(value: str, by: str | None, segments: list[str] | None, asked: Asked) -> tuple[str, ...]:
    """Return the keys; refuse a column that has two parts, and options of variants without any."""
    if by is None:
        named = {"--ratio": asked.ratio, "--covariate": asked.covariate, "--unit": asked.unit, "--segment": segments}
        for option, name in named.items():
            if name:
                raise ValueError(f"{option} is for variants: give their column by --by COLUMN")
        return ()
    parts = {"--value": value, "--by": by, "--ratio": asked.ratio, "--covariate": asked.covariate, "--unit": asked.unit}
    seen: dict[str, str] = {}
    for option, name in [*parts.items(), *(("--segment", one) for one in segments or ())]:
        if name in seen:
            raise ValueError(f"{option} {name} and {seen[name]} {name} are the same column: name another")
        if name is not None:
            seen[name] = option
    return (by, *dict.fromkeys(segments or ()))


def _amount(text: str) -> Any:
    """Read a share (0.01 or 1%), a number of rows, or "auto"."""
    given = text.strip()
    try:
        if given == "auto":
            return given
        if given.endswith("%"):
            return float(Fraction(given[:-1].strip()) / 100)
        return float(given) if set(given) & set(".eE") else int(given)
    except ValueError:
        raise ValueError(
            f"--contamination {text!r} must be a share of the rows (0.01 or 1%), a number of rows (50), or auto"
        ) from None


def _assumption(
    sd: float | None,
    bounds: tuple[float, float] | None,
    kurtosis: float | None,
    scale: float | None,
    proportion: bool = False,
) -> Any:
    """Return the assumption that the options describe; an sd may go with bounds or with a kurtosis."""
    given = {"--proportion": proportion or None, "--bounds": bounds, "--kurtosis": kurtosis, "--scale": scale}
    named = [name for name, one in given.items() if one is not None]
    if len(named) > 1 or (sd is not None and named in (["--scale"], ["--proportion"])):
        both = " and ".join([*named, *(["--sd"] if sd is not None else [])])
        raise ValueError(f"{both} do not go together: use the strongest of them")
    if proportion:
        return Proportion()
    if bounds is not None:
        if not bounds[0] < bounds[1]:
            raise ValueError(f"--bounds {bounds[0]:g} {bounds[1]:g}: the first must be smaller than the second")
        return Bounded(*bounds, variance=None if sd is None else sd**2)
    if kurtosis is not None:
        return FiniteKurtosis(kurtosis, sd)
    if scale is not None:
        return SubGaussian(scale)
    return None if sd is None else FiniteVariance(sd)


def quantiles_of(text: str) -> float | list[float]:
    """Read which quantiles are asked for: "0.95", or several as "0.5,0.95".

    Examples
    --------
    >>> quantiles_of("0.95"), quantiles_of("0.5, 0.95")
    (0.95, [0.5, 0.95])
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--q {text!r} must be shares between 0 and 1, --q 0.5,0.95 for instance") from None
    return found if "," in text else found[0]
