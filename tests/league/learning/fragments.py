"""Whole matches as the fragments in which a runner would have played them."""

from dataclasses import replace

import numpy as np

from league.episode import Episodes


def in_fragments(episodes, steps, memory_of=None):
    """The same experience in blocks, each with the next `steps` of every match that is not over.

    `memory_of(e, start)` gives the memory [S] that the network had before that step of episode `e`.
    """
    lengths = np.diff(episodes.offset)
    return [
        Episodes.concatenate(
            [
                piece(episodes, e, start, min(start + steps, length), memory_of)
                for e, length in enumerate(lengths.tolist())
                if start < length
            ]
        )
        for start in range(0, int(lengths.max()), steps)
    ]


def piece(episodes, e, start, end, memory_of=None):
    """Steps `start` to `end` of one episode, as a fragment."""
    own = episodes.take(np.array([e]))
    last = end == own.num_steps
    rows = slice(start, end)
    return replace(
        own,
        offset=np.array([0, end - start]),
        terminated=own.terminated & last,
        bootstrap=own.bootstrap if last else own.observation[end : end + 1],
        memory=None if memory_of is None else memory_of(e, start)[None],
        goes_on=np.array([not last]),
        **{
            name: getattr(own, name)[rows] for name in ("observation", "mask", "action", "log_prob", "reward")
        },
    )
