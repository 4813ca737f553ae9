"""Matches that are played in fragments are the same matches, and lose nothing at a cut."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from league.envs import registry
from league.learning.learner.learner import Learner
from league.learning.settings import LearnerSettings
from league.models.networks.networks import build_network
from league.rollout.env_runner import EnvRunner
from league.rollout.openings import Openings
from league.rollout.requests import Fragment, LiveSource, PlaySetup
from league.rollout.settings import RolloutSettings
from storage.records import EndReason, MatchBatch
from tests.league.rollout import conftest
from tests.league.rollout.conftest import LSTM, PLAIN, Signals

GRU = conftest.GRU.model_copy(update={"connectors": conftest.STACKED.connectors})
NONE = np.zeros(0, dtype=np.int64)


def runner(env, slots=128, **settings):
    return EnvRunner(PlaySetup(env, {}, RolloutSettings(slots=slots, **settings)))


def fragment_of(request, steps, goes_on=NONE, new=False, weights="newest", version=None, players=True):
    """The request of which a fragment is to be played; without `new`, one that only lets matches go on."""
    live = request.sources[0]
    live = live if version is None else dataclasses.replace(live, version=version)
    if new:
        sources = (live, *request.sources[1:])
        return dataclasses.replace(request, sources=sources, fragment=Fragment(steps, goes_on, (), weights))
    none = dataclasses.replace(request.matches.take(NONE), competitors=())
    others = (live,) if players else ()
    return dataclasses.replace(
        request,
        matches=none,
        sources=(),
        learners=request.learners if players else (),
        fragment=Fragment(steps, goes_on, others, weights),
    )


def play_in_fragments(runner, request, weights, steps):
    """All results, and the episodes of each fragment, of matches that go on until they are over."""
    results, fragments, unfinished = [], [], NONE
    first = True
    while first or len(unfinished):
        batch, info, episodes = runner.play(fragment_of(request, steps, unfinished, new=first), weights)
        results.append(batch)
        fragments.append(episodes["main-0"])
        unfinished, first = np.array(info.unfinished, dtype=np.int64), False
    return results, fragments


@pytest.fixture
def one_stream(monkeypatch):
    """Actions of all requests are drawn from one stream, so that a cut changes no draw."""

    def begin():
        rng = np.random.Generator(np.random.PCG64(7))
        monkeypatch.setattr(np.random, "default_rng", lambda seed: rng)

    return begin


def by_seat(fragments):
    """The fragments of each (match, seat), in order of time."""
    found = {}
    for episodes in fragments:
        for e in range(len(episodes)):
            episode = episodes[e]
            found.setdefault((episode.match_id, episode.seat), []).append(episode)
    return found


@pytest.mark.parametrize(("steps", "value_sees"), [(3, "seat"), (4, "all")])
def test_fragments_put_together_are_the_episodes_of_whole_matches(
    steps, value_sees, signals, make_request, one_stream
):
    own = GRU.model_copy(update={"value_sees": value_sees})
    request, weights = make_request(
        signals, 60, snapshots=[LSTM, PLAIN], bots=("random",), self_play=20, settings=own
    )
    weights["main-0"]["policy_head.weight"] *= 100.0  # other memories would give other actions
    one_stream()
    whole, _, by_learner = runner(signals, step_limit=13, record=1.0).play(request, weights)
    episodes = by_learner["main-0"]
    one_stream()
    results, fragments = play_in_fragments(
        runner(signals, step_limit=13, record=1.0), request, weights, steps
    )
    assert max(np.diff(part.offset).max() for part in fragments) <= steps

    ids = np.concatenate([part.matches.match_id for part in results])
    assert sorted(ids.tolist()) == whole.matches.match_id.tolist()  # each once
    for part in results:
        mine = part.matches.match_id - 1000
        for name in ("outcome", "score", "rank", "env_steps", "reason"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[mine], err_msg=name)
        for row, match in enumerate(mine.tolist()):
            assert part.matches[row] == whole.matches[match]
            own, theirs = part.recordings.take(np.array([row])), whole.recordings.take(np.array([match]))
            np.testing.assert_array_equal(own.action, theirs.action)

    found, goes_on = by_seat(fragments), {}
    for part in fragments:
        known = np.zeros(len(part), bool) if part.goes_on is None else part.goes_on
        for match, seat, going in zip(part.match_id, part.seat, known, strict=True):
            goes_on.setdefault((match, seat), []).append(going)
    assert len(found) == len(episodes)
    assert episodes.goes_on is None
    cuts = 0
    for e in range(len(episodes)):
        episode = episodes[e]
        parts = found[episode.match_id, episode.seat]
        for name in ("observation", "mask", "action", "log_prob", "reward"):
            joined = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(joined, getattr(episode, name), err_msg=name)
        for part, following in itertools.pairwise(parts):
            np.testing.assert_array_equal(part.bootstrap, following.observation[0])
            cuts += 1
        assert [bool(going) for going in goes_on[episode.match_id, episode.seat]] == [
            *[True] * (len(parts) - 1),
            False,
        ]
        assert (parts[-1].bootstrap is None) == (episode.bootstrap is None)
        if episode.bootstrap is not None:
            np.testing.assert_array_equal(parts[-1].bootstrap, episode.bootstrap)
    assert cuts > 30


class NothingAtThree(Signals):
    """In matches of every third seed no seat has a legal action after three steps."""

    def legal(self, slot, seat):
        ill = (self._seeds[slot] % 3 == 0) & (self._steps[slot] == 3)
        return super().legal(slot, seat) & ~ill[:, None]


def test_a_match_that_crashes_where_a_fragment_ends_is_over(own_module, make_request):
    env = own_module("games_that_stop", NothingAtThree=NothingAtThree) + ":NothingAtThree"
    request, weights = make_request(env, 60)
    batch, info, _ = runner(env).play(fragment_of(request, 3, new=True), weights)
    assert (batch.reason == EndReason.CRASH).all()
    assert (batch.matches.seed % 3 == 0).all()
    assert len(batch) == sum(info.crashes.values()) > 0
    assert len(batch) + len(info.unfinished) == 60


@pytest.mark.parametrize("loss", ["ppo", "appo"])
@pytest.mark.parametrize(("own", "value_sees"), [("gru", "seat"), ("gru", "all"), ("plain", "seat")])
def test_a_learner_joins_what_runners_have_cut(loss, own, value_sees, signals, make_request, one_stream):
    settings = {"gru": GRU, "plain": PLAIN}[own].model_copy(
        update={"value_sees": value_sees, "separate_value": value_sees == "all"}
    )
    request, weights = make_request(signals, 40, bots=("random",), self_play=20, settings=settings)
    one_stream()
    whole = runner(signals, step_limit=13).play(request, weights)[2]["main-0"]
    one_stream()
    _, fragments = play_in_fragments(runner(signals, step_limit=13), request, weights, 3)
    tensors = {name: torch.tensor(array) for name, array in weights["main-0"].items()}
    learning = LearnerSettings(loss=loss, batch_steps=whole.num_steps, gradient_norm=None)
    here, there = (Learner("main-0", request.sources[0].spec, learning, seed=0) for _ in range(2))
    for learner in (here, there):
        learner.reset(tensors)
    wanted = here.update_from_episodes(whole)
    reports = [report for part in fragments if (report := there.update_from_episodes(part)) is not None]
    assert here.env_steps == there.env_steps == whole.num_steps
    (found,) = reports  # all at once, when the last match has ended
    for name in ("policy_loss", "value_loss", "gradient_norm"):
        assert found[name] == pytest.approx(wanted[name], rel=1e-3, abs=1e-5), name


def test_a_fragment_begins_with_the_memory_that_its_network_had(signals, make_request):
    request, weights = make_request(signals, 30, self_play=10, settings=GRU)
    _, fragments = play_in_fragments(runner(signals), request, weights, 2)
    network = build_network(request.sources[0].spec)
    network.load_state_dict({name: torch.tensor(array) for name, array in weights["main-0"].items()})
    later = 0
    for parts in by_seat(fragments).values():
        memory = torch.zeros(1, network.memory_size)
        for part in parts:
            np.testing.assert_allclose(part.memory, memory[0].numpy(), atol=1e-5)
            later += bool(part.memory.any())
            layout = torch.arange(len(part.action))[:, None]
            with torch.no_grad():
                _, _, memory = network.unroll(torch.from_numpy(part.observation), layout, memory)
    assert later > 30


def test_networks_without_memory_and_whole_matches_carry_none(signals, make_request):
    request, weights = make_request(signals, 10)
    assert runner(signals).play(request, weights)[2]["main-0"].memory is None
    assert all(part.memory is None for part in play_in_fragments(runner(signals), request, weights, 3)[1])


def test_an_opening_goes_on_across_cuts_and_only_in_matches_that_have_one(make_request):
    request, weights = make_request("connect_four", 12, self_play=12)
    opened = dataclasses.replace(request, openings=Openings(7))
    whole, _, by_learner = runner("connect_four", record=1.0).play(opened, weights)
    player = runner("connect_four", record=1.0)
    player.play(fragment_of(opened, 3, new=True), weights)
    plain = dataclasses.replace(request, matches=_moved(request.matches, 500))
    asked = fragment_of(plain, 3, opened.matches.match_id, new=True)
    first = dict.fromkeys(range(1000, 1012), 0)
    results, goes_on = [], np.zeros(1)
    while len(goes_on):
        batch, info, episodes = player.play(asked, weights)
        results.append(batch)
        for match, length in zip(
            episodes["main-0"].match_id, np.diff(episodes["main-0"].offset), strict=True
        ):
            first[int(match)] = first.get(int(match), 0) + int(length)
        goes_on = np.array(info.unfinished, dtype=np.int64)
        asked = fragment_of(request, 3, goes_on)
    for part in results:
        for row, match in enumerate(part.matches.match_id.tolist()):
            learned = first[match]
            assert learned == part.env_steps[row] - 7 * (match < 1500)  # but for the opening, from all moves
            if match < 1500:
                ours, theirs = (
                    r.recordings.take(np.array([i])) for r, i in ((part, row), (whole, match - 1000))
                )
                np.testing.assert_array_equal(ours.action[:7], theirs.action[:7])
    assert by_learner["main-0"].num_steps == whole.env_steps.sum() - 7 * 12


def _slides(episode, frames):
    """Whether each observation [F * size] shows what the one before it did, but for its oldest frame."""
    seen = episode.observation
    if episode.bootstrap is not None:
        seen = np.concatenate([seen, episode.bootstrap[None]])
    size = seen.shape[1] // frames
    return np.array_equal(seen[1:, :-size], seen[:-1, size:])


@pytest.mark.parametrize("steps", [2, 3, 20])
def test_frames_follow_each_other_but_where_an_opening_begins_late(steps, signals, make_request):
    """Decisions of an opening are not recorded; that of a later request may begin within a match.

    The one that is missing may be the last of its request, behind one that is held back.
    """
    stacks = PLAIN.model_copy(update={"connectors": conftest.STACKED.connectors[:1]})
    request, weights = make_request(signals, 60, self_play=20, settings=stacks)
    opened = dataclasses.replace(request, openings=Openings(2))
    _, found = play_in_fragments(runner(signals, step_limit=8), opened, weights, steps)
    assert all(part.unbroken.all() for part in found)
    player, broken = runner(signals, step_limit=8), []
    _, info, _ = player.play(fragment_of(opened, 3, new=True), weights)
    late = dataclasses.replace(request, matches=_moved(request.matches, 500), openings=Openings(6))
    while info.unfinished:
        asked = fragment_of(late, steps, np.array(info.unfinished), new=not broken)
        _, info, by_learner = player.play(asked, weights)
        broken.append(by_learner["main-0"])
    assert not all(part.unbroken.all() for part in broken)
    for part in found + broken:
        slides = np.array([_slides(part[e], 3) for e in range(len(part))])
        assert slides[part.unbroken].all()
    assert sum(part.unbroken.sum() for part in found) > 50


# ---------------------------------------------------------------- who goes on with which weights


def acted_under(part, spec, weights):
    """Whether the steps of the episodes were drawn with these weights."""
    network = build_network(spec)
    network.load_state_dict({name: torch.tensor(array) for name, array in weights["main-0"].items()})
    with torch.no_grad():
        parameters, _ = network(torch.from_numpy(part.observation))
        legal = parameters.masked_fill(~torch.from_numpy(part.mask), -torch.inf).log_softmax(1)
    log_prob = legal[torch.arange(len(part.action)), torch.from_numpy(part.action)].numpy()
    return np.isclose(log_prob, part.log_prob, atol=1e-5)


@pytest.mark.parametrize("mode", ["newest", "began"])
def test_live_players_go_on_with_the_newest_weights_or_with_those_they_began_with(
    mode, signals, make_request
):
    request, old = make_request(signals, 30, self_play=30)
    new = {"main-0": {name: -3.0 * array for name, array in old["main-0"].items()}}
    player, spec = runner(signals), request.sources[0].spec
    player.play(fragment_of(request, 2, new=True, weights=mode), old)
    more = dataclasses.replace(request, matches=_moved(request.matches, 5000))
    goes_on = request.matches.match_id
    _, _, episodes = player.play(fragment_of(more, 2, goes_on, new=True, weights=mode, version=8), new)
    part = episodes["main-0"]
    step_of = np.repeat(np.arange(len(part)), np.diff(part.offset))
    of_first, under_new = part.match_id[step_of] < 5000, acted_under(part, spec, new)
    assert under_new[~of_first].all()
    if mode == "began":
        assert acted_under(part, spec, old)[of_first].all()
        assert set(part.version[part.match_id < 5000]) == {7}
    else:  # but for decisions that were held back
        assert under_new[of_first].mean() > 0.6
    assert set(part.version[part.match_id >= 5000]) == {8}


def _moved(matches, by) -> MatchBatch:
    return dataclasses.replace(matches, match_id=matches.match_id + by, seed=matches.seed + 1)


def test_a_snapshot_never_follows_the_live_weights(signals, make_request, one_stream):
    """Whatever the learner becomes meanwhile, its opponents act as they would against the same actions."""
    request, weights = make_request(signals, 40, snapshots=[GRU, PLAIN], settings=GRU)
    matches = dataclasses.replace(
        request.matches, seat=np.tile(np.array([[1, 2]], np.int32), (40, 1)), learning=np.zeros((40, 2), bool)
    )
    request = dataclasses.replace(request, matches=matches, learners=())
    one_stream()
    whole, _, _ = runner(signals, record=1.0).play(request, weights)
    one_stream()
    player, scores, unfinished = runner(signals, record=1.0), {}, NONE
    for turn in range(5):
        other = {"main-0": {name: array + turn for name, array in weights["main-0"].items()}}
        asked = fragment_of(request, 3, unfinished, new=turn == 0, version=turn, players=turn == 0)
        results, info, _ = player.play(asked, other)
        unfinished = np.array(info.unfinished, dtype=np.int64)
        scores |= dict(zip(results.matches.match_id.tolist(), results.score.tolist(), strict=True))
    assert scores == dict(zip(whole.matches.match_id.tolist(), whole.score.tolist(), strict=True))


# ---------------------------------------------------------------- what a runner does with the others


def test_matches_that_are_not_to_go_on_leave_no_result_and_free_their_slots(signals, make_request):
    request, weights = make_request(signals, 8)
    player = runner(signals, slots=8)
    _, info, _ = player.play(fragment_of(request, 2, new=True), weights)
    assert info.unfinished == tuple(range(1000, 1008))
    assert info.unfinished_steps > 8
    more = dataclasses.replace(request, matches=_moved(request.matches, 50))
    results, fragments = play_in_fragments(player, more, weights, 3)
    ended = np.concatenate([part.matches.match_id for part in results])
    assert sorted(ended.tolist()) == list(range(1050, 1058))
    assert all((part.match_id >= 1050).all() for part in fragments)


def test_matches_beyond_the_slots_wait_and_older_ones_begin_first(make_request):
    request, weights = make_request("tic_tac_toe", 20)
    player = runner("tic_tac_toe", slots=4)
    ended, unfinished, first = [], NONE, True
    while first or len(unfinished):
        asked = fragment_of(request, 4, unfinished, new=first)
        if len(ended) == 8:  # others come while some still wait
            moved = _moved(request.matches, 100)
            asked = dataclasses.replace(fragment_of(request, 4, unfinished, new=True), matches=moved)
        results, info, _ = player.play(asked, weights)
        ended += results.matches.match_id.tolist()
        unfinished, first = np.array(info.unfinished, dtype=np.int64), False
    assert len(ended) == len(set(ended)) == 40
    assert np.mean([ended.index(i) for i in range(1000, 1020)]) < 13  # evenly mixed it would be 19.5


def test_whole_matches_are_played_beside_unfinished_ones(signals, make_request):
    request, weights = make_request(signals, 8)
    alone = runner(signals, slots=8).play(request, weights)[0]
    player = runner(signals, slots=8)
    _, info, _ = player.play(fragment_of(request, 2, new=True), weights)
    between, _, _ = player.play(request, weights)
    np.testing.assert_array_equal(between.score, alone.score)
    goes_on = np.array(info.unfinished, dtype=np.int64)
    results, _, _ = player.play(fragment_of(request, 20, goes_on), weights)
    assert sorted(results.matches.match_id.tolist()) == list(range(1000, 1008))


def test_a_request_that_only_lets_matches_go_on_names_the_learners_of_old(make_request):
    request, weights = make_request("tic_tac_toe", 4)
    player = runner("tic_tac_toe")
    player.play(fragment_of(request, 20, new=True), weights)
    _, info, episodes = player.play(fragment_of(request, 5, request.matches.match_id), weights)
    assert (info.trained_steps, len(episodes["main-0"])) == ({"main-0": 0}, 0)


def test_an_abandoned_match_ends_no_other(make_request):
    for env in ("tic_tac_toe", "gymnasium:CartPole-v1"):
        game = registry.make(env, 4, **({"threads": 2} if ":" in env else {}))
        game.reset(np.arange(4), np.arange(4))
        for _ in range(2):
            game.step([np.zeros(len(block), np.int64) + block.mask.argmax(1) for block in game.due()])
        game.abandon(np.array([1, 3]))
        assert game.active.tolist() == [True, False, True, False]
        transition = game.step([block.mask.argmax(1) for block in game.due()])
        assert not len(transition.ended)
        game.reset(np.array([1]), np.array([9]))
        assert game.active.tolist() == [True, True, True, False]


def test_a_live_player_of_an_unfinished_match_needs_its_source(signals, make_request):
    request, weights = make_request(signals, 4)
    player = runner(signals)
    player.play(fragment_of(request, 2, new=True), weights)
    assert isinstance(request.sources[0], LiveSource)
    with pytest.raises(KeyError, match="main-0"):
        player.play(fragment_of(request, 2, request.matches.match_id, players=False), weights)


def test_a_fragment_ends_after_the_step_in_which_the_run_is_over_and_what_was_played_counts(
    make_request, signals
):
    request, weights = make_request(signals, 8)
    played = runner(signals, 8)
    played.overdue = lambda steps: steps > 2
    _, info, episodes = played.play(fragment_of(request, 50, new=True), weights)
    assert len(info.unfinished) == 8
    assert 0 < episodes["main-0"].num_steps <= info.unfinished_steps <= 2 * 2 * 8
