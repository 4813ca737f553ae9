"""What a runner plays leaves nothing behind in it."""

import dataclasses
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

from league.rollout.env_runner import EnvRunner
from league.rollout.requests import PlaySetup
from league.rollout.settings import RolloutSettings


def parts(request, num_parts):
    """The request's snapshots, a few at a time, each part with matches of its own against main-0."""
    live, *snapshots = request.sources
    each, n = len(snapshots) // num_parts, len(request.matches)
    for part in range(num_parts):
        sources = (live, *snapshots[part * each : (part + 1) * each])
        seat = np.stack([np.zeros(n, np.int32), 1 + np.arange(n, dtype=np.int32) % each], axis=1)
        seat[::2] = seat[::2, ::-1]
        names = (live.player, *(source.snapshot_id for source in sources[1:]))
        matches = dataclasses.replace(request.matches, competitors=names, seat=seat, learning=seat == 0)
        yield dataclasses.replace(request, matches=matches, sources=sources)


@pytest.mark.long
def test_a_runner_holds_no_more_after_thirty_requests_than_after_ten(make_request):
    request, weights = make_request("tic_tac_toe", 400, snapshots=20)
    runner = EnvRunner(PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=200, policy_map_capacity=6)))
    requests = list(parts(request, 5))

    def held_after(rounds):
        """Objects that hold others, and bytes that Python and numpy hold."""
        for _ in range(rounds):
            for some in requests:
                _, _, episodes = runner.play(some, weights)
        gc.collect()
        of_one = sum(column.nbytes for column in vars_of(episodes["main-0"]))
        return len(gc.get_objects()), tracemalloc.get_traced_memory()[0], of_one

    tracemalloc.start()
    try:
        objects, held, _ = held_after(2)
        later, held_later, of_one = held_after(4)
    finally:
        tracemalloc.stop()
    assert later - objects < 20  # fewer than one for each request
    assert held_later - held < 2 * of_one  # of the twenty requests' episodes


def vars_of(episodes):
    columns = (getattr(episodes, field.name) for field in dataclasses.fields(episodes))
    return [column for column in columns if isinstance(column, np.ndarray)]


def test_episodes_are_handed_over_without_a_copy_of_their_arrays(make_request):
    """What Ray puts into its store by itself is a few hundred bytes; the arrays it takes as they lie."""
    request, weights = make_request("tic_tac_toe", 60)
    _, _, episodes = EnvRunner(PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=30))).play(request, weights)
    buffers = []
    head = pickle.dumps(episodes["main-0"], protocol=5, buffer_callback=buffers.append)
    assert len(head) < 1000
    assert sum(buffer.raw().nbytes for buffer in buffers) == sum(
        c.nbytes for c in vars_of(episodes["main-0"])
    )
    received = pickle.loads(head, buffers=buffers)
    assert np.shares_memory(received.observation, episodes["main-0"].observation)
