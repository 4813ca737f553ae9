"""The errors of storage, each as one sentence: where, found, expected, remedy."""


def printable(text: str) -> str:
    """Return `text` with control characters escaped: a name may contain terminal commands."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


class Mistake(Exception):
    """A mistake that the user can correct: the message has where, found, expected, remedy (exit code 2)."""


class UnfitNode(Mistake):
    """This machine cannot do its part of the work; others may."""


class Failure(Exception):
    """A failure that ends a run; the message is all that a user needs to see (exit code 1)."""


class StorageError(Failure):
    """Any failure of storage; the message is complete enough to be shown to a user as it is."""


class RunExists(StorageError, Mistake):
    """A new run was requested where one exists already."""


class NotARun(StorageError, Mistake):
    """The folder is no run folder, or was written by a version that this one cannot read."""


class RunLocked(StorageError, Mistake):
    """Another process is writing this run."""


class RunTaken(StorageError):
    """Another process went on with this run while this one was cut off: it may write nothing more."""


class DiskFailed(StorageError):
    """A file could not be written, synced, renamed or removed: full, read-only or broken disk."""


class CorruptLedger(StorageError):
    """A frame of the ledger is damaged in a place where a crash cannot have damaged it."""


class CorruptBlob(StorageError):
    """A blob's bytes do not hash to its name, or are not safetensors."""


class BlobMissing(CorruptBlob):
    """No place that this node reaches has the blob."""


class UnknownSnapshot(StorageError, Mistake):
    """No snapshot has that id or prefix."""


class WeightsMismatch(StorageError, Mistake):
    """Stored tensors do not fit the policy that loads them."""


class BadQuery(StorageError, Mistake):
    """SQL that DuckDB refuses, or that took longer than it may."""
