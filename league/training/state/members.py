"""Data of a session's players beside their standings: shares and clocks."""

from __future__ import annotations

from dataclasses import dataclass

from storage.records import LivePlayer


@dataclass(slots=True)
class Member:
    """A player in training, with its counters."""

    player: LivePlayer
    share: float  # of all matches asked for, relative to the other players
    initial: str = ""  # its first snapshot
    parent: str | None = None  # the snapshot that its present weights come from
    generation: int = 0  # resets so far: matches begun before one are dropped
    # each counts for more than one while only a part of the share is earned; a newcomer starts with as many,
    # relative to its share, as the others
    matches_asked: float = 0
    matches_evaluated: int = 0  # by runners of evaluation, this session
    env_steps: int = 0
    updates: int = 0
    frozen_at: int = 0  # env_steps
    reset_at: int = 0  # env_steps
    # oldest version of its weights whose experience still counts; raised when its learner dies
    since_version: int = 0
    stopped: str = ""  # why it no longer learns, until it gets other weights


@dataclass(slots=True)
class Totals:
    """Counters of the whole run, resumed parts included, except where noted."""

    env_steps: int = 0  # of the matches that are over
    unfinished_steps: int = 0  # of matches under way that are played in fragments, as they arrive
    matches: int = 0
    dropped_matches: int = 0  # in this session: their player left or was reset, or they were in fragments
    seconds: float = 0.0  # of training, before this session

    @property
    def played_steps(self) -> int:
        """Steps of all matches, unfinished ones included."""
        return self.env_steps + self.unfinished_steps


def player_seed(run_seed: int, index: int) -> int:
    """Return the seed of the first weights of the player with that index in the roster."""
    return run_seed * 1_000_003 + index
