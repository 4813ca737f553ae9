"""A node on which fails what others do gets nothing to do; what fails on all is the user's mistake."""

import errno
from types import SimpleNamespace
from typing import ClassVar

import pytest

from league.cluster.fitness import AGAIN_SECONDS, STARTS, fitness, sentence_of
from league.cluster.nodes import NODE_LABEL, Node, Seen
from league.rollout.runner_group import MOST_STARTS, RayRunnerGroup
from storage.errors import DiskFailed, Failure, Mistake, UnfitNode
from tests.league.fake_ray import SETUP, Dies, asked, come, fake_runners

CPUS = {"CPU": 4.0}
FULL = OSError(errno.ENOSPC, "No space left on device", "/cache/x")


class Playing:
    """Runner that is on the first node of `free`, of those that its options allow."""

    free: ClassVar[list[str]] = []
    at_begin: ClassVar[dict[str, BaseException]] = {}  # what a node raises when a runner begins there
    at_play: ClassVar[dict[str, BaseException]] = {}

    def __init__(self, setup):
        self.mine = Playing.free.pop(0)

    def where(self):
        if self.mine in Playing.at_begin:
            raise Playing.at_begin[self.mine]
        return f"worker/{self.mine}"

    def play_remotely(self, request, players, *weights):
        if self.mine in Playing.at_play:
            raise Playing.at_play[self.mine]
        return request.name, SimpleNamespace(process="worker:12")


def seen(*names):
    return Seen({name: Node("worker", CPUS, f"10.0.0.{i}") for i, name in enumerate(names)})


@pytest.fixture
def fake(monkeypatch):
    fake = fake_runners(monkeypatch, Playing)
    for name in ("free", "at_begin", "at_play"):
        monkeypatch.setattr(Playing, name, type(getattr(Playing, name))())
    monkeypatch.setattr("league.rollout.runner_group.node_of", lambda ray, actor: actor.instance.mine)
    monkeypatch.setattr(fitness, "_looks", lambda: seen("a", "b"))
    fitness.begin({})
    yield fake
    fitness.begin({})


def test_runners_of_a_node_that_fails_begin_elsewhere_with_one_incident(fake):
    """An error of one node's cache ended the whole league, and did not name the node."""
    Playing.free = ["a", "a", "b", "b", "b"]
    Playing.at_play = {"a": UnfitNode("/cache: others can write to it")}
    group = RayRunnerGroup(3, SETUP)
    come(group)
    assert group._at == ["a", "a", "b"]
    for i in range(3):
        group.submit(i, asked(), {}, runner=i)
    assert come(group) == [2]
    assert group._at == ["b", "b", "b"]
    (lost,) = group.losses()
    assert sorted(lost.requests) == [0, 1]  # to be played again
    assert lost.suspect is None
    assert lost.incident.sentence() == (
        "node worker (10.0.0.0, a) is unfit (/cache: others can write to it): cost nothing; it gets nothing "
        "to do, and is tried again after 60 s"
    )
    selectors = [actor.options_given["label_selector"] for actor in fake.living()]
    assert selectors == [None, *[{NODE_LABEL: "!in(a)"}] * 2]
    assert group.room() == 6


@pytest.mark.parametrize("error", [FULL, MemoryError(), ModuleNotFoundError("No module named 'pyspiel'")])
def test_a_node_on_which_no_runner_can_begin_gets_none(fake, error):
    Playing.free = ["a", "b", "b"]
    Playing.at_begin = {"a": error}
    group = RayRunnerGroup(2, SETUP)
    come(group)
    assert group._at == ["b", "b"]
    (lost,) = group.losses()
    assert lost.incident.cause == sentence_of(error)
    assert ";" in lost.incident.cause  # a remedy


def test_a_node_on_which_runners_die_before_they_begin_gets_none(fake, monkeypatch):
    """As they do where this package is missing: the code that would report it is not there."""
    Playing.free = ["a", "b", "a", "b", "b"]
    Playing.at_begin = {"a": Dies("creation task\n  ModuleNotFoundError: No module named 'league'")}
    group = RayRunnerGroup(2, SETUP)
    come(group)
    assert group._at == ["b", "b"]
    incidents = [lost.incident for lost in group.losses()]
    assert [incident.kind for incident in incidents] == ["runner"] * (STARTS - 1) + ["node"]
    assert "No module named 'league'" in incidents[-1].cause


def test_what_fails_on_every_node_is_raised_as_it_is(fake):
    Playing.free = ["a", "b", "b"]
    Playing.at_play = {"a": KeyError("my game"), "b": KeyError("my game")}
    group = RayRunnerGroup(2, SETUP)
    come(group)
    for i in range(2):
        group.submit(i, asked(), {}, runner=i)
    with pytest.raises(KeyError, match="my game"):
        come(group)


def test_an_error_of_the_only_node_is_one_sentence(fake, monkeypatch):
    monkeypatch.setattr(fitness, "_looks", lambda: seen("a"))
    Playing.free = ["a"]
    group = RayRunnerGroup(1, SETUP)
    come(group)
    Playing.at_play = {"a": DiskFailed("/cache: cannot be written to; set storage.cache_folder")}
    group.submit(0, asked(), {})
    with pytest.raises(Mistake, match=r"^node worker: /cache: cannot be written to; set storage\.cache"):
        come(group)
    Playing.at_play = {}
    group.submit(1, asked(), {})
    assert come(group) == [1]
    Playing.at_play = {"a": FULL}
    group.submit(2, asked(), {})
    with pytest.raises(Failure, match=r"No space left .* make room there, or set storage\.cache_folder"):
        come(group)
    assert group.in_flight() == 0


def test_an_unfit_node_is_tried_again_and_gets_work_when_it_is_fit(fake, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 0.0, now=0.0)
    monkeypatch.setattr("league.cluster.fitness.time", clock)
    Playing.free = ["a", "b", "b", "a", "a", "b"]
    Playing.at_begin = {"a": FULL}
    group = RayRunnerGroup(2, SETUP)
    come(group)
    fake.hold(group._actors[0])  # there is no room but on the node that is unfit
    both = seen("a", "b")

    def looks(times=3):
        return [line for _ in range(times) for line in group.follow(both, {}, hold=False) if "fit" in line]

    assert looks() == []
    clock.now = AGAIN_SECONDS
    assert looks() == []
    assert "a" in fitness
    Playing.at_begin = {}
    clock.now = 2 * AGAIN_SECONDS
    assert looks() == []  # after twice as long
    clock.now = 3 * AGAIN_SECONDS
    assert looks() == ["node worker (10.0.0.0, a) is fit again, and gets work"]
    assert fitness.selector() is None
    assert len(fake.living()) == 2  # what tried it has ended
    assert len(group.losses()) == 1


def test_a_node_that_is_gone_is_forgotten(fake):
    fitness.begin({"a": "it lacks the module pyspiel"})
    group = RayRunnerGroup(0, SETUP)
    (told,) = group.losses()
    assert told.incident.who == "node worker (10.0.0.0, a)"
    assert group.losses() == []
    group.follow(seen("b"), {}, hold=False)
    assert "a" not in fitness


def test_a_league_that_no_node_can_play_still_ends(fake, monkeypatch):
    monkeypatch.setattr(fitness, "_looks", lambda: seen("a"))
    Playing.free = ["a"] * 99
    Playing.at_begin = {"a": Dies("x")}
    group = RayRunnerGroup(1, SETUP)
    with pytest.raises(Failure, match=f"each died {MOST_STARTS} times in a row"):
        come(group, 50)
