"""The precision in which policies compute on the CPU, as settings name it."""

from __future__ import annotations

from typing import Literal

Precision = Literal["float32", "bfloat16", "auto"]  # auto: whichever is faster here
