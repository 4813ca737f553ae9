-- Who is strong against whom? Every ordered pair that met, over all purposes.
-- home, away; games, wins, draws, losses (of home); win_rate (of home, draws count half)
SELECT home, away, games, wins, draws, losses, win_rate
FROM payoff
ORDER BY home, away
