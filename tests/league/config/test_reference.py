"""The reference of keys, rendered from settings classes."""

from typing import Annotated, Literal

from pydantic import Field

from league.config.reference import reference
from league.section import SettingsGroup


class Cat(SettingsGroup):
    """A cat. It purrs."""

    kind: Literal["cat"] = "cat"
    lives: int = Field(default=9, ge=1, le=9, description="Lives left")


class Dog(SettingsGroup):
    """A dog."""

    kind: Literal["dog"] = "dog"
    tricks: tuple[str, ...] = Field(default=(), description="sit | roll")


class Basket(SettingsGroup):
    """Where it sleeps.

    Not part of the summary.
    """

    width: float | None = Field(default=None, gt=0, description="Width in metres, `null` for any")


class Home(SettingsGroup):
    """A home."""

    pets: dict[str, Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(
        default_factory=dict, description="Pets by name."
    )
    basket: Basket = Basket()
    size: float | Basket = Field(default=1.0, description="A number or a basket")
    rooms: dict[str, object] = Field(default_factory=dict, description="Rooms by name")
    street: str = Field(description="Street")


PAGE = reference(Home, {"rooms": {"attic": Basket, "kitchen": Cat}})


def test_each_key_is_a_row_with_type_default_and_meaning():
    assert "| `street` | text | required | Street |" in PAGE
    assert "| `lives` | integer, >= 1, <= 9 | `9` | Lives left |" in PAGE
    assert "| `width` | number or `null`, > 0 | `null` | Width in metres, `null` for any |" in PAGE
    assert "| `tricks` | list of text | `[]` | sit \\| roll |" in PAGE


def test_sections_refer_to_their_own_tables_and_have_a_summary():
    assert "| `basket` | section | its defaults | Where it sleeps: see `basket` |" in PAGE
    assert "### `basket`\n\nWhere it sleeps.\n\n| key" in PAGE
    assert "| `size` | number or section | `1.0` | A number or a basket: see `size` |" in PAGE


def test_members_of_a_union_are_told_apart_by_their_kind():
    assert "| `pets` | mapping to section | `{}` | Pets by name: see `pets.<name>` |" in PAGE
    assert "### `pets.<name>`, `kind: cat`\n\nA cat. It purrs.\n" in PAGE
    assert "### `pets.<name>`, `kind: dog`\n" in PAGE


def test_classes_that_annotations_do_not_show_are_given_by_path():
    assert "### `rooms.attic`\n\nWhere it sleeps.\n" in PAGE
    assert "### `rooms.kitchen`\n" in PAGE
    assert "| Rooms by name: see `rooms.attic`, `rooms.kitchen` |" in PAGE
