"""Fragments of a match are learned from as the whole match would be, each step once."""

from dataclasses import replace

import numpy as np
import pytest

from league.episode import Episodes
from league.learning.data import joining
from league.learning.data.joining import LEAST_AGE, Joiner, horizon
from league.learning.maths.advantages import advantages
from tests.league.learning.fragments import in_fragments, piece

LENGTHS = [5, 40, 1, 33, 90, 12]


def joined(joiner, blocks):
    """What comes out of a joiner, block by block."""
    found = [joiner.join(block) for block in blocks]
    return [episodes for episodes in found if episodes is not None]


def rows_of(episodes, whole):
    """The row of each step among those of `whole`, by its observation."""
    place = {row.tobytes(): n for n, row in enumerate(whole.observation)}
    return [place[row.tobytes()] for row in episodes.observation]


@pytest.mark.parametrize(("unit", "ahead"), [(1, 0), (1, 20), (16, 0), (16, 20), (128, np.inf)])
@pytest.mark.parametrize("splits", [True, False])
def test_every_step_comes_out_once_and_with_what_belongs_to_it(make_episodes, unit, ahead, splits):
    whole = make_episodes(LENGTHS, [False, True, False, True, False, False])
    joiner = Joiner(unit, ahead, splits=splits)
    parts = joined(joiner, in_fragments(whole, 7))
    rows = np.concatenate([rows_of(part, whole) for part in parts])
    assert sorted(rows) == list(range(whole.num_steps))
    assert joiner.nbytes == 0
    for part in parts:
        mine = rows_of(part, whole)
        for name in ("action", "reward", "log_prob", "mask"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[mine], err_msg=name)
        for e in range(len(part)):
            episode, first = part[e], mine[part.offset[e]]
            match = int(np.searchsorted(whole.offset, first, side="right")) - 1
            assert (episode.match_id, mine[part.offset[e + 1] - 1]) == (
                match,
                first + len(episode.action) - 1,
            )
            over = first + len(episode.action) == whole.offset[match + 1]
            assert part.goes_on is None or bool(part.goes_on[e]) == (not over)
            follows = whole[match].bootstrap if over else whole.observation[first + len(episode.action)]
            np.testing.assert_array_equal(episode.bootstrap, follows)


@pytest.mark.parametrize("steps", [3, 16, 50])
def test_sequences_are_those_of_whole_matches(make_episodes, steps):
    whole = make_episodes(LENGTHS)
    parts = joined(Joiner(16), in_fragments(whole, steps))
    begins = {rows_of(part, whole)[start] for part in parts for start in part.offset[:-1].tolist()}
    for match, first in enumerate(whole.offset[:-1].tolist()):
        own = {row for row in begins if first <= row < whole.offset[match + 1]}
        assert own <= {*range(first, first + LENGTHS[match], 16)}
        assert first in own


def test_whole_matches_are_passed_on_as_they_are(make_episodes):
    whole = make_episodes(LENGTHS)
    assert Joiner(128, 135).join(whole) is whole


@pytest.mark.parametrize(
    ("decay", "steps"), [(0.0, 0), (0.5, 10), (0.95, 135), (0.95 * 0.99, 113), (1.0, np.inf)]
)
def test_the_horizon_is_where_an_error_counts_for_a_thousandth(decay, steps):
    assert horizon(decay) == steps
    if 0 < steps < np.inf:
        assert decay**steps <= 1e-3


@pytest.mark.parametrize("lambda_", [0.0, 0.9, 0.97, 1.0])
def test_gae_by_fragments_is_that_of_the_whole_match_within_its_horizon(make_episodes, lambda_):
    whole = make_episodes([400, 30, 250, 1], [False, True, True, False])
    rng, discount = np.random.default_rng(1), 0.98
    value = rng.normal(size=whole.num_steps + len(whole.bootstrap)).astype(np.float32)
    place = {row.tobytes(): value[n] for n, row in enumerate([*whole.observation, *whole.bootstrap])}
    wanted = advantages(whole, value, discount=discount, lambda_=lambda_)
    ahead = horizon(discount * lambda_)
    joiner, waiting = Joiner(1, ahead), []
    found = np.full((2, whole.num_steps), np.nan)
    for block in in_fragments(whole, 8):
        if (part := joiner.join(block)) is not None:
            waiting.append(part)
        if len(waiting) == 3 or not joiner.nbytes:  # a batch is full
            fresh, waiting = Episodes.concatenate(waiting), []
            beyond = joiner.beyond(fresh)
            both = fresh if beyond is None else Episodes.concatenate([fresh, beyond])
            own = np.array([place[row.tobytes()] for row in [*both.observation, *both.bootstrap]])
            gae = np.stack(advantages(both, own, discount=discount, lambda_=lambda_))
            found[:, rows_of(fresh, whole)] = gae[:, : fresh.num_steps]
    assert np.isfinite(found).all()
    error = np.abs(found - np.stack(wanted)).max()
    largest = np.abs(wanted.advantage).max()
    assert error <= 1e-3 * (largest + np.abs(value).max()) + 1e-5
    short = slice(400, 430)  # a match shorter than the horizon
    if ahead == 0 or ahead >= 30:
        np.testing.assert_allclose(found[0, short], wanted.advantage[short], atol=1e-6)


def test_a_match_of_which_a_fragment_was_lost_is_cut_there(make_episodes):
    whole = make_episodes([40])
    blocks = in_fragments(whole, 8)
    joiner = Joiner(1, np.inf)
    first, second = joined(joiner, [*blocks[:2], *blocks[3:]])
    assert rows_of(first, whole) == list(range(16))
    np.testing.assert_array_equal(first[0].bootstrap, whole.observation[16])
    assert not first.goes_on.any()
    assert rows_of(second, whole) == list(range(24, 40))


def test_a_match_that_was_dropped_is_learned_from_after_a_while_as_far_as_it_went(make_episodes):
    joiner, dropped = Joiner(1, np.inf), make_episodes([20], seed=1)
    dropped = replace(dropped, match_id=np.array([77]))
    assert joiner.join(piece(dropped, 0, 0, 9)) is None
    others = in_fragments(make_episodes([4 * LEAST_AGE]), 2)
    out = [
        n
        for n, block in enumerate(others)
        if (part := joiner.join(block)) is not None and 77 in part.match_id
    ]
    assert out == [LEAST_AGE + 2]  # two more, as others took a block from one fragment to the next
    assert joiner.nbytes == 0  # the other one is over


def test_matches_whose_fragments_are_far_apart_are_waited_for_once_that_is_known(make_episodes):
    many = make_episodes([24] * 60)  # from as many runners, one after the other
    blocks = [piece(many, e, start, start + 6) for start in range(0, 24, 6) for e in range(60)]
    parts = joined(Joiner(1, np.inf), blocks)
    lengths = np.concatenate([np.diff(part.offset) for part in parts]).tolist()
    given_up = lengths.count(6)  # first fragments alone, until a second one came
    assert 0 < given_up == lengths.count(18)
    assert lengths.count(24) == 60 - given_up


def test_more_than_there_is_room_for_does_not_wait(make_episodes, monkeypatch):
    whole = make_episodes([30] * 8)
    blocks = in_fragments(whole, 5)
    monkeypatch.setattr(joining, "MOST_BYTES", 50 * (4 * 4 + 3 + 8 + 8))
    joiner, most = Joiner(1, np.inf), 0
    parts = []
    for block in blocks:
        parts += joined(joiner, [block])
        most = max(most, joiner.nbytes)
    assert most <= joining.MOST_BYTES
    assert joiner.cut_early > 0
    assert sorted(np.concatenate([rows_of(part, whole) for part in parts])) == list(range(whole.num_steps))


def test_fragments_of_both_seats_and_of_several_blocks_at_once_are_kept_apart(make_episodes):
    whole = replace(make_episodes([20, 20]), match_id=np.array([5, 5]), seat=np.array([0, 1], np.int8))
    (part,) = joined(Joiner(1, np.inf), [Episodes.concatenate(in_fragments(whole, 6))])
    assert part.seat.tolist() == [0, 1]
    assert rows_of(part, whole) == list(range(40))


def test_with_a_memory_an_episode_begins_where_one_is_known(make_episodes):
    whole = make_episodes([50, 23])
    memory = np.arange(50, dtype=np.float32)[:, None]
    blocks = in_fragments(whole, 7, lambda e, start: memory[start])
    for part in joined(Joiner(16, splits=False), blocks):
        for e in range(len(part)):
            start = rows_of(part, whole)[part.offset[e]] - whole.offset[part.match_id[e]]
            assert start % 7 == 0
            assert part.memory[e].tolist() == [start]
            assert len(part[e].action) >= 16 or part.terminated[e]


def test_what_waits_goes_on_elsewhere(make_episodes):
    blocks = in_fragments(make_episodes(LENGTHS), 7)
    here, there = Joiner(16, 20), Joiner(16, 20)
    joined(here, blocks[:4])
    there.load("main-0", here.state())
    assert there.nbytes == here.nbytes > 0
    for one, other in zip(joined(here, blocks[4:]), joined(there, blocks[4:]), strict=True):
        assert one.arrays().keys() == other.arrays().keys()
        for name, array in one.arrays().items():
            np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)
    there.load("main-0", {})
    assert there.nbytes == 0
