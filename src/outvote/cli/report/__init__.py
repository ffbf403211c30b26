"""Write the report: one HTML file with the answer, how many corrupt rows overturn it, and how to run it again."""

from outvote.cli.report.page import Report, write_report

__all__ = ["Report", "write_report"]
