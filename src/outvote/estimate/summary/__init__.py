"""Summaries of rows: updated by chunks, merged, serialised to JSON, bytes or Arrow, and estimated from."""

from outvote.estimate.summary.block import BlockSummary
from outvote.estimate.summary.conclude import conclude_summary, vote_on_summary
from outvote.estimate.summary.grouped import GroupedBlockSummary
from outvote.estimate.summary.rows import FEW_VALUES, RowSummary

__all__ = ["FEW_VALUES", "BlockSummary", "GroupedBlockSummary", "RowSummary", "conclude_summary", "vote_on_summary"]
