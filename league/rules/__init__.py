"""What is thought: pairing, rating, freezing and resetting, as pure functions of recorded results."""
