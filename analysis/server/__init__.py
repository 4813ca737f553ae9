"""Live report of a run: a read-only page on this machine that follows the run."""

from analysis.server.server import serve, serve_play

__all__ = ["serve", "serve_play"]
