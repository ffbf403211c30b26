"""What the commands compute: plain data, printed elsewhere (showing.py)."""

from outvote.cli.answer import Asked, Progress, Value, in_options
from outvote.cli.compare import Comparison, Comparisons, compare, variants
from outvote.cli.mean import Level, MeanLine, Means, may_be_soft, means, means_by_id
from outvote.cli.plan import Option, Planned, plan
from outvote.cli.suspects import OUT, Suspect, Suspects, score_rows, suspects

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
