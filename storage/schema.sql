-- The history of a run. Filled from the ledger, table by table; a ledger section has the columns of its table.
-- `seq` numbers what happened in a run, in order: each match, decision, snapshot and row of updates has its own.

CREATE TABLE runs (            -- one row per session: the first, and one for each resume
    seq BIGINT, name VARCHAR, env VARCHAR, seed BIGINT, config VARCHAR, version VARCHAR, started_at TIMESTAMP
);
CREATE TABLE players (         -- members that learn
    seq BIGINT, player VARCHAR, role VARCHAR, added_at TIMESTAMP
);
CREATE TABLE snapshots (       -- immutable policies; env_steps and updates are their player's
    seq BIGINT, snapshot_id VARCHAR, player VARCHAR, role VARCHAR, env_steps BIGINT, updates BIGINT,
    parent_id VARCHAR, blob_hash VARCHAR, bytes BIGINT, architecture VARCHAR, created_at TIMESTAMP, reason VARCHAR
);
CREATE TABLE competitors (     -- whatever can sit in a seat: kind is player, snapshot or bot
    seq BIGINT, competitor VARCHAR, kind VARCHAR, role VARCHAR, player VARCHAR
);
CREATE TABLE matches (         -- one row per match; batch is the ledger frame that recorded it
    seq BIGINT, match_id BIGINT, purpose VARCHAR, match_type VARCHAR, env VARCHAR, seed BIGINT,
    env_steps INTEGER, reason VARCHAR, started_at TIMESTAMP, seconds FLOAT, batch BIGINT
);
CREATE TABLE seats (           -- one row per seat of a match; rank 0 is best
    seq BIGINT, seat TINYINT, competitor VARCHAR, learning BOOLEAN, outcome VARCHAR, score FLOAT, rank TINYINT
);
CREATE TABLE ratings (         -- TrueSkill after the match `seq`, which closed a batch of results
    seq BIGINT, competitor VARCHAR, mu DOUBLE, sigma DOUBLE, games BIGINT
);
CREATE TABLE decisions (       -- freeze, reset, add, retire; evidence is JSON: the numbers that triggered it
    seq BIGINT, kind VARCHAR, player VARCHAR, role VARCHAR, snapshot_id VARCHAR, reason VARCHAR,
    evidence VARCHAR, decided_at TIMESTAMP
);
CREATE TABLE updates (         -- means over a stretch of a player's updates; metrics is JSON: all of them
    seq BIGINT, player VARCHAR, updates BIGINT, env_steps BIGINT, policy_loss DOUBLE, value_loss DOUBLE,
    entropy DOUBLE, gradient_norm DOUBLE, lag DOUBLE, metrics VARCHAR, recorded_at TIMESTAMP
);
CREATE TABLE ingest_state (    -- how much of the ledger is in here
    sequence BIGINT, schema_version INTEGER
);

-- Every ordered pair that has met, from home's side. Ranks decide, so a forfeit is a loss.
CREATE VIEW payoff AS
SELECT home, away, games, wins, draws, games - wins - draws AS losses, (wins + 0.5 * draws) / games AS win_rate
FROM (
    SELECT h.competitor AS home, a.competitor AS away, count(*) AS games,
           count(*) FILTER (h.rank < a.rank) AS wins, count(*) FILTER (h.rank = a.rank) AS draws
    FROM seats h JOIN seats a ON h.seq = a.seq AND h.seat <> a.seat
    WHERE h.competitor <> a.competitor
    GROUP BY ALL
);

-- Newest rating of each competitor, best first by what it is worth with near certainty.
CREATE VIEW leaderboard AS
SELECT c.competitor, c.kind, c.role, r.mu, r.sigma, r.mu - 3 * r.sigma AS skill,
       coalesce(p.games, 0) AS games, p.win_rate
FROM competitors c
JOIN (SELECT competitor, arg_max(mu, seq) AS mu, arg_max(sigma, seq) AS sigma FROM ratings GROUP BY competitor) r
    USING (competitor)
LEFT JOIN (
    SELECT home AS competitor, sum(games) AS games, sum(wins + 0.5 * draws) / sum(games) AS win_rate
    FROM payoff GROUP BY home
) p USING (competitor)
ORDER BY skill DESC, competitor;

-- What each player's matches were: share is within player and purpose.
CREATE VIEW match_mix AS
SELECT player, purpose, match_type, matches, matches / sum(matches) OVER (PARTITION BY player, purpose) AS share
FROM (
    SELECT l.player, m.purpose, m.match_type, count(*) AS matches
    FROM matches m
    LEFT JOIN (SELECT seq, min(competitor) AS player FROM seats WHERE learning GROUP BY seq) l USING (seq)
    GROUP BY ALL
)
ORDER BY player, purpose, matches DESC;

-- Every snapshot's ancestors: generation 1 is its parent.
CREATE VIEW lineage AS
WITH RECURSIVE up AS (
    SELECT snapshot_id, parent_id AS ancestor_id, 1 AS generation FROM snapshots WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT up.snapshot_id, s.parent_id, up.generation + 1
    FROM up JOIN snapshots s ON s.snapshot_id = up.ancestor_id WHERE s.parent_id IS NOT NULL
)
SELECT snapshot_id, ancestor_id, generation FROM up ORDER BY snapshot_id, generation;
