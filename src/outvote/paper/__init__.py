"""The paper's closed forms: mappings, constants, block counts, and every bound with its range.

The paper is Laforgue, Staerman and Clémençon, "Generalization Bounds in the Presence of Outliers: a
Median-of-Means Study" (ICML 2021). Its letters: n rows of which n_O are outliers, ε = n_O/n, K blocks of
B = ⌊n/K⌋ rows, a mapping α with 2ε < α(ε) < 1, a kernel of degree d, δ the probability of failure and
L = log(1/δ). Statements go by their labels: `mom`, `mou_1sample`, `mou_2sample`, `mou_diag`, `mou_min`, `alg`.

Every bound is *certified* only where it is proved: δ in its range, blocks that hold the kernel's degree, and
outliers placed without seeing the clean rows. Where the paper's proof is wrong but its statement right, the
docstring of `bound` says how it is repaired.
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
