-- The tables of a run, as `league sql` and `analysis` see them. An index of the ledger: derived,
-- disposable, rebuilt whenever this file changes. `seq` numbers matches, decisions and updates of a
-- run in the order of recording; times are UTC. No keys: the ledger has seen to uniqueness.

-- One row per session: the first, and one for each resume.
CREATE TABLE runs (
    seq BIGINT,      -- what the session's first match, decision or update is numbered
    name VARCHAR, env VARCHAR, seed BIGINT,
    config VARCHAR,  -- the settings of the session, YAML
    version VARCHAR, started_at TIMESTAMP
);

CREATE TABLE players (player VARCHAR, role VARCHAR, added_at TIMESTAMP);

CREATE TABLE snapshots (
    snapshot_id VARCHAR, player VARCHAR, role VARCHAR,
    env_steps BIGINT, updates BIGINT,  -- of its player, when it was frozen
    parent_id VARCHAR,                 -- the snapshot its weights were trained on from; NULL: from scratch
    blob_hash VARCHAR, bytes BIGINT, architecture VARCHAR, created_at TIMESTAMP, reason VARCHAR
);

CREATE TABLE competitors (
    competitor VARCHAR,
    kind VARCHAR,    -- player, snapshot, bot
    role VARCHAR,    -- NULL: a bot
    player VARCHAR,  -- whose policy it is; NULL: a bot
    added_at TIMESTAMP
);

CREATE TABLE matches (
    seq BIGINT, match_id BIGINT,
    purpose VARCHAR,     -- training, evaluation, tournament
    match_type VARCHAR,  -- the matchmaker's branch that drew it
    env VARCHAR, seed BIGINT,
    env_steps INTEGER,   -- decisions of all seats
    reason VARCHAR,      -- finished, illegal_action, step_limit, crash
    started_at TIMESTAMP, seconds REAL,
    batch BIGINT         -- the ledger's frame it came with: matches of one batch were recorded together
);

CREATE TABLE seats (
    seq BIGINT, seat TINYINT, competitor VARCHAR, learning BOOLEAN,
    outcome VARCHAR,  -- win, draw, loss, forfeit
    score REAL,       -- sum of rewards
    rank TINYINT      -- 0 is best; tied seats share the lower number
);

-- TrueSkill after a batch of results, or of a newcomer; seq is that of the last match before.
CREATE TABLE ratings (seq BIGINT, competitor VARCHAR, mu DOUBLE, sigma DOUBLE, games BIGINT);

CREATE TABLE decisions (
    seq BIGINT,
    kind VARCHAR,         -- freeze, reset, add, remove, retire, stop
    player VARCHAR,
    snapshot_id VARCHAR,  -- frozen, reset to, or retired
    role VARCHAR,         -- of a player added
    reason VARCHAR,
    evidence VARCHAR,     -- JSON: the numbers that triggered it
    decided_at TIMESTAMP
);

-- One row per player and reporting interval: means over the updates since the last row.
CREATE TABLE updates (
    seq BIGINT, player VARCHAR, updates BIGINT, env_steps BIGINT,
    lag DOUBLE,  -- updates between the weights that acted and those that learned
    policy_loss DOUBLE, value_loss DOUBLE, entropy DOUBLE, gradient_norm DOUBLE,
    metrics VARCHAR,  -- JSON: whatever else the learner reported
    recorded_at TIMESTAMP
);

-- The last frame of the ledger that is folded in, and the schema it was folded into.
CREATE TABLE ingest_state (sequence BIGINT, batch_id BLOB, schema VARCHAR);

-- Every ordered pair of competitors that met, over all purposes, from `home`'s side. A seat beats
-- another by outcome, else by rank; a forfeit loses; two forfeits say nothing.
CREATE VIEW payoff AS
WITH pairs AS (
    SELECT
        h.competitor AS home,
        a.competitor AS away,
        CASE
            WHEN h.outcome = 'win' AND a.outcome <> 'win' THEN 'win'
            WHEN a.outcome = 'win' AND h.outcome <> 'win' THEN 'loss'
            WHEN h.outcome = 'forfeit' AND a.outcome <> 'forfeit' THEN 'loss'
            WHEN a.outcome = 'forfeit' AND h.outcome <> 'forfeit' THEN 'win'
            WHEN h.rank < a.rank THEN 'win'
            WHEN h.rank > a.rank THEN 'loss'
            WHEN h.outcome <> 'forfeit' THEN 'draw'
        END AS result
    FROM seats h JOIN seats a ON h.seq = a.seq AND h.seat <> a.seat AND h.competitor <> a.competitor
)
SELECT
    home, away,
    count(*) AS games,
    count(*) FILTER (result = 'win') AS wins,
    count(*) FILTER (result = 'draw') AS draws,
    count(*) FILTER (result = 'loss') AS losses,
    (wins + 0.5 * draws) / games AS win_rate
FROM pairs
WHERE result IS NOT NULL
GROUP BY home, away;

-- Everyone who was rated, best first. `games` is the rating's own count; `win_rate` is over all opponents
-- of all time, draws counting half.
CREATE VIEW leaderboard AS
WITH latest AS (
    SELECT competitor, max_by({mu: mu, sigma: sigma, games: games}, (seq, rowid)) AS rating
    FROM ratings GROUP BY competitor
),
rates AS (
    SELECT home AS competitor, sum(wins + 0.5 * draws) / sum(games) AS win_rate FROM payoff GROUP BY home
)
SELECT
    competitor, role, kind,
    rating.mu AS mu, rating.sigma AS sigma, rating.games AS games,
    win_rate,
    rating.mu - 3 * rating.sigma AS skill
FROM latest LEFT JOIN competitors USING (competitor) LEFT JOIN rates USING (competitor)
ORDER BY skill DESC, competitor;

-- What was played: `share` is of all matches of one purpose that `player` learned from (NULL: nobody did).
CREATE VIEW match_mix AS
WITH learners AS (SELECT seq, min(competitor) AS player FROM seats WHERE learning GROUP BY seq)
SELECT
    player, purpose, match_type,
    count(*) AS matches,
    count(*) / sum(count(*)) OVER (PARTITION BY player, purpose) AS share
FROM matches LEFT JOIN learners USING (seq)
GROUP BY player, purpose, match_type
ORDER BY player, purpose, count(*) DESC, match_type;

-- The same, minute by minute from the first match on: how the mix changes as the league grows.
CREATE VIEW match_mix_over_time AS
WITH learners AS (SELECT seq, min(competitor) AS player FROM seats WHERE learning GROUP BY seq),
timed AS (
    SELECT seq, purpose, match_type, date_diff('minute', min(started_at) OVER (), started_at) AS minute
    FROM matches
)
SELECT
    player, purpose, minute, match_type,
    count(*) AS matches,
    count(*) / sum(count(*)) OVER (PARTITION BY player, purpose, minute) AS share
FROM timed LEFT JOIN learners USING (seq)
GROUP BY player, purpose, minute, match_type
ORDER BY player, purpose, minute, count(*) DESC, match_type;

-- Who learned from whom: games that `player` learned from, by each other seat; its own name: self-play.
CREATE VIEW learned_from AS
SELECT
    learner.competitor AS player,
    other.competitor AS opponent,
    count(DISTINCT learner.seq) AS games,
    games / sum(games) OVER (PARTITION BY learner.competitor) AS share
FROM seats learner JOIN seats other ON learner.seq = other.seq AND learner.seat <> other.seat
WHERE learner.learning
GROUP BY learner.competitor, other.competitor
ORDER BY player, games DESC, opponent;

-- Every ancestor of every snapshot; generation 1 is its parent.
CREATE VIEW lineage AS
WITH RECURSIVE ancestors AS (
    SELECT snapshot_id, parent_id AS ancestor_id, 1 AS generation FROM snapshots WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT a.snapshot_id, s.parent_id, a.generation + 1
    FROM ancestors a JOIN snapshots s ON s.snapshot_id = a.ancestor_id
    WHERE s.parent_id IS NOT NULL
)
SELECT snapshot_id, ancestor_id, generation FROM ancestors ORDER BY snapshot_id, generation;
