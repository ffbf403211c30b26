"""A page for people: one file with the answer, what it takes to overturn it, and everything needed to rerun it."""

from outvote.cli.report.page import Report, write_report

__all__ = ["Report", "write_report"]
