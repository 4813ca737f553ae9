"""The cue is shown once and asked for at the end; the steps in between all look the same."""

import numpy as np
import pytest

from league.envs.games.recall import Recall


def watch(game, seeds, answer):
    """Play one match in each slot; `answer(first observation)` is given at every step. Seen, rewards."""
    game.reset(np.arange(game.num_slots), seeds)
    seen, rewards = [], []
    while game.active.any():
        (block,) = game.due()
        seen.append(block.observation.copy())
        rewards.append(game.step([answer(seen[0])]).rewards[:, 0].copy())
    return np.stack(seen), np.stack(rewards)


def cue_of(first):
    return first[:, :-1].argmax(axis=1)


def test_who_remembers_the_cue_wins_and_who_does_not_loses():
    seeds = np.arange(200)
    _, right = watch(Recall(200), seeds, cue_of)
    _, wrong = watch(Recall(200), seeds, lambda first: (cue_of(first) + 1) % 4)
    assert right.shape == (20, 200)
    assert not right[:-1].any()
    assert (right[-1] == 1.0).all()
    assert not wrong[:-1].any()
    assert (wrong[-1] == -1.0).all()


def test_the_cue_is_shown_at_the_first_step_only_and_the_flag_at_the_last():
    seen, _ = watch(Recall(50, cues=6, length=5), np.arange(50), cue_of)
    assert seen.shape == (5, 50, 7)
    assert (seen[0, :, :-1].sum(axis=1) == 1).all()
    assert not seen[1:, :, :-1].any()
    assert seen[:, :, -1].all(axis=1).tolist() == [False, False, False, False, True]
    assert not seen[:-1, :, -1].any()


def test_all_cues_are_shown_equally_often():
    seen, _ = watch(Recall(4000, length=1), np.arange(4000), cue_of)
    counts = np.bincount(cue_of(seen[0]), minlength=4)
    assert (np.abs(counts - 1000) < 120).all()  # four standard deviations are 110


def test_in_a_match_of_one_step_cue_and_question_come_together():
    seen, rewards = watch(Recall(10, length=1), np.arange(10), cue_of)
    assert (seen[0].sum(axis=1) == 2).all()
    assert (rewards == 1.0).all()


@pytest.mark.parametrize("options", [{"cues": 1}, {"cues": 2.5}, {"length": 0}, {"length": "long"}])
def test_nonsense_is_refused_by_name(options):
    with pytest.raises(ValueError, match=f"recall: {next(iter(options))} is .*, expected a whole number"):
        Recall(1, **options)


def test_a_match_reads_as_it_is_seen_and_does_not_tell_how_long_it_has_been():
    game = Recall(1, length=4)
    game.reset(np.array([0]), np.array([0]))
    cue = int(game._cue[0])
    read, told = [], []
    for _ in range(4):
        read.append(game.render(0, 0))
        told.append(game.render(0))
        game.due()
        game.step([np.array([cue])])
    assert read == [f"cue {cue}", "-", "-", "which cue was it?"]
    assert told[2] == f"2 of 4 steps taken, cue {cue}: -"
    assert game.action_name(0, 0, 3) == "cue 3"
