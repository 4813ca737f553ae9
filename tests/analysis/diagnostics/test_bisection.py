import numpy as np
import pytest

from analysis.diagnostics import locate_forgetting
from analysis.diagnostics.bisection import pairs_of_all, places

SNAPSHOTS = tuple(f"main-0@{i}" for i in range(64))


def player(score_of, rng, played=None):
    """Plays pairs of independent games at the score of each snapshot."""

    def play(a, b, pairs):
        wins = int(rng.binomial(2 * pairs, score_of(SNAPSHOTS.index(a))))
        if played is not None:
            played.append(pairs)
        return wins, 0, 2 * pairs - wins

    return play


def test_the_place_is_found_with_far_fewer_matches_than_all_would_take():
    hits, pairs, of_all, sure = 0, 0, 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        last_good = int(rng.integers(0, 63))
        score = np.where(np.arange(64) <= last_good, 0.7, 0.45)
        found = locate_forgetting(player(score.__getitem__, rng), SNAPSHOTS, "bot")
        sure += found.sure
        hits += found.sure and (found.before, found.after) == SNAPSHOTS[last_good : last_good + 2]
        pairs, of_all = pairs + found.pairs, of_all + found.pairs_of_all
    assert sure == 60
    assert hits >= 54  # 95 % were promised
    assert pairs < of_all / 4


def test_what_all_snapshots_would_take_is_told_truly():
    rng = np.random.default_rng(0)
    games = 2 * pairs_of_all(64, 0.7, 0.45, 0.95) // 64
    before = np.arange(64) <= 30
    score = rng.binomial(games, np.where(before, 0.7, 0.45), (2000, 64)) / games
    right = ((score > (0.7 + 0.45) / 2) == before).all(axis=1).mean()
    assert 0.93 < right < 0.99


def test_without_a_drop_nothing_is_located():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert locate_forgetting(player(lambda i: 0.6, rng), SNAPSHOTS, "bot", most_pairs=800) is None
        assert (
            locate_forgetting(player(lambda i: 0.4 + i / 160, rng), SNAPSHOTS, "bot", most_pairs=800) is None
        )


def test_no_more_pairs_are_played_than_allowed_and_doubt_is_told():
    played: list[int] = []
    rng = np.random.default_rng(4)
    gradual = player(lambda i: 0.9 - 0.5 * i / 63, rng, played)
    found = locate_forgetting(gradual, SNAPSHOTS, "bot", most_pairs=300, probability=0.999)
    assert sum(played) == found.pairs <= 300
    assert not found.sure
    assert "only" in found.sentence
    assert SNAPSHOTS.index(found.between[0]) <= SNAPSHOTS.index(found.before)
    assert SNAPSHOTS.index(found.between[1]) >= SNAPSHOTS.index(found.after)


def test_two_snapshots_have_one_place():
    rng = np.random.default_rng(5)
    found = locate_forgetting(player(lambda i: 0.8 if i == 0 else 0.2, rng), SNAPSHOTS[:2], "bot")
    assert (found.before, found.after, found.probability) == (*SNAPSHOTS[:2], 1.0)


def test_the_likelihood_is_that_of_scores_integrated_over_all_they_may_be():
    # Three snapshots, 1 of 1, 1 of 1 and 0 of 1: B(2+1, 1) B(1, 1+1) against B(1+1, 1) B(1+1, 1+1).
    found = places(np.ones(3), np.array([1.0, 1.0, 0.0]))
    behind_second, behind_first = 1 / 3 * 1 / 2, 1 / 2 * 1 / 6
    total = behind_second + behind_first
    assert found == pytest.approx([behind_first / total, behind_second / total])


def test_one_snapshot_is_refused():
    with pytest.raises(ValueError, match="expected at least 2"):
        locate_forgetting(player(lambda i: 0.5, np.random.default_rng(0)), SNAPSHOTS[:1], "bot")
