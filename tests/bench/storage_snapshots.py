"""100,000 snapshots: listed, filtered and one of them opened, and how many files that takes.

    python -m tests.bench.storage_snapshots [--snapshots 100_000]

Each was recorded with a frame of its own, as a league does it; one has its blob and manifest, the others
only their rows: who opened a file for each of them would fail.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import storage
from storage.archive import Archive, open_reader
from storage.disk import using
from storage.layout import LEDGER, MANIFESTS, OBJECTS
from storage.ledger.ledger import Ledger
from storage.records import MAIN, LivePlayer, Snapshot
from storage.snapshots.blobs import map_tensors
from storage.tables.columns import competitor_tables
from tests.bench.shared import parser_of
from tests.bench.storage_results import ENV, Unsynced

PLAYERS = 10
FILTER = "player = 'main-3' AND env_steps BETWEEN 1_000_000 AND 2_000_000"


def make_run(run: Path, snapshots: int) -> Snapshot:
    """Returns the one that is whole."""
    with Archive.create(run, "{}", {"name": "benchmark", "env": ENV, "seed": 0}) as archive:
        for i in range(PLAYERS):
            archive.add_player(LivePlayer(f"main-{i}", MAIN))
        weights = {"w": torch.randn(1_250_000)}
        whole = archive.add_snapshot("main-0", MAIN, 1, 1, None, weights, {}, "mlp", "benchmark")
    with using(Unsynced()), Ledger(run / LEDGER, "benchmark") as ledger:
        for i in range(PLAYERS, snapshots + PLAYERS - 1):
            player, steps = f"main-{i % PLAYERS}", 1000 * (i // PLAYERS)
            row = Snapshot(
                snapshot_id=f"{player}@{steps}",
                player=player,
                role=MAIN,
                env_steps=steps,
                updates=steps // 100,
                parent_id=None if steps == 1000 else f"{player}@{steps - 1000}",
                blob_hash=f"{i:064x}",
                bytes=whole.bytes,
                architecture="mlp",
                created_at=1.7e9 + i,
                reason="benchmark",
            )
            ledger.append(competitor_tables(row, row.created_at))
        ledger.compact()
    return whole


class Opened:
    """Counts the files that this process opens, by the folder of the run they lie in."""

    def __init__(self, run: Path) -> None:
        self._folders = {folder: f"{run / folder}/" for folder in (OBJECTS, MANIFESTS, LEDGER)}
        self.counts: Counter[str] = Counter()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path = str(arguments[0])
            self.counts.update(f for f, start in self._folders.items() if path.startswith(start))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--snapshots", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        began = time.perf_counter()
        whole = make_run(run, arguments.snapshots)
        print(f"{arguments.snapshots:,} snapshots recorded in {time.perf_counter() - began:.1f} s")
        opened = Opened(run)

        def timed(name: str, work: Callable[[], Any]) -> Any:
            opened.counts.clear()
            began = time.perf_counter()
            found = work()
            seconds = time.perf_counter() - began
            of_snapshots = opened.counts[MANIFESTS] + opened.counts[OBJECTS]
            print(f"{name:<44}{seconds:>9.3f} s{of_snapshots:>27}{opened.counts[LEDGER]:>15}", flush=True)
            return found

        print(f"{'':<55}files opened: of snapshots, of the ledger")
        reader = timed("run opened, all listed", lambda: open_reader(run))
        assert len(reader.snapshots()) == arguments.snapshots
        rows = timed("filtered in SQL", lambda: storage.query(run, f"SELECT * FROM snapshots WHERE {FILTER}"))
        assert len(rows) == min(1001, max(0, arguments.snapshots // PLAYERS - 999))
        with storage.connect(run) as live:
            timed(
                "filtered in SQL, by a reader that is open",
                lambda: live.sql(f"FROM snapshots WHERE {FILTER}").fetchall(),
            )
        timed("found by its id", lambda: reader.resolve("main-0@1"))
        timed("opened: manifest, weights, hash", lambda: use(reader, whole))
        with timed("opened to go on", lambda: Archive.open(run)) as archive:
            assert len(archive.snapshots()) == arguments.snapshots


def use(reader: Any, snapshot: Snapshot) -> None:
    assert reader.manifest(snapshot.snapshot_id)["blob_hash"] == snapshot.blob_hash
    assert len(map_tensors(reader.blob_path(snapshot), verify=True)["w"]) == 1_250_000


if __name__ == "__main__":
    main()
