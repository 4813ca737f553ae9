"""Leaderboards in the order of strength (`analysis.statistics.strength`)."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis.statistics.strength.order import Order
from storage.records import MAIN

COLUMNS = ("elo", "elo_low", "elo_high", "p_best")


def over_steps(run: str, order: Order, snapshots: pd.DataFrame, everyone: bool) -> pd.DataFrame:
    """Return the rows of `History.strengths` for one run; `snapshots` are those of the run.

    Snapshots that are not estimated, since they have not played, are left out.
    """
    by_name = {place.competitor: place for place in order.places if math.isfinite(place.low)}
    mains = snapshots["role"] == MAIN
    rows = snapshots[snapshots["snapshot_id"].isin(list(by_name))].assign(main=mains if mains.any() else True)
    rows = rows if everyone else rows[rows["main"]]
    bots = [name for name, place in by_name.items() if everyone and place.kind == "bot"]
    fixed = pd.DataFrame({"snapshot_id": bots, "league_env_steps": 0, "minutes": 0.0, "main": False})
    rows = pd.concat([rows, fixed], ignore_index=True)
    places = [by_name[str(name)] for name in rows["snapshot_id"]]
    return pd.DataFrame(
        {
            "run": pd.Series([run] * len(rows), dtype=str),
            "player": pd.Series(rows["player"].to_numpy(), dtype=str),
            "snapshot_id": pd.Series(rows["snapshot_id"].to_numpy(), dtype=str),
            "league_env_steps": rows["league_env_steps"].to_numpy(dtype=np.int64),
            "minutes": rows["minutes"].to_numpy(dtype=np.float64),
            "strength": np.array([place.elo for place in places], dtype=np.float64),
            "low": np.array([place.low for place in places], dtype=np.float64),
            "high": np.array([place.high for place in places], dtype=np.float64),
            "games": np.array([place.games for place in places], dtype=np.int64),
            "unit": pd.Series([order.unit] * len(rows), dtype=str),
            "yardstick": pd.Series([order.yardstick] * len(rows), dtype=str),
            "role": pd.Series(rows["role"].to_numpy(), dtype=str),
            "main": rows["main"].to_numpy(dtype=np.bool_),
        }
    )


def ordered(
    board: pd.DataFrame, order: Order, ends: dict[str, tuple[str, str]], last: dict[str, str]
) -> pd.DataFrame:
    """Return the leaderboard `board` of one run, best first, with what `order` has of each.

    Columns are added: `elo`, `elo_low`, `elo_high` and `p_best` float64, `apart` bool. In a game with one
    seat, where no one meets another, `games` are those that the score is the mean of. Stages of players that
    learn are found by their names: `ends` has (player, snapshot) of those that ended, `last` the player of
    those that go on. All stages are apart, as players are.
    """
    by_name = {place.competitor: place for place in order.places}
    found = board.copy()
    names = [str(name) for name in board["competitor"]]
    places = [by_name.get(last.get(name, name)) for name in names]
    nothing = float("nan")
    for column, attribute in zip(COLUMNS, ("elo", "low", "high", "chance"), strict=True):
        values = [nothing if place is None else float(getattr(place, attribute)) for place in places]
        found[column] = np.array(values, dtype=np.float64)
    for row, name in enumerate(names):
        if name in ends and ends[name] in order.stages:
            found.loc[found.index[row], "elo"] = order.stages[ends[name]]
    found["apart"] = (found["kind"] == "player").to_numpy() | np.array(
        [place is not None and place.apart for place in places], dtype=np.bool_
    )
    if order.unit != "Elo":
        found["games"] = np.array([0 if place is None else place.games for place in places], dtype=np.int64)
    rank = {name: number for number, name in enumerate(order.names)}
    at = np.array([rank.get(name, len(rank)) for name in names])
    elo = found["elo"].to_numpy()
    best_first = np.lexsort((at, -np.nan_to_num(elo), np.isnan(elo), found["apart"].to_numpy()))
    return found.iloc[best_first].reset_index(drop=True)
