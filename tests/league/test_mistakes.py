"""Errors of pydantic as sentences."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError, field_validator

from league.mistakes import explain
from league.section import SettingsGroup


class Inner(SettingsGroup):
    beats: int = 0

    @field_validator("beats")
    @classmethod
    def _is_even(cls, beats: int) -> int:
        if beats % 2:
            raise ValueError(f"found {beats}, expected an even number")
        return beats


class Outer(SettingsGroup):
    size: int
    freeze: Inner = Inner()
    runners: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] = "auto"


def error_of(fields):
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(fields)
    return caught.value


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"size": "x"}, "roles.main.size: found 'x'; input should be a valid integer"),
        ({"size": 1, "freeze": {"beats": 3}}, "roles.main.freeze.beats: found 3, expected an even number"),
        (
            {"size": 1, "freeze": {"beat": 3}},
            "unknown key 'roles.main.freeze.beat'; did you mean 'beats'?",
        ),
        ({"size": 1, "qqq": 3}, "unknown key 'roles.main.qqq'; expected one of: freeze, runners, size"),
        ({}, "roles.main.size: missing, expected a value"),
    ],
)
def test_an_error_is_one_sentence_with_the_place(fields, sentence):
    found = explain(error_of(fields), Outer, "roles.main")
    assert found.startswith(sentence)
    assert "\n" not in found


def test_all_mistakes_are_in_the_sentence_and_no_place_is_needed():
    found = explain(error_of({"size": "x", "freeze": {"beats": 3}}), Outer)
    assert found.startswith("size: found 'x'; ")
    assert found.endswith("; freeze.beats: found 3, expected an even number")


def test_with_the_model_an_unknown_key_comes_with_those_that_are_known():
    assert explain(error_of({"size": 1, "sise": 2}), Outer) == "unknown key 'sise'; did you mean 'size'?"
    assert (
        explain(error_of({"size": 1, "q": 2}), Outer)
        == "unknown key 'q'; expected one of: freeze, runners, size"
    )


@pytest.mark.parametrize("value", [-1, 65, "many"])
def test_a_value_of_one_of_several_kinds_is_named_once_with_all_that_is_expected(value):
    said = explain(error_of({"size": 1, "runners": value}), Outer)
    assert said.startswith(f"runners: found {value!r}; input should be ")
    assert said.endswith(", or 'auto'")
    assert said.count("runners") == 1
