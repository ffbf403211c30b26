"""Tests of outvote.kernels, one file for each module."""
