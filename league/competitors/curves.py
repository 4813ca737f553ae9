"""Curves: the snapshots of a player, one after the other, of which something is measured."""

from __future__ import annotations

from storage.errors import Mistake
from storage.reader import ArchiveReader
from storage.records import MAIN, Snapshot
from storage.suggestions import nearest


def curve(reader: ArchiveReader, player: str | None, every: int | None) -> list[Snapshot]:
    """Return every `every`-th snapshot of `player` (`None`: of all mains), counted back from the newest.

    They are in order of freezing, player by player. Raise Mistake if there are none.
    """
    found = [s for s in reader.snapshots() if (s.role == MAIN if player is None else s.player == player)]
    if not found:
        players = sorted({snapshot.player for snapshot in reader.snapshots()})
        near = nearest(player or MAIN, players, n=3, cutoff=0.3) or players[:3]
        problem = "no main has a snapshot" if player is None else f"'{player}' has no snapshots"
        raise Mistake(f"{reader.run}: {problem}; nearest players: {', '.join(near) or 'none'}")
    by_player = [[s for s in found if s.player == name] for name in dict.fromkeys(s.player for s in found)]
    return [snapshot for own in by_player for snapshot in own[::-1][:: every or 1][::-1]]
