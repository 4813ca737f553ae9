"""The import paths that README names lead to the same objects as the files behind them."""

import league.envs.openspiel_policy
import league.envs.pettingzoo_view
from league.envs.adapters.openspiel.policy import as_openspiel_policy
from league.envs.adapters.pettingzoo.view import aec_env, parallel_env


def test_public_paths_lead_to_the_same_objects():
    assert league.envs.openspiel_policy.as_openspiel_policy is as_openspiel_policy
    assert league.envs.pettingzoo_view.aec_env is aec_env
    assert league.envs.pettingzoo_view.parallel_env is parallel_env
    assert league.envs.openspiel_policy.__all__ == ["as_openspiel_policy"]
    assert league.envs.pettingzoo_view.__all__ == ["aec_env", "parallel_env"]
