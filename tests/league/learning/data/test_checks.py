"""Episodes that a program brings are refused in one sentence, whatever is wrong with them."""

from dataclasses import replace

import numpy as np
import pytest

from league.envs.spaces import ActionSpec, ObservationSpec
from league.extend import MalformedEpisodes
from league.learning.data.checks import check_episodes
from league.learning.groups.learner_group import LearnerGroup
from league.learning.learner.learner import Learner
from league.learning.settings import LearnerSettings
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import Mistake


def changed(array, at, value):
    """A copy with another value at one place."""
    array = array.copy()
    array[at] = value
    return array


WRONG = {  # how the episodes are changed, and what the message says of it
    "another player": (lambda e: {"player": "main-1"}, "found player 'main-1', expected 'main-0'"),
    "offsets that do not sum": (
        lambda e: {"offset": changed(e.offset, -1, 9)},
        "found offset from 0 to 9, expected from 0 to 12, the number of actions",
    ),
    "offsets of fewer episodes": (
        lambda e: {"offset": e.offset[:-1]},
        r"found offset of shape \[3\], expected shape \[4\], one more than episodes",
    ),
    "an empty episode": (
        lambda e: {"offset": changed(e.offset, 1, 0)},
        r"found offset\[0\] 0, expected an episode of one step or more from each",
    ),
    "offsets that are no array": (lambda e: {"offset": [0, 5, 8, 12]}, r"found offset \[0, 5, 8, 12\], exp"),
    "no seats": (lambda e: {"seat": e.seat[:2]}, r"found seat of shape \[2\], expected shape \[3\]"),
    "a seat below 0": (lambda e: {"seat": changed(e.seat, 1, -1)}, r"found seat\[1\] -1, expected numbers"),
    "versions of floats": (
        lambda e: {"version": e.version + 0.5},
        "found version of float64, expected whole numbers",
    ),
    "ends of numbers": (
        lambda e: {"terminated": e.terminated.astype(int)},
        "found terminated of int64, expected True or False",
    ),
    "observations of another shape": (
        lambda e: {"observation": e.observation[:, :3]},
        r"found observation of shape \[12, 3\], expected shape \[12, 4\]",
    ),
    "observations of another type": (
        lambda e: {"observation": e.observation.astype(np.float64)},
        "found observation of float64, expected float32",
    ),
    "observations that are no numbers": (
        lambda e: {"observation": changed(e.observation, (3, 1), np.nan)},
        r"found observation\[3\] \[.*nan.*\], expected finite numbers",
    ),
    "no bootstrap": (
        lambda e: {"bootstrap": e.bootstrap[:0]},
        r"found bootstrap of shape \[0, 4\], expected shape \[1, 4\], one for each episode that was not term",
    ),
    "a bootstrap that is no number": (
        lambda e: {"bootstrap": e.bootstrap * np.inf},
        r"found bootstrap\[0\] \[.*inf.*\], expected finite numbers",
    ),
    "a reward that is no number": (
        lambda e: {"reward": changed(e.reward, 7, np.nan)},
        r"found reward\[7\] nan, expected finite numbers",
    ),
    "whole rewards": (
        lambda e: {"reward": e.reward.astype(int)},
        "found reward of int64, expected floating-point numbers",
    ),
    "a log-probability that is none": (
        lambda e: {"log_prob": changed(e.log_prob, 2, -np.inf)},
        r"found log_prob\[2\] -inf, expected finite numbers",
    ),
    "a probability in place of its logarithm": (
        lambda e: {"log_prob": -e.log_prob},
        r"found log_prob\[0\] 1.0\d+, expected the logarithm of a probability: 0 or less",
    ),
    "a mask of another width": (
        lambda e: {"mask": e.mask[:, :2]},
        r"found mask of shape \[12, 2\], expected shape \[12, 3\]",
    ),
    "no legal action": (
        lambda e: {"mask": changed(e.mask, 4, False)},
        r"found mask\[4\] \[False False False\], expected at least one legal action",
    ),
    "an action that there is not": (
        lambda e: {"action": changed(e.action, 6, 3)},
        r"found action\[6\] 3, expected an action from 0 to 2",
    ),
    "an action that is not legal": (
        lambda e: {"mask": changed(e.mask, (5, e.action[5]), False)},
        r"found action\[5\] \d, expected an action that the mask permits",
    ),
    "memories of a network without": (
        lambda e: {"memory": np.zeros((3, 8), np.float32)},
        r"found memory of shape \[3, 8\], expected shape \[3, 0\]",
    ),
    "a match that is over and goes on": (
        lambda e: {"goes_on": ~e.terminated | True},
        r"found goes_on\[0\] True, expected False where `terminated` is True",
    ),
}


@pytest.fixture
def episodes(make_episodes):
    return make_episodes([5, 3, 4], [False, True, False])


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_episodes_is_one_sentence(episodes, make_spec, change, message):
    player = Learner("main-0", make_spec(), LearnerSettings(batch_steps=4), seed=0)
    before = player.weights()
    with pytest.raises(MalformedEpisodes, match=f"^episodes of player 'main-0': {message}") as caught:
        player.update_from_episodes(replace(episodes, **change(episodes)))
    assert isinstance(caught.value, Mistake)
    assert len(str(caught.value).splitlines()) == 1
    assert player.updates == 0
    assert all((before[name] == tensor).all() for name, tensor in player.weights().items())
    assert player.update_from_episodes(episodes) is not None  # nothing was left behind


def test_actions_of_several_choices_and_of_real_numbers_are_checked_too(make_episodes, make_spec):
    whole = make_episodes([4], actions=5)
    several = replace(whole, action=np.array([[0, 0], [2, 1], [1, 0], [2, 1]]))
    real = replace(whole, action=np.zeros((4, 2), np.float32), mask=np.ones((4, 0), bool))
    for kind, right, wrong, message in (
        ("multi_discrete", several, ((1, 1), 2), r"action\[1\] \[2 2\], expected an action from 0 to 1"),
        ("continuous", real, ((0, 0), np.nan), r"action\[0\] \[nan  ?0\.\], expected finite numbers"),
    ):
        check_episodes(right, "main-0", make_spec(kind), lambda: 0)
        other = replace(right, action=changed(right.action, *wrong))
        with pytest.raises(MalformedEpisodes, match=f"found {message}"):
            check_episodes(other, "main-0", make_spec(kind), lambda: 0)


def test_rows_of_choices_and_real_numbers_are_looked_at_too(make_episodes):
    spec = PolicySpec(
        PolicySettings(), ObservationSpec((4,), "float32"), ActionSpec("joint", (2, 3), (-np.inf,), (np.inf,))
    )
    action = np.array([[0, 0, 9.0], [1, 2, -9.0]], np.float32)
    whole = replace(make_episodes([2], actions=5), action=action)
    check_episodes(whole, "main-0", spec, lambda: 0)
    for place, number, found in (((1, 1), 1.5, "an action from 0 to 2"), ((0, 2), np.inf, "finite numbers")):
        with pytest.raises(MalformedEpisodes, match=f"expected {found}"):
            check_episodes(replace(whole, action=changed(action, place, number)), "main-0", spec, lambda: 0)


def test_a_group_refuses_them_before_any_player_has_learned(episodes, make_spec):
    with LearnerGroup({"main-0": make_spec(), "main-1": make_spec()}, {"batch_steps": 4}) as group:
        other = replace(episodes, player="main-1", reward=episodes.reward * np.nan)
        with pytest.raises(MalformedEpisodes, match=r"^episodes of player 'main-1': found reward"):
            group.update_from_episodes({"main-0": episodes, "main-1": other})
        assert [state.updates for state in group.get_state().values()] == [0, 0]
        found = group.update_from_episodes({"main-0": episodes})
        assert found["main-0"] is not None
