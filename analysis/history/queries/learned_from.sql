-- Who learned from whom? Games that a player learned from, by opponent.
-- player; opponent (its own name: self-play); games; share (of all games that the player learned from)
SELECT player, opponent, games, share
FROM learned_from
ORDER BY player, games DESC, opponent
