"""gymnasium's envs as games: what they show, take, pay and how they end is what they say themselves."""

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence, Text, Tuple

from league.envs import registry
from league.envs.conformance import check
from league.envs.registry import BadOption, UnknownEnv
from storage.records import EndReason
from tests.league.throw import ID as THROW
from tests.league.throw import dull


class Tape(gymnasium.Env):
    """Counts its steps and writes down its actions; ends after `length`, raises at action `broken`."""

    made = 0

    def __init__(self, length=5, takes=None, shows=None, broken=None, doomed=False):
        if length < 0:
            raise KeyError("length")
        type(self).made += 1
        self.length = length
        self.broken = broken
        self.doomed = doomed
        self.action_space = Discrete(3, start=5) if takes is None else takes
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64) if shows is None else shows

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.told = 0, []
        self.luck = float(self.np_random.random())
        return self._shown(), {}

    def step(self, action):
        self.told.append(action)
        self.count += 1
        if self.broken is not None and action == self.broken:
            raise OverflowError("the tape tore")
        return self._shown(), float(self.count), self.count >= self.length, False, {}

    def _shown(self):
        if isinstance(self.observation_space, Box):
            return np.array([self.count, self.luck])
        self.observation_space.seed(self.count)
        self.latest = self.observation_space.sample()
        return self.latest


@pytest.fixture
def tape():
    """The id of `Tape`, registered for the length of a test."""
    gymnasium.register("league-tests/Tape-v0", entry_point=Tape)
    Tape.made = 0
    yield "gymnasium:league-tests/Tape-v0"
    del gymnasium.registry["league-tests/Tape-v0"]


def make(env_id, num_slots, **options):
    options = {key: value for key, value in options.items() if value is not None}
    return registry.make(env_id, num_slots, **options)


def start(game):
    game.reset(np.arange(game.num_slots), 100 + np.arange(game.num_slots))
    return game.due()


# ---------------------------------------------------------------- promises


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "options", "num_matches"),
    [
        ("gymnasium:CartPole-v1", {}, 30),
        ("gymnasium:Pendulum-v1", {"kwargs": {"max_episode_steps": 12}}, 24),
        ("gymnasium:CartPole-v1", {"seats": 2, "threads": 2}, 12),
    ],
)
def test_gymnasiums_own_envs_keep_every_promise(env_id, options, num_matches):
    report = check(env_id, options, num_matches=num_matches)
    assert [c for c in report.checks if not c.passed] == []


def test_a_match_is_what_gymnasium_plays_from_the_same_seed():
    game = make("gymnasium:CartPole-v1", 2)
    (block,) = start(game)
    original = gymnasium.make("CartPole-v1")
    seen, _ = original.reset(seed=101)
    rng, over = np.random.default_rng(0), False
    while not over:
        row = int(np.flatnonzero(block.slot == 1)[0])
        assert block.observation.dtype == np.float32
        np.testing.assert_array_equal(block.observation[row], seen)
        actions = rng.integers(2, size=len(block))
        transition = game.step([actions])
        seen, reward, over, _, _ = original.step(int(actions[row]))
        assert transition.rewards[1, 0] == reward
        assert (1 in transition.ended) == over
        blocks = game.due()
        block = blocks[0] if blocks else None


# ---------------------------------------------------------------- spaces


def test_float64_becomes_float32_and_small_integers_stay(tape):
    (block,) = start(make(tape, 1))
    assert block.observation.dtype == np.float32
    game = make(tape, 1, kwargs={"shows": Box(0, 255, (4, 5, 3), np.uint8)})
    assert game.observation_spaces == (Box(0, 255, (4, 5, 3), np.uint8),)


def test_what_is_no_box_is_flattened_part_by_part(tape):
    shows = Dict({"place": Discrete(3, start=2), "at": Box(-9, 9, (2,), np.float64)})
    game = make(tape, 1, kwargs={"shows": shows})
    (block,) = start(game)
    latest = game.native(0).unwrapped.latest
    parts = {part.name: part.shape for part in game.observation_specs[0].parts}
    assert parts == {"place": (3,), "at": (2,)}
    seen = game.observe(block.slot, block.seat)
    assert seen["place"].tolist() == [np.eye(3)[latest["place"] - 2].tolist()]
    np.testing.assert_array_equal(seen["at"][0], latest["at"].astype(np.float32))
    assert block.observation.shape == (1, 5)
    game = make(tape, 1, kwargs={"shows": Tuple([Discrete(2), Discrete(3)])})
    (block,) = start(game)
    assert block.observation.sum(axis=1).tolist() == [2.0]
    assert block.observation.shape == (1, 5)


@pytest.mark.parametrize(
    ("takes", "given", "told"),
    [
        (MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]), [[1, 2, 3, 4]], [[1, 3], [5, 7]]),
        (Box(-2, 2, (2, 1), np.float64), [[0.5, -2]], [[0.5], [-2]]),
    ],
)
def test_the_env_is_told_an_action_of_its_own_space(takes, given, told, tape):
    game = make(tape, 1, kwargs={"takes": takes})
    start(game)
    transition = game.step([np.array(given)])
    assert transition.reason.tolist() == []  # legal, and nothing crashed
    (action,) = game.native(0).unwrapped.told
    assert takes.contains(action)
    np.testing.assert_array_equal(action, told)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"takes": Tuple([Discrete(2), Text(3)])}, "action space Text"),
        ({"shows": Sequence(Discrete(2))}, "observation space Sequence"),
    ],
)
def test_a_space_that_no_seat_can_have_is_refused_by_name(kwargs, message, tape):
    with pytest.raises(BadOption, match=f"{tape}: {message}"):
        make(tape, 1, kwargs=kwargs)


@pytest.mark.parametrize("place", ["info", "observation"])
def test_the_mask_of_an_env_is_read_wherever_it_is_and_kept_from_the_network(place):
    game = make(THROW, 2, seats=2, kwargs={"mask": place})
    (block,) = start(game)
    assert (game.observation_specs[0].shape, block.observation.shape) == ((3,), (4, 3))
    club = block.observation.argmax(axis=1)
    assert (block.mask[:, :3].argmin(axis=1) == (club - 1) % 3).all()
    assert (block.mask[:, 3:] == [False, True, True, True, True, True, True]).all()
    actions = dull(block.observation, block.mask, None)
    actions[:2, 1] = 0.0  # of the first match: illegal
    transition = game.step([actions])
    assert (transition.ended.tolist(), transition.forfeited.tolist()) == ([0], [[True, True]])
    unmasked = make(THROW, 1, seats=2, kwargs={"mask": place}, mask="none")
    assert start(unmasked)[0].mask.all()


def test_a_mask_that_is_asked_for_and_is_not_there_ends_the_match_or_is_refused(tape):
    with pytest.raises(BadOption, match="mask is 'observation', but agent 0 sees Box"):
        make(tape, 1, mask="observation")
    with pytest.raises(BadOption, match="mask is 'inf', expected one of observation, info, auto, none"):
        make(tape, 1, mask="inf")
    game = make(tape, 1, mask="info")
    assert start(game) == []
    assert game.step([]).reason.tolist() == [EndReason.CRASH]
    assert "mask is 'info', but the info of a seat is {}" in next(iter(game.crashes))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["info", "observation"])
def test_choices_and_real_numbers_with_masks_keep_every_promise(place):
    report = check(THROW, {"seats": 2, "kwargs": {"mask": place}, "loss_reward": -4.0}, num_matches=30)
    assert [c for c in report.checks if not c.passed] == []


# ---------------------------------------------------------------- ends


def test_time_that_runs_out_truncates_and_an_end_of_its_own_terminates(tape):
    game = make(tape, 1, kwargs={"max_episode_steps": 2})
    for length, truncated, reason in ((5, True, EndReason.STEP_LIMIT), (2, False, EndReason.FINISHED)):
        start(game)
        game.native(0).unwrapped.length = length
        game.step([np.array([0])])
        game.due()
        end = game.step([np.array([0])])
        assert (end.ended.tolist(), end.truncated.tolist()) == ([0], [truncated])
        assert end.reason.tolist() == [reason]
        assert game.look(np.array([0]), np.array([0]))[0, 0] == 2.0  # what it saw last


def test_a_seat_whose_copy_ended_waits_for_the_others_at_no_reward(tape):
    game = make(tape, 1, seats=2)
    (block,) = start(game)
    assert block.seat.tolist() == [0, 1]
    assert block.observation[0].tolist() == block.observation[1].tolist()  # the same chance for both
    game.native(0)[0].unwrapped.length = 1
    transition = game.step([np.array([0, 0])])
    assert len(transition.ended) == 0
    returns = transition.rewards.copy()
    for _ in range(4):
        (block,) = game.due()
        assert block.seat.tolist() == [1]
        transition = game.step([np.array([1])])
        returns += transition.rewards
    assert returns.tolist() == [[1.0, 15.0]]
    assert transition.ended.tolist() == [0]
    assert transition.truncated.tolist() == [False]


@pytest.mark.parametrize("limit", ["of its own", "of the game"])
def test_only_the_seat_that_was_still_playing_was_cut(limit, tape):
    own, ours = ({"max_episode_steps": 3}, None) if limit == "of its own" else ({}, 4)
    game = make(tape, 1, seats=2, kwargs=own, step_limit=ours)
    start(game)
    game.native(0)[1].unwrapped.length = 1
    game.step([np.array([0, 0])])
    for _ in range(2):
        game.due()
        transition = game.step([np.array([0])])
    assert transition.ended.tolist() == [0]
    assert transition.truncated.tolist() == [True]
    assert transition.reason.tolist() == [EndReason.STEP_LIMIT]
    assert game.was_cut(np.array([0, 0]), np.array([0, 1])).tolist() == [True, False]


def test_an_env_that_raises_costs_its_match_and_nothing_else(tape, caplog):
    game = make(tape, 3, kwargs={"broken": 6})
    start(game)
    before = game.look(np.array([1]), np.array([0]))
    broken = game.native(1)
    with caplog.at_level(logging.WARNING):
        transition = game.step([np.array([0, 1, 2])])
    assert transition.ended.tolist() == [1]
    assert transition.reason.tolist() == [EndReason.CRASH]
    assert transition.truncated.tolist() == [True]  # its end is unknown
    assert transition.forfeited.tolist() == [[False]]
    assert transition.rewards[:, 0].tolist() == [1.0, 0.0, 1.0]
    assert game.was_cut(np.array([1]), np.array([0])).tolist() == [True]
    np.testing.assert_array_equal(game.look(np.array([1]), np.array([0])), before)
    assert "the tape tore" in caplog.text
    game.reset(np.array([1]), np.array([7]))
    assert game.native(1) is not broken
    (block,) = game.due()
    assert block.slot.tolist() == [0, 1, 2]
    assert game.step([np.array([0, 0, 0])]).rewards[:, 0].tolist() == [2.0, 1.0, 2.0]


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("actions", [[0, 1], [1, 0]])
def test_a_step_in_which_one_seats_env_raises_gives_no_seat_anything(actions, threads, tape):
    game = make(tape, 1, seats=2, threads=threads, kwargs={"broken": 6})
    start(game)
    while not (blocks := game.due()):
        game.step([])
    transition = game.step([np.array(actions) for _ in blocks])
    assert transition.reason.tolist() == [EndReason.CRASH]
    assert transition.rewards.tolist() == [[0.0, 0.0]]


def test_envs_are_made_when_they_are_first_needed(tape):
    game = make(tape, 100, seats=2)
    assert Tape.made == 2  # whose spaces it read; the first match plays them
    for expected in (4, 4):
        game.reset(np.array([3, 70]), np.array([1, 2]))
        assert Tape.made == expected


# ---------------------------------------------------------------- seats that play different envs


MIXED = "gymnasium:CartPole-v1+MountainCarContinuous-v0"


@pytest.mark.slow
def test_seats_with_envs_of_their_own_keep_every_promise():
    options = {"kwargs": [{}, {"max_episode_steps": 15}], "scale": [0.002, 0.01]}
    report = check(MIXED, options, num_matches=20)
    assert [c for c in report.checks if not c.passed] == []


def test_each_seat_plays_the_env_that_the_id_names_from_the_matchs_seed():
    game = make(MIXED, 1, kwargs=[{}, {"max_episode_steps": 9}], scale=[0.5, 10])
    assert (game.num_seats, game.mixed_actions, game.shared_spaces) == (2, True, False)
    assert [spec.kind for spec in game.action_specs] == ["discrete", "continuous"]
    originals = [gymnasium.make(name) for name in ("CartPole-v1", "MountainCarContinuous-v0")]
    seen = [env.reset(seed=100)[0] for env in originals]
    blocks = start(game)
    for step in range(9):
        assert [b.seat.tolist() for b in blocks] == [[0], [1]]
        for block, expected in zip(blocks, seen, strict=True):
            np.testing.assert_array_equal(block.observation[0], expected)
        push = np.array([[0.1 * step]], dtype=np.float32)
        transition = game.step([np.array([step % 2]), push])
        told = [env.step(action) for env, action in zip(originals, (step % 2, push[0]), strict=True)]
        seen = [observation for observation, *_ in told]
        expected = [told[0][1] * 0.5, told[1][1] * 10]
        np.testing.assert_allclose(transition.rewards[0], expected, rtol=1e-6)
        blocks = game.due()
    assert [b.seat.tolist() for b in blocks] == [[0]]  # the time of the other has run out


def test_an_env_by_seat_and_an_option_by_seat_go_together(tape):
    game = make(tape, 1, seats=3, kwargs=[{"length": 1}, {"length": 2}, {"length": 3}], scale=[1, 2.5, -1])
    start(game)
    returns = game.step([np.array([0, 0, 0])]).rewards.copy()
    for left in (2, 1):
        game.due()
        transition = game.step([np.zeros(left, int)])
        returns += transition.rewards
    assert returns.tolist() == [[1.0, 7.5, -6.0]]
    assert transition.ended.tolist() == [0]


# ---------------------------------------------------------------- as text


def test_an_env_that_shows_itself_as_text_is_shown_seat_by_seat():
    game = make("gymnasium:FrozenLake-v1", 1, seats=2, kwargs={"is_slippery": False})
    assert game.renders
    start(game)
    game.step([np.array([1, 2])])  # down, right
    first, second = (game.render(0, seat) for seat in (0, 1))
    assert "(Down)" in first
    assert "(Right)" in second
    assert game.render(0) == f"seat 0:\n{first}\nseat 1:\n{second}"
    assert not make("gymnasium:CartPole-v1", 1).renders
    assert not make("gymnasium:FrozenLake-v1", 1, kwargs={"render_mode": None}).renders


# ---------------------------------------------------------------- names and options


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("gymnasium:CartPoel-v1", "gymnasium has no 'CartPoel-v1': did you mean .*CartPole-v1"),
        ("gymnasium:CartPole", "did you mean .*CartPole-v"),
        ("gymnasium:xyzzy", "expected an id such as CartPole-v1"),
        ("gymnasium:", "expected an id such as CartPole-v1"),
        ("gymnasium:no_such_module:Game-v0", "module 'no_such_module' cannot be imported"),
        ("gymnasium:CartPole-v1+MountainCarContinous-v0", "did you mean MountainCarContinuous-v0"),
        ("gymnasium:CartPole-v1+", "gymnasium has no ''"),
    ],
)
def test_a_wrong_id_is_answered_with_the_nearest(env_id, message):
    with pytest.raises(UnknownEnv, match=message):
        registry.make(env_id, 1)


@pytest.mark.parametrize(
    ("line", "cause"),
    [("nothing", "NameError: name 'nothing'"), ("def f(", "SyntaxError"), ("exit(0)", "SystemExit: 0")],
)
def test_a_module_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch, line, cause):
    (tmp_path / "my_broken_envs.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    for env_id in ("gymnasium:my_broken_envs:Mine-v3", "pettingzoo:my_broken_envs", "my_broken_envs:Mine"):
        with pytest.raises(UnknownEnv, match=f"module 'my_broken_envs' cannot be imported: {cause}"):
            registry.make(env_id, 1)


def test_a_module_that_registers_its_envs_is_imported_first(tmp_path, monkeypatch):
    (tmp_path / "my_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Mine-v3', entry_point='gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    game = registry.make("gymnasium:my_envs:Mine-v3", 1)
    assert game.id == "gymnasium:my_envs:Mine-v3"
    assert registry.game_class("gymnasium:my_envs:Mine-v3") is type(game)
    del gymnasium.registry["Mine-v3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seat": 2}, "no option 'seat'; its options: seats, kwargs, scale, mask, loss_reward, threads"),
        ({"scale": [1, 2]}, r"scale is \[1, 2\], .* one for each seat \(1\)"),
        ({"threads": -1}, "threads is -1, expected a whole number"),
        ({"kwargs": {"length": -1}}, "failed: KeyError: .*length"),
        ({"loss_reward": "a"}, "env '.*' cannot be made with .*: ValueError: could not convert"),
    ],
)
def test_a_wrong_option_is_the_users_mistake(options, message, tape):
    with pytest.raises(BadOption, match=message):
        registry.make(tape, 1, **options)
