"""Whole tournaments: balanced, repeatable, resumed to the very same end, recorded like any match."""

import itertools
import json
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter

import numpy as np
import psutil
import pytest

import analysis
import league
from analysis.statistics.games import games_of
from analysis.tournaments.tournament import verdict
from analysis.tournaments.wording import warnings
from league.rollout.runner_group import LocalRunnerGroup, LostRequests
from league.tournament.loop import Interrupted, Standing
from league.tournament.play import play
from league.tournament.schedules import make_schedule
from league.tournament.settings import Resolved, load
from league.watching.replay import replay
from storage import query
from storage.archive import open_reader
from storage.errors import Failure, Mistake, RunExists
from storage.incidents import Incident
from storage.ledger.ledger import read_frames, read_tables
from storage.tables.columns import results_of
from tests.parameters import mostly_long

FACTS = ("entrants", "competitors", "matches", "seats", "meetings", "ratings", "recordings", "drawn_pairs")
# what no two sessions share: clocks, and the frame of the ledger, as each session begins with one
OWN = {
    "matches": {"started_at", "seconds", "batch"},
    "ratings": {"batch"},
    "competitors": {"added_at"},
    "entrants": {"joined_at"},
}


def facts(run):
    tables = read_tables(run / "ledger", FACTS)
    return {
        name: table.drop_columns([c for c in table.column_names if c in OWN.get(name, ())])
        for name, table in tables.items()
    }


def assert_same(one, other):
    one, other = facts(one), facts(other)
    assert set(one) == set(other)
    for name, table in one.items():
        assert table.equals(other[name]), name


def results(run):
    frames = read_frames(run / "ledger", tables=("matches", "seats"))
    return [results_of(frame.tables) for frame in frames if "matches" in frame.tables]


def settings(run, **changes):
    made = {
        "competitors": [{"run": str(run)}],
        "schedule": {"kind": "round_robin", "pairs": 3},
        "rollout": {"slots": 16, "matches_per_request": 16, "record": 1.0},
        "runners": 0,
    }
    return load(made | changes)


LINES = [[0, 4], [8, 4], [4, 0, 1]]


@pytest.fixture
def book(tmp_path):
    """A book of these lines."""
    path = tmp_path / "book.txt"
    path.write_text("# corner, then middle\n0 4\n8 4  # the other corner\n\n4 0 1\n")
    return {"book": str(path)}


def greedy(run, **changes):
    """Five players that always play alike."""
    return settings(run, competitors=[{"run": str(run), "modes": ["greedy"]}], **changes)


@pytest.mark.slow
def test_python_plays_one_and_asks_for_its_verdict(snapshots_run, tmp_path):
    config = {"competitors": [{"run": str(snapshots_run)}, {"bots": ["perfect"]}], "runners": 0}
    out = league.play_tournament(config, tmp_path / "out", overrides=["schedule.pairs=2"])
    found = analysis.verdict(out)
    assert found.table.competitor[0] == "perfect"
    assert len(analysis.match_records(out)) == 60
    assert league.play_tournament(config, out, overrides=["schedule.pairs=2"], resume=True) == out


def test_everybody_meets_everybody_in_every_seat_equally_often(snapshots_run, tmp_path):
    out = play(settings(snapshots_run), tmp_path / "out")
    rows = query(
        out, "SELECT seq, list(competitor ORDER BY seat) AS seated FROM seats GROUP BY seq"
    ).to_pylist()
    seen = Counter(tuple(row["seated"]) for row in rows)
    names = [entrant.competitor for entrant in open_reader(out).entrants()]
    assert len(names) == 5
    assert seen == dict.fromkeys(itertools.permutations(names, 2), 3)


@pytest.mark.slow
def test_results_are_rows_of_a_run_like_any_match(snapshots_run, tmp_path):
    out = play(settings(snapshots_run), tmp_path / "out")
    (row,) = query(
        out, "SELECT count(*) AS n, min(purpose) AS purpose, min(match_type) AS kind FROM matches"
    ).to_pylist()
    assert row == {"n": 60, "purpose": "tournament", "kind": "round_robin"}
    board = query(out, "SELECT * FROM leaderboard").to_pylist()
    assert len(board) == 5
    assert {row["kind"] for row in board} == {"snapshot"}
    assert all(row["games"] == 24 for row in board)
    assert len(query(out, "SELECT * FROM payoff").to_pylist()) == 20
    assert replay(out).identical == 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", mostly_long(["round_robin", "adaptive", "gauntlet", "swiss", "top_k"], short=2, variant=True)
)
def test_the_same_seed_plays_the_same_games_by_every_schedule(kind, snapshots_run, tmp_path):
    schedule = {"kind": kind, "pairs": 2}
    schedule |= {"seeds": ["main-0@0"]} if kind == "gauntlet" else {}
    schedule |= {"k": 1} if kind == "top_k" else {}
    one, other, another = (
        play(settings(snapshots_run, schedule=schedule, seed=seed), tmp_path / str(number))
        for number, seed in enumerate((4, 4, 5))
    )
    assert_same(one, other)
    seeds = [np.concatenate([batch.matches.seed for batch in results(run)]) for run in (one, another)]
    assert not np.isin(*seeds).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_long(["adaptive", "swiss", "round_robin"], short=2))
def test_how_each_pair_was_drawn_is_recorded_where_results_decided_it(kind, snapshots_run, tmp_path):
    out = play(settings(snapshots_run, schedule={"kind": kind, "pairs": 2}), tmp_path / "out")
    rows = query(
        out,
        "SELECT round, probability, standing, list(DISTINCT competitor) AS who FROM drawn_pairs "
        "JOIN seats USING (seq) GROUP BY seq, round, probability, standing ORDER BY seq",
    ).to_pylist()
    (games,) = query(out, "SELECT count(*) AS n FROM matches").to_pylist()
    assert len(rows) == (0 if kind == "round_robin" else games["n"] // 2)
    for row in rows:
        assert 0.0 < row["probability"] <= 1.0
        assert set(json.loads(row["standing"])) == (set(row["who"]) if row["round"] else set())


def stop_after(games, seen):
    """Interrupts a tournament once it has recorded that many games."""

    def observe(standing: Standing):
        seen.append(standing)
        if standing.games >= games:
            raise KeyboardInterrupt

    return observe


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_long(["adaptive", "round_robin", "swiss"]))
def test_one_that_was_stopped_three_times_ends_like_one_that_never_was(kind, book, snapshots_run, tmp_path):
    given = settings(snapshots_run, schedule={"kind": kind, "pairs": 6}, opening=book)
    whole, out = play(given, tmp_path / "whole"), tmp_path / "out"
    for attempt, games in enumerate((16, 32, 48)):
        with pytest.raises(KeyboardInterrupt):
            play(given, out, resume=attempt > 0, observe=stop_after(games, []))
    seen = []
    play(None, out, resume=True, observe=seen.append)
    assert seen[0].resumed_games >= 48
    assert_same(whole, out)
    assert verdict(out).table.equals(verdict(whole).table)


def test_a_tournament_that_is_over_is_only_shown_again(snapshots_run, tmp_path):
    out = play(settings(snapshots_run), tmp_path / "out")
    before = facts(out)
    play(None, out, resume=True, observe=stop_after(61, []))
    assert all(table.equals(before[name]) for name, table in facts(out).items())


@pytest.mark.slow
def test_what_is_over_is_shown_when_nobody_of_it_is_left(make_run, tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("0 4\n")
    given = settings(make_run(tmp_path / "run", snapshots=3), opening={"book": str(book)})
    out = play(given, tmp_path / "out")
    shutil.rmtree(tmp_path / "run")
    book.unlink()
    assert play(None, out, resume=True) == out
    assert len(verdict(out).table) == 3


def test_ctrl_c_saves_what_was_played_and_says_how_to_go_on(snapshots_run, tmp_path, monkeypatch):
    interrupted = threading.Event()

    def observe(standing):
        if standing.games >= 32:
            interrupted.set()

    import league.tournament.play as module

    class Interrupts:
        def __enter__(self):
            return interrupted

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(module, "interrupts", Interrupts)
    with pytest.raises(Interrupted, match=r"interrupted after 16 of 30 pairs; .*--resume goes on"):
        play(settings(snapshots_run), tmp_path / "out", observe=observe)
    assert sum(map(len, results(tmp_path / "out"))) == 32


@pytest.mark.slow
def test_the_field_of_a_resumed_tournament_is_the_one_it_began_with(make_run, tmp_path):
    """A run that trains on has more snapshots by then."""

    few, more = make_run(tmp_path / "a" / "run", snapshots=3), make_run(tmp_path / "b" / "run", snapshots=6)
    given = settings(few)
    with pytest.raises(KeyboardInterrupt):
        play(given, tmp_path / "out", observe=stop_after(1, []))
    shutil.rmtree(few)
    shutil.copytree(more, few)
    play(given, tmp_path / "out", resume=True)
    assert len(verdict(tmp_path / "out").table) == 3
    assert sum(map(len, results(tmp_path / "out"))) == 3 * 3 * 2


@pytest.mark.slow
def test_other_games_are_no_way_to_go_on(snapshots_run, tmp_path):
    out = play(settings(snapshots_run), tmp_path / "out")
    with pytest.raises(RunExists):
        play(settings(snapshots_run), out)
    for changes, place in [
        ({"seed": 3}, "seed is 3"),
        ({"opening": {"plies": 2}}, "opening.plies is 2"),
        ({"ratings": {"mu": 30.0}}, "ratings.mu is 30.0"),
        (
            {"rollout": {"matches_per_request": 32, "slots": 16, "record": 1.0}},
            r"rollout.matches_per_request",
        ),
        (
            {"rollout": {"matches_per_request": 16, "slots": 16, "record": 1.0, "step_limit": 4}},
            "rollout.step_limit is 4, the tournament was begun with none",
        ),
        ({"env": {"id": "tic_tac_toe", "options": {"size": 4}}}, "env.options.size is 4"),
    ]:
        with pytest.raises(Mistake, match=place):
            play(settings(snapshots_run, **changes), out, resume=True)


@pytest.mark.slow
def test_the_anchor_may_be_another_when_it_goes_on_and_trueskill_keeps_the_first(snapshots_run, tmp_path):
    whole = play(settings(snapshots_run, anchor="main-0@1"), tmp_path / "whole")
    out = tmp_path / "out"

    def stop(standing):
        if standing.pairs > 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        play(settings(snapshots_run, anchor="main-0@1"), out, observe=stop)
    play(settings(snapshots_run, anchor="main-0@2"), out, resume=True)
    assert_same(out, whole)
    assert verdict(out, anchor="main-0@2").value("main-0@2", "elo") == 0.0


@pytest.mark.slow
def test_seeds_go_by_all_names_that_an_anchor_goes_by(snapshots_run, tmp_path):
    named = {"schedule": {"kind": "gauntlet", "pairs": 1, "seeds": ["main-0"]}}
    out = play(settings(snapshots_run, **named), tmp_path / "out")
    assert load(out / "config.yaml").schedule.seeds == ("main-0@4",)
    play(settings(snapshots_run, **named), out, resume=True)
    twice = {"schedule": {"kind": "gauntlet", "seeds": ["main-0", "main-0@4"]}}
    with pytest.raises(Mistake, match="'main-0' is 'main-0@4', as another one is"):
        play(settings(snapshots_run, **twice), tmp_path / "twice")


@pytest.mark.slow
def test_the_book_is_found_from_everywhere_and_must_be_what_it_was(snapshots_run, tmp_path, monkeypatch):
    (tmp_path / "book.txt").write_text("0 4\n8 4\n")
    monkeypatch.chdir(tmp_path)
    made = settings(snapshots_run, opening={"book": "book.txt"})
    for out in (tmp_path / "out", tmp_path / "other"):
        with pytest.raises(KeyboardInterrupt):
            play(made, out, observe=stop_after(1, []))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    play(made, tmp_path / "out", resume=True)
    (tmp_path / "book.txt").write_text("0 4\n7 4\n")
    with pytest.raises(Mistake, match="no longer what it was when the tournament began"):
        play(None, tmp_path / "other", resume=True)


def test_a_league_run_is_no_tournament_to_resume(snapshots_run):
    with pytest.raises(Mistake, match="expected that of a tournament"):
        play(None, snapshots_run, resume=True)


@pytest.mark.slow
def test_a_refused_tournament_leaves_nothing_behind(snapshots_run, tmp_path):
    for changes in (
        {"anchor": "nobody"},
        {"gates": ["elo > 20 against nobody"]},
        {"schedule": {"kind": "gauntlet", "seeds": ["nobody"]}},
        {"schedule": {"kind": "round_robin", "pairs": 10**17}},
        {"schedule": {"kind": "swiss", "rounds": 10**17}},
        {"ratings": {"anchors": {"nobody": 0}}},
        {"ratings": {"draw_probability": 0.0}},
        {"opening": {"plies": 9}},
        {"competitors": [{"run": str(snapshots_run), "select": "env_steps > 100"}]},
        {"competitors": [{"run": str(snapshots_run), "names": ["main-0@0"]}]},
    ):
        with pytest.raises(Mistake):
            play(settings(snapshots_run, **changes), tmp_path / "out")
        assert not (tmp_path / "out").exists(), changes


@pytest.mark.slow
def test_one_entered_twice_is_within_its_interval_of_itself(snapshots_run, tmp_path):
    """Under two names, and beside the mode that it was entered in before."""
    given = settings(
        snapshots_run,
        competitors=[{"run": str(snapshots_run), "modes": ["sample", "t=1.001"]}],
        schedule={"kind": "round_robin", "pairs": 20},
        rollout={"slots": 512, "matches_per_request": 1024},
    )
    out = play(given, tmp_path / "out")
    table = verdict(out).table.set_index("competitor")
    assert len(table) == 10
    names = [name for name in table.index if ":" not in name]
    apart = [abs(table.elo[name] - table.elo[f"{name}:t=1.001"]) for name in names]
    width = [table.elo_high[name] - table.elo_low[name] for name in names]
    assert max(a / w for a, w in zip(apart, width, strict=True)) < 1.0


@pytest.mark.slow
def test_greedy_players_repeat_themselves_and_are_counted_once(snapshots_run, tmp_path):
    given = greedy(snapshots_run, schedule={"kind": "round_robin", "pairs": 5})
    out = play(given, tmp_path / "out")
    names = [entrant.competitor for entrant in open_reader(out).entrants()]
    assert games_of(results(out), names).num_pairs == 10
    assert any("the same games" in warning for warning in warnings(verdict(out)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["swiss", "adaptive", "top_k"])
def test_what_repeats_a_pair_of_an_earlier_round_tells_the_schedule_nothing(
    kind, snapshots_run, tmp_path, monkeypatch
):
    """Five greedy players have ten pairs to play, however many rounds there are."""
    schedule = {"kind": kind} | ({"rounds": 9, "pairs": 2} if kind == "swiss" else {"budget": 80})
    given = greedy(snapshots_run, schedule=schedule)
    known = []
    one = type(make_schedule(given.schedule, "abcde", 2))
    next_round = one.next_round

    def watched(schedule, history, games, rng):
        known.append(games.num_pairs)
        return next_round(schedule, history, games, rng)

    monkeypatch.setattr(one, "next_round", watched)
    out = play(given, tmp_path / "out")
    assert len(known) > 5
    assert known == sorted(known)
    assert known[-1] <= 10
    assert known[-1] == verdict(out).games.num_pairs


@pytest.mark.slow
def test_random_openings_make_greedy_players_play_different_games(snapshots_run, tmp_path):
    given = greedy(snapshots_run, schedule={"kind": "round_robin", "pairs": 5}, opening={"plies": 2})
    out = play(given, tmp_path / "out")
    names = [entrant.competitor for entrant in open_reader(out).entrants()]
    assert games_of(results(out), names).num_pairs > 30
    actions = [row["actions"][:2] for row in query(out, "SELECT * FROM recordings ORDER BY seq").to_pylist()]
    assert all(one == other for one, other in zip(actions[::2], actions[1::2], strict=True))
    assert replay(out).identical == 100


def lines_played(out):
    """Returns for each pairing the lines of its pairs, in order."""
    found = {}
    for row in query(
        out,
        "SELECT any_value(actions) AS actions, list(competitor) AS who FROM recordings "
        "JOIN seats USING (seq) GROUP BY seq ORDER BY seq",
    ).to_pylist()[::2]:
        line = next(i for i, line in enumerate(LINES) if row["actions"][: len(line)] == line)
        found.setdefault(frozenset(row["who"]), []).append(line)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", mostly_long(["round_robin", "swiss", "adaptive", "top_k", "gauntlet"], short=2, variant=True)
)
def test_each_pairing_goes_through_the_whole_book(kind, book, snapshots_run, tmp_path):
    """Also where it is stopped in a round, and goes on with more pairs."""
    schedule = {"kind": kind, "pairs": 4} | ({"seeds": ["main-0@0"]} if kind == "gauntlet" else {})
    out, given = tmp_path / "out", settings(snapshots_run, opening=book, schedule=schedule)
    with pytest.raises(KeyboardInterrupt):
        play(given, out, observe=stop_after(16, []))
    more = settings(snapshots_run, opening=book, schedule=schedule | {"pairs": 7})
    found = lines_played(play(more, out, resume=True))
    assert max(map(len, found.values())) >= 3
    for lines in found.values():
        assert lines == [number % 3 for number in range(len(lines))]


@pytest.mark.slow
def test_a_tournament_of_before_goes_on_in_the_order_that_it_began_with(
    book, snapshots_run, tmp_path, monkeypatch
):
    """Its settings have no key for that yet, and its lines went by the number of the pair."""
    before = settings(snapshots_run, opening=book | {"book_per": "tournament"})
    text = Resolved.to_yaml
    with monkeypatch.context() as older:
        older.setattr(Resolved, "to_yaml", lambda self: text(self).replace("  book_per: tournament\n", ""))
        with pytest.raises(KeyboardInterrupt):
            play(before, tmp_path / "out", observe=stop_after(32, []))
    said = []
    out = play(settings(snapshots_run, opening=book), tmp_path / "out", resume=True, tell=said.append)
    assert_same(out, play(before, tmp_path / "whole"))
    rows = query(out, "SELECT * FROM recordings ORDER BY seq").to_pylist()
    for match, row in enumerate(rows):
        line = LINES[match // 2 % 3]
        assert row["actions"][: len(line)] == line
    assert [sentence for sentence in said if "by the number of the pair" in sentence]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3 x\n", "line 1: found '3 x'"),
        ("# nothing\n", "found no opening"),
        ("0 0\n", "opening 1, move 2: found 0, which is not legal"),
        (None, "cannot be read"),
    ],
)
def test_a_book_that_is_none_is_refused_before_anything_is_played(text, problem, snapshots_run, tmp_path):
    book = tmp_path / "book.txt"
    if text is not None:
        book.write_text(text)
    with pytest.raises(Mistake, match=problem):
        play(settings(snapshots_run, opening={"book": str(book)}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_four_at_a_table_and_teams_of_two(make_run, tmp_path):
    for env, competitors, games in (("tron", 5, 24), ("whist", 3, 2)):
        run = make_run(tmp_path / env / "run", env, snapshots=competitors)
        given = settings(run, schedule={"kind": "round_robin", "pairs": 1})
        out = play(given, tmp_path / env / "out")
        by_seed = query(out, "SELECT seed, count(*) AS n FROM matches GROUP BY seed").to_pylist()
        assert {row["n"] for row in by_seed} == {games}
        table = verdict(out).table
        assert len(table) == competitors
        assert (table.games > 0).all()
        seats = query(out, "SELECT competitor, seat, count(*) AS n FROM seats GROUP BY ALL").to_pandas()
        assert (seats.groupby("competitor").n.nunique() == 1).all()
        assert replay(out).identical == len(query(out, "FROM recordings"))


@pytest.mark.slow
def test_competitors_of_two_runs_and_architectures_meet(make_run, tmp_path):
    one = make_run(tmp_path / "one", snapshots=2)
    other = make_run(tmp_path / "other", snapshots=2, hidden=(16, 16))
    given = settings(
        one, competitors=[{"run": str(one)}, {"run": str(other)}, {"bots": ["perfect", "random"]}]
    )
    table = verdict(play(given, tmp_path / "out")).table
    assert set(table.competitor) == {
        "one/main-0@0",
        "one/main-0@1",
        "other/main-0@0",
        "other/main-0@1",
        "perfect",
        "random",
    }
    assert table.competitor[0] == "perfect"


@pytest.mark.long
@pytest.mark.alone
def test_one_that_was_killed_at_random_on_ray_ends_like_one_that_never_was(snapshots_run, tmp_path):
    """The unbroken one is played by a single process: who plays makes no difference either."""
    rng = random.Random(3)
    fields = json.loads(
        settings(snapshots_run, schedule={"kind": "swiss", "pairs": 60, "rounds": 4}).model_dump_json()
    )
    fields["rollout"] |= {"slots": 32, "matches_per_request": 32}
    whole = play(load(fields), tmp_path / "whole")
    config, out = tmp_path / "tournament.yaml", tmp_path / "out"
    config.write_text(json.dumps(fields | {"runners": 2, "log_seconds": 0.1}))
    command = [sys.executable, "-m", "league.commands.app", "tournament", str(config), "--out", str(out)]
    kills = 0
    for attempt in range(2):
        with (tmp_path / f"log-{attempt}").open("w") as log:
            started = psutil.Popen(
                command + ["--resume"] * out.exists(), stdout=log, stderr=log, start_new_session=True
            )
        size = sum(path.stat().st_size for path in out.glob("ledger/*.journal")) if out.exists() else 0
        deadline = time.monotonic() + 120
        while sum(path.stat().st_size for path in out.glob("ledger/*.journal")) < size + 3_000:
            if started.poll() is not None:
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.1))
        kills += started.poll() is None
        for member in [started, *started.children(recursive=True)]:
            member.kill()
        started.wait()
    assert kills == 2
    play(load(fields), out, resume=True)
    assert_same(whole, out)


@pytest.mark.slow
def test_matches_that_kill_every_runner_end_the_tournament_with_their_names(
    snapshots_run, tmp_path, monkeypatch
):
    class Dying(LocalRunnerGroup):
        def ready(self, timeout_seconds):
            return [] if self._queue and self._queue[0][0] > 0 else super().ready(timeout_seconds)

        def losses(self):
            if not self._queue:
                return []
            lost = self._queue.popleft()[0]
            return [LostRequests((lost,), lost, Incident(kind="runner", who="runner 0", happened_at=0.0))]

    monkeypatch.setattr("league.tournament.play.LocalRunnerGroup", Dying)
    with pytest.raises(Failure, match=r"runners died one after the other .* matches of main-0@0, .*"):
        play(settings(snapshots_run), tmp_path / "out")
    monkeypatch.undo()
    whole = play(settings(snapshots_run), tmp_path / "whole")
    assert_same(play(None, tmp_path / "out", resume=True), whole)
