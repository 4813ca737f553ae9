"""Bots for small poker: an equilibrium of kuhn_poker, and a tight player of leduc_poker."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from league.envs.games import kuhn_poker, leduc_poker
from league.models.bots.base import MixedPolicy, ScriptedPolicy

FOLD_OR_CHECK, CALL, RAISE = 0, 1, 2  # the strongest action of a hand
_TIGHT = np.array([FOLD_OR_CHECK, CALL, RAISE])  # jack, queen, king before the public card
_TIGHT_UNPAIRED = np.array([FOLD_OR_CHECK, FOLD_OR_CHECK, CALL])  # and after it


class KuhnEquilibrium(MixedPolicy):
    """Equilibrium of kuhn_poker: H. W. Kuhn, A simplified two-person poker (1950).

    It loses no more than the value of the game, against any opponent. The first seat has a family of
    equilibria, by the probability `alpha` of betting a jack (0 to 1/3); the second seat has one.
    """

    def __init__(self, alpha: float = 1 / 6) -> None:
        # probability of a bet: [second seat, faces a bet, card]
        self._bet = np.array(
            [
                [[alpha, 0, 3 * alpha], [0, alpha + 1 / 3, 1]],
                [[1 / 3, 0, 1], [0, 1 / 3, 1]],
            ],
            dtype=np.float32,
        )

    def probabilities(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        second = observation[:, 1] > 0
        card = observation[:, 2 : 2 + kuhn_poker.NUM_CARDS].argmax(axis=1)
        actions = observation[:, 2 + kuhn_poker.NUM_CARDS :].reshape(-1, kuhn_poker.MAX_ACTIONS, 2)
        faces_bet = actions[:, :, kuhn_poker.BET].any(axis=1)
        bet = self._bet[second.astype(np.int64), faces_bet.astype(np.int64), card]
        return np.stack([1 - bet, bet], axis=1)


class TightLeduc(ScriptedPolicy):
    """Bot for leduc_poker that never bluffs.

    First round: raise with a king, call with a queen. Second round: raise with a pair, call with a king. It
    folds all other hands to a raise.
    """

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        own, public = observation[:, 2:5], observation[:, 5:8]
        rank, first_round = own.argmax(axis=1), ~public.any(axis=1)
        paired = (own * public).any(axis=1)
        far = np.where(first_round, _TIGHT[rank], np.where(paired, RAISE, _TIGHT_UNPAIRED[rank]))
        chosen = np.full(len(mask), leduc_poker.CALL)
        chosen[(far == RAISE) & mask[:, leduc_poker.RAISE]] = leduc_poker.RAISE
        chosen[(far == FOLD_OR_CHECK) & mask[:, leduc_poker.FOLD]] = leduc_poker.FOLD
        return chosen[:, None] == np.arange(mask.shape[1])
