"""Learning from stored games: the form in which they are kept, where they come from, maximum likelihood."""
