-- How many matches between which kinds of agents, hour by hour? Games of pairs of roles.
-- purpose; hour (since the first match); role, kind, other_role, other_kind (role NULL: a bot); games; win_rate (of
-- the first; draws count half)
WITH clock AS (
    SELECT seq, max(ended_at) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS ended, min(started_at) OVER () AS began
    FROM played
),
dated AS (
    SELECT
        met.purpose, us.role, us.kind, them.role AS other_role, them.kind AS other_kind,
        CAST(floor(epoch(clock.ended - clock.began) / 3600) AS BIGINT) AS hour,
        games, wins + 0.5 * draws AS points, home, away
    FROM met
    JOIN competitors us ON home = us.competitor JOIN competitors them ON away = them.competitor
    ASOF JOIN clock ON met.seq >= clock.seq
)
SELECT
    purpose, hour, role, kind, other_role, other_kind, CAST(sum(games) AS BIGINT) AS games,
    sum(points) / sum(games) AS win_rate
FROM dated
WHERE (coalesce(role, ''), kind, home) <= (coalesce(other_role, ''), other_kind, away)
GROUP BY ALL
ORDER BY purpose, hour, games DESC, role, kind, other_role, other_kind
