-- Is some seat better than another? Outcomes of each seat, by purpose.
-- purpose; seat; games; wins, draws, losses, forfeits; win_rate (draws count half); score (mean sum of rewards)
SELECT
    purpose, seat, CAST(sum(seats) AS BIGINT) AS games,
    CAST(coalesce(sum(seats) FILTER (outcome = 'win'), 0) AS BIGINT) AS wins,
    CAST(coalesce(sum(seats) FILTER (outcome = 'draw'), 0) AS BIGINT) AS draws,
    CAST(coalesce(sum(seats) FILTER (outcome = 'loss'), 0) AS BIGINT) AS losses,
    CAST(coalesce(sum(seats) FILTER (outcome = 'forfeit'), 0) AS BIGINT) AS forfeits,
    (wins + 0.5 * draws) / games AS win_rate,
    sum(s.score) / games AS score
FROM seated s
GROUP BY purpose, seat
ORDER BY purpose, seat
