"""`best` as the name of a competitor."""

import pytest
import torch

from league.competitors.names import Names, UnknownCompetitor, order_of_run
from storage.archive import Archive, open_reader
from storage.records import MAIN, Bot, LivePlayer
from tests import made_up

pytestmark = pytest.mark.slow


def made(run, *steps):
    """A run of which nothing but the snapshots at these steps is recorded, and the bot `random`."""
    config = "env: {id: tic_tac_toe, options: {}}\n"
    with Archive.create(run, config, {"name": "x", "env": "tic_tac_toe", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        before = None
        for step in steps:
            before = made_up.add_snapshot(
                archive,
                step,
                {"w": torch.zeros(1) + step},
                {},
                updates=step,
                parent_id=before,
                reason="initial weights" if before is None else "steps",
            ).snapshot_id
    return open_reader(run)


def test_best_is_the_first_of_the_order_and_its_probability_is_printed(trained, capsys):
    reader = open_reader(trained)
    source = Names(reader).source("best:greedy")
    best = order_of_run(reader.run).best
    assert best is not None
    assert (source.snapshot_id, source.temperature) == (best.competitor, 0.0)
    assert f"best: {best.competitor}, the best with probability" in capsys.readouterr().err
    assert not best.apart


def test_where_nothing_was_played_the_newest_is_best(tmp_path):
    reader = made(tmp_path / "run", 0, 100, 200)
    assert Names(reader).snapshot("best").snapshot_id == "main-0@200"


def test_untrained_weights_are_never_the_best(tmp_path):
    reader = made(tmp_path / "run", 0)
    with pytest.raises(UnknownCompetitor, match="'best': none of 1 snapshots was trained yet; name one by"):
        Names(reader).find("best")
