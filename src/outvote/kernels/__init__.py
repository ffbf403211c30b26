"""Kernels of U-statistics: the named ones, and how one's own are evaluated."""

from outvote.kernels.kernel import KERNELS, Kernel, gaussian_mmd, kernel_of, tuple_chunks

__all__ = ["KERNELS", "Kernel", "gaussian_mmd", "kernel_of", "tuple_chunks"]
