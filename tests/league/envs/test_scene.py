"""Scenes of native games: they agree with what is seen, and give no other hand away."""

import numpy as np
import pytest

from league.envs import registry
from league.envs.scene import Board, Tabletop

DRAWN = [env for env in registry.ids() if env != "recall"]
DEALT = ["kuhn_poker", "leduc_poker", "liars_dice"]


def played(env, seed, steps, slots=1):
    """A game whose slots have had that many random steps, as far as matches last."""
    game = registry.make(env, slots)
    rng = np.random.default_rng(seed)
    game.reset(np.arange(slots), np.full(slots, seed))
    for _ in range(steps):
        if not game.active[0]:
            break
        blocks = game.due()
        game.step([np.array([rng.choice(np.flatnonzero(row)) for row in block.mask]) for block in blocks])
    return game


@pytest.mark.parametrize("env", DRAWN)
def test_a_game_is_drawn_from_its_first_to_its_last_position(env):
    for steps in (0, 1, 3, 100):
        game = played(env, 3, steps)
        for seat in (None, *range(game.num_seats)):
            assert game.scene(0, seat).words


@pytest.mark.parametrize("env", DEALT)
def test_a_scene_of_a_seat_is_the_same_whatever_the_other_holds(env):
    """Of all deals in which the seat holds the same and the same is public."""
    game = played(env, 5, 1)
    hands, slot = game.hands(), np.zeros(1, dtype=np.int64)
    events = game.events()[:, : int(game.events_shown(slot)[0])]
    whole = set()
    for seat in range(2):
        scenes = {}
        for start in range(len(hands)):
            game.hold(slot, np.array([start]))
            scenes.setdefault((hands[start, seat], *events[start]), set()).add(repr(game.scene(0, seat)))
            whole.add(repr(game.scene(0)))
        assert len(scenes) > 1
        assert {len(found) for found in scenes.values()} == {1}
    assert len(whole) > len(scenes)  # all hands are shown to no seat in particular


def test_in_whist_only_the_own_hand_has_faces():
    scene = played("whist", 1, 5).scene(0, 2)
    assert isinstance(scene, Tabletop)
    for hand in scene.hands:
        assert all((item.face is None) == (hand.seat != 2) for item in hand.items)
    assert f"Seat {2} holds" in scene.words
    assert "Seat 0 holds" not in scene.words


def test_four_in_a_line_are_marked_and_no_other_stone():
    game = registry.make("connect_four", 1)
    game.reset(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    for column in (0, 6, 1, 6, 2, 5, 3):
        game.due()
        game.step([np.array([column])])
    scene = game.scene(0)
    assert isinstance(scene, Board)
    assert {(p.row, p.column) for p in scene.pieces if p.marked} == {(5, c) for c in range(4)}
    assert {p.seat for p in scene.pieces if p.marked} == {0}


def test_the_cells_around_a_head_are_its_actions():
    game = played("tron", 9, 1)
    for seat in np.flatnonzero(game._lives[0]).tolist():
        (head,) = [p for p in game.scene(0, seat).pieces if p.kind == "head" and p.seat == seat]
        for spot in game.scene(0, seat).spots:
            way = ("up", "right", "down", "left").index(game.action_name(0, seat, spot.action))
            step = ((-1, 0), (0, 1), (1, 0), (0, -1))[way]
            assert (spot.row - head.row, spot.column - head.column) == step
