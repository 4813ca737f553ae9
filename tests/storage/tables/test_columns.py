import dataclasses
from dataclasses import replace

import duckdb
import numpy as np
import pytest

from storage.records import Purpose, RatingChange
from storage.tables import codec, columns
from tests import made_up

# The view `payoff` as it was before meetings were recorded: the reference.
PAYOFF = """
WITH pairs AS (
    SELECT
        h.competitor AS home,
        a.competitor AS away,
        CASE
            WHEN h.outcome = 'win' AND a.outcome <> 'win' THEN 'win'
            WHEN a.outcome = 'win' AND h.outcome <> 'win' THEN 'loss'
            WHEN h.outcome = 'forfeit' AND a.outcome <> 'forfeit' THEN 'loss'
            WHEN a.outcome = 'forfeit' AND h.outcome <> 'forfeit' THEN 'win'
            WHEN h.rank < a.rank THEN 'win'
            WHEN h.rank > a.rank THEN 'loss'
            WHEN h.outcome <> 'forfeit' THEN 'draw'
        END AS result,
        (h.score::DOUBLE - a.score) / 2 AS lead
    FROM seats h JOIN seats a ON h.seq = a.seq AND h.seat <> a.seat AND h.competitor <> a.competitor
)
SELECT
    home, away, count(*) AS games,
    count(*) FILTER (result = 'win') AS wins,
    count(*) FILTER (result = 'draw') AS draws,
    count(*) FILTER (result = 'loss') AS losses,
    sum(lead) AS lead, sum(lead * lead) AS squares
FROM pairs WHERE result IS NOT NULL GROUP BY home, away ORDER BY home, away
"""


def random_results(seed, num_matches, num_seats, competitors):
    """Anyone anywhere, themselves included, with any outcome and rank."""
    rng = np.random.default_rng(seed)
    shape = (num_matches, num_seats)
    played = made_up.matches(
        competitors,
        rng.integers(len(competitors), size=shape),
        env="any",
        purpose=Purpose.EVALUATION,
        match_types=("all",),
    )
    outcome = rng.integers(4, size=shape)
    return made_up.results(
        played,
        outcome,
        rank=rng.integers(num_seats, size=shape),
        score=rng.integers(-9, 9, size=shape),  # sums of whole numbers have no error
        env_steps=1,
        seconds=0.0,
    )


def answer(sql, **tables):
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("num_seats", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(8))
def test_meetings_count_what_joining_the_seats_counts(num_seats, seed):
    names = ("main-0", "Ω", "main-0@10", "bot", "main-0")  # the same name twice is the same competitor
    results = random_results(seed, 200, num_seats, names)
    tables = columns.result_tables(results, [], seq=11, batch=3)
    found = [tuple(row.values())[2:] for row in tables["meetings"].to_pylist()]
    assert found == answer(PAYOFF, seats=tables["seats"])
    assert (len(found) > 0) == (num_seats > 1)


def test_teams_meet_once_in_a_match_however_many_seats_they_fill():
    # In the second match a seat of b forfeited: its partner lost with it.
    results = random_results(0, 3, 4, ("a", "b"))
    lost = [[0, 0, 2, 2], [0, 0, 3, 2], [1, 1, 1, 1]]
    matches = dataclasses.replace(
        results.matches, seat=np.array([[0, 0, 1, 1]] * 3, np.int32), team_of_seat=(0, 0, 1, 1)
    )
    results = dataclasses.replace(
        results,
        matches=matches,
        outcome=np.array(lost, np.int8),
        rank=np.array([[0, 0, 2, 2], [0, 0, 2, 2], [0, 0, 0, 0]], np.int8),
    )
    rows = columns.meetings(results, seq=3).select(["home", "away", "games", "wins", "draws", "losses"])
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("a", "b", 3, 2, 1, 0),
        ("b", "a", 3, 0, 1, 2),
    ]


@pytest.mark.parametrize("num_seats", [1, 2, 3])
def test_the_player_of_a_match_is_the_first_by_name_who_learns_from_it(num_seats):
    results = random_results(4, 100, num_seats, ("b", "Ω", "a", "nobody"))
    learning = np.random.default_rng(4).random((100, num_seats)) < 0.4
    results = replace(results, matches=replace(results.matches, learning=learning))
    tables = columns.result_tables(results, [], 1, 1)
    learners = answer(
        "SELECT min(competitor) FILTER (learning) FROM seats GROUP BY seq ORDER BY seq", seats=tables["seats"]
    )
    assert tables["matches"]["player"].to_pylist() == [name for (name,) in learners]
    assert {None, "a", "b", "Ω"} <= set(tables["matches"]["player"].to_pylist())


def test_meetings_belong_to_the_last_match_and_the_purpose_of_their_batch():
    rows = columns.meetings(random_results(1, 20, 2, ("b", "a")), seq=77).to_pylist()
    assert {(row["seq"], row["purpose"]) for row in rows} == {(77, "evaluation")}


@pytest.mark.parametrize("teams", [None, (0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 0, 1)])
def test_results_come_back_with_the_team_of_each_seat(teams):
    results = random_results(0, 3, 4, ("a", "b"))
    results = replace(results, matches=replace(results.matches, team_of_seat=teams))
    tables = columns.result_tables(results, [], 1, 1)
    assert tables["seats"]["team"].to_pylist() == list(teams or range(4)) * 3
    assert columns.results_of(tables).matches.team_of_seat == teams


def test_seats_that_were_recorded_before_teams_were_stored_come_back_without():
    tables = columns.result_tables(random_results(0, 3, 4, ("a", "b")), [], 1, 1)
    before = tables["seats"].drop_columns(["team"])
    assert columns.results_of(tables | {"seats": before}).matches.team_of_seat is None
    compacted = before.append_column("team", columns.pa.nulls(len(before), "int8"))
    assert columns.results_of(tables | {"seats": compacted}).matches.team_of_seat is None


def test_ratings_know_the_frame_they_come_with():
    changes = [RatingChange("a", 25.0, 8.0, 3), RatingChange("b", 24.0, 7.0, 2)]
    tables = columns.result_tables(random_results(3, 10, 2, ("a", "b")), changes, 1, batch=9)
    assert tables["ratings"]["batch"].to_pylist() == [9, 9]
    assert tables["ratings"]["seq"].to_pylist() == [10, 10]
    assert codec.rows("ratings", changes, seq=10, batch=None)["batch"].to_pylist() == [None, None]
