"""Recruits for tests: players that all learn alike, but for their seeds."""

from league.learning.groups.shard_learners import Recruit, Recruits
from league.learning.settings import LearnersSettings


def recruits_of(spec, settings, seeds, **shared):
    """Players of `seeds` (player: seed), with one policy and one set of settings; `shared`: by all."""
    each = tuple(Recruit(player, spec, settings, seed) for player, seed in seeds.items())
    return Recruits(each, shared=LearnersSettings(**shared))


def shared_of(settings):
    """Take from `settings` (by name) those that all learners share."""
    return {key: settings.pop(key) for key in LearnersSettings.model_fields if key in settings}
