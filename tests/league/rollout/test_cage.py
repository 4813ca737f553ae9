"""Cages: a game that ends its process, or hangs in it, costs a request and no runner."""

import contextlib
import os
import signal
import time

import numpy as np
import psutil
import pytest

from league.envs.games.connect_four import ConnectFour
from league.forked import CAN_FORK
from league.rollout.cage import Cage, PlayKilled
from league.rollout.env_runner import EnvRunner
from league.rollout.remote_runner import RemoteRunner
from league.rollout.requests import PlaySetup
from league.rollout.settings import RolloutSettings
from tests.league.rollout.test_runner_group import fragment_of, same_episodes, same_results

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="this system cannot fork")

MODULE = "tests.league.rollout.test_cage"
SETTINGS = RolloutSettings(slots=32)
KILLS, HANGS, RAISES = 13, 14, 15  # seeds


class Fatal(ConnectFour):
    """Connect Four in which some seeds end the process, never end a step, or raise."""

    id = "fatal"

    def _reset(self, slots, seeds):
        if (seeds == KILLS).any():
            os.kill(os.getpid(), signal.SIGSEGV)
        while (seeds == HANGS).any():
            time.sleep(0.01)
        if (seeds == RAISES).any():
            raise Odd(1, 2)
        super()._reset(slots, seeds)


class Odd(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, one, other):
        super().__init__("odd")


@pytest.fixture
def cage():
    made = []

    def make(env=f"{MODULE}:Fatal", patience="auto"):
        made.append(Cage(PlaySetup(env, {}, SETTINGS, patience=patience)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def with_seed(request, seed):
    request.matches.seed[0] = seed
    return request


def killed(cage, request, weights):
    with pytest.raises(PlayKilled) as caught:
        cage.play(request, weights)
    return caught.value


def pids(cage):
    return [inmate.pid for inmate in cage._inmates.values()]


@pytest.mark.slow
def test_a_cage_plays_bit_for_bit_what_a_runner_plays(cage, make_request):
    request, weights = make_request("tic_tac_toe", 40, self_play=6)
    own = cage("tic_tac_toe")
    results, info, episodes = own.play(request, weights)
    expected, theirs, learned = EnvRunner(PlaySetup("tic_tac_toe", {}, SETTINGS)).play(request, weights)
    same_results(results, expected)
    same_episodes(episodes["main-0"], learned["main-0"])
    assert (info.env_steps, info.trained_steps) == (theirs.env_steps, theirs.trained_steps)
    assert info.process.endswith(f":{os.getpid()}")  # the runner's own, whichever process plays
    before = pids(own)
    own.play(request, weights)
    assert pids(own) == before  # one process plays all that kills nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "patience", "how"), [(KILLS, "auto", "killed by SIGSEGV"), (HANGS, 1.0, "did not answer for ")]
)
def test_a_game_that_ends_its_process_or_hangs_fails_its_request_and_the_next_one_is_played(
    cage, make_request, seed, patience, how
):
    own = cage(patience=patience)
    request, weights = make_request("connect_four", 6)
    assert killed(own, with_seed(request, seed), weights).how.startswith(how)
    results, *_ = own.play(with_seed(request, 1), weights)
    assert len(results) == 6


@pytest.mark.slow
def test_a_process_that_was_killed_while_it_was_idle_costs_no_request(cage, make_request):
    own = cage()
    request, weights = make_request("connect_four", 6)
    own.play(with_seed(request, 1), weights)
    (pid,) = pids(own)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert len(own.play(request, weights)[0]) == 6


@pytest.mark.slow
def test_an_error_inside_is_raised_as_what_it_is_and_ends_no_process(cage, make_request):
    own = cage()
    request, weights = make_request("connect_four", 6)
    own.play(with_seed(request, 1), weights)
    before = pids(own)
    with pytest.raises(KeyError, match="main-0"):
        own.play(request, {})
    _, info, _ = own.play(with_seed(request, RAISES), weights)
    assert sum(info.crashes.values()) > 0  # the guard contains what a game raises
    assert pids(own) == before


@pytest.mark.slow
def test_what_is_played_alone_kills_none_of_the_matches_that_go_on(cage, make_request):
    own = cage()
    request, weights = make_request("connect_four", 20)
    _, info, _ = own.play(fragment_of(with_seed(request, 1), 4, [], new=True), weights)
    going_on = list(info.unfinished)
    assert len(going_on) > 3
    alone, others = make_request("connect_four", 6, seed=5)
    assert killed(own, with_seed(alone, KILLS), others).others_go_on
    results, info, _ = own.play(with_seed(alone, 1), others)
    assert (len(results), list(info.unfinished)) == (6, going_on)
    results, info, _ = own.play(fragment_of(request, 50, going_on, new=False), weights)
    assert sorted(results.matches.match_id.tolist()) == sorted(going_on)
    assert info.unfinished == ()


@pytest.mark.slow
def test_a_caged_runner_leaves_its_cage_when_no_match_goes_on_there(make_request):
    runner = RemoteRunner(PlaySetup("connect_four", {}, SETTINGS, caged=True))
    request, weights = make_request("connect_four", 20)
    players = list(weights)
    (_, info), _ = runner.play_remotely(fragment_of(request, 4, [], new=True), players, *weights.values())
    runner.leave_cage()
    inside = runner._cage
    going_on = list(info.unfinished)
    rest = fragment_of(request, 50, going_on, new=False)
    (results, _), _ = runner.play_remotely(rest, players, *weights.values())
    assert sorted(results.matches.match_id.tolist()) == sorted(going_on)
    runner.play_remotely(request, players, *weights.values())
    assert runner._cage is None
    assert pids(inside) == []


@pytest.mark.slow
def test_a_process_in_a_loop_without_an_end_ends_with_its_runner(make_request, tmp_path):
    request, weights = make_request("connect_four", 6)
    told = tmp_path / "pid"
    runner = os.fork()
    if not runner:  # a runner that is killed while its process hangs
        with contextlib.suppress(BaseException):
            own = Cage(PlaySetup(f"{MODULE}:Fatal", {}, SETTINGS))
            own._inmate(False)
            told.write_text(str(pids(own)[0]))
            own.play(with_seed(request, HANGS), weights)
        os._exit(0)
    give_up = time.monotonic() + 60
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    pid = int(told.read_text())
    os.kill(runner, signal.SIGKILL)
    os.waitpid(runner, 0)
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_forks_do_not_draw_the_same_numbers(cage, make_request):
    own = cage(f"{MODULE}:Drawing")
    request, weights = make_request("connect_four", 1)
    drawn = set()
    for _ in range(2):
        results, *_ = own.play(request, weights)
        drawn.add(float(results.score[0, 0]))
        own.close()
    assert len(drawn) == 2


class Drawing(ConnectFour):
    """Connect Four that pays what numpy's own generator draws."""

    id = "drawing"

    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._rewards[slot, 0] = np.random.random()
