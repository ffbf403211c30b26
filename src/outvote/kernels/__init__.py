"""Kernels of U-statistics: one file for each named kernel, and the evaluation of a user's own."""

from outvote.kernels.distances import gaussian_mmd
from outvote.kernels.kernel import Kernel
from outvote.kernels.registry import KERNELS, kernel_of
from outvote.kernels.tuples import tuple_chunks

__all__ = ["KERNELS", "Kernel", "gaussian_mmd", "kernel_of", "tuple_chunks"]
