"""Estimates and descents on a device, in torch."""
