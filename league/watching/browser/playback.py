"""Playback: recorded matches of a run, step by step, with everything shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from league.envs.base import BatchedGame, Decisions, is_legal
from league.envs.scene import Scene
from league.rollout.traces.results import placed
from league.rollout.traces.transcript import Prompter
from league.watching.browser.sitting import Frame, frame
from league.watching.play import find_recorded
from league.watching.seating import require_text
from storage import query
from storage.errors import Mistake
from storage.records import EndReason, Outcome

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
_FIRST = np.zeros(1, dtype=np.int64)


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
    found = find_recorded(run, match_id)
    game = found.make_game(1)
    matches, row = found.results.matches, int(found.recordings.row[0])
    require_text(game, matches.env)
    prompter = Prompter(game, found.recordings)
    prompter.begin(_FIRST, _FIRST)
    names = [seat.competitor for seat in matches[row].seats]
    titles = [f"seat {seat} {name}" for seat, name in enumerate(names)]
    game.reset(_FIRST, matches.seed[[row]])
    scene = game.scene(0)
    frames: list[Frame] = [frame(game, scene, None, None, titles, [], [])]
    score = np.zeros((1, game.num_seats), dtype=np.float32)
    size, ended = 0, ""
    while game.active[0]:
        blocks = game.due()
        actions = prompter.answer(blocks)
        if prompter.ran_out(_FIRST)[0]:
            ended = "Nothing more was recorded."
            break
        if len(frames) > MOST_STEPS or size > MOST_CHARACTERS:
            ended = f"The first {len(frames) - 1} steps are shown."
            break
        said = _named(game, titles, blocks, actions)
        done = game.step(actions)
        score += done.rewards
        if not game.active[0]:
            outcome, _ = placed(score, done.forfeited, found.team_of_seat())
            results = (
                f"{title}: {Outcome(int(kind)).name.lower()}, score {points:g}."
                for title, kind, points in zip(titles, outcome[0], score[0], strict=True)
            )
            ended = f"Over after {game.env_steps[0]} decisions. {' '.join(results)}"
            if done.reason[0] == EndReason.CRASH:  # it cannot be shown any more
                break
        before, scene = scene, game.scene(0)
        frames.append(_frame_of(game, scene, before, titles, said))
        size += len(frames[-1]["picture"] or frames[-1]["text"])
    return {"game": matches.env, "match": str(match_id), "seats": names, "frames": frames, "ended": ended}


def _frame_of(
    game: BatchedGame, scene: Scene | None, before: Scene | None, titles: list[str], said: list[str]
) -> Frame:
    return frame(game, scene, before, None, titles, said, [])


def _named(game: BatchedGame, titles: list[str], blocks: list[Decisions], actions: list[Any]) -> list[str]:
    """Return a line for each action, in order of seats; call it before the game makes its step."""
    lines = {}
    for block, taken in zip(blocks, actions, strict=True):
        legal = is_legal(game.action_specs[int(block.seat[0])], block.mask, taken)
        for seat, action, allowed in zip(block.seat.tolist(), taken, legal, strict=True):
            name = game.action_name(0, seat, action) if allowed else "an illegal action"
            lines[seat] = f"{titles[seat]}: {name}"
    return [lines[seat] for seat in sorted(lines)]
