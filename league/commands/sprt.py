"""The command `league sprt`: a sequential test of counts, and the options of tests that others share."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.commands.console import JsonOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from analysis.statistics.sprt import Sprt

Elo0Option = Annotated[
    float | None, typer.Option("--elo0", metavar="ELO", help="Elo of hypothesis H0: at most so much stronger")
]
Elo1Option = Annotated[
    float | None,
    typer.Option("--elo1", metavar="ELO", help="Elo of hypothesis H1: at least so much stronger"),
]
AlphaOption = Annotated[
    float | None, typer.Option("--alpha", metavar="RATE", help="Rate of H1 where H0 holds; default 0.05")
]
BetaOption = Annotated[
    float | None, typer.Option("--beta", metavar="RATE", help="Rate of H0 where H1 holds; default 0.05")
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="Unit of ELO0 and ELO1: logistic (the default) or normalized Elo"),
]


def sprt(
    counts: Annotated[
        str | None, typer.Option(metavar="W,D,L", help="Numbers of wins, draws, losses")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="LL,LD,WL,WD,WW",
            help="Numbers of pairs that scored 0, 1/2, 1, 3/2 and 2 points; games of a pair share their luck",
        ),
    ] = None,
    elo0: Elo0Option = None,
    elo1: Elo1Option = None,
    alpha: AlphaOption = None,
    beta: BetaOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a sequential test accepts after these games: H0, H1, or nothing yet."""
    from analysis.statistics.elo import normalized_elo
    from storage.errors import Mistake

    test = test_of(elo0, elo1, alpha, beta, model)
    if test is None:
        raise Mistake("sprt: found no --elo0 and --elo1, expected both, such as --elo0 0 --elo1 5")
    if (counts is None) == (pairs is None):
        raise Mistake("sprt: expected either --counts W,D,L or --pairs LL,LD,WL,WD,WW")
    given = _numbers("--counts", counts, 3)[::-1] if counts is not None else None
    scores = given or _numbers("--pairs", pairs or "", 5)
    llr = float(test.llr(scores))
    normalized = normalized_elo(scores).single()
    if as_json:
        print(json.dumps(fields_of(test, llr, scores)))
        return
    print(sentence(test, llr))
    print(estimate(test, scores))
    print(f"normalized Elo {normalized.elo:+.0f} [{normalized.low:+.0f}, {normalized.high:+.0f}]")


def test_of(
    elo0: float | None, elo1: float | None, alpha: float | None, beta: float | None, model: str | None
) -> Sprt | None:
    """Return the test of these options, `None` if there are none. Raise Mistake for one that cannot be."""
    from analysis.statistics.sprt import Sprt
    from storage.errors import Mistake

    given = {"alpha": alpha, "beta": beta, "model": model}
    others: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if elo0 is None or elo1 is None:
        if others or elo0 is not None or elo1 is not None:
            raise Mistake("sprt: expected both bounds of the test, such as --elo0 0 --elo1 5")
        return None
    return Sprt(elo0, elo1, **others)


def sentence(test: Sprt, llr: float, repeat: bool = False) -> str:
    """Return what the test accepts; `repeat`: all further games would be the same as some before."""
    low, high = test.bounds
    unit = "normalized Elo" if test.model == "normalized" else "Elo"
    undecided = "no answer yet: more pairs are needed"
    if repeat:
        undecided = "no answer, and more pairs would bring none: these two repeat their games"
    meaning = {
        "H0": f"accepted H0: at most {test.elo0:g} {unit}",
        "H1": f"accepted H1: at least {test.elo1:g} {unit}",
        None: undecided,
    }
    return f"SPRT {meaning[test.decide(llr)]}; LLR {llr:+.2f} of [{low:.2f}, {high:.2f}]"


def estimate(test: Sprt, scores: npt.ArrayLike) -> str:
    """Return the estimate from counts of scores [K], which allows for the test's stopping."""
    from analysis.statistics.sprt import sequential_elo

    elo = sequential_elo(test, scores)
    shown = f"Elo {elo.elo:+.0f} [{elo.low:+.0f}, {elo.high:+.0f}]"
    return f"{shown} (95 %, allowing for the test's stopping), LOS {elo.los:.1%}"


def fields_of(test: Sprt, llr: float, scores: npt.ArrayLike) -> dict[str, Any]:
    """Return the test, and the estimate from counts of scores [K], as JSON fields."""
    from analysis.statistics.sprt import sequential_elo

    elo = sequential_elo(test, scores)
    numbers = {"elo": elo.elo, "elo_low": elo.low, "elo_high": elo.high, "los": elo.los}
    return {
        **dataclasses.asdict(test),
        "llr": llr,
        "bounds": list(test.bounds),
        "answer": test.decide(llr),
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
        "sequential": True,  # that the estimate allows for the test's stopping
    }


def _numbers(option: str, text: str, number: int) -> Sequence[int]:
    """Return the counts between the commas. Raise Mistake for others than so many, and for none."""
    from storage.errors import Mistake

    words = [word.strip() for word in text.split(",")]
    if len(words) != number or not all(word.isascii() and word.isdigit() for word in words):
        raise Mistake(f"sprt: {option} is '{text}', expected {number} whole numbers with commas between")
    found = [int(word) for word in words]
    if not 0 < sum(found) < 10**15:
        raise Mistake(f"sprt: {option} has {sum(found):,} in all, expected at least 1 and fewer than 10^15")
    return found
