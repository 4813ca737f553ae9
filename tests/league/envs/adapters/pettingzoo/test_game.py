"""PettingZoo's own envs as games: they play what PettingZoo plays, and keep every promise."""

import sys

import numpy as np
import pettingzoo
import pytest
from gymnasium.spaces import Box, Discrete

from league.envs import registry
from league.envs.adapters.pettingzoo.game import (
    LOWEST_RETURN,
    PettingZooGame,
    game_from,
    game_of,
    is_pettingzoo,
)
from league.envs.conformance import check_game
from storage.records import EndReason

CLASSIC = {  # with options that keep matches short
    "chess_v6": {},
    "connect_four_v3": {},
    "go_v5": {"kwargs": {"board_size": 5}},
    "hanabi_v5": {},
    "leduc_holdem_v4": {},
    "rps_v2": {},
    "texas_holdem_no_limit_v6": {},
    "texas_holdem_v4": {},
    "tictactoe_v3": {},
}


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch):
    """Whatever draws itself does so in memory."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


# ---------------------------------------------------------------- promises


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options", "num_matches"),
    [
        ("classic/chess_v6", {"step_limit": 40}, 3),  # shorter ones never pay, which a fast machine finds out
        ("classic/hanabi_v5", {}, 6),
        ("classic/leduc_holdem_v4", {}, 32),
        ("classic/rps_v2", {}, 12),
        ("classic/texas_holdem_no_limit_v6", {}, 32),
        ("classic/tictactoe_v3", {}, 40),
        ("butterfly/knights_archers_zombies_v11", {"kwargs": {"max_cycles": 6}}, 2),
        ("mpe2/simple_speaker_listener_v4", {"loss_reward": -300, "kwargs": {"continuous_actions": True}}, 4),
    ],
)
def test_pettingzoos_envs_keep_every_promise(name, options, num_matches):
    game = game_of(name)
    checks = check_game(lambda n, more: game(n, **{**options, **more}), num_matches=num_matches)
    assert [c for c in checks if not c.passed] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*precision lowered by casting")  # PettingZoo's, of its own bounds
@pytest.mark.parametrize("name", CLASSIC)
def test_a_match_is_what_pettingzoo_plays_from_the_same_seed(name):
    """Agent by agent, observation by observation, and the returns that `last` adds up."""
    options = CLASSIC[name]
    game = game_of(f"classic/{name}")(2, api="aec", **options)
    env = pettingzoo.make("aec", f"classic/{name}", **options.get("kwargs", {}))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        game.reset(np.array([1]), np.array([seed]))
        env.reset(seed=seed)
        returns, counted = np.zeros(2), dict.fromkeys(env.possible_agents, 0.0)
        for agent in env.agent_iter(max_iter=60):
            observation, reward, dead, cut, _ = env.last()
            counted[agent] += float(reward)
            if dead or cut:
                env.step(None)
                continue
            (block,) = game.due()
            assert block.seat.tolist() == [env.possible_agents.index(agent)]
            assert block.slot.tolist() == [1]
            if isinstance(observation, dict):
                np.testing.assert_array_equal(block.observation[0], observation["observation"])
                np.testing.assert_array_equal(block.mask[0], observation["action_mask"].astype(bool))
            action = int(rng.choice(np.flatnonzero(block.mask[0])))
            env.step(action)
            returns += game.step([np.array([action])]).rewards[1]
        assert game.active[1] == bool(env.agents)
        assert returns.tolist() == list(counted.values())


@pytest.mark.parametrize(("api", "asked_at_once"), [("auto", 3), ("parallel", 3), ("aec", 1)])
def test_agents_that_move_together_may_be_asked_together_or_one_by_one(api, asked_at_once):
    from mpe2 import simple_spread_v3

    game, env = game_of("mpe2/simple_spread_v3")(1, api=api), simple_spread_v3.parallel_env()
    game.reset(np.array([0]), np.array([5]))
    observations, _ = env.reset(seed=5)
    rng, returns, paid, ended = np.random.default_rng(0), np.zeros(3), np.zeros(3), []
    while env.agents:
        actions = {agent: int(rng.integers(5)) for agent in env.agents}
        given = list(actions.values())
        while given:
            (block,) = game.due()
            assert len(block) == asked_at_once
            for row, seat in enumerate(block.seat):
                np.testing.assert_array_equal(block.observation[row], observations[f"agent_{seat}"])
            transition = game.step([np.array([given.pop(0) for _ in range(len(block))])])
            returns += transition.rewards[0]
            ended += transition.reason.tolist()
        observations, rewards, _, _, _ = env.step(actions)
        paid += list(rewards.values())
    np.testing.assert_allclose(returns, paid, rtol=1e-5)
    assert ended == [EndReason.STEP_LIMIT]  # its own: max_cycles
    assert game.was_cut(np.zeros(3, int), np.arange(3)).all()


def test_knights_and_archers_that_walk_into_the_zombies_die_one_by_one():
    kwargs = {"spawn_delay": 1, "max_zombies": 30}
    game = game_of("butterfly/knights_archers_zombies_v11")(1, kwargs=kwargs)
    env = pettingzoo.make("parallel", "butterfly/knights_archers_zombies-v11", **kwargs)
    game.reset(np.array([0]), np.array([3]))
    observations, _ = env.reset(seed=3)
    lived = []
    while env.agents:
        (block,) = game.due()
        assert [env.possible_agents[seat] for seat in block.seat] == env.agents
        seen = np.stack([observations[agent] for agent in env.agents])
        np.testing.assert_array_equal(block.observation, seen.astype(np.float32))
        lived.append(len(env.agents))
        transition = game.step([np.zeros(len(block), dtype=np.int64)])
        observations, rewards, _, _, _ = env.step(dict.fromkeys(env.agents, 0))
        assert sum(rewards.values()) == transition.rewards.sum()
    assert set(lived) == {4, 3, 1}
    assert transition.reason.tolist() == [EndReason.FINISHED]


@pytest.mark.parametrize(
    ("name", "preferred"),  # every seat raises as much as it may
    [
        ("leduc_holdem_v4", [1, 0, 3, 2]),
        ("texas_holdem_v4", [1, 0, 3, 2]),
        ("texas_holdem_no_limit_v6", [4, 3, 2, 1, 0]),
    ],
)
def test_a_forfeit_costs_what_the_worst_hand_can_cost(name, preferred):
    game = game_of(f"classic/{name}")(8)
    game.reset(np.arange(8), np.arange(8))
    returns = np.zeros((8, 2))
    while game.active.any():
        (block,) = game.due()
        first = block.mask[:, preferred].argmax(axis=1)
        returns += game.step([np.array(preferred)[first]]).rewards
    assert returns.min() == game.loss_reward == LOWEST_RETURN[name]
    assert game_of(f"classic/{name}")(1, loss_reward=-9).loss_reward == -9.0


# ---------------------------------------------------------------- a user's own


class Coin(pettingzoo.AECEnv):
    """One agent guesses a coin, `rounds` times; what it has guessed goes on into the next match."""

    metadata = {"name": "coin", "render_modes": ["ansi"], "is_parallelizable": True}  # noqa: RUF012

    def __init__(self, rounds=1, render_mode=None):
        super().__init__()
        self.possible_agents = ["guesser_0"]
        self.rounds, self.render_mode, self.guesses = rounds, render_mode, 0

    def observation_space(self, agent):
        return Box(0, 255, (1,), np.uint8)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents = self.possible_agents[:]
        self.agent_selection = self.agents[0]
        self.left = self.rounds
        self.rewards, self._cumulative_rewards = {"guesser_0": 0.0}, {"guesser_0": 0.0}
        self.terminations, self.truncations = {"guesser_0": False}, {"guesser_0": False}
        self.infos = {"guesser_0": {}}

    def observe(self, agent):
        return np.array([self.guesses], np.uint8)

    def step(self, action):
        if self.terminations["guesser_0"]:
            return self._was_dead_step(action)
        self.guesses += 1
        self.left -= 1
        self.rewards["guesser_0"] = float(action == self.rng.integers(2))
        self.terminations["guesser_0"] = self.left == 0
        return self._accumulate_rewards()

    def render(self):
        assert self.render_mode == "ansi"
        return f"{self.guesses} guesses"

    def close(self):
        self.closed = True


def test_a_class_and_a_function_are_games():
    assert is_pettingzoo(Coin)
    assert is_pettingzoo(lambda: Coin())
    assert not is_pettingzoo(PettingZooGame)
    assert not is_pettingzoo(Coin())
    for maker in (Coin, lambda **kwargs: Coin(**kwargs)):
        game_class = game_from(maker, "mine:Coin")
        assert game_class is game_from(maker, "mine:Coin")
        game = game_class(2, kwargs={"rounds": 3})
        game.reset(np.arange(2), np.arange(2))
        assert (game.id, game.num_seats, game.native(1).rounds) == ("mine:Coin", 1, 3)


def test_without_pettingzoo_nothing_is_one_of_its_envs(monkeypatch):
    monkeypatch.delitem(sys.modules, "pettingzoo")
    assert not is_pettingzoo(Coin)


def test_the_text_of_an_env_that_has_some_is_shown():
    game = game_from(Coin, "mine:Coin")(1, kwargs={"rounds": 2})
    game.reset(np.array([0]), np.array([0]))
    game.due()
    game.step([np.array([1])])
    assert game.renders
    assert game.render(0) == game.render(0, 0) == "1 guesses"
    assert game_of("classic/chess_v6")(1).renders
    assert not game_of("classic/tictactoe_v3")(1).renders
    assert not game_from(lambda: Coin(), "mine:Coin")(1).renders  # it has no such mode


def test_an_env_that_remembers_is_found_out_and_cured_by_making_it_anew():
    def failed(**options):
        game = game_from(Coin, "mine:Coin")
        checks = check_game(lambda n, more: game(n, **options, **more), num_matches=10)
        return [check.name for check in checks if not check.passed]

    assert failed() == ["refill", "step limit"]
    assert failed(fresh=True) == []


# ---------------------------------------------------------------- names and options


def test_the_registry_knows_pettingzoos_envs_and_a_users_own(tmp_path, monkeypatch):
    (tmp_path / "my_tictactoe.py").write_text(
        "import pettingzoo\n"
        "from pettingzoo.classic.tictactoe.tictactoe import raw_env as Mine\n\n"
        "def env(**kwargs):\n    return pettingzoo.make('aec', 'classic/tictactoe_v3', **kwargs)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for env_id in ("pettingzoo:classic/tictactoe_v3", "my_tictactoe:Mine", "my_tictactoe:env"):
        game = registry.make(env_id, 3, step_limit=5)
        assert (game.id, game.num_slots, game.num_seats) == (env_id, 3, 2)
        assert type(game) is registry.game_class(env_id)
    with pytest.raises(registry.UnknownEnv, match=r"env 'pettingzoo:classic/go': .* did you mean"):
        registry.make("pettingzoo:classic/go", 1)
    with pytest.raises(registry.BadOption, match="'colour'; its options: api, kwargs, mask, loss_reward"):
        registry.make("pettingzoo:classic/tictactoe_v3", 1, colour="red")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "serial"}, "mine:Coin: api is 'serial', expected one of auto, aec, parallel"),
        ({"mask": "guess"}, "mask is 'guess', expected one of observation, info, auto, none"),
        ({"mask": "observation"}, "mask is 'observation', but agent 'guesser_0' sees Box"),
        ({"kwargs": 3}, "kwargs is 3, expected the env's own options by name"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        game_from(Coin, "mine:Coin")(1, **options)


def test_an_env_without_agents_is_refused():
    class Nobody(Coin):
        def __init__(self):
            super().__init__()
            self.possible_agents = []

    with pytest.raises(ValueError, match="mine:Nobody: the env names no possible_agents"):
        game_from(Nobody, "mine:Nobody")(1)
