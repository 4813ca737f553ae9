"""Files of portable policies, as ONNX. `league.models.bots.kinds.onnx_file` opens them again.

Each holds its card too: names, types and shapes of inputs and outputs, game, licence; as JSON, under CARD.
torch 2.9 and later warn that TorchScript, by which they are written, will go one day: the other way to ONNX
needs a further package (onnxscript).
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from league.models.portable.interface import CARD, examples
from league.models.portable.module import NotPortable, Portable
from storage.errors import Mistake

OPSET = 17  # of ONNX, 2022
LARGEST = 2_000_000_000  # bytes: what one message of protobuf can hold
INSTEAD = "keep it as a folder of this library (--to folder)"


def write(module: Portable, path: Path, card: Mapping[str, Any]) -> None:
    """Write `module` to the file `path`, which is replaced.

    Raise Mistake if a package is missing or the file would be too large, NotPortable for a network with
    operators that ONNX lacks.
    """
    _require_onnx()
    import onnx

    size = sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values())
    if size > LARGEST:
        raise Mistake(
            f"its weights have {size:,} bytes, expected at most {LARGEST:,} in a file of ONNX; {INSTEAD}"
        )
    given, found = ([value.name for value in values] for values in (module.inputs, module.outputs))
    try:
        with _quiet(), torch.no_grad():
            torch.onnx.export(
                module,
                tuple(map(torch.from_numpy, examples(module.inputs, 2))),
                path,
                input_names=given,
                output_names=found,
                dynamic_axes={name: {0: "n"} for name in (*given, *found)},
                opset_version=OPSET,
                dynamo=False,
            )
        model = onnx.load(path)
        onnx.helper.set_model_props(model, {CARD: json.dumps(card)})
        onnx.save(model, path)
    except Exception as error:  # torch has many classes of errors for what it cannot write
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise NotPortable(f"this network cannot be written as onnx: {reason}; {INSTEAD}") from error


def _require_onnx() -> None:
    for package in ("onnx", "onnxruntime"):
        try:
            __import__(package)
        except ImportError as error:
            raise Mistake(
                f"--to onnx: {package} is not installed; pip install '.[onnx]' (or --to folder)"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from warning its users of what is known here: this exporter is deprecated."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
