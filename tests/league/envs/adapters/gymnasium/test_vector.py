"""Matches that gymnasium's `VectorEnv` steps together, whatever becomes of a place whose episode is over."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from league.envs import registry
from league.envs.conformance import check
from league.envs.registry import BadOption
from storage.records import EndReason

CARTPOLE = "gymnasium:CartPole-v1"


class Counters(VectorEnv):
    """Places count their steps, from an episode's own luck; those with odd luck last 3, others 5 steps.

    It is seeded as a whole, and begins again as its mode says. A place that is asked for a step when it
    should be reset, or whose action counts when it should not, shows -1 from then on.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  # as gymnasium has it

    def __init__(self, num_envs=1, mode="NEXT_STEP", broken=None, max_episode_steps=None):
        self.num_envs = num_envs
        self.mode = AutoresetMode[mode]
        self.metadata = {"autoreset_mode": self.mode}
        self.broken = broken
        self.single_observation_space = Box(-1, 1e6, (2,), np.float32)
        self.single_action_space = Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.shown = np.zeros((num_envs, 2), np.float32)  # luck, steps
        self.ended = np.zeros(num_envs, np.bool_)

    def _begin(self, mask):
        self.shown[mask, 0] = self.np_random.integers(0, 1000, mask.sum())
        self.shown[mask, 1] = 0
        self.ended[mask] = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        mask = np.ones(self.num_envs, np.bool_)
        if options is not None and self.mode is AutoresetMode.DISABLED:
            mask = options["reset_mask"]
        self._begin(mask)
        return self.shown.copy(), {}

    def step(self, actions):
        assert self.action_space.contains(actions)
        if self.broken is not None and (actions == self.broken).any():
            raise OverflowError("the counters overflowed")
        anew = self.ended.copy()
        self.shown[~anew, 1] += 1
        if self.mode is AutoresetMode.DISABLED:
            assert not anew.any()
        self._begin(anew)
        self.ended = ~anew & (self.shown[:, 1] == 5 - 2 * (self.shown[:, 0] % 2))
        reward, ended, infos = np.where(anew, 99.0, self.shown[:, 1]), self.ended.copy(), {}
        if self.mode is AutoresetMode.SAME_STEP:
            infos = {"final_obs": self.shown.copy()}
            self._begin(self.ended)
        return self.shown.copy(), reward, ended, np.zeros_like(ended), infos


@pytest.fixture
def counters():
    """The id of `Counters`, registered for the length of a test."""
    gymnasium.register("league-tests/Counters-v0", vector_entry_point=Counters, entry_point=One)
    yield "gymnasium:league-tests/Counters-v0"
    del gymnasium.registry["league-tests/Counters-v0"]


class One(gymnasium.Env):
    """One counter: what the vectorised ones are many of. It raises at action `broken`."""

    observation_space, action_space = Box(-1, 1e6, (2,), np.float32), Discrete(3)

    def __init__(self, broken=None, mode=None):
        self.broken = broken

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = np.array([self.np_random.integers(0, 1000), 0], np.float32)
        return self.shown.copy(), {}

    def step(self, action):
        if action == self.broken:
            raise OverflowError("the counter overflowed")
        self.shown[1] += 1
        over = bool(self.shown[1] == 5 - 2 * (self.shown[0] % 2))
        return self.shown.copy(), float(self.shown[1]), over, False, {}


def play(game, num_matches, action=1):
    """What each match showed and gave: [(observations, rewards, what was seen at its end), ...]."""
    told, by_slot, begun = [], {}, 0

    def begin(slots):
        nonlocal begun
        for slot in slots.tolist():
            by_slot[slot] = ([], [])
        game.reset(slots, begun + np.arange(len(slots)))
        begun += len(slots)

    begin(np.arange(min(game.num_slots, num_matches)))
    while game.active.any():
        blocks = game.due()
        for block in blocks:
            for slot, seen in zip(block.slot.tolist(), block.observation.tolist(), strict=True):
                by_slot[slot][0].append(seen)
        acted = np.concatenate([[-1], *(block.slot for block in blocks)])
        transition = game.step([np.array([action] * len(block)) for block in blocks])
        for slot, (_, rewards) in by_slot.items():
            if slot in acted:
                rewards.append(transition.rewards[slot].tolist())
            else:
                assert not transition.rewards[slot].any()
        ended = transition.ended
        for slot in ended.tolist():
            last = game.look(np.array([slot]), np.array([0]))[0].tolist()
            told.append((*by_slot.pop(slot), last))
        if begun < num_matches and len(ended):
            begin(ended[: num_matches - begun])
    return told


# ---------------------------------------------------------------- single envs, stepped by gymnasium


@pytest.mark.long
@pytest.mark.parametrize("seats", [1, 2])
def test_single_envs_that_gymnasium_steps_keep_every_promise(seats):
    report = check(CARTPOLE, {"vectorization": "sync", "seats": seats}, num_matches=20)
    assert [c for c in report.checks if not c.passed] == []


def test_a_match_is_the_same_stepped_alone_and_together():
    alone, together = (registry.make(CARTPOLE, 3, vectorization=v) for v in ("none", "sync"))
    assert sorted(play(alone, 10)) == sorted(play(together, 10))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(?s).*ERROR:UserWarning")  # gymnasium says who raised
def test_a_match_is_the_same_in_processes_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "fragile_envs.py").write_text(
        "import gymnasium, pathlib\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Fragile(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        if pathlib.Path(__file__).with_name('saw').exists():\n"
        "            raise OverflowError('the pole broke')\n"
        "        return super().step(action)\n"
        "gymnasium.register('Fragile-v0', entry_point=Fragile)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    game = registry.make("gymnasium:fragile_envs:Fragile-v0", 2, vectorization="async")
    assert sorted(play(game, 5)) == sorted(play(registry.make(CARTPOLE, 2), 5))
    game.reset(np.arange(2), np.arange(2))
    game.due()
    (tmp_path / "saw").touch()
    assert game.step([np.array([1, 0])]).reason.tolist() == [EndReason.CRASH] * 2
    (tmp_path / "saw").unlink()
    assert sorted(play(game, 3)) == sorted(play(registry.make(CARTPOLE, 2), 3))  # by new processes
    del gymnasium.registry["Fragile-v0"]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_single_envs_keep_every_promise_in_every_mode(mode):
    def vector(num_envs, **kwargs):
        return SyncVectorEnv([One] * num_envs, autoreset_mode=mode)

    gymnasium.register("league-tests/Ones-v0", entry_point=One, vector_entry_point=vector)
    try:
        options = {"vectorization": "vector_entry_point"}
        report = check("gymnasium:league-tests/Ones-v0", options, num_matches=20)
    finally:
        del gymnasium.registry["league-tests/Ones-v0"]
    assert [c for c in report.checks if not c.passed] == []


class InParts(One):
    """One counter that shows its parts apart, and takes two choices at once, counted from 3."""

    observation_space = Dict({"steps": Discrete(9), "luck": Box(0, 1e6, (1,), np.float64)})
    action_space = MultiDiscrete([2, 3], start=[3, 3])

    def reset(self, *, seed=None, options=None):
        return self._parts(super().reset(seed=seed)[0]), {}

    def step(self, action):
        assert self.action_space.contains(action)
        seen, *told = super().step(0)
        return self._parts(seen), *told

    def _parts(self, seen):
        return {"steps": int(seen[1]), "luck": seen[:1].astype(np.float64)}


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_what_is_no_box_is_stepped_together_too(mode):
    def vector(num_envs, **kwargs):
        return SyncVectorEnv([InParts] * num_envs, autoreset_mode=mode)

    gymnasium.register("league-tests/InParts-v0", entry_point=InParts, vector_entry_point=vector)
    try:
        told = []
        for vectorization in ("none", "vector_entry_point"):
            env_id = "gymnasium:league-tests/InParts-v0"
            game = registry.make(env_id, 3, vectorization=vectorization)
            told.append(sorted(play(game, 10, action=[1, 2])))
    finally:
        del gymnasium.registry["league-tests/InParts-v0"]
    assert told[0] == told[1]
    for seen, rewards, last in told[0]:  # luck, then the steps as gymnasium flattens a choice
        assert [np.argmax(row[1:]) for row in [*seen, last]] == list(range(len(rewards) + 1))


# ---------------------------------------------------------------- an env's own vectorised implementation


@pytest.mark.parametrize("mode", [mode.name for mode in AutoresetMode])
def test_whole_episodes_are_played_in_every_autoreset_mode(mode, counters):
    game = registry.make(counters, 4, vectorization="vector_entry_point", kwargs={"mode": mode})
    told = play(game, 30)
    assert len(told) == 30
    for seen, rewards, last in told:
        luck, length = seen[0][0], 5 - 2 * (seen[0][0] % 2)
        assert seen == [[luck, count] for count in range(int(length))]
        assert rewards == [[count] for count in range(1, int(length) + 1)]
        assert last == [luck, length]
    assert len({seen[0][0] for seen, *_ in told}) > 20  # each had a luck of its own


@pytest.mark.parametrize("mode", [mode.name for mode in AutoresetMode])
def test_a_match_that_was_cut_short_leaves_no_trace_in_the_next(mode, counters):
    options = {"vectorization": "vector_entry_point", "kwargs": {"mode": mode}, "step_limit": 2}
    for seen, rewards, last in play(registry.make(counters, 4, **options), 20):
        luck = seen[0][0]
        assert (seen, rewards, last) == ([[luck, 0], [luck, 1]], [[1], [2]], [luck, 2])


def test_a_place_begins_anew_when_its_mode_lets_it(counters):
    """NEXT_STEP: one step later; SAME_STEP and DISABLED: at once."""
    for mode, pending in (("NEXT_STEP", True), ("SAME_STEP", False), ("DISABLED", False)):
        game = registry.make(counters, 2, vectorization="vector_entry_point", kwargs={"mode": mode})
        ended, seed = np.arange(2), 0
        while len(ended) != 1:
            game.reset(ended, seed + ended)
            seed += 2
            ended = game.step([np.zeros(len(block), int) for block in game.due()]).ended
        game.reset(ended, ended)
        assert game.pending[ended].tolist() == [pending]


def test_matches_from_one_seed_come_out_the_same_twice(counters):
    first, second = (
        play(registry.make(env_id, 8, vectorization="vector_entry_point"), 40)
        for env_id in (CARTPOLE, CARTPOLE)
    )
    assert first == second
    game = registry.make(counters, 3, vectorization="vector_entry_point")
    assert play(game, 9) == play(game, 9)  # seeded again whenever no match is under way


@pytest.mark.long
def test_only_what_needs_a_seed_for_each_match_is_beyond_a_vectorised_implementation():
    report = check(CARTPOLE, {"vectorization": "vector_entry_point"}, num_matches=40)
    failed = {c.name for c in report.checks if not c.passed}
    assert failed == {"independent of slot and batch", "refill", "forfeits", "step limit"}


def test_an_env_that_raises_for_all_costs_all_matches_and_is_made_anew(counters, caplog):
    for vectorization in ("sync", "vector_entry_point"):
        game = registry.make(counters, 3, vectorization=vectorization, kwargs={"broken": 2})
        game.reset(np.arange(3), np.arange(3))
        game.due()
        assert len(game.step([np.array([0, 1, 0])]).ended) == 0
        game.due()
        transition = game.step([np.array([0, 2, 0])])
        assert transition.ended.tolist() == [0, 1, 2]
        assert transition.reason.tolist() == [EndReason.CRASH] * 3
        assert transition.truncated.all()
        assert not transition.rewards.any()
        assert "overflowed" in caplog.text
        assert len(play(game, 7)) == 7


def test_an_env_that_cannot_be_reset_costs_all_matches_and_is_made_anew(counters, monkeypatch):
    game = registry.make(counters, 3, vectorization="vector_entry_point")
    game.reset(np.arange(2), np.arange(2))
    game.due()
    assert game.step([np.array([2, 7])]).ended.tolist() == [1]  # that one forfeited
    with monkeypatch.context() as broken:
        broken.setattr(Counters, "reset", lambda *_, **__: 1 / 0)
        game.reset(np.arange(3), np.arange(3))
    assert game.due() == []
    transition = game.step([])
    assert transition.ended.tolist() == [0, 1, 2]
    assert transition.reason.tolist() == [EndReason.CRASH] * 3
    assert len(play(game, 7)) == 7


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("metadata", [{}, {"autoreset_mode": "sometimes"}])
def test_an_env_that_hides_its_autoreset_mode_is_refused(metadata, counters, monkeypatch):
    monkeypatch.setattr(Counters, "metadata", property(lambda self: metadata, lambda self, _: None))
    said = repr(metadata.get("autoreset_mode"))
    message = rf"Counters.metadata\['autoreset_mode'\] is {said}, expected gymnasium's AutoresetMode"
    with pytest.raises(BadOption, match=message):
        registry.make(counters, 1, vectorization="vector_entry_point")


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        (
            CARTPOLE,
            {"vectorization": "fast"},
            "'fast', expected one of none, sync, async, vector_entry_point",
        ),
        (CARTPOLE, {"vectorization": "sync", "threads": 2}, "threads is 2 and vectorization sync"),
        (CARTPOLE, {"vectorization": "vector_entry_point", "seats": 2}, "no two seats the same chance"),
        (f"{CARTPOLE}+Pendulum-v1", {"vectorization": "sync"}, "seats play different envs; expected none"),
        (
            "gymnasium:Acrobot-v1",
            {"vectorization": "vector_entry_point"},
            "doesn't have a vector entry point",
        ),
    ],
)
def test_what_cannot_be_stepped_together_is_refused(env_id, options, message):
    with pytest.raises(BadOption, match=message):
        registry.make(env_id, 2, **options)
