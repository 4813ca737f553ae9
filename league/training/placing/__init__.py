"""Placing: a short round robin of the newest snapshots, for the record only."""
