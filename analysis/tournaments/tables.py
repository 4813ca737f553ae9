"""The tables of a tournament's verdict; `Verdict` documents their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.statistics.elo import elo_from_counts
from analysis.statistics.games import Games
from analysis.statistics.hierarchy.posterior import Posterior
from analysis.statistics.meetings import Meetings
from storage.layout import LEDGER
from storage.ledger.ledger import read_tables

COUNTS = ("games", "pairs", "wins", "draws", "losses", "worst_games")


def standings_table(games: Games, met: Meetings, ratings: Posterior, field: Sequence[str]) -> pd.DataFrame:
    """Return `Verdict.table` without TrueSkill: competitors with games first, then the others of `field`."""
    n = len(games.competitors)
    who = np.concatenate([games.home, games.away])
    place = np.concatenate([games.home_place, games.away_place])
    points = np.concatenate([games.points, 1.0 - games.points])
    compared = np.bincount(who, minlength=n)
    num_places = int(place.max(initial=1)) + 1
    seated = np.bincount(who * num_places + place, minlength=n * num_places).reshape(n, -1)
    won = np.bincount(who * num_places + place, points, n * num_places).reshape(n, -1)
    with np.errstate(invalid="ignore"):  # no games in a place: no score there
        by_place = won / seated
        score = won.sum(axis=1) / compared
    worst = met.worst()
    low, high = ratings.interval()
    _, rank_low, rank_high = ratings.ranks()
    columns: dict[str, object] = {
        "rank_low": rank_low,
        "rank_high": rank_high,
        "part": ratings.part,
        "competitor": games.competitors,
        "elo": ratings.elo,
        "elo_low": low,
        "elo_high": high,
        "p_best": ratings.p_best,
        "games": _distinct(who, np.tile(games.match, 2), n),
        "pairs": _distinct(who, np.tile(games.pair, 2), n),
        "wins": np.bincount(who[points == 1.0], minlength=n),
        "draws": np.bincount(who[points == 0.5], minlength=n),
        "losses": np.bincount(who[points == 0.0], minlength=n),
        "score": score,
        **{f"score_place_{i}": by_place[:, i] for i in range(num_places)},
        "worst_opponent": [games.competitors[i] for i in worst.opponent],
        "worst_score": worst.score,
        "worst_games": worst.games,
    }
    played = pd.DataFrame(columns)[compared > 0]
    played = played.sort_values(["part", "elo"], ascending=[True, False], kind="stable")
    ranks = range(1, len(played) + 1) if ratings.num_parts == 1 else [pd.NA] * len(played)
    played.insert(0, "rank", pd.Series(ranks, played.index, dtype="Int64"))
    others = [name for name in field if name not in set(played["competitor"])]
    table = played.set_index("competitor").reindex([*played["competitor"], *others])
    table[list(COUNTS)] = table[list(COUNTS)].fillna(0).astype(np.int64)
    table["part"] = table["part"].fillna(-1).astype(np.int64)
    table[["rank_low", "rank_high"]] = table[["rank_low", "rank_high"]].round().astype("Int64")
    table["worst_opponent"] = table["worst_opponent"].astype(object).where(table["games"] > 0, None)
    table = table.reset_index(names="competitor")
    return table[["rank", *table.columns.drop("rank")]]


def _distinct(who: npt.NDArray, number: npt.NDArray, n: int) -> npt.NDArray[np.int64]:
    """Count the different numbers of each of n competitors, in (who, number) [c]."""
    last = number.max(initial=0) + 1
    both = np.sort(who * last + number)  # np.unique hashes them, ten times as long for 20 million
    return np.bincount(both[np.diff(both, prepend=-1) > 0] // last, minlength=n)


def pairings_table(
    games: Games, met: Meetings, ratings: Posterior, repeated: Sequence[tuple[tuple[str, ...], int]]
) -> pd.DataFrame:
    """Return `Verdict.pairings`.

    `repeated` counts the pairs of each pairing that are not among the games.
    """
    names = games.competitors
    rank = np.argsort(np.lexsort((-ratings.elo, ratings.part)))
    turned = rank[met.first] > rank[met.second]
    home, away = np.where(turned, [met.second, met.first], [met.first, met.second])
    repeats: Counter[frozenset[str]] = Counter()
    for pairing, count in repeated:
        for couple in combinations(pairing, 2):
            repeats[frozenset(couple)] += count
    estimates = elo_from_counts(np.where(turned[:, None], met.counts[:, ::-1], met.counts))
    frame = pd.DataFrame(
        {
            "home": [names[i] for i in home],
            "away": [names[i] for i in away],
            "pairs": met.pairs,
            "games": met.games,
            "wins": np.where(turned, met.losses, met.wins),
            "draws": met.draws,
            "losses": np.where(turned, met.wins, met.losses),
            "score": np.where(turned, 1.0 - met.score, met.score),
            "elo": estimates.elo,
            "elo_low": estimates.low,
            "elo_high": estimates.high,
            "los": estimates.los,
            "repeats": [repeats[frozenset((names[i], names[j]))] for i, j in zip(home, away, strict=True)],
        }
    )
    return frame.iloc[np.lexsort((rank[away], rank[home]))].reset_index(drop=True)


def places_table(ratings: Posterior) -> pd.DataFrame:
    """Return `Verdict.place_advantage`."""
    low, high = ratings.place_interval()
    columns = {"elo": ratings.place_advantage, "elo_low": low, "elo_high": high}
    return pd.DataFrame({"place": np.arange(len(low)), **columns})


def trueskill_table(folder: Path) -> pd.DataFrame:
    """Return competitor, mu, sigma: the latest of each."""
    found = read_tables(folder / LEDGER, ("ratings",))
    if not found:
        return pd.DataFrame({"competitor": pd.Series(dtype=object), "mu": np.zeros(0), "sigma": np.zeros(0)})
    ratings = found["ratings"].select(["competitor", "mu", "sigma"]).to_pandas()
    return ratings.drop_duplicates("competitor", keep="last")
