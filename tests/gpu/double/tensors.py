"""Tensors of a card that is not there: they report "cuda:i", compute on the CPU, and fail where a card would.

A `CardTensor` holds an ordinary tensor of the CPU. Every operator reaches `run`, below autograd and autocast,
as a kernel of a card does. Factories (`torch.zeros(..., device="cuda")`) are caught by a fallback of the
dispatch key CUDA, so that no mode is entered, and all threads are covered.

    raises    for operands on two devices, `numpy()`, pinning of what is on a card, cards that do not exist,
              and memory beyond a limit; and for good, once a card is broken
    counts    launches, copies and waits: counts.py
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import os
import weakref

import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing

from tests.gpu.double import building, counts
from tests.gpu.double.cells import CELLS

CARDS = "DOUBLE_CARDS"  # environment variable: number of cards
BYTES = "DOUBLE_BYTES"  # bytes that each card has room for
BREAKS = "DOUBLE_BREAKS"  # "FILE:CALLS": the first process that removes FILE breaks after so many operators
ROOM = 80 * 2**30  # bytes of a card, unless the variable says otherwise

aten = torch.ops.aten
allocated: collections.Counter = collections.Counter()  # bytes of each card
peak: collections.Counter = collections.Counter()  # the most bytes of each card since the last reset
part: dict[int, float] = collections.defaultdict(lambda: 1.0)  # of each card, that this process may take
_guard = building.loaded()
_sizes: dict[int, int] = {}  # bytes of each live storage of a card, by its address
_pinned: set[int] = set()  # addresses of live storages in pinned memory


def visible() -> int:
    """Return the number of cards of this process, as far as CUDA_VISIBLE_DEVICES shows them."""
    shown, most = os.environ.get("CUDA_VISIBLE_DEVICES"), int(os.environ[CARDS])
    if "MIG-" in (shown or ""):  # a process sees one slice of a card
        return 1
    return most if shown is None else min(most, len([one for one in shown.split(",") if one.strip()]))


def current() -> int:
    """Return the number of this thread's card."""
    return _guard.current_card()


def make_current(card: int) -> None:
    """Set this thread's card. Raise RuntimeError if there is no such card."""
    _check(card)
    _guard.set_current_card(card)


def number_of(device: torch.device | str | int | None) -> int:
    """Return the number of the card that `device` means."""
    if device is None or isinstance(device, int):
        return current() if device is None else device
    index = torch.device(device).index
    return current() if index is None else index


def room() -> int:
    """Return the bytes of each card."""
    return int(os.environ.get(BYTES, ROOM))


def pin(tensor: Tensor) -> Tensor:
    """Return a copy of a tensor of the CPU in pinned memory."""
    if isinstance(tensor, CardTensor):
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    if is_pinned(tensor):
        return tensor
    counts.copied("pin_memory", tensor.nbytes)
    return note_pinned(tensor.clone())


def note_pinned(made: Tensor) -> Tensor:
    """Return a tensor of the CPU, which is in pinned memory from now on."""
    storage = made.untyped_storage()
    _pinned.add(storage._cdata)
    weakref.finalize(storage, _pinned.discard, storage._cdata)
    made._keeps_pinned = storage  # a storage that only C++ holds on to loses its Python object
    return made


def is_pinned(tensor: Tensor) -> bool:
    """Return whether a tensor is in pinned memory."""
    return not isinstance(tensor, CardTensor) and tensor.untyped_storage()._cdata in _pinned


class CardTensor(Tensor):
    """A tensor on a card that is not there; `inside` holds its numbers."""

    @staticmethod
    def __new__(cls, inside: Tensor, card: int, requires_grad: bool = False):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            layout=inside.layout,
            device=torch.device("cuda", card),
            requires_grad=requires_grad,
        )
        made.inside, made.card = inside, card
        return made

    def __init__(self, inside: Tensor, card: int, requires_grad: bool = False) -> None:
        _allocate(inside.untyped_storage(), card)

    def __tensor_flatten__(self):
        return ["inside"], self.card

    @staticmethod
    def __tensor_unflatten__(inner, card, size, stride):
        return CardTensor(inner["inside"], card)

    def __repr__(self, *, tensor_contents=None) -> str:
        return f"CardTensor({self.inside!r}, cuda:{self.card})"

    def __reduce_ex__(self, protocol):
        raise RuntimeError("a tensor on a card is pickled: another process may not have that card")

    def numpy(self, *, force: bool = False):
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )

    def __array__(self, dtype=None):
        return self.numpy()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            made = CardTensor(copy.deepcopy(self.inside.detach()), self.card)
            made.requires_grad_(self.requires_grad)
            made._is_param = getattr(self, "_is_param", False)
            memo[id(self)] = made
        return memo[id(self)]

    def untyped_storage(self):
        return self.inside.untyped_storage()

    def data_ptr(self) -> int:
        return self.inside.data_ptr()

    def record_stream(self, stream) -> None:
        if not isinstance(stream, torch.cuda.Stream):
            raise TypeError("record_stream: expected a torch.cuda.Stream")

    def tolist(self):
        counts.waited("tolist")
        return self.inside.detach().tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def _check(card: int) -> None:
    if not 0 <= card < visible():
        raise RuntimeError("CUDA error: invalid device ordinal")


def _allocate(storage: torch.UntypedStorage, card: int) -> None:
    """Count the bytes of a storage that is new, until it is freed. Raise OutOfMemoryError beyond the room."""
    key, size = storage._cdata, storage.nbytes()
    if key in _sizes:
        return
    if allocated[card] + size > room() * part[card]:
        free, most = room() - allocated[card], room() * part[card]
        allowed = f" {most / 2**20:.2f} MiB allowed;" if part[card] < 1.0 else ""
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / 2**20:.2f} MiB. GPU {card} has a total capacity "
            f"of {room() / 2**30:.2f} GiB of which {free / 2**20:.2f} MiB is free.{allowed}"
        )
    _sizes[key] = size
    allocated[card] += size
    peak[card] = max(peak[card], allocated[card])
    weakref.finalize(storage, _freed, key, card)


def _freed(key: int, card: int) -> None:
    allocated[card] -= _sizes.pop(key, 0)


# ------------------------------------------------------------------ operators

ANY_DEVICE = {aten.copy_.default, aten._to_copy.default}
CPU_INDICES = {
    aten.index.Tensor,
    aten.index_put_.default,
    aten.index_put.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}
NO_KERNEL = {aten.detach.default, aten.alias.default, aten._local_scalar_dense.default}
READS = {  # the host waits for their result
    aten._local_scalar_dense.default: "item",
    aten.item.default: "item",
    aten.nonzero.default: "nonzero",
    aten.equal.default: "equal",
    aten.masked_select.default: "masked_select",
    aten.repeat_interleave.Tensor: "repeat_interleave",
    aten.unique_dim.default: "unique",
    aten._unique2.default: "unique",
    aten.is_nonzero.default: "is_nonzero",
}


class _Operator:
    """What there is to know of an operator, found out once: most tests take thousands of calls."""

    def __init__(self, func) -> None:
        self.name = func.__name__
        self.kernel = CELLS.get(func, func)
        self.reads = READS.get(func)
        self.any_device, self.cpu_indices = func in ANY_DEVICE, func in CPU_INDICES
        self.has_kernel = _has_kernel(func)
        schema = func._schema
        self.writes = any(x.alias_info is not None and x.alias_info.is_write for x in schema.arguments)
        self.corrected = self.writes and bool(schema.returns)  # operands that it writes are its results
        named = func.__name__.partition(".")[0].endswith("_") and torch.Tag.inplace_view not in func.tags
        self.in_place = self.corrected and named and len(schema.returns) == 1


_operator = functools.cache(_Operator)


def run(func, args, kwargs):
    """Compute an operator as a card would: on its operands' card, or the one that `device` names."""
    if BREAKS in os.environ or _calls["broken"]:
        _broken()
    if func is aten.record_stream.default:
        return None
    known, operands = _operator(func), []
    plain_args = [_plain(x, operands) for x in args]
    target: int | None = _card_of(known, func, args, operands)
    plain_kwargs = {name: _plain(x, operands) for name, x in kwargs.items()}
    if kwargs.get("device") is not None:
        device = torch.device(kwargs["device"])
        plain_kwargs["device"] = torch.device("cpu")
        target = number_of(device) if device.type == "cuda" else None
        if target is not None:
            _check(target)
    if plain_kwargs.pop("pin_memory", None):
        raise RuntimeError("only dense CPU tensors can be pinned")
    if func is aten._to_copy.default:
        return _to_copy(args[0], target, plain_args, plain_kwargs)
    if func is aten.copy_.default:
        _count_copy(args[0], args[1], blocking=not (args[2:] and args[2]))
    if known.reads:
        counts.waited(known.reads)
    if known.cpu_indices and any(_is_mask(index) for index in args[1]):
        counts.waited("boolean index")
    try:
        found = known.kernel(*plain_args, **plain_kwargs)
    except IndexError as error:
        if "out of bounds for dimension" in str(error):  # found by the kernel, not by what calls it
            _calls["broken"] = 1
            raise torch.AcceleratorError("CUDA error: device-side assert triggered") from None
        raise
    if known.has_kernel and not (func is aten.copy_.default and _crosses(args[0], args[1])):
        counts.launched(known.name)
    if known.writes:
        for x in operands:
            if isinstance(x, CardTensor) and x.shape != x.inside.shape:
                raise NotImplementedError(f"the double of a GPU: {func} resizes a tensor in place")
        if known.in_place:
            return args[0]
    if target is not None:
        found = _on_card(found, target)
    return return_and_correct_aliasing(func, args, kwargs, found) if known.corrected else found


def _plain(x, operands: list[Tensor]):
    """Return what the CPU computes with in place of `x`; add the tensors in it to `operands`."""
    if isinstance(x, Tensor):
        operands.append(x)
        return x.inside if isinstance(x, CardTensor) else x
    return [_plain(each, operands) for each in x] if isinstance(x, (list, tuple)) else x


def _on_card(found, card: int):
    """Return the results of an operator as tensors on that card."""
    if type(found) is Tensor:
        return CardTensor(found, card)
    return type(found)(_on_card(x, card) for x in found) if isinstance(found, (list, tuple)) else found


def run_named(name: str, *args, **kwargs):
    """Compute the operator of that name: "arange.start"."""
    packet, _, overload = name.partition(".")
    return run(getattr(getattr(aten, packet), overload or "default"), args, kwargs)


def _to_copy(source: Tensor, target: int | None, plain_args, plain_kwargs):
    if target is None:
        counts.copied("d2h", source.nbytes)
        counts.waited("copy to the host")
        return aten._to_copy.default(*plain_args, **plain_kwargs)
    if isinstance(source, CardTensor):
        counts.launched("copy")
    else:
        counts.copied("pinned h2d" if is_pinned(source) else "pageable h2d", source.nbytes)
    return CardTensor(aten._to_copy.default(*plain_args, **plain_kwargs), target)


def _crosses(to: Tensor, source: Tensor) -> bool:
    """Return whether a copy goes between the host and a card."""
    return isinstance(to, CardTensor) != isinstance(source, CardTensor)


def _count_copy(to: Tensor, source: Tensor, *, blocking: bool) -> None:
    if isinstance(to, CardTensor) and not isinstance(source, CardTensor):
        counts.copied("pinned h2d" if is_pinned(source) else "pageable h2d", source.nbytes)
    elif isinstance(source, CardTensor) and not isinstance(to, CardTensor):
        counts.copied("d2h", source.nbytes)
        if blocking or not is_pinned(to):
            counts.waited("copy to the host")


def _card_of(known: _Operator, func, args, operands: list[Tensor]) -> int:
    """Return the card of the operands. Raise RuntimeError, as a card would, if they are on two devices."""
    cards = {x.card for x in operands if isinstance(x, CardTensor)}
    card = min(cards, default=-1)
    if card < 0:
        card = current()
    if known.any_device:
        return card
    if len(cards) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found {sorted(cards)} in {func}"
        )
    strangers = [x for x in operands if not isinstance(x, CardTensor) and x.dim() > 0]
    if known.cpu_indices:
        indices = [x for x in args[1] if isinstance(x, Tensor)]
        for index in indices:
            if not isinstance(index, CardTensor):
                counts.copied("pageable h2d (index)", index.nbytes)
        strangers = [x for x in strangers if not any(x is index for index in indices)]
    if func is aten.index_put_.default and not isinstance(args[0], CardTensor):
        strangers = [x for x in operands if isinstance(x, CardTensor)]
    if cards and strangers:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:{card} "
            f"and cpu! (in {func})"
        )
    return card


def _is_mask(index) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def _has_kernel(func) -> bool:
    """Return whether an operator launches a kernel: it is no view, and no composition of others."""
    views = any(a.alias_info is not None and not a.alias_info.is_write for a in func._schema.arguments)
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return not (composed or views or func in NO_KERNEL)


_calls: dict[str, int] = {"made": 0, "broken": 0}


def _broken() -> None:
    """Raise AcceleratorError for good once this process has broken its card, as after an illegal access."""
    file, _, after = os.environ.get(BREAKS, "").rpartition(":")
    _calls["made"] += 1
    if not _calls["broken"] and _calls["made"] > int(after):
        with contextlib.suppress(FileNotFoundError):  # another process broke: the next one works again
            os.unlink(file)
            _calls["broken"] = 1
    if _calls["broken"]:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
