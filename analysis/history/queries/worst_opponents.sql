-- Which opponents does each competitor do worst against? The five with the lowest scores, of those met 20 times.
-- competitor; opponent; games; win_rate (of competitor, draws count half); place (1: the worst)
SELECT
    home AS competitor, away AS opponent, games, win_rate,
    row_number() OVER (PARTITION BY home ORDER BY win_rate, games DESC, away) AS place
FROM payoff
WHERE games >= 20
QUALIFY place <= 5
ORDER BY competitor, place
