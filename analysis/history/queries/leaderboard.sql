-- What are the ratings? Everyone who was rated, by skill. For which is best: league ratings.
-- competitor; role (NULL: a bot); kind (player, snapshot, bot); mu, sigma (TrueSkill); games (that the rating
-- counts); win_rate (over all opponents, draws count half); skill (mu - 3 sigma)
SELECT competitor, role, kind, mu, sigma, games, win_rate, skill
FROM leaderboard
ORDER BY skill DESC, competitor
