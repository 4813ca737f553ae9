"""A run's report as a page that follows the run: read-only, on this machine only."""

from analysis.server.serving import serve

__all__ = ["serve"]
