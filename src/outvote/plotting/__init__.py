"""Plots in the style of scikit-learn's Display classes. Matplotlib is imported when a plot is drawn."""

from outvote.plotting.base import COLORS, LINES, legend_below, new_axes, new_panels, save
from outvote.plotting.blocks import BlocksDisplay
from outvote.plotting.mappings import AdmissibleDisplay, EnvelopeDisplay
from outvote.plotting.monitor import MonitorDisplay
from outvote.plotting.radius import RadiusDisplay
from outvote.plotting.rows import RowsDisplay
from outvote.plotting.sensitivity import SensitivityDisplay

__all__ = [
    "COLORS",
    "LINES",
    "AdmissibleDisplay",
    "BlocksDisplay",
    "EnvelopeDisplay",
    "MonitorDisplay",
    "RadiusDisplay",
    "RowsDisplay",
    "SensitivityDisplay",
    "legend_below",
    "new_axes",
    "new_panels",
    "save",
]
