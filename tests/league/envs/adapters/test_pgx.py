"""Games of Pgx are games like all others."""

import numpy as np
import pytest

from league.envs import registry
from league.envs.conformance import check
from league.envs.registry import UnknownEnv
from storage.records import EndReason

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """What JAX has compiled for a game is there for the next one of the same size: half of the time."""
    import jax

    folder = str(tmp_path_factory.mktemp("jax"))
    kept = {"jax_compilation_cache_dir": folder, "jax_persistent_cache_min_compile_time_secs": 0.0}
    before = {name: getattr(jax.config, name) for name in kept}
    for name, value in kept.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(scope="module")
def toe():
    return registry.make("pgx:tic_tac_toe", 8)


def play(game, moves, slots, seeds):
    """Play these moves in all of the slots; yields who was due, and the transition."""
    game.reset(np.array(slots), np.array(seeds))
    for move in moves:
        (block,) = game.due()
        yield block, game.step([np.full(len(block), move)])


def test_seat_0_moves_first_and_seats_take_turns(toe):
    seats = [block.seat.tolist() for block, _ in play(toe, [0, 3, 1, 4], range(8), range(8))]
    assert seats == [[0] * 8, [1] * 8, [0] * 8, [1] * 8]
    toe.abandon(np.arange(8))


def test_a_row_of_three_wins_and_both_seats_are_paid(toe):
    *_, (_, last) = play(toe, [0, 3, 1, 4, 2], range(8), range(100, 108))
    assert last.ended.tolist() == list(range(8))
    assert (last.rewards == [[1.0, -1.0]] * 8).all()
    assert (last.reason == EndReason.FINISHED).all()


def test_a_board_is_shown_planes_first_as_each_seat_sees_it(toe):
    assert toe.observation_specs[0].shape == (2, 3, 3)
    for block, _ in play(toe, [4], [0], [1]):
        assert not block.observation.any()
    own, other = toe.observe(np.array([0, 0]), np.array([0, 1]))
    assert own[0, 1, 1] == other[1, 1, 1] == 1
    assert own.sum() == other.sum() == 1
    toe.abandon(np.arange(8))


def test_an_illegal_move_is_a_forfeit(toe):
    *_, (_, last) = play(toe, [4, 4], [2], [1])
    assert last.reason.tolist() == [EndReason.ILLEGAL_ACTION]
    assert last.forfeited.tolist() == [[False, True]]


def test_a_match_in_one_slot_leaves_the_others_alone(toe):
    game = toe
    game.reset(np.array([0, 1]), np.array([5, 6]))
    game.due()
    game.step([np.array([4, 0])])
    game.reset(np.array([1]), np.array([6]))
    boards = game.observe(np.array([0, 1]), np.array([0, 0]))
    assert (boards[0].sum(), boards[1].sum()) == (1, 0)
    game.abandon(np.arange(8))


VARIANTS = [pytest.param(name, marks=pytest.mark.variant) for name in ("kuhn_poker", "minatar-breakout")]


@pytest.mark.long
@pytest.mark.parametrize("name", ["tic_tac_toe", *VARIANTS])
def test_a_game_keeps_every_promise(name):
    report = check(f"pgx:{name}", num_matches=48)
    assert [item.message for item in report.checks if not item.passed] == []


@pytest.mark.long
def test_counts_are_shown_as_numbers_without_bounds():
    game = registry.make("pgx:backgammon", 2)  # stones of a point, negative for the other player's
    (space, _), (spec, _) = game.observation_spaces, game.observation_specs
    assert (spec.dtype, space.low.min(), space.high.max()) == ("float32", -np.inf, np.inf)
    game.reset(np.arange(2), np.arange(2))
    seen = game.observe(np.arange(2), np.zeros(2, dtype=np.int64))
    assert seen.min() < 0 < 1 < seen.max()


def test_an_unknown_game_is_answered_with_the_nearest():
    with pytest.raises(UnknownEnv, match="Pgx has no 'othelo'; did you mean 'othello'"):
        registry.make("pgx:othelo", 1)
