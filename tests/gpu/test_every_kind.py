"""Learners of every kind come to the same on a card as on the CPU."""

import pytest

from tests.gpu.cards import CARD, needs_cards
from tests.gpu.kinds import KINDS, difference, learned

pytestmark = [pytest.mark.alone, needs_cards()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_learner_comes_to_the_same_on_a_card_as_on_the_cpu(kind):
    assert difference(learned(kind, "cpu"), learned(kind, CARD)) < kind.tolerance
