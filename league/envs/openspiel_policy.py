"""Public import path of `as_openspiel_policy`, which puts a policy behind OpenSpiel's interface."""

from league.envs.adapters.openspiel.policy import as_openspiel_policy

__all__ = ["as_openspiel_policy"]
