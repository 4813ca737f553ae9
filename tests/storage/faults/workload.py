"""A league's writing in miniature.

Everything that is written is an item: a kind and a number that is used once. All of an item follows from
its number, so that it can be recognised, compared to the bit, and missed.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from storage.archive import Archive
from storage.errors import StorageError
from storage.ledger.ledger import Ledger
from storage.records import (
    MAIN,
    Bot,
    Freeze,
    LivePlayer,
    RatingChange,
    Reset,
    ResultBatch,
    UpdateRecord,
)
from storage.snapshots import blobs
from tests import made_up

PLAYER = "main-0"
CONFIG = "env: {id: connect_four}\n"
SPEC = {"architecture": "mlp", "hidden": [4]}
KINDS = {"results": 10, "snapshot": 3, "decision": 2, "update": 2, "learner": 3, "bot": 1, "session": 1}
"""Kinds of items, and how often each is written."""

Item = tuple[str, int]
Say = Callable[[str, str, int], None]
"""Told ("begun" or "done", kind, number) of an item before it is written and once it is acknowledged."""

small_ledger = functools.partial(Ledger, segment_bytes=20_000, segment_frames=10)


class CompactionInStep:
    """Stands in for the archive's thread, so that what happens follows from a seed."""

    def __init__(self, ledger: Ledger, step: Callable[[], bool] | None = None) -> None:
        self._ledger = ledger
        self.look()

    def wake(self) -> None:
        """Retention has its own tests."""

    def look(self) -> None:
        try:
            self._ledger.compact()
        except StorageError as error:  # the archive goes on; the next one compacts
            self.error = error

    def close(self, *, finish: bool = False) -> None:
        """Nothing is under way, but for what is left to `finish`."""
        if finish:
            self.look()


def results(number: int) -> ResultBatch:
    """1 to 5 matches of two seats."""
    rng = np.random.default_rng(number)
    m = 1 + number % 5
    outcome = np.array([[0, 2], [1, 1], [2, 0]], dtype=np.int8)[rng.integers(3, size=m)]
    played = made_up.matches(
        (PLAYER, f"bot-{number}"),
        np.tile([0, 1], (m, 1)),
        env="connect_four",
        match_types=("self_play", "pfsp"),
        learning=[True, False],
        match_id=10 * number + np.arange(m),
        seed=rng.integers(2**63 - 1, size=m),
        match_type=rng.integers(2, size=m),
    )
    return made_up.results(
        played,
        outcome,
        score=rng.normal(size=(m, 2)),
        env_steps=rng.integers(7, 43, size=m),
        started_at=1.7e9 + rng.random(m),
        seconds=rng.random(m),
    )


@functools.lru_cache(maxsize=4096)
def weights(number: int) -> dict[str, np.ndarray]:
    """Some sectors' worth of numbers."""
    rng = np.random.default_rng(number)
    return {"torso": rng.normal(size=(40, 50)).astype(np.float32), "bias": np.full(3, number, np.float32)}


@functools.lru_cache(maxsize=4096)
def blob_hash(number: int) -> str:
    return blobs.hash_of(blobs.encode(weights(number)))


def create(run: Path, say: Say) -> Archive:
    """A new run; its first session and its player have the number 0."""
    say("begun", "session", 0)
    archive = Archive.create(run, CONFIG, {"name": "faults", "env": "connect_four", "seed": 0})
    say("done", "session", 0)
    try:
        write(archive, "player", 0, say)
    except BaseException:
        archive.close()
        raise
    return archive


def write(archive: Archive, kind: str, number: int, say: Say) -> None:
    """Write that item. Raises what the archive raises."""
    say("begun", kind, number)
    match kind:
        case "results":
            archive.append_results(results(number), [RatingChange(PLAYER, 25.0, 8.0, number)])
        case "snapshot":
            freeze = [Freeze(player=PLAYER, reason=str(number))]
            archive.add_snapshot(
                PLAYER, MAIN, number, 0, None, weights(number), SPEC, "mlp", str(number), decisions=freeze
            )
        case "decision":
            archive.append_decisions([Reset(player=PLAYER, reason=str(number), target="initial")] * 2)
        case "update":
            archive.append_updates([UpdateRecord(PLAYER, number, number, 0.0, {"policy_loss": number})])
        case "learner":
            archive.save_learner(PLAYER, weights(number), {"number": number})
        case "bot":
            archive.add_bot(Bot(f"bot-{number}"))
        case "player":
            archive.add_player(LivePlayer(PLAYER, MAIN))
        case "session":
            archive.begin_session({"name": "faults", "env": "connect_four", "seed": number}, CONFIG)
        case _:
            raise ValueError(kind)
    say("done", kind, number)


def any_kind(rng: random.Random) -> str:
    return rng.choices(list(KINDS), KINDS.values())[0]
