-- Is learning healthy? What each player's learner reported, interval by interval.
-- recorded_at (UTC); player; updates, env_steps (so far); lag (updates between the weights that acted and those
-- that learned); policy_loss, value_loss, entropy, gradient_norm (means over the interval)
SELECT recorded_at, player, updates, env_steps, lag, policy_loss, value_loss, entropy, gradient_norm
FROM updates
ORDER BY player, seq
