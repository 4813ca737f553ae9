"""Hand-written envs, AEC and Parallel: which seats act, which actions arrive, rewards and ends."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from pettingzoo import AECEnv, ParallelEnv

from league.envs.adapters.pettingzoo.game import game_from
from league.envs.conformance import check_game
from storage.records import EndReason

ALL = ("a_0", "a_1", "a_2")


class Told:
    """What both kinds of hand-written env share: a script of what happens at which step."""

    metadata = {"name": "scripted", "is_parallelizable": False}  # noqa: RUF012
    render_mode = None

    def __init__(self, die=None, cut=None, come=None, start=ALL, mask=None, takes=None):
        """`die`, `cut`, `come`: the agents that it happens to, by step. `mask(agent, step)`, or none."""
        self.possible_agents = list(ALL)
        self.die, self.cut, self.come = die or {}, cut or {}, come or {}
        self.start, self.mask = start, mask
        self.told = []
        self._takes = takes or {}
        self._sees = {a: Box(-1.0, 99.0, (2 + i,), np.float32) for i, a in enumerate(ALL)}

    def observation_space(self, agent):
        return self._sees[agent]

    def action_space(self, agent):
        return self._takes.get(agent, Discrete(4))

    def close(self):
        self.closed = True

    def count(self, seed=None):
        if seed is not None:
            self.luck, self.now = float(seed), -1
        self.now += 1

    def seen_by(self, agent):
        return np.full(self._sees[agent].shape, self.now, np.float32) + self.luck / 100

    def info(self, agent):
        mask = self.mask and self.mask(agent, self.now)
        return {} if mask is None else {"action_mask": mask}


class Turns(Told, AECEnv):
    """Each step pays its agent its action, the others a tenth of it."""

    def reset(self, seed=None, options=None):
        self.count(seed)
        self.agents = list(self.start)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {a: self.info(a) for a in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent):
        return self.seen_by(agent)

    def step(self, action):
        agent = self.agent_selection
        self.told.append((agent, action))
        if self.terminations[agent] or self.truncations[agent]:
            return self._was_dead_step(action)
        self.count()
        self._cumulative_rewards[agent] = 0.0
        for arrived in self.come.get(self.now, ()):
            self.agents.append(arrived)
            self._cumulative_rewards[arrived] = 0.0
            self.terminations[arrived] = self.truncations[arrived] = False
        self.rewards = {a: float(action) if a == agent else action / 10 for a in self.agents}
        self.terminations.update(dict.fromkeys(self.die.get(self.now, ()), True))
        self.truncations.update(dict.fromkeys(self.cut.get(self.now, ()), True))
        self.infos = {a: self.info(a) for a in self.agents}
        self._accumulate_rewards()
        at = self.agents.index(agent) + 1
        alive = [a for a in self.agents if not (self.terminations[a] or self.truncations[a])]
        self.agent_selection = next((a for a in self.agents[at:] + self.agents[:at] if a in alive), agent)
        self._deads_step_first()
        return None


class Crowd(Told, ParallelEnv):
    """Each step pays every agent the number of the step."""

    def reset(self, seed=None, options=None):
        self.count(seed)
        self.agents = list(self.start)
        return {a: self.seen_by(a) for a in self.agents}, {a: self.info(a) for a in self.agents}

    def step(self, actions):
        self.told.append(actions)
        self.count()
        died, cut = self.die.get(self.now, ()), self.cut.get(self.now, ())
        asked = self.agents
        self.agents = [a for a in asked if a not in (*died, *cut)] + list(self.come.get(self.now, ()))
        present = {*asked, *self.agents}
        return (
            {a: self.seen_by(a) for a in present},
            dict.fromkeys(present, float(self.now)),
            {a: a in died for a in present},
            {a: a in cut for a in present},
            {a: self.info(a) for a in present},
        )


class Match:
    """One match of a hand-written env, played action by action."""

    def __init__(self, env_class, options=None, **script):
        self.game = game_from(env_class, "scripted")(1, kwargs=script, **(options or {}))
        self.game.reset(np.array([0]), np.array([7]))
        self.returns = np.zeros(len(ALL))

    @property
    def env(self):
        return self.game.native(0)

    @property
    def due(self):
        return [int(seat) for block in self.game.due() for seat in block.seat]

    def step(self, *actions):
        """One action for each seat that is due, in order of the seats."""
        given = iter(actions)
        blocks = self.game.due()
        transition = self.game.step([np.stack([next(given) for _ in b.seat]) for b in blocks])
        self.returns += transition.rewards[0]
        return transition

    def seen(self, seat):
        return self.game.look(np.array([0]), np.array([seat]))[0].tolist()

    def was_cut(self):
        return self.game.was_cut(np.zeros(len(ALL), int), np.arange(len(ALL))).tolist()


def over(transition):
    """How the match ended: nothing while it goes on."""
    if not len(transition.ended):
        return None
    return EndReason(transition.reason[0]).name, bool(transition.truncated[0])


def rounded(values):
    return [round(float(value), 4) for value in values]


# ---------------------------------------------------------------- AEC


def test_agents_act_one_after_the_other_and_all_of_them_are_paid_at_once():
    match = Match(Turns, die={4: ALL})
    assert match.due == [0]
    assert match.seen(0) == pytest.approx([0.07, 0.07])
    assert rounded(match.step(3).rewards[0]) == [3.0, 0.3, 0.3]
    assert match.due == [1]
    assert match.seen(1) == pytest.approx([1.07] * 3)
    assert rounded(match.step(1).rewards[0]) == [0.1, 1.0, 0.1]
    assert match.due == [2]
    assert over(match.step(0)) is None
    assert over(match.step(2)) == ("FINISHED", False)
    assert rounded(match.returns) == [5.1, 1.5, 0.6]


def test_a_mask_of_parts_is_read_and_the_env_is_given_its_own_form():
    takes = {"a_0": Dict({"at": Box(-np.inf, np.inf, (1,)), "what": Tuple([Discrete(3), Discrete(2)])})}
    legal = {"at": None, "what": (np.array([0, 1, 1], np.int8), None)}
    match = Match(Crowd, takes=takes, mask=lambda agent, now: legal if agent == "a_0" else None)
    assert match.game.due()[0].mask.tolist() == [[False, True, True, True, True]]
    match.step(np.array([2.0, 1.0, -7.5], np.float32), 3, 0)
    action = match.env.told[0]["a_0"]
    assert (action["what"], action["at"].tolist()) == ((2, 1), [-7.5])
    assert takes["a_0"].contains(action)


def test_rewards_add_up_to_what_pettingzoo_itself_counts():
    script = {"die": {3: ["a_1"], 5: ["a_0"]}, "cut": {9: ["a_2"]}}
    env, match = Turns(**script), Match(Turns, **script)
    env.reset(seed=7)
    counted, rng = dict.fromkeys(ALL, 0.0), np.random.default_rng(0)
    for agent in env.agent_iter():
        _, reward, dead, cut, _ = env.last()
        counted[agent] += reward
        if dead or cut:
            env.step(None)
            continue
        action = int(rng.integers(4))
        env.step(action)
        assert match.due == [ALL.index(agent)]
        match.step(action)
    assert match.due == []
    assert rounded(match.returns) == rounded(counted.values())


def test_a_dead_agent_is_stepped_with_none_and_never_asked_again():
    match = Match(Turns, die={1: ["a_1"], 4: ["a_0", "a_2"]})
    asked = []
    while due := match.due:
        asked += due
        match.step(1)
    assert asked == [0, 2, 0, 2]
    assert match.env.told == [("a_0", 1), ("a_1", None), ("a_2", 1), ("a_0", 1), ("a_2", 1)]


def test_an_agent_that_comes_late_or_comes_back_is_asked_when_it_is_its_turn():
    match = Match(Turns, start=["a_0", "a_1"], die={1: ["a_1"], 4: ALL}, come={2: ["a_2"], 3: ["a_1"]})
    asked = []
    while due := match.due:
        asked += due
        match.step(1)
    assert asked == [0, 0, 2, 1]
    assert match.was_cut() == [False] * 3


def test_each_seat_is_terminated_or_truncated_on_its_own():
    match = Match(Turns, die={1: ["a_1"]}, cut={2: ["a_0", "a_2"]})
    assert over(match.step(1)) is None
    assert over(match.step(1)) == ("STEP_LIMIT", True)
    assert match.was_cut() == [True, False, True]
    assert match.seen(0) == pytest.approx([2.07, 2.07])  # what the value of the rest is estimated from
    assert match.seen(1) == [0.0] * 3  # it never acted


def test_all_who_live_see_the_end_of_a_match_that_is_cut_from_outside():
    match = Match(Turns, {"step_limit": 2}, die={1: ["a_1"]})
    match.step(1)
    assert over(match.step(1)) == ("STEP_LIMIT", True)
    assert match.was_cut() == [True, False, True]
    assert (match.seen(0), match.seen(2)) == (pytest.approx([2.07] * 2), pytest.approx([2.07] * 4))


def test_an_agent_that_stays_when_it_is_stepped_with_none_is_a_crash(caplog):
    class Undead(Turns):
        def _was_dead_step(self, action):
            assert action is None

    match = Match(Undead, die={1: ["a_1"]})
    assert over(match.step(1)) == ("CRASH", True)
    assert "'a_1' is dead, and stays" in caplog.text


# ---------------------------------------------------------------- masks


@pytest.mark.parametrize("env_class", [Turns, Crowd])
def test_a_mask_in_info_counts_where_given_and_an_illegal_action_never_comes_through(env_class):
    match = Match(env_class, mask=lambda agent, now: [0, 1, 1, 0] if agent == "a_0" and now == 0 else None)
    masks = [block.mask[0].tolist() for block in match.game.due()]
    assert masks[0] == [False, True, True, False]
    assert masks[1:] == [[True] * 4] * (len(masks) - 1)
    assert over(match.step(*[3] * len(masks))) == ("ILLEGAL_ACTION", False)
    assert match.env.told == []
    assert rounded(match.returns) == [-1.0, 0.5, 0.5]


class Board(Turns):
    """Its mask is in the observation, beside one entry, or two."""

    def __init__(self, entries=1, **script):
        super().__init__(**script)
        self._entries = entries
        parts = {f"part_{i}": Box(0, 9, (i + 1,), np.int8) for i in range(entries)}
        self._sees = {a: Dict({"action_mask": Box(0, 1, (4,), np.int8), **parts}) for a in ALL}

    def observe(self, agent):
        parts = {f"part_{i}": np.full(i + 1, self.now, np.int8) for i in range(self._entries)}
        return {**parts, "action_mask": np.array([0, 1, 0, 1], np.int8)}


def test_a_mask_in_the_observation_is_no_part_of_what_a_seat_sees():
    match = Match(Board)
    assert match.game.observation_spaces == (Box(0, 9, (1,), np.int8),) * 3
    (block,) = match.game.due()
    assert block.mask.tolist() == [[False, True, False, True]]
    assert block.observation.tolist() == [[0]]
    match = Match(Board, entries=2)
    assert [part.name for part in match.game.observation_specs[0].parts] == ["part_0", "part_1"]
    match.step(1)
    assert match.seen(1) == [1, 1, 1]


def test_without_masks_everything_is_legal_and_seen():
    match = Match(Board, {"mask": "none"})
    (block,) = match.game.due()
    assert block.mask.all()
    assert block.observation.tolist() == [[0, 1, 0, 1, 0]]


def test_several_choices_have_several_masks():
    takes = {"a_0": MultiDiscrete([2, 3])}
    match = Match(Turns, takes=takes, mask=lambda agent, now: (np.array([1, 0]), np.array([0, 1, 1])))
    (block,) = match.game.due()
    assert block.mask.tolist() == [[True, False, False, True, True]]


@pytest.mark.parametrize(
    ("env_class", "script", "options", "message"),
    [
        (Turns, {"mask": lambda agent, now: [0] * 4}, {}, "'a_0' must act, and has no legal action"),
        (Crowd, {"mask": lambda agent, now: [0] * 4}, {}, "agents are alive, and none has a legal action"),
        (Turns, {}, {"mask": "info"}, "mask is 'info', but the info of a seat is {}"),
        (Crowd, {"start": ()}, {}, "the env has no agents after its reset"),
    ],
)
def test_a_match_that_cannot_go_on_is_a_crash_that_says_why(env_class, script, options, message, caplog):
    match = Match(env_class, options, **script)
    assert match.due == []
    assert over(match.step()) == ("CRASH", True)
    assert message in caplog.text


# ---------------------------------------------------------------- Parallel


def test_all_agents_are_asked_at_once_and_told_together():
    match = Match(Crowd, cut={2: ALL})
    assert match.due == [0, 1, 2]
    assert rounded(match.step(0, 1, 2).rewards[0]) == [1.0, 1.0, 1.0]
    assert over(match.step(3, 3, 3)) == ("STEP_LIMIT", True)
    assert match.env.told == [{"a_0": 0, "a_1": 1, "a_2": 2}, dict.fromkeys(ALL, 3)]
    assert rounded(match.returns) == [3.0, 3.0, 3.0]
    assert match.was_cut() == [True] * 3
    assert match.seen(2) == pytest.approx([2.07] * 4)


def test_agents_leave_one_by_one_and_the_match_ends_with_the_last():
    match = Match(Crowd, die={1: ["a_1"], 3: ["a_0"]}, cut={2: ["a_2"]})
    asked, end = [], None
    while due := match.due:
        asked.append(due)
        end = over(match.step(*due))
    assert asked == [[0, 1, 2], [0, 2], [0]]
    assert end == ("STEP_LIMIT", True)
    assert match.was_cut() == [False, False, True]
    assert rounded(match.returns) == [6.0, 1.0, 3.0]
    assert match.seen(2) == pytest.approx([2.07] * 4)


def test_agents_that_come_late_or_come_back_are_asked_with_the_others():
    match = Match(Crowd, start=["a_0"], die={2: ["a_0"], 4: ALL}, come={1: ["a_2"], 3: ["a_0"]})
    asked = []
    while due := match.due:
        asked.append(due)
        match.step(*due)
    assert asked == [[0], [0, 2], [2], [0, 2]]


def test_an_agent_whose_mask_allows_nothing_waits():
    match = Match(Crowd, mask=lambda agent, now: [agent == ALL[now % 3]] * 4)
    for turn in (0, 1, 2, 0):
        assert match.due == [turn]
        match.step(3)
    assert [sorted(told.items()) for told in match.env.told] == [
        sorted({**dict.fromkeys(ALL, 0), ALL[turn]: 3}.items()) for turn in (0, 1, 2, 0)
    ]


def test_real_numbers_are_taken_beside_choices():
    takes = {"a_0": Box(-2.0, 2.0, (2, 1), np.float64), "a_2": MultiDiscrete([2, 5])}
    match = Match(Crowd, takes=takes)
    assert match.game.mixed_actions
    assert [spec.kind for spec in match.game.action_specs] == ["continuous", "discrete", "multi_discrete"]
    match.step(np.array([0.5, -2.0]), 3, np.array([1, 4]))
    (told,) = match.env.told
    assert all(match.env.action_space(agent).contains(action) for agent, action in told.items())
    assert (told["a_0"].tolist(), told["a_1"], told["a_2"].tolist()) == ([[0.5], [-2.0]], 3, [1, 4])


@pytest.mark.slow
@pytest.mark.parametrize("env_class", [Turns, Crowd])
def test_mixed_seats_keep_every_promise(env_class):
    script = {
        "die": {2: ["a_1"], 6: ["a_0", "a_2"]},
        "takes": {"a_0": Discrete(3, start=4)}
        if env_class is Turns
        else {"a_2": Box(-1, 1, (2,), np.float32)},
    }
    game = game_from(env_class, "scripted")
    checks = check_game(lambda n, more: game(n, kwargs=script, **more), num_matches=12)
    assert [c for c in checks if not c.passed] == []


# ---------------------------------------------------------------- what breaks
