"""Exported agents played by onnxruntime and numpy alone: run by `tests.bench.exported_agents` in an empty
environment, with no path of this project. The rules of the games are written again here.

    python onnxruntime_alone.py FOLDER GAMES SEED

FOLDER has agent.onnx, and decisions.npz: recorded inputs, and outputs expected of them. Prints one line of
JSON: the largest differences, and the mean and standard error of the agent's return over GAMES games.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

NEVER = -1e29  # logits below are those of illegal actions


class Agent:
    """One agent in `n` games side by side: what it was shown, its memory, its draw."""

    def __init__(self, path, n, rng):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session, self.rng, self.n = onnxruntime.InferenceSession(path, options), rng, n
        self.card = json.loads(self.session.get_modelmeta().custom_metadata_map["league.json"])
        self.state = {one["name"]: np.zeros((n, *one["shape"]), one["dtype"]) for one in self.card["inputs"]}
        if "draw" in self.state:
            self.state["draw"] = rng.random(n).astype(np.float32)

    def run(self, given):
        names = [one["name"] for one in self.card["outputs"]]
        return dict(zip(names, self.session.run(names, given), strict=True))

    def act(self, rows, observation, mask=None):
        given = {name: values[rows] for name, values in self.state.items()}
        given["observation"][:] = observation
        if mask is None:
            given["noise"][:] = self.rng.standard_normal(given["noise"].shape)
        else:
            given["mask"][:] = mask
            given["noise"][:] = self.rng.gumbel(size=given["noise"].shape)
        found = self.run(given)
        if "next_state" in found:
            self.state["state"][rows] = found["next_state"]
        return found["action"]


def at_random(mask, rng):
    return np.where(mask, rng.random(mask.shape), -1.0).argmax(axis=1)


def board_game(agent, n, rng, cells, legal, place, won):
    """Two seats in turn on planes [n, 2, cells]; the agent has seat 0 in the first half of the games."""
    stones, seat = np.zeros((n, 2, cells), np.int8), np.arange(n) * 2 // n
    returned, active = np.zeros(n), np.ones(n, bool)
    for ply in range(cells):
        mover = ply % 2
        for own in (True, False):
            rows = np.flatnonzero(active & ((seat == mover) == own))
            if not len(rows):
                continue
            mask = legal(stones[rows])
            seen = stones[rows][:, [mover, 1 - mover]].reshape(len(rows), -1)
            action = agent.act(rows, seen, mask) if own else at_random(mask, rng)
            stones[rows, mover, place(stones[rows], action)] = 1
            over = rows[won(stones[rows, mover])]
            returned[over], active[over] = 1.0 if own else -1.0, False
    return returned


def lines(width, height, length):
    """All lines of `length` on a board whose cell number is column * height + row."""
    found = []
    for x in range(width):
        for y in range(height):
            for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
                ends = x + dx * (length - 1), y + dy * (length - 1)
                if 0 <= ends[0] < width and 0 <= ends[1] < height:
                    found.append([(x + dx * i) * height + y + dy * i for i in range(length)])
    return np.array(found)


def tic_tac_toe(agent, n, rng):
    three = lines(3, 3, 3)
    return board_game(
        agent,
        n,
        rng,
        9,
        legal=lambda stones: stones.sum(axis=1) == 0,
        place=lambda stones, action: action,
        won=lambda own: own[:, three].all(axis=2).any(axis=1),
    )


def connect_four(agent, n, rng):
    four = lines(7, 6, 4)

    def heights(stones):
        return stones.sum(axis=1).reshape(-1, 7, 6).sum(axis=2)

    return board_game(
        agent,
        n,
        rng,
        42,
        legal=lambda stones: heights(stones) < 6,
        place=lambda stones, action: action * 6 + heights(stones)[np.arange(len(action)), action],
        won=lambda own: own[:, four].all(axis=2).any(axis=1),
    )


def recall(agent, n, rng, cues=4, length=20):
    cue, rows = rng.integers(cues, size=n), np.arange(n)
    for step in range(length):
        seen = np.zeros((n, cues + 1), np.int8)
        if step == 0:
            seen[rows, cue] = 1
        seen[:, cues] = step == length - 1
        action = agent.act(rows, seen, np.ones((n, cues), bool))
    return np.where(action == cue, 1.0, -1.0)


def pendulum(agent, n, rng):
    angle, speed = rng.uniform(-np.pi, np.pi, n), rng.uniform(-1, 1, n)
    returned, rows = np.zeros(n), np.arange(n)
    for _ in range(200):
        seen = np.stack([np.cos(angle), np.sin(angle), speed], axis=1).astype(np.float32)
        force = np.clip(agent.act(rows, seen)[:, 0].astype(float), -2, 2)
        upright = (angle + np.pi) % (2 * np.pi) - np.pi
        returned -= upright**2 + 0.1 * speed**2 + 0.001 * force**2
        speed = np.clip(speed + (15 * np.sin(angle) + 3 * force) * 0.05, -8, 8)
        angle = angle + speed * 0.05
    return returned


def kuhn_poker(agent, n, rng):
    """One chip each; pass or bet; the second seat may bet after a pass; the higher of three cards wins."""
    cards = np.array([rng.permutation(3)[:2] for _ in range(n)])
    seat, actions = np.arange(n) * 2 // n, np.full((n, 3), -1)
    returned, active = np.zeros(n), np.ones(n, bool)
    for turn in range(3):
        mover = turn % 2
        for own in (True, False):
            rows = np.flatnonzero(active & ((seat == mover) == own))
            if not len(rows):
                continue
            taken = np.concatenate([np.eye(2), np.zeros((1, 2))])[actions[rows]].reshape(len(rows), 6)
            me = np.repeat(np.eye(2)[[mover]], len(rows), axis=0)
            mask = np.ones((len(rows), 2), bool)
            seen = np.concatenate([me, np.eye(3)[cards[rows, mover]], taken], axis=1)
            actions[rows, turn] = agent.act(rows, seen, mask) if own else at_random(mask, rng)
        before = actions[:, turn - 1] if turn else np.full(n, -1)
        now = actions[:, turn]
        over = active & ((before == 1) | ((before == 0) & (now == 0)))
        first = np.where((before == 1) & (now == 0), mover == 1, cards[:, 0] > cards[:, 1])
        gain = np.where((before == 1) & (now == 1), 2.0, 1.0) * np.where(first, 1, -1)
        returned[over] = np.where(seat == 0, gain, -gain)[over]
        active &= ~over
    return returned


GAMES = {
    "tic_tac_toe": tic_tac_toe,
    "connect_four": connect_four,
    "recall": recall,
    "gymnasium:Pendulum-v1": pendulum,
    "kuhn_poker": kuhn_poker,
}


def differences(agent, path):
    """The largest absolute difference of each output over the recorded decisions; of logits: legal ones."""
    recorded = np.load(path)
    given = {name: recorded[f"given.{name}"] for name in agent.state}
    found, worst = agent.run(given), {}
    for name, values in found.items():
        expected = recorded[f"found.{name}"]
        assert values.shape == expected.shape, name
        if name == "logits":
            assert ((values < NEVER) == ~given["mask"]).all()
            values, expected = values[given["mask"]], expected[given["mask"]]
        gap = np.abs(values.astype(float) - expected.astype(float))
        worst[name] = float(gap.max(initial=0.0))
    return worst, len(given["observation"])


def main():
    folder, n, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = np.random.default_rng(seed)
    agent = Agent(folder / "agent.onnx", n, rng)
    worst, decisions = differences(agent, folder / "decisions.npz")
    returned = GAMES[agent.card["env"]["id"]](agent, n, rng)
    there = [name for name in ("league", "torch", "gymnasium", "onnx") if importlib.util.find_spec(name)]
    found = {"decisions": decisions, "worst": worst, "games": n, "found": there}
    found |= {"mean": returned.mean(), "error": returned.std(ddof=1) / n**0.5}
    print(json.dumps(found | {"numpy": np.__version__, "onnxruntime": onnxruntime.__version__}))


main()
