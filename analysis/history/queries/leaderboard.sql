-- What are the ratings? Everyone who was rated, by skill. For which is best: league ratings.
-- competitor; role (NULL: a bot); kind (player, snapshot, bot); mu, sigma (TrueSkill); games, win_rate, points (of all
-- games; draws count half; what payoffs count per game); training_games, training_win_rate, training_points (of those
-- of training); evaluation_games, evaluation_win_rate, evaluation_points (of those of evaluation); skill (mu - 3 sigma)
SELECT
    competitor, role, kind, mu, sigma, games, win_rate, points, training_games, training_win_rate, training_points,
    evaluation_games, evaluation_win_rate, evaluation_points, skill
FROM leaderboard
ORDER BY skill DESC, competitor
