-- Is some seat better than another? Outcomes of each seat, by purpose.
-- purpose; seat; games; wins, draws, losses, forfeits; win_rate (draws count half); score (mean sum of rewards)
SELECT
    purpose, seat, count(*) AS games,
    count(*) FILTER (outcome = 'win') AS wins,
    count(*) FILTER (outcome = 'draw') AS draws,
    count(*) FILTER (outcome = 'loss') AS losses,
    count(*) FILTER (outcome = 'forfeit') AS forfeits,
    (wins + 0.5 * draws) / games AS win_rate,
    avg(score) AS score
FROM seats JOIN matches USING (seq)
GROUP BY purpose, seat
ORDER BY purpose, seat
