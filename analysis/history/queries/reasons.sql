-- How do matches end? By purpose and reason.
-- purpose; reason (finished, illegal_action, step_limit, crash, error, time); matches; share (of the purpose's matches);
-- env_steps, seconds (means of such a match)
SELECT
    purpose, reason, CAST(sum(p.matches) AS BIGINT) AS matches,
    sum(p.matches) / sum(sum(p.matches)) OVER (PARTITION BY purpose) AS share,
    sum(p.env_steps) / sum(p.matches) AS env_steps, sum(p.seconds) / sum(p.matches) AS seconds
FROM played p
GROUP BY purpose, reason
ORDER BY purpose, sum(p.matches) DESC, reason
