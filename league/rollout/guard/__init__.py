"""Guard of a game while it is played: errors and wrong answers end matches, not the run; waits end."""
