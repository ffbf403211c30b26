"""Means and differences that are watched while rows come in: intervals that hold at every look."""

from outvote.estimate.monitor.monitor import Look, Monitor

__all__ = ["Look", "Monitor"]
