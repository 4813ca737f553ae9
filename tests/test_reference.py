"""configs/REFERENCE.md: made by a command, fresh, and complete."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from league.commands.app import app
from league.commands.reference import page
from league.config.settings import Settings
from league.rules.roles import RoleSettings
from league.tournament.settings import TournamentSettings

REFERENCE = Path(__file__).parents[1] / "configs" / "REFERENCE.md"


def test_the_reference_of_config_keys_is_fresh():
    assert REFERENCE.read_text(encoding="utf-8") == page(), (
        "configs/REFERENCE.md is not what the settings say now; "
        "make it again: league config reference --out configs/REFERENCE.md"
    )


def keys(schema):
    """All keys of all sections in a JSON Schema."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"]
        for value in schema.values():
            yield from keys(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from keys(value)


@pytest.mark.parametrize("settings", [Settings, RoleSettings, TournamentSettings])
def test_every_key_of_every_section_is_in_it_with_its_meaning(settings):
    rows = [line.split(" | ") for line in REFERENCE.read_text(encoding="utf-8").splitlines()]
    meanings = {row[0].removeprefix("| ").strip("`"): row[-1] for row in rows if row[0].startswith("| `")}
    wanted = set(keys(settings.model_json_schema()))
    assert len(wanted) > 20
    assert wanted <= set(meanings)
    assert all(meanings[key].strip(" |") for key in wanted - {"kind"})


def test_the_command_prints_the_page_or_writes_it(tmp_path):
    printed = CliRunner().invoke(app, ["config", "reference"])
    written = CliRunner().invoke(app, ["config", "reference", "--out", str(tmp_path / "keys.md")])
    assert (printed.exit_code, written.exit_code) == (0, 0)
    assert printed.output == (tmp_path / "keys.md").read_text(encoding="utf-8") == page()
