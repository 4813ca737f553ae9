"""Offline evaluation of stored competitors: tournaments and comparisons of two."""
