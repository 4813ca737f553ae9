"""What benchmarks share: their command line's parser, and rates by the clock."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable


def parser_of(about: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of the benchmark, line by line."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Return how much of `work` is done in a second, called for so long, and until some is done."""
    done, began = 0, time.perf_counter()
    while not done or time.perf_counter() - began < seconds:
        done += work()
    return done / (time.perf_counter() - began)
