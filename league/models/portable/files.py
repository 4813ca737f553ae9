"""Files of portable policies: written, and opened again to be checked.

    onnx           plays with onnxruntime, or whatever else reads ONNX
    torchscript    plays with torch alone: torch.jit.load
    torch          a program of torch.export: torch.export.load

Each holds its card too: names, types and shapes of inputs and outputs, game, licence; as JSON, under CARD.
torch 2.9 and later warn that TorchScript, by which the first two are written, will go one day: their other
way to ONNX needs a further package (onnxscript).
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from league.models.portable.interface import CARD, examples
from league.models.portable.module import NotPortable, Portable
from storage.errors import Mistake

OPSET = 17  # of ONNX, 2022
LARGEST_ONNX = 2_000_000_000  # bytes: what one message of protobuf can hold

# inputs by name -> outputs by name
Opened = Callable[[Mapping[str, npt.NDArray]], dict[str, npt.NDArray]]


class Kind(StrEnum):
    """Formats of a file."""

    ONNX = "onnx"
    TORCHSCRIPT = "torchscript"
    TORCH = "torch"


def write(module: Portable, kind: Kind, path: Path, card: Mapping[str, Any]) -> None:
    """Write `module` to the file `path`, which is replaced.

    Raise Mistake if a package is missing or the file would be too large, NotPortable for a network with
    operators that the format lacks.
    """
    inputs = tuple(map(torch.from_numpy, examples(module.inputs, 2)))
    text = json.dumps(card)
    with _quiet(), torch.no_grad():
        try:
            if kind is Kind.ONNX:
                _write_onnx(module, inputs, path, text)
            elif kind is Kind.TORCHSCRIPT:
                torch.jit.save(torch.jit.trace(module, inputs, check_trace=False), path, {CARD: text})
            else:
                rows = torch.export.Dim("n")
                shapes = {"given": tuple({0: rows} for _ in inputs)}
                program = torch.export.export(module, inputs, dynamic_shapes=shapes)
                with path.open("wb") as file:  # torch expects names that end in .pt2, but takes any file
                    torch.export.save(program, file, extra_files={CARD: text})
        except Mistake:
            raise
        except Exception as error:  # torch has many classes of errors for what it cannot write
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            others = " or ".join(str(other) for other in Kind if other is not kind)
            raise NotPortable(
                f"this network cannot be written as {kind}: {reason}; try --to {others}"
            ) from error


def _write_onnx(module: Portable, inputs: tuple[torch.Tensor, ...], path: Path, card: str) -> None:
    _require_onnx()
    import onnx

    size = sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values())
    if size > LARGEST_ONNX:
        raise Mistake(
            f"its weights have {size:,} bytes, expected at most {LARGEST_ONNX:,} in a file of ONNX; use --to "
            "torch"
        )
    given, found = ([value.name for value in values] for values in (module.inputs, module.outputs))
    torch.onnx.export(
        module,
        inputs,
        path,
        input_names=given,
        output_names=found,
        dynamic_axes={name: {0: "n"} for name in (*given, *found)},
        opset_version=OPSET,
        dynamo=False,
    )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {CARD: card})
    onnx.save(model, path)


def open_file(kind: Kind, path: Path) -> Opened:
    """Return the policy in a file that `write` has written. Never use it for files of others."""
    if kind is Kind.ONNX:
        return _opened_onnx(path)
    with _quiet():
        card = {CARD: ""}
        if kind is Kind.TORCHSCRIPT:
            module = torch.jit.load(path, _extra_files=card)
        else:
            with path.open("rb") as file:
                module = torch.export.load(file, extra_files=card).module()
    fields = json.loads(card[CARD])
    names, given = ([value["name"] for value in fields[key]] for key in ("outputs", "inputs"))

    def run(values: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        with torch.no_grad():
            found = module(*(torch.from_numpy(np.ascontiguousarray(values[name])) for name in given))
        return {name: tensor.numpy() for name, tensor in zip(names, found, strict=True)}

    return run


def _opened_onnx(path: Path) -> Opened:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = [value.name for value in session.get_inputs()]
    names = [value.name for value in session.get_outputs()]

    def run(values: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        return dict(zip(names, session.run(names, {name: values[name] for name in given}), strict=True))

    return run


def _require_onnx() -> None:
    for package in ("onnx", "onnxruntime"):
        try:
            __import__(package)
        except ImportError as error:
            raise Mistake(
                f"--to onnx: {package} is not installed; pip install '.[onnx]' (or --to torch, torchscript)"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from warning its users of what is known here: its exporters and traces are deprecated."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
