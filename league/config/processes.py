"""Processes of a run on this machine: how many play, with how many threads each learner learns.

A runner plays with one thread. A learner's process has the cores that are left, up to a quarter of the
machine for all of them together, as threads of one process on busy cores wait for each other. On two cores
two runners and a learner are three processes: runners then give way, so that experience is learned from as
it comes.
"""

from __future__ import annotations

from dataclasses import dataclass

LEARNERS_PART = 4  # of the cores at most one in so many is for threads of learners
FEW_CORES = 2  # which runners share with the learners


@dataclass(frozen=True, slots=True)
class Processes:
    """Number of processes on `cores`, and threads of each that learns."""

    cores: int
    runners: int  # those of evaluation among them
    learners: int
    threads: int  # of each learner

    @property
    def crowded(self) -> bool:
        """Whether there are more threads that compute than cores: runners then give way to learners."""
        return self.runners + self.learners * self.threads > self.cores

    def sentence(self) -> str:
        """Return the schedule in one sentence."""
        plays, learns = _counted(self.runners, "runner"), _counted(self.learners, "learner process")
        threads = "" if self.threads == 1 else f" of {self.threads} threads"
        way = "; runners give way to learners" if self.crowded else ""
        return f"{_counted(self.cores, 'core')}: {plays} and {learns}{threads}{way}"


def runners_for(cores: int, learners: int, evaluation: int = 0) -> int:
    """Return how many runners fit beside so many learner processes: at least one.

    On one or two cores there is one on each: a learner that waits for experience needs no core.
    """
    taken = evaluation if cores <= FEW_CORES else learners + evaluation
    return max(1, cores - taken)


def threads_for(cores: int, runners: int, learners: int) -> int:
    """Return the threads of each learner beside so many runners: at least one."""
    return max(1, min(cores - runners, cores // LEARNERS_PART) // max(1, learners))


def _counted(n: int, what: str) -> str:
    plural = "es" if what.endswith("s") else "s"
    return f"{n} {what}{'' if n == 1 else plural}"
