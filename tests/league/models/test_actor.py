"""Every actor that decides can also just act, without torch."""

import subprocess
import sys

import numpy as np
import pytest

from league.models.actor import Actor, Chosen, Look


class Last(Actor):
    """Takes the last legal action, and remembers how often."""

    memory_size = 1

    def decide(self, look, rng, temperature=1.0):
        action = look.mask.shape[1] - 1 - look.mask[:, ::-1].argmax(1)
        if look.memory is not None:
            look.memory[:] += 1
        return Chosen(action, np.zeros(len(action), np.float32), look.observation, action)


def test_act_is_decide_without_the_record():
    mask = np.array([[True, True, False], [False, True, True]])
    memory = np.zeros((2, 1), np.float32)
    action, log_prob = Last().act(np.zeros((2, 4)), mask, np.random.default_rng(0), memory=memory)
    assert action.tolist() == [1, 2]
    assert log_prob.tolist() == [0, 0]
    assert memory.tolist() == [[1], [1]]


class Tells(Last):
    """Writes down at which temperature it is asked."""

    def decide(self, look, rng, temperature=1.0):
        self.temperature = temperature
        return super().decide(look, rng, temperature)


@pytest.mark.parametrize(
    ("modes", "temperature"),
    [
        ({}, 1.0),
        ({"temperature": 0.5}, 0.5),
        ({"greedy": True}, 0.0),
        ({"greedy": True, "temperature": 2}, 0.0),
    ],
)
def test_greedy_is_a_temperature_of_zero_whatever_else_is_said(modes, temperature):
    actor = Tells()
    actor.act(np.zeros((1, 4)), np.ones((1, 2), bool), np.random.default_rng(0), **modes)
    assert actor.temperature == temperature


def test_what_is_seen_is_the_observation_unless_an_actor_says_otherwise():
    observation = np.zeros((2, 4))
    assert Last().see(observation) is observation


def test_who_does_not_search_decides_in_a_match_as_anywhere():
    mask = np.array([[True, True, False]])
    place = np.zeros(1, np.int64)
    chosen = Last().decide_at(None, place, place, Look(np.zeros((1, 4)), mask), np.random.default_rng(0))
    assert chosen.action.tolist() == [1]


@pytest.mark.slow
def test_bots_need_neither_torch_nor_what_is_optional():
    code = (
        "import sys, league.models.bots.scripted; "
        "assert not {'torch', 'pyspiel', 'open_spiel', 'onnxruntime'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
