"""What is remembered: files, rows, tensors. Knows nothing of games, networks or training."""

from storage.database import connect, query

__all__ = ["connect", "query"]
