"""Retention: old matches as sums, so that a run of any length fits on its disk."""
