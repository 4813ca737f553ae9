-- Who forfeits, and why? Competitors with forfeited games.
-- competitor; reason (of the match's end); forfeits; games (of the competitor); share (of its games)
WITH games AS (SELECT competitor, CAST(sum(seats) AS BIGINT) AS games FROM seated GROUP BY competitor),
given_up AS (
    SELECT competitor, reason, CAST(sum(seats) AS BIGINT) AS forfeits
    FROM seated
    WHERE outcome = 'forfeit'
    GROUP BY competitor, reason
)
SELECT competitor, reason, forfeits, games, forfeits / games AS share
FROM given_up JOIN games USING (competitor)
ORDER BY forfeits DESC, competitor, reason
