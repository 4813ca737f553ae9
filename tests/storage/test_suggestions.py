import pytest

from storage.suggestions import near_or_some


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("mian-0", ["one_ply", "main-0"], "nearest: main-0"),
        ("7x7", ["random", "one_ply", "b", "c"], "there are: random, one_ply, b, ..."),
        ("7x7", ["random"], "there is: random"),
        ("7x7", [], "nearest: none"),
    ],
)
def test_a_message_ends_with_what_is_near_or_else_with_some_of_what_there_is(name, known, said):
    assert near_or_some(name, known) == said
