"""The paper's closed forms: mappings, constants, numbers of blocks, and every bound with its range.

The paper is Laforgue, Staerman and Clémençon, "Generalization Bounds in the Presence of Outliers: a
Median-of-Means Study" (ICML 2021). Its letters: n rows of which n_O are outliers, ε = n_O/n, K blocks of
B = ⌊n/K⌋ rows, a mapping α with 2ε < α(ε) < 1, a kernel of degree d, δ the probability of failure and
L = log(1/δ). Statements are named by their labels: `mom`, `mou_1sample`, `mou_2sample`, `mou_diag`, `mou_min`, `alg`.

A bound is *certified* only where it is proved: δ is in its range, every block has at least as many rows as the
kernel takes, and the positions of the outliers do not depend on the clean rows. If the paper's statement is right
but its proof is wrong, the docstring of `bound` repairs the proof.
"""

from outvote.paper.bounds import bound
from outvote.paper.mappings import MAPPINGS, Constants, alpha, block_count, constants, max_outliers, range_size
from outvote.paper.variance import sigma2, u_variance

__all__ = [
    "MAPPINGS",
    "Constants",
    "alpha",
    "block_count",
    "bound",
    "constants",
    "max_outliers",
    "range_size",
    "sigma2",
    "u_variance",
]
