"""What an error of a call says: who died, or which object was lost, or that the code itself failed."""

import pytest

from league.cluster.calls import LONGEST, death_of, in_words
from league.cluster.cards import CardBroken, CardFull
from tests.league.fake_ray import ActorDiedError, FakeRay, ObjectLostError, RayError, task_error

ERRORS = FakeRay.exceptions
KILLED = """The actor died unexpectedly before finishing this task.
\tclass_name: RemoteRunner
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail:
Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes.
(1) The process is killed by SIGKILL by OOM killer due to high memory usage."""


def test_a_dead_process_is_told_from_a_lost_argument_of_a_living_one():
    """The second is an instance of the first one's error: an aggregator's death looked like its learner's."""
    died = ActorDiedError(KILLED, "a1")
    assert death_of(died, ERRORS).of == "process"
    by_argument = task_error(died)
    assert isinstance(by_argument, ActorDiedError)
    death = death_of(by_argument, ERRORS)
    assert (death.of, death.actor, death.cause) == ("object", "a1", "killed, or crashed")
    assert death_of(task_error(by_argument), ERRORS).of == "object"  # through two calls
    assert death_of(ObjectLostError("x was lost"), ERRORS).of == "object"
    assert death_of(task_error(ObjectLostError("x was lost")), ERRORS).of == "object"


def test_a_process_with_a_broken_card_is_as_good_as_dead_and_one_with_a_full_card_is_not():
    death = death_of(task_error(CardBroken("GPU 0 of n1 failed: CUDA error: x")), ERRORS)
    assert (death.of, death.cause) == ("process", "GPU 0 of n1 failed: CUDA error: x")
    assert death_of(task_error(task_error(CardBroken("x"))), ERRORS).of == "process"
    assert death_of(task_error(CardFull("GPU 0 of n1 has no memory left")), ERRORS) is None


def test_an_error_of_the_code_is_no_death():
    assert death_of(task_error(KeyError("main-0")), ERRORS) is None
    assert death_of(ValueError("x"), ERRORS) is None
    assert death_of(RayError("x"), ERRORS) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (KILLED, "killed, or crashed"),
        ("Task was killed due to the node running low on memory.", "out of memory"),
        ("The actor is dead because its node has died. Node Id: ab", "its node was lost"),
        ("The actor died because of an error raised in its creation task,\n  ModuleNotFoundError: no x\n",
         "ModuleNotFoundError: no x"),
        ("first\n\n   " + "long " * 99, ("long " * 99)[:LONGEST]),
        ("", "ActorDiedError"),
    ],
)  # fmt: skip
def test_causes_are_a_few_words(text, words):
    assert in_words(ActorDiedError(text)) == words
