"""Whether a run of a day fits on its disk, killed at any moment, beside the same run that keeps all matches.

    python -m tests.bench.retention [--part 1000] [--kills 20] [--seed 0] [--folder DIR]

A day of Kuhn poker at 28,000 matches a second has 2.4 billion matches, in segments of 64 MiB. Here all is one
`part`th of that: the matches, the segments and what is kept whole (256 MiB). `--part 40` takes twenty
minutes, and 2 GB of disk for the run that keeps all.

Matches are made up, all else is real: results are rated and recorded, snapshots frozen, segments compacted
and summed up. The process that writes is killed at random moments and resumed. Both runs are
then resumed once more: standings have to be equal to the bit, and the payoffs, leaderboard and mix of matches
that SQL shows have to be equal. Exits with 1 otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import storage
import storage.archive
from league.config.loading import load
from league.training.state.fold import folded, recall
from league.training.state.state import LeagueState
from storage.archive import Archive
from storage.ledger.ledger import Ledger, summed_until
from storage.records import MAIN, Bot, Freeze, LivePlayer, ResultBatch
from storage.retention import retention
from storage.settings import Keep
from storage.tables import questions
from tests import made_up
from tests.bench.shared import parser_of

CONFIG = Path(__file__).parents[2] / "configs" / "kuhn_poker.yaml"
RATE = 28_000  # matches per second
SEGMENT_BYTES = 64 * 2**20
KEPT_BYTES = 256 * 2**20
SNAPSHOTS = 80
MOST_BEHIND = 16  # segments; about five of them are to be kept whole
GRACE_SECONDS = 600.0  # of a day; a second at least
ROW = {"name": "kuhn", "env": "kuhn_poker", "seed": 0, "most_lead": None}
SAME = (
    "SELECT * EXCLUDE (lead), round(lead, 9) AS lead FROM payoff ORDER BY home, away",
    "SELECT * EXCLUDE (lead) FROM leaderboard",
    "FROM match_mix",
    "FROM learned_from",
)


def new_state() -> LeagueState:
    """Return the state of a league of Kuhn poker before its first fact."""
    settings = load(CONFIG)
    teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
    roles = settings.league.resolve()
    return LeagueState(roles, settings.ratings, settings.league.decay, teams, settings.payoff_scale)


class Size(NamedTuple):
    """The size of a run."""

    batches: int
    batch: int  # matches of each, which is a frame; a segment has several
    freeze_every: int  # batches
    segment_bytes: int
    rate: float  # matches per second, as they say of themselves
    grace: float  # seconds


def part_of_a_day(part: int) -> Size:
    """Return the size of a run that has one of so many parts of a day's matches."""
    batch = max(600, 81_920 // part)
    batches = RATE * 24 * 3600 // part // batch
    grace = max(1.0, GRACE_SECONDS / part)
    return Size(batches, batch, max(1, batches // SNAPSHOTS), SEGMENT_BYTES // part, RATE / part, grace)


def results_of(number: int, opponents: tuple[str, ...], size: Size) -> ResultBatch:
    """Return batch `number` of a run of that size: the main against itself and `opponents`."""
    n = size.batch
    rng = np.random.default_rng(number)
    names = ("main-0", *opponents)
    seat = np.stack([np.zeros(n, np.int64), rng.integers(len(names), size=n)], 1)
    seat[::2] = seat[::2, ::-1]
    won = rng.integers(2, size=n)
    outcome = np.where(np.arange(2) == won[:, None], 0, 2).astype(np.int8)
    stake = rng.integers(1, 3, size=(n, 1))
    matches = made_up.matches(
        names,
        seat,
        env="kuhn_poker",
        match_types=("self_play", "pfsp"),
        match_id=number * n + np.arange(n),
        seed=rng.integers(2**63 - 1, size=n),
        match_type=seat.max(axis=1) > 0,
        learning=seat == 0,
    )
    return made_up.results(
        matches,
        outcome,
        score=np.where(outcome == 0, stake, -stake),
        env_steps=rng.integers(2, 4, size=n),
        started_at=1.7e9 + (number * n + np.arange(n)) / size.rate,
        seconds=0.01,
    )


def write(run: Path, keep: Keep | None, size: Size) -> None:
    """Begin the run, or go on with it, until it has its matches; all follows from the batch's number."""
    storage.archive.Ledger = functools.partial(Ledger, segment_bytes=size.segment_bytes)  # type: ignore[misc]
    retention.GRACE_SECONDS = size.grace
    state = new_state()
    yaml = CONFIG.read_text()
    archive = Archive.open(run, keep=keep) if run.exists() else Archive.create(run, yaml, ROW, keep=keep)
    with archive:
        recall(state, archive)
        for newcomer in (LivePlayer("main-0", MAIN), Bot("random")):
            if newcomer.competitor not in state.roster:
                add = archive.add_player if isinstance(newcomer, LivePlayer) else archive.add_bot
                add(newcomer)
                state.apply(newcomer)
        for number in range(state.totals.matches // size.batch, size.batches):
            if number % size.freeze_every == 0 and f"main-0@{number}" not in state.roster:
                freeze = Freeze(player="main-0", reason="due", evidence={})
                weights = {"weight": np.full(4, number, np.float32)}
                parent = state.members["main-0"].parent
                snapshot = archive.add_snapshot(
                    "main-0", MAIN, number, number, parent, weights, {}, "mlp", "due", decisions=[freeze]
                )
                state.apply(snapshot)
                state.apply(freeze)
            newest = [snapshot.snapshot_id for snapshot in state.newest]
            results = results_of(number, ("random", *newest), size)
            archive.append_results(results, state.apply(results))
            if archive.wants_fold:
                archive.note_fold(*folded(state))
            while keep is not None and _behind(archive) > MOST_BEHIND:
                time.sleep(0.02)


def _behind(archive: Archive) -> int:
    """Return the number of closed segments whose matches are whole."""
    whole = [segment for segment in archive._ledger.compacted if segment.summed is None]
    return len(whole) + archive._ledger.num_closed


def train(run: Path, keep: Keep | None, size: Size, kills: int, seed: int) -> tuple[int, int]:
    """Write a run in processes that are killed; return (kills, greatest bytes of its ledger)."""
    rng, most, done = random.Random(seed), 0, 0
    while True:
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(run, keep, size))
        writer.start()
        ends = time.monotonic() + (rng.uniform(6.0, 20.0) if done < kills else 1e9)
        while writer.is_alive() and time.monotonic() < ends:
            writer.join(0.5)
            most = max(most, size_of(run / "ledger"))
        if not writer.is_alive():
            if writer.exitcode != 0:
                sys.exit(f"the writer ended with {writer.exitcode}")
            return done, most
        writer.kill()
        writer.join()
        done += 1


def size_of(ledger: Path) -> int:
    """Return the bytes of the ledger."""
    size = 0
    for path in ledger.glob("*"):
        with contextlib.suppress(FileNotFoundError):  # it was replaced meanwhile
            size += path.stat().st_size
    return size


def resumed(run: Path) -> tuple[LeagueState, float]:
    """Return the state that a resume reaches, and the seconds of processor that it took."""
    state = new_state()
    with Archive.open(run) as archive:
        began = time.process_time()
        recall(state, archive)
        return state, time.process_time() - began


def differences(one: LeagueState, other: LeagueState) -> list[str]:
    """Return the names of what differs between two states."""
    (arrays, fields), (others, other_fields) = folded(one), folded(other)
    found = [name for name in arrays if not np.array_equal(arrays[name], others[name])]
    return found + [name for name in fields if fields[name] != other_fields[name]]


def main() -> None:
    """Write both runs and compare them."""
    arguments = parser_of(__doc__)
    arguments.add_argument("--part", type=int, default=1000, help="of a day, of its segments and limits")
    arguments.add_argument("--kills", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--folder", type=Path, default=None)
    given = arguments.parse_args()
    size, thinned = part_of_a_day(given.part), Keep(bytes=KEPT_BYTES // given.part)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        thin, whole = Path(folder, "thin"), Path(folder, "whole")
        wrong: list[str] = []
        for run, keep, kills in ((thin, thinned, given.kills), (whole, None, 0)):
            done, most = train(run, keep, size, kills, given.seed)
            print(
                f"{run.name}: {done} kills; ledger {size_of(run / 'ledger') / 1e6:.1f} MB (at most "
                f"{most / 1e6:.1f}), {len(os.listdir(run / 'ledger'))} files",
                flush=True,
            )
        (one, quick), (other, slow) = resumed(thin), resumed(whole)
        print(f"{other.totals.matches:,} matches, summed up until frame {summed_until(thin / 'ledger'):,}")
        print(f"a resume takes {quick:.2f} s of processor with sums, {slow:.2f} s with all matches")
        wrong += differences(one, other)
        questions.QUERY_MEMORY = "16GB"  # learned_from joins all seats, which are twice the matches
        for question in SAME:
            answers = [storage.query(run, question, timeout_seconds=600.0) for run in (thin, whole)]
            if answers[0].to_pylist() != answers[1].to_pylist():
                wrong.append(question)
        print(f"differences: {wrong}" if wrong else "standings, payoffs, leaderboard and mix are equal")
        sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
