"""Promotion gates: one line that a tournament passes or fails, for a user's CI.

    [SUBJECT] MEASURE > NUMBER [against NAME]

    elo > 20 against main-0@120000       direct games of the two, by pairs
    main-0 score >= 55% against one_ply
    los > 0.95 against main-0@120000     likelihood of superiority in those games
    rating > 100                         of the posterior, over the anchor; `against NAME`: over NAME
    main-0@12 rank <= 3                  1 is best; p_best > 0.5; games >= 500

SUBJECT is a competitor, snapshot or player (its newest snapshot); without one it is the newest snapshot of
the field. A measure with an interval (elo, score, rating, rank) passes only if all of its 95 % interval does:
a gate that is not sure yet is not passed. On rating, rank and p_best a gate passes only if it also does
without a prior, by games alone: the prior draws one that played little to the field, and who is to be beaten
is often its best. None passes before its competitors have played FEWEST_PAIRS pairs: fewer do not show the
luck that games of a pair share. Where the field falls into parts that never met, no gate passes on rank,
p_best, or a rating across the parts.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from analysis.gates.names import as_it_samples, find, newest
from analysis.statistics.elo import score_of_elo
from analysis.statistics.meetings import Direct
from storage.errors import Mistake
from storage.records import Entrant

if TYPE_CHECKING:  # settings of tournaments name gates, and are read without scipy
    from analysis.statistics.hierarchy.posterior import Posterior

DIRECT = ("elo", "score", "los")  # of two competitors' games against each other
ALONE = ("rank", "p_best")  # of one competitor in the field
OF_THE_FIELD = ("rating", *ALONE)
MEASURES = (*DIRECT, *OF_THE_FIELD, "games")
SHARES = ("score", "los", "p_best")  # between 0 and 1
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
FEWEST_PAIRS = 6
"""The fewest pairs that by themselves show a score over 1/2, at 95 %, if all are won
(0.025 ** (1 / 6) > 1/2)."""
EXAMPLE = "elo > 20 against main-0@120000"
_TOKEN = re.compile(r'"[^"]+"|[<>=!]+|%|[^\s<>%]+')  # a name with blanks is in double quotes


class GateEvidence(Protocol):
    """What gates read of a tournament, such as `analysis.tournaments.tournament.Verdict`."""

    @property
    def entrants(self) -> tuple[Entrant, ...]:
        """The field."""

    @property
    def anchor(self) -> str | None:
        """The only anchor, if its Elo is 0; `None`: see `scale`."""

    @property
    def scale(self) -> str:
        """What ratings are relative to, in words."""

    @property
    def ratings(self) -> Posterior:
        """The ratings of those who have played."""

    @property
    def unshrunk(self) -> Posterior:
        """What games alone say of them, without a prior."""

    def value(self, competitor: str, column: str) -> float:
        """Return the competitor's games, pairs, rank, its interval's ends or p_best; nan if it has none."""

    def direct(self, a: str, b: str) -> Direct | None:
        """Return the games of `a` against `b` alone; `None` where they have not met."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of a gate, and a sentence with the reason."""

    gate: str  # as it was written
    passed: bool
    unsure: bool  # the interval holds the bound: more games would decide
    sentence: str


@dataclass(frozen=True, slots=True)
class _Measured:
    """A measure and its interval; one point where it is exact."""

    value: float
    low: float
    high: float
    words: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on a tournament. Names are as they were written until `resolve`."""

    text: str
    subject: str | None  # None: the newest snapshot of the field
    measure: str  # of MEASURES
    operator: str  # of OPERATORS
    bound: float
    against: str | None

    def resolve(self, field: Sequence[Entrant]) -> Gate:
        """Return the same gate with the ids of the competitors that its names mean.

        Raise Mistake for a name that fits none or several of `field`, and for one competitor against itself.
        """
        try:
            against = None if self.against is None else find(self.against, field).competitor
            subject = _newest_but(against, field) if self.subject is None else find(self.subject, field)
        except Mistake as error:
            raise Mistake(f"gate '{self.text}': {error}") from None
        if subject.competitor == against:
            raise Mistake(f"gate '{self.text}': '{against}' against itself, expected two competitors")
        return replace(self, subject=subject.competitor, against=against)

    def check(self, evidence: GateEvidence) -> GateResult:
        """Return the result of the gate on `evidence`. Raise Mistake as `resolve` does."""
        gate = self.resolve(evidence.entrants)
        assert gate.subject is not None
        measured = gate._measure(evidence, gate.subject)
        if isinstance(measured, str):
            return GateResult(self.text, False, False, f"gate '{self.text}' failed: {measured}")
        kept = gate._holds(measured)
        doubt = ""
        if self.measure in OF_THE_FIELD and all(kept):
            doubt = gate._few(evidence, gate.subject) or gate._alone(evidence, gate.subject)
        passed, unsure = all(kept) and not doubt, any(kept) and bool(doubt or not all(kept))
        state = "passed" if passed else "is not sure yet" if unsure else "failed"
        more = f"{doubt}; play more pairs" if unsure else ""
        return GateResult(self.text, passed, unsure, f"gate '{self.text}' {state}: {measured.words}{more}")

    def _few(self, evidence: GateEvidence, subject: str) -> str:
        """Return the end of a sentence on too few pairs, empty if there are enough."""
        over = (self.against or evidence.anchor) if self.measure == "rating" else None
        pairs = {name: evidence.value(name, "pairs") for name in (subject, over) if name is not None}
        name = min(pairs, key=pairs.__getitem__)
        if pairs[name] >= FEWEST_PAIRS:
            return ""
        return f"; of the {FEWEST_PAIRS} pairs that it takes at least, {name} has played {pairs[name]:.0f}"

    def _alone(self, evidence: GateEvidence, subject: str) -> str:
        """Return the end of a sentence on what games say alone, empty if they pass the gate."""
        measured = self._measure(evidence, subject, evidence.unshrunk)
        assert not isinstance(measured, str)  # there is one by the posterior
        return "" if all(self._holds(measured)) else f"; by games alone, without the field, {measured.words}"

    def _holds(self, measured: _Measured) -> list[bool]:
        """Return whether each end of the interval is on the right side of the bound."""
        return [OPERATORS[self.operator](end, self.bound) for end in (measured.low, measured.high)]

    def _measure(
        self, evidence: GateEvidence, subject: str, ratings: Posterior | None = None
    ) -> _Measured | str:
        """Return the measure of `subject`, or a sentence with the reason why there is none.

        Of the field, by `ratings` (default: the verdict's).
        """
        if not evidence.value(subject, "games"):
            return f"{subject} has played no game"
        if self.measure in DIRECT or (self.measure == "games" and self.against is not None):
            return self._measure_direct(evidence, subject)
        ratings = ratings or evidence.ratings
        if self.measure == "rating":
            return self._measure_rating(evidence, subject, ratings)
        if self.measure == "games":
            value = evidence.value(subject, "games")
            return _Measured(value, value, value, f"{subject} played {value:,.0f} games")
        if ratings.num_parts > 1:
            return f"the field falls into {ratings.num_parts} parts that never met"
        at = ratings.competitors.index(subject)
        if self.measure == "p_best":
            value = float(ratings.p_best[at])
            words = f"{subject} is the best of the field with probability {value:.3f}"
            return _Measured(value, value, value, words)
        value = 1.0 + float((ratings.elo > ratings.elo[at]).sum())
        low, high = (float(column[at]) for column in ratings.ranks()[1:])
        low, high = min(low, value), max(high, value)
        words = f"{subject} is number {value:.0f} [{low:.0f}, {high:.0f}] (95 %) of {len(evidence.entrants)}"
        return _Measured(value, low, high, words)

    def _measure_direct(self, evidence: GateEvidence, subject: str) -> _Measured | str:
        assert self.against is not None
        direct = evidence.direct(subject, self.against)
        if self.measure == "games":
            value = float(direct.games if direct else 0)
            return _Measured(
                value, value, value, f"{subject} played {value:,.0f} games against {self.against}"
            )
        if direct is None:
            return f"{subject} and {self.against} have not met"
        who = f"{subject} against {self.against}:"
        over = "over 1 pair" if direct.pairs == 1 else f"over {direct.pairs:,} pairs"
        estimate = direct.elo
        if self.measure == "los":
            words = f"{who} likelihood of superiority {estimate.los:.4f} {over}"
            return _Measured(estimate.los, estimate.los, estimate.los, words)
        if self.measure == "elo":
            shown = f"Elo {estimate.elo:+.0f} [{estimate.low:+.0f}, {estimate.high:+.0f}]"
            return _Measured(estimate.elo, estimate.low, estimate.high, f"{who} {shown} (95 %) {over}")
        low, high = score_of_elo(estimate.low), score_of_elo(estimate.high)
        words = f"{who} score {direct.score:.3f} [{low:.3f}, {high:.3f}] (95 %) {over}"
        return _Measured(direct.score, low, high, words)

    def _measure_rating(self, evidence: GateEvidence, subject: str, ratings: Posterior) -> _Measured | str:
        over = self.against or evidence.anchor
        if over is not None and not evidence.value(over, "games"):
            return f"{over} has played no game"
        parts = {evidence.value(name, "part") for name in (subject, over) if name is not None}
        if len(parts) > 1:
            return f"{subject} and {over} are in parts of the field that never met"
        if over is None and ratings.num_parts > 1:
            return f"the field falls into {ratings.num_parts} parts that never met"
        at = ratings.competitors.index(subject)
        if self.against is None:
            value, low, high = (float(column[at]) for column in (ratings.elo, *ratings.interval()))
        else:
            estimate = ratings.difference(at, ratings.competitors.index(self.against))
            value, low, high = estimate.elo, estimate.low, estimate.high
        shown = f"{value:+.0f} Elo [{low:+.0f}, {high:+.0f}] (95 %)"
        scale = evidence.scale if self.against is None else f"over {self.against}"
        words = f"{subject} is rated {shown} {scale}"
        return _Measured(value, low, high, words)


def parse_gate(text: str) -> Gate:
    """Return the gate that `text` describes. Raise Mistake with the place of the first error."""
    return _Parser(text).gate()


class _Parser:
    """Reads a gate from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(match[0].strip('"') or match[0], match.start()) for match in _TOKEN.finditer(text)]
        self._next = 0

    def gate(self) -> Gate:
        second = self._tokens[1][0] if len(self._tokens) > 1 else ""
        named = bool(self._peek()) and self._peek() not in OPERATORS and second not in OPERATORS
        if named and (second in MEASURES or self._peek() not in MEASURES) and second:
            subject: str | None = self._take()
        else:
            subject = None
        measure = self._one_of(MEASURES)
        sign = self._one_of(tuple(OPERATORS))
        bound = self._number(measure)
        against = None
        if self._peek():
            if measure in ALONE:
                raise self._wrong("the end: it is a measure of one competitor")
            self._one_of(("against",))
            against = self._name()
        elif measure in DIRECT:
            over = ", or rating for that over the whole field" if measure == "elo" else ""
            raise self._wrong(f"'against NAME': {measure} is of two competitors{over}")
        if self._peek():
            raise self._wrong("the end")
        return Gate(self._text, subject, measure, sign, bound, against)

    def _number(self, measure: str) -> float:
        try:
            value = float(self._peek())
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._wrong("a number")
        at = self._next
        self._next += 1
        if self._peek() == "%":
            if measure not in SHARES:
                raise self._wrong(f"a plain number: {measure} is not a share")
            value, self._next = value / 100.0, self._next + 1
        if measure in SHARES and not 0.0 <= value <= 1.0:
            self._next = at
            raise self._wrong("a number from 0 to 1, or a percentage")
        return value

    def _one_of(self, words: tuple[str, ...]) -> str:
        if self._peek() not in words:
            raise self._wrong(words[0] if len(words) == 1 else f"one of: {', '.join(words)}")
        return self._take()

    def _name(self) -> str:
        if not self._peek() or self._peek() in (*OPERATORS, "%"):
            raise self._wrong("the name of a competitor")
        return self._take()

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1][0]

    def _wrong(self, expected: str) -> Mistake:
        found = f"'{self._peek()}'" if self._peek() else "the end"
        at = self._tokens[self._next][1] if self._peek() else len(self._text)
        return Mistake(
            f"gate '{self._text}': found {found} at character {at + 1}, expected {expected}; "
            f"a gate is such as: {EXAMPLE}"
        )


def _newest_but(against: str | None, field: Sequence[Entrant]) -> Entrant:
    """Return the newest snapshot of `field` that is not `against`.

    Raise Mistake if there is none, or if it plays in several modes and samples in none.
    """
    found = as_it_samples(newest([entrant for entrant in field if entrant.competitor != against]))
    if len(found) == 1:
        return found[0]
    names = " and ".join(entrant.competitor for entrant in found) or "none"
    raise Mistake(f"the newest snapshot of the field is meant, found {names}; write its id in front")
