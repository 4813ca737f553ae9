"""Commands that measure snapshots of a run."""
