"""A tournament that ended goes on: with more pairs, more competitors, other gates."""

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest

from analysis.statistics.hierarchy.normal import normal_of
from analysis.tournaments.tournament import verdict
from league.tournament.play import play
from league.tournament.settings import load
from storage import query
from storage.archive import open_reader
from storage.errors import Mistake
from storage.records import Entrant
from tests.league.tournament.test_tournament_runs import assert_same, facts, results, settings, stop_after


def of_pairs(pairs, kind="round_robin", **more):
    return {"kind": kind, "pairs": pairs} | more


def variant(kind):
    return pytest.param(kind, marks=[pytest.mark.long, pytest.mark.variant])


def meetings(run):
    """How often any two met, in pairs."""
    rows = query(run, "SELECT seq, list(competitor ORDER BY competitor) AS met FROM seats GROUP BY seq")
    return Counter(tuple(row["met"]) for row in rows.to_pylist())


def test_more_pairs_are_played_and_those_of_before_count(snapshots_run, tmp_path):
    out = play(settings(snapshots_run, schedule=of_pairs(1)), tmp_path / "out")
    first = results(out)
    play(settings(snapshots_run, schedule=of_pairs(3)), out, resume=True)
    assert {games // 2 for games in meetings(out).values()} == {3}
    assert results(out)[0].matches.match_id.tolist() == first[0].matches.match_id.tolist()
    found = verdict(out)
    assert (found.games.num_pairs, found.unfinished_pairs) == (30, 0)
    seeds = np.concatenate([batch.matches.seed for batch in results(out)])
    assert set(Counter(seeds.tolist()).values()) == {2}


def test_further_competitors_meet_all_of_before(snapshots_run, tmp_path):
    out = play(settings(snapshots_run, schedule=of_pairs(1)), tmp_path / "out")
    said = []
    more = [{"run": str(snapshots_run)}, {"bots": ["perfect"]}]
    play(settings(snapshots_run, competitors=more, schedule=of_pairs(1)), out, resume=True, tell=said.append)
    assert said == [f"{out}: 1 join the 5 of before: perfect"]
    names = [entrant.competitor for entrant in open_reader(out).entrants()]
    assert names[-1] == "perfect"
    assert meetings(out) == dict.fromkeys(itertools.combinations(sorted(names), 2), 2)
    assert verdict(out).table.competitor[0] == "perfect"


def test_the_same_settings_play_nothing_and_give_the_same_verdict(snapshots_run, tmp_path):
    out = play(settings(snapshots_run, schedule=of_pairs(1)), tmp_path / "out")
    before, first = facts(out), verdict(out)
    play(settings(snapshots_run, schedule=of_pairs(1)), out, resume=True, regather=True)
    assert all(table.equals(before[name]) for name, table in facts(out).items())
    assert verdict(out).table.equals(first.table)


@pytest.mark.slow
def test_rounds_that_another_version_drew_otherwise_are_taken_as_they_were_recorded(
    snapshots_run, tmp_path, monkeypatch
):
    def otherwise(games):
        found = normal_of(games)
        return dataclasses.replace(found, elo=found.elo[::-1], covariance=found.covariance[::-1, ::-1])

    small = settings(snapshots_run, schedule=of_pairs(4, "adaptive", pairs_per_round=8))
    monkeypatch.setattr("league.tournament.schedules.rated.normal_of", otherwise)
    out = play(small, tmp_path / "out")
    before = results(out)
    monkeypatch.undo()
    other = play(small, tmp_path / "other")
    assert meetings(other) != meetings(out)
    play(small, out, resume=True)
    assert len(results(out)) == len(before)
    play(settings(snapshots_run, schedule=of_pairs(6, "adaptive")), out, resume=True)
    assert results(out)[0].matches.match_id.tolist() == before[0].matches.match_id.tolist()
    assert verdict(out).games.num_pairs > verdict(other).games.num_pairs


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["round_robin", *map(variant, ("adaptive", "swiss", "top_k", "gauntlet"))])
def test_one_that_was_stopped_while_it_went_on_ends_like_one_that_never_was(kind, snapshots_run, tmp_path):
    seeds = {"seeds": ["main-0@0"]} if kind == "gauntlet" else {}
    small = settings(snapshots_run, schedule=of_pairs(1, kind, **seeds))
    large = settings(
        snapshots_run,
        competitors=[{"run": str(snapshots_run)}, {"bots": ["random"]}],
        schedule=of_pairs(8, kind, **seeds),
    )
    for out in (tmp_path / "whole", tmp_path / "out"):
        play(small, out)
    play(large, tmp_path / "whole", resume=True)
    games = sum(map(len, results(tmp_path / "out")))
    assert sum(map(len, results(tmp_path / "whole"))) > games
    with pytest.raises(KeyboardInterrupt):
        play(large, tmp_path / "out", resume=True, observe=stop_after(games + 16, []))
    play(None, tmp_path / "out", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "out")
    assert verdict(tmp_path / "out").table.equals(verdict(tmp_path / "whole").table)


@pytest.mark.slow
def test_one_that_was_stopped_early_may_go_on_with_fewer_pairs(snapshots_run, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        play(settings(snapshots_run, schedule=of_pairs(40)), out, observe=stop_after(32, []))
    play(settings(snapshots_run, schedule=of_pairs(4)), out, resume=True)
    assert {games // 2 for games in meetings(out).values()} == {4}
    assert verdict(out).unfinished_pairs == 0
    play(settings(snapshots_run, schedule=of_pairs(5)), out, resume=True)
    assert {games // 2 for games in meetings(out).values()} == {5}


@pytest.mark.slow
def test_once_a_second_run_has_joined_every_name_has_its_run(make_run, tmp_path):
    one, other = (make_run(tmp_path / name, snapshots=2) for name in ("one", "other"))
    out = play(settings(one, anchor="main-0@0", schedule=of_pairs(2)), tmp_path / "out")
    both = [{"run": str(one)}, {"run": str(other)}]
    play(settings(one, competitors=both, anchor="main-0@0", schedule=of_pairs(2)), out, resume=True)
    found = verdict(out)
    names = {"one/main-0@0", "one/main-0@1", "other/main-0@0", "other/main-0@1"}
    assert set(found.table.competitor) == names
    assert found.anchor == "one/main-0@0"
    assert set(found.pairings.home) | set(found.pairings.away) == names
    assert found.table.mu.notna().all()
    again = settings(one, competitors=both, anchor="one/main-0@1", schedule=of_pairs(3))
    assert verdict(play(again, out, resume=True)).anchor == "one/main-0@1"
    assert verdict(out, anchor="one/main-0@1").anchor == "one/main-0@1"


def test_competitors_of_another_game_cannot_join(snapshots_run, make_run, tmp_path):
    other = make_run(tmp_path / "other", "connect_four", snapshots=2)
    out = play(settings(snapshots_run, schedule=of_pairs(1)), tmp_path / "out")
    before = facts(out)
    with pytest.raises(Mistake, match=r"play 'connect_four'.*, the tournament plays 'tic_tac_toe'.*--run"):
        play(settings(snapshots_run, competitors=[{"run": str(other)}]), out, resume=True)
    assert all(table.equals(before[name]) for name, table in facts(out).items())


def test_other_weights_under_the_same_id_cannot_join(make_run, tmp_path):
    """Neither as a newcomer nor in place of those that played."""
    run = make_run(tmp_path / "run", snapshots=2)
    out = play(settings(run, schedule=of_pairs(1)), tmp_path / "out")
    (tmp_path / "run").rename(tmp_path / "gone")
    make_run(tmp_path / "run", snapshots=2, hidden=(24,))
    with pytest.raises(Mistake, match=r"'main-0@0' has other weights than those .*--run"):
        play(settings(run, schedule=of_pairs(2)), out, resume=True, regather=True)


def test_a_session_that_only_looks_begins_no_stage(snapshots_run, tmp_path):
    from league.tournament.stages import stages_of

    out = play(settings(snapshots_run, schedule=of_pairs(1)), tmp_path / "out")
    play(settings(snapshots_run, schedule=of_pairs(1), gates=["games > 1"]), out, resume=True)
    assert [stage.requests for stage in stages_of(out)] == [None]
    play(settings(snapshots_run, schedule=of_pairs(2)), out, resume=True)
    assert [stage.requests for stage in stages_of(out)] == [2, None]


def test_entrants_that_join_are_recorded_with_the_settings_or_not_at_all(snapshots_run, tmp_path):
    from storage.archive import Archive
    from storage.errors import StorageError

    out = play(settings(snapshots_run, schedule=of_pairs(1)), tmp_path / "out")
    text = (out / "config.yaml").read_text()
    taken = dataclasses.replace(open_reader(out).entrants()[0])
    bot = Entrant("perfect", "bot", None, None, None, None, None, None, None, None)
    with Archive.open(out) as archive:
        with pytest.raises(StorageError, match="is there already"):
            archive.begin_session({"name": "x"}, text, [bot, taken])
        assert len(archive.entrants()) == 5
        archive.begin_session({"name": "x"}, text, [bot])
        assert len(archive.entrants()) == 6
    assert len(open_reader(out).entrants()) == 6
    assert load(out / "config.yaml").schedule.pairs == 1
