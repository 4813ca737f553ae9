"""`torch.cuda` of cards that are not there: `install` lets this process see them.

Streams and events order nothing, as everything is computed at once; nccl is gloo that refuses tensors of the
CPU. cuDNN, TF32, timing and races between streams are not there, so that these need a card.
"""

from __future__ import annotations

import contextlib
import functools
import types

import torch
import torch.optim.optimizer as optimizer
import torch.utils._foreach_utils as foreach
from torch import Tensor

from tests.gpu.double import counts, tensors
from tests.gpu.double.tensors import CardTensor, current, make_current, number_of, visible

NAME = "a double of a GPU"
RESIZED = ("arange", "arange.start", "arange.start_step", "linspace", "eye", "eye.m", "randperm", "range")


class Event:
    """Event that has always happened."""

    def __init__(self, *_, **__) -> None:
        self.stream: Stream | None = None

    def record(self, stream=None) -> None:
        self.stream = stream

    def wait(self, stream=None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        counts.waited("event.synchronize")

    def elapsed_time(self, other) -> float:
        return 0.0


class Stream:
    """Stream that orders nothing."""

    def __init__(self, device=None, priority=0, **_) -> None:
        self.device = torch.device("cuda", number_of(device))

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event) -> None:
        pass

    def wait_stream(self, stream) -> None:
        pass

    def synchronize(self) -> None:
        counts.waited("stream.synchronize")


class _On(contextlib.AbstractContextManager):
    """A block whose card is that of a device or of a stream."""

    def __init__(self, device) -> None:
        of = device.device if isinstance(device, Stream) else device
        self._card = None if of is None else number_of(of)

    def __enter__(self):
        self._before = current()
        if self._card is not None:
            make_current(self._card)
        return self

    def __exit__(self, *_):
        make_current(self._before)


def _reset_peak(device=None) -> None:
    tensors.peak[number_of(device)] = tensors.allocated[number_of(device)]


def _properties(device=None):
    return types.SimpleNamespace(
        name=NAME, total_memory=tensors.room(), major=9, minor=0, multi_processor_count=1
    )


def _free_and_room(device=None) -> tuple[int, int]:
    return tensors.room() - tensors.allocated[number_of(device)], tensors.room()


def _set_part(part: float, device=None) -> None:
    tensors.part[number_of(device)] = part


def _on_card(tensor: Tensor, device=None, non_blocking: bool = False) -> Tensor:
    return tensor.to(torch.device("cuda", number_of(device)), non_blocking=non_blocking)


def install() -> None:
    """Let torch see as many cards in this process as DOUBLE_CARDS says."""
    if torch.cuda.Stream is Stream:
        return
    _catch_factories()
    replaced = {
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "is_available": lambda: visible() > 0,
        "is_initialized": lambda: True,
        "device_count": visible,
        "current_device": current,
        "set_device": lambda device: make_current(number_of(device)),
        "is_bf16_supported": lambda *_, **__: True,
        "get_device_name": lambda device=None: NAME,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_properties": _properties,
        "synchronize": lambda device=None: counts.waited("torch.cuda.synchronize"),
        "Stream": Stream,
        "Event": Event,
        "current_stream": Stream,
        "default_stream": Stream,
        "stream": _On,
        "device": _On,
        "memory_allocated": lambda device=None: tensors.allocated[number_of(device)],
        "memory_reserved": lambda device=None: tensors.allocated[number_of(device)],
        "max_memory_allocated": lambda device=None: tensors.peak[number_of(device)],
        "reset_peak_memory_stats": _reset_peak,
        "empty_cache": lambda: None,
        "utilization": lambda device=None: 0,
        "mem_get_info": _free_and_room,
        "set_per_process_memory_fraction": _set_part,
        "get_per_process_memory_fraction": lambda device=None: tensors.part[number_of(device)],
        "_sleep": lambda cycles: None,
    }
    for name, own in replaced.items():
        setattr(torch.cuda, name, own)
    torch.empty = _with_pinned(torch.empty)
    Tensor.pin_memory = lambda self, device=None: tensors.pin(self)
    Tensor.is_pinned = lambda self, device=None: tensors.is_pinned(self)
    Tensor.cuda = _on_card
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    torch.gru, torch.lstm = _as_cudnn(torch.gru), _as_cudnn(torch.lstm)
    for kinds in (optimizer._foreach_supported_types, getattr(foreach, "_foreach_supported_types", [])):
        if CardTensor not in kinds:
            kinds.append(CardTensor)
    _install_nccl()


def _with_pinned(empty):
    """Return `torch.empty` with pinned memory."""

    @functools.wraps(empty)
    def made(*sizes, pin_memory: bool = False, **options):
        found = empty(*sizes, **options)
        return tensors.note_pinned(found) if pin_memory else found

    return made


def _as_cudnn(kernel):
    """Return a packed recurrent kernel that takes what cuDNN takes: of each step at least one sequence."""

    @functools.wraps(kernel)
    def checked(data, sizes, *rest):
        if isinstance(sizes, Tensor) and sizes.dim() == 1 and not bool((sizes > 0).all()):
            raise RuntimeError("cuDNN error: CUDNN_STATUS_BAD_PARAM")
        return kernel(data, sizes, *rest)

    return checked


def _catch_factories() -> None:
    """Let operators without an operand on a card reach `tensors.run`, if their result is to be on one."""
    fallback = torch.library.Library("_", "IMPL", "CUDA")
    fallback.fallback(lambda op, *args, **kwargs: tensors.run(op, args, kwargs))
    own = torch.library.Library("aten", "IMPL", "CUDA")
    # torch.tensor(..., device="cuda") runs without Python's key: its copy reaches the key CUDA itself
    own.impl("copy_", functools.partial(tensors.run_named, "copy_"))
    own.impl("_to_copy", functools.partial(tensors.run_named, "_to_copy"))
    for name in RESIZED:  # torch's own kernels resize a result in place
        own.impl(name, functools.partial(tensors.run_named, name))
    torch._kept_for_the_double = fallback, own  # a library that is collected takes its kernels along


def _install_nccl() -> None:
    import torch.distributed as distributed

    if not distributed.is_available():
        return
    begin, reduce = distributed.init_process_group, distributed.all_reduce
    joined: dict[str, str | None] = {}

    def init_process_group(backend=None, *args, **kwargs):
        joined["backend"] = backend
        return begin("gloo" if backend == "nccl" else backend, *args, **kwargs)

    def all_reduce(tensor, *args, **kwargs):
        on_card, nccl = isinstance(tensor, CardTensor), joined.get("backend") == "nccl"
        if on_card != nccl:
            kind, other = ("cuda", "gloo") if on_card else ("cpu", "nccl")
            raise RuntimeError(f"No backend type associated with device type {kind} ({other})")
        if nccl:
            counts.launched("nccl all_reduce")
        return reduce(tensor.inside if on_card else tensor, *args, **kwargs)

    distributed.init_process_group, distributed.all_reduce = init_process_group, all_reduce
    distributed.get_backend = lambda group=None: joined.get("backend")
