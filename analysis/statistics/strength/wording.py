"""What an order says, in words."""

from __future__ import annotations

import math

from analysis.statistics.strength.order import Order, RankedCompetitor

_LEAST, _MOST = 0.01, 0.99  # nothing nearer to 0 or 1 is stated


def of_best(order: Order) -> str:
    """Return the best snapshot, how likely it is the best, and how many others may be, in one line."""
    best = order.best
    if best is None:
        return "no snapshot has been trained yet"
    if math.isnan(best.chance):
        return f"{best.competitor}, the newest: no game shows which snapshot is stronger"
    level = len(order.level())
    rest = "" if not level else f"; {level} more may be as strong (95 %)"
    return f"{best.competitor}, the best with probability {probability(best.chance)}{rest}"


def above(order: Order, place: RankedCompetitor) -> str:
    """Return the strength of a place with its interval, such as +408 [+370, +448]."""
    if math.isnan(place.elo):
        return ""
    if order.unit != "Elo":
        return f"{place.elo:.3f} [{place.low:.3f}, {place.high:.3f}]"
    return interval_of(place.elo, place.low, place.high)


def interval_of(elo: float, low: float, high: float) -> str:
    """Return Elo with its interval, such as +408 [+370, +448]; of the yardstick itself, which has none, 0."""
    if math.isnan(low) or low == elo == high:
        return signed(elo)
    return f"{signed(elo)} [{signed(low)}, {signed(high)}]"


def signed(value: float) -> str:
    """Return a number without decimals and with its sign; nothing is "-0"."""
    return f"{round(value):+d}" if round(value) else "0"


def probability(value: float) -> str:
    """Return a probability with two digits, none nearer to 0 or 1 than one percent."""
    return f"under {_LEAST}" if value < _LEAST else f"over {_MOST}" if value > _MOST else f"{value:.2f}"
