"""Whoever decides can also just act, and needs no torch for it."""

import subprocess
import sys

import numpy as np

from league.models.actor import Actor, Chosen


class Last(Actor):
    """Takes the last legal action, and remembers how often."""

    memory_size = 1

    def decide(self, observation, mask, rng, greedy=False, memory=None, reward=None):
        action = mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
        if memory is not None:
            memory += 1
        return Chosen(action, np.zeros(len(action), np.float32), observation, action)


def test_act_is_decide_without_the_record():
    mask = np.array([[True, True, False], [False, True, True]])
    memory = np.zeros((2, 1), np.float32)
    action, log_prob = Last().act(np.zeros((2, 4)), mask, np.random.default_rng(0), memory=memory)
    assert action.tolist() == [1, 2]
    assert log_prob.tolist() == [0, 0]
    assert memory.tolist() == [[1], [1]]


def test_what_is_seen_is_the_observation_unless_an_actor_says_otherwise():
    observation = np.zeros((2, 4))
    assert Last().see(observation) is observation


def test_who_does_not_search_decides_in_a_match_as_anywhere():
    mask = np.array([[True, True, False]])
    place = np.zeros(1, np.int64)
    chosen = Last().decide_at(None, place, place, np.zeros((1, 4)), mask, np.random.default_rng(0))
    assert chosen.action.tolist() == [1]


def test_bots_need_neither_torch_nor_what_is_optional():
    code = (
        "import sys, league.models.scripted; "
        "assert not {'torch', 'pyspiel', 'open_spiel', 'onnxruntime'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
