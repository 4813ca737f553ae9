"""Rules of a league: pairing, rating, freezing and resetting, as pure functions of recorded results."""
