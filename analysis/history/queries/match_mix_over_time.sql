-- How did the mix of matches change? The same, minute by minute.
-- player (NULL: no player learned); purpose; minute (since the first match); match_type; matches; share (of the
-- player's matches of that purpose and minute)
SELECT player, purpose, minute, match_type, matches, share
FROM match_mix_over_time
ORDER BY player, purpose, minute, matches DESC, match_type
