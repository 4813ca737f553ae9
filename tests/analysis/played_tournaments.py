"""Tournaments with known strengths, in run folders as a real one leaves them."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np

from storage.archive import Archive
from storage.records import MAIN, Entrant, Outcome, Purpose, RatingChange, ResultBatch
from tests import made_up

CONFIG = """
name: small
seed: 3
env: {id: connect_four, options: {}}
rules: {forfeit: loss, step_limit: as_scored, crash: left_out}
anchor: null
"""


def snapshot(
    competitor: str, created_at: float = 0.0, temperature: float = 1.0, run: str = "runs/connect_four"
) -> Entrant:
    """As `gather` makes them, of a name such as main-0@12:greedy, behind a run and / where two share ids."""
    snapshot_id = competitor.rpartition("/")[2].partition(":")[0]
    player, _, env_steps = snapshot_id.partition("@")
    return Entrant(
        competitor=competitor,
        kind="snapshot",
        role=MAIN,
        player=player,
        run=run,
        snapshot_id=snapshot_id,
        blob_hash="0" * 64,
        env_steps=int(env_steps),
        created_at=created_at or float(env_steps),
        architecture="mlp",
        temperature=temperature,
    )


def bot(name: str) -> Entrant:
    return Entrant(name, "bot", None, None, None, None, None, None, None, None)


def snapshots(count: int) -> list[Entrant]:
    return [snapshot(f"main-0@{i}") for i in range(count)]


def place(
    points: Sequence[Sequence[float]], names: Sequence[Sequence[str]], *, first: int = 0, seed: int = 0
) -> ResultBatch:
    """Matches with `points` [M, T] for `names` [M, T], each team one seat; T! matches in a row are a pair."""
    given = np.array(points, dtype=np.float64)
    games = int(np.prod(np.arange(1, given.shape[1] + 1)))
    competitors = tuple(dict.fromkeys(name for row in names for name in row))
    ids = np.arange(first, first + len(given))
    rank = (given[:, None, :] > given[:, :, None]).sum(axis=2)
    best, worst = given == given.max(axis=1, keepdims=True), given == given.min(axis=1, keepdims=True)
    outcome = np.where(best & worst, Outcome.DRAW, np.where(best, Outcome.WIN, Outcome.LOSS))
    matches = made_up.matches(
        competitors,
        [[competitors.index(name) for name in row] for row in names],
        env="connect_four",
        purpose=Purpose.TOURNAMENT,
        match_types=("round_robin",),
        match_id=ids,
        seed=ids // games + seed,
    )
    return made_up.results(
        matches,
        outcome,
        score=given,
        rank=rank,
        env_steps=20,
        started_at=1.7e9 + ids * 0.25,
        seconds=0.5,
    )


def duel(a: str, b: str, points: Sequence[tuple[float, float]], *, first: int = 0) -> ResultBatch:
    """Pairs of a and b: `points` of a when it moves first, and when it moves second."""
    rows = [(p, 1.0 - p) if game == 0 else (1.0 - p, p) for pair in points for game, p in enumerate(pair)]
    return place(rows, [(a, b), (b, a)] * len(points), first=first)


def round_robin(
    elo: Mapping[str, float],
    pairs: int,
    rng: np.random.Generator,
    *,
    draws: float = 0.0,
    first_mover: float = 0.0,
    num_teams: int = 2,
) -> ResultBatch:
    """`pairs` pairs of every pairing, their games independent. `draws`: share of games that are drawn at
    random; `first_mover`: Elo of an earlier place over the next. Places come from exponential races: of two,
    who wins follows the logistic model exactly."""
    names: list[tuple[str, ...]] = []
    for pairing in permutations(elo, num_teams):
        if list(pairing) == sorted(pairing, key=list(elo).index):
            names += list(permutations(pairing)) * pairs
    strength = np.array([[elo[name] for name in row] for row in names])
    strength = strength - first_mover * np.arange(num_teams)
    finished = rng.exponential(10.0 ** (-strength / 400.0))
    points = -np.argsort(np.argsort(finished, axis=1), axis=1).astype(np.float64)
    points[rng.random(len(points)) < draws] = 0.0
    return place(points, names)


def store(
    folder: Path,
    entrants: Sequence[Entrant],
    results: Sequence[ResultBatch] = (),
    config: str = CONFIG,
) -> Path:
    """A tournament's run folder, with these `results` so far; TrueSkill in it is made up."""
    row = {"name": "small", "env": "connect_four", "seed": 3}
    with Archive.create(folder, config, row, entrants=entrants) as archive:
        for number, batch in enumerate(results):
            changes = [RatingChange(e.competitor, 25.0 + number, 2.0, 10) for e in entrants]
            archive.append_results(batch, changes)
    return folder
