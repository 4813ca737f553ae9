"""The least loaded of many runners."""

from hypothesis import given
from hypothesis import strategies as st

from league.rollout.waiting.idlest import Idlest


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, -1, 0])), max_size=200))
def test_the_least_loaded_runner_that_is_here_is_the_first_by_number(events):
    load, away = [0] * 5, set()
    idlest = Idlest(load, lambda runner: runner not in away)
    for runner in range(5):
        idlest.note(runner)
    for runner, step in events:
        if step:
            load[runner] = max(0, load[runner] + step)
        elif runner in away:
            away.remove(runner)
        else:
            away.add(runner)
        idlest.note(runner)
        here = [runner for runner in range(5) if runner not in away]
        assert idlest.first() == (min(here, key=load.__getitem__) if here else None)
