"""What can go wrong with memory, each as one sentence: where, found, expected, remedy."""


class Mistake(Exception):
    """What a user can put right: its message says where, found, expected, remedy (exit code 2)."""


class Failure(Exception):
    """What a run cannot go on after; its message is all that a user needs to see (exit code 1)."""


class StorageError(Failure):
    """Any failure of storage; its message is complete enough to be shown to a user as it is."""


class RunExists(StorageError, Mistake):
    """A new run was asked for where one already lies."""


class NotARun(StorageError, Mistake):
    """The folder is no run folder, or was written by a version that this one cannot read."""


class RunLocked(StorageError, Mistake):
    """Another process is writing this run."""


class DiskFailed(StorageError):
    """A file could not be written, synced, renamed or removed: full, read-only or broken disk."""


class CorruptLedger(StorageError):
    """A frame of the ledger is damaged in a place where a crash cannot have damaged it."""


class CorruptBlob(StorageError):
    """A blob's bytes do not hash to its name, or are not safetensors."""


class UnknownSnapshot(StorageError, Mistake):
    """No snapshot goes by that id or prefix."""


class WeightsMismatch(StorageError, Mistake):
    """Stored tensors do not fit the policy that is to take them."""


class BadQuery(StorageError, Mistake):
    """SQL that DuckDB refuses, or that took longer than it may."""
