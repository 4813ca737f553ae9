"""What benchmarks share: their command line's parser, rates by the clock, and work on several cores."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

R = TypeVar("R")


def parser_of(about: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of the benchmark, line by line."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Return how much of `work` is done in a second, called for so long, and until some is done."""
    done, began = 0, time.perf_counter()
    while not done or time.perf_counter() - began < seconds:
        done += work()
    return done / (time.perf_counter() - began)


def done_by(processes: int, work: Callable[[int], R], items: Iterable[int]) -> list[R]:
    """Return `work` of each item, in their order; more than one of the processes are others than this."""
    if processes == 1:
        return [work(item) for item in items]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(work, items, chunksize=4))
