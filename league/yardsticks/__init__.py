"""Yardsticks: fixed measures of snapshots, on positions with known best moves and against fixed opponents."""
