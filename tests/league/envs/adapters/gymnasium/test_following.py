"""The env of a seat is that of the competitor in it; the id of a match's game has both, in order."""

import numpy as np
import pytest

from league.envs import registry
from league.envs.adapters.gymnasium.seats import FollowingEnvs, following
from tests import made_up

POLES = {"id": "gymnasium:CartPole-v1", "options": {"seats": 2, "scale": 0.01, "loss_reward": -3.0}}
CAR = {"id": "gymnasium:MountainCar-v0", "options": {"scale": 0.05}}
BOTH = "gymnasium:CartPole-v1+MountainCar-v0"


def test_each_seat_has_the_env_of_its_competitor():
    envs = FollowingEnvs(POLES, {"climber": CAR})
    assert envs
    assert envs.env_id(["main", None]) == POLES["id"]
    assert envs.env_id(["main", "climber"]) == BOTH
    assert envs.env_id(["climber", "main"]) == "gymnasium:MountainCar-v0+CartPole-v1"
    assert envs.options(POLES["id"]) == POLES["options"]
    assert envs.options(BOTH) == {"kwargs": [{}, {}], "scale": [0.01, 0.05], "loss_reward": -3.0}
    game = registry.make(BOTH, 1, **envs.options(BOTH))
    assert [space.shape for space in game.observation_spaces] == [(4,), (2,)]
    with pytest.raises(ValueError, match="not of this run"):
        envs.options("gymnasium:CartPole-v1+Acrobot-v1")


def test_matches_are_split_by_game_and_keep_their_numbers_seeds_and_competitors():
    names = ["climber-0", "main-0", "main-0@0"]
    matches = made_up.matches(names, [[1, 2], [1, 0], [0, 2], [2, 0]], seed=[5, 6, 7, 8])
    envs = FollowingEnvs(POLES, {"climber": CAR})
    found = {
        part.env: (part.competitors, part.match_id.tolist(), part.seed.tolist(), part.seat.tolist())
        for part in envs.split(matches, lambda name: name.partition("-")[0])
    }
    ids = matches.match_id.tolist()
    assert set(found) == {POLES["id"], BOTH, "gymnasium:MountainCar-v0+CartPole-v1"}
    assert found[POLES["id"]] == (("main-0", "main-0@0"), ids[:1], [5], [[0, 1]])
    assert envs.own_options(POLES["id"]) is None
    assert found[BOTH] == (tuple(names), [ids[1], ids[3]], [6, 8], [[1, 0], [2, 0]])
    assert envs.own_options(BOTH)["scale"] == [0.01, 0.05]


def test_without_envs_of_their_own_matches_stay_as_they_are():
    matches = made_up.matches(["a", "b"], [[0, 1]], seed=[0])
    envs = following({"env": {"id": "tic_tac_toe", "options": {}}})
    assert not envs
    (part,) = envs.split(matches, lambda name: name)
    assert part is matches
    assert np.array_equal(part.seat, [[0, 1]])


@pytest.mark.parametrize(
    ("env", "own", "message"),
    [
        ({"id": "tic_tac_toe", "options": {}}, CAR, "found env 'tic_tac_toe' of the run, expected a game"),
        (POLES, {"id": "tic_tac_toe", "options": {}}, "found env 'tic_tac_toe', expected one of gymnasium"),
        (POLES, {"id": "gymnasium:MountainCra-v0", "options": {}}, "did you mean MountainCar-v0"),
        (POLES, {"id": BOTH, "options": {}}, "expected one of gymnasium for one seat"),
        (POLES, {**CAR, "options": {"seats": 2}}, "found option 'seats' of env"),
        (POLES, {**POLES, "options": {"scale": 1.0}}, "found two envs 'CartPole-v1' with other options"),
    ],
)
def test_envs_that_cannot_be_seats_of_one_match_are_refused(env, own, message):
    with pytest.raises(ValueError, match=message):
        FollowingEnvs(env, {"climber": own})
