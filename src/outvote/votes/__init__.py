"""Votes: compute one estimate from the block values, and bound its error."""

from outvote.contamination import Adversary
from outvote.votes.ballots import Ballot, BlockVote, KernelVote, VoteName, at_size, ballot, best_vote
from outvote.votes.binomial import log_binomial_tail, p_star
from outvote.votes.clipped import ClippedTuning, clipped_tuning, clipped_vote
from outvote.votes.grid import grid_p_star, grid_radius, grid_threshold
from outvote.votes.median import (
    huber_radius,
    mad,
    median_of,
    median_radius,
    medians_of_counts,
    threshold,
    unequal_radius,
)
from outvote.votes.scale import sigma_free_factor, variance_shortfall
from outvote.votes.search import best_n_blocks
from outvote.votes.soft import SoftTuning, psi, soft_tuning, soft_vote
from outvote.votes.terms import Alternative, Layout, Terms

__all__ = [
    "Adversary",
    "Alternative",
    "Ballot",
    "BlockVote",
    "ClippedTuning",
    "KernelVote",
    "Layout",
    "SoftTuning",
    "Terms",
    "VoteName",
    "at_size",
    "ballot",
    "best_n_blocks",
    "best_vote",
    "clipped_tuning",
    "clipped_vote",
    "grid_p_star",
    "grid_radius",
    "grid_threshold",
    "huber_radius",
    "log_binomial_tail",
    "mad",
    "median_of",
    "median_radius",
    "medians_of_counts",
    "p_star",
    "psi",
    "sigma_free_factor",
    "soft_tuning",
    "soft_vote",
    "threshold",
    "unequal_radius",
    "variance_shortfall",
]
