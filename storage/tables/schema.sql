-- The tables and views of a run, as `league sql`, `analysis` and copies for other tools (database_file.py) have them.
-- They are read from the ledger, and hold nothing of their own. `seq` numbers matches, decisions and updates of a run
-- in the order of recording; times are UTC. No keys: the ledger has seen to uniqueness.
--
-- A column of a table is one line: name, type, and behind `--` its comment, which lines below may go on with. The
-- comment above a statement is that of its table or view; a view's columns are explained there, one `name: ...` each.
-- storage/tables/schema.py reads all this: a fact is a record (storage/tables/codec.py) and a line here.

-- Sessions: one row for the first and for each resume, and one where the run was branched from another.
CREATE TABLE runs (
    seq BIGINT,  -- number of the session's first match, decision or update
    name VARCHAR,  -- name of the run
    env VARCHAR,  -- game that it plays
    seed BIGINT,  -- seed of the settings
    config VARCHAR,  -- settings of the session, YAML
    version VARCHAR,  -- version of checkpoint-league
    started_at TIMESTAMP,  -- beginning of the session
    most_lead DOUBLE  -- where payoffs count scores: the most that the game lets a seat be ahead per game.
                      -- NULL: payoffs count games won
);

-- Moments at which this run was branched from another run, oldest first: the last row is its own, those before it are
-- of the runs that its parent was branched from. Rows of other tables up to that moment are the parent's.
CREATE TABLE branches (
    seq BIGINT,  -- number of the branch's first match, decision or update
    parent VARCHAR,  -- run that it was branched from: its folder, or the address of its remote
    frame BIGINT,  -- last frame of the ledger that both runs have
    env_steps BIGINT,  -- env steps of the league by then
    matches BIGINT,  -- matches by then
    seconds DOUBLE,  -- seconds of training by then
    learners VARCHAR,  -- JSON: for each player `state`, or the snapshot whose weights it goes on from
    changes VARCHAR,  -- JSON: settings that differ from the parent's
    moment_at TIMESTAMP,  -- time of the youngest fact that both runs have
    branched_at TIMESTAMP  -- time of the branching
);

-- Incidents: processes that died, objects that were lost with their node, and matches that were set aside.
CREATE TABLE incidents (
    seq BIGINT,  -- number of the last match, decision or update before
    kind VARCHAR,  -- runner, evaluation_runner, learner, peer, aggregator, experience, results, set_aside, crash,
    -- forfeit (of a competitor that failed), withdrawn
    who VARCHAR,  -- what it was, such as "runner 2"
    node VARCHAR,  -- host where it was; empty: not known
    cause VARCHAR,  -- cause, as far as it is known
    players VARCHAR,  -- JSON: players whose learning it cost
    matches BIGINT,  -- matches that were under way: they are played again, or set aside
    env_steps BIGINT,  -- env steps of experience that is not learned from
    updates BIGINT,  -- updates that were made and are lost
    remedy VARCHAR,  -- what took its place
    kept VARCHAR,  -- file in the run folder with what was set aside, and how to reproduce it
    happened_at TIMESTAMP  -- time at which it was noticed
);

-- Ends of sessions of training. A session without a row was killed, or goes on.
CREATE TABLE ends (
    seq BIGINT,  -- number of the last match, decision or update before
    state VARCHAR,  -- trained, stopped (before the end), failed
    reason VARCHAR,  -- error that ended it; empty: none
    seconds DOUBLE,  -- seconds of training so far, earlier sessions included
    of_seconds DOUBLE,  -- seconds that the settings ask for; NULL: no limit
    env_steps BIGINT,  -- env steps played so far
    of_env_steps BIGINT,  -- env steps that the settings ask for; NULL: no limit
    ended_at TIMESTAMP  -- time of the end
);

-- Players: members of the league that learn.
CREATE TABLE players (
    player VARCHAR,  -- name
    role VARCHAR,  -- main, main_exploiter, league_exploiter, or a role of the settings
    added_at TIMESTAMP  -- time of joining
);

-- Snapshots: policies that never change, each frozen from a player or imported.
CREATE TABLE snapshots (
    snapshot_id VARCHAR,  -- name as a competitor
    player VARCHAR,  -- player that was frozen
    role VARCHAR,  -- role of the player; imported: it came from another run
    env_steps BIGINT,  -- env steps that its player had learned from when it was frozen
    updates BIGINT,  -- optimizer steps of its player by then
    parent_id VARCHAR,  -- snapshot whose weights it was trained on from; NULL: from scratch
    blob_hash VARCHAR,  -- blake3 of its weights, which name the file in `objects`
    bytes BIGINT,  -- bytes of that file
    architecture VARCHAR,  -- network: equal for policies whose weights fit each other
    created_at TIMESTAMP,  -- time of freezing
    reason VARCHAR  -- why it was frozen
);

-- Competitors: all that fill seats and are rated.
CREATE TABLE competitors (
    competitor VARCHAR,  -- name: of a player, a snapshot, a bot or an entrant
    kind VARCHAR,  -- player, snapshot, bot, mixture; external: its games were played elsewhere
    role VARCHAR,  -- role of its player; NULL: a bot or a mixture
    player VARCHAR,  -- player whose policy it is; NULL: a bot or a mixture
    added_at TIMESTAMP  -- time of joining
);

-- Entrants of a tournament: snapshots of other runs, mixtures of them, and bots. They are in `competitors` too.
CREATE TABLE entrants (
    competitor VARCHAR,  -- name in the tournament, mode included
    kind VARCHAR,  -- snapshot, bot, mixture; external: its games were played elsewhere
    role VARCHAR,  -- role of its player; NULL: a bot or a mixture
    player VARCHAR,  -- player that was frozen; NULL: a bot or a mixture
    run VARCHAR,  -- folder that it was in, or the run's address; NULL: a bot
    snapshot_id VARCHAR,  -- snapshot; of a mixture, all its members with their weights
    blob_hash VARCHAR,  -- blake3 of its weights; of a mixture, of all its members' hashes
    env_steps BIGINT,  -- env steps of its player when it was frozen; of a mixture, of its newest member
    created_at TIMESTAMP,  -- time of freezing
    architecture VARCHAR,  -- network
    temperature DOUBLE,  -- 1: it samples its actions; 0: it takes its likeliest action
    joined_at TIMESTAMP  -- time of joining the tournament
);

-- Pairs of a tournament whose schedule goes by results (swiss, adaptive, top_k), and how they were drawn.
CREATE TABLE drawn_pairs (
    seq BIGINT,  -- number of the pair's first match
    match_id BIGINT,  -- match_id of that match
    round INTEGER,  -- round of the schedule; 0 is the first
    probability DOUBLE,  -- with which they were to meet in this round, given all results before; 1: these decided it
    standing VARCHAR  -- JSON: of each of them what the schedule went by: points (swiss) or Elo; {}: nothing yet
);

-- Matches that were played and are kept one by one; `played` has also those that were summed up.
CREATE TABLE matches (
    seq BIGINT,  -- number in the order of recording, shared with decisions and updates
    match_id BIGINT,  -- number in the order of drawing
    purpose VARCHAR,  -- training, evaluation, tournament
    match_type VARCHAR,  -- branch of the matchmaker that drew it; given: it was played elsewhere
    env VARCHAR,  -- game
    seed BIGINT,  -- seed of the game
    env_steps INTEGER,  -- decisions of all seats
    reason VARCHAR,  -- why it ended: finished, illegal_action, step_limit, crash, error, time
    started_at TIMESTAMP,  -- beginning of the match
    seconds FLOAT,  -- duration
    batch BIGINT,  -- frame of the ledger: matches of one batch were recorded together
    num_seats TINYINT,  -- number of seats
    player VARCHAR,  -- player that learned from it, the first by name; NULL: none
    digest BIGINT  -- hash of all observations and actions: matches with the same digest are the same.
                   -- NULL: some choice was drawn at random, or no digest was computed
);

-- Seats of the matches in `matches`: who filled them, and the result.
CREATE TABLE seats (
    seq BIGINT,  -- number of the match
    seat TINYINT,  -- number of the seat, from 0
    competitor VARCHAR,  -- competitor in it
    learning BOOLEAN,  -- whether its player learned from what it saw there
    outcome VARCHAR,  -- win, draw, loss, forfeit
    score FLOAT,  -- sum of rewards
    rank TINYINT,  -- 0 is best; tied seats share the lower number
    team TINYINT  -- seats of one team win and lose together; without teams, the seat's own number.
                  -- NULL: recorded before teams were stored
);

-- How often each ordered pair of competitors met in one batch of results, and how it went for `home`. A seat beats
-- another by outcome, else by rank; a forfeit loses; two forfeits of one rank say nothing.
CREATE TABLE meetings (
    seq BIGINT,  -- number of the batch's last match
    purpose VARCHAR,  -- training, evaluation, tournament
    home VARCHAR,  -- competitor whose results these are
    away VARCHAR,  -- competitor that it met
    games INTEGER,  -- games of the pair
    wins INTEGER,  -- games that home won
    draws INTEGER,  -- games that were even
    losses INTEGER,  -- games that home lost
    lead DOUBLE,  -- sum of home's leads; the lead of a game is half of what home's score is above away's: where one
                  -- pays the other, what home won. NULL: recorded before leads were stored
    squares DOUBLE  -- sum of the squares of home's leads, for their deviation; NULL as `lead`
);

-- TrueSkill ratings after a batch of results, or of a newcomer.
CREATE TABLE ratings (
    seq BIGINT,  -- number of the last match before
    competitor VARCHAR,  -- competitor that is rated
    mu DOUBLE,  -- mean of its skill
    sigma DOUBLE,  -- standard deviation of what is known of its skill
    games BIGINT,  -- games that it was rated by
    batch BIGINT  -- frame of the ledger that it came with; NULL: not recorded
);

-- Decisions of the league builder, with their reasons.
CREATE TABLE decisions (
    seq BIGINT,  -- number in the order of recording, shared with matches and updates
    kind VARCHAR,  -- freeze, reset, add, remove, retire, stop
    player VARCHAR,  -- player that it is about
    snapshot_id VARCHAR,  -- snapshot that was frozen, reset to, or retired; NULL: none
    role VARCHAR,  -- role of a player that was added; NULL: other decisions
    reason VARCHAR,  -- why it was taken
    evidence VARCHAR,  -- JSON: numbers that triggered it
    decided_at TIMESTAMP  -- time of the decision
);

-- Reports of learners, one row per player and reporting interval: means over the updates since the last row.
CREATE TABLE updates (
    seq BIGINT,  -- number in the order of recording, shared with matches and decisions
    player VARCHAR,  -- player that learned
    updates BIGINT,  -- optimizer steps so far
    env_steps BIGINT,  -- env steps learned from so far
    lag DOUBLE,  -- updates between the weights that acted and those that learned
    policy_loss DOUBLE,  -- loss of the policy
    value_loss DOUBLE,  -- loss of the value function
    entropy DOUBLE,  -- entropy of the policy, in nats
    gradient_norm DOUBLE,  -- norm of the gradient before it is clipped
    metrics VARCHAR,  -- JSON: whatever else the learner reported
    recorded_at TIMESTAMP  -- time of recording
);

-- Caches, one row per node, tier and reporting interval in which it did something. Counts are sums over the node's
-- runners since they began.
CREATE TABLE caches (
    seq BIGINT,  -- number of the last match, decision or update before
    node VARCHAR,  -- host
    tier VARCHAR,  -- device, mapped, disk, remote
    hits BIGINT,  -- requests for a snapshot that it had
    misses BIGINT,  -- requests for a snapshot that it did not have
    resident BIGINT,  -- snapshots that it holds now
    bytes BIGINT,  -- bytes of these
    evictions VARCHAR,  -- JSON: number of evictions by cause
    recorded_at TIMESTAMP  -- time of recording
);

-- Actions of the matches that were chosen for recording (rollout.record): with the match's seed, all that playing it
-- again needs.
CREATE TABLE recordings (
    seq BIGINT,  -- number of the match
    actions FLOAT[]  -- in order of time, then of seats; the numbers of one action side by side
);

-- What was measured of competitors: on fixed yardsticks (positions with known best moves, fixed opponents), and how
-- far they can be exploited. One row per measure, mode and part; while training, by `league yardstick` or by
-- `league exploit`.
CREATE TABLE yardsticks (
    seq BIGINT,  -- number of the last match, decision or update before; NULL: measured by a command
    competitor VARCHAR,  -- snapshot, bot for comparison, or mixture of snapshots
    yardstick VARCHAR,  -- positions, the name of the fixed opponent; best response, trained response
    kind VARCHAR,  -- positions, games; of exploitability: exact, lower_bound
    measure VARCHAR,  -- best, kept: shares of positions; score: points per game; exploitability: gain of a response
    mode VARCHAR,  -- how the competitor acts: sample, greedy
    part VARCHAR,  -- all, decisive, or a band of plies
    value DOUBLE,  -- figure, in [0, 1]; exploitability: in points of a game's score
    low DOUBLE,  -- lower end of its 95 % interval
    high DOUBLE,  -- upper end of its 95 % interval
    samples BIGINT,  -- positions or games; exploitability: NULL
    created_at TIMESTAMP  -- time of measuring
);

-- Matches that are no rows of `matches` any more (storage.retention), as sums by minute and kind. No sum has matches
-- of before and after a decision.
CREATE TABLE summed_matches (
    seq BIGINT,  -- number of the last match in the sum
    batch BIGINT,  -- frame of the ledger that this match came with
    purpose VARCHAR,  -- training, evaluation, tournament
    match_type VARCHAR,  -- branch of the matchmaker that drew them
    env VARCHAR,  -- game
    reason VARCHAR,  -- why they ended: finished, illegal_action, step_limit, crash, error, time
    num_seats TINYINT,  -- number of seats of each
    player VARCHAR,  -- player that learned from them, the first by name; NULL: none
    started_at TIMESTAMP,  -- beginning of the first
    ended_at TIMESTAMP,  -- end of the last
    matches BIGINT,  -- number of matches
    env_steps BIGINT,  -- sum of their decisions
    step_squares DOUBLE,  -- sum of the squares of each match's decisions
    seconds DOUBLE,  -- sum of their durations
    last_match_id BIGINT,  -- highest match_id of these or later ones of their time
    batches BIGINT  -- number of batches whose first match of the player is among them. NULL: not recorded
);

-- Seats of the matches in `summed_matches`, as sums.
CREATE TABLE summed_seats (
    seq BIGINT,  -- number of the last match in the sum
    purpose VARCHAR,  -- training, evaluation, tournament
    reason VARCHAR,  -- why the matches ended: finished, illegal_action, step_limit, crash, error, time
    num_seats TINYINT,  -- number of seats of each match
    competitor VARCHAR,  -- competitor in the seats
    seat TINYINT,  -- number of the seat, from 0
    learning BOOLEAN,  -- whether its player learned from what it saw there
    outcome VARCHAR,  -- win, draw, loss, forfeit
    seats BIGINT,  -- number of seats
    score DOUBLE,  -- sum of their scores
    squares DOUBLE  -- sum of the squares of their scores
);

-- Games that players learned from, by each competitor in another seat: of old matches as sums, else by batch.
CREATE TABLE summed_opponents (
    seq BIGINT,  -- number of the last match in the sum
    player VARCHAR,  -- player that learned
    opponent VARCHAR,  -- competitor in the other seat; the player's own name: self-play
    games BIGINT  -- number of games
);

-- All matches: the newest each as one row, older ones as sums by kind, minute and stretch of the run.
--   seq: number of the match, or of the last one in the sum
--   batch: frame of the ledger that this match came with
--   purpose: training, evaluation, tournament
--   match_type: branch of the matchmaker that drew it
--   env: game
--   reason: why it ended: finished, illegal_action, step_limit, crash, error, time
--   num_seats: number of seats of each match
--   player: player that learned from it, the first by name; NULL: none
--   started_at: beginning of the first match
--   ended_at: end of the last match
--   matches: number of matches
--   env_steps: sum of their decisions
--   step_squares: sum of the squares of each match's decisions
--   seconds: sum of their durations
--   batches: number of batches whose first match of the player is among them; NULL: one match, or not recorded
--   is_placing: whether they place the newest snapshots, for the record only: the league's clock of env steps is without
CREATE VIEW played AS
SELECT
    seq, batch, purpose, match_type, env, reason, num_seats, player, started_at,
    started_at + to_microseconds(CAST(1e6 * seconds AS BIGINT)) AS ended_at,
    CAST(1 AS BIGINT) AS matches, CAST(env_steps AS BIGINT) AS env_steps,
    CAST(env_steps AS DOUBLE) ** 2 AS step_squares, CAST(seconds AS DOUBLE) AS seconds,
    CAST(NULL AS BIGINT) AS batches, purpose = 'evaluation' AND match_type = 'round_robin' AS is_placing
FROM matches
UNION ALL
SELECT
    seq, batch, purpose, match_type, env, reason, num_seats, player, started_at, ended_at, matches, env_steps,
    step_squares, seconds, batches, purpose = 'evaluation' AND match_type = 'round_robin' AS is_placing
FROM summed_matches;

-- Decisions with the league's clock: how far it was when each was taken.
--   seq: number in the order of recording, shared with matches and updates
--   decided_at: time of the decision
--   env_steps: env steps of the league by then, as `stop` counts them, in whole batches
--   kind: freeze, reset, add, remove, retire, stop
--   player: player that it is about
--   snapshot_id: snapshot that was frozen, reset to, or retired; NULL: none
--   role: role of a player that was added; NULL: other decisions
--   reason: why it was taken
--   evidence: JSON: numbers that triggered it
CREATE VIEW decided AS
WITH clock AS (
    SELECT seq, sum(env_steps) FILTER (NOT is_placing) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS steps FROM played
)
SELECT
    d.seq, decided_at, CAST(coalesce(steps, 0) AS BIGINT) AS env_steps, kind, player, snapshot_id, role, reason, evidence
FROM decisions d ASOF LEFT JOIN clock ON d.seq >= clock.seq
ORDER BY d.seq;

-- All seats: those of the newest matches each as one row, older ones as sums by kind and stretch of the run.
--   seq: number of the match, or of the last one in the sum
--   purpose: training, evaluation, tournament
--   reason: why the match ended: finished, illegal_action, step_limit, crash, error, time
--   num_seats: number of seats of the match
--   competitor: competitor in the seat
--   seat: number of the seat, from 0
--   learning: whether its player learned from what it saw there
--   outcome: win, draw, loss, forfeit
--   seats: number of seats
--   score: sum of their scores
--   squares: sum of the squares of their scores
CREATE VIEW seated AS
SELECT
    s.seq, m.purpose, m.reason, m.num_seats, s.competitor, s.seat, s.learning, s.outcome,
    CAST(1 AS BIGINT) AS seats, CAST(s.score AS DOUBLE) AS score, CAST(s.score AS DOUBLE) ** 2 AS squares
FROM seats s JOIN matches m ON m.seq = s.seq
UNION ALL FROM summed_seats;

-- All of `meetings`: the newest batch by batch, older ones as sums over stretches of the run. No sum spans a decision
-- on the player of home or away, or a snapshot of it.
--   seq: number of the last match of the batch, or in the sum
--   purpose: training, evaluation, tournament
--   home: competitor whose results these are
--   away: competitor that it met
--   games: games of the pair
--   wins: games that home won
--   draws: games that were even
--   losses: games that home lost
--   lead: sum of home's leads; NULL: recorded before leads were stored
--   squares: sum of the squares of home's leads; NULL as `lead`
CREATE VIEW met AS
SELECT
    seq, purpose, home, away, CAST(games AS BIGINT) AS games, CAST(wins AS BIGINT) AS wins,
    CAST(draws AS BIGINT) AS draws, CAST(losses AS BIGINT) AS losses, lead, squares
FROM meetings;

-- Ratings over time: the newest batch by batch, of older ones the last of each competitor in stretches of the run.
--   seq: number of the last match before
--   competitor: competitor that is rated
--   mu: mean of its skill
--   sigma: standard deviation of what is known of its skill
--   games: games that it was rated by
--   batch: frame of the ledger that it came with; NULL: not recorded
CREATE VIEW rated AS FROM ratings;

-- Every ordered pair of competitors that met, over all purposes, from `home`'s side.
--   home: competitor whose results these are
--   away: competitor that it met
--   games: games of the pair
--   wins: games that home won
--   draws: games that were even
--   losses: games that home lost
--   win_rate: share of games that home won, draws counting half
--   lead: mean lead of home per game, in the game's own units; NULL: some games were recorded before leads were stored
--   unit: outcome or score: what the run's payoffs count
--   points: mean of the unit per game, in [0, 1]: 1, 1/2 and 0 of the outcomes, or 1/2 + lead / (2 most_lead)
--   deviation: standard deviation of the unit per game
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
    FROM met m
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

-- All competitors that were rated, best first. Games are those of `payoff`: of a match with more than two seats or teams
-- one against each of the others. `games` and their rates are of all purposes; a tournament's games are in these alone.
--   competitor: competitor
--   role: role of its player; NULL: a bot or a mixture
--   kind: player, snapshot, bot, mixture
--   mu: mean of its skill (TrueSkill)
--   sigma: standard deviation of what is known of its skill
--   games: games against all opponents, of all time
--   win_rate: share of these games won, draws counting half
--   points: mean per game of what payoffs count, as in `payoff`
--   lead: mean lead per game, in the game's own units; NULL: not recorded for all games
--   training_games: those of training
--   training_win_rate: share of them won
--   training_points: mean per game of what payoffs count
--   evaluation_games: those of evaluation, placing games among them
--   evaluation_win_rate: share of them won
--   evaluation_points: mean per game of what payoffs count
--   skill: mu - 3 sigma, which orders the board
CREATE VIEW leaderboard AS
WITH latest AS (
    SELECT competitor, max_by({mu: mu, sigma: sigma}, (seq, coalesce(batch, 0))) AS rating
    FROM rated GROUP BY competitor
),
own AS (SELECT most_lead FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1),
sums AS MATERIALIZED (
    SELECT
        home, purpose,
        CAST(sum(m.games) AS BIGINT) AS games,
        (sum(wins) + 0.5 * sum(draws)) / sum(m.games) AS win_rate,
        CASE WHEN count(m.lead) = count(*) THEN sum(m.lead) / sum(m.games) END AS lead
    FROM met m GROUP BY GROUPING SETS ((home), (home, purpose))
),
counted AS (SELECT *, coalesce(0.5 + lead / (2 * (SELECT most_lead FROM own)), win_rate) AS points FROM sums)
SELECT
    latest.competitor AS competitor, role, kind,
    rating.mu AS mu, rating.sigma AS sigma,
    coalesce(a.games, 0) AS games, a.win_rate AS win_rate, a.points AS points, a.lead AS lead,
    coalesce(t.games, 0) AS training_games, t.win_rate AS training_win_rate, t.points AS training_points,
    coalesce(e.games, 0) AS evaluation_games, e.win_rate AS evaluation_win_rate, e.points AS evaluation_points,
    rating.mu - 3 * rating.sigma AS skill
FROM latest
LEFT JOIN competitors USING (competitor)
LEFT JOIN counted a ON a.home = latest.competitor AND a.purpose IS NULL
LEFT JOIN counted t ON t.home = latest.competitor AND t.purpose = 'training'
LEFT JOIN counted e ON e.home = latest.competitor AND e.purpose = 'evaluation'
ORDER BY skill DESC, competitor;

-- What was played: matches by player, purpose and branch of the matchmaker.
--   player: player that learned from them, the first by name; NULL: none
--   purpose: training, evaluation, tournament
--   match_type: branch of the matchmaker that drew them
--   matches: number of matches
--   share: share of all matches of this player and purpose
CREATE VIEW match_mix AS
SELECT
    player, purpose, match_type,
    CAST(sum(p.matches) AS BIGINT) AS matches,
    sum(p.matches) / sum(sum(p.matches)) OVER (PARTITION BY player, purpose) AS share
FROM played p
GROUP BY player, purpose, match_type
ORDER BY player, purpose, sum(p.matches) DESC, match_type;

-- `match_mix` minute by minute from the first match on: how the mix changes as the league grows.
--   player: player that learned from them, the first by name; NULL: none
--   purpose: training, evaluation, tournament
--   minute: minutes since the run's first match began
--   match_type: branch of the matchmaker that drew them
--   matches: number of matches
--   share: share of all matches of this player, purpose and minute
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

-- Opponents that were learned from.
--   player: player that learned
--   opponent: competitor in another seat; the player's own name: self-play
--   games: games that the player learned from, with this opponent in them
--   share: share of the player's games
CREATE VIEW learned_from AS
SELECT
    player, opponent,
    CAST(sum(o.games) AS BIGINT) AS games,
    sum(o.games) / sum(sum(o.games)) OVER (PARTITION BY player) AS share
FROM summed_opponents o
GROUP BY player, opponent
ORDER BY player, sum(o.games) DESC, opponent;

-- How many matches were played between which kinds of competitors. A row counts from home's side, so that two kinds
-- have two rows; self-play is a draw.
--   purpose: training, evaluation, tournament
--   home_role: role of home's player; NULL: a bot or a mixture
--   home_kind: player, snapshot, bot, mixture
--   away_role: role of away's player; NULL: a bot or a mixture
--   away_kind: player, snapshot, bot, mixture
--   games: games of such pairs; of a game for two, matches
--   win_rate: share of games that home won, draws counting half
--   share: share of all games with this purpose
CREATE VIEW matches_by_role AS
WITH pairs AS (
    SELECT purpose, home, away, games, wins + 0.5 * draws AS points FROM met
    UNION ALL
    SELECT 'training', player, opponent, 2 * games, games FROM summed_opponents WHERE player = opponent
),
counted AS (
    SELECT
        purpose, us.role AS home_role, us.kind AS home_kind, them.role AS away_role, them.kind AS away_kind,
        CASE WHEN us.kind = them.kind AND us.role IS NOT DISTINCT FROM them.role THEN 2 ELSE 1 END AS sides,
        sum(games) / sides AS n, sum(points) / sides AS points
    FROM pairs LEFT JOIN competitors us ON home = us.competitor LEFT JOIN competitors them ON away = them.competitor
    GROUP BY purpose, us.role, us.kind, them.role, them.kind
)
SELECT
    purpose, home_role, home_kind, away_role, away_kind,
    CAST(n AS BIGINT) AS games, points / n AS win_rate,
    n / (sum(n * (1 + (sides = 2)::INTEGER)) OVER (PARTITION BY purpose) / 2) AS share
FROM counted
ORDER BY purpose, n DESC, home_role, home_kind, away_role, away_kind;

-- Every ancestor of every snapshot.
--   snapshot_id: snapshot
--   ancestor_id: snapshot that it descends from
--   generation: 1 is its parent
CREATE VIEW lineage AS
WITH RECURSIVE ancestors AS (
    SELECT snapshot_id, parent_id AS ancestor_id, 1 AS generation FROM snapshots WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT a.snapshot_id, s.parent_id, a.generation + 1
    FROM ancestors a JOIN snapshots s ON s.snapshot_id = a.ancestor_id
    WHERE s.parent_id IS NOT NULL
)
SELECT snapshot_id, ancestor_id, generation FROM ancestors ORDER BY snapshot_id, generation;
