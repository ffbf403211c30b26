"""How block values become one answer, and how far off that answer can be."""

from outvote.contamination import Adversary
from outvote.votes.grid import grid_p_star, grid_radius, grid_threshold
from outvote.votes.median import (
    Alternative,
    Layout,
    Terms,
    check_choice,
    huber_radius,
    log_binomial_tail,
    mad,
    median_of,
    median_radius,
    p_star,
    threshold,
    unequal_radius,
)
from outvote.votes.scale import sigma_free_factor, variance_shortfall
from outvote.votes.search import best_n_blocks

__all__ = [
    "Adversary",
    "Alternative",
    "Layout",
    "Terms",
    "best_n_blocks",
    "check_choice",
    "grid_p_star",
    "grid_radius",
    "grid_threshold",
    "huber_radius",
    "log_binomial_tail",
    "mad",
    "median_of",
    "median_radius",
    "p_star",
    "sigma_free_factor",
    "threshold",
    "unequal_radius",
    "variance_shortfall",
]
