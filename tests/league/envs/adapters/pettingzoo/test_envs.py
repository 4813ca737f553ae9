"""PettingZoo's envs by name: what is found, what is said when nothing is, and how they are made."""

import sys

import numpy as np
import pettingzoo
import pytest
from pettingzoo.utils import wrappers
from pettingzoo.utils.conversions import aec_to_parallel_wrapper

from league.envs.adapters.pettingzoo.envs import find_makers, open_env, takes_option


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("classic/ches_v6", "no such env, and no module 'classic.ches_v6': did you mean classic/chess_v6"),
        ("classic/chess", "did you mean .*classic/chess_v6"),
        ("xyzzy", "no module 'xyzzy': expected an id such as classic/chess_v6"),
        ("", "there is no such env: expected an id"),
        ("..", "there is no such env: expected an id"),
        ("mpe2/simple_sprad_v3", "no module 'mpe2.simple_sprad_v3'"),
        ("json", r"module 'json' has neither env\(\) nor parallel_env\(\)"),
    ],
)
def test_a_wrong_id_is_answered_with_the_nearest(name, message):
    with pytest.raises(LookupError, match=message):
        find_makers(name)


def test_a_module_that_needs_what_is_not_installed_says_so(own_module):
    own_module("my_zoo", "import no_such_package\n")
    with pytest.raises(LookupError, match=r"module 'my_zoo' cannot be imported: .*no_such_package"):
        find_makers("my_zoo")


def test_pettingzoo_that_is_not_installed_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(LookupError, match=r"pip install '\.\[pettingzoo\]'"):
        find_makers("classic/chess_v6")


@pytest.mark.parametrize("spelling", ["mpe2/simple_tag_v3", "mpe2.simple_tag_v3", "mpe2:simple_tag_v3"])
def test_a_module_may_be_spelled_with_dots_or_slashes(spelling):
    from mpe2 import simple_tag_v3

    assert find_makers(spelling) == {"aec": simple_tag_v3.env, "parallel": simple_tag_v3.parallel_env}


@pytest.mark.parametrize(
    ("name", "api", "parallel"),
    [
        ("classic/rps_v2", "auto", True),
        ("classic/rps_v2", "parallel", True),
        ("classic/rps_v2", "aec", False),
        ("classic/tictactoe_v3", "auto", False),
        ("mpe2/simple_v3", "auto", True),
    ],
)
def test_agents_act_at_once_where_the_env_offers_it_and_nothing_else_was_asked_for(name, api, parallel):
    env = open_env(find_makers(name), api, {}, guarded=False)
    assert isinstance(env, pettingzoo.ParallelEnv) == parallel


def test_an_aec_env_may_be_opened_as_parallel_and_a_parallel_env_as_aec():
    aec, parallel = find_makers("classic/rps_v2")["aec"], find_makers("classic/rps_v2")["parallel"]
    assert isinstance(open_env({"auto": aec}, "parallel", {}, guarded=True), pettingzoo.ParallelEnv)
    assert isinstance(open_env({"auto": parallel}, "aec", {}, guarded=True), pettingzoo.AECEnv)
    with pytest.raises(ValueError, match="api is 'parallel', but the agents of the env act in turn"):
        open_env(find_makers("classic/tictactoe_v3"), "parallel", {}, guarded=False)


def test_only_the_wrappers_that_check_what_they_are_told_are_taken_off():
    guarded = open_env(find_makers("classic/tictactoe_v3"), "auto", {}, guarded=True)
    assert isinstance(guarded, wrappers.OrderEnforcingWrapper)
    bare = open_env(find_makers("classic/tictactoe_v3"), "auto", {}, guarded=False)
    assert bare is bare.unwrapped
    clipped = open_env(find_makers("mpe2/simple_v3"), "aec", {"continuous_actions": True}, guarded=False)
    assert isinstance(clipped, wrappers.ClipOutOfBoundsWrapper)
    parallel = open_env(find_makers("mpe2/simple_v3"), "auto", {}, guarded=False)
    assert isinstance(parallel, aec_to_parallel_wrapper)
    assert parallel.aec_env is parallel.aec_env.unwrapped


def test_what_cannot_be_made_is_said_in_one_sentence():
    makers = find_makers("classic/connect_four_v3")
    with pytest.raises(ValueError, match=r"cannot be made with {'colour': 'red'}: TypeError: .*colour"):
        open_env(makers, "auto", {"colour": "red"}, guarded=False)
    with pytest.raises(ValueError, match="found 3, expected a pettingzoo"):
        open_env({"auto": lambda: 3}, "auto", {}, guarded=False)


def test_what_pettingzoos_own_envs_warn_of_is_let_pass():
    env = open_env(find_makers("classic/texas_holdem_no_limit_v6"), "auto", {}, guarded=False)
    assert env.observation_space("player_0")["observation"].dtype == np.float32


def test_options_are_known_before_the_env_is_made():
    assert takes_option(find_makers("classic/chess_v6"), "auto", "render_mode")
    assert takes_option({"auto": lambda render_mode=None: 0}, "aec", "render_mode")
    assert not takes_option({"auto": lambda: 0}, "parallel", "render_mode")
