"""A verdict in words for people, and as JSON for programs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd

from analysis.gates.names import SHOWN
from analysis.statistics.cyclic import Cycle, CyclicShare, circle_of
from analysis.statistics.hierarchy.anchors import Agreement
from analysis.statistics.hierarchy.design import Width
from analysis.statistics.hierarchy.parts import places_told_apart
from analysis.statistics.strength.wording import probability
from analysis.tournaments.tournament import Verdict
from storage.records import EndReason

MISLEADING_SHARE = 0.1  # cyclic share from which on there is a warning
CHANCE = 0.01  # highest probability of luck alone for a warning of cycles
SURE = 2.0  # standard deviations by which each of a cycle must beat the next to be named
MANY_REPEATS = 0.2  # of all pairs
MANY_ODD = 0.05  # of all games
HOPELESS = 100  # times as many pairs: too many to play
ALIKE = 0.03  # of the width of intervals: a design that differs by less is like a round robin

WIDTHS = ("all", "neighbours", "first")

HEADER = ("rank", "competitor", "Elo", "games", "score", "by place", "worst opponent", "TrueSkill", "best")


def headline(verdict: Verdict) -> str:
    """Return one sentence: which competitor is best, and how sure that is."""
    played = verdict.played
    if len(played) < 2:
        return "no pair has been finished yet"
    if verdict.ratings.num_parts > 1:
        return f"nothing is best: the field falls into {verdict.ratings.num_parts} parts that never met"
    first, second = played["competitor"].iloc[:2]
    gap = verdict.difference(first, second)
    sentence = (
        f"{first} is best with probability {probability(played['p_best'].iloc[0])}; second {second}, "
        f"{gap.elo:.0f} Elo behind {_interval(gap.low, gap.high)}"
    )
    level = sum(verdict.difference(first, other).low <= 0.0 for other in played["competitor"].iloc[1:])
    if level > 1:
        sentence += f"; {level} cannot be separated from the first"
    return sentence


def summary(verdict: Verdict) -> str:
    """Return one line: number of games, worth of the places, cyclic share."""
    games, pairs = sum(verdict.ends), verdict.games.num_pairs
    alone = 0 < games == pairs
    parts = [f"{games:,} games, each by itself" if alone else f"{games:,} games, {pairs:,} pairs count"]
    if pairs:
        parts[0] += f", {(verdict.games.points == 0.5).mean():.0%} drawn"
        places = verdict.place_advantage.to_dict("records")
        worth = [f"{row['elo']:+.0f} {_interval(row['elo_low'], row['elo_high'])}" for row in places]
        parts.append(f"places are worth {', '.join(worth)} Elo")
    if verdict.cyclic is not None:
        cyclic = verdict.cyclic
        parts.append(f"cyclic share {cyclic.share:.2f} [{cyclic.low:.2f}, {cyclic.high:.2f}]")
    if verdict.agreement is not None:
        found = verdict.agreement
        parts.append(
            f"{len(found.competitors)} anchors differ as luck would with probability "
            f"{probability(found.p_value)} (farthest: games and the others rate {_farthest(found)})"
        )
    if verdict.ratings.drift is not None:
        upwards = verdict.ratings.drift * np.sign(verdict.ratings.drift.mean())
        low, high = np.quantile(upwards, [0.025, 0.975])
        parts.append(
            "only neighbours of a chain met, so each is taken to be near the next, "
            f"{upwards.mean():+.0f} {_interval(low, high)} Elo a step upwards"
        )
    width = verdict.width
    if width is not None and max(abs(getattr(width, name) - 1.0) for name in WIDTHS) > ALIKE:
        parts.append(
            f"intervals are {width.all:.2f} times as wide as a round robin of as many games would give "
            f"({width.neighbours:.2f} between neighbours, {width.first:.2f} to the first)"
        )
    return "; ".join(parts)


def warnings(verdict: Verdict) -> list[str]:
    """Return a sentence for each reason to doubt the ranking."""
    doubts = (
        _unplayed,
        _apart,
        _disagreeing,
        _one_sided,
        _cyclic,
        _circle,
        _close,
        _repeated,
        _ends,
        _withdrawn,
    )
    return [sentence for doubt in doubts if (sentence := doubt(verdict))]


def rows(verdict: Verdict) -> list[tuple[Any, ...]]:
    """Return the table for people, under HEADER.

    Elo comes with its 95 % interval, then points per game, points in each place, the score against the worst
    opponent (games), and the probability of being best.
    """
    places = [name for name in verdict.table.columns if name.startswith("score_place_")]
    return [
        (
            None if pd.isna(row["rank"]) else int(row["rank"]),
            row["competitor"],
            f"{row['elo']:+.0f} {_interval(row['elo_low'], row['elo_high'])}" if row["games"] else None,
            int(row["games"]),
            _plain(row["score"]),
            " ".join("-" if pd.isna(row[name]) else f"{row[name]:.2f}" for name in places)
            if row["games"]
            else None,
            f"{row['worst_opponent']} {row['worst_score']:.2f} ({row['worst_games']})"
            if row["games"]
            else None,
            None if pd.isna(row["mu"]) else f"{row['mu']:.1f} ± {row['sigma']:.1f}",
            None if pd.isna(row["p_best"]) else probability(row["p_best"]),
        )
        for row in verdict.table.to_dict("records")
    ]


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Return all of the verdict as JSON values; infinite or unknown numbers are null."""
    cyclic = verdict.cyclic
    return {
        "headline": headline(verdict),
        "warnings": warnings(verdict),
        "anchor": verdict.anchor,
        "anchors": {name: dataclasses.asdict(given) for name, given in verdict.anchors.items()},
        "agreement": _agreement_fields(verdict.agreement),
        "games": int(sum(verdict.ends)),
        "pairs": verdict.games.num_pairs,
        "unfinished_pairs": verdict.unfinished_pairs,
        "ruled_out_pairs": verdict.ruled_out_pairs,
        "repeated_pairs": verdict.repeated_pairs,
        "withdrawn": verdict.withdrawn,
        "ends": {reason.name.lower(): n for reason, n in zip(EndReason, verdict.ends, strict=True)},
        "drawn": _plain((verdict.games.points == 0.5).mean()) if len(verdict.games) else None,
        "cyclic": None if cyclic is None else _fields(cyclic),
        "width": None if verdict.width is None else _fields(verdict.width),
        "place_advantage": _objects(verdict.place_advantage),
        "table": _objects(verdict.table),
        "pairings": _objects(verdict.pairings),
    }


def _farthest(found: Agreement) -> str:
    name, off, low, high = found.farthest
    return f"{name} {off:+.0f} {_interval(low, high)} Elo from what is given"


def _one_sided(verdict: Verdict) -> str | None:
    """Return the warning for games in which strengths and places cannot be separated."""
    if places_told_apart(verdict.games, verdict.anchors):
        return None
    return (
        "strengths and the worth of the places cannot be separated, as no two sides were swapped (such as "
        "one that always begins): both rest on what is likely beforehand; play games with places swapped"
    )


def _disagreeing(verdict: Verdict) -> str | None:
    """Return the warning for anchors whose given ratings the games contradict."""
    found = verdict.agreement
    if found is None or found.p_value > CHANCE:
        return None
    return (
        f"the anchors do not agree with one another (p {probability(found.p_value)}): games and the others "
        f"rate {_farthest(found)}; give it an error, or leave it out"
    )


def _agreement_fields(found: Agreement | None) -> dict[str, Any] | None:
    if found is None:
        return None
    rows = zip(found.competitors, found.off.tolist(), found.error.tolist(), strict=True)
    anchors = [{"competitor": name, "off": off, "error": error} for name, off, error in rows]
    return {"p_value": found.p_value, "anchors": anchors}


def _unplayed(verdict: Verdict) -> str | None:
    waiting = verdict.table[verdict.table["games"] == 0]["competitor"].tolist()
    if not waiting:
        return None
    return f"{len(waiting)} of {len(verdict.table)} competitors have finished no pair: {_some(waiting)}"


def _withdrawn(verdict: Verdict) -> str | None:
    """Return the warning that some competitors did not play all of their games."""
    if not verdict.withdrawn:
        return None
    each = ", ".join(f"{name} after {failures:,} forfeits" for name, failures in verdict.withdrawn.items())
    return f"withdrawn, with their remaining games not played: {each}"


def _apart(verdict: Verdict) -> str | None:
    """Return the warning for a field whose parts never met."""
    parts = [part["competitor"].tolist() for _, part in verdict.played.groupby("part")]
    if len(parts) < 2:
        return None
    shown = "; ".join(_some(part, 3) for part in parts[:3]) + ("; ..." if len(parts) > 3 else "")
    return (
        f"the field falls into {len(parts)} parts that never met ({shown}): how the parts compare "
        "is not known; compare within a part"
    )


def _close(verdict: Verdict) -> str | None:
    played = verdict.played["competitor"]
    if len(played) < 2 or verdict.ratings.num_parts > 1 or _circle(verdict):
        return None
    gap = verdict.difference(*played.iloc[:2])
    if gap.low > 0.0:
        return None
    times, advice = ((gap.high - gap.low) / 2.0 / max(gap.elo, 1e-9)) ** 2, "they may well be equal"
    if times < HOPELESS:
        advice = f"about {math.ceil(times)} times as many pairs would decide, if they are that far apart"
    return f"the best two cannot be separated ({gap.elo:+.0f} Elo {_interval(gap.low, gap.high)}): {advice}"


def _cyclic(verdict: Verdict) -> str | None:
    """Return the warning for a field in which no ranking predicts the pairings."""
    found = verdict.cyclic
    if found is None or found.share < MISLEADING_SHARE or found.p_value > CHANCE:
        return None
    shown = f"{found.share:.0%} (95 %: {found.low:.0%} to {found.high:.0%})"
    beaten = ""
    if found.cycle is not None and found.cycle.deviations > SURE:
        one, other, third = found.cycle.competitors
        scores = [f"{score:.2f}" for score in found.cycle.scores]
        beaten = f" ({one} beats {other}, {other} beats {third}, {third} beats {one}: {', '.join(scores)})"
    return f"{shown} of what decides these games is cyclic{beaten}: {_first_place(verdict)}"


def _first_place(verdict: Verdict) -> str:
    """Return whether the first place holds in a field with cycles, and who beats it."""
    if verdict.ratings.num_parts > 1:
        return "read the pairings, not the ranking"
    first = verdict.played["competitor"].iloc[0]
    met = verdict.pairings[verdict.pairings["home"] == first]  # the better one is home
    ahead = met[met["score"] < 0.5].sort_values("score", kind="stable")
    surely = ahead[ahead["los"] < 0.025]
    beaten = [f"{row['away']} beats it with {1.0 - row['score']:.2f}" for row in surely.to_dict("records")]
    if beaten:
        rest = f"does not hold ({_some(beaten)}): read the pairings, not the ranking"
        return f"the first place of {first} {rest}"
    rest = "no other beats it beyond luck" if len(ahead) else "it loses to no other"
    return f"the first place of {first} holds all the same, as {rest}; below it read the pairings"


def _circle(verdict: Verdict) -> str | None:
    """Return the warning for competitors that repeat their games, and beat one another in a circle.

    Repeats count once for precision, but that each comes out the same is beyond doubt.
    """
    fixed = verdict.pairings[(verdict.pairings["repeats"] > 0) & (verdict.pairings["score"] != 0.5)]
    turned = fixed["score"] < 0.5
    winner, loser = fixed["home"].where(~turned, fixed["away"]), fixed["away"].where(~turned, fixed["home"])
    found = circle_of(list(zip(winner, loser, strict=True)))
    if found is None:
        return None
    steps = zip(found, (*found[1:], found[0]), strict=True)
    shown = ", ".join(f"{one} beats {other}" for one, other in steps)
    return (
        f"these repeat their games, and beat one another in a circle ({shown}): no ranking holds, however "
        "many pairs are played; read the pairings"
    )


def _repeated(verdict: Verdict) -> str | None:
    all_pairs = verdict.games.num_pairs + verdict.repeated_pairs
    if verdict.repeated_pairs <= MANY_REPEATS * all_pairs:
        return None
    worst = verdict.pairings.sort_values("repeats", ascending=False, kind="stable").iloc[0]
    return (
        f"{verdict.repeated_pairs:,} of {all_pairs:,} pairs were the same games as one before, move by move "
        f"(most: {worst['home']} and {worst['away']}, {worst['repeats']:,}) and are counted once: nothing in "
        "them was drawn at random; give the games openings (opening.plies), or play in the mode sample"
    )


def _ends(verdict: Verdict) -> str | None:
    """Return the warning for games that did not come to an ordinary end."""
    total = sum(verdict.ends)
    odd = [(n, reason) for reason, n in zip(EndReason, verdict.ends, strict=True) if n and reason]
    if not verdict.ruled_out_pairs and sum(n for n, _ in odd) <= MANY_ODD * total:
        return None
    counts = ", ".join(f"{n:,} by {reason.name.lower()}" for n, reason in odd)
    return (
        f"{sum(n for n, _ in odd):,} of {total:,} games did not come to an ordinary end ({counts}); as the "
        f"tournament's rules have it, {verdict.ruled_out_pairs:,} pairs are left out for that"
    )


def _interval(low: float, high: float) -> str:
    return f"[{low:+.0f}, {high:+.0f}]"


def _some(names: list[str], most: int = SHOWN) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _objects(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def _fields(record: CyclicShare | Cycle | Width) -> dict[str, Any]:
    return {field.name: _plain(getattr(record, field.name)) for field in dataclasses.fields(record)}


def _plain(value: Any) -> Any:
    """Return `value` as JSON has it."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, Cycle):
        return _fields(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
