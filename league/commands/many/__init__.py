"""Commands on folders of runs: lists, labels, what takes the disk, sweeps."""
