"""Colours, line styles, new axes, legends, the names of intervals, and saving, for all plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from outvote.certificate.document import Certificate
from outvote.data.packages import install_command
from outvote.data.text import percent, short
from outvote.data.writing import whole

#: Colours that differ in lightness as much as in hue, so that they are readable in grey and to the colour-blind.
COLORS = {"robust": "#0b5394", "plain": "#c55a11", "blocks": "#5a5a5a", "band": "#cfe2f3"}

#: Styles for several lines in one plot; the dashes distinguish them without colour.
LINES: tuple[dict[str, Any], ...] = (
    {"color": COLORS["robust"], "ls": "-", "lw": 2.0},
    {"color": COLORS["plain"], "ls": "--", "lw": 2.0},
    {"color": "#38761d", "ls": "-.", "lw": 2.0},
    {"color": "#6a3d9a", "ls": ":", "lw": 2.4},
    {"color": "#222222", "ls": (0, (7, 2, 1, 2, 1, 2)), "lw": 1.6},
    {"color": "#999999", "ls": "-", "lw": 3.0},
)


#: The largest number that is drawn: the width of a picture is a float, too.
_MOST = 1e300


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"plots need matplotlib: {install_command('matplotlib')}") from None
    return plt


def new_axes(ax: Any = None, *, figsize: tuple[float, float] = (7.0, 4.2)) -> Any:
    """Return `ax`, or the axes of a new figure.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = new_axes(figsize=(5.0, 3.0))
    >>> ax.figure.get_size_inches().tolist(), new_axes(ax) is ax
    ([5.0, 3.0], True)
    >>> plt.close(ax.figure)
    """
    if ax is not None:
        if not hasattr(ax, "stairs"):
            raise TypeError(f"ax={ax!r} must be axes of matplotlib: of several, give one")
        return ax
    return _pyplot().subplots(figsize=figsize, layout="constrained")[1]


def new_panels(rows: int, columns: int, *, panel: tuple[float, float] = (4.0, 3.2)) -> list[Any]:
    """Return the axes of a new figure, row by row; `panel` is the size of each panel in inches.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> panels = new_panels(2, 3)
    >>> len(panels), panels[0].figure.get_size_inches().round(1).tolist()
    (6, [12.0, 6.4])
    >>> plt.close(panels[0].figure)
    """
    size = (columns * panel[0], rows * panel[1])
    return list(_pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1].flat)


def clipped(numbers: Any) -> Any:
    """Return numbers as far as matplotlib can place them; it is for those outside of the picture.

    Examples
    --------
    >>> clipped([1.0, -1.7e308]).tolist()
    [1.0, -1e+300]
    """
    return np.clip(numbers, -_MOST, _MOST)


def check_drawable(*numbers: Any) -> None:
    """Refuse numbers that matplotlib cannot place; infinite ones are not drawn.

    Examples
    --------
    >>> check_drawable(1e300, [1.0, np.inf])
    >>> check_drawable([1e308])
    Traceback (most recent call last):
    ValueError: numbers of 1e+308 are too large to draw: divide the rows by a power of ten first
    """
    for one in numbers:
        sizes = np.abs(np.asarray(one, dtype=np.float64))
        beyond = np.isfinite(sizes) & (sizes > _MOST)
        if beyond.any():
            size = sizes[beyond].max()
            raise ValueError(f"numbers of {size:.3g} are too large to draw: divide the rows by a power of ten first")


def span_of(low: float, high: float) -> float:
    """Return how far apart the ends of an axis are; if they are as good as equal, a width that can be drawn.

    Examples
    --------
    >>> span_of(1.0, 3.0), span_of(5.0, 5.0), span_of(0.0, 5e-324)
    (2.0, 5.0, 1.0)
    """
    size = max(abs(low), abs(high))
    span = high - low if high - low > 1e-12 * size else size
    return span if span > 1e-300 else 1.0


def legend_below(ax: Any) -> None:
    """Put the legend below the axes, where it hides nothing.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> _ = ax.plot([0, 1], label="a line")
    >>> legend_below(ax)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['a line']
    """
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize="small", frameon=False)


def interval_label(certificate: Certificate, column: int | None = None) -> str:
    """Name an interval: its confidence, and whether it is proved, or under which condition; of one column, or of all.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> interval_label(ov.mean(x, assume=ov.FiniteVariance(1.0)).certificate)
    '95 % interval, certified'
    >>> interval_label(ov.mean(x).certificate), interval_label(ov.difference(x, 2 * x).certificate)
    ('95 % interval, if sd ≤ 1.4', '95 % interval, if sd ≤ 1.4 in a and 2.81 in b')
    """
    sds = np.ravel(np.asarray(certificate.premise_sd, dtype=np.float64))
    sds = sds if column is None else sds[column : column + 1]
    numbers = [short(sd) for sd in sds.tolist()]
    if len(numbers) == 2:
        numbers = [" and ".join(f"{number} in {name}" for number, name in zip(numbers, "ab", strict=True))]
    known = certificate.provenance == "conditional" and len(numbers) == 1 and bool(np.isfinite(sds).all())
    sure = percent(certificate.confidence, certificate.log_delta)
    return f"{sure} interval, {f'if sd ≤ {numbers[0]}' if known else certificate.provenance}"


def save(figure: Any, *paths: str | Path, dpi: int = 150) -> None:
    """Write a figure to one or several files and close it; a file is written completely or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(new_axes().figure, Path(folder, "a.png"), Path(folder, "a.svg"))
    ...     print(sorted(path.name for path in Path(folder).iterdir()))
    ['a.png', 'a.svg']
    """
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    try:
        _check_endings(figure, paths)
        figure.set_dpi(dpi)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout is computed once for all files
        for path in paths:
            with whole(path) as partial:
                # savefig would draw twice, because it computes the layout again.
                if partial.suffix == ".svg":
                    FigureCanvasSVG(figure).print_svg(partial, metadata={"Date": None})
                elif partial.suffix == ".png":
                    FigureCanvasAgg(figure).print_png(partial)
                else:
                    figure.savefig(partial, dpi=dpi)
    finally:
        plt.close(figure)


def _check_endings(figure: Any, paths: Sequence[str | Path]) -> None:
    """Refuse names that do not say what kind of picture is wanted, before anything is drawn.

    Of what matplotlib writes, .pgf needs TeX, and .raw and .rgba are bytes without a size: they are refused, too.
    """
    kinds = figure.canvas.get_supported_filetypes().keys() - {"pgf", "raw", "rgba"}
    for path in map(Path, paths):
        if path.suffix.lower().removeprefix(".") not in kinds:
            raise ValueError(f"figure={str(path)!r} must end in a kind of picture: .png, .svg or .pdf, for instance")
