"""GPUs: in which precision they compute, whether to the bit, and what is left to do when one fails.

A failure that CUDA reports once is reported by every later call of the process: it cannot use the card any
more. So such an error (`CardBroken`) counts as the death of a learner's or runner's process, which is
replaced. A card without free memory (`CardFull`) works on: what asked for too much is stopped.

This module imports torch where it is used: callers that only look at errors need none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
from collections.abc import Iterator
from typing import Any

from storage.errors import Failure, Mistake

FULL = ("CUDA out of memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
BROKEN = (
    "CUDA error",
    "CUDA driver error",
    "CUBLAS_STATUS_",
    "CUDNN_STATUS_",
    "cuDNN error",
    "unhandled cuda",
)
# errors of what was called, after which the card works on
OF_CALLS = ("error: invalid ", "no kernel image", "_BAD_PARAM", "_INVALID_VALUE", "_NOT_SUPPORTED")
SIZES = re.compile(r"Tried to allocate ([\d.]+ \w+).*?capacity of ([\d.]+ \w+).*?which ([\d.]+ \w+) is free")
ALLOWED = re.compile(r"Tried to allocate ([\d.]+ \w+).* ([\d.]+ \w+) allowed", re.DOTALL)
LONGEST = 160  # characters of CUDA's own message
TO_LEARN = (
    "set learner.micro_steps to fewer than learner.batch_steps, or learner.precision to bfloat16; if weights "
    "alone have no room, resources.gpus to more"
)
TO_PLAY = (
    "lower rollout.policy_map_capacity, policy_map_bytes or slots, or let fewer processes share a card "
    "(resources.gpus_per_runner)"
)


class CardBroken(Failure):
    """A GPU that this process cannot use any more."""


class CardFull(Failure):
    """A GPU without the memory that was asked for; it works on."""


_broken: list[BaseException] = []  # in this process


def is_broken() -> bool:
    """Return whether a GPU has failed that this process used."""
    return bool(_broken)


def failure_of(
    error: BaseException, who: str = "", remedy: str = "", number: int | None = None
) -> CardBroken | CardFull | None:
    """Return what an error says about a GPU; `None` if it is not about one.

    `who` needs the card, such as "player main-0", of this `number` in this process; `None`: its first one.
    `remedy`: what to do if it has no memory left.
    """
    if not isinstance(error, RuntimeError):
        return None
    text, card = str(error), f"{who}: " * bool(who) + _name(number or 0)
    if any(part in text for part in FULL):
        asked = ""
        if found := ALLOWED.search(text):
            asked = ": {} more were asked for than the {} that this process may take".format(*found.groups())
        elif found := SIZES.search(text):
            asked = ": {} were asked for, {} of {} were free".format(*found.group(1, 3, 2))
        return CardFull(f"{card} has no memory left{asked}" + (f"; {remedy}" if remedy else ""))
    if any(part in text for part in BROKEN) and not any(part in text for part in OF_CALLS):
        _broken.append(error)
        # never freed, not even when Python ends: to free what its frames hold on the card aborts the process
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
        lines = [line.strip() for line in text.splitlines() if any(part in line for part in BROKEN)]
        return CardBroken(f"{card} failed: {lines[0][:LONGEST]}")
    return None


def _name(number: int) -> str:
    """Return the name by which its machine knows this process's GPU of that number."""
    shown = [card for card in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if card]
    return f"GPU {shown[number] if number < len(shown) else number} of {socket.gethostname()}"


def limit_memory(part: float) -> None:
    """Let this process take so much of the memory of its GPU, if that is less than all of it."""
    if 0.0 < part < 1.0:
        import torch

        torch.cuda.set_per_process_memory_fraction(part)


@contextlib.contextmanager
def card_errors(who: str, remedy: str, number: int | None = None) -> Iterator[None]:
    """Raise CardBroken or CardFull in place of torch's errors of a GPU, in one sentence.

    `number`: that of the GPU in this process; `None`: its first one.
    """
    try:
        yield
    except RuntimeError as error:
        failure = failure_of(error, who, remedy, number)
        if failure is None:
            raise
        raise failure from error


# ------------------------------------------------------------------ precision


AMPERE = (8, 0)  # compute capability of the first GPUs with TF32 and bfloat16


def require_precision(key: str, precision: str, device: str) -> None:
    """Raise Mistake for a precision of `key` in which `device` ("cpu", "cuda:0") does not compute."""
    if precision not in ("tf32", "bfloat16") or (device, precision) == ("cpu", "bfloat16"):
        return
    found, expected = "the CPU", "float32, bfloat16 or auto"
    if device != "cpu":
        import torch

        if torch.cuda.get_device_capability(device) >= AMPERE:
            return
        found, expected = torch.cuda.get_device_name(device), "float32 or auto"
    raise Mistake(
        f"{key}: found {precision} on {found}, expected {expected} there: GPUs have tf32 and bfloat16 since "
        "Ampere; set it to one of them, or use such GPUs"
    )


def set_tf32(allowed: bool) -> None:
    """Let GPUs of this process round the factors of float32 products to TF32's 10 bits, or not.

    torch by itself does so in convolutions, gru and lstm, and not in other products.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


@contextlib.contextmanager
def computing(precision: str) -> Iterator[None]:
    """Compute on GPUs with TF32 if `precision` is tf32, else in float32; in float32 afterwards."""
    set_tf32(precision == "tf32")
    try:
        yield
    finally:
        set_tf32(False)


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """Let GPUs of this process come to the same bits in each run, where torch has kernels that do.

    cuDNN's fastest gradients of convolutions add in an order that differs from run to run. To be entered
    before anything is computed on a card: cuBLAS reads its setting once.
    """
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    settings: Any = torch.utils.deterministic
    before = (
        torch.get_deterministic_debug_mode(),
        torch.backends.cudnn.deterministic,
        settings.fill_uninitialized_memory,
    )
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms would import the compiler
    torch.backends.cudnn.deterministic = True
    settings.fill_uninitialized_memory = False  # a kernel for each tensor that is written anyway
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        torch.backends.cudnn.deterministic, settings.fill_uninitialized_memory = before[1:]
