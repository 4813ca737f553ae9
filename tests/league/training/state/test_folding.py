"""The fold of results: a state that was restored is the one that was folded from all facts."""

import shutil

import numpy as np
import pytest

from league.config.loading import load
from league.training.state.folding import folded, restore
from league.training.state.state import State
from storage.archive import Archive
from storage.ledger.ledger import read_frames
from storage.retention.folded import folded_of, folded_table


def state_of(settings):
    roles = settings.league.resolve()
    teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
    return State(roles, settings.ratings, settings.league.decay, teams, settings.payoff_scale)


def same(a, b):
    (arrays, fields), (others, other_fields) = folded(a), folded(b)
    assert fields == other_fields
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_state_that_goes_on_from_a_fold_is_that_of_all_facts_to_the_bit(
    trained, tiny_config, tmp_path, share
):
    settings = load(tiny_config, ["ratings.draw_probability=estimated"])
    shutil.copytree(trained, tmp_path / "run")
    with Archive.open(tmp_path / "run") as archive:
        frames = [f.sequence for f in read_frames(archive.run / "ledger", tables=("matches",))]
        cut = frames[int(share * len(frames))] + 1
        whole, half, again = (state_of(settings) for _ in range(3))
        for event in archive.history():
            whole.apply(event)
        for event in archive.history(before=cut):
            half.apply(event)
        arrays, fields = folded_of(folded_table(*folded(half)))
        for event in archive.history(after=cut, before=cut):
            again.apply(event)
        restore(again, arrays, fields)
        same(again, half)
        for event in archive.history(since=cut - 1):
            again.apply(event)
    same(again, whole)
