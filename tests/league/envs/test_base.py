"""What is the same for all games: forfeits, step limits, steps that do not answer what is due."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from league.envs.base import BatchedGame, is_legal
from league.envs.conformance import check_game
from league.envs.games.connect_four import ConnectFour
from league.envs.games.rock_paper_scissors import PAPER, ROCK, RockPaperScissors
from league.envs.games.tic_tac_toe import TicTacToe
from league.envs.spaces import ActionSpec
from storage.records import EndReason

NO_REWARDS = ["trial"]  # the check that a game without rewards fails


class Uneven(BatchedGame):
    """Three seats act at once for three rounds; the last one has other spaces and writes down the order."""

    id = "uneven"
    num_seats = 3
    observation_spaces = (Box(0, 9, (1,), np.int8),) * 2 + (Box(0, 9, (2,), np.int8),)
    action_spaces = (Discrete(2), Discrete(2), Discrete(4))

    def __init__(self, num_slots, *, step_limit=None):
        super().__init__(num_slots, step_limit=step_limit)
        self.played = []

    def observe(self, slot, seat):
        return np.zeros((len(slot), *self.observation_spaces[seat[0]].shape), np.int8)

    def legal(self, slot, seat):
        return np.ones((len(slot), self.action_spaces[seat[0]].n), np.bool_)

    def _reset(self, slots, seeds):
        pass

    def _turn(self):
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 3), np.tile(np.arange(3), len(slot))

    def _play(self, slot, seat, action):
        self.played.append(np.stack([slot, seat, action], axis=1).tolist())
        self._over[slot] = self.env_steps[slot] >= 9


class Dials(BatchedGame):
    """Two seats turn dials at once for three steps; what they see and how they turn is set from outside."""

    id = "dials"
    num_seats = 2

    def __init__(self, num_slots, *, takes=None, shows=None, step_limit=None):
        self.action_spaces = (Box(-2.0, 2.0, (2,), np.float32) if takes is None else takes,) * 2
        self.observation_spaces = (Box(0, 9, (3,), np.float32) if shows is None else shows,) * 2
        super().__init__(num_slots, step_limit=step_limit)
        self.played = []
        self.rounds, self.seeds = np.zeros((2, num_slots), np.int64)

    def observe(self, slot, seat):
        space, told = self.observation_spaces[0], self.seeds[slot] % 4 * 2 + seat + 0.5
        parts = space.spaces if isinstance(space, Dict) else {"": space}
        seen = {
            name: np.broadcast_to(told.reshape(-1, *[1] * len(part.shape)), (len(slot), *part.shape)).astype(
                part.dtype
            )
            for name, part in parts.items()
        }
        return seen if isinstance(space, Dict) else seen[""]

    def legal(self, slot, seat):
        mask = np.ones((len(slot), self.action_specs[0].mask_width), np.bool_)
        mask[:, 1:2] = False
        return mask

    def _reset(self, slots, seeds):
        self.rounds[slots] = 0
        self.seeds[slots] = seeds

    def _turn(self):
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 2), np.tile(np.arange(2), len(slot))

    def _play(self, slot, seat, action):
        self.played.append(action.copy())
        self.rounds[slot[::2]] += 1
        self._over[slot] = self.rounds[slot] == 3


PARTS = Dict({"board": Box(0, 9, (2, 2), np.uint8), "speed": Box(-9.0, 9.0, (1,), np.float32)})


def start(game):
    game.reset(np.arange(game.num_slots), np.arange(game.num_slots))
    return game.due()


@pytest.mark.parametrize("illegal", [-1, 7, 99, 2])
def test_an_illegal_action_ends_only_its_own_match(illegal):
    game = ConnectFour(3)
    start(game)
    for _ in range(5):
        game.step([np.full(3, 2)])
        game.due()
    game.step([np.array([0, 2, 0])])  # column 2 of slot 1 is full now
    game.due()
    transition = game.step([np.array([3, illegal, 3])])
    assert transition.ended.tolist() == [1]
    assert transition.reason.tolist() == [EndReason.ILLEGAL_ACTION]
    assert transition.truncated.tolist() == [False]
    assert transition.forfeited.tolist() == [[True, False]]
    assert transition.rewards.tolist() == [[0, 0], [-1, 1], [0, 0]]
    (block,) = game.due()
    assert block.slot.tolist() == [0, 2]


def test_a_forfeit_costs_the_loss_reward_whatever_was_won_before():
    game = RockPaperScissors(1, rounds=4)
    start(game)
    returns = game.step([np.array([PAPER, ROCK])]).rewards.copy()
    game.due()
    returns += game.step([np.array([5, ROCK])]).rewards
    assert returns.tolist() == [[-1.0, 1.0]]


def test_a_forfeit_after_a_refill_knows_nothing_of_the_match_before():
    game = RockPaperScissors(1, rounds=1)
    start(game)
    game.step([np.array([PAPER, ROCK])])
    start(game)
    assert game.step([np.array([5, ROCK])]).rewards.tolist() == [[-1.0, 1.0]]


def test_two_opponents_share_what_a_third_forfeits():
    game = Uneven(1)
    start(game)
    transition = game.step([np.array([0]), np.array([0]), np.array([4])])
    assert transition.rewards.tolist() == [[0.5, 0.5, -1.0]]
    assert game.played == []


def test_seats_with_spaces_of_their_own_are_asked_in_blocks_and_played_in_order():
    game = Uneven(2)
    blocks = start(game)
    assert [b.seat.tolist() for b in blocks] == [[0, 0], [1, 1], [2, 2]]
    game.step([np.array([0, 1]), np.array([1, 0]), np.array([3, 2])])
    assert game.played == [[[0, 0, 0], [0, 1, 1], [0, 2, 3], [1, 0, 1], [1, 1, 0], [1, 2, 2]]]
    assert game.env_steps.tolist() == [3, 3]


def test_a_match_is_truncated_at_its_step_limit_and_may_still_be_observed():
    game = ConnectFour(2, step_limit=3)
    start(game)
    for _ in range(2):
        assert len(game.step([np.array([0, 1])]).ended) == 0
        game.due()
    transition = game.step([np.array([0, 1])])
    assert transition.ended.tolist() == [0, 1]
    assert transition.truncated.all()
    assert (transition.reason == EndReason.STEP_LIMIT).all()
    assert game.observe(np.array([0, 1]), np.array([1, 1])).sum(axis=(1, 2, 3)).tolist() == [3, 3]
    assert not game.active.any()


def test_a_match_that_ends_at_its_step_limit_is_not_truncated():
    game = TicTacToe(1, step_limit=5)
    start(game)
    for cell in (0, 3, 1, 4, 2):
        transition = game.step([np.array([cell])])
        game.due()
    assert transition.truncated.tolist() == [False]
    assert transition.reason.tolist() == [EndReason.FINISHED]


def test_a_match_ends_once_however_often_its_game_marks_it():
    class Careless(Uneven):
        def _play(self, slot, seat, action):
            self._over[:] = self.env_steps >= 3

    game = Careless(2)
    start(game)
    for slots in ([0, 1], [1]):
        ended = game.step([np.zeros(len(block), int) for block in game.due()]).ended
        assert ended.tolist() == slots
        game.reset(np.array([1]), np.array([0]))


def test_a_step_without_due_is_refused():
    game = TicTacToe(1)
    with pytest.raises(ValueError, match="call due"):
        game.step([])
    start(game)
    game.step([np.array([0])])
    with pytest.raises(ValueError, match="call due"):
        game.step([np.array([1])])


def test_actions_that_are_not_one_for_each_decision_are_refused():
    game = TicTacToe(3)
    start(game)
    with pytest.raises(ValueError, match=r"\[\(2,\)\], the due decisions \[\(3,\)\]"):
        game.step([np.array([0, 1])])
    with pytest.raises(ValueError, match="shaped"):
        game.step([])


@pytest.mark.parametrize("arguments", [{"num_slots": 0}, {"num_slots": 1, "step_limit": 0}])
def test_no_slots_and_no_steps_are_refused(arguments):
    with pytest.raises(ValueError, match="expected at least 1"):
        TicTacToe(**arguments)


# ---------------------------------------------------------------- spaces


@pytest.mark.parametrize("takes", [Box(-2.0, 2.0, (2,), np.float32), MultiDiscrete([3, 2]), Discrete(4)])
@pytest.mark.parametrize("shows", [PARTS, Box(0, 9, (2, 3, 3), np.float32)])
def test_games_of_every_kind_of_space_keep_every_promise(takes, shows):
    results = check_game(lambda n, more: Dials(n, takes=takes, shows=shows, **more), num_matches=40)
    assert [r.name for r in results if not r.passed] in ([], NO_REWARDS)


def test_the_parts_of_a_dict_observation_are_packed_into_one_row():
    game = Dials(2, shows=PARTS)
    (block,) = start(game)
    assert block.observation.dtype == np.float32
    assert block.observation.tolist() == [[n, n, n, n, n + 0.5] for n in range(4)]
    looked = game.look(np.array([1]), np.array([0]))
    np.testing.assert_array_equal(looked, block.observation[2:3])


def test_real_numbers_are_kept_inside_their_bounds_by_a_hair():
    game = Dials(1)
    start(game)
    over = np.float32(2.0) * (1 + np.float32(4e-7))
    assert over > 2.0
    transition = game.step([np.array([[over, -2.0], [1.5, 0.25]])])
    assert len(transition.ended) == 0
    assert game.played[0].tolist() == [[2.0, -2.0], [1.5, 0.25]]
    assert game.played[0].dtype == np.float32


@pytest.mark.parametrize("illegal", [np.nan, np.inf, -np.inf, 2.1, -2.00001])
def test_a_number_outside_its_bounds_forfeits(illegal):
    game = Dials(2)
    start(game)
    transition = game.step([np.array([[0, 0], [0, 0], [0, illegal], [0, 0]])])
    assert transition.ended.tolist() == [1]
    assert transition.forfeited.tolist() == [[True, False]]
    assert transition.reason.tolist() == [EndReason.ILLEGAL_ACTION]
    assert [len(played) for played in game.played] == [2]


def test_several_choices_are_legal_if_each_of_them_is():
    spec = ActionSpec("multi_discrete", (3, 2))
    mask = np.array([[True, False, True, True, False]] * 8)
    action = np.array([[0, 0], [2, 0], [1, 0], [0, 1], [3, 0], [-1, 0], [0, 2], [0, -1]])
    assert is_legal(spec, mask, action).tolist() == [True, True] + [False] * 6


def test_actions_of_several_choices_are_asked_for_by_the_row():
    game = Dials(2, takes=MultiDiscrete([3, 2]))
    start(game)
    with pytest.raises(ValueError, match=r"\[\(4,\)\], the due decisions \[\(4, 2\)\]"):
        game.step([np.zeros(4, int)])
    transition = game.step([np.array([[0, 1], [2, 0], [1, 0], [0, 0]])])
    assert transition.forfeited.tolist() == [[True, False]]
    assert transition.ended.tolist() == [1]


@pytest.mark.parametrize(
    ("spaces", "message"),
    [
        ({"takes": Discrete(3, start=1)}, "dials: action space Discrete"),
        ({"takes": Box(-1.0, 1.0, (2, 2), np.float32)}, "dials: action space Box"),
        ({"shows": Tuple([Discrete(2)])}, "dials: observation space Tuple"),
        ({"shows": Dict({})}, "dials: observation space Dict"),
    ],
)
def test_spaces_that_nobody_can_see_or_act_in_are_refused(spaces, message):
    with pytest.raises(ValueError, match=message):
        Dials(1, **spaces)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"num_seats": 3}, "2 observation_spaces for 3 seats"),
        ({"num_seats": 0}, "num_seats is 0, expected a whole number from 1 to 127"),
        ({"num_seats": 128}, "num_seats is 128"),
        ({"teams": (2, 1)}, r"teams are \(2, 1\), expected sizes of at least 1 that sum to 2 seats"),
        ({"teams": (2, 0)}, r"teams are \(2, 0\)"),
        ({"loss_reward": np.nan}, "loss_reward is nan"),
        ({"score_bounds": (1.0, -1.0)}, r"score_bounds are \(1.0, -1.0\)"),
        ({"score_bounds": (-1.0, 1.0), "score_unit": -1.0}, "score_unit is -1.0"),
    ],
)
def test_declarations_that_do_not_fit_together_are_refused(declared, message):
    with pytest.raises(ValueError, match=f"dials: {message}"):
        type("Declared", (Dials,), declared)(1)


class Mixed(Uneven):
    """The seats of Uneven choose, choose twice, and turn two dials."""

    id = "mixed"
    action_spaces = (Discrete(2), MultiDiscrete([2, 3]), Box(-1.0, 1.0, (2,), np.float32))

    def legal(self, slot, seat):
        return np.ones((len(slot), self.action_specs[seat[0]].mask_width), np.bool_)

    def _play(self, slot, seat, action):
        self.played.append(
            [(s, t, np.asarray(a).tolist()) for s, t, a in zip(slot, seat, action, strict=True)]
        )
        self._over[slot] = self.env_steps[slot] >= 9


def test_seats_may_act_in_different_ways_at_once():
    game = Mixed(2)
    game.reset(np.arange(2), np.arange(2))
    assert [len(block) for block in game.due()] == [2, 2, 2]
    game.step([np.array([1, 0]), np.array([[1, 2], [0, 1]]), np.array([[0.5, -0.5], [1.0, 0.25]])])
    assert game.played == [
        [(0, 0, 1), (0, 1, [1, 2]), (0, 2, [0.5, -0.5]), (1, 0, 0), (1, 1, [0, 1]), (1, 2, [1.0, 0.25])]
    ]


def test_of_seats_that_act_in_different_ways_only_who_offends_forfeits():
    game = Mixed(2)
    game.reset(np.arange(2), np.arange(2))
    game.due()
    transition = game.step([np.zeros(2, int), np.array([[0, 0], [0, 3]]), np.zeros((2, 2), np.float32)])
    assert transition.ended.tolist() == [1]
    assert transition.forfeited.tolist() == [[False, True, False]]
    assert [slot for slot, _, _ in game.played[0]] == [0, 0, 0]


def test_a_game_of_different_action_kinds_keeps_its_promises():
    results = check_game(lambda n, more: Mixed(n, **more), num_matches=40)
    failed = [c for c in results if not c.passed and c.name not in NO_REWARDS]
    assert failed == []


def test_all_seats_of_a_truncated_match_were_cut_unless_the_game_knows_better():
    game = ConnectFour(1, step_limit=1)
    start(game)
    game.step([np.array([0])])
    assert game.was_cut(np.array([0, 0]), np.array([0, 1])).tolist() == [True, True]
