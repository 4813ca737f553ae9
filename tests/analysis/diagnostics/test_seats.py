"""A seat that is suddenly worth more or less is found; one that changes as others do is not."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from analysis.diagnostics.seats import STRETCHES, find_seats


def record(first_seat, games=6_000):
    """What a run records in which the first of two seats wins these shares [STRETCHES] of its games."""
    rng = np.random.default_rng(0)
    rows = []
    for part, share in enumerate(first_seat):
        for name, own in (("main-0", 0.9), ("random", 0.1)):
            count = round(own * games)
            won = float(rng.binomial(count, share if name == "main-0" else 0.5))
            rows += [(0, name, part, float(count), won, 0.0), (1, name, part, float(count), count - won, 0.0)]
    frame = pd.DataFrame(rows, columns=["seat", "competitor", "part", "games", "wins", "draws"])
    clock = pd.DataFrame({"part": range(STRETCHES), "env_steps": 1e6 * np.arange(1.0, STRETCHES + 1)})
    return SimpleNamespace(sql=lambda query: frame if "competitor" in query else clock)


def test_a_jump_is_told_with_when_who_and_until_when():
    share = np.full(STRETCHES, 0.52)
    share[20:24] = 0.63
    (found,) = find_seats(record(share))
    assert (found.kind, found.severity, found.subject) == ("seats", "note", "seat 0")
    assert found.evidence["env_steps"] == 20e6
    assert found.evidence["back"] == 25e6
    assert found.evidence["competitor"] == "main-0"
    assert "after 20M env steps of the league, most of it with main-0 in it" in found.sentence
    assert "back by 25M env steps" in found.sentence


def test_chance_slow_change_and_restless_seats_are_no_jump():
    assert find_seats(record(np.full(STRETCHES, 0.52))) == []
    assert find_seats(record(np.linspace(0.5, 0.8, STRETCHES))) == []
    assert find_seats(record(0.52 + 0.04 * (-1.0) ** np.arange(STRETCHES))) == []
    assert find_seats(record(np.where(np.arange(STRETCHES) < 20, 0.5, 0.7), games=100)) == []
