"""Block summaries of rows: updated by chunks, merged, serialised to JSON, bytes or Arrow, and voted on."""

from outvote.estimate.summary.block import BlockSummary
from outvote.estimate.summary.conclude import conclude_summary, vote_on_summary
from outvote.estimate.summary.grouped import GroupedBlockSummary

__all__ = ["BlockSummary", "GroupedBlockSummary", "conclude_summary", "vote_on_summary"]
