"""What the commands compute: plain data, printed elsewhere (showing.py)."""

from outvote.answers.averaging import Level, MeanLine, Means, may_be_soft, means, means_by_id
from outvote.answers.base import Asked, Progress, Value, in_options
from outvote.answers.comparing import Comparison, Comparisons, compare, variants
from outvote.answers.planning import Option, Planned, plan
from outvote.answers.suspecting import OUT, Suspect, Suspects, score_rows, suspects

__all__ = [
    "OUT",
    "Asked",
    "Comparison",
    "Comparisons",
    "Level",
    "MeanLine",
    "Means",
    "Option",
    "Planned",
    "Progress",
    "Suspect",
    "Suspects",
    "Value",
    "compare",
    "in_options",
    "may_be_soft",
    "means",
    "means_by_id",
    "plan",
    "score_rows",
    "suspects",
    "variants",
]
