"""Public import path of `aec_env` and `parallel_env`, which show every game here as a PettingZoo env."""

from league.envs.adapters.pettingzoo.view import aec_env, parallel_env

__all__ = ["aec_env", "parallel_env"]
