"""Precision of a GPU is said and set; its errors are told apart, each in one sentence."""

import contextlib
import os

import pytest
import torch

from league.cluster.cards import (
    CardBroken,
    CardFull,
    card_errors,
    computing,
    failure_of,
    repeatable,
    require_precision,
)
from league.cluster.runtime import prepare_process
from storage.errors import Mistake

FULL = (
    "CUDA out of memory. Tried to allocate 268.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which "
    "63.56 MiB is free. Process 4053 has 138.79 GiB memory in use."
)
ASSERTED = (
    "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some "
    "other API call.\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
)


def tf32():
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32


def test_a_process_that_plays_or_learns_computes_strictly_in_float32():
    torch.backends.cudnn.allow_tf32 = True  # as torch begins
    prepare_process(torch.get_num_threads())
    assert tf32() == (False, False)


@pytest.mark.parametrize(("precision", "wanted"), [("tf32", True), ("float32", False), ("bfloat16", False)])
def test_tf32_is_in_all_products_or_in_none_and_ends_with_what_asked_for_it(precision, wanted):
    torch.backends.cudnn.allow_tf32 = True
    with computing(precision):
        assert tf32() == (wanted, wanted)
    assert tf32() == (False, False)


def test_kernels_that_repeat_to_the_bit_are_asked_for_as_long_as_a_run_lasts(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)

    def state():
        fills = torch.utils.deterministic.fill_uninitialized_memory
        return torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic, fills

    before = state()
    with repeatable():
        assert state() == (True, True, False)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert state() == before


def test_a_full_card_is_one_sentence_with_bytes_and_settings(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    with (
        pytest.raises(CardFull, match=r"^player main-0: GPU 3 of \S+ has no memory left: 268.00 MiB were"),
        card_errors("player main-0", "lower learner.batch_steps"),
    ):
        raise torch.OutOfMemoryError(FULL)
    found = failure_of(torch.OutOfMemoryError(FULL), "play", "lower rollout.slots", 1)
    assert str(found).startswith("play: GPU 5 of ")
    assert str(found).endswith("63.56 MiB of 139.80 GiB were free; lower rollout.slots")


@pytest.mark.parametrize(
    ("precision", "device", "since", "message"),
    [
        ("tf32", "cpu", None, "found tf32 on the CPU, expected float32, bfloat16 or auto there"),
        ("tf32", "cuda", (7, 5), "found tf32 on T4, expected float32 or auto there: GPUs have tf32 and bf"),
        ("bfloat16", "cuda", (7, 0), "found bfloat16 on T4, expected float32 or auto there"),
        ("bfloat16", "cuda", (8, 0), ""),
        ("tf32", "cuda", (9, 0), ""),
        ("bfloat16", "cpu", None, ""),
        ("float32", "cuda", (6, 1), ""),
    ],
)
def test_a_precision_that_a_device_lacks_is_refused_in_one_sentence(
    precision, device, since, message, monkeypatch
):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: since)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "T4")
    refused = pytest.raises(Mistake, match=message) if message else contextlib.nullcontext()
    with refused:
        require_precision("learner.precision", precision, device)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.AcceleratorError(ASSERTED), CardBroken),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), CardBroken),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), CardBroken),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `gemm`"), CardBroken),
        (RuntimeError("NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.2"), CardBroken),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `create`"), CardFull),
        (torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be"), CardFull),
        (RuntimeError("cuDNN error: CUDNN_STATUS_BAD_PARAM"), None),
        (torch.AcceleratorError("CUDA error: invalid configuration argument"), None),
        (RuntimeError("Expected all tensors to be on the same device"), None),
        (ValueError("CUDA error: a text of another kind"), None),
    ],
)
def test_errors_of_a_card_are_told_from_those_of_code(error, kind):
    found = failure_of(error)
    assert type(found) is (kind or type(None))
    assert "\n" not in str(found)


def test_an_error_of_code_passes_as_it_is():
    with pytest.raises(RuntimeError, match=r"^shape mismatch$"), card_errors("play", ""):
        raise RuntimeError("shape mismatch")
