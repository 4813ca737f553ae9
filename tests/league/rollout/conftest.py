from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from league.envs import chance, registry
from league.envs.base import BatchedGame
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.requests import BotSource, LiveSource, PlayRequest
from league.rollout.snapshots import SnapshotSource
from storage.snapshots.blobs import publish
from tests import made_up

torch.set_num_threads(1)

PLAIN = PolicySettings(hidden=(16,))
GRU = PolicySettings(hidden=(16,), memory={"kind": "gru", "size": 8})
LSTM = PolicySettings(hidden=(16,), memory={"kind": "lstm", "size": 12})
STACKED = PolicySettings(
    hidden=(16,), connectors=({"kind": "frame_stack", "frames": 3}, {"kind": "previous"})
)


class Mixed(BatchedGame):
    """Two seats that act at once, one with two real numbers, the other with a choice; three rounds."""

    id = "mixed"
    num_seats = 2
    observation_spaces = (Box(0, 1, (1,), np.float32), Box(0, 1, (2,), np.float32))
    action_spaces = (Box(-1, 1, (2,), np.float32), Discrete(5))

    def observe(self, slot, seat):
        return np.zeros((len(slot), 1 + int(seat[0])), np.float32)

    def legal(self, slot, seat):
        return np.ones((len(slot), 5 * int(seat[0])), np.bool_)

    def _reset(self, slots, seeds):
        pass

    def _turn(self):
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 2), np.tile([0, 1], len(slot))

    def _play(self, slot, seat, action):
        self._over[slot[self.env_steps[slot] == 6]] = True


class Signals(BatchedGame):
    """Two seats of which one or both act, as chance says; rewards at every step, to both."""

    id = "signals"
    num_seats = 2

    def __init__(self, num_slots, *, actions="discrete", parts=False, step_limit=None):
        board, row = Box(0, 1, (2, 3, 3), np.float32), Box(0, 1, (4,), np.float32)
        self.observation_spaces = (Dict({"board": board, "row": row}) if parts else row,) * 2
        spaces = {
            "discrete": Discrete(3),
            "multi_discrete": MultiDiscrete([2, 3]),
            "continuous": Box(np.array([-1, 0], np.float32), np.array([1, 3], np.float32)),
        }
        self.action_spaces = (spaces[actions],) * 2
        super().__init__(num_slots, step_limit=step_limit)
        self._seeds = np.zeros(num_slots, np.int64)
        self._steps = np.zeros(num_slots, np.int64)

    def _noise(self, slot, seat, width, kind):
        counter = ((self._steps[slot] * 2 + seat) * 8 + kind)[:, None] * 64 + np.arange(width)
        return (chance.bits(self._seeds[slot][:, None], counter) / 2.0**64).astype(np.float32)

    def observe(self, slot, seat):
        row = self._noise(slot, seat, 4, 0)
        if not self._shows_parts:
            return row
        return {"board": self._noise(slot, seat, 18, 1).reshape(-1, 2, 3, 3), "row": row}

    def legal(self, slot, seat):
        spec = self.action_specs[0]
        mask = self._noise(slot, seat, spec.mask_width, 2) < 0.6
        mask[:, np.cumsum((0, *spec.sizes[:-1]))[: spec.mask_width]] = True
        return mask

    def _reset(self, slots, seeds):
        self._seeds[slots] = seeds
        self._steps[slots] = 0

    def _turn(self):
        slot = np.flatnonzero(self.active)
        who = chance.below(self._seeds[slot], 10_000 + self._steps[slot], 3)
        acts = np.stack([who != 1, who != 0], axis=1)
        row, seat = np.nonzero(acts)
        return slot[row], seat

    def _play(self, slot, seat, action):
        total = action.reshape(len(action), -1).sum(axis=1)
        mine, theirs = (self._noise(slot, s, 1, 3)[:, 0] for s in (seat, 1 - seat))
        np.add.at(self._rewards, (slot, seat), mine * total)
        np.add.at(self._rewards, (slot, 1 - seat), -theirs * total)
        moved = np.unique(slot)
        self._steps[moved] += 1
        self._over[moved] = self._steps[moved] == 4 + self._seeds[moved] % 6


@pytest.fixture(autouse=True, scope="session")
def _cache_folder(tmp_path_factory):
    """Runners, also those of Ray, leave the cache folder of whoever runs the tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def signals(own_module):
    """The import path of `Signals`, whatever name pytest imported it by."""
    return own_module("games_for_rollout", Signals=Signals) + ":Signals"


@pytest.fixture
def make_request(tmp_path):
    """A request: `main-0` (learning, odd matches in seat 1) against snapshots and bots in turn.

    `snapshots`: how many, or the settings of each.
    """

    def make(env, num_matches, *, snapshots=2, bots=(), self_play=0, seed=0, options=None, settings=PLAIN):
        game = registry.make(env, 1, **(options or {}))
        spec = PolicySpec.for_game(settings, game)
        sources = [LiveSource("main-0", 7, spec)]
        for i, theirs in enumerate([settings] * snapshots if isinstance(snapshots, int) else snapshots):
            of_snapshot = PolicySpec.for_game(theirs, game)
            blob_hash, _ = publish(tmp_path / "objects", initial_weights(of_snapshot, 100 + i))
            path = tmp_path / "objects" / blob_hash[:2] / f"{blob_hash}.safetensors"
            sources.append(SnapshotSource(f"main-0@{i}", blob_hash, str(path), of_snapshot))
        sources += [BotSource(name) for name in bots]
        games = np.arange(num_matches)
        opponent = 1 + games % max(len(sources) - 1, 1)
        opponent[games < self_play] = 0
        seat = np.where(
            games[:, None] % 2 == 0, np.stack([0 * games, opponent], 1), np.stack([opponent, 0 * games], 1)
        )
        if game.num_seats == 1:
            seat = np.zeros((num_matches, 1), np.int64)
        names = ["main-0", *(s.snapshot_id if isinstance(s, SnapshotSource) else s.name for s in sources[1:])]
        batch = made_up.matches(
            names,
            seat,
            env=env,
            learning=seat == 0,
            match_id=1000 + games,
            seed=np.random.default_rng(seed).integers(2**62, size=num_matches),
        )
        weights = {"main-0": {k: v.numpy() for k, v in initial_weights(spec, 1).items()}}
        return PlayRequest(batch, tuple(sources), ("main-0",), seed), weights

    return make


def unlearned(request, seat, temperatures=None, **changes):
    """The request with these seats [M, S], from which nobody learns, and snapshots at these temperatures.

    `temperatures`: by the index of a snapshot among the sources; `None`: as they are.
    """
    sources = tuple(
        replace(source, temperature=temperatures[i]) if isinstance(source, SnapshotSource) else source
        for i, source in enumerate(request.sources if temperatures else ())
    )
    seat = np.asarray(seat, dtype=np.int32)
    matches = replace(request.matches, seat=seat, learning=np.zeros(seat.shape, np.bool_))
    changes = {"matches": matches, "learners": (), "sources": sources or request.sources, **changes}
    return replace(request, **changes)
