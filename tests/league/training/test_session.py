"""A league in miniature, trained for real: what a run does, what it remembers, how it goes on."""

import json
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
import yaml
from blake3 import blake3

import analysis
import league
from league.config.loading import load
from league.rules.roster import Roster
from league.rules.standings import Standings
from league.training.loop import train
from storage.archive import Archive, open_reader
from storage.ledger.ledger import read_frames
from storage.records import Freeze, LivePlayer, Reset, ResultBatch, Snapshot
from storage.snapshots.blobs import map_tensors
from tests import made_up
from tests.storage.faults.counts import tried

pytestmark = pytest.mark.slow

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny):
    return league.train(tiny(), tmp_path_factory.mktemp("session") / "run")


@pytest.fixture(scope="module")
def history(run):
    with analysis.open_run(run) as opened:
        yield opened


def test_five_full_cycles_of_freeze_seat_rate_and_reset_happen(history):
    cycles = history.sql(
        """
        SELECT f.player, f.snapshot_id
        FROM decisions f
        JOIN decisions r ON r.player = f.player AND r.kind = 'reset' AND r.seq = f.seq + 1
        JOIN players p ON p.player = f.player AND p.role = 'main_exploiter'
        WHERE f.kind = 'freeze'
          AND f.snapshot_id IN (SELECT competitor FROM seats)
          AND f.snapshot_id IN (SELECT competitor FROM ratings WHERE games > 0)
        """
    )
    assert len(cycles) >= 5
    assert cycles["snapshot_id"].is_unique


def test_freeze_always_comes_before_reset_and_a_reset_goes_back_to_stored_weights(history):
    decisions = history.sql("SELECT kind, player, snapshot_id, seq FROM decisions ORDER BY seq")
    assert (decisions["kind"] == "reset").sum() >= 5
    for i in decisions.index[decisions["kind"] == "reset"]:
        before = decisions.loc[i - 1]
        assert (before["kind"], before["player"]) == ("freeze", decisions.loc[i, "player"])
        assert decisions.loc[i, "snapshot_id"] == f"{decisions.loc[i, 'player']}@0"


def test_mains_are_frozen_every_n_steps_and_never_reset(history):
    mains = history.sql("SELECT env_steps FROM snapshots WHERE player = 'main-0' ORDER BY env_steps")
    gaps = np.diff(mains["env_steps"])
    assert len(gaps) > 5
    assert (gaps[:-1] >= 1000).all()  # the last one is the end of training
    assert (gaps < 2000).all()
    assert history.sql("SELECT * FROM decisions WHERE player = 'main-0' AND kind = 'reset'").empty


def test_every_match_has_all_its_seats_drawn_at_once(history):
    seats = history.sql(
        """
        SELECT m.match_type, list(s.competitor ORDER BY seat) AS who,
               list(s.learning ORDER BY seat) AS learns, list(c.kind ORDER BY seat) AS kinds
        FROM matches m JOIN seats s USING (seq) JOIN competitors c USING (competitor)
        GROUP BY seq, m.match_type
        """
    )
    assert (seats["who"].map(len) == 2).all()
    for match_type, who, learns, kinds in seats.itertuples(index=False):
        if match_type == "self_play":
            assert who[0] == who[1]
            assert all(learns)
        else:
            assert sum(learns) == 1
            learner, other = (0, 1) if learns[0] else (1, 0)
            assert kinds[learner] == "player"
            assert kinds[other] == ("player" if match_type == "current_main" else "snapshot")


def test_the_match_mix_agrees_with_the_configured_shares(history):
    mix = history.sql("SELECT * FROM match_mix WHERE player = 'main-0'").set_index("match_type")
    games = mix["matches"].sum()
    error = 4 * np.sqrt(0.25 / games)
    assert abs(mix.loc["pfsp", "share"] - 0.5) < error
    # a player without forgotten snapshots plays itself instead
    assert abs(mix["share"].reindex(["self_play", "forgotten"]).fillna(0).sum() - 0.5) < error
    assert mix["share"].get("self_play") > 0.35 - error
    players = history.sql("SELECT player, sum(matches) AS n FROM match_mix GROUP BY player")
    assert players["n"].max() - players["n"].min() <= 128  # equal shares, to one request


def test_ratings_equal_a_replay_of_the_ledger(run, history):
    settings = load(yaml.safe_load((run / "config.yaml").read_text()))
    roster = Roster()
    standings = Standings(roster, settings.ratings, settings.league.decay)
    replayed = {}
    with Archive.open(run) as archive:
        for event in archive.history():
            if isinstance(event, ResultBatch):
                replayed |= {change.competitor: change for change in standings.record(event)}
            elif isinstance(event, Reset):
                standings.on_reset(event.player, event.target)
            elif isinstance(event, LivePlayer | Snapshot):
                roster.admit(event)
                standings.on_admit(event, parent=event.player if isinstance(event, Snapshot) else None)
    stored = history.sql(
        "SELECT DISTINCT ON (competitor) * FROM ratings WHERE games > 0 ORDER BY competitor, seq DESC"
    )
    assert len(stored) == len(replayed) > 5
    for row in stored.itertuples():
        change = replayed[row.competitor]
        assert (change.mu, change.sigma, change.games) == (row.mu, row.sigma, row.games)


def test_a_frozen_snapshot_stays_the_same_while_its_player_trains_on(tmp_path, tiny):
    run = league.train(tiny("tic_tac_toe", stop={"env_steps": 30_000}), tmp_path / "run")
    observation = np.random.default_rng(0).integers(0, 2, (200, 18)).astype(np.int8)
    mask = np.ones((200, 9), bool)

    def look(snapshot):
        reader = open_reader(run)
        path = reader.blob_path(reader.resolve(snapshot))
        policy = league.load_policy(run, snapshot)
        return blake3(path.read_bytes()).hexdigest(), policy.evaluate(observation, mask)[0].tobytes()

    early = [s.snapshot_id for s in open_reader(run).snapshots() if s.player == "main-0"]
    before = {snapshot: look(snapshot) for snapshot in early}
    assert len({policy for _, policy in before.values()}) == len(early) >= 3
    league.train(tiny("tic_tac_toe", stop={"env_steps": 60_000}), run, resume=True)
    assert {snapshot: look(snapshot) for snapshot in early} == before
    assert len([s for s in open_reader(run).snapshots() if s.player == "main-0"]) > len(early)


def test_resume_goes_on_with_players_optimizers_standings_and_counters(tmp_path, tiny):
    run = league.train(tiny(stop={"env_steps": 30_000}), tmp_path / "run")
    with Archive.open(run) as archive:
        tensors, meta = archive.load_learner("main-0")
        assert any(name.startswith("optimizer/exp_avg") for name in tensors)
    seen = []

    class Look:
        def show(self, session):
            if not seen:
                state = session.learners.state("main-0")
                rating = session.standings.rating("main-0")
                seen.append((state, rating, session.totals.env_steps, session.totals.matches))

        def close(self, session):
            pass

    with analysis.open_run(run) as before:
        games = before.sql("SELECT max(games) AS n FROM ratings WHERE competitor = 'main-0'")["n"][0]
        matches = len(before.sql("SELECT * FROM matches"))
    settings = load(tiny(stop={"env_steps": 60_000}))
    train(settings, run, resume=True, make_view=Look)
    (state, rating, env_steps, played), *_ = seen
    assert state.env_steps >= meta["env_steps"] > 0
    assert state.updates >= meta["updates"]
    assert env_steps >= 30_000  # a session is shown before its first new match, too
    assert played >= matches > 0
    assert rating.games >= games > 0
    with analysis.open_run(run) as after:
        assert after.sql("SELECT count(*) = count(DISTINCT match_id) AS once FROM matches")["once"][0]
        assert len(after.sql("SELECT * FROM runs")) == 2
        assert len(after.sql("SELECT * FROM players")) == 3


def test_a_reset_that_a_kill_cut_short_is_made_up_for(tmp_path, tiny):
    run = league.train(tiny(stop={"env_steps": 20_000}), tmp_path / "run")
    with Archive.open(run) as archive:
        tensors, meta = archive.load_learner("main_exploiter-0")
        initial = next(s for s in archive.snapshots() if s.snapshot_id == "main_exploiter-0@0")
        # what the ledger holds when the process dies between the decision and the deed
        weights = {
            k.removeprefix("weights/"): t + 1.0 for k, t in tensors.items() if k.startswith("weights/")
        }
        archive.save_learner("main_exploiter-0", {f"weights/{k}": t for k, t in weights.items()}, meta)
        made_up.add_snapshot(
            archive,
            meta["env_steps"] + 1,
            weights,
            archive.manifest(initial.snapshot_id)["spec"],
            player="main_exploiter-0",
            role=initial.role,
            updates=meta["updates"],
            decisions=[
                Freeze(player="main_exploiter-0", reason="test"),
                Reset(player="main_exploiter-0", reason="test", target=initial.snapshot_id),
            ],
        )
    league.train(tiny(stop={"env_steps": 20_500}), run, resume=True)
    with Archive.open(run) as archive:
        tensors, after = archive.load_learner("main_exploiter-0")
        resets = [d for d in archive.history() if isinstance(d, Reset) and d.player == "main_exploiter-0"]
        assert after["generation"] == len(resets) > meta["generation"]
        stored = archive.blob_path(initial)
        assert torch.equal(
            tensors["weights/torso.0.weight"], map_tensors(stored, verify=True)["torso.0.weight"]
        )


def kill_tree(process):
    """kill -9 for a process and all that it started, as the machine's own power switch would."""
    family = [process, *process.children(recursive=True)]
    for member in family:
        try:
            member.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, timeout=60)


def facts_on_disk(run: Path):
    """Ids of all acknowledged matches and snapshots, seqs of all decisions, in the order of the ledger."""
    columns = {"matches": "match_id", "snapshots": "snapshot_id", "decisions": "seq"}
    found = {name: [np.zeros(0, object)] for name in columns}
    for frame in read_frames(run / "ledger", tables=tuple(columns)):
        for name, table in frame.tables.items():
            found[name].append(table[columns[name]].to_numpy())
    return tuple(np.concatenate(parts) for parts in found.values())


def check_nothing_lost_or_repeated(before, after):
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new[: len(old)], old)
        assert len(np.unique(new.astype(str))) == len(new)


def ledger_bytes(run: Path) -> int:
    return sum(path.stat().st_size for path in run.glob("ledger/*.journal"))


@pytest.mark.long
@pytest.mark.alone
def test_a_run_killed_again_and_again_at_random_loses_nothing_and_repeats_nothing(tmp_path, tiny):
    rng = random.Random(7)
    run, config = tmp_path / "run", tmp_path / "tiny.yaml"
    settings = tiny("tic_tac_toe", runners=1, stop={"env_steps": 10**9}, storage={"save_seconds": 1})
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "league.commands.app", "train", str(config), "--run", str(run)]
    known = (np.zeros(0), np.zeros(0), np.zeros(0))
    for attempt in range(tried(2, 20)):
        size = ledger_bytes(run)
        with (tmp_path / f"log-{attempt}").open("w") as log:
            started = psutil.Popen(
                command + ["--resume"] * run.exists(), stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while ledger_bytes(run) < size + 50_000:  # until it has recorded something new
            assert started.poll() is None, (tmp_path / f"log-{attempt}").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 3.0))
        acknowledged = facts_on_disk(run)
        kill_tree(started)
        check_nothing_lost_or_repeated(known, acknowledged)
        known = facts_on_disk(run)
        check_nothing_lost_or_repeated(acknowledged, known)
    assert len(known[1]) > 5
    settings["stop"] = {"env_steps": 1}
    settings["runners"] = 0
    config.write_text(json.dumps(settings))
    league.train(settings, run, resume=True)
    check_nothing_lost_or_repeated(known, facts_on_disk(run))
    test_ratings_equal_a_replay_of_the_ledger(run, analysis.open_run(run))
    reader = open_reader(run)
    for snapshot in reader.snapshots():
        assert reader.manifest(snapshot.snapshot_id)["blob_hash"] == snapshot.blob_hash
        assert blake3(reader.blob_path(snapshot).read_bytes()).hexdigest() == snapshot.blob_hash
