"""Which env each seat plays: as the id and the options say, and nothing else."""

import pytest

from league.envs.adapters.gymnasium.seats import SeatEnv, seat_envs

LAKE = ("FrozenLake-v1",)
MIXED = ("CartPole-v1", "Pendulum-v1")


def test_seats_share_the_one_env_and_options_that_were_given_for_all():
    options = {"g": 3}
    seats = seat_envs(("Pendulum-v1",), 2, options, 0.5)
    assert seats == [SeatEnv("Pendulum-v1", {"g": 3}, 0.5)] * 2
    options["g"] = 4
    assert seats[0].kwargs == {"g": 3}
    assert seat_envs(LAKE, None, None, 1) == [SeatEnv("FrozenLake-v1", {}, 1.0)]


@pytest.mark.parametrize("seats", [None, 2])
def test_each_seat_has_what_is_given_for_it(seats):
    assert seat_envs(MIXED, seats, [{}, {"g": 3}], (1, 2)) == [
        SeatEnv("CartPole-v1", {}, 1.0),
        SeatEnv("Pendulum-v1", {"g": 3}, 2.0),
    ]


@pytest.mark.parametrize(
    ("names", "seats", "kwargs", "scale", "message"),
    [
        (LAKE, 0, None, 1, "seats is 0, expected a whole number"),
        (LAKE, "two", None, 1, "seats is 'two'"),
        (MIXED, 3, None, 1, "seats is 3, but the id names 2 envs"),
        (LAKE, 1, [{}, {}], 1, r"kwargs is \[{}, {}\], .* one for each seat \(1\)"),
        (LAKE, 1, [3], 1, r"kwargs is \[3\]"),
        (MIXED, None, None, [1, None], r"scale is \[1, None\]"),
        (MIXED, None, None, True, "scale is True"),
        (MIXED, None, None, float("inf"), "scale is inf"),
    ],
)
def test_what_does_not_fit_the_seats_is_refused(names, seats, kwargs, scale, message):
    with pytest.raises(ValueError, match=message):
        seat_envs(names, seats, kwargs, scale)


def test_an_env_that_cannot_be_made_is_named_with_its_options():
    with pytest.raises(
        ValueError, match=r"gymnasium.make\('CartPole-v1', \*\*{'colour': 1}\) failed: TypeError"
    ):
        SeatEnv("CartPole-v1", {"colour": 1}, 1.0).make()
