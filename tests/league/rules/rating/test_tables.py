"""Many matches at once against the same matches one by one."""

import math

import numpy as np
import pytest

from league.rules.rating import tables
from league.rules.rating.rating import RatingBook, RatingSettings
from league.rules.rating.tables import followed
from tests.league.rules.rating.library import Library


def league(competitors=14, placement_games=10, **settings):
    """A third learns, the others are placed; the anchor is fixed from the start."""
    rng = np.random.default_rng(competitors)
    book = RatingBook(RatingSettings(placement_games=placement_games, **settings))
    for k in range(competitors):
        book.admit(mu=rng.normal(25.0, 6.0), learns=k % 3 == 0, anchor=k == 1)
    return book


def matches(seed, number, seats, competitors=14, tied=0.3):
    """Seats that a competitor may have several of, and ranks; some are ties, and some of all."""
    rng = np.random.default_rng(seed)
    seated = rng.integers(competitors, size=(number, seats))
    rank = np.argsort(rng.random((number, seats)), axis=1)
    return seated, np.where(rng.random((number, 1)) < tied, rank // 2, rank).astype(np.int8)


def rate(book, seated, rank, sizes, team=None):
    """Rate in batches of these sizes, in turn."""
    team, start = np.arange(seated.shape[1]) if team is None else team, 0
    while start < len(seated):
        for size in sizes:
            book.rate_teams(seated[start : start + size], team, rank[start : start + size])
            start += size
    return book


def assert_alike(one, other, near=1e-7):
    np.testing.assert_allclose(one.mu, other.mu, rtol=0, atol=near)
    np.testing.assert_allclose(one.sigma, other.sigma, rtol=0, atol=near)
    assert one.games.tolist() == other.games.tolist()
    assert one.fixed.tolist() == other.fixed.tolist()


@pytest.mark.parametrize("seats", [3, 5])
def test_a_batch_equals_the_library_match_after_match(seats):
    """Learners that drift, snapshots that are placed and then fixed, an anchor, seats of the same."""
    book, library = league(), Library()
    mu, sigma, fixed, games = book.mu.copy(), book.sigma, book.fixed.copy(), book.games.copy()
    seated, rank = matches(0, 60, seats)
    rate(book, seated, rank, [40, 20])
    for row, ranks in zip(seated, rank.tolist(), strict=True):
        own = np.unique(row)
        if len(own) == 1:
            continue
        drift = np.where((np.arange(14) % 3 == 0), 25 / 300, 0.0)[row]
        after = library.rate(mu[row], np.hypot(sigma[row], drift), np.arange(seats), ranks)
        for k in own[~fixed[own]]:
            mu[k], sigma[k] = after[0][row == k].mean(), math.sqrt((after[1][row == k] ** 2).mean())
        games[own] += 1
        fixed[own] |= (own % 3 != 0) & (games[own] >= 10)
    np.testing.assert_allclose(book.mu, mu, rtol=0, atol=1e-6)
    np.testing.assert_allclose(book.sigma, sigma, rtol=0, atol=1e-6)
    assert book.games.tolist() == games.tolist()
    assert book.fixed.tolist() == fixed.tolist()


@pytest.mark.parametrize("team", [[0, 1, 2, 3], [0, 0, 1, 2, 2], [2, 0, 1, 0, 2, 1]])
def test_ratings_do_not_depend_on_how_matches_come_in_batches(team):
    team = np.array(team)
    rank = matches(1, 40, team.max() + 1)[1][:, team]
    seated = matches(2, 40, len(team))[0]
    together = rate(league(), seated, rank, [40], team)
    assert_alike(together, rate(league(), seated, rank, [1], team))
    assert_alike(together, rate(league(), seated, rank, [7, 11, 2], team))


def test_another_order_of_matches_is_another_league():
    seated, rank = matches(1, 60, 4)
    forward, backward = (rate(league(), seated[::way], rank[::way], [60]) for way in (1, -1))
    assert np.abs(forward.mu - backward.mu).max() > 1e-3


def test_the_order_of_matches_that_share_nobody_is_free():
    seated = np.arange(12).reshape(3, 4)
    rank = np.array([[0, 1, 2, 3], [0, 0, 1, 1], [3, 2, 1, 0]], np.int8)
    forward, backward = (rate(league(), seated[::way], rank[::way], [3]) for way in (1, -1))
    assert_alike(forward, backward, near=1e-9)


def test_matches_that_do_not_settle_together_are_rated_by_fewer_at_once(monkeypatch):
    """Few turns are allowed here; with the usual number, no league was found that needs it."""
    sizes = []

    class Window(tables._Window):
        def settle(self):
            sizes.append(self._rank.shape[1])
            return super().settle()

    monkeypatch.setattr(tables, "_Window", Window)
    for name, turns in (("FEW_TURNS", 8), ("MANY_TURNS", 12), ("MOST_TURNS", 15)):
        monkeypatch.setattr(tables, name, turns)
    seated, rank = matches(3, 60, 4, competitors=5)
    together = rate(league(competitors=5, tau=6.0), seated, rank, [60])
    assert sizes[0] > 50
    assert min(sizes) < 30
    monkeypatch.undo()
    assert_alike(together, rate(league(competitors=5, tau=6.0), seated, rank, [1]), near=1e-6)


def test_the_turns_of_a_league_as_it_is_drawn_are_few(monkeypatch):
    """What a match costs: one learner among placed snapshots, in eight seats."""
    turns = []
    settle = tables._Window.settle

    def noted(window):
        turns.append(settle(window))
        return turns[-1]

    monkeypatch.setattr(tables._Window, "settle", noted)
    rng, book = np.random.default_rng(4), RatingBook(RatingSettings())
    for mu in [25.0, *rng.normal(25.0, 4.0, 10)]:
        book.admit(mu=mu, learns=len(book) == 0, anchor=len(book) > 0)
    book.variance[0] = 0.5**2
    seated = rng.integers(1, 11, size=(1024, 8))
    seated[np.arange(1024), rng.integers(8, size=1024)] = 0
    performance = book.mu[seated] + rng.normal(0.0, book.settings.beta, seated.shape)
    free_for_all = np.arange(8)
    book.rate_teams(seated, free_for_all, np.argsort(np.argsort(-performance)).astype(np.int8))
    assert len(turns) == 1
    assert turns[0] <= tables.FEW_TURNS


def test_skills_followed_at_once_are_those_of_game_after_game():
    rng = np.random.default_rng(5)
    games = rng.integers(1, 40, size=12)
    begins = np.zeros(games.sum(), dtype=bool)
    begins[np.r_[0, np.cumsum(games)[:-1]]] = True
    mean, variance = rng.normal(25.0, 8.0, len(begins)), rng.uniform(0.1, 70.0, len(begins))
    drift, precision = rng.uniform(0.0, 2.0, len(begins)), rng.exponential(0.05, len(begins))
    precision[::7] = 0.0
    shift = precision * rng.normal(25.0, 10.0, len(begins))
    found = followed(begins, mean, variance, drift, precision, shift, int(games.max()))
    m = v = 0.0
    for i, first in enumerate(begins.tolist()):
        m, v = (mean[i], variance[i]) if first else (m, v + drift[i])
        m, v = (m + v * shift[i]) / (1.0 + v * precision[i]), v / (1.0 + v * precision[i])
        assert (found[0][i], found[1][i]) == pytest.approx((m, v), rel=1e-12)
