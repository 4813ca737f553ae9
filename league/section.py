"""Base classes of the sections of a config."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """Group of settings: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StoredPolicy(Section):
    """A policy that is stored: a snapshot of a run, or an exported folder."""

    run: str | None = Field(default=None, description="Run folder to take a snapshot from")
    snapshot: str | None = Field(
        default=None,
        description="Snapshot in that run (id or unique prefix), or a player, for its newest snapshot",
    )
    folder: str | None = Field(
        default=None, description="Folder made by `league snapshots RUN export ID DIR`"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.run is None) == (self.folder is None) or (self.run is None) != (self.snapshot is None):
            raise ValueError(f"found {self.source}, expected run and snapshot, or folder alone")
        return self

    @property
    def source(self) -> str:
        """The source as messages show it."""
        given = ((name, getattr(self, name)) for name in ("run", "snapshot", "folder"))
        return ", ".join(f"{name} {value}" for name, value in given if value is not None) or "nothing"
