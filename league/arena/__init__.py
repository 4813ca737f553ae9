"""The arena: competitors of runs are opened, agree on a game, take seats and play. Measures build on it."""
