"""Evidence that survives: a value of the mean is ruled out only by evidence left after its m strongest witnesses go."""

from outvote.votes.evidence.interval import (
    EvidenceInterval,
    declared_interval,
    free_interval,
    premise_interval,
    promised_vote,
)
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.evidence.scale import Pairs, central_sd, premise_factor, sigma_lower, sigma_upper

__all__ = [
    "EvidenceInterval",
    "Pairs",
    "SortedRows",
    "central_sd",
    "declared_interval",
    "free_interval",
    "premise_factor",
    "premise_interval",
    "promised_vote",
    "sigma_lower",
    "sigma_upper",
]
