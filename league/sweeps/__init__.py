"""Sweeps: the runs of a grid of settings and seeds."""
