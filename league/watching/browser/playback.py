"""Playback: recorded matches of a run, step by step, with everything shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from league.envs import registry
from league.watching.browser.pictures import Frame, frame, style
from league.watching.replay import FIRST, open_recorded, replay
from league.watching.words import how_it_ended, moves, results, title
from storage import open_reader, query
from storage.errors import Mistake
from storage.records import EndReason

WITHOUT_OWN_CODE = ("openspiel", "pgx")  # libraries whose games import no module of anybody's
MOST_STEPS = 600  # of a match that are shown
MOST_CHARACTERS = 8_000_000  # of all pictures
MOST_LISTED = 60

_LISTED = """
WITH newest AS (
    SELECT seq, match_id, purpose, env_steps FROM matches WHERE seq IN (SELECT seq FROM recordings)
    ORDER BY seq DESC LIMIT {most}
)
SELECT newest.match_id, newest.purpose, newest.env_steps,
    string_agg(seats.competitor, ', ' ORDER BY seats.seat) AS competitors,
    string_agg(seats.outcome, ', ' ORDER BY seats.seat) AS outcomes
FROM newest JOIN seats USING (seq)
GROUP BY newest.seq, newest.match_id, newest.purpose, newest.env_steps ORDER BY newest.seq DESC
"""


def recordings(run: Path) -> list[dict[str, Any]]:
    """Return the newest recorded matches: ids (as text, for they may be long), competitors and outcomes."""
    found = query(run, _LISTED.format(most=MOST_LISTED))
    return [
        {
            "id": str(row["match_id"]),
            **{k: row[k] for k in ("purpose", "env_steps", "competitors", "outcomes")},
        }
        for row in found.to_pylist()
    ]


def playback(run: Path, match_id: int) -> dict[str, Any]:
    """Return the frames of a recorded match, and how it ended.

    Raise Mistake if it was not recorded, or if its game cannot be shown.
    """
    if abs(match_id) >= 2**63:
        raise Mistake(f"match {match_id}: expected the id of a recorded match")
    found = open_recorded(run, match_id)
    game, names = found.game, found.names
    titles = [title(seat, name, len(names)) for seat, name in enumerate(names)]
    game.reset(FIRST, np.array([found.seed]))
    scene = game.scene(0)
    frames: list[Frame] = [frame(game, scene, None, None, titles, [], [])]
    score = np.zeros((1, game.num_seats), dtype=np.float64)
    size, ended = 0, ""
    while game.active[0]:
        blocks = game.due()
        actions = found.answer(blocks)
        if actions is None:
            ended = "Nothing more was recorded."
            break
        if len(frames) > MOST_STEPS or size > MOST_CHARACTERS:
            ended = f"The first {len(frames) - 1} steps are shown."
            break
        said = list(moves(game, titles, blocks, actions).values())
        done = game.step(actions)
        score += done.rewards
        if not game.active[0]:
            _, lines = results(titles, score, done.forfeited, found.team_of_seat, game.draw_margin)
            ended = (
                f"Over {how_it_ended(game, int(done.reason[0]))}. {' '.join(f'{line}.' for line in lines)}"
            )
            if done.reason[0] == EndReason.CRASH:  # it cannot be shown any more
                break
        before, scene = scene, game.scene(0)
        frames.append(frame(game, scene, before, None, titles, said, []))
        size += len(frames[-1]["picture"] or frames[-1]["text"])
    return {"game": found.env_id, "match": str(match_id), "seats": names, "frames": frames, "ended": ended}


def for_report(run: Path, match_id: int) -> dict[str, Any] | None:
    """Return a recorded match as `playback` does, with the `style` of its pictures.

    Return `None` where it cannot be shown, or comes out otherwise, and for a game that would import code of a
    user's own: a report may be of a stranger's run.
    """
    env_id = open_reader(run).env()["id"]
    if env_id not in registry.ids() and env_id.partition(":")[0] not in WITHOUT_OWN_CODE:
        return None
    try:
        if replay(run, f"match_id = {match_id}", 1).differing:
            return None
        return playback(run, match_id) | {"style": style()}
    except Mistake:  # its library is not installed, or its game has neither picture nor text
        return None
