"""Games that say that hands are all they hide, and do not keep it."""

import re

import numpy as np
import pytest

from league.envs import registry
from league.envs.dealt import MATCHES, broken_promise
from league.envs.games.kuhn_poker import KuhnPoker
from league.envs.games.leduc_poker import LeducPoker
from league.envs.games.liars_dice import LiarsDice

DEALT = [("kuhn_poker", {}), ("leduc_poker", {}), ("liars_dice", {}), ("liars_dice", {"dice": 2, "faces": 3})]


@pytest.mark.parametrize(("env_id", "options"), DEALT)
def test_our_games_keep_what_they_promise(env_id, options):
    for limit in (None, 2):
        assert broken_promise(registry.make(env_id, MATCHES, step_limit=limit, **options), 0) == ""


class ShowsBothCards(KuhnPoker):
    def observe(self, slot, seat):
        seen = super().observe(slot, seat)
        seen[:, 0] = self._card[slot, 1 - seat] == 0
        return seen


class ShowsTheCardEarly(LeducPoker):
    def observe(self, slot, seat):
        seen = super().observe(slot, seat)
        seen[:, 5] = self._rank[slot, 2] == 0
        return seen


class NoBetWithAJack(KuhnPoker):
    def legal(self, slot, seat):
        mask = super().legal(slot, seat)
        mask[self._card[slot, seat] == 0, 1] = False
        return mask


class KingsEndIt(KuhnPoker):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._over[slot[self._card[slot, seat] == 2]] = True


class PaysForBets(KuhnPoker):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._rewards[slot, seat] += 0.5 * action


class AllCallsAlike(LiarsDice):
    def ending(self, slot):
        return np.zeros(len(slot), dtype=np.int64)


class OneHand(KuhnPoker):
    def hands(self):
        return super().hands()[:, :1]


class LikelyTwice(KuhnPoker):
    def starts(self):
        return super().starts() * 2


class NotCopied(KuhnPoker):
    match_arrays = None


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (ShowsBothCards, "sees more than its hand"),
        (ShowsTheCardEarly, "sees more than its hand"),
        (NoBetWithAJack, "what is legal, depends on a hand"),
        (KingsEndIt, "whether a match ends depends on a hand"),
        (PaysForBets, "before the end"),
        (AllCallsAlike, "same `ending`"),
        (OneHand, r"hands are shaped \(6, 1\), expected \(6, 2\)"),
        (LikelyTwice, "are 2 in sum, expected 1"),
        (NotCopied, "no match_arrays"),
    ],
)
def test_a_broken_promise_is_named(game, message):
    assert re.search(message, broken_promise(game(MATCHES), 0))
