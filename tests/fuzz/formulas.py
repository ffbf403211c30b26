"""Random calls without rows: certificates, the paper's formulas, corruption on purpose; kernels of one's own, plots."""

import math

import dask
import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from tests.fuzz import hold
from tests.fuzz.fault import check
from tests.fuzz.values import WRONG, WRONG_ROWS, arguments, assumption, corrupted, numbers, pick, rows

import outvote as ov

COUNTS = (1, 2, 5, 11, 41, 1000, np.int8(101), 10**7, (11, 21), 0)
ANY = {
    "n_blocks": COUNTS,
    "n_corrupt": (0, 1, 2, 5, np.int16(20), 10**5, (1, 2)),
    "block_size": (1, 2, 10, np.int8(100), 10**6, [2, 3, 5], (10, 20)),
    "confidence": (0.95, 0.5, 0.999),
    "adversary": ("oblivious", "adaptive"),
    "alternative": ("two-sided", "less", "greater"),
    "vote": ("median", "soft", "clipped", "auto", "evidence"),
    "degrees": ((1,), (2,), (1, 1)),
    "grid": ("full", "diagonal"),
    "kurtosis": (3.0, 9.0, 1.0),
    "vc_dim": (1, 3, 100),
    "bound": (1.0, 1e-9, 1e300),
    "degree": (1, 2, 3),
    "huber_rate": (None, 0.1),
    "n_rows": (None, 100, 10**9),
    "n": (1, 10, 1000, 10**6, (100, 200)),
    "n_outliers": (0, 1, 3, 100, (1, 2)),
    "delta": (0.05, 1e-3, 1e-200),
    "log_delta": (-3.0, -1e5),
    "mapping": ("harmonic", "geometric", "arithmetic", "polynomial", lambda e: 2.5 * e),
    "claim": (1, 2, None),
    "scale": (1.0, 1e-300, 1e300, 0.0),
    "growth": (None, (1.0, 0.5), (0.5, 2.0)),
    "covering": (None, (1.0, 2.0)),
    "clamp": (False, True),
    "epsilon": (0.0, 0.01, 0.2, 0.5, np.float32(0.1), [0.01, 0.1]),
    "layout": ("single", "full", "diagonal"),
    "statement": (
        "standard",
        "mom",
        "mou",
        "mou2",
        "mou2-diagonal",
        "mou-multi",
        "hoeffding",
        "entropy",
        "mou-minimizer",
    ),
}
CERTIFICATES = {
    "radius": ("n_blocks", "n_corrupt", "block_size"),
    "expected_error": ("n_blocks", "n_corrupt", "block_size"),
    "mean_squared_error": ("n_blocks", "n_corrupt", "block_size"),
    "uniform_radius": ("n_blocks", "n_corrupt", "block_size", "vc_dim", "confidence"),
    "sigma_free_radius": ("kurtosis", "n_blocks", "n_corrupt", "block_size", "confidence"),
    "sigma_upper": ("kurtosis", "n_blocks", "n_corrupt", "block_size", "confidence"),
}
FORMULAS = {
    "alpha": ("mapping", "epsilon"),
    "constants": ("epsilon",),
    "block_count": ("n", "n_outliers"),
    "bound": ("statement", "claim", "n", "n_outliers", "delta"),
    "max_outliers": ("n",),
    "range_size": ("epsilon", "n"),
}


def _chosen(rng, needed, allowed, wrong):
    """Return the arguments that are needed, and some of those that are allowed."""
    names = [*needed, *(name for name in allowed if name in ANY and name not in needed and rng.random() < 0.3)]
    return {name: pick(rng, WRONG if rng.random() < wrong else ANY[name]) for name in names}


def _no_nan(found, what):
    """Check that there is no NaN in what was computed."""
    numbers = np.asarray(found, dtype=float)
    check(not np.isnan(numbers).any(), f"{what} is {found}")
    return numbers


def certified(rng):
    """A certificate without rows: no NaN, and not smaller for more confidence or more corrupt rows."""
    if rng.random() < 0.15:
        x = rows(rng)
        return ov.certificate.sigma_bounds(x, **arguments(rng, ("contamination", "confidence")))
    if rng.random() < 0.15:
        count = pick(rng, (0, 1, 3, 10**6, *WRONG[:9]))
        return ov.certificate.order_statistic_interval(rows(rng), count, confidence=0.95)
    name = pick(rng, list(CERTIFICATES))
    allowed = {
        "radius": ("vote", "degrees", "grid", "alternative", "huber_rate"),
        "uniform_radius": ("bound", "degree"),
    }
    asked = _chosen(rng, CERTIFICATES[name], ("adversary", *allowed.get(name, ())), 0.06)
    if name in ("radius", "expected_error", "mean_squared_error"):
        asked["assume"] = pick(rng, WRONG) if rng.random() < 0.03 else assumption(rng)
    given = (pick(rng, (1.0, 4.0, 0.0, 1e300, [1.0, 2.0], *WRONG[:5])),) if name.startswith("sigma") else ()
    function = getattr(ov.certificate, name)
    if name == "radius":
        asked["confidence"] = pick(rng, ANY["confidence"])
    found = _no_nan(function(*given, **asked), name)
    check((found >= 0).all(), f"{name} is {found}")
    if "confidence" in asked:
        more = np.asarray(function(*given, **{**asked, "confidence": 0.9999}))
        check((more >= found * (1 - 1e-9)).all(), f"{name} falls from {found} to {more} with confidence")
    again = np.asarray(function(*given, **asked))
    check(np.array_equal(found, again), f"{name} is {found}, then {again}")
    return found


def paper(rng):
    """A formula of the paper: no NaN, the same twice."""
    name = pick(rng, list(FORMULAS))
    allowed = {"bound": ("scale", "degree", "growth", "vc_dim", "covering", "clamp"),
               "max_outliers": ("degree", "layout"), "block_count": ("claim", "log_delta", "layout")}  # fmt: skip
    asked = _chosen(rng, FORMULAS[name], ("mapping", *allowed.get(name, ())), 0.08)
    found = getattr(ov.paper, name)(**asked)
    if name == "bound":
        check(not math.isnan(found.radius), f"a bound of {found.radius}")
        check(str(found), "no text")
    elif found is not None and name != "constants":
        _no_nan(found, name)
    return found


def injected(rng):
    """Rows that are corrupted on purpose: not more than said, and not in the user's own rows."""
    x = rows(rng, columns=pick(rng, (0, 0, 2)))
    given = pick(rng, WRONG_ROWS) if rng.random() < 0.05 else x
    before = np.array(x, copy=True)
    amount = pick(rng, WRONG if rng.random() < 0.1 else (0.05, 0, 3, 0.4, 0.0))
    known = 1e6, -1e300, math.inf, math.nan, lambda generator, clean: generator.normal(size=clean.shape)
    outliers = pick(rng, (*known, *WRONG[:4]))
    asked = {"how": "add"} if rng.random() < 0.2 else {}
    found = ov.Contamination(amount).inject(given, outliers, rng=int(rng.integers(9)), **asked)
    check(np.array_equal(before, x, equal_nan=x.dtype.kind == "f"), "the input was modified")
    if given is x:
        check(len(found.data) == len(x) + (len(found.rows) if asked else 0), "another number of rows")
    return found


def _in_place(x, y):
    x -= y
    return abs(x)


OWN = (
    (2, lambda x, y: abs(x - y)), (2, lambda x, y: (x - y) ** 2 / 2), (2, lambda x, y: max(x, y)), (2, _in_place),
    (1, lambda x: x), (1, lambda x: x > 0), (3, lambda x, y, z: np.maximum(np.maximum(x, y), z)),
    (2, lambda x, y: x - y), (2, lambda x, y: math.nan), (2, lambda x, y: "a"), (2, lambda x, y: [x, y]),
    (2, lambda x, y: None), (2, lambda x: x), (2, lambda x, y: x * 1e200 * y * 1e200), (2, lambda x, y: 1),
    ((1, 1), lambda x, y: 1.0 * (x < y)), ((1, 1), lambda x, y: np.sign(y - x)),
)  # fmt: skip


def own_kernel(rng):
    """A kernel of one's own, right or wrong."""
    degrees, function = pick(rng, OWN[:7] if rng.random() < 0.6 else OWN)
    n_samples = len(degrees) if isinstance(degrees, tuple) else 1
    samples = [rows(rng)[:60] for _ in range(n_samples)]
    before = [np.array(x, copy=True) for x in samples]
    options = {"bounds": pick(rng, ((0, 1), (-1, 1), (1, 0), *WRONG[:6]))} if rng.random() < 0.25 else {}
    if rng.random() < 0.3:
        options["vectorized"] = pick(rng, (True, False, None, "x"))
    kernel = ov.Kernel(function, degrees=degrees, **options)
    asked = {"rng": 2, **arguments(rng, ("contamination", "confidence", "assume", "vote", "n_blocks", "alternative"))}
    found = ov.u_statistic(*samples, kernel=kernel, **asked)
    for x, was in zip(samples, before, strict=True):
        check(np.array_equal(x, was, equal_nan=x.dtype.kind == "f"), "the input was modified")
    hold.ordered(found)
    return found


def clusters(rng):
    """Dask answers as pandas does."""
    n = pick(rng, (1, 3, 10, 60, 200))
    frame = pd.DataFrame({"v": corrupted(rng, numbers(rng, n).astype(float)), "k": rng.integers(0, 3, n)})
    by = "k" if rng.random() < 0.5 else None
    asked = arguments(rng, ("contamination", "confidence", "nan_policy", "alternative"), wrong=0.03)
    asked["assume"] = assumption(rng, frame["v"]) if rng.random() < 0.5 else None
    found = []
    with dask.config.set(scheduler="synchronous"):
        for one in (frame, dd.from_pandas(frame, npartitions=pick(rng, (1, 2, 5)))):
            try:
                answer = ov.scan(one).mean("v", by, **asked)
            except (ValueError, TypeError) as error:
                found.append(type(error).__name__)
                continue
            answer = answer.compute() if hasattr(answer, "compute") else answer
            table = ["estimate", "low", "high"]
            found.append(answer[table].to_numpy(float) if by else [answer.estimate, *answer.interval])
    with np.errstate(over="ignore"):
        exact = bool(np.abs(frame["v"].replace([np.inf, -np.inf], np.nan)).max() < 1e300)
    refused = [isinstance(one, str) for one in found]
    check(refused[0] == refused[1], f"pandas {found[0]}, Dask {found[1]}")
    if exact and not any(refused):
        one, two = (np.asarray(each, float) for each in found)
        same = np.allclose(one, two, rtol=1e-9, atol=1e-300, equal_nan=True)
        check(same, f"pandas {found[0]}, Dask {found[1]}")
    return found


def drawn(rng):
    """A plot of an answer, whatever the rows."""
    x = rows(rng)
    names = ("contamination", "confidence", "assume", "vote", "nan_policy", "alternative")
    asked = {"rng": 0, **arguments(rng, names, x)}
    kind = pick(rng, ("mean", "difference", "quantile", "sensitivity", "monitor"))
    if kind in ("quantile", "sensitivity"):
        asked = {name: asked[name] for name in ("confidence",) if name in asked}
    found = {
        "mean": lambda: ov.mean(x, **asked),
        "difference": lambda: ov.difference(x, x[::-1] / 2, **asked),
        "quantile": lambda: ov.quantile(x, **asked),
        "sensitivity": lambda: ov.sensitivity(x, **asked),
        "monitor": lambda: ov.Monitor().update(x),
    }[kind]()
    try:
        plt.switch_backend("agg")
        found.plot()
        plt.gcf().canvas.draw()
    finally:
        plt.close("all")
    return found


#: Of seeds from 4000 on.
FORMULA_KINDS = {certified: 6, paper: 4, injected: 2, own_kernel: 4, clusters: 3, drawn: 2}
