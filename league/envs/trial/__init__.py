"""Trial of a game: a second of play before anything trains, which names what is wrong and where."""
