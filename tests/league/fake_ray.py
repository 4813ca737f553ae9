"""Ray in this process, for tests of what follows a death: no cluster, no waiting, deaths on demand.

    fake = FakeRay()                      # stands for the module `ray`
    fake.kill(actor)                      # its calls under way, and all later ones, fail as Ray's do
    fake.hold(actor), fake.go_on(actor)   # calls of a held actor wait
    fake.lose(reference)                  # the object went with its node
    fake.waiting.add(actor)               # has no process: it waits for room on a node
    fake.clock()                          # seconds, which pass only where nothing comes of a wait
    raise Dies("...")                     # in a method of an actor: its process ends there

Calls of an actor are carried out in order, when a result is looked for. An argument that is lost makes the
call fail with an error that is a `RayTaskError` and an instance of its cause, as with Ray.
"""

from __future__ import annotations

import sys
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from league.cluster.calls import Inside
from league.rollout.requests import PlaySetup
from league.rollout.settings import RolloutSettings

SETUP = PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=8, requests_in_flight=2))  # of fake runners


class RayError(Exception):
    pass


class RayActorError(RayError):
    def __init__(self, message="", actor_id=None):
        super().__init__(message)
        self.actor_id = actor_id


class ActorDiedError(RayActorError):
    pass


class ActorUnavailableError(RayActorError):
    pass


class ObjectLostError(RayError):
    pass


class GetTimeoutError(RayError):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause


def task_error(cause):
    """The error of a call whose code raised `cause`, as `ray.get` raises it."""
    if isinstance(cause, RayTaskError):
        cause = cause.cause

    class Dual(RayTaskError, type(cause)):
        def __init__(self, cause):
            self.cause = cause

        def __str__(self):
            return str(self.cause)

    return Dual(cause)


class Dies(BaseException):
    """Raised by the code of an actor: its process ends."""


class Reference:
    """Result of a call, or an object that was put."""

    def __init__(self):
        self.done, self.value, self.error = False, None, None

    def future(self):
        return Future()  # nothing announces itself: a group finds it when it looks


class Actor:
    """Process of one object, made when it gets its first call."""

    def __init__(self, fake, made, arguments, options):
        self._fake, self._made, self._arguments = fake, made, arguments
        self.options_given = options
        self.held = False
        self.dead = ""
        self.calls: list[Any] = []
        self.instance: Any = None
        self._actor_id = SimpleNamespace(hex=lambda: f"{id(self):x}")
        fake.actors.append(self)

    def __getattr__(self, method):
        if method.startswith("_"):
            raise AttributeError(method)
        return Method(self, method)


class Method:
    def __init__(self, actor, name, num_returns=1):
        self._actor, self._name, self._num_returns = actor, name, num_returns

    def options(self, num_returns=1):
        return Method(self._actor, self._name, num_returns)

    def remote(self, *arguments):
        references = [Reference() for _ in range(self._num_returns)]
        self._actor.calls.append((self._name, arguments, references))
        return references[0] if self._num_returns == 1 else references


class Made:
    def __init__(self, fake, made, options=None):
        self._fake, self._made, self._options = fake, made, options or {}

    def options(self, **options):
        return Made(self._fake, self._made, {**self._options, **options})

    def remote(self, *arguments):
        return Actor(self._fake, self._made, arguments, self._options)


class FakeRay:
    """The functions of the module `ray` that the groups call."""

    ObjectRef = Reference
    exceptions = SimpleNamespace(
        RayError=RayError,
        RayActorError=RayActorError,
        ActorDiedError=ActorDiedError,
        ActorUnavailableError=ActorUnavailableError,
        ObjectLostError=ObjectLostError,
        GetTimeoutError=GetTimeoutError,
        RayTaskError=RayTaskError,
    )

    def __init__(self):
        self.actors: list[Actor] = []
        self.seconds = 0.0
        self.waiting: set[Any] = set()
        self._private = SimpleNamespace(state=SimpleNamespace(actors=self._process_of))

    def _process_of(self, actor_id):
        return {"Pid": 0 if actor_id in {actor._actor_id.hex() for actor in self.waiting} else 1}

    def clock(self):
        return self.seconds

    def remote(self, made):
        return Made(self, made)

    def put(self, value):
        reference = Reference()
        reference.done, reference.value = True, value
        return reference

    def get(self, references, timeout=None):
        if isinstance(references, list):
            return [self.get(reference, timeout) for reference in references]
        self._work()
        if not references.done:
            assert timeout is not None, "nothing would ever give this result"
            raise GetTimeoutError
        if references.error is not None:
            raise references.error
        return references.value

    def wait(self, references, num_returns=1, timeout=None, fetch_local=True):
        self._work()
        assert len(set(references)) == len(references)
        done = [reference for reference in references if reference.done][:num_returns]
        assert done or timeout is not None, "nothing would ever be ready"
        if not done:
            self.seconds += timeout
        return done, [reference for reference in references if reference not in done]

    def kill(self, actor, no_restart=True, why="Worker unexpectedly exits with a connection error code 2."):
        actor.dead = actor.dead or why

    def hold(self, actor):
        actor.held = True

    def go_on(self, actor):
        actor.held = False

    def lose(self, reference):
        self._work()
        reference.done, reference.error = True, ObjectLostError("the object was lost")

    def living(self):
        return [actor for actor in self.actors if not actor.dead]

    def _work(self):
        busy = True
        while busy:
            worked = [self._one_call(actor) for actor in self.actors]
            busy = any(worked)

    def _one_call(self, actor):
        if not actor.calls or (actor.held and not actor.dead):
            return False
        name, arguments, references = actor.calls[0]
        waited = [a.reference if isinstance(a, Inside) else a for a in arguments]
        if not actor.dead and any(isinstance(a, Reference) and not a.done for a in waited):
            return False  # an argument is not there yet, for which Ray or the actor waits
        actor.calls.pop(0)
        if actor.dead:
            self._fail(references, ActorDiedError(actor.dead, actor._actor_id.hex()))
            return True
        try:
            given = []
            for argument in arguments:
                if isinstance(argument, Reference) and argument.error is not None:
                    raise argument.error
                given.append(argument.value if isinstance(argument, Reference) else argument)
            if actor.instance is None:
                actor.instance = actor._made(*actor._arguments)
            value = getattr(actor.instance, name)(*given)
        except Dies as death:
            actor.dead = str(death) or "Worker unexpectedly exits with a connection error code 2."
            self._fail(references, ActorDiedError(actor.dead, actor._actor_id.hex()))
            return True
        except Exception as error:
            self._fail(references, task_error(error))
            return True
        values = [value] if len(references) == 1 else value
        for reference, own in zip(references, values, strict=True):
            if not reference.done:  # else it is lost
                reference.done, reference.value = True, own
        return True

    @staticmethod
    def _fail(references, error):
        for reference in references:
            reference.done, reference.error = True, error


def fake_runners(monkeypatch, runner):
    """Put a fake in the place of Ray, whose runners are of the class `runner`; return the fake."""
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr("league.rollout.dispatch.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("league.rollout.runner_group.RemoteRunner", runner)
    return fake


def asked(name="plain", size=8, *, others_go_on=False):
    """A request to a fake runner."""
    return SimpleNamespace(name=name, learners=(), kind="usual", size=size, others_go_on=others_go_on)


def come(group, turns=5):
    """Ids of the requests that come in so many turns of a group."""
    return sorted(rollout.request_id for _ in range(turns) for rollout in group.ready(0.0))
