"""A process that opens a run, checks all that earlier ones were promised, and writes until it is killed.

What it does goes line by line into a log, which outlives it as any file does that was written to: `opening`,
`opened`, `checked`, then `begun KIND NUMBER` and `done KIND NUMBER`; or `failed` and why.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import torch

import storage.archive
from storage.archive import Archive
from tests.storage.faults.checks import Promises, check, check_tables, items_of
from tests.storage.faults.workload import any_kind, create, small_ledger, write


def said(log: Path) -> Promises:
    """What the lives so far have begun and were told is done."""
    promises = Promises()
    for line in log.read_text().splitlines():
        match line.split():
            case [("begun" | "done") as phase, kind, number]:
                promises.hear(phase, kind, int(number))
    return promises


def live(run: Path, log: Path, seed: int, only_look: bool = False) -> None:
    """One life."""
    torch.set_num_threads(1)
    storage.archive.Ledger = small_ledger
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)

    def say(*words: object) -> None:
        os.write(handle, (" ".join(map(str, words)) + "\n").encode())

    promises = said(log)
    say("opening")
    try:
        archive = Archive.open(run) if run.exists() else create(run, say)
        say("opened")
        check(run, said(log))
        check_tables(run, items_of(archive))
        say("checked")
    except Exception as error:
        say("failed", f"{type(error).__name__}: {' '.join(str(error).split())}")
        raise
    rng = random.Random(seed)
    number = max((number for _, number in promises.begun), default=0)
    while not only_look:
        number += 1
        write(archive, any_kind(rng), number, say)
    archive.close()
