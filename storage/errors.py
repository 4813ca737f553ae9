"""What can go wrong with memory, each as one sentence: where, found, expected, remedy."""


class StorageError(Exception):
    """Any failure of storage; its message is complete enough to be shown to a user as it is."""


class RunExists(StorageError):
    """A new run was asked for where one already lies."""


class NotARun(StorageError):
    """The folder is no run folder, or was written by a version that this one cannot read."""


class RunLocked(StorageError):
    """Another process is writing this run."""


class CorruptLedger(StorageError):
    """A frame of the ledger is damaged in a place where a crash cannot have damaged it."""


class CorruptBlob(StorageError):
    """A blob's bytes do not hash to its name, or are not safetensors."""


class UnknownSnapshot(StorageError):
    """No snapshot goes by that id or prefix."""


class WeightsMismatch(StorageError):
    """Stored tensors do not fit the policy that is to take them."""
