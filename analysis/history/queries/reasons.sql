-- How do matches end? By purpose and reason.
-- purpose; reason (finished, illegal_action, step_limit, crash); matches; share (of the purpose's matches);
-- env_steps, seconds (means of such a match)
SELECT
    purpose, reason, count(*) AS matches,
    count(*) / sum(count(*)) OVER (PARTITION BY purpose) AS share,
    avg(env_steps) AS env_steps, avg(seconds) AS seconds
FROM matches
GROUP BY purpose, reason
ORDER BY purpose, matches DESC, reason
