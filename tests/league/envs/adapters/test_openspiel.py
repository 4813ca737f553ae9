"""OpenSpiel's games, batched: what they show, allow and pay is what a state says itself."""

import itertools
import sys

import numpy as np
import pyspiel
import pytest

from league.envs import registry
from league.envs.adapters import openspiel as openspiel_game
from league.envs.adapters.openspiel import game_of
from league.envs.conformance import check
from league.envs.registry import BadOption, UnknownEnv
from storage.records import EndReason

QUARREL = pyspiel.GameType(
    short_name="python_quarrel",
    long_name="Three seats, one of which has nothing to say in every other round",
    dynamics=pyspiel.GameType.Dynamics.SIMULTANEOUS,
    chance_mode=pyspiel.GameType.ChanceMode.DETERMINISTIC,
    information=pyspiel.GameType.Information.PERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.GENERAL_SUM,
    reward_model=pyspiel.GameType.RewardModel.REWARDS,
    max_num_players=3,
    min_num_players=3,
    provides_information_state_string=False,
    provides_information_state_tensor=False,
    provides_observation_string=True,
    provides_observation_tensor=True,
    parameter_specification={"broken": -1},
)
ROUNDS = 6


class Quarrel(pyspiel.Game):
    """Six rounds; every action is paid as it is. Action `broken` raises."""

    def __init__(self, params=None):
        info = pyspiel.GameInfo(
            num_distinct_actions=3,
            max_chance_outcomes=0,
            num_players=3,
            min_utility=-1.0,
            max_utility=20.0,
            utility_sum=None,
            max_game_length=ROUNDS,
        )
        super().__init__(QUARREL, info, params or {})
        self.broken = (params or {}).get("broken", -1)

    def new_initial_state(self):
        return QuarrelState(self)

    def make_py_observer(self, iig_obs_type=None, params=None):
        return QuarrelObserver()


class QuarrelState(pyspiel.State):
    def __init__(self, game):
        super().__init__(game)
        self.broken = game.broken
        self.joint = []  # actions of all seats, by round

    def current_player(self):
        over = len(self.joint) == ROUNDS
        return pyspiel.PlayerId.TERMINAL if over else pyspiel.PlayerId.SIMULTANEOUS

    def _legal_actions(self, player):
        return [] if player == 2 and len(self.joint) % 2 else [0, 1, 2][player // 2 :]

    def _apply_actions(self, actions):
        if self.broken in actions[:2]:
            raise OverflowError("too loud")
        self.joint.append(list(actions))

    def is_terminal(self):
        return len(self.joint) == ROUNDS

    def rewards(self):
        return [float(a) for a in self.joint[-1]] if self.joint else [0.0] * 3

    def returns(self):
        return [float(sum(column)) for column in zip(*self.joint, strict=True)] or [0.0] * 3

    def __str__(self):
        return f"round {len(self.joint)}"


class QuarrelObserver:
    def __init__(self):
        self.tensor = np.zeros(2, np.float32)
        self.dict = {"observation": self.tensor}

    def set_from(self, state, player):
        self.tensor[:] = len(state.joint), player

    def string_from(self, state, player):
        return f"{player} in round {len(state.joint)}"


pyspiel.register_game(QUARREL, Quarrel)


def played(env_id, num_matches, seed=0, **options):
    """Random play of whole matches side by side: the game, and after every step its blocks and transition."""
    game = registry.make(env_id, num_matches, **options)
    rng = np.random.default_rng(seed)
    game.reset(np.arange(num_matches), seed + np.arange(num_matches))
    while game.active.any():
        blocks = game.due()
        actions = [(rng.random(b.mask.shape) * b.mask).argmax(axis=1) for b in blocks]
        yield game, blocks, actions, game.step(actions)


# ---------------------------------------------------------------- promises


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "num_matches"),
    [
        ("leduc_poker", 96),
        ("goofspiel(num_cards=4,imp_info=True)", 96),
        ("hex(board_size=5)", 64),
        ("dark_hex(board_size=3)", 64),
        ("backgammon", 8),
        ("oshi_zumo", 64),
        ("python_quarrel", 64),
        ("laser_tag(horizon=40)", 16),
    ],
)
def test_games_of_openspiel_keep_the_promises_of_a_game(name, num_matches):
    report = check(f"openspiel:{name}", num_matches=num_matches)
    assert report.passed, [c for c in report.checks if not c.passed]


# ---------------------------------------------------------------- what a state says


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["leduc_poker", "goofspiel(num_cards=4,imp_info=True)", "backgammon", "python_quarrel"]
)
def test_observations_masks_and_ends_are_those_of_the_states(name):
    for game, _, _, transition in played(f"openspiel:{name}", 16):
        recalls = "poker" in name or "goofspiel" in name
        for slot in np.flatnonzero(game.active):
            state = game.native(slot)
            acting = [seat for seat in range(game.num_seats) if state.legal_actions(seat)]
            (block,) = game.due()
            rows = np.flatnonzero(block.slot == slot)
            assert block.seat[rows].tolist() == acting
            for row, seat in zip(rows, acting, strict=True):
                if name == "python_quarrel":
                    tensor = [len(state.joint), seat]
                else:
                    tensor = (
                        state.information_state_tensor(seat) if recalls else state.observation_tensor(seat)
                    )
                assert block.observation[row].ravel().tolist() == np.float32(tensor).tolist()
                assert np.flatnonzero(block.mask[row]).tolist() == state.legal_actions(seat)
        for slot in transition.ended:
            assert game.native(slot).is_terminal()


@pytest.mark.parametrize("name", ["leduc_poker", "python_quarrel", "laser_tag(horizon=40)", "2048"])
def test_rewards_add_up_to_what_the_library_returns(name):
    steps = [(game, transition.rewards.copy()) for game, _, _, transition in played(f"openspiel:{name}", 8)]
    game, scores = steps[0][0], sum(rewards.astype(np.float64) for _, rewards in steps)
    returns = [game.native(slot).returns() for slot in range(8)]
    assert np.abs(returns).sum() > 0
    np.testing.assert_allclose(scores, returns, rtol=1e-5)


def test_games_that_pay_on_the_way_pay_at_once():
    game, _, actions, transition = next(played("openspiel:python_quarrel", 4))
    assert (transition.rewards == actions[0].reshape(4, 3)).all()
    assert game.active.all()


def test_who_has_nothing_to_choose_is_not_asked_and_the_others_play_on():
    seats = [blocks[0].seat.tolist() for _, blocks, _, _ in played("openspiel:python_quarrel", 1)]
    assert seats == [[0, 1, 2], [0, 1]] * (ROUNDS // 2)


def test_a_match_that_is_cut_short_shows_every_seat_what_it_would_see_now():
    for game, _, _, transition in played("openspiel:leduc_poker", 64, step_limit=2):
        cut = transition.ended[transition.truncated]
        for slot, seat in itertools.product(cut, range(2)):
            seen = game.observe(np.array([slot]), np.array([seat]))[0]
            assert seen.tolist() == game.native(slot).information_state_tensor(seat)
    assert len(cut)


# ---------------------------------------------------------------- chance


@pytest.mark.slow
def test_deals_come_from_the_seed_alone_and_are_as_likely_as_the_game_says():
    num_seeds = 6000
    game = registry.make("openspiel:kuhn_poker", num_seeds)
    game.reset(np.arange(num_seeds), np.arange(num_seeds))
    deals = [tuple(game.native(slot).history()) for slot in range(num_seeds)]
    for deal in itertools.permutations(range(3), 2):
        share = deals.count(deal) / num_seeds
        assert abs(share - 1 / 6) < 4 * np.sqrt(1 / 6 * 5 / 6 / num_seeds)
    game.reset(np.arange(10), np.arange(10)[::-1])
    assert [tuple(game.native(slot).history()) for slot in range(10)] == deals[:10][::-1]


def test_a_long_match_never_repeats_its_dice():
    rolls = []
    for game, _, _, _ in played("openspiel:backgammon", 1):
        rolls = [outcome for player, outcome in full_history(game.native(0)) if player < 0]
    assert len(rolls) > 3 * openspiel_game.DRAWS
    block = openspiel_game.DRAWS
    assert rolls[:block] != rolls[block : 2 * block] != rolls[2 * block : 3 * block]


def full_history(state):
    return [(int(item.player), item.action) for item in state.full_history()]


def test_an_outcome_is_found_when_probabilities_sum_to_less_than_one():
    game = registry.make("openspiel:kuhn_poker", 1)

    class Short:
        def chance_outcomes(self):
            return [(0, 0.5), (1, 0.3), (2, 0.0)]

        def apply_action(self, action):
            self.taken = action

        def current_player(self):
            return openspiel_game.TERMINAL

        def returns(self):
            return [0.0, 0.0]

    state, taken = Short(), set()
    for seed in range(200):
        game.reset(np.array([0]), np.array([seed]))
        game._show(state, 0, openspiel_game.CHANCE)
        taken.add(state.taken)
    assert taken == {0, 1}


# ---------------------------------------------------------------- options and mistakes


def test_hidden_information_is_seen_as_an_information_state_and_boards_as_they_are():
    def shape(name, **options):
        return registry.make(f"openspiel:{name}", 1, **options).observation_specs[0].shape

    assert shape("leduc_poker") == shape("leduc_poker", observation="information_state") == (30,)
    assert shape("leduc_poker", observation="observation") == (16,)
    assert shape("connect_four") == (3, 6, 7)


def test_the_loss_reward_is_the_least_that_the_game_can_pay_unless_it_is_given():
    assert registry.make("openspiel:leduc_poker", 1).loss_reward == -13.0
    assert registry.make("openspiel:leduc_poker", 1, loss_reward=-20.0).loss_reward == -20.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"observation": "all"},
            "observation is 'all', expected one of auto, information_state, observation",
        ),
        ({"observation": "information_state"}, "is 'information_state', but the game only has 'observation'"),
        ({"loss_reward": float("-inf")}, "loss_reward is -inf, expected a number"),
        ({"players": 3}, "has no option 'players'; its options: observation, loss_reward"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(BadOption) as refused:
        registry.make("openspiel:connect_four", 1, **options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "go(board_size=400)",
            "OpenSpiel refuses it: The current Go implementation supports board size up to",
        ),
        ("crossword", "OpenSpiel refuses it: ObservationTensorShape unimplemented"),
        ("hex(board_size=-5)", "what a seat sees is shaped [9, -5, -5]; are the game's parameters right?"),
    ],
)
def test_games_that_the_library_gives_up_on_are_refused(name, message):
    with pytest.raises(BadOption) as refused:
        registry.make(f"openspiel:{name}", 1)
    assert message in str(refused.value)


# ---------------------------------------------------------------- crashes


def test_a_state_that_raises_in_a_turn_based_game_costs_its_match_alone():
    game = registry.make("openspiel:turn_based_simultaneous_game(game=python_quarrel(broken=2))", 2)
    game.reset(np.arange(2), np.arange(2))
    reasons = {}
    for turn in range(2):
        (block,) = game.due()
        transition = game.step([np.where(block.slot == 0, 2, turn)])
        reasons |= dict(zip(transition.ended.tolist(), transition.reason.tolist(), strict=True))
    (block,) = game.due()
    transition = game.step([np.full(len(block), 1)])
    reasons |= dict(zip(transition.ended.tolist(), transition.reason.tolist(), strict=True))
    assert reasons == {0: EndReason.CRASH}
    assert game.active.tolist() == [False, True]


@pytest.mark.parametrize("name", ["kuhn_poker", "python_quarrel"])
def test_a_match_that_cannot_begin_is_told_by_the_next_step(name, monkeypatch):
    game = registry.make(f"openspiel:{name}", 2)
    begin = game._begin

    def fail(match, slot, seed):
        if seed == 13:
            raise OverflowError("no cards")
        begin(match, slot, seed)

    monkeypatch.setattr(game, "_begin", fail)
    game.reset(np.arange(2), np.array([13, 14]))
    (block,) = game.due()
    assert set(block.slot.tolist()) == {1}
    transition = game.step([block.mask.argmax(axis=1)])
    assert transition.ended.tolist() == [0]
    assert transition.reason.tolist() == [EndReason.CRASH]
    game.reset(np.array([0]), np.array([13]))
    game.reset(np.array([1]), np.array([13]))
    assert game.due() == []
    assert game.step([]).ended.tolist() == [0, 1]


# ---------------------------------------------------------------- as text


def test_a_seat_is_shown_its_own_cards_only():
    game = registry.make("openspiel:kuhn_poker", 50)
    game.reset(np.arange(50), np.arange(50))
    by_card = {}
    for slot in range(50):
        own, other = game.native(slot).history()
        by_card.setdefault(own, set()).add(game.render(slot, 0))
        assert game.render(slot) == str(game.native(slot)) == f"{own} {other}"
    assert [len(texts) for texts in by_card.values()] == [1, 1, 1]


def test_boards_are_shown_and_actions_named_as_the_library_does():
    game = registry.make("openspiel:tic_tac_toe", 1)
    assert game.renders
    game.reset(np.array([0]), np.array([0]))
    assert game.action_name(0, 0, 4) == "x(1,1)"
    game.due()
    game.step([np.array([4])])
    assert game.render(0, 1) == "...\n.x.\n..."


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("leduc_pokr", "env 'openspiel:leduc_pokr': OpenSpiel has no 'leduc_pokr': did you mean leduc_poker"),
        ("zzz", "expected a game string such as kuhn_poker"),
        ("hex(size=5)", "'hex' has no parameter 'size'; its parameters: board_size"),
        ("hex(board_size=x)", "OpenSpiel refuses it: Wrong type for parameter board_size"),
        ("hex(board_size=5", "OpenSpiel refuses it: Missing closing bracket"),
        ("mfg_crowd_modelling", "it is a mean-field game"),
        ("tarok", "it draws its chance itself"),
        ("cribbage", "it has neither an information state tensor nor an observation tensor"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_sentence(name, message):
    with pytest.raises(UnknownEnv) as refused:
        registry.make(f"openspiel:{name}", 1)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_open_spiel_the_game_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    game_of.cache_clear()
    with pytest.raises(UnknownEnv) as refused:
        registry.make("openspiel:hex", 1)
    assert str(refused.value) == (
        "env 'openspiel:hex': open_spiel is not installed; pip install '.[openspiel]'"
    )
