"""Evidence that survives: a value of the mean is ruled out only by evidence left after its m strongest witnesses go."""

from outvote.votes.evidence.binned import BinnedRows
from outvote.votes.evidence.grid import Grid, Tallies, index_in, pilot_of, pilot_step, tallies_of_columns
from outvote.votes.evidence.groups import premises_of_groups
from outvote.votes.evidence.interval import (
    EvidenceInterval,
    bounded_ratio_interval,
    contradicts,
    declared_interval,
    free_interval,
    premise_interval,
    premise_levels,
    promised_radius,
    promised_vote,
    scale_of,
)
from outvote.votes.evidence.many import premise_ends, premise_intervals
from outvote.votes.evidence.order import Ranks, lower_rank, lower_ranks, quantile_ranks, rows_to_bound
from outvote.votes.evidence.proportion import Tally, proportion_interval
from outvote.votes.evidence.rows import SeveralRows, SortedRows
from outvote.votes.evidence.scale import (
    Pairs,
    central_sd,
    median_of_sorted,
    premise_factor,
    sigma_lower,
    sigma_upper,
)
from outvote.votes.evidence.symmetric import symmetric_interval
from outvote.votes.evidence.two_samples import Sample, difference_interval

__all__ = [
    "BinnedRows",
    "EvidenceInterval",
    "Grid",
    "Pairs",
    "Ranks",
    "Sample",
    "SeveralRows",
    "SortedRows",
    "Tallies",
    "Tally",
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
    "premise_ends",
    "premise_factor",
    "premise_interval",
    "premise_intervals",
    "premise_levels",
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
]
