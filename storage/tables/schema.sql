-- The tables of a run, as `league sql` and `analysis` see them: the newest schema, whole; migrations.py
-- brings older indexes to it. An index of the ledger: derived, disposable. `seq` numbers matches,
-- decisions and updates of a run in the order of recording; times are UTC. No keys: the ledger has seen
-- to uniqueness.

-- One row per session: the first, and one for each resume; and one where the run was branched from another.
CREATE TABLE runs (
    seq BIGINT,      -- what the session's first match, decision or update is numbered
    name VARCHAR, env VARCHAR, seed BIGINT,
    config VARCHAR,  -- the settings of the session, YAML
    version VARCHAR, started_at TIMESTAMP,
    -- Payoffs count scores: the most that the game lets a seat be ahead per game. NULL: they count games won.
    most_lead DOUBLE
);

-- One row per moment at which this run was branched from another run, oldest first: the last row is its own, those
-- before it are of the runs that its parent was branched from. Rows of other tables up to that moment are the
-- parent's.
CREATE TABLE branches (
    seq BIGINT,        -- what the branch's first match, decision or update is numbered
    parent VARCHAR,    -- the run that it was branched from: its folder, or the address of its remote
    frame BIGINT,      -- of the ledger, the last one that both runs have
    env_steps BIGINT,  -- of the league by then
    matches BIGINT, seconds DOUBLE,  -- matches, and seconds of training, by then
    learners VARCHAR,  -- JSON: of each player `state`, or the snapshot whose weights it goes on from
    changes VARCHAR,   -- JSON: settings that are other than the parent's
    moment_at TIMESTAMP,  -- of the youngest fact that both runs have
    branched_at TIMESTAMP
);

-- One row per incident: a process that died, an object that was lost with its node, or matches that were set aside.
CREATE TABLE incidents (
    seq BIGINT,         -- of the last match, decision or update before
    kind VARCHAR,       -- runner, evaluation_runner, learner, peer, aggregator, experience, results, set_aside
    who VARCHAR, node VARCHAR,
    cause VARCHAR,      -- as far as it is known
    players VARCHAR,    -- JSON: whose learning it cost
    matches BIGINT,     -- that were under way: they are played again, or set aside
    env_steps BIGINT,   -- of experience that is not learned from
    updates BIGINT,     -- that were made and are lost
    remedy VARCHAR,     -- what took its place
    kept VARCHAR,       -- file in the run folder with what was set aside, and how to reproduce it
    happened_at TIMESTAMP
);

-- How sessions of training ended: trained, stopped before the end, failed. One without a row was killed, or goes on.
CREATE TABLE ends (
    seq BIGINT, state VARCHAR, reason VARCHAR, seconds DOUBLE, of_seconds DOUBLE, env_steps BIGINT,
    of_env_steps BIGINT, ended_at TIMESTAMP
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

-- Who takes part in a tournament: snapshots of other runs, mixtures of them, and bots. They are in `competitors` too.
CREATE TABLE entrants (
    competitor VARCHAR,   -- its name in the tournament, mode included
    kind VARCHAR,         -- snapshot, bot, mixture
    role VARCHAR, player VARCHAR,
    run VARCHAR,          -- the folder it was in, or the run's address
    -- Of a mixture: all its members with their weights, and the hash of all their hashes.
    snapshot_id VARCHAR, blob_hash VARCHAR,
    env_steps BIGINT,     -- of its player, when it was frozen; of a mixture, its newest member's
    created_at TIMESTAMP, architecture VARCHAR,
    temperature DOUBLE,   -- 1: it plays as it samples; 0: its likeliest action
    joined_at TIMESTAMP
);

-- One row per pair of a tournament whose schedule goes by results (swiss, adaptive, top_k): how it was drawn.
CREATE TABLE drawn_pairs (
    seq BIGINT,          -- of the pair's first match
    match_id BIGINT,     -- of that match
    round INTEGER,       -- 0 is the first
    probability DOUBLE,  -- with which they were to meet in this round, given all results before; 1: these decided it
    standing VARCHAR     -- JSON: of each of them what the schedule went by: points (swiss) or Elo; {}: nothing yet
);

CREATE TABLE matches (
    seq BIGINT, match_id BIGINT,
    purpose VARCHAR,     -- training, evaluation, tournament
    match_type VARCHAR,  -- the matchmaker's branch that drew it
    env VARCHAR, seed BIGINT,
    env_steps INTEGER,   -- decisions of all seats
    reason VARCHAR,      -- finished, illegal_action, step_limit, crash
    started_at TIMESTAMP, seconds REAL,
    batch BIGINT,        -- the ledger's frame it came with: matches of one batch were recorded together
    num_seats TINYINT,
    player VARCHAR,      -- the player that learned from it, the first by name; NULL: none
    -- Hash of all observations and actions: matches with the same digest are the same. NULL: some choice was
    -- drawn at random, or no digest was computed.
    digest BIGINT
);

CREATE TABLE seats (
    seq BIGINT, seat TINYINT, competitor VARCHAR, learning BOOLEAN,
    outcome VARCHAR,  -- win, draw, loss, forfeit
    score REAL,       -- sum of rewards
    rank TINYINT,     -- 0 is best; tied seats share the lower number
    team TINYINT      -- seats of one team win and lose together; without teams, the seat's own number.
                      -- NULL: recorded before teams were stored
);

-- How often each ordered pair of competitors met in one batch of results, and how it went for `home`. A
-- seat beats another by outcome, else by rank; a forfeit loses; two forfeits of one rank say nothing.
CREATE TABLE meetings (
    seq BIGINT,  -- of the batch's last match
    purpose VARCHAR, home VARCHAR, away VARCHAR,
    games INTEGER, wins INTEGER, draws INTEGER, losses INTEGER,
    -- Sums over the games of home's leads and of their squares; a lead is half of what home's score is above
    -- away's: where one pays the other, what home won. NULL: recorded before leads were stored.
    lead DOUBLE, squares DOUBLE
);

-- TrueSkill after a batch of results, or of a newcomer; seq is that of the last match before.
CREATE TABLE ratings (
    seq BIGINT, competitor VARCHAR, mu DOUBLE, sigma DOUBLE, games BIGINT,
    batch BIGINT  -- the ledger's frame it came with; NULL: not recorded
);

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

-- One row per node, tier of its caches and reporting interval in which they did something. Counts are
-- sums over the node's runners since they began.
CREATE TABLE caches (
    seq BIGINT,       -- of the last match, decision or update before
    node VARCHAR,
    tier VARCHAR,     -- device, mapped, disk, remote
    hits BIGINT, misses BIGINT,
    resident BIGINT, bytes BIGINT,  -- snapshots it holds now
    evictions VARCHAR,              -- JSON: how many, by cause
    recorded_at TIMESTAMP
);

-- What was done in the matches that were chosen for it (rollout.record): with the match's seed, all
-- that playing it again needs.
CREATE TABLE recordings (
    seq BIGINT,
    actions FLOAT[]  -- in order of time, then of seats; the numbers of one action side by side
);

-- What competitors score on fixed yardsticks: positions with known best moves, and fixed opponents. One row
-- per measure, mode and part. Live readers also show what was measured in a folder `yardsticks` of the run.
CREATE TABLE yardsticks (
    seq BIGINT,          -- of the last match, decision or update before; NULL: measured by `league yardstick`
    competitor VARCHAR,  -- a snapshot, or a bot for comparison
    yardstick VARCHAR,   -- positions, or the name of the fixed opponent
    kind VARCHAR,        -- positions, games
    measure VARCHAR,     -- best, kept: shares of positions; score: points per game
    mode VARCHAR,        -- how the competitor acts: sample, greedy
    part VARCHAR,        -- all, decisive, or a band of plies
    value DOUBLE, low DOUBLE, high DOUBLE,  -- with its 95 % interval
    samples BIGINT,      -- positions or games
    created_at TIMESTAMP
);

-- Matches that are no rows of `matches` any more (storage.retention): sums by minute and kind. `seq` and `batch` are
-- those of the last match that a sum has; no sum has matches of before and after a decision. `step_squares` is the
-- sum of the squares of the env steps.
CREATE TABLE summed_matches (
    seq BIGINT, batch BIGINT, purpose VARCHAR, match_type VARCHAR, env VARCHAR, reason VARCHAR, num_seats TINYINT,
    player VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP, matches BIGINT, env_steps BIGINT, step_squares DOUBLE,
    seconds DOUBLE, last_match_id BIGINT
);

-- Seats of these matches. `score` and `squares` are sums of scores and of their squares.
CREATE TABLE summed_seats (
    seq BIGINT, purpose VARCHAR, reason VARCHAR, num_seats TINYINT, competitor VARCHAR, seat TINYINT,
    learning BOOLEAN, outcome VARCHAR, seats BIGINT, score DOUBLE, squares DOUBLE
);

-- Games of these matches that a player learned from, by each other seat.
CREATE TABLE summed_opponents (seq BIGINT, player VARCHAR, opponent VARCHAR, games BIGINT);

-- All matches: one by one (`matches` is 1), and what was summed up.
CREATE VIEW played AS
SELECT
    seq, batch, purpose, match_type, env, reason, num_seats, player, started_at,
    started_at + to_microseconds(CAST(1e6 * seconds AS BIGINT)) AS ended_at,
    CAST(1 AS BIGINT) AS matches, CAST(env_steps AS BIGINT) AS env_steps,
    CAST(env_steps AS DOUBLE) ** 2 AS step_squares, CAST(seconds AS DOUBLE) AS seconds
FROM matches
UNION ALL
SELECT
    seq, batch, purpose, match_type, env, reason, num_seats, player, started_at, ended_at, matches, env_steps,
    step_squares, seconds
FROM summed_matches;

-- All seats, in the same way: `seats` is their number, `score` and `squares` are sums.
CREATE VIEW seated AS
SELECT
    s.seq, m.purpose, m.reason, m.num_seats, s.competitor, s.seat, s.learning, s.outcome,
    CAST(1 AS BIGINT) AS seats, CAST(s.score AS DOUBLE) AS score, CAST(s.score AS DOUBLE) ** 2 AS squares
FROM seats s JOIN matches m ON m.seq = s.seq
UNION ALL FROM summed_seats;

-- Every ordered pair of competitors that met, over all purposes, from `home`'s side. `lead` is per game, in the
-- game's own units; NULL: some games were recorded before leads were stored. `unit` (outcome, score) is what the
-- run's payoffs count; `points` and `deviation` are mean and standard deviation of that, per game and in [0, 1]:
-- 1, 1/2 and 0 of the outcomes, or 1/2 + lead / (2 most_lead).
CREATE VIEW payoff AS
WITH own AS (SELECT most_lead FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1),
summed AS (
    SELECT
        home, away,
        CAST(sum(m.games) AS BIGINT) AS games,
        CAST(sum(m.wins) AS BIGINT) AS wins,
        CAST(sum(m.draws) AS BIGINT) AS draws,
        CAST(sum(m.losses) AS BIGINT) AS losses,
        CASE WHEN count(m.lead) = count(*) THEN sum(m.lead) / sum(m.games) END AS lead,
        CASE WHEN count(m.squares) = count(*) THEN sum(m.squares) / sum(m.games) END AS square
    FROM meetings m
    GROUP BY home, away
)
SELECT
    home, away, games, wins, draws, losses,
    (wins + 0.5 * draws) / games AS win_rate,
    lead,
    CASE WHEN most_lead IS NULL OR lead IS NULL THEN 'outcome' ELSE 'score' END AS unit,
    CASE WHEN unit = 'outcome' THEN win_rate ELSE 0.5 + lead / (2 * most_lead) END AS points,
    CASE
        WHEN unit = 'outcome' THEN sqrt(greatest((wins + 0.25 * draws) / games - win_rate * win_rate, 0))
        ELSE sqrt(greatest(square - lead * lead, 0)) / (2 * most_lead)
    END AS deviation
FROM summed LEFT JOIN own ON true;

-- Everyone who was rated, best first. `games` is the rating's own count; `win_rate` is over all opponents
-- of all time, draws counting half; `lead` is what it was ahead per game, in the game's own units.
CREATE VIEW leaderboard AS
WITH latest AS (
    SELECT competitor, max_by({mu: mu, sigma: sigma, games: games}, (seq, coalesce(batch, 0))) AS rating
    FROM ratings GROUP BY competitor
),
rates AS (
    SELECT
        home AS competitor,
        (sum(wins) + 0.5 * sum(draws)) / sum(games) AS win_rate,
        CASE WHEN count(lead) = count(*) THEN sum(lead) / sum(games) END AS lead
    FROM meetings GROUP BY home
)
SELECT
    competitor, role, kind,
    rating.mu AS mu, rating.sigma AS sigma, rating.games AS games,
    win_rate,
    lead,
    rating.mu - 3 * rating.sigma AS skill
FROM latest LEFT JOIN competitors USING (competitor) LEFT JOIN rates USING (competitor)
ORDER BY skill DESC, competitor;

-- What was played: `share` is of all matches of one purpose that `player` learned from (NULL: none did).
CREATE VIEW match_mix AS
SELECT
    player, purpose, match_type,
    CAST(sum(p.matches) AS BIGINT) AS matches,
    sum(p.matches) / sum(sum(p.matches)) OVER (PARTITION BY player, purpose) AS share
FROM played p
GROUP BY player, purpose, match_type
ORDER BY player, purpose, sum(p.matches) DESC, match_type;

-- The same, minute by minute from the first match on: how the mix changes as the league grows.
CREATE VIEW match_mix_over_time AS
WITH timed AS (
    SELECT
        player, purpose, match_type, matches AS n,
        date_sub('minute', (SELECT min(started_at) FROM played), started_at) AS minute
    FROM played
)
SELECT
    player, purpose, minute, match_type,
    CAST(sum(n) AS BIGINT) AS matches,
    sum(n) / sum(sum(n)) OVER (PARTITION BY player, purpose, minute) AS share
FROM timed
GROUP BY player, purpose, minute, match_type
ORDER BY player, purpose, minute, sum(n) DESC, match_type;

-- Opponents that were learned from: games that `player` learned from, by each other seat; its own name: self-play.
CREATE VIEW learned_from AS
WITH met AS (
    SELECT learner.competitor AS player, other.competitor AS opponent, count(DISTINCT learner.seq) AS n
    FROM seats learner JOIN seats other ON learner.seq = other.seq AND learner.seat <> other.seat
    WHERE learner.learning
    GROUP BY learner.competitor, other.competitor
    UNION ALL SELECT player, opponent, games FROM summed_opponents
)
SELECT
    player, opponent,
    CAST(sum(n) AS BIGINT) AS games,
    sum(n) / sum(sum(n)) OVER (PARTITION BY player) AS share
FROM met
GROUP BY player, opponent
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
