"""Pictures, in scikit-learn's Display style. Matplotlib is imported when something is drawn."""

from outvote.plotting.base import COLORS, LINES, legend_below, new_axes, new_panels, save
from outvote.plotting.blocks import BlocksDisplay
from outvote.plotting.mappings import AdmissibleDisplay, EnvelopeDisplay
from outvote.plotting.radius import RadiusDisplay
from outvote.plotting.sensitivity import SensitivityDisplay

__all__ = [
    "COLORS",
    "LINES",
    "AdmissibleDisplay",
    "BlocksDisplay",
    "EnvelopeDisplay",
    "RadiusDisplay",
    "SensitivityDisplay",
    "legend_below",
    "new_axes",
    "new_panels",
    "save",
]
