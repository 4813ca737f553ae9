"""Blotto agrees with OpenSpiel's, and its exploitability is exact."""

import numpy as np
import pytest

from league.envs import registry
from league.envs.trees.trees import tree_of
from league.exploit.exact import exact_of
from league.models.bots.scripted import make_bot


@pytest.mark.parametrize(("soldiers", "fields"), [(10, 3), (4, 2), (3, 4), (2, 1)])
def test_every_pair_of_divisions_pays_as_in_openspiel(soldiers, fields):
    pyspiel = pytest.importorskip("pyspiel")
    theirs = pyspiel.load_game(f"blotto(coins={soldiers},fields={fields})")
    count = theirs.num_distinct_actions()
    pairs = np.stack(np.divmod(np.arange(0, count * count, 41), count), axis=1)
    game = registry.make("blotto", len(pairs), soldiers=soldiers, fields=fields)
    game.reset(np.arange(len(pairs)), np.arange(len(pairs)))
    (block,) = game.due()
    assert block.mask.shape == (2 * len(pairs), count)
    found = game.step([pairs.ravel()]).rewards
    for at, pair in enumerate(pairs.tolist()):
        state = theirs.new_initial_state()
        name = state.action_to_string(0, pair[0])
        assert game.action_name(at, 0, pair[0]) == name.strip("[]").replace(",", " ")
        state.apply_actions(pair)
        assert found[at].tolist() == state.returns()


def test_a_response_to_even_play_gains_what_the_best_division_does():
    game = registry.make("blotto", 1)
    fewer, more = game.divisions[:, None] < game.divisions, game.divisions[:, None] > game.divisions
    pays = np.sign(more.sum(axis=2) - fewer.sum(axis=2))  # [own division, the other's]
    assert tree_of("blotto").histories == 1 + 66**2
    found = exact_of(make_bot("random", "blotto"), "blotto")
    assert found.gains == pytest.approx([pays.mean(axis=1).max()] * 2)
    assert found.gains[0] > 0.3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"soldiers": 0}, "soldiers is 0, expected a whole number"),
        ({"fields": 1.5}, "fields is 1.5, expected a whole number"),
        ({"soldiers": 100, "fields": 5}, "are 4,598,126 divisions, expected at most 10,000"),
    ],
)
def test_divisions_that_cannot_be_counted_or_are_too_many_are_refused(options, message):
    with pytest.raises(registry.BadOption, match=message):
        registry.make("blotto", 1, **options)


def test_a_match_reads_as_the_soldiers_on_each_field():
    game = registry.make("blotto", 1)
    game.reset(np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert game.render(0, 0) == "3 fields, no soldiers sent yet"
    game.due()
    game.step([np.array([0, 65])])
    assert game.render(0, 1) == "seat 0: 0 0 10\nseat 1: 10 0 0"
    assert [[item.marked for item in hand.items] for hand in game.scene(0).hands] == [
        [False, False, True],
        [True, False, False],
    ]
