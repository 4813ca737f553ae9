"""A match's digest tells it from every other, and is 0 where a choice was drawn."""

import itertools

import numpy as np
import pytest

from league.envs import registry
from league.envs.base import Decisions
from league.envs.games.rock_paper_scissors import RockPaperScissors
from league.rollout.env_runner import EnvRunner
from league.rollout.openings import Openings
from league.rollout.requests import PlaySetup
from league.rollout.settings import RolloutSettings
from league.rollout.traces.fingerprints import Fingerprints, draws, sum_of_words
from tests.league.rollout.conftest import unlearned


@pytest.fixture
def play_certain(make_request):
    """Results of two snapshots that play at the temperatures `of`, from random openings."""

    def play(
        num_matches, *, env="tic_tac_toe", of=(0.0, 0.0), order=None, slots=16, plies=2, seed=0, **options
    ):
        request, weights = make_request(env, num_matches, options=options)
        if order is not None:
            request.matches.seed[:] = request.matches.seed[order]
        changes = {"seed": seed, "openings": Openings(plies), "fingerprint": True}
        request = unlearned(request, [[1, 2]] * num_matches, [None, *of], **changes)
        runner = EnvRunner(PlaySetup(env, options, RolloutSettings(slots=slots, record=1.0)))
        return runner.play(request, weights)[0]

    return play


def actions_of(results):
    offset = results.recordings.offset
    return [results.recordings.action[a:b].tobytes() for a, b in itertools.pairwise(offset)]


def test_matches_have_the_same_digest_exactly_if_they_are_the_same(play_certain):
    results = play_certain(300)  # 72 openings of two moves: many come twice
    actions = actions_of(results)
    different = len(set(actions))
    assert 30 < different <= 72
    assert len(np.unique(results.digest)) == different
    assert len(set(zip(actions, results.digest.tolist(), strict=True))) == different
    assert (results.digest != 0).all()


@pytest.mark.parametrize("of", [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])
def test_a_match_in_which_a_choice_was_drawn_has_none(play_certain, of):
    results = play_certain(40, env="connect_four", of=of)
    assert (results.digest == 0).all()


def test_a_match_that_ended_before_anybody_chose_is_certain(play_certain):
    results = play_certain(40, of=(1.0, 1.0), plies=9)
    actions = actions_of(results)
    assert (results.digest != 0).all()
    assert len(np.unique(results.digest)) == len(set(actions))


@pytest.mark.parametrize(("env", "options"), [("tic_tac_toe", {}), ("rock_paper_scissors", {"rounds": 5})])
def test_a_digest_is_that_of_the_match_in_any_slot_batch_and_order(play_certain, env, options):
    order = np.random.default_rng(3).permutation(60)
    first = play_certain(60, env=env, slots=7, plies=3, **options)
    other = play_certain(60, env=env, slots=60, plies=3, order=order, seed=1, **options)
    np.testing.assert_array_equal(other.digest, first.digest[order])


@pytest.mark.parametrize("num_slots", [1, 5, 40])
@pytest.mark.parametrize(
    ("env", "deals"),
    [
        ("tic_tac_toe", False),
        ("connect_four", False),
        ("rock_paper_scissors", False),
        ("kuhn_poker", True),
        ("leduc_poker", True),
        ("tron", True),
        ("whist", True),
    ],
)
def test_a_game_that_draws_by_itself_is_told_from_one_that_does_not(env, deals, num_slots):
    game = registry.make(env, num_slots)
    assert draws(game) is deals
    assert not game.active.any()


@pytest.mark.parametrize("env", ["kuhn_poker", "leduc_poker"])
def test_no_match_of_a_game_that_deals_is_another_one_again(play_certain, env):
    """There are six deals of Kuhn poker, each as likely as the others; those of Leduc poker are not."""
    assert (play_certain(40, env=env, plies=0).digest == 0).all()


def test_nothing_is_told_unless_it_is_asked_for(make_request):
    request, weights = make_request("tic_tac_toe", 4)
    results, _, _ = EnvRunner(PlaySetup("tic_tac_toe", {}, RolloutSettings())).play(request, weights)
    assert results.digest is None


def digest_of(rounds, scores=(0.0, 0.0)):
    """Of one match of rock-paper-scissors in which these actions were taken, every one certain."""
    game = RockPaperScissors(1, rounds=len(rounds))
    game.reset(np.array([0]), np.array([0]))
    prints = Fingerprints(game, 1)
    for taken in rounds:
        (block,) = game.due()
        prints.decided(block, np.array(taken), np.ones(2, np.bool_), np.array([0]))
        game.step([np.array(taken)])
    prints.ended(np.array([0]), np.float32([scores]), np.zeros(1, np.int8))
    return int(prints.digests()[0])


def test_it_counts_who_did_what_when_and_how_it_ended():
    plays = [[(0, 1), (2, 2)], [(1, 0), (2, 2)], [(2, 2), (0, 1)], [(0, 1)], [(0, 1), (2, 1)]]
    digests = [digest_of(rounds) for rounds in plays] + [digest_of(plays[0], (1.0, -1.0))]
    assert len(set(digests)) == len(digests)
    assert digest_of(plays[0]) == digests[0]


def test_the_order_in_which_seats_are_told_does_not_count():
    game = RockPaperScissors(1)
    game.reset(np.array([0]), np.array([0]))
    (block,) = game.due()
    seats = [slice(0, 1), slice(1, 2)]
    digests = []
    for order in (seats, seats[::-1]):
        prints = Fingerprints(game, 1)
        for rows in order:
            fields = (block.slot, block.seat, block.observation, block.mask)
            part = Decisions(*(column[rows] for column in fields))
            prints.decided(part, np.array([2, 1])[rows], np.ones(1, np.bool_), np.array([0]))
        digests.append(int(prints.mixed()[0]))
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_no_two_of_many_similar_rows_have_the_same_sum():
    """Rows that differ in one bit, in two, in the signs of numbers: what a sum alone would mix up."""
    rng = np.random.default_rng(0)
    row = rng.normal(size=84).astype(np.float32)
    bits = np.unpackbits(row.view(np.uint8))
    single = np.tile(bits, (len(bits), 1)) ^ np.eye(len(bits), dtype=np.uint8)
    double = np.tile(bits, (20_000, 1))
    pairs = np.unique(np.sort(rng.integers(len(bits), size=(20_000, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    double = double[: len(pairs)]
    for side in (0, 1):
        double[np.arange(len(pairs)), pairs[:, side]] ^= 1
    signs = row * np.unique(rng.choice([-1, 1], size=(20_000, 84)), axis=0)
    flipped = [np.packbits(rows, axis=1).view(np.float32) for rows in (bits[None], single, double)]
    rows = np.concatenate([*flipped, signs.astype(np.float32)])
    rows = np.unique(rows.view(np.uint32), axis=0)
    assert len(rows) > 40_000
    assert len(np.unique(sum_of_words(rows))) == len(rows)


def test_columns_of_any_kind_are_told_apart():
    flags, small = np.array([[True, False]]), np.array([[3]], np.int8)
    sums = [
        sum_of_words(flags, small),
        sum_of_words(~flags, small),
        sum_of_words(flags, small + 1),
        sum_of_words(flags, small, np.float32([[0.5]])),
        sum_of_words(np.zeros((1, 0), np.bool_), np.float64([0.1])),
    ]
    assert len({int(s[0]) for s in sums}) == 5
