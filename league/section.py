"""Base class of all sections of a config."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Group of settings: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
