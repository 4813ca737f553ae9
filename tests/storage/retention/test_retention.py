"""Retention: sums in the place of old matches; everything that was summed from matches stays as it was."""

import functools
import re

import pytest

import storage
from analysis.history.history import History
from analysis.report.sections.overview import overview
from analysis.report.story import Story
from league.commands.app import Format, sql
from storage.archive import Archive
from storage.errors import Mistake
from storage.ledger.ledger import Ledger, summed_until
from storage.records import MAIN, Bot, Freeze, LivePlayer, RatingChange
from storage.settings import Keep

SPEC = {"architecture": "mlp", "hidden": [4]}
ROW = {"name": "test", "env": "connect_four", "seed": 3}
SAME = (
    "SELECT * EXCLUDE (lead) FROM payoff ORDER BY home, away",
    "SELECT home, away, round(lead, 9) AS lead FROM payoff ORDER BY home, away",
    "SELECT * EXCLUDE (lead) FROM leaderboard",
    "FROM match_mix",
    "FROM match_mix_over_time",
    "FROM learned_from",
    "SELECT competitor, sum(seats) AS n, round(sum(score), 6) AS score FROM seated GROUP BY ALL ORDER BY ALL",
    "SELECT purpose, sum(matches) AS matches, sum(env_steps) AS steps FROM played GROUP BY ALL ORDER BY ALL",
)
NAMED = ("reasons", "throughput", "seat_advantage", "forfeits")


@pytest.fixture
def small(monkeypatch):
    """Segments of a few frames."""
    monkeypatch.setattr("storage.archive.Ledger", functools.partial(Ledger, segment_frames=4))


@pytest.fixture
def play(make_results, weights, small):
    """Makes a run of 20 batches with freezes in between, which sums up its matches or not."""

    def make(folder, keep=None, batches=20):
        with Archive.create(folder, "env: {id: connect_four}\n", ROW, keep=keep) as archive:
            archive.add_player(LivePlayer("main-0", MAIN))
            archive.add_bot(Bot("random"))
            freeze = Freeze(player="main-0", reason="due", evidence={})
            archive.add_snapshot("main-0", MAIN, 0, 0, None, weights, SPEC, "mlp", "due", decisions=[freeze])
            for i in range(batches):
                results = make_results(50, 50 * i, seed=i)
                archive.append_results(results, [RatingChange("main-0", 25.0 + i, 8.0 - 0.1 * i, 50 * i)])
                if i % 6 == 5:
                    archive.add_snapshot(
                        "main-0", MAIN, i, i, "main-0@0", weights, SPEC, "mlp", "due", decisions=[freeze]
                    )
                if archive.wants_fold:
                    archive.note_fold({}, {"batch": i})
            archive._compaction.close()
            while archive._ledger.compact() or archive._compaction._step():
                pass
        return folder

    return make


def answers(run):
    found = [storage.query(run, question).to_pylist() for question in SAME]
    with History(run) as history:
        found += [history.sql(f"@{name}").round(9).to_dict() for name in NAMED]
        mix = history.match_mix(over_time=True).drop(columns="run")
        stages = history.payoff(stages=True).drop(columns="run").round(9)
        board = history.leaderboard(stages=True).drop(columns="run").round(9)
        found += [frame.to_json() for frame in (mix, stages, board)]
        found += [history.snapshots()[["snapshot_id", "league_env_steps"]].to_dict()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_everything_that_is_summed_stays_as_in_a_run_that_kept_all(play, tmp_path, share):
    whole, thin = play(tmp_path / "a" / "run"), play(tmp_path / "b" / "run", Keep(bytes=1, share=share))
    assert summed_until(thin / "ledger") > 12
    ((left,),) = storage.connect(thin).execute("SELECT count(*) FROM matches").fetchall()
    assert left < 1000 * (0.5 + share)
    with Archive.open(thin) as archive:
        assert archive.last_match_id() == 999
        assert archive.summed_until > 12
    for found, expected in zip(answers(thin), answers(whole), strict=True):
        assert found == expected


@pytest.mark.slow
def test_a_reader_that_is_open_goes_on_with_the_sums(play, tmp_path):
    run = play(tmp_path / "run", batches=10)
    with storage.connect(run) as connection:
        question = "SELECT sum(matches) FROM played"
        assert connection.execute(question).fetchall() == [(500,)]
        with Archive.open(run, keep=Keep(bytes=1)) as archive:
            archive.note_fold({}, {})
            archive._compaction.close()
            while archive._ledger.compact() or archive._compaction._step():
                pass
        assert summed_until(run / "ledger")
        assert connection.execute(question).fetchall() == [(500,)]
        ((rows,),) = connection.execute("SELECT count(*) FROM matches").fetchall()
        assert rows < 500


@pytest.mark.slow
def test_a_moment_that_was_summed_up_is_refused_with_the_first_one_that_is_left(play, tmp_path):
    run = play(tmp_path / "run", Keep(bytes=1))
    with pytest.raises(Mistake, match=r"as of 10: matches up to env step .* were summed up") as refused:
        storage.connect(run, as_of=10)
    first = int(str(refused.value).split("env step ")[1].split(" ")[0].replace(",", ""))
    with storage.connect(run, as_of=first) as connection:
        ((steps,),) = connection.execute("SELECT sum(env_steps) FROM played").fetchall()
    assert steps == first
    with pytest.raises(Mistake, match="were summed up, so the run can be shown as of then or later"):
        storage.connect(run, as_of="2023-01-01")


@pytest.mark.slow
def test_sql_on_matches_and_the_report_say_what_is_summed_up(play, tmp_path, capsys):
    run = play(tmp_path / "run", Keep(bytes=1))
    summed = r"league: [\d,]+ of 1,000 matches, the last of 2023-11-14 .* UTC, are kept as sums"
    sql(run, "SELECT count(*) FROM matches", Format.CSV)
    assert re.match(summed, capsys.readouterr().err)
    sql(run, "FROM leaderboard", Format.CSV)
    assert not capsys.readouterr().err
    with History(run) as history:
        assert "of 1,000 matches, the last of 2023-11-14" in overview(Story(history)).html
