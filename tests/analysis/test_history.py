import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import analysis
from storage.archive import Archive
from storage.errors import NotARun
from storage.records import MAIN, Bot, LivePlayer, MatchBatch, Purpose, RatingChange, ResultBatch

HOLD = """
import sys
from pathlib import Path
from storage.archive import Archive
from storage.records import Bot
archive = Archive.open(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
archive.add_bot(Bot("late"))
print("added", flush=True)
sys.stdin.read()
"""


def played(*ranks: tuple[int, int], first: int = 0) -> ResultBatch:
    """Matches of main-0 in seat 0 against random in seat 1."""
    count = len(ranks)
    ids = np.arange(first, first + count)
    rank = np.array(ranks, np.int8)
    won, drawn = rank == 0, rank[:, :1] == rank[:, 1:]
    return ResultBatch(
        matches=MatchBatch(
            env="tic_tac_toe",
            purpose=Purpose.TRAINING,
            match_types=("pfsp",),
            competitors=("main-0", "random"),
            match_id=ids,
            seed=ids * 3,
            match_type=np.zeros(count, np.int16),
            seat=np.tile(np.array([0, 1], np.int32), (count, 1)),
            learning=np.tile([True, False], (count, 1)),
        ),
        outcome=np.where(drawn, 1, np.where(won, 0, 2)).astype(np.int8),
        score=np.where(drawn, 0.0, np.where(won, 1.0, -1.0)).astype(np.float32),
        rank=rank,
        env_steps=np.full(count, 9, np.int32),
        reason=np.zeros(count, np.int8),
        started_at=1.7e9 + ids,
        seconds=np.full(count, 0.25, np.float32),
    )


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    row = {"name": "small", "env": "tic_tac_toe", "seed": 7}
    with Archive.create(tmp_path / "run", "env: {id: tic_tac_toe}\n", row) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        for step in (0, 40):
            archive.add_snapshot(
                player="main-0",
                role=MAIN,
                env_steps=step,
                updates=step // 10,
                parent_id=None,
                tensors={"w": torch.full((2,), float(step))},
                spec={},
                architecture="mlp",
                reason="time",
            )
        changes = [RatingChange("main-0", 28.0, 5.0, 4), RatingChange("random", 22.0, 4.0, 4)]
        archive.append_results(played((0, 1), (0, 1), (0, 0), (1, 0)), changes)
        yield archive


def test_frames_tell_the_story_of_the_run(archive):
    archive.close()
    with analysis.open_run(archive.run) as history:
        assert history.snapshots()["snapshot_id"].tolist() == ["main-0@0", "main-0@40"]
        matches = history.matches()
        assert len(matches) == 8
        assert matches.query("seat == 0")["outcome"].tolist() == ["win", "win", "draw", "loss"]
        assert matches["started_at"].iloc[0].timestamp() == 1.7e9
        ratings = history.ratings().set_index("competitor")
        assert ratings.index.tolist() == ["main-0", "random"]
        assert ratings.loc["main-0", ["mu", "sigma", "skill", "games"]].tolist() == [28.0, 5.0, 13.0, 4]
        payoff = history.payoff().set_index(["home", "away"])
        assert payoff.loc[("main-0", "random"), ["games", "wins", "draws", "losses"]].tolist() == [4, 2, 1, 1]
        assert payoff.loc[("random", "main-0"), "win_rate"] == 0.375


def test_any_sql_is_answered_with_parameters(archive):
    with analysis.open_run(str(archive.run)) as history:
        frame = history.sql(
            "SELECT competitor FROM competitors WHERE kind = ? ORDER BY competitor", ["snapshot"]
        )
        assert frame["competitor"].tolist() == ["main-0@0", "main-0@40"]


def test_a_history_goes_on_with_its_run(archive):
    with analysis.open_run(archive.run) as history:
        assert len(history.matches()) == 8
        archive.append_results(played((0, 1), first=4), [])
        assert len(history.matches()) == 10
        assert history.payoff()["games"].tolist() == [5, 5]


def test_a_run_is_read_while_another_process_writes_it(archive):
    archive.close()
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(archive.run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with analysis.open_run(archive.run) as history:
            count = "SELECT count(*) AS n FROM competitors"
            assert history.sql(count)["n"].item() == 4
            child.stdin.write("go\n")
            child.stdin.flush()
            assert child.stdout.readline() == "added\n"
            assert history.sql(count)["n"].item() == 5
            assert child.poll() is None, "the writer was not disturbed"
    finally:
        child.kill()
        child.communicate()


def test_a_run_that_has_played_nothing_gives_empty_frames(tmp_path):
    row = {"name": "new", "env": "tic_tac_toe", "seed": 1}
    Archive.create(tmp_path / "run", "", row).close()
    with analysis.open_run(tmp_path / "run") as history:
        for frame in (history.snapshots(), history.matches(), history.ratings(), history.payoff()):
            assert len(frame) == 0
            assert len(frame.columns) > 3


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(NotARun, match="expected a run folder"):
        analysis.open_run(tmp_path)
