"""Evidence that survives: a value of the mean is ruled out only by evidence left after its m strongest witnesses go."""

from outvote.votes.evidence.binned import BinnedRows
from outvote.votes.evidence.grid import Grid, Tallies, index_in, pilot_of, pilot_step, tallies_of_columns
from outvote.votes.evidence.groups import GroupPremises, premises_of_groups
from outvote.votes.evidence.interval import (
    EvidenceInterval,
    believed_premises,
    bounded_ratio_interval,
    contradicts,
    declared_interval,
    free_interval,
    premise_interval,
    promised_radius,
    promised_vote,
    scale_of,
)
from outvote.votes.evidence.order import Ranks, lower_rank, lower_ranks, quantile_ranks, rows_to_bound
from outvote.votes.evidence.premise import Read, unreadable
from outvote.votes.evidence.proportion import Tally, proportion_interval
from outvote.votes.evidence.rows import SeveralRows, SortedRows
from outvote.votes.evidence.scale import (
    Pairs,
    central_sd,
    median_of_sorted,
    sigma_lower,
    sigma_upper,
)
from outvote.votes.evidence.symmetric import symmetric_interval
from outvote.votes.evidence.two_samples import Sample, difference_interval

__all__ = [
    "BinnedRows",
    "EvidenceInterval",
    "Grid",
    "GroupPremises",
    "Pairs",
    "Ranks",
    "Read",
    "Sample",
    "SeveralRows",
    "SortedRows",
    "Tallies",
    "Tally",
    "believed_premises",
    "bounded_ratio_interval",
    "central_sd",
    "contradicts",
    "declared_interval",
    "difference_interval",
    "free_interval",
    "index_in",
    "lower_rank",
    "lower_ranks",
    "median_of_sorted",
    "pilot_of",
    "pilot_step",
    "premise_interval",
    "premises_of_groups",
    "promised_radius",
    "promised_vote",
    "proportion_interval",
    "quantile_ranks",
    "rows_to_bound",
    "scale_of",
    "sigma_lower",
    "sigma_upper",
    "symmetric_interval",
    "tallies_of_columns",
    "unreadable",
]
