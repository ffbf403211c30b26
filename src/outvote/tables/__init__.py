"""Tables, files larger than memory and clusters."""

from outvote.tables.scan import Scan

__all__ = ["Scan"]
