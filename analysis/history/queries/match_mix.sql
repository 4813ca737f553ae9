-- What was played? Matches by who learned from them and by the branch that drew them.
-- player (NULL: no player learned); purpose; match_type; matches; share (of the player's matches of that purpose)
SELECT player, purpose, match_type, matches, share
FROM match_mix
ORDER BY player, purpose, matches DESC, match_type
