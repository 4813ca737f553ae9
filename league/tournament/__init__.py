"""Offline evaluation: which of the stored competitors is best, and how sure that is."""
