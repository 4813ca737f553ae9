import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import analysis
from analysis.history.history import History
from storage.archive import Archive
from storage.errors import Mistake
from storage.incidents import Incident
from storage.ledger.ledger import Ledger
from storage.records import (
    MAIN,
    Bot,
    BranchPoint,
    CacheRecord,
    Freeze,
    LivePlayer,
    RatingChange,
    ResultBatch,
    UpdateRecord,
    YardstickRecord,
)
from storage.snapshots.figures import Measurement, add_measurement, add_yardsticks
from storage.tables import codec
from tests import made_up

pytestmark = pytest.mark.slow


def played(*ranks: tuple[int, int], first: int = 0) -> ResultBatch:
    """Matches of main-0 in seat 0 against random in seat 1."""
    ids = np.arange(first, first + len(ranks))
    rank = np.array(ranks, np.int8)
    won, drawn = rank == 0, rank[:, :1] == rank[:, 1:]
    matches = made_up.matches(
        ("main-0", "random"),
        [[0, 1]] * len(ranks),
        env="tic_tac_toe",
        learning=[True, False],
        match_id=ids,
        seed=ids * 3,
    )
    outcome, score = np.where(drawn, 1, np.where(won, 0, 2)), np.where(drawn, 0.0, np.where(won, 1.0, -1.0))
    return made_up.results(matches, outcome, score=score, rank=rank, started_at=1.7e9 + ids, seconds=0.25)


def figure(competitor: str, measure: str = "best", part: str = "all") -> YardstickRecord:
    return YardstickRecord(
        competitor=competitor,
        yardstick="positions",
        kind="positions",
        measure=measure,
        mode="sample",
        part=part,
        value=0.5,
        low=0.4,
        high=0.6,
        samples=100,
    )


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    row = {"name": "small", "env": "tic_tac_toe", "seed": 7}
    with Archive.create(tmp_path / "run", "env: {id: tic_tac_toe}\n", row) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        for step in (0, 40):
            made_up.add_snapshot(
                archive, step, {"w": torch.full((2,), float(step))}, {}, updates=step // 10, reason="time"
            )
        changes = [RatingChange("main-0", 28.0, 5.0, 4), RatingChange("random", 22.0, 4.0, 4)]
        archive.append_results(played((0, 1), (0, 1), (0, 0), (1, 0)), changes)
        yield archive


def test_frames_tell_the_story_of_the_run(archive):
    archive.close()
    with analysis.open_run(archive.run) as history:
        assert history.runs == (archive.run,)
        assert history.snapshots()["snapshot_id"].tolist() == ["main-0@0", "main-0@40"]
        matches, seats = history.matches(), history.seats()
        assert (len(matches), len(seats)) == (4, 8)
        assert seats.query("seat == 0")["outcome"].tolist() == ["win", "win", "draw", "loss"]
        assert matches["started_at"].iloc[0].timestamp() == 1.7e9
        board = history.leaderboard().set_index("competitor")
        assert board.index.tolist() == ["main-0", "random"]
        assert board.loc["main-0", ["mu", "sigma", "skill", "games"]].tolist() == [28.0, 5.0, 13.0, 4]
        payoff = history.payoff().set_index(["home", "away"])
        assert payoff.loc[("main-0", "random"), ["games", "wins", "draws", "losses"]].tolist() == [4, 2, 1, 1]
        assert payoff.loc[("random", "main-0"), "win_rate"] == 0.375
        assert len(history.payoff("evaluation")) == 0
        with pytest.raises(Mistake, match="expected one of training, evaluation, tournament"):
            history.payoff("fun")
        (player,) = history.players().to_dict("records")
        assert (player["player"], player["env_steps"], player["updates"]) == ("main-0", 40, 4)
        assert player["snapshots"] == 2
        assert history.config() == {"env": {"id": "tic_tac_toe"}}


@pytest.fixture
def eventful(archive):
    """A run with rows in every table, and a measurement: three batches of results, then one that repeats."""
    freeze = Freeze(player="main-0", reason="due", evidence={"since_freeze": 40.0})
    archive.append_decisions([freeze])
    archive.append_updates([UpdateRecord("main-0", 5, 60, 0.5, {"entropy": 1.0, "kl": 0.25})])
    changes = [RatingChange("main-0", 29.0, 4.0, 7)]
    archive.append_results(played((0, 1), (0, 0), (0, 0), first=60), changes)
    snapshot = made_up.add_snapshot(
        archive,
        63,
        {"w": torch.zeros(2)},
        {},
        updates=7,
        parent_id="main-0@40",
        reason="due",
        decisions=[Freeze(player="main-0", reason="due")],
    )
    archive.append_ratings([RatingChange(snapshot.snapshot_id, 29.0, 8.0, 0)])
    archive.append_results(played((1, 0), first=600), [RatingChange("main-0", 27.0, 4.0, 8)])
    died = {"kind": "learner", "who": "learners of shard 0", "players": ("main-0",)}
    archive.append_incidents([Incident(**died, updates=3, happened_at=1.7e9)])
    archive.append_caches([CacheRecord("here", "disk", 1, 2, 3, 4, {})])
    archive.close()
    made = BranchPoint(
        parent="/runs/first",
        frame=3,
        env_steps=36,
        matches=4,
        seconds=5.0,
        learners={"main-0": "state"},
        changes=("learner.lr=1e-4",),
        moment_at=1.7e9,
        branched_at=1.7e9 + 1,
    )
    with Ledger(archive.run / "ledger", "a test") as ledger:
        ledger.append({"branches": codec.rows("branches", [made], seq=5)})
    measured = Measurement(
        "main-0@40", "main-0", 40, 36, "lower_bound", 0.5, 0.25, 0.75, "points per game", 10_000, 1.7e9
    )
    add_measurement(archive.run, measured)
    add_yardsticks(archive.run, [figure("main-0@40")])
    return archive.run


TYPES = {"text": pd.Series([], dtype=str).dtype, "object": np.dtype(object)}


@pytest.mark.parametrize(
    "method",
    [
        name
        for name, function in vars(History).items()
        if "`run`" in (function.__doc__ or "") and name not in ("sql", "match_mix")
    ],
)
def test_columns_and_types_are_those_of_the_docstring_with_rows_and_without(method, eventful):
    told = re.findall(r"`(\w+)`\s+([A-Za-z]\w*(?:\[us\])?)", getattr(History, method).__doc__)
    with analysis.open_run(eventful) as history:
        full, empty = getattr(history, method)(), getattr(history.as_of("1999-12-31"), method)()
    assert len(told) > 3
    assert len(full) > 0 == len(empty)
    for frame in (full, empty):
        assert frame.columns.tolist() == [name for name, _ in told]
        for name, kind in told:
            assert frame[name].dtype == TYPES.get(kind, kind), (name, kind)


def test_the_match_mix_is_counted_in_all_and_minute_by_minute(eventful):
    with analysis.open_run(eventful) as history:
        mix, by_minute = history.match_mix(), history.match_mix(over_time=True)
        past = history.as_of("1999-12-31")
        for frame, over_time in ((mix, False), (by_minute, True)):
            assert past.match_mix(over_time).dtypes.equals(frame.dtypes)
    assert mix.drop(columns="run").to_dict("records") == [
        {"player": "main-0", "purpose": "training", "match_type": "pfsp", "matches": 8, "share": 1.0}
    ]
    assert by_minute.columns.tolist() == [*mix.columns, "minute", "league_env_steps"]
    assert by_minute[["matches", "minute"]].to_numpy().tolist() == [[4, 0], [3, 1], [1, 10]]


def test_every_fact_knows_how_far_the_league_was(eventful):
    """Nine env steps a match; batches of 4, 3 and 1 matches that begin after 0, 60 and 600 seconds."""
    with analysis.open_run(eventful) as history:
        ratings = history.ratings()
        of_main = ratings[ratings["competitor"] == "main-0"]
        assert of_main["league_env_steps"].tolist() == [36, 63, 72]
        assert of_main["minutes"].tolist() == pytest.approx([3.25 / 60, 62.25 / 60, 600.25 / 60])
        assert ratings["league_env_steps"].is_monotonic_increasing
        (newcomer,) = ratings[ratings["competitor"] == "main-0@63"]["league_env_steps"]
        assert newcomer == 63
        assert history.updates()["league_env_steps"].tolist() == [36]
        decisions = history.decisions()
        assert decisions["league_env_steps"].tolist() == [36, 63]
        assert decisions["evidence"].tolist() == [{"since_freeze": 40.0}, {}]
        assert history.updates()["metrics"].tolist() == [{"kl": 0.25}]
        snapshots = history.snapshots().set_index("snapshot_id")
        assert snapshots.loc["main-0@63", "league_env_steps"] == 63


def test_a_thinned_rating_history_has_the_first_and_the_last_of_each(tmp_path):
    row = {"name": "small", "env": "tic_tac_toe", "seed": 7}
    with Archive.create(tmp_path / "run", "", row) as archive:
        for number in range(30):
            changes = [RatingChange("main-0", float(number), 5.0, number)]
            changes += [RatingChange("random", 0.0, 5.0, number)] * (number in (3, 20))
            archive.append_results(played((0, 1), first=number), changes)
    with analysis.open_run(tmp_path / "run") as history:
        whole, thin = history.ratings(), history.ratings(points=7)
        assert len(whole) == 32
        assert thin[thin["competitor"] == "main-0"]["mu"].tolist() == [0, 5, 10, 15, 20, 25, 29]
        assert len(thin) == 9
        assert len(history.ratings(points=30)) == 32
        with pytest.raises(Mistake, match="at least 2"):
            history.ratings(points=1)


@pytest.fixture
def two(archive, tmp_path):
    """Two runs in which `main-0` and `random` met, once with other results; each begins with seq 1."""
    archive.close()
    row = {"name": "other", "env": "tic_tac_toe", "seed": 8}
    with Archive.create(tmp_path / "elsewhere" / "run", "env: {id: other}\n", row) as other:
        other.add_player(LivePlayer("main-0", MAIN))
        other.append_results(played((1, 0), (1, 0)), [RatingChange("main-0", 3.0, 5.0, 2)])
    return archive.run, tmp_path / "elsewhere" / "run"


def test_several_runs_are_told_apart_by_the_end_of_their_path(two):
    with analysis.open_run(list(two)) as history:
        names = [f"{two[0].parent.name}/run", "elsewhere/run"]
        assert history.runs == two
        assert history.matches()["run"].tolist() == [names[0]] * 4 + [names[1]] * 2
        assert history.snapshots()["run"].tolist() == [names[0]] * 2
        assert set(history.sql("FROM leaderboard")["run"]) == set(names)
    with pytest.raises(Mistake, match="found twice"):
        analysis.open_run(two[0], two[1], two[0])
    with pytest.raises(Mistake, match="found no run"):
        analysis.open_run()


def test_of_several_runs_every_frame_and_table_is_that_of_each_run_behind_the_other(two):
    with (
        analysis.open_run(*two) as both,
        analysis.open_run(two[0]) as one,
        analysis.open_run(two[1]) as other,
    ):
        first, second = both.players()["run"]
        for name in ("matches", "seats", "payoff", "leaderboard", "ratings", "learned_from", "match_mix"):
            if hasattr(both, name):
                parts = [getattr(h, name)().assign(run=run) for h, run in ((one, first), (other, second))]
                whole, expected = getattr(both, name)(), pd.concat(parts, ignore_index=True)
                pd.testing.assert_frame_equal(whole, expected, check_dtype=False, check_categorical=False)
            asked = both.sql(f"FROM {name}")
            alone = [h.sql(f"FROM {name}") for h in (one, other)]
            assert asked.columns.tolist() == ["run", *alone[0].columns]
            assert len(asked) == len(alone[0]) + len(alone[1])
            assert asked["run"].tolist() == [first] * len(alone[0]) + [second] * len(alone[1])
        assert both.sql("SELECT run, count(*) AS n FROM matches GROUP BY run")["n"].sum() == 6
        assert "origin" in both.sql("FROM entrants").columns


def test_any_sql_is_answered_with_parameters(archive):
    with analysis.open_run(str(archive.run)) as history:
        frame = history.sql(
            "SELECT competitor FROM competitors WHERE kind = ? ORDER BY competitor", ["snapshot"]
        )
        assert frame["competitor"].tolist() == ["main-0@0", "main-0@40"]


def test_a_history_goes_on_with_its_run(archive):
    with analysis.open_run(archive.run) as history:
        assert len(history.matches()) == 4
        archive.append_results(played((0, 1), first=4), [])
        assert len(history.matches()) == 5
        assert history.payoff()["games"].tolist() == [5, 5]


def test_what_is_asked_at_one_moment_agrees_and_what_is_asked_later_is_newer(archive):
    with analysis.open_run(archive.run) as history:
        with history.at_one_moment():
            assert history.payoff()["games"].tolist() == [4, 4]
            archive.append_results(played((0, 1), first=4), [RatingChange("main-0", 29.0, 4.0, 5)])
            assert len(history.matches()) == 4
            assert history.ratings()["league_env_steps"].max() == 36
        assert len(history.matches()) == 5
        assert history.ratings()["league_env_steps"].max() == 45


def test_figures_on_yardsticks_know_whose_they_are_and_how_far_the_league_was(archive):
    archive.append_yardsticks([figure("main-0@40"), figure("random", "kept")])
    add_yardsticks(archive.run, [figure("main-0@0")])
    with analysis.open_run(archive.run) as history:
        frame, steps = history.yardsticks(), history.snapshots().set_index("snapshot_id")["league_env_steps"]
        assert frame["competitor"].tolist() == ["main-0@40", "random", "main-0@0"]
        assert frame["player"].isna().tolist() == [False, True, False]
        assert frame["env_steps"].tolist() == [40, pd.NA, 0]
        assert frame["league_env_steps"].iloc[0] == steps["main-0@40"]
        assert history.exploitability().empty
        with history.as_of("2001-01-01") as before:
            assert before.yardsticks().dtypes.equals(frame.dtypes)
            assert before.yardsticks().empty
