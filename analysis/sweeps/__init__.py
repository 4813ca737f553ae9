"""What the runs of a sweep show: their figures, and a verdict on each setting."""
