"""Recruits for tests: players that all learn alike, but for their seeds."""

from league.learning.groups.shard_learners import Recruit, Recruits


def recruits_of(spec, settings, seeds):
    """Players of `seeds` (player: seed), with one policy and one set of settings."""
    return Recruits(tuple(Recruit(player, spec, settings, seed) for player, seed in seeds.items()))
